"""The plain column: the rows of one key, uncompressed, in a ring that grows when it must."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

_PID = os.getpid()
_TORCH_TYPES = "?bBhilqefd"  # of torch.index_select
_PARALLEL_BYTES = 1 << 19  # from here on torch's threads gather faster than NumPy's one thread


class RawColumn:
    """Rows [head, tail) of one key, numbered by a counter that never decreases.

    `gather` may run in many threads while one thread runs `append`; it must not run during `evict` of the rows it
    reads.

    Args:
        shape: of a row.
        dtype: of the numbers.
        capacity: rows for which memory is reserved; the system gives it as they are written.
        slack: how much larger than necessary a ring becomes when it must grow.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, capacity: int = 1024, slack: float = 0.5) -> None:
        self.head = self.tail = 0
        self.ring = np.empty((max(16, capacity), *shape), dtype)  # row r is in slot r % len(ring)
        self._slack = slack
        self._first = 0  # the first row that was written to this ring

    def append(self, rows: np.ndarray) -> None:
        """Add rows [n, *shape]."""
        n = len(rows)
        if self.tail + n - self.head > len(self.ring):
            self._grow(self.tail + n - self.head)
        slot = self.tail % len(self.ring)
        fits = min(n, len(self.ring) - slot)
        self.ring[slot : slot + fits] = rows[:fits]
        self.ring[: n - fits] = rows[fits:]
        self.tail += n

    def start(self, row: int) -> None:
        """Let an empty column begin at this row."""
        self.head = self.tail = self._first = row

    def gather(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Copy `rows` (int64 [B], any order) into `out` [B, *shape]."""
        if len(rows) and (rows.min() < self.head or rows.max() >= self.tail):
            raise IndexError(f"rows outside [{self.head}, {self.tail}) were asked for")
        ring = self.ring  # append may replace it by a larger one
        take(ring, rows % len(ring), out)

    def evict(self, head: int) -> None:
        """Forget the rows below `head`."""
        self.head = min(max(self.head, head), self.tail)

    def views(self, first_row: int) -> list[np.ndarray]:
        """Return the rows from `first_row` on, as at most two views of the ring; they are valid until the next
        `append`."""
        first = max(first_row, self.head)
        slot, n = first % len(self.ring), self.tail - first
        views = (self.ring[slot : slot + n], self.ring[: max(0, slot + n - len(self.ring))])
        return [view for view in views if view.size]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.ring.nbytes // len(self.ring)

    @property
    def nbytes(self) -> int:
        """Memory reserved, whether it was written to or not."""
        return self.ring.nbytes

    @property
    def written_bytes(self) -> int:
        """Memory of the slots that were written to."""
        return min(self.tail - self._first, len(self.ring)) * self.row_bytes

    @property
    def settled_bytes(self) -> int:
        """Memory that its rows need, including room to grow."""
        return int((self.tail - self.head) * (1 + self._slack)) * self.row_bytes

    def stats(self) -> dict[str, Any]:
        """Return codec, rows and bytes."""
        rows = self.tail - self.head
        return {"codec": "raw", "rows": rows, "raw_bytes": rows * self.row_bytes, "nbytes": self.nbytes}

    def flush(self) -> None:
        """Do nothing: no row waits for anything."""

    def close(self) -> None:
        """Free the memory."""
        self.evict(self.tail)
        self.ring, self._first = self.ring[:16].copy(), self.tail

    def _grow(self, rows: int) -> None:
        """Use a larger ring; the old one is not changed, threads may be reading it."""
        ring = np.empty((max(rows, int(len(self.ring) * (1 + self._slack))), *self.ring.shape[1:]), self.ring.dtype)
        live = np.arange(self.head, self.tail)
        for part in np.array_split(live, max(1, len(live) >> 16)):
            ring[part % len(ring)] = self.ring[part % len(self.ring)]
        self.ring, self._first = ring, self.head


def take(ring: np.ndarray, slots: np.ndarray, out: np.ndarray) -> None:
    """Copy ring[slots] into `out`, with torch's threads if it is much."""
    forked = os.getpid() != _PID  # a child does not have torch's threads and would wait for them
    if forked or out.nbytes < _PARALLEL_BYTES or ring.dtype.char not in _TORCH_TYPES:
        ring.take(slots, axis=0, out=out, mode="clip")
    else:
        torch.index_select(torch.from_numpy(ring), 0, torch.from_numpy(slots), out=torch.from_numpy(out))
