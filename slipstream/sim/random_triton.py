"""The numbers of `CounterRandom` in Triton kernels: `uniform(mix(stream ^ counter), lane)`, of uint32."""

from __future__ import annotations

import triton
import triton.language as tl

from slipstream.sim.random import LANE_STEP

LANE = tl.constexpr(LANE_STEP)


@triton.jit
def mix(x):
    """Apply the bijection of [0, 2^32)."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def uniform(state, lane: tl.constexpr):
    """Return numbers in [0, 1), float32."""
    return (mix(state + ((lane * LANE) & 0xFFFFFFFF)) >> 8).to(tl.float32) * (2.0**-24)
