"""How steps are drawn: evenly, once each, by priority, with other goals; the same again from the same seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from device_rings import filled as filled_ring
from replay_worlds import chi_square_holds

from slipstream.replay import HindsightSampler, PrioritizedSampler, ReplayBuffer
from slipstream.replay.sum_tree import SumTree


def filled(lengths, **settings):
    buffer = ReplayBuffer(settings.pop("capacity", 10_000), **settings)
    for n, length in enumerate(lengths):
        x = np.full((length + 1, 1), n, np.float32)
        buffer.add(
            {
                "observation": x,
                "reward": np.arange(length, dtype=np.float32),
                "terminated": np.arange(length) == length - 1,
            }
        )
    return buffer


def test_uniform_draws_are_uniform_over_steps_whatever_the_episodes():
    buffer = filled([1, 1, 1, 97, 3, 200, 1, 40], capacity=300, seed=3)  # the first have left
    counts = np.zeros(500)
    for _ in range(200):
        np.add.at(counts, buffer.sample(500)["index"].numpy(), 1)
    live = counts[counts > 0]
    assert len(live) == len(buffer)
    assert chi_square_holds(live, 100_000 / len(buffer))


@pytest.mark.parametrize("storage", ["cpu", "ring"])
def test_priorities_decide_how_often_a_step_comes_and_its_weight(storage):
    buffer, _ = filled_ring(1, storage=storage, sampler=PrioritizedSampler(alpha=0.5, beta=0.8, eps=1e-9))
    first, number = buffer.stats()["steps_ever"] - len(buffer), len(buffer)
    priority = torch.linspace(0.1, 4, number, dtype=torch.float64)
    buffer.update_priority(torch.arange(first, first + number), priority)
    chance = priority.sqrt() / priority.sqrt().sum()
    batch = buffer.sample(200 * number)
    counts = torch.bincount(batch["index"] - first, minlength=number).numpy()
    assert chi_square_holds(counts, (chance * 200 * number).numpy())
    expected = (chance.min() / chance[batch["index"] - first]) ** 0.8
    assert torch.allclose(batch["weight"].double(), expected, rtol=1e-4)


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_the_same_seed_draws_the_same_and_another_seed_does_not(sampler):
    a, b, c = (filled([50] * 20, seed=seed, sampler=sampler) for seed in (1, 1, 2))
    draws = [[x.sample(64)["index"].tolist() for _ in range(5)] for x in (a, b, c)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("size", [1, 16, 17, 300, 5000])
def test_the_sum_tree_finds_the_leaf_of_a_running_sum(size):
    rng = np.random.default_rng(size)
    tree, values = SumTree(size), np.zeros(size)
    for _ in range(5):
        leaves = rng.integers(0, size, 50)
        new = (rng.random(50) * (rng.random(50) < 0.7)).astype(np.float32)
        for leaf, value in zip(leaves, new, strict=True):
            tree[np.array([leaf])] = np.array([value])
            values[leaf] = value
    if not values.any():
        values[0] = 1.0
        tree[np.array([0])] = np.array([1.0])
    assert tree.total == pytest.approx(values.sum())
    assert tree.least == values[values > 0].min()
    targets = rng.random(1000) * tree.total
    found = tree.find(targets)
    edges = np.cumsum(values)
    expected = np.searchsorted(edges, targets, side="right")
    assert (np.abs(edges[np.minimum(found, expected)] - targets)[found != expected] < 1e-9).all()
    assert (values[found] > 0).all()


def test_new_steps_get_the_largest_priority_and_evicted_ones_none():
    buffer = filled([50, 50], capacity=100, sampler="prioritized")
    buffer.update_priority(torch.arange(100), torch.cat([torch.full((50,), 100.0), torch.full((50,), 1e-3)]))
    buffer.add(
        {
            "observation": np.zeros((51, 1), np.float32),
            "reward": np.zeros(50, np.float32),
            "terminated": np.zeros(50, bool),
        }
    )
    drawn = buffer.sample(1000)["index"]
    assert drawn.min() >= 50  # the first episode has left
    assert (drawn >= 100).float().mean() > 0.95  # the new one has its priority of 100
    buffer.update_priority(torch.tensor([3, 120]), torch.tensor([1e9, 1.0]))  # step 3 is gone: passed over
    assert buffer.sample(1000)["index"].min() >= 50


def test_priorities_of_a_wrapped_and_grown_tree_draw_the_same_from_a_saved_state():
    settings = {"capacity": 1127, "sampler": "prioritized"}
    buffer = filled([50] * 10 + [935], **settings)
    buffer.update_priority(buffer.sample(200)["index"], np.linspace(0.1, 5, 200))
    other = ReplayBuffer(1127, sampler="prioritized", seed=9)
    other.load_state_dict(buffer.state_dict())
    assert torch.equal(other.state_dict()["replay"], buffer.state_dict()["replay"])  # equal buffers, equal bytes
    for _ in range(5):
        assert other.sample(64)["index"].tolist() == buffer.sample(64)["index"].tolist()


def test_bad_priorities_are_refused():
    buffer = filled([50], sampler="prioritized")
    with pytest.raises(ValueError, match="NaN or infinite"):
        buffer.update_priority(np.arange(3), np.array([1.0, np.nan, 1.0]))
    with pytest.raises(TypeError, match="PrioritizedSampler"):
        filled([50]).update_priority(np.arange(3), np.ones(3))


def goal_buffer(**settings):
    """Ten episodes of ten steps on a line: step t of episode e achieves 100 e + t + 1, and wants -1."""

    def reward(achieved, goal):
        return (achieved == goal).all(-1).astype(np.float32)

    buffer = ReplayBuffer(1000, sampler=HindsightSampler(reward, **settings))
    for e in range(10):
        achieved = 100.0 * e + np.arange(11, dtype=np.float32)[:, None]
        goal = np.full((11, 1), -1, np.float32)
        observation = {"observation": achieved.copy(), "achieved_goal": achieved, "desired_goal": goal}
        buffer.add({"observation": observation, "reward": np.zeros(10, np.float32), "terminated": np.zeros(10, bool)})
    return buffer


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_hindsight_takes_goals_from_the_same_episode_and_computes_the_reward_anew(strategy):
    batch = goal_buffer(strategy=strategy, k=4).sample(4000)
    goal, now = batch["observation", "desired_goal"][:, 0], batch["observation", "achieved_goal"][:, 0]
    after = batch["next", "observation", "achieved_goal"][:, 0]
    kept = goal == -1
    assert kept.float().mean() == pytest.approx(0.2, abs=0.03)
    assert torch.equal(goal, batch["next", "observation", "desired_goal"][:, 0])
    assert torch.equal(batch["reward"], (after == goal).float())
    assert batch["reward"][~kept].sum() > 0
    goal, now = goal[~kept], now[~kept]
    assert torch.equal(goal // 100, now // 100)
    step, wanted = now % 100, goal % 100  # achieved after step t: t + 1
    if strategy == "future":
        assert (wanted > step).all() and wanted.unique().tolist() == list(range(1, 11))
    elif strategy == "final":
        assert (wanted == 10).all()
    else:
        assert (wanted <= step).any() and wanted.unique().tolist() == list(range(1, 11))


def test_hindsight_changes_what_sample_draws_alone():
    buffer, other = goal_buffer(), goal_buffer()
    assert not buffer["reward"].any() and (buffer["observation", "desired_goal"] == -1).all()
    assert torch.equal(buffer.sample(100)["reward"], other.sample(100)["reward"])
    with pytest.raises(ValueError, match="n_step=1"):
        buffer.sample(8, n_step=3)
    with pytest.raises(ValueError, match="sample slices with another sampler"):
        buffer.sample_slices(8, 3)


def test_hindsight_refuses_a_goal_without_a_next_one_also_in_a_batch_of_two():
    sampler = HindsightSampler(lambda reached, goal: np.zeros(len(goal)), goal="goal", achieved="at")
    buffer = ReplayBuffer(100, sampler=sampler)
    buffer.add({"x": np.zeros((6, 1)), "at": np.zeros((5, 2)), "goal": np.zeros((5, 2)), "reward": np.zeros(5)})
    with pytest.raises(KeyError, match="as an observation that comes with its next observation"):
        buffer.sample(2)
