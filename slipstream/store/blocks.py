"""One key's frames as a column of compressed blocks: append at the end, evict at the front, gather any rows."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from slipstream.codec import native
from slipstream.codec.blockcode import QUICK, BlockCoder, header_of
from slipstream.codec.choose import choose
from slipstream.codec.frameformat import (
    AT_CODEC,
    AT_CODED,
    HEADER_BYTES,
    LZ4,
    OPEN,
    RAW,
    ZSTD,
    BlockHeader,
    codec_name,
    parse_codec,
    read_header,
)
from slipstream.store.arena import Arena
from slipstream.store.sealing import sealer

BLOCK_BYTES = 1 << 20  # raw; large enough that a block's overhead is nothing, small enough that an unfinished one is little
MOST_ROWS = 1024
BACKLOG_BYTES = 1 << 25  # raw blocks that may wait for sealing; past it they are coded quickly by whoever appends
CHOOSE_AFTER = (4, 32, 256)  # blocks after which the codec is looked at again; the last one repeats


class BlockColumn:
    """Rows [head, tail) of one key, numbered by a counter that never goes back.

    Appending copies frames into an open block. A full block waits for the background thread, which codes it with the slow
    setting (`level` 2 to 12 of LZ4-HC); with `seal=False` it is coded at once with the fast one. Any thread may gather at any time.
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
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        if self.dtype.hasobject:
            raise TypeError(f"dtype {self.dtype} holds Python objects; columns hold numbers")
        frame_bytes = self.dtype.itemsize * math.prod(self.shape)
        if frame_bytes == 0:
            raise ValueError(f"frames of shape {self.shape} hold nothing")
        if block_rows is None:
            block_rows = -(-max(1, min(MOST_ROWS, BLOCK_BYTES // frame_bytes)) // group) * group
        self.coder = BlockCoder(frame_bytes, self.dtype.itemsize, group, block_rows)
        self.group, self.block_rows, self.seal = group, block_rows, seal
        # level 9 seals large float frames four times slower than 6 and saves 2 % in single frames, 10 % in groups
        self.level = (6 if group < 4 else 9) if level is None else level
        self._auto = codec == "auto"
        self._codec: int | None = None if self._auto else parse_codec(codec)
        self._chosen_ratio, self._choices, self._until_choice, self._since_choice = 1.0, 0, 0, 0
        self._drifted = False  # blocks take clearly more than when the codec was chosen
        self._choosing = threading.Lock()

        self.head = self.tail = 0
        self._write = threading.RLock()  # held by whoever appends, adds or evicts
        self._lock = threading.Lock()  # held for a moment: index, arena, counters
        self._idle = threading.Condition(self._lock)
        self._index = np.empty((3, 16), np.int64)  # address, segment (-1: raw block being filled or waiting), bytes
        self._table_first = 0  # block number of the index's first entry
        self._first = 0  # oldest block held
        self._blocks = 0
        self._arenas = {True: Arena(), False: Arena()}  # sealed blocks stay, quickly coded ones soon go: apart, each empties in order
        self._raw: dict[int, np.ndarray] = {}  # blocks being filled or waiting: header and frames
        self._spare: list[np.ndarray] = []
        self._open_rows = 0
        self._pending: deque[int] = deque()
        self._sealing = 0
        self._readers: dict[int, None] = {}
        self._serial = 0
        self._retired: deque[tuple[int, int, Any]] = deque()  # (serial, segment or -1, bytes or raw block)
        self._error: BaseException | None = None
        self._closed = False
        self._stored_bytes = 0
        self._external: dict[int, np.ndarray] = {}
        self._sealed_bytes, self._sealing_s = 0, 0.0

    # --- writing

    def append(self, frames: np.ndarray) -> int:
        """Append [n, *shape] frames; the number of the first."""
        frames = self._checked(frames)
        with self._write:
            self._raise_error()
            first, done = self.tail, 0
            while done < len(frames):
                number, inside = divmod(self.tail, self.block_rows)
                raw = self._raw.get(number)
                if raw is None or inside == 0:
                    raw = self._open_block(number, inside)
                count = min(len(frames) - done, self.block_rows - inside)
                self._frames(raw)[inside : inside + count] = frames[done : done + count]
                done += count
                with self._lock:
                    self.tail += count
                    self._open_rows = (inside + count) % self.block_rows
                if inside + count == self.block_rows:
                    self._finish(number)
            return first

    def evict(self, head: int) -> None:
        """Rows below `head` may go; memory follows block by block."""
        with self._write, self._lock:
            if head > self.tail:
                raise IndexError(f"cannot evict up to row {head}: the last row is {self.tail - 1}")
            self.head = max(self.head, head)
            while self._blocks and (self._first + 1) * self.block_rows <= self.head:
                self._retire(self._first)
                self._first += 1
                self._blocks -= 1
            self._reap()

    def flush(self) -> None:
        """Code everything appended so far, also the unfinished last block; a later append opens that again."""
        with self._write:
            self._raise_error()
            while self.seal_next():
                pass
            with self._idle:
                while self._sealing:
                    self._idle.wait()
            self._raise_error()
            if self._open_rows:
                number = self.tail // self.block_rows
                rows = self._frames(self._raw[number])[: self._open_rows]
                self._code(number, rows, slow=self.seal)
            with self._lock:
                self._open_rows = 0
                self._spare.clear()

    def close(self) -> None:
        """Drop what is held. Raises what the background thread could not do."""
        with self._write, self._idle:
            self._closed = True
            self._pending.clear()
            while self._sealing:
                self._idle.wait()
            while self._readers:
                self._idle.wait()
            self._retired.clear()
            self._raw.clear()
            self._spare.clear()
            self._external.clear()
            for arena in self._arenas.values():
                arena.clear()
            self._blocks, self.head, self._first, self._open_rows = 0, self.tail, self.tail // self.block_rows, 0
        self._raise_error(closing=True)

    def __enter__(self) -> BlockColumn:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- reading

    def gather(self, rows: np.ndarray, out: np.ndarray, verify: bool = True) -> None:
        """Write the frames of `rows`, int64 [B], to `out`, [B, *shape]; each group is opened once, in parallel, without the GIL."""
        rows = np.ascontiguousarray(rows, np.int64)
        if out.dtype != self.dtype or out.shape != (rows.size, *self.shape) or not out.flags.c_contiguous:
            raise ValueError(f"out must be contiguous {self.dtype} {(rows.size, *self.shape)}, not {out.dtype} {out.shape}")
        if rows.size == 0:
            return
        flat = out.reshape(-1).view(np.uint8).reshape(rows.size, -1)
        with self._reading() as (table, first, low, high):
            self.coder.gather(table, first, low, high, rows, flat, verify)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[tuple[np.ndarray, int, int, int]]:
        """(addresses, number of the first block, head, tail) as they are now; what they lead to stays until the end."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the column is closed")
            self._serial += 1
            serial = self._serial
            self._readers[serial] = None
            snapshot = self._index[0], self._table_first, self.head, self.tail
        try:
            yield snapshot
        finally:
            with self._idle:
                del self._readers[serial]
                self._reap()
                self._idle.notify_all()

    # --- blocks as bytes

    def blocks(self, first_row: int = 0) -> Iterator[tuple[BlockHeader, np.ndarray]]:
        """(header, a copy of the bytes) of every coded block with rows from `first_row` on. Call `flush()` before, to have all rows."""
        number = max(first_row, self.head) // self.block_rows
        while True:
            with self._reading() as (table, first, low, high):
                number = max(number, low // self.block_rows)
                if number * self.block_rows >= high:
                    return
                address = int(table[number - first])
                start = native.view(address, HEADER_BYTES)
                if start[AT_CODEC] == OPEN:
                    return
                header = header_of(start)
                data = native.view(address, header.nbytes).copy()
            yield header, data
            number += 1

    def add_block(self, block: np.ndarray | bytes) -> BlockHeader:
        """Append a block's bytes as they are. An empty column takes over its row numbers; otherwise it must follow the last row."""
        data = np.frombuffer(block, np.uint8)
        header = read_header(data)
        self.coder.check(header)
        with self._write:
            self._raise_error()
            if self.head == self.tail and not self._blocks:
                with self._lock:
                    self.head = self.tail = header.first_row
                    self._first = self._table_first = header.first_row // self.block_rows
            if header.first_row != self.tail or header.first_row % self.block_rows:
                first = f"{self.tail} (blocks begin at multiples of {self.block_rows})"
                raise ValueError(f"a block from row {header.first_row} does not continue at row {first}")
            with self._lock:
                address, segment = self._put(data[: header.nbytes], True)
                self._enter(header.first_row // self.block_rows, address, segment, header.nbytes)
                self._stored_bytes += header.nbytes
                self.tail += header.rows
        return header

    def relocate(self, first_row: int, block: np.ndarray) -> None:
        """From now on read the block of `first_row` from `block`, uint8: the same bytes in a mapped file, say."""
        header = read_header(block)
        self.coder.check(header)
        number = first_row // self.block_rows
        with self._write, self._lock:
            if header.first_row != number * self.block_rows or not self._first <= number < self._first + self._blocks:
                raise ValueError(f"no block begins at row {header.first_row}")
            at = number - self._table_first
            if self._index[1, at] == -1 or self._index[2, at] != header.nbytes:
                raise ValueError(f"block {number} is not coded as given: flush first, and give the bytes of blocks()")
            self._retire(number)
            self._external[number] = block
            self._index[:, at] = block.ctypes.data, -2, header.nbytes
            self._stored_bytes += header.nbytes
            self._reap()

    # --- what it holds

    @property
    def nbytes(self) -> int:
        """Bytes of memory it takes: arenas, raw blocks, index."""
        raw = (len(self._raw) + len(self._spare)) * self._raw_bytes
        return sum(arena.nbytes for arena in self._arenas.values()) + raw + self._index.nbytes + 1024

    def __len__(self) -> int:
        return self.tail - self.head

    def stats(self) -> dict[str, Any]:
        """What is held and in which form, and how sealing goes."""
        with self._lock:
            codecs: Counter[str] = Counter()
            quick = sealed = 0
            for number in range(self._first, self._first + self._blocks):
                at = number - self._table_first
                if self._index[1, at] == -1:
                    continue
                header = header_of(native.view(int(self._index[0, at]), HEADER_BYTES))
                codecs[codec_name(header.codec)] += 1
                sealed += header.rows if header.sealed else 0
                quick += 0 if header.sealed else header.rows
            rows = sealed + quick
            waiting = len(self._pending) + self._sealing
            return {
                "codec": "auto" if self._codec is None else codec_name(self._codec),
                "codecs": dict(codecs),
                "rows": self.tail - self.head,
                "raw_bytes": (self.tail - self.head) * self.coder.frame_bytes,
                "stored_bytes": self._stored_bytes,
                "nbytes": self.nbytes,
                "ratio": self._stored_bytes / (rows * self.coder.frame_bytes) if rows else 1.0,
                "blocks": self._blocks,
                "sealed_rows": sealed,
                "quick_rows": quick,
                "open_rows": self._open_rows,
                "backlog_rows": waiting * self.block_rows,
                "backlog_bytes": waiting * self.block_rows * self.coder.frame_bytes,
                "sealed_bytes_per_s": self._sealed_bytes / self._sealing_s if self._sealing_s else 0.0,
                "relocated_bytes": sum(block.nbytes for block in self._external.values()),
            }

    # --- inside

    @property
    def _raw_bytes(self) -> int:
        return HEADER_BYTES + self.block_rows * self.coder.frame_bytes

    def _frames(self, raw: np.ndarray) -> np.ndarray:
        return raw[HEADER_BYTES:].reshape(self.block_rows, -1)

    def _checked(self, frames: np.ndarray) -> np.ndarray:
        if frames.dtype != self.dtype or frames.shape[1:] != self.shape:
            raise ValueError(f"frames must be {self.dtype} [n, {', '.join(map(str, self.shape))}], not {frames.dtype} {list(frames.shape)}")
        return np.ascontiguousarray(frames).reshape(-1).view(np.uint8).reshape(len(frames), self.coder.frame_bytes)

    def _raise_error(self, closing: bool = False) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise RuntimeError("a block could not be sealed in the background; its rows are still held uncompressed") from error
        if self._closed and not closing:
            raise RuntimeError("the column is closed")

    def _open_block(self, number: int, inside: int) -> np.ndarray:
        """A raw block to fill; where rows of a flushed one lie before, they are taken back out."""
        with self._lock:
            raw = self._spare.pop() if self._spare else np.empty(self._raw_bytes, np.uint8)
        raw[:HEADER_BYTES] = 0
        raw[AT_CODEC] = OPEN
        if inside:
            rows = np.arange(number * self.block_rows, number * self.block_rows + inside)
            with self._reading() as (table, first, _, high):
                self.coder.gather(table, first, 0, high, rows, self._frames(raw)[:inside], True)
        with self._lock:
            if inside:
                self._retire(number)
            self._raw[number] = raw
            self._enter(number, raw.ctypes.data, -1, 0)
            self._reap()
        return raw

    def _enter(self, number: int, address: int, segment: int, nbytes: int) -> None:
        """Let the index lead to a block; under the lock. Readers keep the array they began with."""
        at = number - self._table_first
        if at == self._index.shape[1]:
            old, skip = self._index, self._first - self._table_first
            self._index = np.empty((3, max(16, 2 * self._blocks)), np.int64)
            self._index[:, : self._blocks] = old[:, skip : skip + self._blocks]
            self._table_first = self._first
            at = number - self._first
        self._index[1:, at] = segment, nbytes
        self._index[0, at] = address  # one word: a reader sees the old block or the new one
        self._blocks = max(self._blocks, number + 1 - self._first)

    def _put(self, block: np.ndarray, final: bool) -> tuple[int, int]:
        """(address, segment) of a copy; the segment's lowest bit says which arena has it."""
        address, segment = self._arenas[final].put(block)
        return address, 2 * segment + final

    def _retire(self, number: int) -> None:
        """The block's present memory goes once no reader can be in it; under the lock."""
        _, segment, nbytes = self._index[:, number - self._table_first].tolist()
        if segment == -1:
            self._retired.append((self._serial, -1, self._raw.pop(number)))
            return
        self._stored_bytes -= nbytes
        if segment == -2:
            self._retired.append((self._serial, -2, self._external.pop(number)))
        else:
            self._retired.append((self._serial, segment, nbytes))

    def _reap(self) -> None:
        """Free what was retired before the oldest present reader began; under the lock."""
        oldest = next(iter(self._readers), self._serial + 1)
        while self._retired and self._retired[0][0] < oldest:
            _, segment, what = self._retired.popleft()
            if segment >= 0:
                self._arenas[segment % 2 == 1].free(segment // 2, what)
            elif segment == -1 and len(self._spare) < 2:
                self._spare.append(what)

    def _finish(self, number: int) -> None:
        """A block is full: hand it to the background, or code it here with the fast setting."""
        waits = self.seal and len(self._raw) * self._raw_bytes <= max(BACKLOG_BYTES, 2 * self._raw_bytes)
        final = not waits and self._code(number, self._frames(self._raw[number]), slow=False)
        if self.seal and not final:
            with self._lock:
                self._pending.append(number)
            sealer().submit(self)

    def seal_next(self) -> bool:
        """Seal the oldest block that waits; False when none does. For the background thread."""
        with self._lock:
            while self._pending and self._pending[0] < self._first:
                self._pending.popleft()  # evicted meanwhile
            if not self._pending or self._closed:
                return False
            number = self._pending.popleft()
            self._sealing += 1
        try:
            with self._reading() as (table, first, _, high):
                raw = self._raw.get(number)
                if raw is not None:
                    frames = self._frames(raw)
                else:
                    start = number * self.block_rows
                    frames = np.empty((self.block_rows, self.coder.frame_bytes), np.uint8)
                    self.coder.gather(table, first, 0, high, np.arange(start, start + self.block_rows), frames, True)
                begin = time.perf_counter()
                self._code(number, frames, slow=True)
                seconds = time.perf_counter() - begin
            with self._lock:
                self._sealed_bytes += frames.nbytes
                self._sealing_s += seconds
        except BaseException as error:
            self._error = error
        finally:
            with self._idle:
                self._sealing -= 1
                self._idle.notify_all()
        return True

    def _code(self, number: int, frames: np.ndarray, slow: bool) -> bool:
        """Code a block and let the index lead to it, unless it was evicted meanwhile; whether this is its final form."""
        level = self.level if slow else QUICK
        codec = self._pick(frames, slow)
        final = slow or not codec & (LZ4 | ZSTD)
        block = self.coder.encode(frames, number * self.block_rows, codec, level, final)
        ratio = int(block[AT_CODED : AT_CODED + 4].view("<u4")[0]) / frames.nbytes
        self._drifted |= slow == self.seal and ratio > 1.3 * self._chosen_ratio + 0.02
        with self._lock:
            if self._closed or number < self._first:
                return final
            address, segment = self._put(block, final)
            self._retire(number)
            self._enter(number, address, segment, block.nbytes)
            self._stored_bytes += block.nbytes
            self._reap()
        return final

    def _pick(self, frames: np.ndarray, slow: bool) -> int:
        """The codec for a block; looked at anew when the data have changed, and now and then."""
        if not self._auto or (self.seal and not slow):  # whoever appends does not try codecs: LZ4 until the background has chosen
            return LZ4 if self._codec is None else self._codec
        with self._choosing:
            if self._until_choice <= 0 or (self._drifted and self._since_choice >= CHOOSE_AFTER[0]):
                size_of = functools.partial(self.coder.coded_bytes, level=self.level if slow else QUICK)
                self._codec, self._chosen_ratio = choose(frames, self.group, self.coder.width, size_of)
                self._until_choice = CHOOSE_AFTER[min(self._choices, len(CHOOSE_AFTER) - 1)]
                self._choices += 1
                self._since_choice, self._drifted = 0, False
            self._until_choice -= 1
            self._since_choice += 1
            assert self._codec is not None
            return self._codec


__all__ = ["RAW", "BlockColumn"]
