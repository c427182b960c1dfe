"""The codecs by name, and the layout of a block: a header, a table of groups, the groups, eight spare bytes.

    header   64 bytes (HEADER)
    table    groups x (uint32 place | RAW_GROUP, uint32 checksum); the place counts from the end of the table
    groups   each coded on its own
    spare    8 zero bytes and padding to a multiple of 8: kernels read words that may begin in the last byte

Everything is little-endian. A group is coded by the block's codec, or stored raw (RAW_GROUP) where that is shorter.

A codec is one byte: the sum of its steps. Blocks of frames (replay, rollouts) use palette -> delta -> mask -> lz4;
checkpoint chunks use [decay ->] delta -> mask -> planes. Each step may be left out.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import struct
import zlib

import numpy as np

RAW = 0
PLANES, DELTA, MASK, DECAY, LZ4, _, PALETTE = (1 << bit for bit in range(7))
OPEN = 255  # frames without table and checksums: a block that is being filled; never leaves the process

STEPS = {
    "palette": PALETTE,  # the distinct values of a group, then their numbers in 1, 2, 4 or 8 bits
    "decay": DECAY,  # the older state is multiplied by one factor first
    "delta": DELTA,  # the difference to the frame before, or to the older state
    "mask": MASK,  # a bitmap of the non-zero words, then these words
    "planes": PLANES,  # all first bytes, all second bytes, ..., each plane entropy-coded or raw by itself
    "lz4": LZ4,
}
BLOCK_STEPS = PALETTE | DELTA | MASK | LZ4
CHUNK_STEPS = PLANES | DELTA | MASK | DECAY


class CodecError(ValueError):
    """The bytes are not what the codec writes."""


def codec_name(codec: int) -> str:
    """Return `palette+lz4` and the like; `raw` for no step."""
    return "+".join(name for name, bit in STEPS.items() if codec & bit) or "raw"


def parse_codec(name: str) -> int:
    """Return the block codec of that name: `raw`, or steps joined by `+` in the order palette, delta, mask, lz4."""
    if name == "raw":
        return RAW
    allowed = [step for step, bit in STEPS.items() if bit & BLOCK_STEPS]
    codec = 0
    for step in name.split("+"):
        if step not in allowed:
            raise ValueError(
                f"codec {name!r}: unknown step {step!r}; use auto, raw, or {', '.join(allowed)} joined by +"
            )
        codec |= STEPS[step]
    return codec


# --- blocks

MAGIC = 0x31424C53  # "SLB1"
SPARE = 8
RAW_GROUP = 1 << 31
HEADER_BYTES = 64
# magic, codec, width, flags, -, first_row, rows, group, block_rows, frame_bytes, nbytes, bytes of the groups, checksum
# of header and table
HEADER = struct.Struct("<IBBBBqIIIIQII")
AT_CODEC, AT_WIDTH, AT_FLAGS, AT_ROWS, AT_GROUP, AT_CODED, AT_CHECKSUM = 4, 5, 6, 16, 20, 40, 44
SEALED = 1  # flag: coded with the slow setting
IN_FILE = (
    2  # flag: after the table come the descriptor of a file and where the groups are in it; never leaves the process
)


@dataclasses.dataclass(frozen=True)
class BlockHeader:
    """The header of a block."""

    codec: int
    width: int  # bytes of a number
    sealed: bool
    first_row: int
    rows: int
    group: int
    block_rows: int  # rows of a full block of its column
    frame_bytes: int
    nbytes: int  # of the complete block
    coded: int  # of the groups

    @property
    def groups(self) -> int:
        """The number of groups."""
        return -(-self.rows // self.group)

    @property
    def payload(self) -> int:
        """The offset of the first group."""
        return HEADER_BYTES + 8 * self.groups


def block_nbytes(groups: int, coded: int) -> int:
    """Return the bytes of a block whose groups take `coded` bytes."""
    return (HEADER_BYTES + 8 * groups + coded + SPARE + 7) // 8 * 8


def number_width(itemsize: int) -> int:
    """Return the bytes of the words a codec works on in items of that size (complex and structured items are several
    words)."""
    return next(width for width in (8, 4, 2, 1) if itemsize % width == 0)


def write_header(out: np.ndarray, header: BlockHeader) -> None:
    """Fill the header of the block in `out`, whose table and groups are written already."""
    packed = HEADER.pack(
        MAGIC, header.codec, header.width, SEALED if header.sealed else 0, 0, header.first_row, header.rows, header.group,
        header.block_rows, header.frame_bytes, header.nbytes, header.coded, 0,
    )  # fmt: skip
    out[:HEADER_BYTES] = 0
    out[: HEADER.size] = np.frombuffer(packed, np.uint8)
    out[AT_CHECKSUM : AT_CHECKSUM + 4] = np.frombuffer(struct.pack("<I", _table_checksum(out, header)), np.uint8)


def memory_at(address: int, nbytes: int) -> np.ndarray:
    """Return uint8 [nbytes] at an address; the caller must know that this memory exists as long as it is used."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def header_of(block: np.ndarray) -> BlockHeader:
    """Return the header of a block in memory that was checked before."""
    _, codec, width, flags, _, *sizes, _ = HEADER.unpack(block[: HEADER.size].tobytes())
    return BlockHeader(codec, width, bool(flags & SEALED), *sizes)


