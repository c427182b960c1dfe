"""The numbers of `CounterRandom` in native code (numba): `uniform(mix(stream ^ counter), lane)`.

numba's cache does not see a change here: delete the __pycache__ folders of the callers after one.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from slipstream.sim.random import LANE_STEP


@nb.njit
def mix(x):  # pragma: no cover
    """Apply the bijection of [0, 2^32)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


@nb.njit
def uniform(state, lane):  # pragma: no cover
    """Return a number in [0, 1), float32."""
    return np.float32(mix((state + lane * LANE_STEP) & 0xFFFFFFFF) >> 8) * np.float32(2.0**-24)
