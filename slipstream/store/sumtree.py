"""Sums and minima of many numbers, kept in trees of eight children a node."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from slipstream.store.jit import native

# Eight float64 are a cache line: nine of them lead to one of 1.3e8 leaves, where a binary tree takes 27.
FAN = 8
_SHIFT = 3


@native
def _update(sums, least, starts, leaves, values):  # pragma: no cover
    levels = starts.shape[0]
    for i in range(leaves.shape[0]):
        sums[leaves[i]] = values[i]
        least[leaves[i]] = values[i] if values[i] > 0 else np.inf
    for level in range(1, levels):
        before = -1
        for i in range(leaves.shape[0]):
            at = leaves[i] >> (_SHIFT * level)
            if at == before:  # neighbours share their parents
                continue
            before = at
            # A parent is summed from its children, never corrected by a difference: no rounding error can build up.
            first = starts[level - 1] + at * FAN
            total, smallest = 0.0, np.inf
            for k in range(first, first + FAN):
                total += sums[k]
                smallest = min(smallest, least[k])
            sums[starts[level] + at] = total
            least[starts[level] + at] = smallest


@native
def _find(sums, starts, targets, leaves):  # pragma: no cover
    # All targets go down one level together, without a branch that depends on them: their cache misses overlap.
    leaves[:] = 0
    for level in range(starts.shape[0] - 2, -1, -1):
        for i in range(targets.shape[0]):
            first = starts[level] + leaves[i] * FAN
            target, running, passed = targets[i], 0.0, 0.0
            child = 0
            for k in range(FAN):
                running += sums[first + k]
                over = running <= target
                child += over
                passed = running if over else passed
            if child == FAN:  # a rounding error past the last one: it belongs to the last one with any weight
                child = FAN - 1
                while child > 0 and sums[first + child] == 0.0:
                    child -= 1
                passed = target
            leaves[i] = leaves[i] * FAN + child
            targets[i] = target - passed


@native
def _build(sums, least, starts, counts):  # pragma: no cover
    for level in range(1, starts.shape[0]):
        for at in range(counts[level]):
            first = starts[level - 1] + at * FAN
            total, smallest = 0.0, np.inf
            for k in range(first, first + FAN):
                total += sums[k]
                smallest = min(smallest, least[k])
            sums[starts[level] + at] = total
            least[starts[level] + at] = smallest


class SumTree:
    """Non-negative numbers in leaves 0 ... size - 1; leaves of 0 are never found."""

    def __init__(self, size: int) -> None:
        counts = [max(FAN, -(-size // FAN) * FAN)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // FAN))
        padded = [c if c == 1 else -(-c // FAN) * FAN for c in counts]  # whole nodes: the loops need no bounds
        self._starts = np.concatenate([[0], np.cumsum(padded)[:-1]])
        self._counts = np.array(counts)
        # filled, not np.zeros: large arrays then lie on huge pages, and random reads miss fewer address translations
        self._sums, self._least = np.empty(sum(padded)), np.empty(sum(padded))
        self._sums.fill(0.0)
        self._least.fill(np.inf)
        self.size = size

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._sums[-1])

    @property
    def least(self) -> float:
        """The smallest leaf above 0; inf when there is none."""
        return float(self._least[-1])

    @property
    def nbytes(self) -> int:
        """Memory of the trees."""
        return self._sums.nbytes + self._least.nbytes

    def __getitem__(self, leaves: np.ndarray) -> np.ndarray:
        return self._sums[leaves]

    def __setitem__(self, leaves: np.ndarray, values: np.ndarray) -> None:
        _update(self._sums, self._least, self._starts, leaves, values)

    def fill(self, values: np.ndarray) -> None:
        """Sets leaves 0 ... len(values) - 1, the others to 0, in one pass."""
        self._sums[: self.size] = 0
        self._sums[: len(values)] = values
        leaves = self._sums[: self.size]
        self._least[: self.size] = np.where(leaves > 0, leaves, np.inf)
        _build(self._sums, self._least, self._starts, self._counts)

    def find(self, targets: np.ndarray) -> np.ndarray:
        """For each target in [0, total), the leaf in whose share of the running sum it lies."""
        leaves = np.empty(len(targets), np.int64)
        _find(self._sums, self._starts, targets.astype(np.float64), leaves)
        return leaves
