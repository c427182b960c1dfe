"""Which steps are sampled. A sampler sees step numbers only; it is called with the buffer's lock held."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from slipstream.replay.index import StepIndex
from slipstream.replay.sum_tree import SumTree
from slipstream.storage.episodes import REWARD
from slipstream.storage.schema import KeySpec, as_key, show
from slipstream.storage.tensor_file import shorten


class Sampler:
    """Draws step numbers in [head, tail). Subclasses say how; all of them start from the seed of the buffer."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return 0

    def start(self, seed: int) -> None:
        """Begin with a new buffer."""
        self.rng = np.random.default_rng(seed)

    def restart(self) -> None:
        """Begin with an empty buffer whose step numbers start again; the random generator continues."""

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (steps int64 [number], weights float32 [number] or None)."""
        raise NotImplementedError

    def added(self, head: int, tail: int, first: int) -> None:
        """Note that steps [first, tail) were added; [head, tail) are held."""

    def evicted(self, before: int, head: int) -> None:
        """Note that steps [before, head) have left."""

    def update_priority(self, steps: np.ndarray, priority: np.ndarray) -> None:
        """Set priorities, in samplers that have them."""
        raise TypeError(f"{type(self).__name__} has no priorities: build the buffer with sampler=PrioritizedSampler()")

    def state_dict(self) -> dict[str, Any]:
        """Return everything on which the next draws depend."""
        return {"kind": type(self).__name__, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any], head: int = 0, tail: int = 0) -> None:
        """Continue from `state`, of a buffer that holds steps [head, tail).

        Raises:
            ValueError: if the state is of another sampler, or does not fit these steps.
        """
        if state["kind"] != type(self).__name__:
            raise ValueError(
                f"the state is of a {state['kind']}, this buffer has a {type(self).__name__}: build it with that sampler"
            )
        if state["rng"]["state"]["inc"] % 2 == 0:  # a generator that could give one number for ever
            raise ValueError("the state of its random numbers is damaged")
        self.rng.bit_generator.state = state["rng"]


class UniformSampler(Sampler):
    """Draws every step with the same probability."""

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, None]:
        """See `Sampler`."""
        return self.rng.integers(head, tail, number), None


class PrioritizedSampler(Sampler):
    """Draws steps with P(step) ~ priority ** alpha; weight = (steps * P) ** -beta over the largest weight in the
    buffer.

    New steps get the largest priority seen so far. `beta` may be set at any time: it usually grows to 1 during a
    training.

    Args:
        alpha: exponent of the priorities; 0 draws uniformly.
        beta: exponent of the importance weights.
        eps: added to every priority.
    """

    def __init__(self, alpha: float = 0.6, beta: float = 0.4, eps: float = 1e-6) -> None:
        super().__init__()
        if not (alpha >= 0 and eps > 0):
            raise ValueError(f"alpha={alpha} and eps={eps}: give alpha >= 0 and eps > 0")
        self.alpha, self.beta, self.eps = alpha, beta, eps
        self._largest = 1.0  # priority, before the power of alpha
        self._tree = SumTree(1024)  # step s is leaf s % size
        self._head = self._tail = 0

    @property
    def nbytes(self) -> int:
        """See `Sampler`."""
        return self._tree.nbytes

    def restart(self) -> None:
        """See `Sampler`."""
        self._tree, self._head, self._tail = SumTree(1024), 0, 0

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Sampler`. Stratified: one draw from each of `number` equal shares of the priorities."""
        tree = self._tree
        leaves = tree.find((np.arange(number) + self.rng.random(number)) * (tree.total / number))
        steps = head + (leaves - head) % tree.size
        chance = tree[leaves] / tree.total
        weights = (chance / (tree.least / tree.total)) ** -self.beta  # (steps P)^-beta over the same of the smallest P
        return steps, weights.astype(np.float32)

    def added(self, head: int, tail: int, first: int) -> None:
        """See `Sampler`."""
        if tail - head > self._tree.size:
            kept = self._tree[np.arange(head, first) % self._tree.size]
            self._build(kept, head, max(tail - head, 2 * self._tree.size))
        self._head, self._tail = head, tail
        steps = np.arange(first, tail)
        self._tree[steps % self._tree.size] = np.full(len(steps), self._largest**self.alpha)

    def evicted(self, before: int, head: int) -> None:
        """See `Sampler`."""
        self._head = head
        steps = np.arange(max(before, head - self._tree.size), head)
        self._tree[steps % self._tree.size] = np.zeros(len(steps))

    def update_priority(self, steps: np.ndarray, priority: np.ndarray) -> None:
        """Set |priority| + eps; steps that have left the buffer meanwhile are ignored."""
        if steps.shape != priority.shape:
            raise ValueError(f"{list(steps.shape)} steps and {list(priority.shape)} priorities: give one for each")
        if not np.isfinite(priority).all():
            raise ValueError("a priority is NaN or infinite: the loss has diverged")
        there = (steps >= self._head) & (steps < self._tail)
        values = np.abs(priority[there].astype(np.float64)) + self.eps
        if len(values):
            self._largest = max(self._largest, float(values.max()))
            self._tree[steps[there] % self._tree.size] = values**self.alpha

    def state_dict(self) -> dict[str, Any]:
        """See `Sampler`."""
        own: dict[str, Any] = {"alpha": self.alpha, "beta": self.beta, "eps": self.eps, "largest": self._largest}
        own["size"] = self._tree.size  # decides the order of the leaves, and so which step a draw finds
        own["priorities"] = self._tree[np.arange(self._head, self._tail) % self._tree.size]  # to the power of alpha
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any], head: int = 0, tail: int = 0) -> None:
        """See `Sampler`."""
        super().load_state_dict(state, head, tail)
        numbers = [state[name] for name in ("alpha", "beta", "eps", "largest")]
        if any(type(x) not in (int, float) or not 0 <= x < 1e30 for x in numbers):
            raise ValueError(f"the saved alpha, beta, eps and largest priority are {shorten(numbers)}")
        self.alpha, self.beta, self.eps, self._largest = numbers
        values, size = state["priorities"], state["size"]
        if values.dtype != np.float64 or values.shape != (tail - head,):
            raise ValueError(f"{values.dtype} {list(values.shape)} priorities were saved for {tail - head} steps")
        if not ((values >= 0) & (values <= np.finfo(np.float32).max)).all() or (len(values) and not values.any()):
            raise ValueError("a saved priority is negative, NaN or too large, or all are 0")
        if type(size) is not int or not len(values) <= size <= max(2**24, 1024 * len(values)):
            raise ValueError(f"a tree of {size} priorities was saved for {len(values)} steps")
        self._head, self._tail = head, tail
        self._build(values, head, size)

    def _build(self, values: np.ndarray, head: int, size: int) -> None:
        self._tree = SumTree(size)
        self._tree[np.arange(head, head + len(values)) % size] = values


