"""One tensor of a batch as a column of blocks: the replay buffer's blocks, over frames [envs x steps] that never
change.

A row of a column is `span` consecutive frames: one, unless frames are small. Byte planes of a single number hold
nothing to compress, of a kilobyte of numbers they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slipstream.storage.codec.block_coder import QUICK, BlockCoder, CodecChoice
from slipstream.storage.codec.registry import DELTA, LZ4, MASK, PALETTE, SHUFFLE, CodecError, block_in_file, header_of
from slipstream.storage.container import Container
from slipstream.storage.staging import plain_dtype

ROW_BYTES = 1 << 10  # smaller frames share a row
GROUP_BYTES = 1 << 15  # opened at once: a slice of 32 lidar scans is one group, and 32 KiB stay in the first cache
BLOCK_BYTES = 1 << 20
OPENING_WEIGHT = 0.02  # files are kept for long and read seldom: opening them may take four times as long for 3 % less

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Geometry:
    """How the frames of one tensor are laid out in blocks."""

    frames: int
    frame_bytes: int
    itemsize: int  # of a number; of a complex one its real part
    span: int  # frames per row
    group: int  # rows
    block_rows: int

    @classmethod
    def plan(cls, frames: int, numbers: int, dtype: str, steps: int) -> Geometry:
        """Return the layout for frames of so many numbers, of which `steps` follow one another; groups end where these
        do, if possible."""
        frame_bytes, itemsize = frame_sizes(numbers, dtype)
        if not frames or not frame_bytes:
            return cls(frames, frame_bytes, itemsize, 1, 1, 1)
        span = max(1, ROW_BYTES // frame_bytes)
        together = max(1, GROUP_BYTES // frame_bytes)  # frames of a group
        together = together // steps * steps if steps <= together else _divisor(steps, together)
        span = _divisor(together, span)
        group, row_bytes = max(1, together // span), span * frame_bytes
        rows = -(-frames // span)
        block_rows = max(1, min(BLOCK_BYTES // row_bytes, rows) // group) * group
        return cls(frames, frame_bytes, itemsize, span, group, block_rows)

    @property
    def rows(self) -> int:
        """Rows of the column."""
        return -(-self.frames // self.span) if self.frame_bytes else 0

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.span * self.frame_bytes

    @property
    def blocks(self) -> int:
        """Blocks of the column."""
        return -(-self.rows // self.block_rows)

    def is_sound(self) -> bool:
        """Whether a block coder can work with it, and a group is no larger than `plan` makes it: for sizes from a
        file."""
        group_bytes, block_bytes = self.group * self.row_bytes, self.block_rows * self.row_bytes
        few = self.group == 1 or group_bytes <= 2 * GROUP_BYTES
        return self.block_rows % self.group == 0 and block_bytes < 1 << 31 and few and self.span <= ROW_BYTES

    def coder(self) -> BlockCoder:
        """Return the coder of its blocks."""
        return BlockCoder(self.row_bytes, self.itemsize, self.group, self.block_rows)


def frame_sizes(numbers: int, dtype: str) -> tuple[int, int]:
    """Return (bytes of a frame of so many numbers, bytes of a word that is encoded: of a complex number one part)."""
    plain = plain_dtype(dtype)
    is_complex = plain.kind == "c" if isinstance(plain, np.dtype) else plain.is_complex
    return numbers * plain.itemsize, plain.itemsize // 2 if is_complex else plain.itemsize


def _divisor(number: int, most: int) -> int:
    """Return the largest divisor of `number` up to `most`; `most` itself if that would be less than half of it."""
    return next((d for d in range(most, most // 2, -1) if number % d == 0), most)


def effort(level: int) -> int:
    """Return LZ4's level for a `compression_level`: up to 9 the fast compressor behind our filters; above, LZ4-HC."""
    if not 0 <= level <= 16:
        raise ValueError(f"compression_level is {level}: use 0 (none) to 16")
    return QUICK if level <= 9 else min(level, 12)


class ColumnCoder:
    """Encodes the blocks of one key, batch after batch. The codec is chosen from the data, and again when they
    change."""

    def __init__(self, geometry: Geometry, level: int) -> None:
        self.geometry, self._slow = geometry, level > 9
        coder = geometry.coder()
        # a palette only of bytes, which has room for all: of wider numbers the next group may have too many
        steps = (0, MASK, SHUFFLE, DELTA | MASK, DELTA | SHUFFLE, *([PALETTE] if coder.width == 1 else []))
        self._choice = CodecChoice(
            "raw" if level == 0 else "auto", coder, effort(level), self._slow,
            weight=OPENING_WEIGHT, patience=1, candidates=[MASK, *(step | LZ4 for step in steps)],
        )  # fmt: skip

    def encode(self, number: int, frames: np.ndarray) -> np.ndarray:
        """Return a copy of block `number` of the column that `frames_of` gave as `frames`."""
        g = self.geometry
        first, last = number * g.block_rows, min((number + 1) * g.block_rows, g.rows)
        data = _part(frames, first * g.span, min(last * g.span, g.frames))
        missing = (last - first) * g.row_bytes - data.size
        if missing:  # the last row is filled up with zeros
            data = np.concatenate([data, np.zeros(missing, np.uint8)])
        rows = data.reshape(last - first, g.row_bytes)
        block = self._choice.encode(rows, first, self._slow)[0].copy()
        if self._choice.drifted:  # a batch has few blocks of a key: better this one twice than the complete batch large
            block = min(block, self._choice.encode(rows, first, self._slow)[0].copy(), key=len)
        return block


