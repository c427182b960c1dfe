"""What is drawn from streams, in host memory and from a ring, beside the steps that the environments took."""

from __future__ import annotations

import pytest
import torch
from device_rings import bits, counting, filled

from slipstream.replay import ReplayBuffer


class History:
    """The steps of the environments by observation, and those of them that the buffer holds."""

    def __init__(self, seed, storage, sampler="uniform"):
        self.buffer, self.steps = filled(seed, storage=storage, sampler=sampler)
        ever = self.buffer.stats()["steps_ever"]
        self.numbers = torch.arange(ever - len(self.buffer), ever)
        rows = self.buffer.get(self.numbers)["observation", "x"]
        self.held = {bits(row): number for row, number in zip(rows, self.numbers.tolist(), strict=True)}
        self.before = {step.successor: step for step in self.steps.values() if not step.done}

    def window(self, row, most):
        """Return up to `most` steps of the episode from the one with this observation on."""
        window = [self.steps[bits(row)]]
        while len(window) < most and not window[-1].done and window[-1].successor in self.held:
            window.append(self.steps[window[-1].successor])
        return window

    def burn_in(self, row, most):
        """Return up to `most` steps before it."""
        window, seen = [], bits(row)
        while len(window) < most and seen in self.before and self.before[seen].observation in self.held:
            window.insert(0, self.before[seen])
            seen = window[0].observation
        return window


cases = pytest.mark.parametrize(
    ("storage", "sampler", "seed"),
    [
        (storage, sampler, seed)
        for storage in ("cpu", "ring")
        for sampler in ("uniform", "prioritized")
        for seed in (1, 2)
    ],
)


@cases
@pytest.mark.parametrize("n_step", [1, 4])
def test_n_steps_go_as_far_as_the_episode_and_what_is_held(storage, sampler, seed, n_step):
    history = History(seed, storage, sampler)
    drawn = history.buffer.sample(256, n_step=n_step, gamma=0.9)
    for k, row in enumerate(drawn["observation", "x"]):
        window = history.window(row, n_step)
        assert bits(drawn["next", "observation", "x"][k]) == window[-1].successor
        assert drawn["action"][k] == window[0].action and drawn["index"][k] == history.held[bits(row)]
        assert drawn["reward"][k] == pytest.approx(sum(0.9**j * s.reward for j, s in enumerate(window)), abs=1e-5)
        assert drawn["discount"][k] == pytest.approx(0.0 if window[-1].terminated else 0.9 ** len(window))
        assert (drawn["terminated"][k], drawn["truncated"][k]) == (window[-1].terminated, window[-1].truncated)
    assert torch.equal(history.buffer.get(drawn["index"])["action"], drawn["action"])


@cases
def test_slices_are_consecutive_steps_of_one_episode(storage, sampler, seed):
    history = History(seed, storage, sampler)
    drawn = history.buffer.sample_slices(64, 5, burn_in=3)
    x, after = drawn["observation", "x"], drawn["next", "observation", "x"]
    for k, row in enumerate(x[:, 3]):
        before, window = history.burn_in(row, 3), history.window(row, 5)
        expected = [None] * (3 - len(before)) + before + window + [None] * (5 - len(window))
        for j, step in enumerate(expected):
            assert drawn["mask"][k, j] == (step is not None)
            if step is None:
                assert not x[k, j].any() and not after[k, j].any() and drawn["index"][k, j] == -1
            else:
                assert (bits(x[k, j]), bits(after[k, j])) == (step.observation, step.successor)
                assert drawn["index"][k, j] == history.held[step.observation]


@pytest.mark.parametrize("how", ["add", "extend", "ring"])
def test_an_end_stops_a_draw_also_where_the_observations_continue(how):
    batch = counting(0, 1, 9)
    batch["terminated"][0, 3] = True
    buffer = ReplayBuffer(100, storage="ring" if how == "ring" else "cpu")
    if how == "add":
        buffer.add({"x": torch.arange(10.0), "reward": batch["reward"][0], "terminated": batch["terminated"][0]})
    else:
        buffer.extend(batch)
    drawn = buffer.get(torch.arange(8), n_step=3, gamma=1)
    assert drawn["reward"].tolist() == [3, 6, 5, 3, 15, 18, 21 if how != "ring" else 13, 15 if how != "ring" else 7]
    assert drawn["discount"].tolist() == [1, 0, 0, 0, 1, 1, 1, 1]
    slices = buffer.sample_slices(100, 2, burn_in=2)["index"]
    assert {tuple(x) for x in slices.tolist() if 2 <= x[2] <= 5} == {
        *((0, 1, 2, 3), (1, 2, 3, -1)),
        *((-1, -1, 4, 5), (-1, 4, 5, 6)),
    }
