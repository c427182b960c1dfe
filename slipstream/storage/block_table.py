"""Where a column's blocks lie: index arrays over arenas, and memory that goes only when no reader can be in it."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from slipstream.storage.arena import Arena, anonymous
from slipstream.storage.codec.registry import AT_CODEC, HEADER_BYTES, OPEN

RAW, ELSEWHERE = -1, -2  # in place of a segment: a raw block, memory of somebody else
_SPARE_RAW = 2  # raw blocks kept for the next ones: fresh memory costs as much as filling it


class BlockTable:
    """Blocks [first, first + count). All methods but `reading` want `lock` held.

    A reader takes the index as it is and reads without the lock. What it may still lead to is retired, not freed: every reader has a
    number, and memory retired under a number is freed when all readers up to it have gone.
    """

    def __init__(self, block_rows: int, frame_bytes: int) -> None:
        self.block_rows, self.frame_bytes = block_rows, frame_bytes
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)  # a reader has gone, a block was sealed
        self.first = self.count = 0
        self.raw: dict[int, np.ndarray] = {}  # blocks being filled or waiting to be coded: header and frames
        self.elsewhere: dict[int, np.ndarray] = {}
        self.stored_bytes = 0  # of coded blocks
        self.index = np.empty((3, 16), np.int64)  # address, segment, bytes
        self._index_first = 0  # the block of the index's first entry
        self._arenas = {
            True: Arena(),
            False: Arena(),
        }  # sealed blocks stay, quickly coded ones soon go: apart, each empties in order
        self._spare: list[np.ndarray] = []
        self._readers: dict[int, None] = {}
        self._serial = 0
        self._retired: deque[tuple[int, int, Any]] = deque()  # (serial, segment, bytes or memory)

    def begin_reading(self) -> tuple[int, np.ndarray, int]:
        """(a ticket, addresses, number of the first block) as they are now; what they lead to stays until `end_reading(ticket)`."""
        with self.lock:
            self._serial += 1
            self._readers[self._serial] = None
            return self._serial, self.index[0], self._index_first

    def end_reading(self, ticket: int) -> None:
        """What was read may go."""
        with self.lock:
            del self._readers[ticket]
            if self._retired:
                self.reap()
            self.changed.notify_all()

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[np.ndarray, int]]:
        """(addresses, number of the first block): the two above, as a `with` block."""
        ticket, addresses, first = self.begin_reading()
        try:
            yield addresses, first
        finally:
            self.end_reading(ticket)

    @property
    def raw_bytes(self) -> int:
        """Of one raw block."""
        return HEADER_BYTES + self.block_rows * self.frame_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of memory taken: arenas, raw blocks, index."""
        arenas = sum(arena.nbytes for arena in self._arenas.values())
        return arenas + (len(self.raw) + len(self._spare)) * self.raw_bytes + self.index.nbytes + 1024

    def frames(self, raw: np.ndarray) -> np.ndarray:
        """The frames of a raw block, uint8 [block_rows, frame_bytes]."""
        return raw[HEADER_BYTES:].reshape(self.block_rows, self.frame_bytes)

    def entry(self, number: int) -> tuple[int, int, int]:
        """(address, segment, bytes) of a block."""
        address, segment, nbytes = self.index[:, number - self._index_first].tolist()
        return address, segment, nbytes

    def start(self, number: int) -> None:
        """Let an empty table begin at this block."""
        self.first = self._index_first = number

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

    def put_elsewhere(self, number: int, block: np.ndarray) -> None:
        """Let a block be these bytes where they lie."""
        self._replace(number)
        self.elsewhere[number] = block
        self._enter(number, block.ctypes.data, ELSEWHERE, block.nbytes)
        self.stored_bytes += block.nbytes

    def drop_first(self) -> None:
        """The oldest block goes."""
        self._retire(self.first)
        self.first += 1
        self.count -= 1

    def reap(self) -> None:
        """Free what was retired before the oldest present reader began."""
        oldest = next(iter(self._readers), self._serial + 1)
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
        while self._readers:
            self.changed.wait()
        for kept in (self.raw, self.elsewhere, self._spare, self._retired):
            kept.clear()  # type: ignore[attr-defined]
        for arena in self._arenas.values():
            arena.clear()
        self.first, self.count, self.stored_bytes = first, 0, 0

    def after_fork(self) -> None:
        """In a child: the readers were other threads."""
        self._readers.clear()
        self.changed = threading.Condition(self.lock)

    def _replace(self, number: int) -> None:
        if self.first <= number < self.first + self.count:
            self._retire(number)

    def _enter(self, number: int, address: int, segment: int, nbytes: int) -> None:
        at = number - self._index_first
        if at == self.index.shape[1]:  # readers keep the array they began with
            old, skip = self.index, self.first - self._index_first
            self.index = np.empty((3, max(16, 2 * self.count)), np.int64)
            self.index[:, : self.count] = old[:, skip : skip + self.count]
            self._index_first = self.first
            at = number - self.first
        self.index[1:, at] = segment, nbytes
        self.index[0, at] = address  # one word: a reader sees the old block or the new one
        self.count = max(self.count, number + 1 - self.first)

    def _retire(self, number: int) -> None:
        _, segment, nbytes = self.entry(number)
        if segment == RAW:
            self._retired.append((self._serial, RAW, self.raw.pop(number)))
            return
        self.stored_bytes -= nbytes
        self._retired.append((self._serial, segment, self.elsewhere.pop(number) if segment == ELSEWHERE else nbytes))