class HindsightSampler(UniformSampler):
    """Draws uniformly; in k of k + 1 draws the goal is one that the same episode achieved, and the reward is computed
    again.

    Args:
        reward_fn: `reward_fn(achieved, goal)` of NumPy arrays [n, ...]: what was achieved after each step, and the
            goal.
        strategy: the new goal was achieved after a "future" step of the episode (or this one), its "final" one, or any
            step of the "episode".
        k: relabeled draws for each unchanged one.
        goal: key of the goal.
        achieved: key of the achieved goal.
        terminated_fn: like `reward_fn`, if terminations depend on the goal.
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
        if strategy not in ("future", "final", "episode"):
            raise ValueError(f"strategy={strategy!r} is unknown: use future, final or episode")
        if k < 0:
            raise ValueError(f"k={k}: relabel 0 or more draws for each unchanged one")
        self.reward_fn, self.terminated_fn = reward_fn, terminated_fn
        self.strategy, self.k = strategy, k
        self.goal, self.achieved = as_key(goal), as_key(achieved)

    def goals(self, index: StepIndex, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (which of the batch are relabeled, the rows of their new goals)."""
        chosen = np.flatnonzero(self.rng.random(len(steps)) < self.k / (self.k + 1))
        steps, reach = index.rest_of_episode(steps[chosen], whole=self.strategy == "episode")
        distance = reach - 1 if self.strategy == "final" else self.rng.integers(0, reach)
        return chosen, index.next_rows(steps, distance)

    def check(self, specs: Mapping[Any, KeySpec]) -> None:
        """Raise if steps of these keys cannot be relabeled."""
        for key in (self.goal, self.achieved, REWARD):
            if key not in specs:
                raise KeyError(f"hindsight needs the key {show(key)}, which this buffer does not have")
        if specs[self.achieved].next_key is None or self.achieved == self.goal:
            raise KeyError(
                f"hindsight needs {show(self.achieved)} as an observation that comes with its next observation"
            )
        if not specs[REWARD].torch_dtype.is_floating_point:
            raise TypeError(
                f"hindsight writes new rewards, and 'reward' is {specs[REWARD].torch_dtype}: add it as float32"
            )
        if self.terminated_fn is not None and ("terminated",) not in specs:
            raise KeyError("terminated_fn needs the key 'terminated', which this buffer does not have")

    def relabel(
        self, arrays: dict[Any, np.ndarray], specs: Mapping[Any, KeySpec], chosen: np.ndarray, new: np.ndarray
    ) -> None:
        """Give the steps `chosen` of a batch the goals `new`.

        Args:
            arrays: by key, [B, ...]; [2, B, ...] of keys with a next observation.
            specs: of the keys.
            chosen: int64 [n].
            new: [n, ...].
        """
        goal, reached, reward = arrays[self.goal], arrays[self.achieved][1, chosen], arrays[REWARD]
        if specs[self.goal].next_key is not None:
            goal[:, chosen] = new  # in the observation and in the next one
        else:
            goal[chosen] = new
        reward[chosen] = np.asarray(self.reward_fn(reached, new)).reshape(len(chosen), *reward.shape[1:])
        if self.terminated_fn is not None:
            ended = arrays["terminated",]
            ended[chosen] = np.asarray(self.terminated_fn(reached, new)).reshape(len(chosen), *ended.shape[1:])


def make_sampler(sampler: str | Sampler) -> Sampler:
    """Return a sampler by its name, or the one given."""
    if isinstance(sampler, Sampler):
        return sampler
    kinds = {"uniform": UniformSampler, "prioritized": PrioritizedSampler}
    if sampler not in kinds:
        raise ValueError(f"sampler={sampler!r} is unknown: use one of {', '.join(kinds)}, or give a Sampler")
    return kinds[sampler]()
