"""A pseudo-random permutation of 0 ... n - 1, computed place by place: nothing to store, nothing to shuffle."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from slipstream.storage.jit import native

_ROUNDS = 6


@native
def _permute(places, size, half_bits, keys, out):  # pragma: no cover
    # A Feistel network permutes [0, 4^half_bits); what falls outside [0, size) is permuted again until it falls inside.
    # The domain is at most four times as large as `size`, so that is a few times at most, on average.
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    for i in range(places.shape[0]):
        x = np.uint64(places[i])
        while True:
            left, right = x >> half_bits, x & mask
            for r in range(keys.shape[0]):
                z = (right + keys[r]) * np.uint64(0x9E3779B97F4A7C15)
                z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                z ^= z >> np.uint64(31)
                left, right = right, (left ^ z) & mask
            x = (left << half_bits) | right
            if x < np.uint64(size):
                break
        out[i] = np.int64(x)


def permute(places: np.ndarray, size: int, key: int) -> np.ndarray:
    """Where each of `places`, int64 in [0, size), goes; `key` names the permutation."""
    half_bits = max(1, (max(1, size - 1).bit_length() + 1) // 2)
    keys = np.random.SeedSequence(key).generate_state(_ROUNDS, np.uint64)
    out = np.empty(len(places), np.int64)
    with np.errstate(over="ignore"):  # without numba; in native code it wraps silently
        _permute(places, size, np.uint64(half_bits), keys, out)
    return out
