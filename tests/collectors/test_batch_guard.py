"""A lent batch whose memory was collected into again must not give other data."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from slipstream.collectors import OverwrittenBatchError, SyncDataCollector

USES = {
    "key": lambda b: b["reward"],
    "nested key": lambda b: b["next", "observation", "count"],
    "get with default": lambda b: b.get("nothing", None),
    "keys": lambda b: list(b.keys()),
    "index": lambda b: b[0],
    "clone": lambda b: b.clone(),
    "torch.stack": lambda b: torch.stack([b, b]),
    "set key": lambda b: b.__setitem__("reward", torch.zeros(2, 3)),
    "update": lambda b: b.update({"more": torch.zeros(2, 3)}),
}


@pytest.fixture
def overwritten(counter_env, policy):
    collector = SyncDataCollector(counter_env(2), policy, 6, return_same_td=True)
    batch = collector.rollout()
    collector.rollout()
    return batch


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_using_an_overwritten_batch_raises(overwritten, use):
    with pytest.raises(OverwrittenBatchError):
        use(overwritten)


def test_an_overwritten_batch_can_be_shown(overwritten):
    assert repr(overwritten) == "<a batch overwritten by a later rollout>"
    assert isinstance(overwritten, TensorDict)


def test_a_lent_batch_lives_until_the_next_one(counter_env, policy):
    lent = SyncDataCollector(counter_env(2), policy, 6, return_same_td=True)
    own = SyncDataCollector(counter_env(2), policy, 6)
    batches = []
    for _ in range(4):
        batches.append(lent.rollout())
        assert (batches[-1] == own.rollout()).all()
        for batch in batches[:-1]:
            with pytest.raises(OverwrittenBatchError):
                batch["reward"]


def test_a_rollout_broken_off_has_overwritten_its_memory(counter_env, policy):
    stop = [False]

    def stopping(obs):
        if stop[0]:
            raise KeyboardInterrupt
        return policy(obs)

    collector = SyncDataCollector(counter_env(2), stopping, 6, return_same_td=True)
    batch = collector.rollout()
    stop[0] = True
    with pytest.raises(KeyboardInterrupt):
        collector.rollout()
    with pytest.raises(OverwrittenBatchError):
        batch["reward"]
