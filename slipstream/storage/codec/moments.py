"""Optimizer moments in 8 bits: three mantissa bits, an exponent counted down from the largest of each block of 256.

Signed moments: 1 sign, 4 exponent, 3 mantissa bits; below 2^-15 of the block's largest they become zero. Squared moments
have no sign and 5 exponent bits, and never become zero unless they were: a zero under Adam's square root would throw the
parameter. The relative error is at most 1/16. Coding what was decoded gives the same codes: saving twice loses nothing more.
"""

from __future__ import annotations

import numpy as np

BLOCK = 256
_SHIFT = 20  # float32 bits above: sign, 8 exponent, 3 mantissa bits


def moments_nbytes(count: int) -> int:
    """Bytes of `count` coded moments: a code each, and two bytes a block."""
    return count + 2 * (-(-count // BLOCK))


def quantise_moments(values: np.ndarray, signed: bool) -> np.ndarray:
    """float32 [n] -> uint8 [moments_nbytes(n)]: the codes, then each block's top grid point as uint16."""
    n = values.size
    bits = np.zeros(-(-n // BLOCK) * BLOCK, np.uint32)
    bits[:n] = values.view(np.uint32)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    # to the nearest grid point; infinities and NaNs keep the topmost one, so that a broken run still looks broken
    grid = np.minimum((magnitude.astype(np.uint64) + (1 << (_SHIFT - 1))) >> _SHIFT, np.uint64(0x7F8)).astype(np.int32)
    top = grid.reshape(-1, BLOCK).max(1)
    largest = 127 if signed else 255
    codes = grid.reshape(-1, BLOCK) - top[:, None] + largest
    lowest = 0 if signed else 1
    np.maximum(codes, lowest, out=codes)
    codes[(magnitude == 0).reshape(-1, BLOCK)] = 0
    out = np.empty(moments_nbytes(n), np.uint8)
    flat = codes.reshape(-1)[:n].astype(np.uint8)
    if signed:
        flat |= ((bits[:n] >> np.uint32(31)) << np.uint32(7)).astype(np.uint8)
    out[:n] = flat
    out[n:] = top.astype("<u2").view(np.uint8)
    return out


def dequantise_moments(coded: np.ndarray, count: int, signed: bool) -> np.ndarray:
    """The float32 [count] that `quantise_moments` stands for."""
    if coded.size != moments_nbytes(count):
        raise ValueError(f"{count} coded moments take {moments_nbytes(count)} bytes, not {coded.size}")
    largest = 127 if signed else 255
    top = np.ascontiguousarray(coded[count:]).view("<u2").astype(np.int32)
    codes = coded[:count].astype(np.int32)
    magnitude = codes & largest
    grid = np.clip(magnitude - largest + np.repeat(top, BLOCK)[:count], 0, 0x7F8)
    grid[magnitude == 0] = 0
    bits = grid.astype(np.uint32) << np.uint32(_SHIFT)
    if signed:
        bits |= (codes >> 7).astype(np.uint32) << np.uint32(31)
    return bits.view(np.float32)
