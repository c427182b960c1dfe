"""Encoding and decoding of blocks of frames by the native kernels, and the choice of their codec."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from slipstream.storage.codec import registry
from slipstream.storage.codec.registry import DELTA, LZ4, MASK, PALETTE, RAW, BlockHeader, CodecError

QUICK = -1  # level: LZ4's fast compressor
_LEAST_SHARED = 1 << 20  # bytes: a smaller batch is decoded before a second thread could help
_local = threading.local()


class BlockCoder:
    """Encodes and decodes blocks of frames of one size. May be used by several threads at once."""

    def __init__(self, frame_bytes: int, itemsize: int, group: int, block_rows: int) -> None:
        if frame_bytes <= 0 or group < 1 or block_rows % group:
            raise ValueError(
                f"block_rows ({block_rows}) must be a multiple of group ({group}), frame_bytes ({frame_bytes}) positive"
            )
        if block_rows * frame_bytes >= 1 << 31:
            raise ValueError(
                f"{block_rows} frames of {frame_bytes} bytes are more than 2 GiB: use fewer block_rows or a smaller group"
            )
        self.frame_bytes, self.group, self.block_rows = frame_bytes, group, block_rows
        self.width = registry.number_width(itemsize)
        from slipstream.storage.codec import gather  # loads, or compiles, the kernels

        self._kernels = gather
        self._scratch = gather.scratch_bytes(group, frame_bytes, self.width)

    def encode(self, frames: np.ndarray, first_row: int, codec: int, level: int, sealed: bool) -> np.ndarray:
        """Return the block of `frames`, uint8 [n, frame_bytes], as uint8 [nbytes]: memory of this thread, valid until
        its next call."""
        rows, groups = len(frames), -(-len(frames) // self.group)
        block = _buffer("block", registry.block_nbytes(groups, frames.size) + 64)
        scratch = _buffer("scratch", self._scratch)
        coded = self._kernels.encode_block(
            frames.ctypes.data, rows, self.group, self.frame_bytes, self.width, codec, level, _hc_state(),
            block.ctypes.data, scratch.ctypes.data,
        )  # fmt: skip
        nbytes = registry.block_nbytes(groups, coded)
        header = BlockHeader(
            codec, self.width, sealed, first_row, rows, self.group, self.block_rows, self.frame_bytes, nbytes, coded
        )
        registry.write_header(block, header)
        return block[:nbytes]

    def check(self, header: BlockHeader) -> None:
        """Raise ValueError if a block of that header is none of this column."""
        theirs = (header.frame_bytes, header.width, header.group, header.block_rows)
        ours = (self.frame_bytes, self.width, self.group, self.block_rows)
        if theirs != ours:
            raise ValueError(
                f"a block of (frame_bytes, width, group, block_rows) {theirs} does not fit a column of {ours}"
            )

    def gather(
        self, table: np.ndarray, first_block: int, low: int, high: int, rows: np.ndarray, out: np.ndarray, verify: bool
    ) -> None:
        """Write the frames of `rows`, int64 [n], to `out`, uint8 [n, frame_bytes].

        table[b - first_block] is the address of block b; rows must be in [low, high). Raises IndexError and CodecError.
        """
        # requests of one group side by side, so that it is decoded once
        targets = np.argsort(rows) if self.group > 1 else np.arange(len(rows))
        ordered = rows[targets] if self.group > 1 else rows
        threads = self._kernels.team_size() if out.nbytes >= _LEAST_SHARED else 1
        scratch = _buffer("scratch", self._scratch * threads)
        failed = self._kernels.gather(
            threads, table, first_block, self.block_rows, low, high, ordered, targets, self.frame_bytes, verify,
            _address(out), _address(scratch), self._scratch,
        )  # fmt: skip
        if failed == 0:
            return
        row, status = int(ordered[failed // 4]), failed % 4
        if status == self._kernels.OUTSIDE:
            raise IndexError(f"row {row} is outside of the rows held, {low} to {high - 1}")
        first, last = row // self.group * self.group, (row // self.group + 1) * self.group - 1
        place = f"rows {first} to {last} (block {row // self.block_rows})"
        if status == self._kernels.UNREADABLE:
            fd, _ = registry.place_in_file(int(table[row // self.block_rows - first_block]))
            raise CodecError(f"{place} cannot be read: {registry.cut_short(fd)}")
        raise CodecError(f"{place} are damaged: they do not match their checksum or cannot be decoded")


def _buffer(name: str, nbytes: int) -> np.ndarray:
    """Return uint8 [>= nbytes] of the calling thread, 64-byte aligned."""
    kept: dict[str, Any] = _local.__dict__
    if name not in kept or kept[name].size < nbytes:
        memory = np.empty(nbytes + nbytes // 4 + 64, np.uint8)
        kept[name] = memory[-memory.ctypes.data % 64 :]
    return kept[name]


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # half the time of array.ctypes.data


def _hc_state() -> int:
    """Return the address of this thread's state for LZ4-HC: making one per group would cost more than encoding a small
    one."""
    if "hc" not in _local.__dict__:
        from slipstream.storage.codec.kernels import liblz4

        size = liblz4.LZ4_sizeofStateHC()
        state = ctypes.c_void_p(_address(_buffer("hc", size)))
        liblz4.LZ4_initStreamHC(state, ctypes.c_size_t(size))
    return _address(_local.hc)


# --- the choice of a codec

CANDIDATES = (*(PALETTE, MASK, LZ4, PALETTE | LZ4, MASK | LZ4), *(PALETTE | DELTA | MASK | LZ4, DELTA | MASK | LZ4))
CHOOSE_EVERY = 64  # blocks; trying all codecs on a sample takes as long as sealing three blocks
_DRIFT_AFTER = 4  # blocks after one that came out clearly larger than the sample
_SAMPLE_BYTES = 1 << 19
_SAMPLE_GROUPS = 6
_SAMPLE_FRAMES = 16  # of a group, unless they are small
_LEAST_GAIN = 0.95  # a codec that saves less than a twentieth is not worth its time


class CodecChoice:
    """Encodes the blocks of a column with the codec that the user named, or that suits the data best ("auto").

    Codecs are tried on a sample of a block, every 64 blocks, and soon after a block came out clearly larger than the
    sample did. Size is weighed against the time to decode and to encode a frame; time counts less in larger groups,
    whose user wants them small.

    Args:
        codec: a name, or "auto".
        coder: the coder of the column.
        level: of LZ4-HC, for the slow setting.
        seals: blocks are encoded again in the background with the slow setting; only then codecs are tried.
    """

    def __init__(self, codec: str, coder: BlockCoder, level: int, seals: bool) -> None:
        self._coder, self._level, self._seals = coder, level, seals
        self._auto = codec == "auto"
        self._codec: int | None = None if self._auto else registry.parse_codec(codec)
        self._ratio = 1.0  # of the sample, when it was chosen
        self._left = 0  # blocks until the next choice
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the codec; `auto` before the first block."""
        return "auto" if self._codec is None else registry.codec_name(self._codec)

    def encode(self, frames: np.ndarray, first_row: int, slow: bool) -> tuple[np.ndarray, bool]:
        """Return (the block of `frames`, uint8 [n, frame_bytes]; whether this is its final form).

        The block is memory of this thread, valid until its next call. `slow` encodes it smaller, with `level`.
        """
        codec = self._pick(frames, slow)
        final = slow or not codec & LZ4
        block = self._coder.encode(frames, first_row, codec, self._level if slow else QUICK, final)
        if slow == self._seals and _coded(block) / frames.nbytes > 1.3 * self._ratio + 0.02:
            self._left = min(self._left, _DRIFT_AFTER)
        return block, final

    def _pick(self, frames: np.ndarray, slow: bool) -> int:
        if not self._auto or (self._seals and not slow):  # LZ4 until the background has chosen
            return LZ4 if self._codec is None else self._codec
        with self._lock:
            if self._codec is None or self._left <= 0:
                self._codec, self._ratio = self._choose(frames, self._level if slow else QUICK)
                self._left = CHOOSE_EVERY
            self._left -= 1
            return self._codec

    def _choose(self, frames: np.ndarray, level: int) -> tuple[int, float]:
        """Try the candidates on a sample; return (the best codec, its size per raw byte)."""
        group, width = self._coder.group, self._coder.width
        sample, weight = _sample(frames, group), max(0.1, 1 / group**0.8)
        raw = sum(part.size for part in sample)
        best, best_score, best_ratio = RAW, _decode_time(RAW, 1.0, width) ** weight, 1.0
        for codec in CANDIDATES:
            if codec & DELTA and group == 1:
                continue
            blocks = ((part.size, self._coder.encode(part, 0, codec, level, False)) for part in sample)
            ratio = sum(min(size, _coded(block)) for size, block in blocks) / raw
            if ratio > _LEAST_GAIN:
                continue
            # LZ4-HC looks at every byte it is given: packed numbers are encoded several times faster
            encode = (0.1 / (2 * width) if codec & PALETTE else 0.1) if codec & LZ4 else 0.0
            score = ratio * _decode_time(codec, ratio, width) ** weight * (1 + encode)
            if score < best_score:
                best, best_score, best_ratio = codec, score, ratio
        return best, best_ratio


def _coded(block: np.ndarray) -> int:
    """Return the bytes of a block's groups."""
    return int(block[registry.AT_CODED : registry.AT_CODED + 4].view("<u4")[0])


def _decode_time(codec: int, ratio: float, width: int) -> float:
    """Return the time to decode a frame, in plain copies of it: fitted to benchmarks/replay.py, batches of 512 on one
    thread."""
    if codec == RAW:
        return 1.5
    palette = 0.4 if width >= 4 else 1.6
    times = {LZ4: 8 * ratio, PALETTE: palette, MASK: 0.5, DELTA: 1.0}
    return 0.5 + sum(time for steps, time in times.items() if codec & steps)


def _sample(frames: np.ndarray, group: int) -> list[np.ndarray]:
    """Return some groups from all over the block; of groups of many large frames the first frames."""
    groups = max(1, len(frames) // group)
    each = group * frames.shape[1]
    number = int(min(groups, _SAMPLE_GROUPS, max(1, _SAMPLE_BYTES // each)))
    length = group if each <= 2 * _SAMPLE_BYTES else min(group, _SAMPLE_FRAMES)
    starts = np.linspace(0, groups - 1, number).astype(int) * group
    return [frames[s : s + length] for s in starts]
