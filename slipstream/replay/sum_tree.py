"""Sums and minima of many numbers: leaves in blocks of 16, above them trees with eight children per node."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from slipstream.storage.jit import native

# A block and a node of the tree are one cache line each. With 1e8 leaves all levels but two fit in 7 MB: a search
# misses the cache about twice, and a leaf needs 5.2 bytes in total. A binary tree of float64: 27 misses and 32 bytes.
BLOCK = 16
FAN = 8
_SHIFT = 3


@native
def _fold(sums, least, first, width):  # pragma: no cover
    """Return (the sum of a node's children, the least of them above 0)."""
    total, smallest = 0.0, np.inf
    for k in range(first, first + width):
        total += sums[k]
        value = np.float64(least[k])
        smallest = min(smallest, value if value > 0 else np.inf)
    return total, smallest


@native
def _update(values, sums, least, starts, leaves):  # pragma: no cover
    """Sum all nodes above `leaves` again: a correction by differences would build up rounding errors."""
    for level in range(starts.shape[0]):
        before = -1
        for i in range(leaves.shape[0]):
            at = (leaves[i] // BLOCK) >> (_SHIFT * level)
            if at == before:  # neighbors share their nodes
                continue
            before, node = at, starts[level] + at
            if level == 0:
                sums[node], least[node] = _fold(values, values, at * BLOCK, BLOCK)
            else:
                sums[node], least[node] = _fold(sums, least, starts[level - 1] + at * FAN, FAN)


@native
def _descend(numbers, first, width, target):  # pragma: no cover
    """Return (child, target within it): the child whose part of the running sum contains `target`."""
    running, passed, child = 0.0, 0.0, np.int64(0)
    for k in range(first, first + width):  # no branch that depends on the data: it would be guessed wrong half the time
        running += numbers[k]
        over = np.int64(running <= target)
        child += over
        passed += numbers[k] * over
    if child == width:  # a rounding error leads past the last one: it belongs to the last one with any weight
        child, passed = np.int64(width - 1), target
        while child > 0 and numbers[first + child] == 0.0:
            child -= 1
    return child, target - passed


@native
def _find(values, sums, starts, targets, leaves):  # pragma: no cover
    leaves[:] = 0
    for level in range(starts.shape[0] - 2, -1, -1):  # all targets go down together: their cache misses overlap
        for i in range(targets.shape[0]):
            child, targets[i] = _descend(sums, starts[level] + leaves[i] * FAN, FAN, targets[i])
            leaves[i] = leaves[i] * FAN + child
    for i in range(targets.shape[0]):
        child, _ = _descend(values, leaves[i] * BLOCK, BLOCK, targets[i])
        leaves[i] = leaves[i] * BLOCK + child


class SumTree:
    """Non-negative float32 numbers in leaves 0 ... size - 1; leaves of 0 are never found."""

    def __init__(self, size: int) -> None:
        counts = [-(-size // BLOCK)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // FAN))
        padded = [-(-c // FAN) * FAN for c in counts[:-1]] + [1]  # complete nodes: the loops need no bounds
        self._starts = np.concatenate([[0], np.cumsum(padded)[:-1]]).astype(np.int64)
        # fill, not np.zeros: the system then uses huge pages, and random reads miss fewer address translations
        self._values = np.empty(counts[0] * BLOCK, np.float32)
        self._sums, self._least = np.empty(sum(padded)), np.empty(sum(padded))
        for array, value in ((self._values, 0.0), (self._sums, 0.0), (self._least, np.inf)):
            array.fill(value)
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
        """Memory of leaves and trees."""
        return self._values.nbytes + self._sums.nbytes + self._least.nbytes

    def __getitem__(self, leaves: np.ndarray) -> np.ndarray:
        return self._values[leaves].astype(np.float64)

    def __setitem__(self, leaves: np.ndarray, values: np.ndarray) -> None:
        self._values[leaves] = values
        _update(self._values, self._sums, self._least, self._starts, leaves)

    def find(self, targets: np.ndarray) -> np.ndarray:
        """Return the leaf for each target in [0, total): the one whose part of the running sum contains it."""
        leaves = np.empty(len(targets), np.int64)
        _find(self._values, self._sums, self._starts, targets.astype(np.float64), leaves)
        return leaves
