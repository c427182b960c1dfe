"""Hindsight relabelling: a step is also a lesson about the goal its episode reached later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.replay.index.step_index import StepIndex
from slipstream.replay.sampling.samplers import Sampler
from slipstream.storage.schema import as_key, show

_STRATEGIES = ("future", "final", "episode")


class HindsightSampler(Sampler):
    """Uniform draws, k of k + 1 with the goal replaced by one that the same episode achieved, and the reward computed anew.

    `reward_fn(achieved, goal)` takes NumPy arrays [n, ...]: what was achieved after each step, and the goal. `strategy` says where
    the new goal comes from: after a "future" step of the episode (the step itself included), its "final" one, or any of the "episode".
    `terminated_fn`, likewise, gives the terminations where they depend on the goal.
    """

    def __init__(
        self,
        reward_fn: Callable[[np.ndarray, np.ndarray], np.ndarray],
        strategy: str = "future",
        k: float = 4,
        goal: Any = ("observation", "desired_goal"),
        achieved: Any = ("observation", "achieved_goal"),
        terminated_fn: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy {strategy!r} is not known: take one of {', '.join(_STRATEGIES)}")
        if k < 0:
            raise ValueError(f"k is {k}: relabel 0 or more draws for each one left as it is")
        self.reward_fn, self.terminated_fn = reward_fn, terminated_fn
        self.strategy, self.k = strategy, k
        self.goal, self.achieved = as_key(goal), as_key(achieved)

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, None]:
        """See `Sampler`."""
        return self.rng.integers(head, tail, number), None

    def goals(self, index: StepIndex, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(which of the batch, the rows of their new goals)."""
        chosen = np.flatnonzero(self.rng.random(len(steps)) < self.k / (self.k + 1))
        steps = steps[chosen]
        if self.strategy == "episode":
            starts, before = index.before(steps)
            steps, reach = starts, before + index.remaining(steps)
        else:
            reach = index.remaining(steps)
        distance = reach - 1 if self.strategy == "final" else self.rng.integers(0, reach)
        return chosen, index.ahead(steps, distance)

    def relabel(
        self, arrays: dict[Any, np.ndarray], goals: Any, rows_of: Callable[[Any, np.ndarray], np.ndarray]
    ) -> None:
        """See `Sampler`."""
        for key in (self.goal, self.achieved, ("reward",)):
            if key not in arrays:
                raise KeyError(f"hindsight needs the key {show(key)}, which this buffer does not have")
        if arrays[self.achieved].shape[:1] != (2,) or self.achieved == self.goal:
            raise KeyError(
                f"hindsight needs what followed each step: {show(self.achieved)} must be an observation with its successor"
            )
        if arrays["reward",].dtype.kind != "f":
            raise TypeError(
                f"hindsight writes new rewards, and 'reward' is {arrays['reward',].dtype}: add it as float32"
            )
        if self.terminated_fn is not None and ("terminated",) not in arrays:
            raise KeyError("terminated_fn needs the key 'terminated', which this buffer does not have")
        chosen, rows = goals
        new = rows_of(self.achieved, rows)
        goal, reached = arrays[self.goal], arrays[self.achieved][1, chosen]
        if goal.ndim == arrays[self.achieved].ndim:
            goal[:, chosen] = new  # in the observation and in the next one
        else:
            goal[chosen] = new
        reward = arrays["reward",]
        reward[chosen] = np.asarray(self.reward_fn(reached, new)).reshape(len(chosen), *reward.shape[1:])
        if self.terminated_fn is not None:
            ended = arrays["terminated",]
            ended[chosen] = np.asarray(self.terminated_fn(reached, new)).reshape(len(chosen), *ended.shape[1:])
