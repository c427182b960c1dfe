"""Columns, one key's rows each: plain or as compressed blocks. Append at the end, evict in front, gather any rows."""

from __future__ import annotations

import math
import mmap
import os
import threading
import weakref
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import torch

from slipstream.storage.background import BackgroundWorker
from slipstream.storage.codec.block_coder import BlockCoder, CodecChoice
from slipstream.storage.codec.registry import (
    AT_CODEC,
    HEADER_BYTES,
    OPEN,
    BlockHeader,
    block_in_file,
    header_of,
    read_header,
)
from slipstream.storage.tensor_file import TensorFile

BLOCK_BYTES = 1 << 20  # raw; a block's overhead is nothing then, and an unfinished one is little
MOST_ROWS = 1024
BACKLOG_BYTES = 1 << 25  # raw blocks that may wait for sealing; past it they are coded quickly by whoever appends
_MAPPED_BYTES = 1 << 16
_BLOCK_OVERHEAD = 400  # bytes of the Python objects
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
    few = out.nbytes < _PARALLEL_BYTES or ring.dtype.char not in _TORCH_TYPES
    if few or os.getpid() != _PID:  # a forked child does not have torch's threads and would wait for them
        ring.take(slots, axis=0, out=out, mode="clip")
    else:
        torch.index_select(torch.from_numpy(ring), 0, torch.from_numpy(slots), out=torch.from_numpy(out))


class Block(NamedTuple):
    """A block of rows. Its bytes never change, but for the raw one that is being filled."""

    data: np.ndarray  # uint8, as the kernels take it; of a block in a file its header and table
    nbytes: int  # of the complete block; 0: it is raw
    sealed: bool = False  # with the slow setting
    file: TensorFile | None = None  # in which its groups are
    section: int = 0  # of the file

    @property
    def header(self) -> BlockHeader:
        """Its header; of a coded block only."""
        return header_of(self.data)

    def read(self) -> np.ndarray:
        """Return its bytes, also those in a file."""
        return self.data if self.file is None else self.file.view(self.section)


class View(NamedTuple):
    """Rows [low, high) as they are now. It keeps its blocks: nothing is freed or reused while somebody reads."""

    first: int  # number of the first block
    blocks: list[Block]
    addresses: np.ndarray  # int64, of their data
    low: int
    high: int


