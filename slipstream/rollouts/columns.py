"""One tensor of a batch as a column of blocks: the replay buffer's blocks, over frames [envs x steps] that never change.

A row of a column is `span` consecutive frames: one, unless frames are small. Byte planes of a single number hold nothing to
compress, of a kilobyte of numbers they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.storage.codec.block_coder import QUICK, BlockCoder, CodecChoice
from slipstream.storage.codec.registry import (
    AT_CODED,
    DELTA,
    LZ4,
    MASK,
    PALETTE,
    SHUFFLE,
    ZSTD,
    CodecError,
    read_header,
)

ROW_BYTES = 1 << 10  # smaller frames share a row
GROUP_BYTES = 1 << 15  # opened at once: a slice of 32 lidar scans is one group, and 32 KiB stay in the first cache
BLOCK_BYTES = 1 << 20
OPENING_WEIGHT = 0.02  # files are kept for long and read seldom: opening them may take four times as long for 3 % less

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Geometry:
    """How the frames of one tensor lie in blocks."""

    frames: int
    frame_bytes: int
    itemsize: int  # of a number; of a complex one its real part
    span: int  # frames a row
    group: int  # rows
    block_rows: int

    @classmethod
    def plan(cls, frames: int, frame_bytes: int, itemsize: int, steps: int) -> Geometry:
        """For frames of which `steps` follow one another; groups end where these do, if it can be."""
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

    def coder(self) -> BlockCoder:
        """What codes and opens its blocks."""
        return BlockCoder(self.row_bytes, self.itemsize, self.group, self.block_rows)


def _divisor(number: int, most: int) -> int:
    """The largest divisor of `number` up to `most`; `most` itself where that would be less than half of it."""
    return next((d for d in range(most, most // 2, -1) if number % d == 0), most)


def effort(level: int) -> int:
    """The documents' 0-16: 0 raw; to 9 LZ4's fast compressor behind our filters, which beats its level 9 without them; above, zstd's."""
    if not 0 <= level <= 16:
        raise ValueError(f"compression_level is {level}: use 0 (none) to 16")
    return QUICK if level <= 9 else 3 if level <= 12 else 9


def _candidates(width: int, last: int) -> list[int]:
    """What is tried. A palette only of bytes, which has room for all: of wider numbers the next group may have too many."""
    return [
        MASK,
        *(
            steps | last
            for steps in (0, MASK, SHUFFLE, DELTA | MASK, DELTA | SHUFFLE, *([PALETTE] if width == 1 else []))
        ),
    ]


class ColumnCoder:
    """Codes one key's blocks, batch after batch; its codec is chosen from the data and looked at again as they change."""

    def __init__(self, geometry: Geometry, level: int) -> None:
        self.geometry, self._level, self._slow = geometry, effort(level), level > 9
        self._coder = geometry.coder()
        candidates = _candidates(self._coder.width, ZSTD if self._slow else LZ4)
        self._choice = CodecChoice(
            "raw" if level == 0 else "auto", self._coder, self._level, self._slow, OPENING_WEIGHT, 1, candidates
        )

    def encode(self, number: int, frames: Callable[[int, int], np.ndarray]) -> np.ndarray:
        """Block `number`, its frames [a, b) given by `frames(a, b)` as contiguous uint8 [b - a, frame_bytes]; a copy of its bytes."""
        g = self.geometry
        first, last = number * g.block_rows, min((number + 1) * g.block_rows, g.rows)
        a, b = first * g.span, min(last * g.span, g.frames)
        data = frames(a, b).reshape(-1)
        missing = (last - first) * g.row_bytes - data.size
        if missing:  # the last row is filled up with zeros
            data = np.concatenate([data, np.zeros(missing, np.uint8)])
        rows = data.reshape(last - first, g.row_bytes)
        block = self._code(rows, first)
        if self._choice.drifted:  # a batch has few blocks of a key: better this one twice than the whole batch large
            again = self._code(rows, first)
            block = min(block, again, key=len)
        return block

    def _code(self, rows: np.ndarray, first: int) -> np.ndarray:
        codec = self._choice.pick(rows, self._slow)
        block = self._coder.encode(rows, first, codec, self._level, self._slow or not codec & (LZ4 | ZSTD)).copy()
        self._choice.coded(int(block[AT_CODED : AT_CODED + 4].view("<u4")[0]) / rows.nbytes, self._slow)
        return block


