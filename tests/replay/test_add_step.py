"""Single steps: they are the steps of the episodes that they came from, whenever the buffer is asked."""

import itertools

import numpy as np
import pytest
import torch

from slipstream import ReplayBuffer


def steps_of(rng, count):
    """Return `count` steps of an env whose episodes end now and then; observations are [episode, time], never twice."""
    steps, episode, time = [], 0, 0
    for _ in range(count):
        end = rng.random()
        now, after = (np.array([episode, t], np.float32) for t in (time, time + 1))
        ends = {"terminated": bool(end < 0.1), "truncated": bool(0.1 <= end < 0.2)}
        steps.append(
            {"observation": now, "next_observation": after, "action": time, "reward": float(len(steps)), **ends}
        )
        episode, time = (episode + 1, 0) if end < 0.2 else (episode, time + 1)
    return steps


def check(buffer, steps):
    """Compare all that the buffer holds with the same steps as episodes."""
    stats = buffer.stats()
    assert stats["steps_ever"] == len(steps)
    ends = [k + 1 for k, step in enumerate(steps) if step["terminated"] or step["truncated"]]
    with ReplayBuffer(10_000) as episodes:
        for first, last in itertools.pairwise(sorted({0, *ends, len(steps)})):
            episodes.add({key: np.stack([step[key] for step in steps[first:last]]) for key in steps[0]})
        held = torch.arange(stats["steps_ever"] - stats["steps"], stats["steps_ever"])
        for n_step in (1, 3):
            found, expected = (x.get(held, n_step=n_step, gamma=0.5) for x in (buffer, episodes))
            for key in ("observation", "action", "reward", "terminated", "truncated", "discount"):
                assert torch.equal(found[key].double(), expected[key].double())
            assert torch.equal(found["next", "observation"], expected["next_observation"])


@pytest.mark.parametrize("ask_every", [1, 7, 1000])
@pytest.mark.parametrize("capacity", [{"capacity": 60}, {"capacity": 5000}, {"capacity_bytes": 3_000}])
def test_steps_are_those_of_their_episodes(capacity, ask_every):
    steps = steps_of(np.random.default_rng(ask_every), 700)
    with ReplayBuffer(**capacity) as buffer:
        for k, step in enumerate(steps):
            buffer.add_step(**step)
            if k % ask_every == 0:
                assert buffer.sample(1)["reward"].item() <= k
                newest = buffer.stats()["steps_ever"] - 1
                assert newest == k and buffer.get(torch.tensor([k]))["reward"].item() == k
        assert len(buffer) <= capacity.get("capacity", len(steps))
        check(buffer, steps)


def test_steps_episodes_and_batches_share_a_buffer(tmp_path):
    steps = steps_of(np.random.default_rng(0), 50)
    length = next(k for k, step in enumerate(steps) if step["terminated"] or step["truncated"]) + 1
    episode = {key: np.stack([step[key] for step in steps[:length]]) for key in steps[0]}
    with ReplayBuffer(1000) as buffer, ReplayBuffer(1000) as loaded:
        buffer.add({**episode, "reward": episode["reward"].astype(np.float32)})
        for step in steps[length:]:
            buffer.add_step(**step)
        buffer.save(tmp_path)
        assert len(loaded.load(tmp_path)) == 50
        loaded.add_step(**steps_of(np.random.default_rng(0), 51)[50])
        assert loaded.get(torch.arange(51))["reward"].tolist() == [float(k) for k in range(51)]


def test_nested_keys_and_own_keys_are_kept():
    with ReplayBuffer(100) as buffer:
        for k in range(3):
            now, after = ({"x": torch.full((2,), float(t))} for t in (k, k + 1))
            buffer.add_step(observation=now, next_observation=after, done=k == 2, value=np.float64(k), reward=k or 0.5)
        drawn = buffer.get(torch.arange(3))
    assert drawn["next", "observation", "x"][:, 0].tolist() == [1.0, 2.0, 3.0]
    assert drawn["value"].tolist() == [0, 1, 2] and drawn["reward"].tolist() == [0.5, 1, 2]
    assert drawn["done"].tolist() == [False, False, True] and drawn["discount"][2] == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"reward": np.zeros(3)}, ValueError),
        ({"action": 0.5}, ValueError),
        ({"observation": np.zeros(1, np.float32)}, ValueError),
        ({"observation": np.zeros(2)}, ValueError),
        ({"extra": 1}, KeyError),
        ({"terminated": True, "truncated": False, "done": False}, KeyError),
    ],
)
def test_a_step_that_differs_from_the_first_is_refused(change, error):
    steps = steps_of(np.random.default_rng(0), 4)
    with ReplayBuffer(100) as buffer:
        for step in steps[:3]:
            buffer.add_step(**step)
        with pytest.raises(error, match="first"):
            buffer.add_step(**{**steps[3], **change})
        buffer.add_step(**steps[3])
        check(buffer, steps)


def test_a_first_step_that_is_refused_fixes_nothing():
    (step,) = steps_of(np.random.default_rng(0), 1)
    with ReplayBuffer(100) as buffer:
        with pytest.raises(KeyError, match="next"):
            buffer.add_step(observation=step["observation"], reward=1.0)
        buffer.add_step(**step)
        assert len(buffer) == 1
    with pytest.raises(RuntimeError, match="closed"):
        buffer.add_step(**step)
    with ReplayBuffer(100, storage="ring") as ring, pytest.raises(NotImplementedError, match="storage='cpu'"):
        ring.add_step(**step)
