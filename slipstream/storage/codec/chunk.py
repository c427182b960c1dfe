"""One chunk of numbers, coded on its own: zeros in a bitmap, the rest as byte planes, each plane entropy-coded or raw.

The bytes of a float are of two kinds: sign and exponent repeat, the mantissa is noise. A general compressor sees them
interleaved and finds nothing; taken apart, the exponent plane shrinks to a third and the noise is stored as it is.
Against an older state of the same numbers the difference of the bit patterns is coded instead, where that is smaller:
to the older number, or to what it has decayed to (`decay`).
All loops are NumPy and zstd calls, which release the GIL.
"""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy as np

from slipstream.storage.codec.decay import LEAST, MOST, decay, find_factor

# 1 MiB: the chunk, its planes and the base stay in the level-2 cache, and one tensor is read without many others
CHUNK_BYTES = 1 << 20

RAW, PLANES, DIFFERENCE, MASK, DECAY = (
    0,
    1,
    2,
    4,
    8,
)  # method: RAW, or PLANES with any of the others; DECAY with DIFFERENCE alone

_ZSTD_FLAG = 1 << 31
_SAMPLE = 4096
_NOISE_BITS = 7.92  # a sample of 4,096 uniform bytes measures 7.955 bits; below 7.92 coding pays
_local = threading.local()


class CodecError(ValueError):
    """The bytes are not what the codec writes."""


class Scratch:
    """Memory for coding one chunk at a time. Fresh memory costs more than the coding: keep one of these for each chunk in flight."""

    def __init__(self) -> None:
        self.planes, self.words, self.other, self.shifted = (np.empty(CHUNK_BYTES + 128, np.uint8) for _ in range(4))


