"""One key's frames as a column of compressed blocks: append at the end, evict at the front, gather any rows."""

from __future__ import annotations

import functools
import math
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from slipstream.storage.background import BackgroundWorker
from slipstream.storage.block_table import RAW, BlockTable
from slipstream.storage.codec.block_coder import BlockCoder, CodecChoice
from slipstream.storage.codec.registry import (
    AT_CODEC,
    HEADER_BYTES,
    OPEN,
    BlockHeader,
    block_in_file,
    codec_name,
    copy_block,
    header_of,
    memory_at,
    read_header,
)
from slipstream.storage.container import Container

BLOCK_BYTES = 1 << 20  # raw; a block's overhead is nothing then, and an unfinished one is little
MOST_ROWS = 1024
BACKLOG_BYTES = 1 << 25  # raw blocks that may wait for sealing; past it they are coded quickly by whoever appends


class BlockColumn:
    """Rows [head, tail) of one key, numbered by a counter that never goes back.

    Appending copies frames into an open block. A full block waits for the background thread, which codes it with the
    slow setting (`level` 2 to 12 of LZ4-HC); with `seal=False` it is coded at once with the fast one. At most
    `backlog_bytes` of raw blocks wait, and never more than BACKLOG_BYTES. Any thread may gather at any time.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype | str | type,
        codec: str = "auto",
        group: int = 1,
        block_rows: int | None = None,
        seal: bool = True,
        level: int | None = None,
        backlog_bytes: int | None = None,
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        if self.dtype.hasobject:
            raise TypeError(f"dtype {self.dtype} holds Python objects; columns hold numbers")
        frame_bytes = self.dtype.itemsize * math.prod(self.shape)
        if frame_bytes == 0:
            raise ValueError(f"frames of shape {self.shape} hold nothing")
        if block_rows is None:
            block_rows = -(-max(1, min(MOST_ROWS, BLOCK_BYTES // frame_bytes)) // group) * group
        self.group, self.block_rows, self.seal = group, block_rows, seal
        self.level = _level(group, frame_bytes) if level is None else level
        self.coder = BlockCoder(frame_bytes, self.dtype.itemsize, group, block_rows)
        self.head = self.tail = 0
        self._choice = CodecChoice(codec, self.coder, self.level, seal)
        self._table = BlockTable(block_rows, frame_bytes)
        self._lock = self._table.lock  # held for moments: rows, table, what waits
        self._write = threading.RLock()  # held by whoever appends, adds, evicts or flushes
        self._pending: deque[int] = deque()  # blocks that wait to be sealed
        self._sealing: set[int] = set()
        self._backlog_bytes = backlog_bytes
        self._sealed_bytes, self._sealing_s = 0, 0.0
        self._error: BaseException | None = None
        self._closed = False
        _columns.add(self)

    # --- writing

    def append(self, frames: np.ndarray) -> int:
        """Append [n, *shape] frames; the number of the first."""
        frames = self._checked(frames)
        with self._write:
            self._check_state()
            first, done = self.tail, 0
            while done < len(frames):
                number, inside = divmod(self.tail, self.block_rows)
                raw = self._table.raw.get(number)
                if raw is None:
                    raw = self._open_block(number, inside)
                count = min(len(frames) - done, self.block_rows - inside)
                self._table.frames(raw)[inside : inside + count] = frames[done : done + count]
                done += count
                with self._lock:
                    self.tail += count
                if inside + count == self.block_rows:
                    self._finish_block(number)
            return first

    def evict(self, head: int) -> None:
        """Rows below `head` may go; memory follows block by block."""
        with self._write, self._lock:
            if head > self.tail:
                raise IndexError(f"cannot evict up to row {head}: the last row is {self.tail - 1}")
            self.head = max(self.head, head)
            while self._table.count and (self._table.first + 1) * self.block_rows <= self.head:
                self._table.drop_first()
            self._drop_evicted()
            self._table.reap()

    def flush(self) -> None:
        """Code everything appended so far, also the unfinished last block; a later append opens that again."""
        with self._write:
            self._check_state()
            while self.seal_next():
                pass
            with self._lock:
                while self._sealing:
                    self._table.changed.wait()
            self._check_state()
            number, inside = divmod(self.tail, self.block_rows)
            if number in self._table.raw:
                self._code(number, self._table.frames(self._table.raw[number])[:inside], slow=self.seal)
            with self._lock:
                self._table.drop_spare()

    def close(self) -> None:
        """Drop what is held. Raises what the background thread could not do."""
        with self._write, self._lock:
            self._closed = True
            self._pending.clear()
            while self._sealing:
                self._table.changed.wait()
            self.head = self.tail
            self._table.clear(self.tail // self.block_rows)
        self._check_state(closing=True)

    def __enter__(self) -> BlockColumn:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- reading

    def gather(self, rows: np.ndarray, out: np.ndarray, verify: bool = True) -> None:
        """Write the frames of `rows`, int64 [B], to `out`, [B, *shape]; each group is opened once, in parallel, without
        the GIL."""
        rows = np.ascontiguousarray(rows, np.int64)
        if out.dtype != self.dtype or out.shape != (rows.size, *self.shape) or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be contiguous {self.dtype} {(rows.size, *self.shape)}, not {out.dtype} {out.shape}"
            )
        if rows.size == 0:
            return
        with self._table.readers.reading():
            self.coder.gather(*self._look(), rows, out.reshape(-1).view(np.uint8).reshape(rows.size, -1), verify)

    def _look(self) -> tuple[np.ndarray, int, int, int]:
        """Return (addresses, first block, first row, row after the last), for use within `readers.reading()`."""
        if self._closed:
            raise RuntimeError("the column is closed")
        high = self.tail  # before the addresses, which then lead to all these rows; the head after them
        addresses, first = self._table.addresses
        return addresses, first, self.head, high

    # --- blocks as bytes

    def blocks(self, first_row: int = 0) -> Iterator[tuple[BlockHeader, np.ndarray]]:
        """(header, a copy of the bytes) of every coded block with rows from `first_row` on. Call `flush()` before, to
        have all rows."""
        return ((header, read()) for header, read in self.block_readers(first_row))

    def block_readers(self, first_row: int = 0) -> Iterator[tuple[BlockHeader, Callable[[], np.ndarray]]]:
        """(header, a function that returns a copy of the bytes) of the same blocks; call it before a row is removed."""
        number = max(first_row, self.head) // self.block_rows
        while True:
            with self._table.readers.reading():
                table, first, low, high = self._look()
                number = max(number, low // self.block_rows)
                if number * self.block_rows >= high:
                    return
                address = int(table[number - first])
                start = memory_at(address, HEADER_BYTES)
                if start[AT_CODEC] == OPEN:
                    return
                header = header_of(start)
            yield header, functools.partial(self._copy, address)
            number += 1

    def _copy(self, address: int) -> np.ndarray:
        with self._table.readers.reading():
            return copy_block(address)

    def add_block(self, block: np.ndarray | bytes) -> BlockHeader:
        """Append a block's bytes as they are. An empty column takes over its row numbers; otherwise it must follow the
        last row."""
        data = np.frombuffer(block, np.uint8)
        header = read_header(data)
        self.coder.check(header)
        with self._write:
            self._check_state()
            number, inside = divmod(header.first_row, self.block_rows)
            empty = self.head == self.tail and not self._table.count
            if inside or not (empty or header.first_row == self.tail):
                first = f"{self.tail} (blocks begin at multiples of {self.block_rows})"
                raise ValueError(f"a block from row {header.first_row} does not continue at row {first}")
            with self._lock:
                if empty:
                    self.head = self.tail = header.first_row
                    self._table.start(number)
                self._table.put_coded(number, data[: header.nbytes], final=True)
                self.tail += header.rows
        return header

    def relocate(self, first_row: int, file: Container, section: int) -> None:
        """From now on read the block of `first_row` from a section of a file, which has the same bytes."""
        block = block_in_file(*file.place(section))
        header = header_of(block)
        self.coder.check(header)
        number = first_row // self.block_rows
        with self._write, self._lock:
            held = self._table.first <= number < self._table.first + self._table.count
            if header.first_row != number * self.block_rows or not held:
                raise ValueError(f"no block begins at row {header.first_row}")
            _, segment, nbytes = self._table.entry(number)
            if segment == RAW or nbytes != header.nbytes:
                raise ValueError(f"block {number} is not coded as given: flush first, and give the bytes of blocks()")
            self._table.put_elsewhere(number, block, header.nbytes, file)
            self._table.reap()

    # --- what it holds

    @property
    def nbytes(self) -> int:
        """Bytes of memory it takes: arenas, raw blocks, index."""
        return self._table.nbytes

    @property
    def written_bytes(self) -> int:
        """All of it: arenas count the pages they have used."""
        return self.nbytes

    @property
    def settled_bytes(self) -> int:
        """Memory; a raw block that waits to be sealed counts with the compression ratio of the coded ones."""
        with self._lock:
            raw = sum(number in self._table.raw for number in (*self._pending, *self._sealing))
            waiting = raw * self.block_rows * self.coder.frame_bytes
            rows = (self._table.count * self.block_rows) * self.coder.frame_bytes - waiting
            ratio = min(1.0, self._table.stored_bytes / rows) if rows > 0 else 1.0
            return self._table.nbytes - int(waiting * (1 - ratio))

    @property
    def waiting_bytes(self) -> int:
        """Raw bytes of the blocks that wait to be sealed and that nobody seals yet."""
        return len(self._pending) * self.block_rows * self.coder.frame_bytes

    def __len__(self) -> int:
        return self.tail - self.head

    def stats(self) -> dict[str, Any]:
        """What is held and in which form, and how sealing goes."""
        table = self._table
        with self._lock:
            codecs: Counter[str] = Counter()
            rows = {True: 0, False: 0}  # sealed or not
            for number in range(table.first, table.first + table.count):
                address, segment, _ = table.entry(number)
                if segment != RAW:
                    header = header_of(memory_at(address, HEADER_BYTES))
                    codecs[codec_name(header.codec)] += 1
                    rows[header.sealed] += header.rows
            waiting = (len(self._pending) + len(self._sealing)) * self.block_rows
            coded_bytes = sum(rows.values()) * self.coder.frame_bytes
            return {
                "codec": self._choice.name,
                "codecs": dict(codecs),
                "rows": self.tail - self.head,
                "raw_bytes": (self.tail - self.head) * self.coder.frame_bytes,
                "stored_bytes": table.stored_bytes,
                "nbytes": table.nbytes,
                "ratio": table.stored_bytes / coded_bytes if coded_bytes else 1.0,
                "blocks": table.count,
                "sealed_rows": rows[True],
                "quick_rows": rows[False],
                "open_rows": self.tail % self.block_rows if self.tail // self.block_rows in table.raw else 0,
                "backlog_rows": waiting,
                "backlog_bytes": waiting * self.coder.frame_bytes,
                "sealed_bytes_per_s": self._sealed_bytes / self._sealing_s if self._sealing_s else 0.0,
                "relocated_bytes": sum(table.entry(number)[2] for number in table.elsewhere),
            }

    # --- inside

    def _checked(self, frames: np.ndarray) -> np.ndarray:
        if frames.dtype != self.dtype or frames.shape[1:] != self.shape:
            raise ValueError(
                f"frames must be {self.dtype} [n, {', '.join(map(str, self.shape))}], not {frames.dtype} {list(frames.shape)}"
            )
        return np.ascontiguousarray(frames).reshape(-1).view(np.uint8).reshape(len(frames), self.coder.frame_bytes)

    def _check_state(self, closing: bool = False) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise RuntimeError(
                "a block could not be sealed in the background; its rows are still held uncompressed"
            ) from error
        if self._closed and not closing:
            raise RuntimeError("the column is closed")

    def _open_block(self, number: int, inside: int) -> np.ndarray:
        """A raw block to fill; where rows of a flushed one lie before, they are taken back out."""
        with self._lock:
            raw = self._table.take_raw()
        if inside:
            rows = np.arange(number * self.block_rows, number * self.block_rows + inside)
            with self._table.readers.reading():
                table, first, _, high = self._look()
                self.coder.gather(table, first, 0, high, rows, self._table.frames(raw)[:inside], True)
        with self._lock:
            self._table.put_raw(number, raw)
            self._table.reap()
        return raw

    def _finish_block(self, number: int) -> None:
        """A block is full: hand it to the background, or code it here with the fast setting."""
        table = self._table
        most = BACKLOG_BYTES if self._backlog_bytes is None else min(self._backlog_bytes, BACKLOG_BYTES)
        waits = self.seal and len(table.raw) * table.raw_bytes <= max(most, 2 * table.raw_bytes)
        final = not waits and self._code(number, table.frames(table.raw[number]), slow=False)
        if self.seal and not final:
            with self._lock:
                self._pending.append(number)
            SEALER.submit(_seal_next, weakref.ref(self))  # a column that is gone by then is skipped

    def _drop_evicted(self) -> None:
        while self._pending and self._pending[0] < self._table.first:
            self._pending.popleft()

    def seal_next(self) -> bool:
        """Seal the oldest block that waits; False when none does. For the background thread, and for writers."""
        with self._lock:
            if not self._pending or self._closed:
                return False
            number = self._pending.popleft()
            self._sealing.add(number)
        try:
            self._seal(number)
        except BaseException as error:
            self._error = error
        finally:
            with self._lock:
                self._sealing.discard(number)
                self._table.changed.notify_all()
        return True

    def _seal(self, number: int) -> None:
        with self._table.readers.reading():
            with self._lock:  # from here on the block stays; it may have gone since it was taken from the queue
                if number < self._table.first:
                    return
                raw = self._table.raw.get(number)
            if raw is not None:
                frames = self._table.frames(raw)
            else:
                rows = np.arange(number * self.block_rows, (number + 1) * self.block_rows)
                frames = np.empty((self.block_rows, self.coder.frame_bytes), np.uint8)
                self.coder.gather(*self._table.addresses, 0, self.tail, rows, frames, True)
            begin = time.perf_counter()
            self._code(number, frames, slow=True)
        with self._lock:
            self._sealed_bytes += frames.nbytes
            self._sealing_s += time.perf_counter() - begin

    def _code(self, number: int, frames: np.ndarray, slow: bool) -> bool:
        """Code a block and let the table lead to it, unless it was evicted meanwhile; whether this is its final
        form."""
        block, final = self._choice.encode(frames, number * self.block_rows, slow)
        with self._lock:
            if not self._closed and number >= self._table.first:
                self._table.put_coded(number, block, final)
                self._table.reap()
        return final

    def after_fork(self) -> None:
        """In a child: no other thread is left, so nobody writes, reads or seals; what was being sealed waits again."""
        self._write = threading.RLock()
        self._choice.after_fork()
        self._table.after_fork()
        self._pending.extendleft(sorted(self._sealing, reverse=True))
        self._sealing.clear()


def _seal_next(column: weakref.ref[BlockColumn]) -> None:
    if (alive := column()) is not None:
        alive.seal_next()


# One thread for all columns. Nice 10 would leave it a hundredth of a busy machine, and `flush` waits for it.
SEALER = BackgroundWorker("block sealer", nice=5, restart_after_fork=True)
_columns: weakref.WeakSet[BlockColumn] = weakref.WeakSet()
_held_for_fork: list[BlockColumn] = []


def _before_fork() -> None:
    """No thread may be half-way through a change when the child's copy is made."""
    _held_for_fork.extend(_columns)
    for column in _held_for_fork:
        column._lock.acquire()


def _after_fork(child: bool) -> None:
    while _held_for_fork:
        column = _held_for_fork.pop()
        if child:
            column.after_fork()
        column._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=lambda: _after_fork(False), after_in_child=lambda: _after_fork(True)
    )


def _level(group: int, frame_bytes: int) -> int:
    """Of LZ4-HC. 9 seals large float frames four times slower than 6 and saves 2 % in single frames, 10 % in groups.

    From 10 on it looks for what opens quickly: single small frames, which are kept to be drawn fast, open a sixth
    sooner, are 5 % larger and sealed at half the rate.
    """
    if group >= 4:
        return 9
    return 10 if group == 1 and frame_bytes <= 1 << 14 else 6