def frames_of(data: Any, lead: tuple[int, ...]) -> np.ndarray:
    """A tensor's bits as unsigned words [envs, steps, words of a frame ...], sharing its memory where it can; any strides.

    Without leading dimensions every number is a frame of its own.
    """
    if isinstance(data, np.ndarray):
        bits = np.ascontiguousarray(data).reshape(-1).view(np.uint8).reshape(*data.shape, data.dtype.itemsize)
    else:
        bits = bits_of(data).numpy()
    if len(lead) == 2:
        return bits
    if len(lead) == 1:
        return bits[None]
    count = math.prod(data.shape)
    return bits.reshape(1, count, -1) if count else np.empty((1, 0, 1), np.uint8)


def bits_of(tensor: Tensor) -> Tensor:
    """The tensor's bits as integers of its numbers' size."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.view(_WORDS[tensor.dtype.itemsize])


def part_of(bits: np.ndarray, a: int, b: int) -> np.ndarray:
    """Frames [a, b) of [envs, steps, ...], one environment after the other, as contiguous uint8 [b - a, frame_bytes]."""
    frame_bytes = bits.dtype.itemsize * math.prod(bits.shape[2:])
    if len(bits) == 1:
        return np.ascontiguousarray(bits[0, a:b]).reshape(-1).view(np.uint8).reshape(-1, frame_bytes)
    steps = bits.shape[1]
    low, high = a // steps, -(-b // steps)
    whole = np.ascontiguousarray(bits[low:high]).reshape(-1).view(np.uint8).reshape(-1, frame_bytes)
    return whole[a - low * steps : b - low * steps]


class ColumnReader:
    """Opens frames of a column whose blocks lie in `data`, a mapped file, at `places`, int64 [blocks, 2] of offset and bytes."""

    def __init__(self, geometry: Geometry, data: np.ndarray, places: np.ndarray) -> None:
        self.geometry = geometry
        self._data, self._places = data, places
        self._coder = geometry.coder() if geometry.rows else None
        self._addresses = data.ctypes.data + places[:, 0]
        self._checked = np.zeros(len(places), bool)

    def all(self, verify: bool = True) -> np.ndarray:
        """Every frame, uint8 [frames, frame_bytes]."""
        g = self.geometry
        out = np.empty((g.rows, g.row_bytes), np.uint8)
        self._gather(np.arange(g.rows), out, verify)
        return out.reshape(-1)[: g.frames * g.frame_bytes].reshape(g.frames, g.frame_bytes)

    def take(self, frames: np.ndarray) -> np.ndarray:
        """Those frames, uint8 [n, frame_bytes]; only the groups they lie in are opened."""
        g = self.geometry
        if not g.rows or not len(frames):
            return np.empty((len(frames), g.frame_bytes), np.uint8)
        rows = frames // g.span
        if g.span == 1:
            out = np.empty((len(rows), g.row_bytes), np.uint8)
            self._gather(rows, out, True)
            return out
        different, place = np.unique(rows, return_inverse=True)
        out = np.empty((len(different), g.row_bytes), np.uint8)
        self._gather(different, out, True)
        return out.reshape(-1, g.frame_bytes)[place * g.span + frames % g.span]

    def damaged(self) -> Iterator[tuple[int, int, str]]:
        """(first frame, frame behind the last, why) of every group that cannot be opened; opens all of them."""
        g = self.geometry
        out = np.empty((g.group, g.row_bytes), np.uint8)
        for block in range(g.blocks):
            first, last = block * g.block_rows, min((block + 1) * g.block_rows, g.rows)
            try:
                self._check_block(block)
            except CodecError as error:
                yield first * g.span, min(last * g.span, g.frames), str(error)
                continue
            for a in range(first, last, g.group):
                b = min(a + g.group, last)
                try:
                    self._gather(np.arange(a, b), out[: b - a], True)
                except CodecError as error:
                    yield a * g.span, min(b * g.span, g.frames), str(error)

    def _gather(self, rows: np.ndarray, out: np.ndarray, verify: bool) -> None:
        if not rows.size:
            return
        assert self._coder is not None
        blocks = rows // self.geometry.block_rows
        if not self._checked[blocks].all():
            for block in np.unique(blocks[~self._checked[blocks]]).tolist():
                self._check_block(block)
        self._coder.gather(self._addresses, 0, 0, self.geometry.rows, np.ascontiguousarray(rows, np.int64), out, verify)

    def _check_block(self, block: int) -> None:
        """Header and table are what they must be at this place: from here on the kernels may follow them."""
        g = self.geometry
        offset, nbytes = self._places[block].tolist()
        header = read_header(self._data[offset : offset + nbytes])
        rows = min(g.block_rows, g.rows - block * g.block_rows)
        assert self._coder is not None
        try:
            self._coder.check(header)
        except ValueError as error:
            raise CodecError(str(error)) from error
        if (header.first_row, header.rows) != (block * g.block_rows, rows) or header.nbytes > nbytes:
            raise CodecError(f"block {block} holds rows from {header.first_row} on, another's")
        self._checked[block] = True
