"""The codecs of blocks in NumPy: where numba or liblz4 is missing, for zstd, and to check the native kernels."""

from __future__ import annotations

import numpy as np

from slipstream.storage.codec.registry import (
    DELTA,
    HEADER_BYTES,
    LZ4,
    MASK,
    PALETTE,
    RAW_GROUP,
    SHUFFLE,
    ZSTD,
    BlockHeader,
    CodecError,
    checksum,
    zstd_compressor,
    zstd_decompress,
)


def encode_block(frames: np.ndarray, group: int, width: int, codec: int, level: int, block: np.ndarray) -> int:
    """Write table and groups of `frames`, uint8 [n, frame_bytes], into `block` after the header; return the bytes of
    the groups."""
    rows = len(frames)
    groups = -(-rows // group)
    table = block[HEADER_BYTES : HEADER_BYTES + 8 * groups].view("<u4").reshape(groups, 2)
    payload = block[HEADER_BYTES + 8 * groups :]
    place = 0
    for g in range(groups):
        part = frames[g * group : (g + 1) * group]
        coded = encode_group(part, width, codec, level) if codec else None
        data = part.reshape(-1) if coded is None else np.frombuffer(coded, np.uint8)
        payload[place : place + data.size] = data
        table[g] = place | (RAW_GROUP if coded is None else 0), checksum(data)
        place += data.size
    payload[place : place + 15] = 0
    return place


def encode_group(frames: np.ndarray, width: int, codec: int, level: int) -> bytes | None:
    """Return the encoded group of frames, uint8 [k, frame_bytes], or None if that is not smaller."""
    head, current, word = b"", np.ascontiguousarray(frames), width
    if codec & PALETTE:
        values, numbers = np.unique(current.view(f"<u{width}"), return_inverse=True)
        if values.size > 256:
            return None
        head = bytes([values.size - 1]) + values.astype(f"<u{width}").tobytes()
        current, word = _pack(numbers.reshape(len(frames), -1).astype(np.uint8), palette_bits(values.size)), 4
    if codec & DELTA and len(current) > 1:
        current = np.concatenate([current[:1], current[1:] ^ current[:-1]])
    if codec & MASK:
        words = current.view(f"<u{word}")
        stream = b"".join(
            np.packbits(frame != 0, bitorder="little").tobytes() + frame[frame != 0].tobytes() for frame in words
        )
    elif codec & SHUFFLE:
        stream = current.reshape(len(current), -1, word).transpose(0, 2, 1).tobytes()
    else:
        stream = current.tobytes()
    stream = head + stream
    if codec & LZ4:
        stream = _lz4().compress(
            stream, store_size=False, **({"mode": "high_compression", "compression": level} if level >= 0 else {})
        )
    elif codec & ZSTD:
        stream = zstd_compressor(max(1, level)).compress(stream)
    return stream if len(stream) < frames.nbytes else None


def decode_group(block: np.ndarray, header: BlockHeader, g: int, verify: bool = True) -> np.ndarray:
    """Return the frames of group `g`, uint8 [k, frame_bytes], maybe a view of `block`. Raises CodecError."""
    table = block[HEADER_BYTES : header.payload].view("<u4").reshape(-1, 2)
    place, check = int(table[g, 0]), int(table[g, 1])
    end = int(table[g + 1, 0]) & ~RAW_GROUP if g + 1 < header.groups else header.coded
    data = block[header.payload + (place & ~RAW_GROUP) : header.payload + end]
    if verify and checksum(data) != check:
        raise CodecError("it does not match its checksum")
    frames = min(header.group, header.rows - g * header.group)
    if place & RAW_GROUP:
        if data.size != frames * header.frame_bytes:
            raise CodecError("it has the wrong size")
        return data.reshape(frames, header.frame_bytes)
    try:
        return _decode(data, header, frames)
    except (IndexError, ValueError, RuntimeError) as error:
        raise error if isinstance(error, CodecError) else CodecError(f"it cannot be opened: {error}") from error


def palette_bits(values: int) -> int:
    """Return the bits of an index into so many values."""
    return next(bits for bits in (1, 2, 4, 8) if values <= 1 << bits)


def _decode(data: np.ndarray, header: BlockHeader, frames: int) -> np.ndarray:
    codec, width, size = header.codec, header.width, header.frame_bytes
    room = 1 + 256 * 8 + frames * (size + size // (8 * width) + 32)
    if codec & LZ4:
        lz4 = _lz4()
        try:
            data = np.frombuffer(lz4.decompress(data, uncompressed_size=room), np.uint8)
        except lz4.LZ4BlockError as error:
            raise CodecError(f"it does not decompress: {error}") from error
    elif codec & ZSTD:
        data = zstd_decompress(data, room)
    count, word, values, bits = size // width, width, None, 8
    if codec & PALETTE:
        number = int(data[0]) + 1
        values = data[1 : 1 + number * width].view(f"<u{width}")
        bits, word = palette_bits(number), 4
        data = data[1 + number * width :]
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
        if codec & SHUFFLE:
            current = np.ascontiguousarray(current.reshape(frames, word, words).transpose(0, 2, 1)).reshape(
                frames, size
            )
    if codec & DELTA:
        current = np.bitwise_xor.accumulate(current, axis=0)
    if values is not None:
        return np.ascontiguousarray(values[_unpack(current, bits)[:, :count]]).view(np.uint8)
    return current


def _pack(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Pack uint8 [k, n] numbers of so many bits into uint8 [k, a multiple of 4]."""
    each = 8 // bits
    size = (-(-numbers.shape[1] // each) + 3) // 4 * 4
    padded = np.zeros((len(numbers), size, each), np.uint8)
    padded.reshape(len(numbers), -1)[:, : numbers.shape[1]] = numbers
    packed = np.zeros((len(numbers), size), np.uint8)
    for k in range(each):
        packed |= padded[:, :, k] << np.uint8(k * bits)
    return packed


def _unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    each = 8 // bits
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    return ((packed[:, :, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _lz4():
    import lz4.block

    return lz4.block
