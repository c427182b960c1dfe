"""Memory for blocks: a log of large segments. A segment goes back to the system when the last block in it has gone."""

from __future__ import annotations

import mmap

import numpy as np

SMALLEST, LARGEST = 1 << 18, 1 << 25
PAGE, HUGE_PAGE = 1 << 12, 1 << 21


def anonymous(size: int) -> mmap.mmap:
    """Fresh memory straight from the system, to which it goes back; a forked child gets its own copy."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


class _Segment:
    """Address space; memory comes with the pages that are written."""

    __slots__ = ("address", "area", "live", "memory", "page", "size", "used")

    def __init__(self, size: int) -> None:
        self.area = anonymous(size)
        self.page = PAGE
        if size >= 4 * HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            self.area.madvise(mmap.MADV_HUGEPAGE)  # random reads then miss fewer address translations
            self.page = HUGE_PAGE
        self.memory = np.frombuffer(self.area, np.uint8)
        self.address = self.memory.ctypes.data
        self.size, self.used, self.live = size, 0, 0

    @property
    def nbytes(self) -> int:
        return min(self.size, -(-self.used // self.page) * self.page)

    def finish(self) -> None:
        """Nothing more will be written: give the rest of the last large page back."""
        end = -(-self.used // PAGE) * PAGE
        if self.page == HUGE_PAGE and end < self.size:
            self.area.madvise(mmap.MADV_DONTNEED, end, self.size - end)
        self.page = PAGE


class Arena:
    """Blocks leave about as they came, so segments empty one after another. Not thread-safe: the owner locks."""

    def __init__(self) -> None:
        self._segments: dict[int, _Segment] = {}
        self._next = 0
        self._open = 0
        self.nbytes = 0  # of memory taken
        self.live = 0  # of that, bytes of blocks

    def put(self, data: np.ndarray) -> tuple[int, int]:
        """Copy `data`, uint8 [n]; (address, segment). Begins at a multiple of 64."""
        room = -(-data.size // 64) * 64
        segment = self._segments.get(self._open)
        if segment is None or segment.used + room > segment.size:
            if segment is not None:
                self.nbytes -= segment.nbytes
                segment.finish()
                self.nbytes += segment.nbytes
                if segment.live == 0:
                    self._drop(self._open)
            segment = self._new(room)
        address = segment.address + segment.used
        segment.memory[segment.used : segment.used + data.size] = data
        self.nbytes -= segment.nbytes
        segment.used += room
        self.nbytes += segment.nbytes
        segment.live += data.size
        self.live += data.size
        return address, self._open

    def free(self, segment: int, nbytes: int) -> None:
        """The block of `nbytes` bytes in that segment is read no more."""
        owner = self._segments[segment]
        owner.live -= nbytes
        self.live -= nbytes
        if owner.live == 0:
            self._drop(segment)

    def clear(self) -> None:
        """Give everything back."""
        self._segments.clear()
        self._open, self.nbytes, self.live = 0, 0, 0

    def _new(self, room: int) -> _Segment:
        # a sixteenth of what is held: what leaves first comes free soon; of many blocks, so that little is lost at its end
        size = max(room, min(LARGEST, max(SMALLEST, 16 * room, self.nbytes // 16)))
        self._next += 1
        self._open = self._next
        self._segments[self._open] = segment = _Segment(-(-size // PAGE) * PAGE)
        return segment

    def _drop(self, segment: int) -> None:
        self.nbytes -= self._segments.pop(segment).nbytes
