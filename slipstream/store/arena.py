"""Memory for blocks: a log of large segments. A segment goes back to the system when the last block in it has gone."""

from __future__ import annotations

import mmap

import numpy as np

SMALLEST, LARGEST = 1 << 16, 1 << 25
_HUGE = 1 << 22  # from here on large pages are asked for: random reads then miss fewer address translations


class _Segment:
    __slots__ = ("address", "live", "memory", "size", "used")

    def __init__(self, size: int) -> None:
        area = mmap.mmap(-1, size)
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            area.madvise(mmap.MADV_HUGEPAGE)
        self.memory = np.frombuffer(area, np.uint8)
        self.address = self.memory.ctypes.data
        self.size, self.used, self.live = size, 0, 0


class Arena:
    """Blocks leave about as they came, so segments empty one after another. Not thread-safe: the owner locks."""

    def __init__(self) -> None:
        self._segments: dict[int, _Segment] = {}
        self._next = 0
        self._open: int | None = None
        self.nbytes = 0  # of all segments
        self.live = 0  # of the blocks in them

    def put(self, data: np.ndarray) -> tuple[int, int]:
        """Copy `data`, uint8 [n]; (address, segment). Begins at a multiple of 64."""
        room = -(-data.size // 64) * 64
        segment = self._segments.get(self._open) if self._open is not None else None
        if segment is None or segment.used + room > segment.size:
            self._open, previous = self._new(room), self._open
            if previous is not None and self._segments[previous].live == 0:
                self._drop(previous)
            segment = self._segments[self._open]
        address = segment.address + segment.used
        segment.memory[segment.used : segment.used + data.size] = data
        segment.used += room
        segment.live += data.size
        self.live += data.size
        assert self._open is not None
        return address, self._open

    def free(self, segment: int, nbytes: int) -> None:
        """The block of `nbytes` bytes in that segment is read no more."""
        owner = self._segments[segment]
        owner.live -= nbytes
        self.live -= nbytes
        if owner.live == 0 and segment != self._open:
            self._drop(segment)

    def clear(self) -> None:
        """Give everything back."""
        self._segments.clear()
        self._open, self.nbytes, self.live = None, 0, 0

    def _new(self, least: int) -> int:
        # a sixteenth of what is held: the unused end of the newest segment never weighs much
        size = min(LARGEST, max(SMALLEST, self.nbytes // 16))
        size = -(-max(size, least) // SMALLEST) * SMALLEST
        self._next += 1
        self._segments[self._next] = _Segment(size)
        self.nbytes += size
        return self._next

    def _drop(self, segment: int) -> None:
        self.nbytes -= self._segments.pop(segment).size
