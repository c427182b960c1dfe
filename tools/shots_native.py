"""Missiles launched at targets, many at once, as native code (numba) with the step functions of the native engine.
tests/aircombat/plain_flights.py is the reference form; 16 are flown side by side, as in `reach.flights_native`.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.engine_native import FAST, ONE, PHYSICS, ZERO, advance, is_hit, pronav
from slipstream.tasks.aircombat.physics.flight import BURN_TICKS, LONGEST_TICKS, PHYSICS_DT_S

LANES = 16
MX, MY, MVX, MVY, TX, TY, TVX, TVY = (LANES * k for k in range(8))
S_TURN, THROTTLE, MOVES, ENDED = (LANES * k for k in range(8, 12))
SHOT_ROWS = 12
FLYING, MISSED = np.float32(-1), np.float32(1e9)
SHOT_FLAGS = {*FAST, "nnan"}
DT = np.float32(PHYSICS_DT_S)


@nb.njit(inline="always", fastmath=SHOT_FLAGS, error_model="numpy")
def _shot_tick(s, age, burn, dt, physics):  # pragma: no cover
    """Advance the shots in `s` by one sub-step. Returns how many still fly."""
    fighter = (physics[0], physics[1], physics[2], physics[3])
    missile = (physics[4], physics[5], physics[6], physics[7])
    gain = physics[8] / dt if age > 0 else ZERO
    thrust = ONE if age < burn else ZERO
    slow_squared = physics[11] if age + 1 >= burn else ZERO
    now = np.float32(age + 1)
    going = 0
    for k in range(LANES):
        mvx, mvy, tvx, tvy = s[MVX + k], s[MVY + k], s[TVX + k], s[TVY + k]
        rudder = pronav(s[TX + k] - s[MX + k], s[TY + k] - s[MY + k], (tvx - mvx) * dt, (tvy - mvy) * dt, gain)
        mvx, mvy = advance(mvx, mvy, rudder, thrust, missile, dt)
        step = np.float32(math.sqrt(tvx * tvx + tvy * tvy)) * (dt * physics[3])
        evasion = min(max(s[S_TURN + k] / step, -ONE), ONE)
        ux, uy = advance(tvx, tvy, evasion, s[THROTTLE + k], fighter, dt)
        moves = s[MOVES + k]
        tvx += moves * (ux - tvx)
        tvy += moves * (uy - tvy)
        s[S_TURN + k] -= evasion * step
        s[MVX + k], s[MVY + k], s[TVX + k], s[TVY + k] = mvx, mvy, tvx, tvy
        s[MX + k] += mvx * dt
        s[MY + k] += mvy * dt
        s[TX + k] += tvx * dt
        s[TY + k] += tvy * dt
        hit = is_hit(s[TX + k] - s[MX + k], s[TY + k] - s[MY + k], (tvx - mvx) * dt, (tvy - mvy) * dt, physics[10])
        end = now if hit else (MISSED if mvx * mvx + mvy * mvy < slow_squared else FLYING)
        end = end if s[ENDED + k] < ZERO else s[ENDED + k]
        s[ENDED + k] = end
        going += 1 if end < ZERO else 0
    return going


@nb.njit(parallel=True, fastmath=SHOT_FLAGS, error_model="numpy", cache=True, nogil=True)
def _fly(pos, vel, target_pos, target_vel, turn, throttle, dt, burn, longest, physics):  # pragma: no cover
    count = len(turn)
    out = np.empty(count, np.float32)
    for chunk in nb.prange((count + LANES - 1) // LANES):
        s = np.empty(SHOT_ROWS * LANES, np.float32)
        first = chunk * LANES
        for k in range(LANES):
            n = min(first + k, count - 1)
            s[MX + k], s[MY + k], s[MVX + k], s[MVY + k] = pos[n, 0], pos[n, 1], vel[n, 0], vel[n, 1]
            s[TX + k], s[TY + k] = target_pos[n, 0], target_pos[n, 1]
            s[TVX + k], s[TVY + k] = target_vel[n, 0], target_vel[n, 1]
            s[S_TURN + k], s[THROTTLE + k] = turn[n], max(throttle[n], ZERO)
            s[MOVES + k], s[ENDED + k] = ONE if throttle[n] >= ZERO else ZERO, FLYING
        for age in range(longest):
            if _shot_tick(s, age, burn, dt, physics) == 0:
                break
        for k in range(min(LANES, count - first)):
            end = s[ENDED + k]
            out[first + k] = end * dt if ZERO <= end < MISSED else np.inf
    return out


def time_of_hit(
    pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, turn: Tensor, throttle: Tensor
) -> Tensor:
    """`reach_table.time_of_hit` as native code, of missiles that are already launched."""
    shots = pos, vel, target_pos, target_vel, turn, throttle
    inputs: list[Any] = [x.to("cpu", torch.float32).contiguous().numpy() for x in shots]
    inputs += [DT, BURN_TICKS, LONGEST_TICKS, PHYSICS]
    return torch.from_numpy(_fly(*inputs))
