"""Where the blocks of a column are: an index over arenas, and memory that is freed only when no reader can be in it."""

from __future__ import annotations

import mmap
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.storage.codec.registry import AT_CODEC, HEADER_BYTES, OPEN

RAW, ELSEWHERE = -1, -2  # instead of a segment: a raw block, memory of another owner
_SPARE_RAW = 2  # raw blocks kept for the next ones: fresh memory costs as much as filling it
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
        # A sixteenth of what is held: what leaves first comes free soon. Its end, where no block fits, is never written
        # and takes no memory.
        size = max(room, min(LARGEST, max(SMALLEST, self.nbytes // 16)))
        self._next += 1
        self._open = self._next
        self._segments[self._open] = segment = _Segment(-(-size // PAGE) * PAGE)
        return segment

    def _drop(self, segment: int) -> None:
        self.nbytes -= self._segments.pop(segment).nbytes


class Readers:
    """The readers of memory that other threads free: the one protection of all columns and of the replay buffer.

    Every reader gets a number. Memory retired at some moment may be freed when all readers that began before have
    ended. Methods must be called with `lock` held, `reading` without it.
    """

    def __init__(self, lock: threading.Lock, on_end: Callable[[], None] = lambda: None) -> None:
        self.lock, self._on_end = lock, on_end  # called when a reader has ended
        self.changed = threading.Condition(lock)  # notified when a reader has ended for whom somebody waits
        self._waiting = 0
        self.serial = 0  # number of the newest reader
        self._present: dict[int, None] = {}

    def begin(self) -> int:
        """Return the number of a new reader."""
        self.serial += 1
        self._present[self.serial] = None
        return self.serial

    def end(self, reader: int) -> None:
        """Forget a reader."""
        del self._present[reader]
        if self._waiting:
            self.changed.notify_all()
        self._on_end()

    def reading(self) -> _Reading:
        """Return a `with` block during which a reader is present. It takes the lock itself."""
        return _Reading(self)

    @property
    def oldest(self) -> int:
        """The number of the oldest reader that is present; without any, the next number."""
        return next(iter(self._present), self.serial + 1)

    def wait(self) -> None:
        """Wait until every reader that is present now has ended. The lock is released meanwhile."""
        newest = self.serial
        self._waiting += 1
        while self.oldest <= newest:
            self.changed.wait()
        self._waiting -= 1

    def after_fork(self) -> None:
        """Forget the readers, in a child process: they were other threads."""
        self._present.clear()
        self._waiting, self.changed = 0, threading.Condition(self.lock)


class _Reading:  # a generator would take twice as long
    __slots__ = ("_number", "_readers")

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def __enter__(self) -> None:
        with self._readers.lock:
            self._number = self._readers.begin()

    def __exit__(self, *exc: object) -> None:
        with self._readers.lock:
            self._readers.end(self._number)


class BlockTable:
    """Blocks [first, first + count). All methods must be called with `lock` held.

    Within `readers.reading()` a reader takes `addresses` as it is, and reads without the lock. Blocks that it may still
    lead to are retired, and freed by `reap`.
    """

    def __init__(self, block_rows: int, frame_bytes: int) -> None:
        self.block_rows, self.frame_bytes = block_rows, frame_bytes
        self.lock = threading.Lock()
        self.readers = Readers(self.lock, self.reap)
        self.changed = self.readers.changed  # also notified when a block was sealed
        self.first = self.count = 0
        self.raw: dict[int, np.ndarray] = {}  # blocks being filled or waiting to be coded: header and frames
        self.elsewhere: dict[int, tuple[np.ndarray, Any]] = {}  # see `put_elsewhere`
        self._elsewhere_bytes = 0  # of memory
        self.stored_bytes = 0  # of coded blocks
        self._use_index(np.empty((3, 16), np.int64), 0)
        # sealed blocks stay, quickly coded ones soon go: apart, each empties in order
        self._arenas = {True: Arena(), False: Arena()}
        self._spare: list[np.ndarray] = []
        self._retired: deque[tuple[int, int, Any]] = deque()  # (serial, segment, bytes or memory)

    def _use_index(self, index: np.ndarray, first: int) -> None:
        """Look blocks up in `index`, int64 [3, n]: address, segment and bytes of the blocks from `first` on."""
        self.index, self._index_first = index, first
        self.addresses = index[0], first

    @property
    def raw_bytes(self) -> int:
        """Of one raw block."""
        return HEADER_BYTES + self.block_rows * self.frame_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of memory taken: arenas, raw blocks, index."""
        arenas = sum(arena.nbytes for arena in self._arenas.values())
        raw = (len(self.raw) + len(self._spare)) * self.raw_bytes
        return arenas + raw + self._elsewhere_bytes + self.index.nbytes + 1024

    def frames(self, raw: np.ndarray) -> np.ndarray:
        """The frames of a raw block, uint8 [block_rows, frame_bytes]."""
        return raw[HEADER_BYTES:].reshape(self.block_rows, self.frame_bytes)

    def entry(self, number: int) -> tuple[int, int, int]:
        """(address, segment, bytes) of a block."""
        address, segment, nbytes = self.index[:, number - self._index_first].tolist()
        return address, segment, nbytes

    def start(self, number: int) -> None:
        """Let an empty table begin at this block."""
        self.first = number
        self._use_index(self.index, number)

    def take_raw(self) -> np.ndarray:
        """A raw block to fill, not yet in the table."""
        # mapped, not taken from the heap: the heap keeps what is given back to it
        raw = self._spare.pop() if self._spare else np.frombuffer(anonymous(self.raw_bytes), np.uint8)
        raw[:HEADER_BYTES] = 0
        raw[AT_CODEC] = OPEN
        return raw

    def put_raw(self, number: int, raw: np.ndarray) -> None:
        """Let a block be this raw one."""
        self._replace(number)
        self.raw[number] = raw
        self._enter(number, raw.ctypes.data, RAW, 0)

    def put_coded(self, number: int, block: np.ndarray, final: bool) -> None:
        """Let a block be a copy of these bytes; `final`: it will not be coded again."""
        address, segment = self._arenas[final].put(block)
        self._replace(number)
        self._enter(number, address, 2 * segment + final, block.nbytes)
        self.stored_bytes += block.nbytes

    def put_elsewhere(self, number: int, block: np.ndarray, nbytes: int, file: Any) -> None:
        """Let a block of `nbytes` bytes be in a file, which is kept open: `block` is what `block_in_file` returned."""
        self._replace(number)
        self.elsewhere[number] = block, file
        self._elsewhere_bytes += block.nbytes
        self._enter(number, block.ctypes.data, ELSEWHERE, nbytes)
        self.stored_bytes += nbytes

    def drop_first(self) -> None:
        """The oldest block goes."""
        self._retire(self.first)
        self.first += 1
        self.count -= 1

    def reap(self) -> None:
        """Free what was retired before the oldest present reader began."""
        if not self._retired:
            return
        oldest = self.readers.oldest
        while self._retired and self._retired[0][0] < oldest:
            _, segment, what = self._retired.popleft()
            if segment >= 0:
                self._arenas[segment % 2 == 1].free(segment // 2, what)
            elif segment == RAW and len(self._spare) < _SPARE_RAW:
                self._spare.append(what)

    def drop_spare(self) -> None:
        """Give back raw blocks kept for later."""
        self._spare.clear()

    def clear(self, first: int) -> None:
        """Drop everything, once no reader is left."""
        self.readers.wait()
        for kept in (self.raw, self.elsewhere, self._spare, self._retired):
            kept.clear()  # type: ignore[attr-defined]
        for arena in self._arenas.values():
            arena.clear()
        self.first, self.count, self.stored_bytes, self._elsewhere_bytes = first, 0, 0, 0

    def after_fork(self) -> None:
        """In a child: the readers were other threads."""
        self.readers.after_fork()
        self.changed = self.readers.changed

    def _replace(self, number: int) -> None:
        if self.first <= number < self.first + self.count:
            self._retire(number)

    def _enter(self, number: int, address: int, segment: int, nbytes: int) -> None:
        at = number - self._index_first
        if at == self.index.shape[1]:  # readers keep the array they began with
            old, skip = self.index, self.first - self._index_first
            index = np.empty((3, max(16, 2 * self.count)), np.int64)
            index[:, : self.count] = old[:, skip : skip + self.count]
            self._use_index(index, self.first)
            at = number - self.first
        self.index[1:, at] = segment, nbytes
        self.index[0, at] = address  # one word: a reader sees the old block or the new one
        self.count = max(self.count, number + 1 - self.first)

    def _retire(self, number: int) -> None:
        _, segment, nbytes = self.entry(number)
        if segment == RAW:
            self._retired.append((self.readers.serial, RAW, self.raw.pop(number)))
            return
        self.stored_bytes -= nbytes
        held: Any = nbytes
        if segment == ELSEWHERE:
            held = self.elsewhere.pop(number)
            self._elsewhere_bytes -= held[0].nbytes
        self._retired.append((self.readers.serial, segment, held))