def encode_chunk(
    raw: np.ndarray, width: int, base: np.ndarray | None = None, level: int = 1, scratch: Scratch | None = None
) -> tuple[int, list[Any]]:
    """(method, payload as a list of buffers) for `raw`, uint8 [n] holding numbers of `width` bytes; never longer than `raw`.

    `base` is the older state of the same numbers; the same array must be given to `decode_chunk`. The payload may lie in
    `raw` and in `scratch`: it is valid until either changes.
    """
    if level == 0 or raw.nbytes < 64 or raw.nbytes % width:
        return RAW, [raw]
    scratch = scratch or Scratch()
    words = raw.view(f"<u{width}")
    method, extra = PLANES, b""
    if base is not None:
        older = base.view(words.dtype)
        method, factor = _choose_base(words, older)
        if method & DECAY:
            extra = factor.astype("<f4").tobytes()
            older = decay(older, factor, scratch.other[: raw.nbytes].view(words.dtype))
        if method & DIFFERENCE:
            difference = np.subtract(words, older, out=scratch.words[: raw.nbytes].view(words.dtype))
            words = _zigzag(difference, scratch.other[: raw.nbytes].view(words.dtype))
    sections: list[tuple[int, Any]] = []  # (word of the header, bytes)
    kept = words
    nonzero = words != 0
    count = int(np.count_nonzero(nonzero))
    if count < 0.97 * words.size:
        method |= MASK
        sections.append(_section(np.packbits(nonzero), 3, repeats=True))
        kept = np.compress(nonzero, words, out=scratch.words[: count * width].view(words.dtype))
    shifted = scratch.shifted[: kept.nbytes].view(kept.dtype)
    for k in range(width):
        plane = scratch.planes[k * kept.size : (k + 1) * kept.size]
        # NumPy casts with vector instructions; taking every fourth byte goes byte by byte
        np.copyto(plane, np.right_shift(kept, kept.dtype.type(8 * k), out=shifted) if k else kept, casting="unsafe")
        noise = _bits(plane[:: max(1, plane.size // _SAMPLE)]) > _NOISE_BITS
        sections.append((plane.size, plane) if noise else _section(plane, level, repeats=width == 1))
    header = struct.pack("<I", kept.size) + extra + struct.pack(f"<{len(sections)}I", *(word for word, _ in sections))
    if len(header) + sum(len(data) for _, data in sections) >= raw.nbytes:
        return RAW, [raw]
    return method, [header, *(data for _, data in sections)]


def decode_chunk(
    payload: memoryview,
    method: int,
    width: int,
    out: np.ndarray,
    base: np.ndarray | None = None,
    scratch: Scratch | None = None,
) -> int:
    """Fill `out`, uint8 [n], from `payload`; gives back how many bytes of the payload were used. Raises CodecError.

    `payload` may lie in `scratch.planes` and `base` in `scratch.other`.
    """
    if method == RAW:
        if len(payload) < out.nbytes:
            raise CodecError(f"a raw chunk of {out.nbytes} bytes holds {len(payload)}")
        out[:] = np.frombuffer(payload, np.uint8, out.nbytes)
        return out.nbytes
    if (
        not method & PLANES
        or method > 15
        or out.nbytes % width
        or (method & DECAY and (width != 4 or not method & DIFFERENCE))
    ):
        raise CodecError(f"unknown chunk method {method}")
    if method & DIFFERENCE and (base is None or base.nbytes != out.nbytes):
        raise CodecError("a difference without its base")
    n = out.nbytes // width
    sections = width + bool(method & MASK)
    end = 4 * (1 + bool(method & DECAY) + sections)
    if len(payload) < end:
        raise CodecError("a chunk shorter than its header")
    count, *lengths = struct.unpack_from(f"<{end // 4}I", payload)
    if method & DECAY:
        factor = np.float32(struct.unpack_from("<f", payload, 4)[0])
        del lengths[0]
        if not LEAST <= factor < MOST:
            raise CodecError(f"a chunk whose numbers decay by {factor}")
    if count > n or (count != n and not method & MASK):
        raise CodecError(f"a chunk of {n} numbers claims {count}")
    words = out.view(f"<u{width}")
    nonzero = None
    if method & MASK:
        bits, end = _read_section(payload, end, lengths.pop(0), (n + 7) // 8)
        nonzero = np.unpackbits(bits, count=n).view(bool)
        if int(np.count_nonzero(nonzero)) != count:
            raise CodecError("a zero mask that disagrees with its count")
    kept = words
    if nonzero is not None:
        kept = np.empty(count, words.dtype) if scratch is None else scratch.words[: count * width].view(words.dtype)
    columns = kept.view(np.uint8).reshape(-1, width)
    for k in range(width):
        columns[:, k], end = _read_section(payload, end, lengths[k], count)
    if nonzero is not None:
        words[:] = 0
        words[nonzero] = kept
    if method & DIFFERENCE:
        assert base is not None
        sign = np.bitwise_and(words, 1, out=None if scratch is None else scratch.words[: out.nbytes].view(words.dtype))
        np.negative(sign, out=sign)
        np.right_shift(words, 1, out=words)
        np.bitwise_xor(words, sign, out=words)
        older = base.view(words.dtype)
        np.add(words, decay(older, factor, sign) if method & DECAY else older, out=words)
    return end


def _choose_base(words: np.ndarray, older: np.ndarray) -> tuple[int, Any]:
    """(method, factor): by a sample, whether to code the numbers, their difference, or that to what the older ones decayed to."""
    step = (
        max(1, words.size // _SAMPLE) | 1
    )  # odd: the columns of a matrix are a power of two, and each should have its turn
    new, old = words[::step], np.ascontiguousarray(older[::step])
    best, method, factor = _cost(new), PLANES, None
    cost = _cost(_zigzag(new - old, np.empty_like(old)))
    if cost < best:
        best, method = cost, PLANES | DIFFERENCE
        factor = find_factor(np.ascontiguousarray(new), old) if words.itemsize == 4 else None
        if (
            factor is not None
            and _cost(_zigzag(new - decay(old, factor, np.empty_like(old)), np.empty_like(old))) < best
        ):
            method |= DECAY
    return method, factor


def _zigzag(difference: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Small differences of either sign as small unsigned numbers: 0, -1, 1, -2 ... -> 0, 1, 2, 3 ...; spoils `difference`."""
    signed, result = difference.view(f"<i{difference.itemsize}"), out.view(f"<i{difference.itemsize}")
    np.right_shift(signed, 8 * difference.itemsize - 1, out=result)
    np.left_shift(signed, 1, out=signed)
    result ^= signed
    return out


def _bits(sample: np.ndarray) -> float:
    """Bits a byte of `sample` needs on its own: the entropy of its histogram."""
    counts = np.bincount(sample, minlength=256)
    p = counts[counts > 0] / max(1, sample.size)
    return float(-(p * np.log2(p)).sum())


def _cost(words: np.ndarray) -> float:
    """Bits a number needs on the average: the mask's, and the planes' of those that are not zero."""
    nonzero = words != 0
    kept = words[nonzero]
    columns = kept.view(np.uint8).reshape(-1, words.itemsize)
    return _bits(nonzero.view(np.uint8)) + kept.size / words.size * sum(
        _bits(columns[:, k]) for k in range(words.itemsize)
    )


def _section(data: np.ndarray, level: int, repeats: bool) -> tuple[int, Any]:
    """`data` coded, or as it is where that is shorter. `repeats`: it may hold longer repetitions, as a plane of floats does not."""
    coded = _compressor(level if repeats else 0).compress(data)
    if level > 1 and not repeats:
        coded = min(coded, _compressor(level).compress(data), key=len)
    return (len(coded) | _ZSTD_FLAG, coded) if len(coded) < data.size else (data.size, data)


def _read_section(payload: memoryview, start: int, word: int, expected: int) -> tuple[np.ndarray, int]:
    length = word & ~_ZSTD_FLAG
    end = start + length
    if end > len(payload):
        raise CodecError("a section runs past the end of its chunk")
    if not word & _ZSTD_FLAG:
        if length != expected:
            raise CodecError(f"a raw section of {expected} bytes holds {length}")
        return np.frombuffer(payload, np.uint8, expected, start), end
    zstandard = zstandard_module()
    part = payload[start:end]
    try:
        if zstandard.frame_content_size(part) != expected:  # asked before any memory is taken
            raise CodecError(f"a section should open to {expected} bytes and says {zstandard.frame_content_size(part)}")
        data = _decompressor().decompress(part)
    except zstandard.ZstdError as error:
        raise CodecError(f"a section does not decompress: {error}") from error
    if len(data) != expected:
        raise CodecError(f"a section should open to {expected} bytes and has {len(data)}")
    return np.frombuffer(data, np.uint8), end


def zstandard_module() -> Any:
    """The zstandard package, or an error that says how to get it."""
    try:
        import zstandard
    except ImportError as error:
        raise ImportError(
            "compressed checkpoints need zstandard: pip install zstandard, or save with compress=False"
        ) from error
    return zstandard


def _compressor(level: int) -> Any:
    """zstd of that level; 0 is zstd told to look for almost no repetitions and to code single bytes.

    On the exponent bytes of weights level 1 finds many short matches that cost more than they save: 0.36 of the size at
    240 MB/s; with the smallest hash table and the longest match length 0.31 at 530 MB/s, and it opens twice as fast.
    """
    kept = _local.__dict__.setdefault("compressors", {})  # making one costs more than coding a small plane
    if level not in kept:
        zstandard = zstandard_module()
        if level == 0:
            settings = {
                "window_log": 18,
                "hash_log": 6,
                "chain_log": 6,
                "search_log": 1,
                "min_match": 7,
                "target_length": 0,
            }
            parameters = zstandard.ZstdCompressionParameters(strategy=zstandard.STRATEGY_FAST, **settings)
            kept[level] = zstandard.ZstdCompressor(compression_params=parameters)
        else:
            kept[level] = zstandard.ZstdCompressor(level=level)
    return kept[level]


def _decompressor() -> Any:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard_module().ZstdDecompressor()
    return _local.decompressor
