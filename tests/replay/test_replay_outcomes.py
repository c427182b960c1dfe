"""Rewards and ends of batches in TorchRL's layout, and flags that say only part of how a step ended."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from slipstream import ReplayBuffer
from slipstream.algorithms.offpolicy import Transitions

GAMMA = 0.5
# env 0 is terminated at its second step, env 1 truncated at its third; the frames after are the episodes' next ones
TERMINATED = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
TRUNCATED = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
REWARD = torch.arange(1.0, 9.0).reshape(2, 4)
STORAGES = ("cpu", "ring")


def make_batch(top, after=None, last=False):
    """Return a [2, 4] batch with these keys, and these under next; `last`: each [2, 4, 1]."""
    frames = torch.arange(20.0).reshape(2, 5, 2)
    here, there = ({k: v.unsqueeze(-1) if last else v for k, v in (keys or {}).items()} for keys in (top, after))
    tree = {"observation": frames[:, :-1], **here, "next": {"observation": frames[:, 1:], **there}}
    return TensorDict(tree, [2, 4])


def steps_of(buffer):
    """{reward of a step: its discount}"""
    stats = buffer.stats()
    batch = buffer.get(torch.arange(stats["steps_ever"] - stats["steps"], stats["steps_ever"]))
    return dict(zip(batch["reward"].flatten().tolist(), batch["discount"].flatten().tolist(), strict=True))


def expected(storage):
    ended = dict(zip(REWARD.flatten().tolist(), TERMINATED.flatten().tolist(), strict=True))
    if storage == "ring":  # the newest step of each env is not listed yet
        ended = {reward: end for reward, end in ended.items() if reward not in (4.0, 8.0)}
    return {reward: 0.0 if end else pytest.approx(0.99) for reward, end in ended.items()}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    "after",
    [
        {"terminated": TERMINATED, "truncated": TRUNCATED, "done": TERMINATED | TRUNCATED},
        {"terminated": TERMINATED, "done": TERMINATED | TRUNCATED},
        {"truncated": TRUNCATED, "done": TERMINATED | TRUNCATED},
        {"terminated": TERMINATED, "truncated": TRUNCATED},
    ],
    ids=lambda after: "+".join(after),
)
def test_outcomes_under_next_are_those_of_the_step(storage, after, last):
    before = dict.fromkeys(("done", "terminated", "truncated"), torch.zeros(2, 4, dtype=torch.bool))
    with ReplayBuffer(100, storage=storage) as buffer:
        buffer.extend(make_batch(before, {"reward": REWARD, **after}, last))
        assert steps_of(buffer) == expected(storage)


@pytest.mark.parametrize("storage", STORAGES)
def test_done_and_truncated_do_not_bootstrap_through_ends(storage):
    with ReplayBuffer(100, storage=storage) as buffer:
        top = {"reward": REWARD, "done": TERMINATED | TRUNCATED, "truncated": TRUNCATED}
        buffer.extend(make_batch(top))
        assert steps_of(buffer) == expected(storage)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("key", ["reward", "done"])
def test_flags_of_another_number_are_refused(storage, key):
    after = {"reward": REWARD, "done": TERMINATED}
    batch = make_batch({}, after)
    batch["next", key] = batch["next", key].unsqueeze(-1).expand(2, 4, 3).clone()
    with ReplayBuffer(100, storage=storage) as buffer:
        if key == "reward":  # one per objective: kept as it is
            buffer.extend(batch)
            assert buffer.get(torch.tensor([0]))["reward"].tolist() == [[1.0, 1.0, 1.0]]
        else:
            with pytest.raises(ValueError, match=r"'done' has the shape \[2, 4, 3\]: give one value per step"):
                buffer.extend(batch)


CONTRADICTIONS = [
    {"done": TERMINATED, "truncated": TRUNCATED},
    {"done": TRUNCATED, "terminated": TERMINATED},
    {"done": TERMINATED, "terminated": TERMINATED, "truncated": TRUNCATED},
    {"done": TERMINATED | TRUNCATED, "terminated": TERMINATED, "truncated": TRUNCATED & False},
]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("flags", CONTRADICTIONS, ids=range(4))
def test_contradictory_flags_are_refused(storage, flags):
    with ReplayBuffer(100, storage=storage) as buffer:
        with pytest.raises(ValueError, match="'done' contradicts .* in 1 steps: done must be terminated | truncated"):
            buffer.extend(make_batch({"reward": REWARD, **flags}))
        assert len(buffer) == 0
        buffer.extend(make_batch({"reward": REWARD}))  # a batch that was refused does not fix the keys


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
def test_flags_of_numbers_come_back_as_booleans(storage, dtype):
    flags = {"terminated": TERMINATED.to(dtype), "truncated": TRUNCATED.to(dtype)}
    with ReplayBuffer(100, storage=storage) as buffer:
        buffer.extend(make_batch({"reward": REWARD, **flags}))
        batch = buffer.sample(8, n_step=2)
        assert batch["terminated"].dtype == batch["truncated"].dtype == torch.bool
        assert steps_of(buffer) == expected(storage)
    with ReplayBuffer(100) as buffer:
        buffer.add({"observation": torch.zeros(3, 2), "reward": torch.ones(2), "done": torch.tensor([0, 1]).to(dtype)})
        assert buffer.get(torch.arange(2))["done"].tolist() == [False, True]


def test_flags_of_invalid_frames_may_be_anything():
    valid = torch.ones(2, 4, dtype=torch.bool)
    valid[1, 2] = False
    with ReplayBuffer(100) as buffer:
        buffer.extend(make_batch({"reward": REWARD, "valid": valid, **CONTRADICTIONS[0]}))
        assert len(buffer) == 7


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_only_under_next_is_refused(storage):
    batch = make_batch({"reward": REWARD, "done": TERMINATED}, {"score": REWARD})
    refusal = pytest.raises(KeyError, match=r"\('next', 'score'\) has no 'score' beside it: leave it out")
    with ReplayBuffer(100, storage=storage) as buffer, refusal:
        buffer.extend(batch)
    with ReplayBuffer(100, storage=storage, keys=("observation", "reward", "done")) as buffer:
        buffer.extend(batch)


@pytest.mark.parametrize("storage", STORAGES)
def test_two_rewards_of_a_step_are_refused(storage):
    with ReplayBuffer(100, storage=storage) as buffer, pytest.raises(KeyError, match="'reward' and .'next', 'reward'"):
        buffer.extend(make_batch({"reward": REWARD}, {"reward": REWARD}))


@pytest.mark.parametrize("storage", STORAGES)
def test_flags_of_several_agents_are_refused(storage):
    batch = make_batch({}, {"reward": REWARD})
    batch["agents", "done"] = torch.zeros(2, 4, 3, dtype=torch.bool)
    batch["next", "agents", "done"] = torch.zeros(2, 4, 3, dtype=torch.bool)
    with ReplayBuffer(100, storage=storage) as buffer, pytest.raises(KeyError, match="'done' or 'terminated' and"):
        buffer.extend(batch)


def test_ends_count_even_if_their_keys_are_not_kept():
    episode = {"observation": torch.zeros(3, 2), "reward": torch.arange(2.0), "done": torch.tensor([False, True])}
    with ReplayBuffer(100, keys=("observation", "reward")) as buffer:
        buffer.add(episode)
        assert steps_of(buffer) == {0.0: pytest.approx(0.99), 1.0: 0.0}


@pytest.mark.parametrize("storage", STORAGES)
def test_the_target_of_a_batch_has_one_value_per_step(storage):
    buffer = ReplayBuffer(100, storage=storage, sampler="prioritized")
    flags = {"terminated": TERMINATED, "truncated": TRUNCATED}
    buffer.extend(make_batch({"action": REWARD}, {"reward": REWARD, **flags}, last=True))
    batch = buffer.sample(6)
    assert batch["reward"].shape == batch["discount"].shape == batch["weight"].shape == (6, 1)
    given = Transitions.of({**batch.to_dict(), "next": {"observation": {}}}, ())
    assert given.reward.shape == given.bootstrap.shape == given.weight.shape == (6,)
    assert (given.bootstrap == 0).equal(batch["terminated"].flatten())


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("as_given", [torch.Tensor.byte, torch.Tensor.float, lambda x: x.unsqueeze(-1)])
def test_valid_is_taken_in_other_dtypes_and_forms(storage, as_given):
    valid = torch.tensor([[1, 1, 0, 1], [1, 1, 1, 1]], dtype=torch.bool)
    found = []
    for given in (valid, as_given(valid)):
        buffer = ReplayBuffer(100, storage=storage)
        buffer.extend(make_batch({"reward": REWARD, "terminated": TERMINATED, "valid": given}))
        found.append(steps_of(buffer))
    assert found[0] == found[1] and 3.0 not in found[1]


def test_a_flag_of_nan_is_refused():
    with pytest.raises(ValueError, match="'terminated' holds NaN"):
        ReplayBuffer(9).add({"reward": torch.ones(2), "terminated": torch.tensor([0, float("nan")])})


@pytest.mark.parametrize("gamma", [-1.0, 1.5, float("nan")])
def test_gamma_is_a_discount(gamma):
    buffer = ReplayBuffer(9)
    buffer.add({"reward": torch.ones(2)})
    with pytest.raises(ValueError, match="must be in"):
        buffer.sample(1, gamma=gamma)