def frames_of(data: Any, lead: tuple[int, ...]) -> np.ndarray:
    """Return a tensor's bits as unsigned words [envs, steps, words of a frame ...], as a view if possible; any strides.

    Without leading dimensions every number is a frame.
    """
    if isinstance(data, np.ndarray):
        bits = np.ascontiguousarray(data).reshape(-1).view(np.uint8).reshape(*data.shape, data.dtype.itemsize)
    else:
        tensor = torch.view_as_real(data) if data.is_complex() else data
        bits = tensor.view(_WORDS[tensor.dtype.itemsize]).numpy()
    if lead:
        return bits if len(lead) == 2 else bits[None]
    count = math.prod(data.shape)
    return bits.reshape(1, count, -1) if count else np.empty((1, 0, 1), np.uint8)


def _part(frames: np.ndarray, a: int, b: int) -> np.ndarray:
    """Return frames [a, b) of [envs, steps, ...], one environment after the other, as contiguous uint8 [n]."""
    steps, skipped = frames.shape[1], 0
    if len(frames) == 1:
        part = frames[0, a:b]
    else:
        part, skipped = frames[a // steps : -(-b // steps)], a % steps
    frame_bytes = frames.dtype.itemsize * math.prod(frames.shape[2:])
    flat = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
    return flat[skipped * frame_bytes : (skipped + b - a) * frame_bytes]


class ColumnReader:
    """Decodes frames of a column whose blocks are sections of a file, from number `first` on."""

    def __init__(self, geometry: Geometry, container: Container, first: int) -> None:
        self.geometry, self._container, self._first = geometry, container, first
        self._addresses = np.zeros(geometry.blocks, np.int64)
        self._blocks: dict[int, np.ndarray] = {}  # those that were checked
        if geometry.blocks:
            self._coder = geometry.coder()

    def take(self, frames: np.ndarray | None = None) -> np.ndarray:
        """Return those frames, uint8 [n, frame_bytes], or all; only the groups they are in are decoded."""
        g = self.geometry
        if frames is None:
            rows = self._gather(np.arange(g.rows))
            return rows.reshape(-1)[: g.frames * g.frame_bytes].reshape(g.frames, g.frame_bytes)
        if g.span == 1 or not g.rows:
            return self._gather(frames)
        rows = frames // g.span
        begins = np.ones(len(rows), bool)  # consecutive frames of one row share it
        np.not_equal(rows[1:], rows[:-1], out=begins[1:])
        return self._gather(rows[begins]).reshape(-1, g.frame_bytes)[(begins.cumsum() - 1) * g.span + frames % g.span]

    def damaged(self) -> Iterator[tuple[int, int, str]]:
        """Yield (first frame, frame after the last, reason) of every group that cannot be decoded; decodes all of
        them."""
        g = self.geometry
        for block in range(g.blocks):
            first, last = block * g.block_rows, min((block + 1) * g.block_rows, g.rows)
            step = g.group
            try:
                self._check_block(block)
            except CodecError:
                step = g.block_rows
            for a in range(first, last, step):
                b = min(a + step, last)
                try:
                    self._gather(np.arange(a, b))
                except CodecError as error:
                    yield a * g.span, min(b * g.span, g.frames), str(error)

    def _gather(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of the column, uint8 [n, row_bytes]."""
        g = self.geometry
        out = np.empty((len(rows), g.row_bytes), np.uint8)
        if out.size:
            blocks = rows // g.block_rows
            missing = self._addresses[blocks] == 0
            if missing.any():
                for block in np.unique(blocks[missing]).tolist():
                    self._check_block(block)
            self._coder.gather(self._addresses, 0, 0, g.rows, np.ascontiguousarray(rows, np.int64), out, True)
        return out

    def _check_block(self, block: int) -> None:
        """Check that header and table are those of this place: after this the kernels may follow them."""
        g = self.geometry
        found = block_in_file(*self._container.place(self._first + block))
        header = header_of(found)
        try:
            self._coder.check(header)
        except ValueError as error:
            raise CodecError(str(error)) from error
        first = block * g.block_rows
        if (header.first_row, header.rows) != (first, min(g.block_rows, g.rows - first)):
            raise CodecError(f"block {block} holds rows from {header.first_row} on, those of another")
        self._blocks[block] = found
        self._addresses[block] = found.ctypes.data
