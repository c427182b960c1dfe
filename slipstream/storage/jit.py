"""Loops as native code that runs without the GIL; the result is kept beside its source."""

from __future__ import annotations

from numba import njit

native = njit(cache=True, nogil=True)