class BlockColumn:
    """Rows [head, tail) of one key, numbered by a counter that never goes back.

    Appending copies frames into an open block. A full block waits for the background thread, which codes it with the
    slow setting (`level` 2 to 12 of LZ4-HC); with `seal=False` it is coded at once with the fast one. At most
    BACKLOG_BYTES of raw blocks wait. Any thread may gather at any time: a change replaces the list of blocks.
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
        self.group, self.block_rows, self.seal = group, block_rows, seal
        self.coder = BlockCoder(frame_bytes, self.dtype.itemsize, group, block_rows)
        self._choice = CodecChoice(codec, self.coder, _level(group, frame_bytes) if level is None else level, seal)
        self._view = View(0, [], np.empty(0, np.int64), 0, 0)
        self._lock = threading.Lock()  # held for moments, to replace the view and what waits
        self._sealed = threading.Condition(self._lock)
        self._write = threading.RLock()  # held by whoever appends, adds, evicts or flushes
        self._pending: deque[int] = deque()  # full blocks that wait to be sealed
        self._sealing = 0  # blocks that are being sealed
        self._memory = self._raw_blocks = 0
        self._error: BaseException | None = None
        self._closed = False

    # --- writing

    def append(self, frames: np.ndarray) -> int:
        """Append [n, *shape] frames; the number of the first."""
        frames = self._checked(frames)
        with self._write:
            self._check_state()
            first, done = self.tail, 0
            while done < len(frames):
                number, inside = divmod(self.tail, self.block_rows)
                raw = self._open_block(number, inside)
                count = min(len(frames) - done, self.block_rows - inside)
                raw[inside : inside + count] = frames[done : done + count]
                done += count
                with self._lock:
                    self._view = self._view._replace(high=self.tail + count)
                if inside + count == self.block_rows:
                    self._finish_block(number, raw)
            return first

    def evict(self, head: int) -> None:
        """Rows below `head` may go; memory follows block by block."""
        with self._write, self._lock:
            view = self._view
            if head > view.high:
                raise IndexError(f"cannot evict up to row {head}: the last row is {view.high - 1}")
            low = max(view.low, head)
            gone = min(low // self.block_rows - view.first, len(view.blocks))
            for block in view.blocks[:gone]:
                self._count(block, -1)
            first, blocks, addresses = view.first + gone, view.blocks[gone:], view.addresses[gone:]
            self._view = View(first, blocks, addresses, low, view.high) if gone else view._replace(low=low)
            while self._pending and self._pending[0] < first:
                self._pending.popleft()

    def flush(self) -> None:
        """Code everything appended so far, also the unfinished last block; a later append opens that again."""
        with self._write:
            while self.seal_next():
                pass
            with self._lock:
                while self._sealing:
                    self._sealed.wait()
            self._check_state()
            number, inside = divmod(self.tail, self.block_rows)
            if inside and not self._block(number).nbytes:
                self._code(number, self._frames(self._block(number))[:inside], slow=self.seal)

    def close(self) -> None:
        """Drop what is held. Raises what the background thread could not do."""
        with self._write, self._lock:
            self._closed = True
            self._pending.clear()
            while self._sealing:
                self._sealed.wait()
            self._view = View(self.tail // self.block_rows, [], np.empty(0, np.int64), self.tail, self.tail)
            self._memory = self._raw_blocks = 0
        self._check_state(closing=True)

    def __enter__(self) -> BlockColumn:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- reading

    @property
    def head(self) -> int:
        """The oldest row."""
        return self._view.low

    @property
    def tail(self) -> int:
        """The number of the next row."""
        return self._view.high

    def view(self) -> View:
        """Return the rows as they are now, for `gather`."""
        if self._closed:
            raise RuntimeError("the column is closed")
        return self._view

    def gather(self, rows: np.ndarray, out: np.ndarray, view: View | None = None) -> None:
        """Write the frames of `rows`, int64 [B], to `out`, [B, *shape]; each group is opened once, in parallel, without
        the GIL."""
        rows = np.ascontiguousarray(rows, np.int64)
        if out.dtype != self.dtype or out.shape != (rows.size, *self.shape) or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be contiguous {self.dtype} {(rows.size, *self.shape)}, not {out.dtype} {out.shape}"
            )
        if rows.size == 0:
            return
        view = view or self.view()
        out = out.reshape(-1).view(np.uint8).reshape(rows.size, -1)
        self.coder.gather(view.addresses, view.first, view.low, view.high, rows, out, True)

    # --- blocks as bytes

    def blocks(self, first_row: int = 0) -> list[Block]:
        """Every coded block with rows from `first_row` on. Call `flush()` before, to have all rows."""
        view = self.view()
        start = max(first_row, view.low) // self.block_rows - view.first
        return [block for block in view.blocks[start:] if block.nbytes]

    def add_block(self, block: np.ndarray | bytes) -> BlockHeader:
        """Append a block's bytes as they are. An empty column takes over its row numbers; otherwise it must follow the
        last row."""
        data = np.frombuffer(block, np.uint8)
        header = read_header(data)
        self.coder.check(header)
        with self._write:
            self._check_state()
            number, inside = divmod(header.first_row, self.block_rows)
            empty = self.head == self.tail and not self._view.blocks
            if inside or not (empty or header.first_row == self.tail):
                first = f"{self.tail} (blocks begin at multiples of {self.block_rows})"
                raise ValueError(f"a block from row {header.first_row} does not continue at row {first}")
            with self._lock:
                if empty:
                    self._view = View(number, [], np.empty(0, np.int64), header.first_row, header.first_row)
                self._put(number, Block(_copied(data[: header.nbytes]), header.nbytes, header.sealed))
                self._view = self._view._replace(high=self.tail + header.rows)
        return header

    def relocate(self, first_row: int, file: TensorFile, section: int) -> None:
        """From now on read the block of `first_row` from a section of a file, which has the same bytes."""
        if not hasattr(os, "pread"):  # the kernels cannot read files: it stays in memory
            return
        fd, offset, nbytes = file.place(section)
        number = first_row // self.block_rows
        with self._write, self._lock:
            if not 0 <= number - self._view.first < len(self._view.blocks):
                raise ValueError(f"no block begins at row {first_row}")
            block = self._block(number)
            if block.nbytes != nbytes:
                raise ValueError(f"block {number} is not coded as given: flush first, and give the bytes of blocks()")
            data = block_in_file(block.data, fd, offset)  # header and table are those in memory
            self._put(number, block._replace(data=data, file=file, section=section))

    # --- what it holds

    @property
    def nbytes(self) -> int:
        """Bytes of memory it takes."""
        return self._memory + self._view.addresses.nbytes

    written_bytes = settled_bytes = nbytes  # as those of a `RawColumn`

    @property
    def waiting_bytes(self) -> int:
        """Raw bytes of the blocks that wait to be sealed."""
        return len(self._pending) * self.block_rows * self.coder.frame_bytes

    def __len__(self) -> int:
        return self.tail - self.head

    def stats(self) -> dict[str, Any]:
        """What is held and in which form, and how sealing goes."""
        with self._lock:
            view, frame_bytes = self._view, self.coder.frame_bytes
            coded = [(block.header.rows, block) for block in view.blocks if block.nbytes]
            coded_rows, stored = sum(rows for rows, _ in coded), sum(block.nbytes for _, block in coded)
            sealed = sum(rows for rows, block in coded if block.sealed)
            return {
                "codec": self._choice.name,
                "rows": view.high - view.low,
                "raw_bytes": (view.high - view.low) * frame_bytes,
                "stored_bytes": stored,
                "nbytes": self.nbytes,
                "ratio": stored / (coded_rows * frame_bytes) if coded else 1.0,
                "blocks": len(view.blocks),
                "sealed_rows": sealed,
                "quick_rows": coded_rows - sealed,
                "open_rows": view.high - view.first * self.block_rows - coded_rows,
                "backlog_bytes": (len(self._pending) + self._sealing) * self.block_rows * frame_bytes,
                "relocated_bytes": sum(block.nbytes for block in view.blocks if block.file is not None),
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

    def _block(self, number: int) -> Block:
        return self._view.blocks[number - self._view.first]

    def _frames(self, block: Block) -> np.ndarray:
        """The frames of a raw block, uint8 [block_rows, frame_bytes]."""
        return block.data[HEADER_BYTES:].reshape(self.block_rows, self.coder.frame_bytes)

    def _count(self, block: Block, times: int) -> None:
        """Add a block to the sums, or take it away with `times=-1`. Hold `_lock`."""
        self._memory += times * (block.data.nbytes + _BLOCK_OVERHEAD)
        self._raw_blocks += times * (block.nbytes == 0)

    def _put(self, number: int, block: Block) -> None:
        """Let the column have this block, in lists of its own: readers keep those they have. Hold `_lock`."""
        at, blocks = number - self._view.first, self._view.blocks
        if at < len(blocks):
            self._count(blocks[at], -1)
        self._count(block, 1)
        address = block.data.ctypes.data
        addresses = np.concatenate([self._view.addresses[:at], [address], self._view.addresses[at + 1 :]])
        self._view = self._view._replace(blocks=[*blocks[:at], block, *blocks[at + 1 :]], addresses=addresses)

    def _open_block(self, number: int, inside: int) -> np.ndarray:
        """The frames of the raw block to fill; a flushed one that is not full is decoded again."""
        if inside and not self._block(number).nbytes:
            return self._frames(self._block(number))
        data = np.empty(HEADER_BYTES + self.block_rows * self.coder.frame_bytes, np.uint8)
        data[:HEADER_BYTES] = 0
        data[AT_CODEC] = OPEN
        block = Block(data, 0)
        if inside:
            self._frames(block)[:inside] = self._decoded(self._view, number, inside)
        with self._lock:
            self._put(number, block)
        return self._frames(block)

    def _decoded(self, view: View, number: int, rows: int) -> np.ndarray:
        """Return the first rows of a coded block, uint8 [rows, frame_bytes], evicted ones too."""
        first, out = number * self.block_rows, np.empty((rows, self.coder.frame_bytes), np.uint8)
        self.coder.gather(view.addresses, view.first, first, first + rows, np.arange(first, first + rows), out, True)
        return out

    def _finish_block(self, number: int, raw: np.ndarray) -> None:
        """A block is full: hand it to the background, or code it here with the fast setting."""
        waits = self.seal and self._raw_blocks * raw.nbytes <= max(BACKLOG_BYTES, 2 * raw.nbytes)
        final = not waits and self._code(number, raw, slow=False)
        if self.seal and not final:
            with self._lock:
                self._pending.append(number)
            SEALER.submit(_seal_next, weakref.ref(self))  # a column that is gone by then is skipped

    def seal_next(self) -> bool:
        """Seal the oldest block that waits; False when none does. For the background thread, and for writers."""
        with self._lock:
            if not self._pending or self._closed:
                return False
            number = self._pending.popleft()
            view, block = self._view, self._block(number)
            self._sealing += 1
        try:
            frames = self._decoded(view, number, self.block_rows) if block.nbytes else self._frames(block)
            self._code(number, frames, slow=True)
        except BaseException as error:
            self._error = error
        finally:
            with self._lock:
                self._sealing -= 1
                self._sealed.notify_all()
        return True

    def _code(self, number: int, frames: np.ndarray, slow: bool) -> bool:
        """Code a block and put it in its place, unless it was evicted meanwhile; whether this is its final form."""
        data, final = self._choice.encode(frames, number * self.block_rows, slow)
        block = Block(_copied(data), data.nbytes, final)
        with self._lock:
            if not self._closed and number >= self._view.first:
                self._put(number, block)
        return final


def _copied(data: np.ndarray) -> np.ndarray:
    """Copy into memory of its own; much of it comes straight from the system, to which it goes back at once."""
    memory = np.empty(data.size, np.uint8)
    if data.size >= _MAPPED_BYTES:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        memory = np.frombuffer(mmap.mmap(-1, data.size, **private), np.uint8)
    memory[:] = data
    return memory


def _seal_next(column: weakref.ref[BlockColumn]) -> None:
    if (alive := column()) is not None:
        alive.seal_next()


# One thread for all columns. Nice 10 would leave it a hundredth of a busy machine, and `flush` waits for it.
SEALER = BackgroundWorker("block sealer", nice=5, restart_after_fork=True)


def _level(group: int, frame_bytes: int) -> int:
    """Of LZ4-HC. 9 seals large float frames four times slower than 6 and saves 2 % in single frames, 10 % in groups.

    From 10 on it looks for what opens quickly: single small frames, which are kept to be drawn fast, open a sixth
    sooner, are 5 % larger and sealed at half the rate.
    """
    if group >= 4:
        return 9
    return 10 if group == 1 and frame_bytes <= 1 << 14 else 6
