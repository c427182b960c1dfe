"""Paths of many fighters that hold their rudder or turn away, and of missiles that chase them, as native code (numba),
with the step functions of the native engine. tests/aircombat/plain_flights.py is the reference form.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
from torch import Tensor

from slipstream.tasks.aircombat.physics.engine_native import FAST, ONE, PHYSICS, ZERO, advance, is_hit, pronav
from slipstream.tasks.aircombat.physics.flight import BURN_TICKS, PHYSICS_DT_S

DT = np.float32(PHYSICS_DT_S)


@nb.njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True, nogil=True)
def _paths(pos, vel, held, turn, ticks, every, physics, dt):  # pragma: no cover
    out = np.empty((len(held), 1 + ticks // every, 2), np.float32)
    fighter = (physics[0], physics[1], physics[2], physics[3])
    for n in nb.prange(len(held)):
        x, y, vx, vy, left = pos[n, 0], pos[n, 1], vel[n, 0], vel[n, 1], turn[n]
        for tick in range(ticks + 1):
            if tick % every == 0:
                out[n, tick // every, 0], out[n, tick // every, 1] = x, y
            step = np.float32(math.sqrt(vx * vx + vy * vy)) * (dt * fighter[3])  # rad at full rudder
            turning = min(max(left / step, -ONE), ONE)
            left -= turning * step
            vx, vy = advance(vx, vy, held[n] + turning, ONE, fighter, dt)
            x += vx * dt
            y += vy * dt
    return out


@nb.njit(fastmath=FAST, error_model="numpy", cache=True, nogil=True)
def _chases(pos, vel, age, target_pos, target_vel, held, ticks, every, burn, physics, dt):  # pragma: no cover
    out = np.full((len(held), 1 + ticks // every, 3), np.nan, np.float32)
    fighter = (physics[0], physics[1], physics[2], physics[3])
    missile = (physics[4], physics[5], physics[6], physics[7])
    for n in range(len(held)):
        x, y, vx, vy = pos[n, 0], pos[n, 1], vel[n, 0], vel[n, 1]
        tx, ty, tvx, tvy = target_pos[n, 0], target_pos[n, 1], target_vel[n, 0], target_vel[n, 1]
        for tick in range(ticks + 1):
            if tick % every == 0:
                row = tick // every
                out[n, row, 0], out[n, row, 1], out[n, row, 2] = x, y, math.sqrt(vx * vx + vy * vy)
            guided = ZERO
            if age[n] + tick > 0:
                guided = pronav(tx - x, ty - y, (tvx - vx) * dt, (tvy - vy) * dt, physics[8] / dt)
            vx, vy = advance(vx, vy, guided, ONE if age[n] + tick < burn else ZERO, missile, dt)
            tvx, tvy = advance(tvx, tvy, held[n], ONE, fighter, dt)
            x += vx * dt
            y += vy * dt
            tx += tvx * dt
            ty += tvy * dt
            slow = age[n] + tick + 1 >= burn and vx * vx + vy * vy < physics[11]
            if slow or is_hit(tx - x, ty - y, (tvx - vx) * dt, (tvy - vy) * dt, physics[10]):
                break
    return out


def paths(pos: Tensor, vel: Tensor, held: Tensor, turn: Tensor, ticks: int, every: int) -> np.ndarray:
    """Fly M fighters at full throttle for `ticks`.

    Args:
        pos, vel: [M, 2] m and m/s.
        held: [M] rudder.
        turn: [M] rad to turn at full rudder first, positive left.
        every: ticks between two rows of the result.

    Returns:
        Positions [M, 1 + ticks // every, 2].
    """
    inputs: tuple[Any, ...] = (*_arrays(pos, vel, held, turn), ticks, every, PHYSICS, DT)
    return _paths(*inputs)


def chases(
    pos: Tensor, vel: Tensor, age: Tensor, target_pos: Tensor, target_vel: Tensor, held: Tensor, ticks: int, every: int
) -> np.ndarray:
    """Fly M missiles, `age` [M] ticks old, that chase fighters at full throttle with the rudder `held` [M].

    Returns position and speed [M, 1 + ticks // every, 3], NaN after a hit or when the missile is too slow.
    """
    targets = _arrays(target_pos, target_vel, held)
    inputs: tuple[Any, ...] = (*_arrays(pos, vel), age.int().numpy(), *targets, ticks, every, BURN_TICKS, PHYSICS, DT)
    return _chases(*inputs)


def _arrays(*tensors: Tensor) -> list[Any]:
    return [x.float().contiguous().numpy() for x in tensors]
