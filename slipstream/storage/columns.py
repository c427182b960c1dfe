"""The plain column: one key's rows as they are, in a ring that grows when it must."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

_HEADER = struct.Struct("<8sqqqI")  # magic, first row, rows, bytes a row, checksum of the rows
_MAGIC = b"SLIPRAW1"
_PID = os.getpid()
_PARALLEL_BYTES = 1 << 19  # from here on torch's threads gather faster than NumPy's one


class Column(Protocol):
    """What the replay buffer asks of a column: rows of one key, numbered by a counter that never goes back."""

    head: int
    tail: int

    def append(self, frames: np.ndarray) -> int:
        """Adds [n, *shape]; the first new row."""
        ...

    def gather(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Copies rows [B] into out [B, *shape]."""
        ...

    def evict(self, head: int) -> None:
        """Rows below `head` are gone."""
        ...

    def blocks(self, first_row: int = ...) -> Iterator[tuple[Any, np.ndarray]]:
        """(header, bytes) from a row on."""
        ...

    def add_block(self, buffer: Any) -> Any:
        """Appends what `blocks` gave."""
        ...

    def flush(self) -> None:
        """Everything appended can be given by `blocks`."""
        ...

    def close(self) -> None:
        """Ends background work."""
        ...

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, codec."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        ...

    @property
    def written_bytes(self) -> int:
        """Memory written to: of what is only reserved the system has given none yet."""
        ...

    @property
    def settled_bytes(self) -> int:
        """Memory that its rows will take when background work is done."""
        ...


class RawHeader(NamedTuple):
    """What stands before a run of raw rows in a file."""

    first_row: int
    rows: int
    nbytes: int  # of header and rows together


