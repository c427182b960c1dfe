"""Loops as native code where numba is there; where it is not, the same loops in Python: slow, and right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

njit: Any = None
with contextlib.suppress(ImportError):
    from numba import njit


def native(function: Callable[..., None]) -> Any:
    """Compiles `function` without the GIL, and keeps the result beside its source."""
    return function if njit is None else njit(cache=True, nogil=True)(function)
