"""Blocks decoded with NumPy, from the description of the format alone: the kernels must have written the same."""

import lz4.block
import numpy as np

from slipstream.storage.codec.registry import DELTA, HEADER_BYTES, LZ4, MASK, PALETTE, RAW_GROUP, read_header


def checksum(data: np.ndarray) -> int:
    """Return 32 bits of a multilinear sum over the 8-byte words of `data`, uint8 [n]."""
    words = np.zeros(-(-data.size // 8), "<u8")
    words.view(np.uint8)[: data.size] = data
    weights = np.arange(words.size, dtype=np.uint64) * np.uint64(0x3C6EF372FE94F82A) + np.uint64(0x1E3779B97F4A7C15)
    total = (int((words * weights).sum(dtype=np.uint64)) + data.size * 0x2545F4914F6CDD1D) & (2**64 - 1)
    total ^= total >> 32
    total = (total * 0x5851F42D4C957F2D) & (2**64 - 1)
    return (total ^ (total >> 29)) & 0xFFFFFFFF


def decode_block(block: np.ndarray) -> np.ndarray:
    """Return all frames of a block, uint8 [rows, frame_bytes]."""
    header = read_header(block)
    table = block[HEADER_BYTES : header.payload].view("<u4").reshape(-1, 2)
    places = [*(int(place) & ~RAW_GROUP for place, _ in table), header.coded]
    groups = []
    for g, (place, expected) in enumerate(table):
        data = block[header.payload + places[g] : header.payload + places[g + 1]]
        assert checksum(data) == expected
        frames = min(header.group, header.rows - g * header.group)
        is_raw = int(place) & RAW_GROUP
        groups.append(data.reshape(frames, -1) if is_raw else _decode_group(data, header, frames))
    return np.concatenate(groups)


def _decode_group(data: np.ndarray, header, frames: int) -> np.ndarray:
    codec, width, size = header.codec, header.width, header.frame_bytes
    if codec & LZ4:
        data = np.frombuffer(lz4.block.decompress(data, uncompressed_size=4096 + 2 * frames * (size + 64)), np.uint8)
    count, word = size // width, width
    if codec & PALETTE:
        number = int(data[0]) + 1
        values, data = data[1 : 1 + number * width].view(f"<u{width}"), data[1 + number * width :]
        bits, word = next(bits for bits in (1, 2, 4, 8) if number <= 1 << bits), 4
        size = (-(-count * bits // 8) + 3) // 4 * 4
    words = size // word
    if codec & MASK:
        current = np.zeros((frames, words), f"<u{word}")
        for frame in current:
            bitmap = np.unpackbits(data[: -(-words // 8)], count=words, bitorder="little").view(bool)
            end = -(-words // 8) + word * int(np.count_nonzero(bitmap))
            frame[bitmap] = np.frombuffer(data[-(-words // 8) : end].tobytes(), f"<u{word}")
            data = data[end:]
        current = current.view(np.uint8)
    else:
        current = data[: frames * size].reshape(frames, size)
    if codec & DELTA:
        current = np.bitwise_xor.accumulate(current, axis=0)
    if codec & PALETTE:
        shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
        numbers = ((current[:, :, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(frames, -1)
        current = np.ascontiguousarray(values[numbers[:, :count]]).view(np.uint8)
    return current
