"""Flights of many bodies with a steering program, and of missiles that chase fighters, as native code (numba), with the
step functions of the native engine. tests/aircombat/plain_flights.py is the reference form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.engine_native import FAST, ONE, PHYSICS, ZERO, advance, is_hit, pronav
from slipstream.tasks.aircombat.physics.flight import BURN_TICKS, FIGHTER, PHYSICS_DT_S, Body

HARD = math.inf  # gain of a turn at full rudder
NEVER = 1 << 30  # ticks
DT = np.float32(PHYSICS_DT_S)


@dataclass
class Steering:
    """The rudder program of M bodies: `held` (its sign changes at tick `flip`) plus the rudder of a turn."""

    held: Tensor  # [M] rudder
    turn: Tensor  # [M] rad to turn, positive left
    gain: Tensor  # [M] rudder per rad still to turn; HARD: full rudder to the end
    flip: Tensor  # [M] int32 tick

    @classmethod
    def hold(cls, rudder: Tensor) -> Steering:
        """Keep a rudder [M]."""
        zero = torch.zeros_like(rudder)
        return cls(rudder, zero, zero, torch.full_like(rudder, NEVER, dtype=torch.int32))

    @classmethod
    def turning(cls, turn: Tensor, gain: Tensor | float = HARD) -> Steering:
        """Turn by an angle [M], then fly straight."""
        zero = torch.zeros_like(turn)
        return cls(zero, turn, zero + gain, torch.full_like(turn, NEVER, dtype=torch.int32))


@nb.njit(inline="always", fastmath=FAST, error_model="numpy")
def _steer(held, left, gain, flip, tick, speed, dt, per_radius):  # pragma: no cover
    """Return the rudder, and the angle that is left to turn after it."""
    step = speed * (dt * per_radius)
    turning = min(max(left * min(gain, ONE / step), -ONE), ONE)
    return (held if tick < flip else -held) + turning, left - turning * step


@nb.njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True, nogil=True)
def _paths(pos, vel, held, turn, gain, flip, thrust_ticks, ticks, every, body, dt):  # pragma: no cover
    out = np.empty((len(held), 1 + ticks // every, 3), np.float32)
    constants = (body[0], body[1], body[2], body[3])
    for n in nb.prange(len(held)):
        x, y, vx, vy, left = pos[n, 0], pos[n, 1], vel[n, 0], vel[n, 1], turn[n]
        for tick in range(ticks + 1):
            speed = np.float32(math.sqrt(vx * vx + vy * vy))
            if tick % every == 0:
                row = tick // every
                out[n, row, 0], out[n, row, 1], out[n, row, 2] = x, y, speed
            rudder, left = _steer(held[n], left, gain[n], flip[n], tick, speed, dt, constants[3])
            vx, vy = advance(vx, vy, rudder, ONE if tick < thrust_ticks[n] else ZERO, constants, dt)
            x += vx * dt
            y += vy * dt
    return out


@nb.njit(fastmath=FAST, error_model="numpy", cache=True, nogil=True)
# pragma: no cover
def _chases(pos, vel, age, target_pos, target_vel, held, turn, gain, flip, ticks, every, burn, physics, dt):
    out = np.full((len(held), 1 + ticks // every, 3), np.nan, np.float32)
    fighter = (physics[0], physics[1], physics[2], physics[3])
    missile = (physics[4], physics[5], physics[6], physics[7])
    for n in range(len(held)):
        x, y, vx, vy, left = pos[n, 0], pos[n, 1], vel[n, 0], vel[n, 1], turn[n]
        tx, ty, tvx, tvy = target_pos[n, 0], target_pos[n, 1], target_vel[n, 0], target_vel[n, 1]
        out[n, 0, 0], out[n, 0, 1], out[n, 0, 2] = x, y, math.sqrt(vx * vx + vy * vy)
        for tick in range(ticks):
            guided = ZERO
            if age[n] + tick > 0:
                guided = pronav(tx - x, ty - y, (tvx - vx) * dt, (tvy - vy) * dt, physics[8] / dt)
            speed = np.float32(math.sqrt(tvx * tvx + tvy * tvy))
            rudder, left = _steer(held[n], left, gain[n], flip[n], tick, speed, dt, physics[3])
            vx, vy = advance(vx, vy, guided, ONE if age[n] + tick < burn else ZERO, missile, dt)
            tvx, tvy = advance(tvx, tvy, rudder, ONE, fighter, dt)
            x += vx * dt
            y += vy * dt
            tx += tvx * dt
            ty += tvy * dt
            slow = age[n] + tick + 1 >= burn and vx * vx + vy * vy < physics[11]
            if slow or is_hit(tx - x, ty - y, (tvx - vx) * dt, (tvy - vy) * dt, physics[10]):
                break
            if (tick + 1) % every == 0:
                row = (tick + 1) // every
                out[n, row, 0], out[n, row, 1], out[n, row, 2] = x, y, math.sqrt(vx * vx + vy * vy)
    return out


def paths(
    body: Body, pos: Tensor, vel: Tensor, steering: Steering, thrust_ticks: Tensor, ticks: int, every: int
) -> Tensor:
    """Fly M bodies (CPU tensors) with a steering program.

    Args:
        body: FIGHTER or MISSILE.
        pos: [M, 2] m.
        vel: [M, 2] m/s.
        steering: the program.
        thrust_ticks: [M] int32: full thrust for so many ticks (NEVER: always), none after.
        ticks: the length of the flight.
        every: ticks between two rows of the result.

    Returns:
        Position and speed [M, 1 + ticks // every, 3].
    """
    constants = PHYSICS[:4] if body is FIGHTER else PHYSICS[4:8]
    bodies = (*_arrays(pos, vel), *_program(steering), thrust_ticks.numpy())
    inputs: tuple[Any, ...] = (*bodies, ticks, every, constants, DT)
    return torch.from_numpy(_paths(*inputs))


def chases(
    pos: Tensor,
    vel: Tensor,
    age: Tensor,
    target_pos: Tensor,
    target_vel: Tensor,
    steering: Steering,
    ticks: int,
    every: int,
) -> Tensor:
    """Fly M missiles (CPU tensors), `age` [M] ticks old, that chase fighters at full throttle.

    Returns position and speed [M, 1 + ticks // every, 3], NaN after a hit or when the missile is too slow.
    """
    bodies = (*_arrays(pos, vel), age.to(torch.int32).contiguous().numpy(), *_arrays(target_pos, target_vel))
    inputs: tuple[Any, ...] = (*bodies, *_program(steering), ticks, every, BURN_TICKS, PHYSICS, DT)
    return torch.from_numpy(_chases(*inputs))


def _arrays(*tensors: Tensor) -> list[Any]:
    return [x.to("cpu", torch.float32).contiguous().numpy() for x in tensors]


def _program(steering: Steering) -> list[Any]:
    return [*_arrays(steering.held, steering.turn, steering.gain), steering.flip.contiguous().numpy()]
