"""Are two rows the same, bit for bit? NaN equals NaN, -0.0 is not 0.0."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from slipstream.storage.jit import native


@native
def _differ(a, b, out):  # pragma: no cover
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] != b[i, j]:
                out[i] = True
                break


def rows_differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """bool [n]: which rows of `a` and `b`, both [n, ...] of one shape and dtype, differ in any bit."""
    out = np.zeros(len(a), bool)
    if len(a) and not same_memory(a, b):
        _differ(_words(a), _words(b), out)
    return out


def same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether both are one and the same view."""
    return (
        a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and a.shape == b.shape
        and a.strides == b.strides
    )


def _words(a: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(a).reshape(len(a), -1).view(np.uint8).reshape(len(a), -1)
    return flat.view(np.int64) if flat.shape[1] % 8 == 0 and flat.ctypes.data % 8 == 0 else flat
