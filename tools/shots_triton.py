"""`reach_table.time_of_hit` as one Triton kernel: each shot flies in registers, with the step functions of the Triton
engine."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.tasks.aircombat.physics.engine_triton import (
    F_RADIUS,
    SLOW_SQUARED,
    advance_fighter,
    advance_missile,
    is_hit,
    load_pair,
    pronav,
    speed_of,
)
from slipstream.tasks.aircombat.physics.flight import BURN_TICKS, LONGEST_TICKS, PHYSICS_DT_S

BLOCK, WARPS = 32, 1  # a warp ends with its longest shot: neighbors, launches of one geometry, fly about equally long
BURN, LONGEST = tl.constexpr(BURN_TICKS), tl.constexpr(LONGEST_TICKS)


@triton.jit
def _fly(pos, vel, target_pos, target_vel, turn_at, throttle_at, out, count, dt, BLOCK: tl.constexpr):
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = n < count
    mx, my = load_pair(pos + 2 * n, live, 0.0, 0.0)
    mvx, mvy = load_pair(vel + 2 * n, live, 1.0, 1.0)
    tx, ty = load_pair(target_pos + 2 * n, live, 0.0, 0.0)
    tvx, tvy = load_pair(target_vel + 2 * n, live, 1.0, 1.0)
    turn, throttle = tl.load(turn_at + n, mask=live, other=0.0), tl.load(throttle_at + n, mask=live, other=0.0)
    moves = throttle >= 0
    throttle = tl.maximum(throttle, 0.0)
    end = tl.where(live, -1.0, 0.0)  # ticks to the hit; negative in flight, infinite after a miss
    age = 0
    while (age < LONGEST) & (tl.min(end, 0) < 0):
        rudder = pronav(tx - mx, ty - my, (tvx - mvx) * dt, (tvy - mvy) * dt, dt)
        rudder = tl.where(age > 0, rudder, 0.0)
        thrust = tl.where(age < BURN, 1.0, 0.0)
        mvx, mvy = advance_missile(mvx, mvy, rudder, thrust, dt)
        step = speed_of(tvx, tvy) * (dt * (1.0 / F_RADIUS))
        evasion = tl.minimum(tl.maximum(turn / step, -1.0), 1.0)
        turn -= evasion * step
        ux, uy = advance_fighter(tvx, tvy, evasion, throttle, dt)
        tvx, tvy = tl.where(moves, ux, tvx), tl.where(moves, uy, tvy)
        mx, my, tx, ty = mx + mvx * dt, my + mvy * dt, tx + tvx * dt, ty + tvy * dt
        age += 1
        hit = is_hit(tx - mx, ty - my, (tvx - mvx) * dt, (tvy - mvy) * dt)
        slow = (mvx * mvx + mvy * mvy < SLOW_SQUARED) & (age >= BURN)
        now = tl.where(hit, age * 1.0, tl.where(slow, float("inf"), -1.0))
        end = tl.where(end < 0, now, end)
    tl.store(out + n, tl.where(end < 0, float("inf"), end * dt), mask=live)


def time_of_hit(
    pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, turn: Tensor, throttle: Tensor
) -> Tensor:
    """`reach_table.time_of_hit` for contiguous float32 CUDA tensors, of missiles that are already launched."""
    out = torch.empty_like(turn)
    if len(out):
        shots = pos, vel, target_pos, target_vel, turn, throttle
        _fly[(triton.cdiv(len(out), BLOCK),)](*shots, out, len(out), PHYSICS_DT_S, BLOCK=BLOCK, num_warps=WARPS)
    return out