class RawColumn:
    """Rows of `shape` and `dtype`, uncompressed. `capacity` rows are reserved at once; memory is taken as they are written.

    `gather` may run in many threads beside one `append`; it must not run beside `evict` of the rows it reads.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, capacity: int = 1024, slack: float = 0.5) -> None:
        """`slack`: how much larger than needed a ring that must grow becomes."""
        self.head = self.tail = 0
        self.ring = np.empty((max(16, capacity), *shape), dtype)  # row r lies in slot r % len(ring)
        self._slack = slack
        self._first = 0  # the first row that was written to this ring

    def append(self, frames: np.ndarray) -> int:
        """Adds [n, *shape]; the number of the first new row."""
        first, n = self.tail, len(frames)
        if self.tail + n - self.head > len(self.ring):
            self._grow(self.tail + n - self.head)
        slot = first % len(self.ring)
        fits = min(n, len(self.ring) - slot)
        self.ring[slot : slot + fits] = frames[:fits]
        self.ring[: n - fits] = frames[fits:]
        self.tail += n
        return first

    def gather(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Copies `rows` (int64 [B], any order) into `out` [B, *shape]."""
        if len(rows) and (rows.min() < self.head or rows.max() >= self.tail):
            raise IndexError(f"rows outside [{self.head}, {self.tail}) were asked for")
        ring = self.ring  # append may put a larger one in its place
        take(ring, rows % len(ring), out)

    def evict(self, head: int) -> None:
        """Rows below `head` are gone."""
        self.head = min(max(self.head, head), self.tail)

    def blocks(self, first_row: int = 0) -> Iterator[tuple[RawHeader, np.ndarray]]:
        """The rows from `first_row` on, as bytes with a checksum, about a MiB at a time."""
        row_bytes = self.ring.nbytes // len(self.ring)
        step = max(1, (1 << 20) // max(1, row_bytes))
        for first in range(max(first_row, self.head), self.tail, step):
            slots = np.arange(first, min(first + step, self.tail)) % len(self.ring)
            data = np.ascontiguousarray(self.ring[slots]).reshape(-1).view(np.uint8)
            head = _HEADER.pack(_MAGIC, first, len(slots), row_bytes, zlib.crc32(data.data))
            yield (
                RawHeader(first, len(slots), len(head) + len(data)),
                np.concatenate([np.frombuffer(head, np.uint8), data]),
            )

    def add_block(self, buffer: Any) -> RawHeader:
        """Appends what `blocks` gave; an empty column takes its row numbers from it."""
        view = memoryview(buffer).cast("B")
        header, crc = self.read_header(view)
        data = view[_HEADER.size : header.nbytes]
        if zlib.crc32(data) != crc:
            raise ValueError(f"the rows from {header.first_row} on are damaged: their checksum does not hold")
        if self.head == self.tail:
            self.head = self.tail = self._first = header.first_row
        if header.first_row != self.tail:
            raise ValueError(f"rows from {header.first_row} on were given where {self.tail} comes next")
        self.append(np.frombuffer(data, self.ring.dtype).reshape(header.rows, *self.ring.shape[1:]))
        return header

    @staticmethod
    def first_row_of(buffer: Any) -> int:
        """The first row of a run that `blocks` gave."""
        view = memoryview(buffer).cast("B")
        return _HEADER.unpack_from(view)[1] if len(view) >= _HEADER.size else -1

    def read_header(self, view: memoryview) -> tuple[RawHeader, int]:
        """The header at the start of `view`, checked against this column, and the checksum of its rows."""
        if len(view) < _HEADER.size:
            raise ValueError("a run of rows is cut off")
        magic, first, rows, row_bytes, crc = _HEADER.unpack_from(view)
        size = _HEADER.size + rows * row_bytes
        if (
            magic != _MAGIC
            or first < 0
            or rows < 0
            or row_bytes != self.ring.nbytes // len(self.ring)
            or size > len(view)
        ):
            raise ValueError("not a run of this column's rows")
        return RawHeader(first, rows, size), crc

    @property
    def nbytes(self) -> int:
        """Memory reserved, whether written yet or not."""
        return self.ring.nbytes

    @property
    def written_bytes(self) -> int:
        """Memory of the slots that were written to."""
        return min(self.tail - self._first, len(self.ring)) * (self.ring.nbytes // len(self.ring))

    @property
    def settled_bytes(self) -> int:
        """What its rows need, room to grow included."""
        return int((self.tail - self.head) * (1 + self._slack)) * (self.ring.nbytes // len(self.ring))

    def stats(self) -> dict[str, Any]:
        """Codec, rows and bytes."""
        row_bytes = self.ring.nbytes // len(self.ring)
        rows = self.tail - self.head
        return {"codec": "raw", "rows": rows, "raw_bytes": rows * row_bytes, "nbytes": self.nbytes}

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Lets the memory go."""
        self.evict(self.tail)
        self.ring, self._first = self.ring[:16].copy(), self.tail

    def _grow(self, rows: int) -> None:
        """A larger ring, the old one left as it is for whoever reads it."""
        ring = np.empty((max(rows, int(len(self.ring) * (1 + self._slack))), *self.ring.shape[1:]), self.ring.dtype)
        live = np.arange(self.head, self.tail)
        for part in np.array_split(live, max(1, len(live) >> 16)):
            ring[part % len(ring)] = self.ring[part % len(self.ring)]
        self.ring, self._first = ring, self.head


def take(ring: np.ndarray, slots: np.ndarray, out: np.ndarray) -> None:
    """Copies ring[slots] into `out`; by torch's threads where it is much."""
    forked = os.getpid() != _PID  # a child has lost torch's threads, and would wait for them
    if (
        forked
        or out.nbytes < _PARALLEL_BYTES
        or ring.dtype.kind not in "iufb"
        or ring.dtype.name in ("uint16", "uint32", "uint64")
    ):
        ring.take(slots, axis=0, out=out, mode="clip")
    else:
        torch.index_select(torch.from_numpy(ring), 0, torch.from_numpy(slots), out=torch.from_numpy(out))
