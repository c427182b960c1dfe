"""What an optimizer's moments do where the gradient is zero: they shrink by one factor, the same for all.

Units that do not fire on a batch are common in a ReLU network, and all their moments become beta times what they were. The
factor is found as the ratio that occurs most often; `decay` then says what a number became if nothing but that happened.
"""

from __future__ import annotations

import numpy as np

LEAST, MOST = np.float32(2.0**-20), np.float32(1.0)  # factors from LEAST up to, not including, MOST
_NORMAL = np.uint32(32 << 24)  # exponent 32, the sign shifted out: times LEAST it is still a normal number
_INFINITE = np.uint32(255 << 24)


def find_factor(new: np.ndarray, old: np.ndarray) -> np.float32 | None:
    """The factor that takes many of `old` to `new`, both uint32 [n] holding float32; None where there is no such thing."""
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
    # quotients of rounded numbers lie around the factor: it is the one among their neighbours that hits most often
    middle = bits[tightest + few // 2]
    near = (middle + np.arange(-3, 4, dtype=np.int32).view(np.uint32)).view(np.float32)
    with np.errstate(all="ignore"):
        hits = [np.count_nonzero(old.view(np.float32) * f == new.view(np.float32)) for f in near]
    return near[int(np.argmax(hits))] if near[0] >= LEAST and near[-1] < MOST else None


def decay(old: np.ndarray, factor: np.float32, out: np.ndarray) -> np.ndarray:
    """`old` times `factor`, both as uint32 bits; zeros, tiny numbers, infinities and NaNs stay as they are.

    Only products of normal numbers that are normal numbers themselves are taken: those are the same, to the bit, on every
    machine and whatever a program has told its processor about denormal numbers.
    """
    with np.errstate(all="ignore"):
        np.multiply(old.view(np.float32), factor, out=out.view(np.float32))
    magnitude = np.left_shift(old, np.uint32(1))
    np.subtract(magnitude, _NORMAL, out=magnitude)  # wraps: zeros and tiny numbers come out above the infinite ones
    kept = magnitude >= _INFINITE - _NORMAL
    if np.count_nonzero(kept) != old.size - np.count_nonzero(
        old
    ):  # zeros have stayed zero anyway, and the copy is slow
        np.copyto(out, old, where=kept)
    return out
