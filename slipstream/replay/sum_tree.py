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
def _block(values, first):  # pragma: no cover
    """Return (sum, least above 0) of a block."""
    total, least = 0.0, np.inf
    for k in range(first, first + BLOCK):
        value = np.float64(values[k])
        total += value
        least = min(least, value if value > 0 else np.inf)
    return total, least


@native
def _parent(sums, least, starts, level, at):  # pragma: no cover
    """Sum a parent from its children. A correction by differences would build up rounding errors."""
    first = starts[level - 1] + at * FAN
    total, smallest = 0.0, np.inf
    for k in range(first, first + FAN):
        total += sums[k]
        smallest = min(smallest, least[k])
    sums[starts[level] + at] = total
    least[starts[level] + at] = smallest


@native
def _update(values, sums, least, starts, leaves, new):  # pragma: no cover
    for i in range(leaves.shape[0]):
        values[leaves[i]] = new[i]
    before = -1
    for i in range(leaves.shape[0]):
        at = leaves[i] // BLOCK
        if at != before:  # neighbors share their block and their parents
            sums[at], least[at] = _block(values, at * BLOCK)
            before = at
    for level in range(1, starts.shape[0]):
        before = -1
        for i in range(leaves.shape[0]):
            at = (leaves[i] // BLOCK) >> (_SHIFT * level)
            if at != before:
                _parent(sums, least, starts, level, at)
                before = at


@native
def _build(values, sums, least, starts, counts):  # pragma: no cover
    for at in range(counts[0]):
        sums[at], least[at] = _block(values, at * BLOCK)
    for level in range(1, starts.shape[0]):
        for at in range(counts[level]):
            _parent(sums, least, starts, level, at)


@native
def _choose(node, width, target):  # pragma: no cover
    """Return (child, sum of the children before it): the child whose part of the running sum contains `target`."""
    running, passed, child = 0.0, 0.0, np.int64(0)
    for k in range(width):  # no branch that depends on the data: it would be guessed wrong half the time
        running += node[k]
        over = np.int64(running <= target)
        child += over
        passed += node[k] * over
    if child == width:  # a rounding error leads past the last one: it belongs to the last one with any weight
        child, passed = np.int64(width - 1), target
        while child > 0 and node[child] == 0.0:
            child -= 1
    return child, passed


@native
def _find(values, sums, starts, targets, leaves, nodes):  # pragma: no cover
    # All targets descend one level together, and their nodes are fetched before any is compared: the cache misses
    # overlap.
    number = targets.shape[0]
    leaves[:] = 0
    for level in range(starts.shape[0] - 2, -1, -1):
        for i in range(number):
            first = starts[level] + leaves[i] * FAN
            for k in range(FAN):
                nodes[i, k] = sums[first + k]
        for i in range(number):
            child, passed = _choose(nodes[i], FAN, targets[i])
            leaves[i] = leaves[i] * FAN + child
            targets[i] -= passed
    for i in range(number):
        first = leaves[i] * BLOCK
        for k in range(BLOCK):
            nodes[i, k] = values[first + k]
    for i in range(number):
        child, _ = _choose(nodes[i], BLOCK, targets[i])
        leaves[i] = leaves[i] * BLOCK + child


class SumTree:
    """Non-negative float32 numbers in leaves 0 ... size - 1; leaves of 0 are never found."""

    def __init__(self, size: int) -> None:
        counts = [-(-size // BLOCK)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // FAN))
        padded = [-(-c // FAN) * FAN for c in counts[:-1]] + [1]  # complete nodes: the loops need no bounds
        self._starts = np.concatenate([[0], np.cumsum(padded)[:-1]]).astype(np.int64)
        self._counts = np.array(counts)
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
        _update(self._values, self._sums, self._least, self._starts, leaves, values.astype(np.float32))

    def fill(self, values: np.ndarray) -> None:
        """Set leaves 0 ... len(values) - 1, and the others to 0, in one pass."""
        self._values.fill(0.0)
        self._values[: len(values)] = values
        _build(self._values, self._sums, self._least, self._starts, self._counts)

    def find(self, targets: np.ndarray) -> np.ndarray:
        """Return the leaf for each target in [0, total): the one whose part of the running sum contains it."""
        leaves = np.empty(len(targets), np.int64)
        _find(
            self._values, self._sums, self._starts, targets.astype(np.float64), leaves, np.empty((len(targets), BLOCK))
        )
        return leaves
