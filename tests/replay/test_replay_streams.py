"""Collectors' batches: environments as streams, linked from batch to batch."""

from __future__ import annotations

import device_rings
import numpy as np
import pytest
import torch
from replay_worlds import Worlds, chi_square_holds, plain, steps_of

from slipstream.replay import ReplayBuffer


def filled(seed, number=4, capacity=500, batches=30, end=0.1):
    buffer, steps = device_rings.filled(seed, number, capacity, batches, end, "cpu")
    return buffer, list(steps.values())


def live(buffer, steps):
    return range(len(steps) - len(buffer), len(steps))


def test_observations_are_kept_once():
    buffer, _ = filled(0, number=8, capacity=10_000, batches=50, end=0.0)
    stats = buffer.stats()
    assert stats["rows"] == stats["steps"]


def test_a_final_observation_is_one_row_that_is_never_drawn():
    worlds, buffer = Worlds(1, end=1.0), ReplayBuffer(100)
    for _ in range(5):
        buffer.extend(worlds.batch(2))  # each episode: one step, one frame that only resets
    stats = buffer.stats()
    assert (stats["steps"], stats["rows"]) == (5, 10)


def test_an_environment_that_was_reset_in_between_keeps_its_last_successor():
    worlds, buffer = Worlds(2, end=0.0), ReplayBuffer(100)
    buffer.extend(worlds.batch(3))
    worlds.observation = worlds._fresh(2)  # somebody reset the environments between two batches
    worlds.episode += 100
    buffer.extend(worlds.batch(3))
    steps = worlds.steps[0] + worlds.steps[1]
    assert steps_of(buffer.get(np.arange(12))) == plain(steps)
    slices = buffer.sample_slices(64, 6)
    for ids in slices["index"].tolist():
        assert len({steps[i].episode for i in ids if i >= 0}) == 1


def test_a_batch_whose_next_is_no_view_may_reset_within_the_step():
    """Gymnasium's other auto-reset: the frame after an end is already the next episode's."""
    x = torch.arange(12.0).reshape(1, 6, 2)
    after = x + 2
    after[0, 2] = 99.0  # the final observation of an episode that ended at step 2
    done = torch.tensor([[False, False, True, False, False, False]])
    batch = {"observation": x, "reward": torch.zeros(1, 6), "terminated": done, "next": {"observation": after}}
    buffer = ReplayBuffer(100)
    buffer.extend(batch)
    drawn = buffer.get(np.arange(6), n_step=6)
    assert torch.equal(buffer.get(np.arange(6))["next", "observation"], after[0])
    assert drawn["next", "observation"][:, 0].tolist() == [99.0, 99.0, 99.0, 12.0, 12.0, 12.0]
    assert drawn["discount"].tolist()[:3] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("draw", [lambda b: b.sample_slices(2, 2), lambda b: b.sample_slices(2, 1, burn_in=1)])
def test_two_slices_of_two_steps_are_zero_only_where_there_is_no_step(draw):
    buffer = ReplayBuffer(100)
    buffer.add({"x": np.array([[1.0], [2.0]]), "reward": np.array([3.0])})
    drawn = draw(buffer)
    assert drawn["mask"].sum(1).tolist() == [1, 1]
    for key, value in (("x", 1.0), (("next", "x"), 2.0), ("reward", 3.0)):
        assert torch.equal(drawn[key].reshape(2, 2), value * drawn["mask"].double())


def test_whole_episodes_come_whole_and_evenly():
    buffer, steps = filled(3, capacity=300)
    wholes = set()
    for i in live(buffer, steps):
        episode = [j for j in range(len(steps)) if steps[j].episode == steps[i].episode]
        if episode[0] >= live(buffer, steps)[0] and steps[episode[-1]].done:
            wholes.add(tuple(episode))
    drawn = buffer.sample_episodes(60 * len(wholes))
    found = [tuple(i for i in ids if i >= 0) for ids in drawn["index"].tolist()]
    assert set(found) == wholes
    counts = np.array([found.count(w) for w in wholes])
    assert chi_square_holds(counts, 60)


def test_several_writers_keep_their_streams_apart():
    buffer = ReplayBuffer(1000)
    a, b = Worlds(2, seed=1), Worlds(3, seed=2)
    steps = []
    for _ in range(10):
        buffer.extend(a.batch(3), stream="a")
        buffer.extend(b.batch(2), stream="b")
        steps += a.steps[-1] + b.steps[-1]
    assert steps_of(buffer.get(np.arange(len(steps)))) == plain(steps)
    with pytest.raises(ValueError, match="'a' had 2 environments and now has 3"):
        buffer.extend(b.batch(2), stream="a")


def test_a_batch_larger_than_the_capacity_is_refused_with_advice():
    with pytest.raises(ValueError, match="40 steps does not fit capacity=39"):
        ReplayBuffer(39).extend(Worlds(4, end=0.0).batch(10))
