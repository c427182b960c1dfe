"""Blocks of frames: coding them, opening them, gathering rows from many of them; native where possible, NumPy otherwise."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from slipstream.storage.codec import native, portable
from slipstream.storage.codec.chunk import CodecError
from slipstream.storage.codec.frameformat import (
    AT_CODEC,
    DELTA,
    HEADER_BYTES,
    OPEN,
    RAW,
    SPARE,
    ZSTD,
    BlockHeader,
    block_nbytes,
    number_width,
    read_header,
    write_header,
)

QUICK = -1  # level: LZ4's fast compressor
_local = threading.local()


class BlockCoder:
    """Codes blocks of one kind of frame. May be used by several threads at once."""

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
        self.width = number_width(itemsize)
        self.native = native.available()
        self._scratch = 0
        if self.native:
            from slipstream.storage.codec import groups, pool

            self._scratch = groups.scratch_bytes(group, frame_bytes, self.width)
            self._pool = pool.gather_pool()

    def encode(self, frames: np.ndarray, first_row: int, codec: int, level: int, sealed: bool) -> np.ndarray:
        """The block of `frames`, uint8 [n, frame_bytes], as uint8 [nbytes]: memory of this thread, valid until its next call."""
        rows, groups_ = len(frames), -(-len(frames) // self.group)
        block = _buffer("block", HEADER_BYTES + 8 * groups_ + frames.size + SPARE + 64)
        if self.native and not codec & ZSTD:
            from slipstream.storage.codec import groups

            scratch = _buffer("scratch", self._scratch)
            kind = (self.group, self.frame_bytes, self.width, codec, level)
            coded = groups.encode_block(
                frames.ctypes.data, rows, *kind, _hc_state(), block.ctypes.data, scratch.ctypes.data
            )
        else:
            coded = portable.encode_block(frames, self.group, self.width, codec, level, block)
        nbytes = block_nbytes(groups_, coded)
        header = BlockHeader(
            codec, self.width, sealed, first_row, rows, self.group, self.block_rows, self.frame_bytes, nbytes, coded
        )
        write_header(block, header)
        return block[:nbytes]

    def coded_bytes(self, frames: np.ndarray, codec: int, level: int) -> int:
        """Bytes that the groups of `frames` take."""
        groups_ = -(-len(frames) // self.group)
        return self.encode(frames, 0, codec, level, False).nbytes - HEADER_BYTES - 8 * groups_ - SPARE

    def check(self, header: BlockHeader) -> None:
        """Raise ValueError where a block of that header does not fit here."""
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

        table[b - first_block] is the address of block b; rows must lie in [low, high). Raises IndexError and CodecError.
        """
        if self.native:
            status, row = self._gather_native(table, first_block, low, high, rows, out, verify)
            if status == 0:
                return
            if status == 1:
                raise IndexError(f"row {row} is outside of the rows held, {low} to {high - 1}")
            if status == 2:
                raise damaged(row, self, "it does not match its checksum or cannot be opened")
        outside = (rows < low) | (rows >= high)
        if outside.any():
            raise IndexError(f"row {rows[outside][0]} is outside of the rows held, {low} to {high - 1}")
        self._gather_portable(table, first_block, rows, out, verify)

    def _gather_native(
        self, table: np.ndarray, first_block: int, low: int, high: int, rows: np.ndarray, out: np.ndarray, verify: bool
    ) -> tuple[int, int]:
        count = len(rows)
        share = count > 1 and out.nbytes >= self._pool.least_bytes
        members = self._pool.threads if share else 1
        # requests of one group lie side by side, so that it is opened once
        order = np.argsort(rows) if self.group > 1 else _identity(count)
        scratch = _buffer("scratch", self._scratch * members)
        chunk = max(1, min(16, count // (4 * members)))
        job = np.array(
            [0, count, chunk, _address(rows), _address(order), _address(out), _address(table), first_block, self.block_rows,
             self.frame_bytes, verify, _address(scratch), self._scratch, 0, low, high, 0, 0, members],
            np.int64,
        )  # fmt: skip
        self._pool.run(_address(job), share)
        return job.item(16), job.item(17)

    def _gather_portable(
        self, table: np.ndarray, first_block: int, rows: np.ndarray, out: np.ndarray, verify: bool
    ) -> None:
        order = np.argsort(rows, kind="stable")
        block, header, opened, frames = -1, None, -1, np.empty(0)
        data = np.empty(0, np.uint8)
        for request, row in zip(order.tolist(), rows[order].tolist(), strict=True):
            number, inside = divmod(row, self.block_rows)
            if number != block:
                block, opened = number, -1
                address = int(table[number - first_block])
                data = native.view(address, HEADER_BYTES)
                if data[AT_CODEC] == OPEN:
                    header = None
                    data = native.view(address + HEADER_BYTES, self.block_rows * self.frame_bytes).reshape(
                        self.block_rows, -1
                    )
                else:
                    nbytes = int(data[32:40].view("<u8")[0])
                    header, data = header_of(data), native.view(address, nbytes)
            if header is None:
                out[request] = data[inside]
                continue
            if inside // self.group != opened:
                opened = inside // self.group
                try:
                    frames = portable.decode_group(data, header, opened, verify)
                except CodecError as error:
                    raise damaged(row, self, str(error)) from error
            out[request] = frames[inside % self.group]


def header_of(data: np.ndarray) -> BlockHeader:
    """The header of a block in memory, its checksum not looked at again."""
    from slipstream.storage.codec.frameformat import HEADER, SEALED

    _, codec, width, flags, _, first, rows, group, block_rows, frame_bytes, nbytes, coded, _ = HEADER.unpack(
        data[: HEADER.size].tobytes()
    )
    return BlockHeader(codec, width, bool(flags & SEALED), first, rows, group, block_rows, frame_bytes, nbytes, coded)


def damaged(row: int, coder: BlockCoder, why: str) -> CodecError:
    """The error for a group that cannot be trusted."""
    first = row // coder.group * coder.group
    return CodecError(f"rows {first} to {first + coder.group - 1} (block {row // coder.block_rows}) are damaged: {why}")


def _buffer(name: str, nbytes: int) -> np.ndarray:
    """uint8 [>= nbytes] of the calling thread, 64-byte aligned."""
    kept: dict[str, Any] = _local.__dict__
    if name not in kept or kept[name].size < nbytes:
        whole = np.empty(nbytes + nbytes // 4 + 64, np.uint8)
        kept[name] = whole[-whole.ctypes.data % 64 :]
    return kept[name]


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # half the time of array.ctypes.data


def _identity(count: int) -> np.ndarray:
    """0, 1, 2 ... at least `count` of them."""
    kept: dict[str, Any] = _local.__dict__
    if "identity" not in kept or kept["identity"].size < count:
        kept["identity"] = np.arange(2 * count, dtype=np.int64)
    return kept["identity"]


def _hc_state() -> int:
    """Address of this thread's state for LZ4-HC: making one for every group would cost more than coding a small one."""
    kept: dict[str, Any] = _local.__dict__
    if "hc" not in kept:
        import lz4.block

        library = ctypes.CDLL(lz4.block._block.__file__)
        size = library.LZ4_sizeofStateHC()
        state = np.zeros(size + 64, np.uint8)
        address = (state.ctypes.data + 63) // 64 * 64
        library.LZ4_initStreamHC.restype = ctypes.c_void_p
        if not library.LZ4_initStreamHC(ctypes.c_void_p(address), ctypes.c_size_t(size)):
            raise CodecError("liblz4 refuses its own state")
        kept["hc"] = (state, address)
    return kept["hc"][1]


__all__ = ["DELTA", "QUICK", "RAW", "BlockCoder", "damaged", "header_of", "read_header"]
