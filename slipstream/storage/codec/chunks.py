"""Chunks of numbers for checkpoints: zeros in a bitmap, the rest as byte planes, each plane entropy-coded or raw.

The bytes of a float are of two kinds: sign and exponent repeat, the mantissa is noise. A general compressor sees them
interleaved and finds nothing; taken apart, the exponent plane shrinks to a third and the noise is stored as it is.
Against an older state of the same numbers the difference of the bit patterns is coded instead, where that is smaller:
to the older number, or to the older number times a factor (`decay`). All loops are NumPy and zstd calls, which release
the GIL.
"""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy as np
import zstandard

from slipstream.storage.codec.registry import CHUNK_STEPS, DECAY, DELTA, MASK, PLANES, RAW, CodecError

# 1 MiB: the chunk, its planes and the base stay in the level-2 cache, and one tensor is read without many others
CHUNK_BYTES = 1 << 20

_ZSTD_FLAG = 1 << 31
_MAX_WINDOW = 1 << 23  # memory that a frame which is cut short may make zstd take
_SAMPLE = 4096
_NOISE_BITS = 7.92  # a sample of 4,096 uniform bytes measures 7.955 bits; below 7.92 coding pays
_local = threading.local()
_free: list[np.ndarray] = []  # kept for the next chunk, and the next save


