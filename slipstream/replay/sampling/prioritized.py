"""Prioritised replay: steps drawn in proportion to their priority, with the weights that make up for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.replay.sampling.samplers import Sampler
from slipstream.replay.sampling.sumtree import SumTree


class PrioritizedSampler(Sampler):
    """P(step) ~ priority ** alpha; weight = (steps * P) ** -beta over the largest weight in the buffer.

    New steps get the largest priority seen so far.
    `beta` may be set at any time: it usually grows to 1 over a training.
    """

    def __init__(self, alpha: float = 0.6, beta: float = 0.4, eps: float = 1e-6) -> None:
        super().__init__()
        if alpha < 0 or eps <= 0:
            raise ValueError(f"alpha is {alpha} and eps {eps}: give alpha >= 0 and eps > 0")
        self.alpha, self.beta, self.eps = alpha, beta, eps
        self._largest = 1.0  # priority, not yet to the power of alpha
        self._tree = SumTree(1024)  # step s lies in leaf s % size
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
        targets = (np.arange(number) + self.rng.random(number)) * (tree.total / number)
        leaves = tree.find(targets)
        steps = head + (leaves - head) % tree.size
        chance = tree[leaves] / tree.total
        smallest = tree.least / tree.total
        weights = (chance / smallest) ** -self.beta  # (steps P)^-beta over the same of the smallest P
        return steps, weights.astype(np.float32)

    def added(self, head: int, tail: int, first: int) -> None:
        """See `Sampler`."""
        if tail - head > self._tree.size:
            self._grow(head, first, tail - head)
        self._head, self._tail = head, tail
        steps = np.arange(first, tail)
        self._tree[steps % self._tree.size] = np.full(len(steps), self._largest**self.alpha)

    def evicted(self, before: int, head: int) -> None:
        """See `Sampler`."""
        self._head = head
        steps = np.arange(max(before, head - self._tree.size), head)
        self._tree[steps % self._tree.size] = np.zeros(len(steps))

    def update_priority(self, steps: np.ndarray, priority: np.ndarray) -> None:
        """Sets |priority| + eps; steps that have left the buffer since they were drawn are passed over."""
        if steps.shape != priority.shape:
            raise ValueError(f"{list(steps.shape)} steps and {list(priority.shape)} priorities: give one for each")
        if not np.isfinite(priority).all():
            raise ValueError("a priority is NaN or infinite: the loss has diverged")
        there = (steps >= self._head) & (steps < self._tail)
        values = np.abs(priority[there].astype(np.float64)) + self.eps
        if len(values):
            self._largest = max(self._largest, float(values.max()))
            self._tree[steps[there] % self._tree.size] = values**self.alpha

    def priorities(self) -> np.ndarray:
        """float64: priority ** alpha of each step in the buffer, the oldest first."""
        return self._tree[np.arange(self._head, self._tail) % self._tree.size]

    def state_dict(self) -> dict[str, Any]:
        """See `Sampler`."""
        own = {"alpha": self.alpha, "beta": self.beta, "eps": self.eps, "largest": self._largest, "head": self._head}
        own["size"] = self._tree.size  # decides the order of the leaves, and so what a draw finds
        return {**super().state_dict(), **own, "priorities": self.priorities()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Sampler`."""
        super().load_state_dict(state)
        self.alpha, self.beta, self.eps = state["alpha"], state["beta"], state["eps"]
        self._largest, self._head = state["largest"], state["head"]
        numbers = (self.alpha, self.beta, self.eps, self._largest)
        if any(type(x) not in (int, float) or not np.isfinite(x) for x in numbers) or min(self.alpha, self.eps) < 0:
            raise ValueError(f"alpha, beta, eps and the largest priority are {numbers}: they must be finite numbers")
        priorities = state["priorities"]
        if (
            priorities.dtype != np.float64
            or priorities.ndim != 1
            or not ((priorities >= 0) & (priorities <= np.finfo(np.float32).max)).all()
        ):
            raise ValueError("a saved priority is negative, NaN or too large")
        size = max(1024, len(priorities))
        if type(state["size"]) is not int or type(self._head) is not int or not 0 < state["size"] <= 2 * size + 2**24:
            raise ValueError(f"a tree of {state['size']} leaves does not fit {len(priorities)} priorities")
        self._tail = self._head + len(priorities)
        self._tree = SumTree(max(state["size"], len(priorities)))
        self._place(priorities, self._head)

    def check(self, head: int, tail: int) -> None:
        """See `Sampler`."""
        if (self._head, self._tail) != (head, tail) or (tail > head and not self._tree.total > 0):
            raise ValueError(
                f"the priorities are of steps {self._head} to {self._tail}, the buffer holds {head} to {tail}"
            )

    def _grow(self, head: int, tail: int, needed: int) -> None:
        kept = self._tree[np.arange(head, tail) % self._tree.size]
        self._tree = SumTree(max(needed, 2 * self._tree.size))
        self._place(kept, head)

    def _place(self, values: np.ndarray, head: int) -> None:
        leaves = np.zeros(self._tree.size)
        leaves[np.arange(head, head + len(values)) % self._tree.size] = values
        self._tree.fill(leaves)