def read_header(block: np.ndarray | bytes | memoryview) -> BlockHeader:
    """Return the header of a block, checked with its table of groups. Raises CodecError."""
    data = np.frombuffer(block, np.uint8)
    if data.size < HEADER_BYTES + SPARE:
        raise CodecError(f"{data.size} bytes are no block")
    if int(data[:4].view("<u4")[0]) != MAGIC:
        raise CodecError("a block begins with SLB1, these bytes do not")
    h = header_of(data)
    if (
        h.codec & ~BLOCK_STEPS
        or not (h.rows and h.group and h.frame_bytes and h.width in (1, 2, 4, 8) and h.rows <= h.block_rows)
        or h.frame_bytes % h.width
        or int(data[AT_FLAGS]) & ~SEALED
    ):
        raise CodecError(f"a block with a damaged header: {h}")
    if h.nbytes != block_nbytes(h.groups, h.coded) or h.nbytes > data.size:
        raise CodecError(f"a block of {h.nbytes} bytes, of which {data.size} are there")
    if _table_checksum(data, h) != int(data[AT_CHECKSUM : AT_CHECKSUM + 4].view("<u4")[0]):
        raise CodecError(f"header and table of block {h.first_row // h.block_rows} do not match their checksum")
    return h


def block_in_file(start: np.ndarray, fd: int, offset: int) -> np.ndarray:
    """Return a block that is in a file as the kernels take it: they read the groups when they need them. The file must
    stay open.

    Args:
        start: its header and table, which were checked.
        fd: of the file.
        offset: where the block begins.
    """
    payload = header_of(start).payload
    head = start[:payload].copy()
    head[AT_FLAGS] |= IN_FILE
    return np.concatenate([head, np.array([fd, offset + payload], "<i8").view(np.uint8)])


def place_in_file(address: int) -> tuple[int, int]:
    """Return (descriptor, offset of the groups) of what `block_in_file` returned, by its address."""
    fd, offset = memory_at(address + header_of(memory_at(address, HEADER_BYTES)).payload, 16).view("<i8").tolist()
    return fd, offset


def cut_short(fd: int) -> str:
    """Return why a read of an open file got fewer bytes than it should."""
    name = f"/proc/self/fd/{fd}"
    file = os.readlink(name) if os.path.lexists(name) else "its file"
    return f"{file} is shorter than when it was opened, or the disk failed"


def _table_checksum(block: np.ndarray, header: BlockHeader) -> int:
    """Return the CRC-32 of header and table, without the checksum's own four bytes."""
    return zlib.crc32(block[HEADER_BYTES : header.payload].data, zlib.crc32(block[:AT_CHECKSUM].data))
