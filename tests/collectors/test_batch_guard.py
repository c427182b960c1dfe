"""A lent batch whose memory was collected into again must not give other data, whichever way it is read."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from tensordict import TensorDict, stack

from slipstream.collectors import OverwrittenBatchError, SyncDataCollector

READS = {
    "key": lambda b: b["reward"],
    "nested key": lambda b: b["next", "observation", "count"],
    "get": lambda b: b.get("reward"),
    "get with default": lambda b: b.get("nothing", None),
    "get_at": lambda b: b.get_at("reward", 0),
    "in": lambda b: "reward" in b.keys(),  # noqa: SIM118
    "keys": lambda b: list(b.keys()),
    "keys, deep": lambda b: list(b.keys(True, True)),
    "items": lambda b: list(b.items()),
    "values": lambda b: list(b.values()),
    "to_dict": lambda b: b.to_dict(),
    "iterate": lambda b: list(b),
    "unbind": lambda b: b.unbind(0),
    "index": lambda b: b[0],
    "slice": lambda b: b[:, :2],
    "mask": lambda b: b[torch.tensor([True, False])],
    "gather": lambda b: b.gather(1, torch.zeros(2, 1, dtype=torch.long)),
    "clone": lambda b: b.clone(),
    "shallow clone": lambda b: b.clone(recurse=False),
    "copy": lambda b: b.copy(),
    "copy.copy": lambda b: copy.copy(b),
    "copy.deepcopy": lambda b: copy.deepcopy(b),
    "pickle": lambda b: pickle.dumps(b),
    "to the same device": lambda b: b.to("cpu"),
    "to a dtype": lambda b: b.to(torch.float64),
    "cpu": lambda b: b.cpu(),
    "contiguous": lambda b: b.contiguous(),
    "reshape": lambda b: b.reshape(-1),
    "flatten": lambda b: b.flatten(0, 1),
    "transpose": lambda b: b.transpose(0, 1),
    "permute": lambda b: b.permute(1, 0),
    "split": lambda b: b.split(1, 0),
    "select": lambda b: b.select("reward"),
    "exclude": lambda b: b.exclude("reward"),
    "flatten_keys": lambda b: b.flatten_keys("."),
    "apply": lambda b: b.apply(lambda x: x),
    "equality": lambda b: b == b,
    "arithmetic": lambda b: b + 1,
    "torch.stack": lambda b: torch.stack([b, b]),
    "tensordict.stack": lambda b: stack([b, b]),
    "torch.cat": lambda b: torch.cat([b, b]),
    "into another": lambda b: TensorDict(batch_size=[2, 3]).update(b),
    "len": lambda b: len(b),
    "shape": lambda b: b.shape,
    "numel": lambda b: b.numel(),
    "attribute": lambda b: b.device,
    "lock": lambda b: b.lock_(),
    "pop": lambda b: b.pop("reward"),
}
WRITES = {
    "key": lambda b: b.__setitem__("reward", torch.zeros(2, 3)),
    "index": lambda b: b.__setitem__(0, 0),
    "set": lambda b: b.set("more", torch.zeros(2, 3)),
    "set_": lambda b: b.set_("reward", torch.zeros(2, 3)),
    "update": lambda b: b.update({"more": torch.zeros(2, 3)}),
    "zero_": lambda b: b.zero_(),
    "batch_size": lambda b: setattr(b, "batch_size", [2]),
    "delete": lambda b: b.__delitem__("reward"),
}


@pytest.fixture
def overwritten(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 6, return_same_td=True)
    batch = collector.rollout()
    collector.rollout()
    collector.rollout()
    return batch


@pytest.mark.parametrize("use", READS.values(), ids=READS.keys())
def test_reading_an_overwritten_batch_raises(overwritten, use):
    with pytest.raises(OverwrittenBatchError):
        use(overwritten)


@pytest.mark.parametrize("use", WRITES.values(), ids=WRITES.keys())
def test_writing_to_an_overwritten_batch_raises(overwritten, use):
    with pytest.raises(OverwrittenBatchError):
        use(overwritten)


def test_the_error_names_the_three_remedies(overwritten):
    with pytest.raises(OverwrittenBatchError, match=r"batch\.clone\(\).*return_same_td=False.*ring_size"):
        overwritten["reward"]


def test_an_overwritten_batch_can_be_shown(overwritten):
    assert repr(overwritten) == "<a batch overwritten by a later rollout>"
    assert isinstance(overwritten, TensorDict)


@pytest.mark.parametrize("key", ["observation", "info", "next", ("next", "observation")])
@pytest.mark.parametrize("lock", [False, True])
def test_a_nested_tensordict_taken_out_is_guarded_too(counter_env, policy, key, lock):
    collector = SyncDataCollector(counter_env(2), policy, 6, return_same_td=True, ring_size=1)
    batch = collector.rollout()
    if lock:
        batch.lock_()
    nested = batch[key]
    assert list(nested.keys()) and list(nested.items())
    collector.rollout()
    for use in (lambda: nested["count"], lambda: list(nested.keys()), lambda: len(nested)):
        with pytest.raises(OverwrittenBatchError):
            use()


@pytest.mark.parametrize("ring_size", [1, 2, 4])
def test_a_batch_lives_until_ring_size_more_are_collected(counter_env, policy, ring_size):
    lent = SyncDataCollector(counter_env(2), policy, 6, return_same_td=True, ring_size=ring_size)
    own = SyncDataCollector(counter_env(2), policy, 6)
    batches, copies = [], []
    for i in range(3 * ring_size):
        batches.append(lent.rollout())
        copies.append(own.rollout())
        alive = range(max(0, i + 1 - ring_size), i + 1)
        assert all((batches[j] == copies[j]).all() for j in alive)
        for j in range(alive.start):
            with pytest.raises(OverwrittenBatchError):
                batches[j]["reward"]


def test_what_was_cloned_survives(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 6, return_same_td=True, ring_size=1)
    kept = collector.rollout().clone()
    collector.rollout()
    assert kept["reward"].tolist() == [[1, 2, 0], [11, 12, 13]]


def test_tensordicts_the_borrower_put_into_a_batch_stay_alive(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 6, return_same_td=True, ring_size=1)
    batch = collector.rollout()
    mine = TensorDict({"advantage": torch.ones(2, 3)}, batch_size=[2, 3])
    batch["mine"] = mine
    taken = batch.pop("next")
    collector.rollout()
    assert mine["advantage"].sum() == 6
    with pytest.raises(OverwrittenBatchError):
        taken["value"]


def test_a_rollout_broken_off_has_overwritten_its_slot(counter_env, policy):
    stop = [False]

    def stopping(obs):
        if stop[0]:
            raise KeyboardInterrupt
        return policy(obs)

    collector = SyncDataCollector(counter_env(2), stopping, 6, return_same_td=True, ring_size=1)
    batch = collector.rollout()
    stop[0] = True
    with pytest.raises(KeyboardInterrupt):
        collector.rollout()
    with pytest.raises(OverwrittenBatchError):
        batch["reward"]


def test_a_ring_on_another_device_is_guarded_as_well(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 6, device="meta", return_same_td=True)
    first = collector.rollout()
    second = collector.rollout()
    assert first["reward"].shape == (2, 3)
    collector.rollout()
    assert second["reward"].shape == (2, 3)
    with pytest.raises(OverwrittenBatchError):
        first["reward"]