def take_scratch() -> np.ndarray:
    """Return memory for one chunk, uint8 [4, more than CHUNK_BYTES]; give it back with `free_scratch`.

    Fresh memory costs more than the coding: 75 of 150 ms for 188 MB.
    """
    try:
        return _free.pop()
    except IndexError:
        return np.empty((4, CHUNK_BYTES * 9 // 8 + 128), np.uint8)


def free_scratch(scratch: np.ndarray) -> None:
    """Let memory be used again; payloads in it are no longer valid."""
    _free.append(scratch)


def encode_chunk(raw: np.ndarray, width: int, scratch: np.ndarray, base: np.ndarray | None = None) -> tuple[int, Any]:
    """Return (codec, payload) for `raw`, uint8 [n] holding numbers of `width` bytes; the payload is never longer.

    The payload is `raw` itself, or a part of `scratch`, which is from `take_scratch`. `base` is the older state of the
    same numbers; the same array must be given to `decode_chunk`.
    """
    if raw.nbytes < 64 or raw.nbytes % width:
        return RAW, raw
    words = raw.view(f"<u{width}")
    codec, factor = PLANES, None
    if base is not None:
        older = base.view(words.dtype)
        codec, factor = _choose_base(words, older)
        if factor is not None:
            older = decay(older, factor, scratch[0, : raw.nbytes].view(words.dtype))
        if codec & DELTA:
            difference = np.subtract(words, older, out=scratch[1, : raw.nbytes].view(words.dtype))
            words = _zigzag(difference, scratch[0, : raw.nbytes].view(words.dtype))
    nonzero = words != 0
    count = int(np.count_nonzero(nonzero))
    if count < 0.97 * words.size:
        codec |= MASK
        words = np.compress(nonzero, words, out=scratch[1, : count * width].view(words.dtype))
    out = scratch[3]
    lengths: list[int] = []
    at = 4 * (1 + bool(codec & DECAY) + bool(codec & MASK) + width)
    if codec & MASK:
        at += _compress(np.packbits(nonzero), 3, out[at:], lengths)
    shifted = scratch[2, : words.nbytes].view(words.dtype)
    for k in range(width):
        plane = out[at : at + words.size]
        # NumPy casts with vector instructions; taking every fourth byte goes byte by byte
        np.copyto(plane, np.right_shift(words, words.dtype.type(8 * k), out=shifted) if k else words, casting="unsafe")
        if _bits(plane[:: max(1, plane.size // _SAMPLE)]) > _NOISE_BITS:
            lengths.append(plane.size)
            at += plane.size
        else:  # numbers of one byte may have longer repetitions, unlike the planes of floats
            at += _compress(plane, 1 if width == 1 else 0, out[at:], lengths)
    if at >= raw.nbytes:
        return RAW, raw
    factors = () if factor is None else (int(factor.view(np.uint32)),)
    header = struct.pack(f"<{1 + len(factors) + len(lengths)}I", words.size, *factors, *lengths)
    out[: len(header)] = np.frombuffer(header, np.uint8)
    return codec, out[:at]


def decode_chunk(
    payload: memoryview, codec: int, width: int, out: np.ndarray, scratch: np.ndarray, base: np.ndarray | None = None
) -> None:
    """Fill `out`, uint8 [n], from a payload of exactly this chunk; `scratch` has its size. Raises CodecError."""
    if codec == RAW:
        if len(payload) != out.nbytes:
            raise CodecError(f"a raw chunk of {out.nbytes} bytes holds {len(payload)}")
        out[:] = np.frombuffer(payload, np.uint8)
        return
    decays, masked = bool(codec & DECAY), bool(codec & MASK)
    is_known = codec & PLANES and not codec & ~CHUNK_STEPS and (not decays or (width == 4 and codec & DELTA))
    if not is_known or out.nbytes % width:
        raise CodecError(f"unknown chunk codec {codec} for {out.nbytes} bytes of numbers of {width} bytes")
    if codec & DELTA and (base is None or base.nbytes != out.nbytes):
        raise CodecError("a difference without its base")
    words = out.view(f"<u{width}")
    spare = scratch[: out.nbytes].view(words.dtype)
    at = 4 * (1 + decays + masked + width)
    if len(payload) < at:
        raise CodecError("a chunk shorter than its header")
    count, *lengths = struct.unpack_from(f"<{at // 4}I", payload)
    factor = np.uint32(lengths.pop(0)).view(np.float32) if decays else MOST
    if count > words.size or (count != words.size and not masked) or (decays and not LEAST <= factor < MOST):
        raise CodecError(f"a chunk of {words.size} numbers claims {count}, which decay by {factor}")
    sections = []
    for word, expected in zip(lengths, [(words.size + 7) // 8] * masked + [count] * width, strict=True):
        end = at + (word & ~_ZSTD_FLAG)
        sections.append(_read_section(payload[at:end], word, expected))
        at = end
    if at != len(payload):
        raise CodecError("a chunk with bytes too many or too few")
    kept, nonzero = words, None
    if masked:
        nonzero = np.unpackbits(sections.pop(0), count=words.size).view(bool)
        if int(np.count_nonzero(nonzero)) != count:
            raise CodecError("a zero mask that disagrees with its count")
        kept = spare[:count]
    kept[:] = sections.pop()
    while sections:  # shifting complete words takes three quarters of the time of writing single bytes
        np.left_shift(kept, 8, out=kept)
        np.bitwise_or(kept, sections.pop(), out=kept)
    if nonzero is not None:
        words[:] = 0
        words[nonzero] = kept
    if base is not None and codec & DELTA:
        sign = np.bitwise_and(words, 1, out=spare)
        np.negative(sign, out=sign)
        np.right_shift(words, 1, out=words)
        np.bitwise_xor(words, sign, out=words)
        older = base.view(words.dtype)
        np.add(words, decay(older, factor, sign) if decays else older, out=words)


def _choose_base(words: np.ndarray, older: np.ndarray) -> tuple[int, Any]:
    """Choose by a sample: the numbers, their difference, or their difference to the decayed older ones. Return (codec,
    factor)."""
    # odd: the columns of a matrix are a power of two, and each should have its turn
    step = max(1, words.size // _SAMPLE) | 1
    new, old = np.ascontiguousarray(words[::step]), np.ascontiguousarray(older[::step])

    def cost_to(base: np.ndarray) -> float:
        return _cost(_zigzag(new - base, np.empty_like(new)))

    cost = cost_to(old)
    if cost >= _cost(new):
        return PLANES, None
    factor = find_factor(new, old) if words.itemsize == 4 else None
    if factor is None or cost_to(decay(old, factor, np.empty_like(old))) >= cost:
        return PLANES | DELTA, None
    return PLANES | DELTA | DECAY, factor


def _zigzag(difference: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Turn small differences of either sign into small unsigned numbers: 0, -1, 1, -2 ... -> 0, 1, 2, 3 ...; overwrites
    `difference`."""
    signed, result = difference.view(f"<i{difference.itemsize}"), out.view(f"<i{difference.itemsize}")
    np.right_shift(signed, 8 * difference.itemsize - 1, out=result)
    np.left_shift(signed, 1, out=signed)
    result ^= signed
    return out


def _bits(sample: np.ndarray) -> float:
    """Return the bits per byte of `sample`: the entropy of its histogram."""
    counts = np.bincount(sample, minlength=256)
    p = counts[counts > 0] / max(1, sample.size)
    return float(-(p * np.log2(p)).sum())


def _cost(words: np.ndarray) -> float:
    """Return the bits per number: those of the mask, and those of the planes of numbers that are not zero."""
    nonzero = words != 0
    kept = words[nonzero]
    columns = kept.view(np.uint8).reshape(-1, words.itemsize)
    return _bits(nonzero.view(np.uint8)) + kept.size / words.size * sum(
        _bits(columns[:, k]) for k in range(words.itemsize)
    )


def _compress(data: np.ndarray, level: int, out: np.ndarray, lengths: list[int]) -> int:
    """Write a section to `out`, compressed, or raw if that is shorter; add its word of the header; return its bytes."""
    coded = zstd_compressor(level).compress(data)
    section = np.frombuffer(coded, np.uint8) if len(coded) < data.size else data
    lengths.append(section.size | _ZSTD_FLAG if section is not data else data.size)
    out[: section.size] = section
    return section.size


def _read_section(data: memoryview, word: int, expected: int) -> np.ndarray:
    if word & _ZSTD_FLAG:
        opened = np.empty(expected, np.uint8)
        zstd_decompress(data, opened)
        return opened
    if len(data) != expected:
        raise CodecError(f"a raw section of {expected} bytes holds {len(data)}")
    return np.frombuffer(data, np.uint8)


def zstd_compressor(level: int) -> Any:
    """Return this thread's zstd compressor of that level; level 0 looks for almost no repetitions and codes single
    bytes.

    On the exponent bytes of weights level 1 finds many short matches that cost more than they save: 0.36 of the size at
    240 MB/s; with the smallest hash table and the longest match length 0.31 at 530 MB/s, and it opens twice as fast.
    """
    kept = _local.__dict__.setdefault("compressors", {})  # making one costs more than coding a small plane
    if level not in kept:
        if level == 0:
            parameters = zstandard.ZstdCompressionParameters(
                strategy=zstandard.STRATEGY_FAST,
                window_log=18, hash_log=6, chain_log=6, search_log=1, min_match=7, target_length=0,
            )  # fmt: skip
            kept[level] = zstandard.ZstdCompressor(compression_params=parameters)
        else:
            kept[level] = zstandard.ZstdCompressor(level=level)
    return kept[level]


def zstd_decompress(data: Any, out: np.ndarray) -> None:
    """Decompress a zstd frame to `out`, uint8 [n], which it must fill. Raises CodecError."""
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    try:
        size = zstandard.frame_content_size(data)
        if size != out.size:
            raise CodecError(f"a zstd frame of {size} bytes where {out.size} are expected")
        # to where it belongs: `decompress` makes bytes, which would be copied
        filled = _local.decompressor.stream_reader(data).readinto(out.data) if size else 0
    except zstandard.ZstdError as error:
        raise CodecError(f"a zstd frame does not decompress: {error}") from error
    if filled != size:
        raise CodecError(f"a zstd frame of {size} bytes holds {filled}")


# --- decay: where the gradient is zero, an optimizer's moments shrink by one factor, the same for all
#
# Units that do not fire on a batch are common in a ReLU network, and all their moments become beta times what they
# were. The factor is the ratio that occurs most often.

LEAST, MOST = np.float32(2.0**-20), np.float32(1.0)  # factors from LEAST up to, not including, MOST
_NORMAL = np.uint32(32 << 24)  # exponent 32, the sign shifted out: times LEAST it is still a normal number
_INFINITE = np.uint32(255 << 24)


def find_factor(new: np.ndarray, old: np.ndarray) -> np.float32 | None:
    """Return the factor by which many of `old` became `new`, both uint32 [n] holding float32; None if there is none."""
    with np.errstate(all="ignore"):
        ratio = new.view(np.float32) / old.view(np.float32)
    ratio = ratio[(ratio >= LEAST) & (ratio < MOST)]
    if ratio.size < new.size // 32:
        return None
    ratio.sort()
    # each value against the one `few` places on: the same to 16 units in the last place means that `few` + 1 agree
    few = max(8, new.size // 64)
    if ratio.size <= few:
        return None
    bits = ratio.view(np.uint32)
    spread = bits[few:] - bits[:-few]
    tightest = int(np.argmin(spread))
    if spread[tightest] >= 16:
        return None
    # quotients of rounded numbers are close to the factor: it is the one among their neighbors that hits most often
    middle = bits[tightest + few // 2]
    near = (middle + np.arange(-3, 4, dtype=np.int32).view(np.uint32)).view(np.float32)
    with np.errstate(all="ignore"):
        hits = [np.count_nonzero(old.view(np.float32) * f == new.view(np.float32)) for f in near]
    return near[int(np.argmax(hits))] if near[0] >= LEAST and near[-1] < MOST else None


def decay(old: np.ndarray, factor: np.float32, out: np.ndarray) -> np.ndarray:
    """Return `old` times `factor`, both as uint32 bits; zeros, tiny numbers, infinities and NaNs stay as they are.

    Only products of normal numbers that are normal numbers themselves are taken: those are the same, to the bit, on
    every machine and with every setting of the processor for denormal numbers.
    """
    with np.errstate(all="ignore"):
        np.multiply(old.view(np.float32), factor, out=out.view(np.float32))
    magnitude = np.left_shift(old, np.uint32(1))
    np.subtract(magnitude, _NORMAL, out=magnitude)  # wraps: zeros and tiny numbers come out above the infinite ones
    kept = magnitude >= _INFINITE - _NORMAL
    # zeros have stayed zero anyway, and the copy is slow
    if np.count_nonzero(kept) != old.size - np.count_nonzero(old):
        np.copyto(out, old, where=kept)
    return out
