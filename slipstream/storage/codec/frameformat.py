"""How a block lies in memory, in a file and on the wire: a header, a table of groups, the groups, eight spare bytes.

    header   64 bytes (HEADER)
    table    groups x (uint32 place | RAW_GROUP, uint32 checksum); the place counts from the end of the table
    groups   each coded on its own
    spare    8 zero bytes and padding to a multiple of 8: kernels read words that may begin in the last byte

Everything is little-endian. A group is coded by the block's codec, or lies there as it is (RAW_GROUP) where that is shorter.
The coding goes: palette -> difference to the frame before -> zero mask or byte planes -> LZ4 or zstd; each may be left out.
"""

from __future__ import annotations

import dataclasses
import struct

import numpy as np

from slipstream.storage.codec.chunk import CodecError

MAGIC = 0x31424C53  # "SLB1"
SPARE = 8
RAW_GROUP = 1 << 31
HEADER_BYTES = 64
# magic, codec, width, flags, -, first_row, rows, group, block_rows, frame_bytes, nbytes, bytes of the groups, checksum of header and table
HEADER = struct.Struct("<IBBBBqIIIIQII")
AT_CODEC, AT_WIDTH, AT_ROWS, AT_GROUP, AT_FRAME, AT_CODED, AT_CHECKSUM = 4, 5, 16, 20, 28, 40, 44

# Codec, one byte: what is done to a group, in this order
PALETTE, DELTA, MASK, SHUFFLE, LZ4, ZSTD = 1, 2, 4, 8, 16, 32
OPEN = 255  # frames as they are, without table and checksums: a block that is being filled; never leaves the process
RAW = 0
SEALED = 1  # flag: coded with the slow setting

_STEPS = {"palette": PALETTE, "delta": DELTA, "mask": MASK, "shuffle": SHUFFLE, "lz4": LZ4, "zstd": ZSTD}


@dataclasses.dataclass(frozen=True)
class BlockHeader:
    """What a block says of itself."""

    codec: int
    width: int  # bytes of a number
    sealed: bool
    first_row: int
    rows: int
    group: int
    block_rows: int  # rows of a full block of its column
    frame_bytes: int
    nbytes: int  # of the whole block
    coded: int  # of the groups

    @property
    def groups(self) -> int:
        """How many groups the rows make."""
        return -(-self.rows // self.group)

    @property
    def payload(self) -> int:
        """Where the first group begins."""
        return HEADER_BYTES + 8 * self.groups


def block_nbytes(groups: int, coded: int) -> int:
    """Bytes of a block whose groups take `coded` bytes."""
    return (HEADER_BYTES + 8 * groups + coded + SPARE + 7) // 8 * 8


def codec_name(codec: int) -> str:
    """`palette+lz4` and the like; `raw` for none."""
    return "+".join(name for name, bit in _STEPS.items() if codec & bit) or "raw"


def parse_codec(name: str) -> int:
    """The codec of that name: `raw`, or steps joined by `+` in the order palette, delta, mask | shuffle, lz4 | zstd."""
    if name == "raw":
        return RAW
    steps = name.split("+")
    unknown = [step for step in steps if step not in _STEPS]
    if unknown:
        raise ValueError(
            f"codec {name!r}: unknown step {unknown[0]!r}; use auto, raw, or {', '.join(_STEPS)} joined by +"
        )
    codec = 0
    for step in steps:
        codec |= _STEPS[step]
    check_codec(codec)
    return codec


def check_codec(codec: int) -> None:
    """Raise ValueError where the steps of `codec` do not go together."""
    if codec < 0 or codec >= 64 or codec & (MASK | SHUFFLE) == MASK | SHUFFLE or codec & (LZ4 | ZSTD) == LZ4 | ZSTD:
        raise ValueError(f"codec {codec}: mask and shuffle, lz4 and zstd exclude one another")


def number_width(itemsize: int) -> int:
    """Bytes of the words a codec looks at in items of that size (complex and structured items are several words)."""
    return next(width for width in (8, 4, 2, 1) if itemsize % width == 0)


def write_header(out: np.ndarray, header: BlockHeader) -> None:
    """Fill the header of the block in `out`, whose table and groups are there already."""
    packed = HEADER.pack(
        MAGIC, header.codec, header.width, SEALED if header.sealed else 0, 0, header.first_row, header.rows, header.group,
        header.block_rows, header.frame_bytes, header.nbytes, header.coded, 0,
    )  # fmt: skip
    out[:HEADER_BYTES] = 0
    out[: HEADER.size] = np.frombuffer(packed, np.uint8)
    out[AT_CHECKSUM : AT_CHECKSUM + 4] = np.frombuffer(struct.pack("<I", _table_checksum(out, header)), np.uint8)


def read_header(buffer: np.ndarray | bytes | memoryview, offset: int = 0) -> BlockHeader:
    """The header of the block that begins at `offset`, checked with its table of groups. Raises CodecError."""
    data = np.frombuffer(buffer, np.uint8)[offset:]
    if data.size < HEADER_BYTES + SPARE:
        raise CodecError(f"{data.size} bytes are no block")
    magic, codec, width, flags, _, first, rows, group, block_rows, frame_bytes, nbytes, coded, check = HEADER.unpack(
        data[: HEADER.size].tobytes()
    )
    if magic != MAGIC:
        raise CodecError("a block begins with SLB1, these bytes do not")
    header = BlockHeader(codec, width, bool(flags & SEALED), first, rows, group, block_rows, frame_bytes, nbytes, coded)
    try:
        check_codec(codec)
    except ValueError as error:
        raise CodecError(str(error)) from error
    if not (
        rows and group and frame_bytes and width in (1, 2, 4, 8) and rows <= block_rows and frame_bytes % width == 0
    ):
        raise CodecError(f"a block with a damaged header: {header}")
    if nbytes != block_nbytes(header.groups, coded) or nbytes > data.size:
        raise CodecError(f"a block of {nbytes} bytes, of which {data.size} are there")
    if _table_checksum(data, header) != check:
        raise CodecError(f"header and table of block {first // block_rows} do not match their checksum")
    return header


def checksum(data: np.ndarray) -> int:
    """32 bits of a multilinear sum over the 8-byte words of `data`, uint8 [n]; the kernels compute the same.

    One multiplication a word and no chain between them: 20 GB/s in a kernel, where CRC-32 in plain code has 1.5.
    """
    words = np.zeros(-(-data.size // 8), "<u8")
    words.view(np.uint8)[: data.size] = data
    weights = np.arange(words.size, dtype=np.uint64) * np.uint64(CHECK_STEP) + np.uint64(CHECK_FIRST)
    total = (int((words * weights).sum(dtype=np.uint64)) + data.size * CHECK_LENGTH) & _ALL
    total ^= total >> 32
    total = (total * CHECK_MIX) & _ALL
    return (total ^ (total >> 29)) & 0xFFFFFFFF


_ALL = (1 << 64) - 1
CHECK_FIRST = 0x1E3779B97F4A7C15  # odd, and with an even step every weight is odd: no changed word multiplies to zero
CHECK_STEP = 0x3C6EF372FE94F82A
CHECK_LENGTH = 0x2545F4914F6CDD1D
CHECK_MIX = 0x5851F42D4C957F2D


def _table_checksum(block: np.ndarray, header: BlockHeader) -> int:
    """Of header and table, the checksum's own four bytes left out."""
    return checksum(np.concatenate([block[:AT_CHECKSUM], block[HEADER_BYTES : header.payload]]))
