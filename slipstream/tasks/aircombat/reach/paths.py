"""Where bodies will be: paths of craft and missiles that hold a rudder or turn and run, and of missiles that chase them.

The programme of a body is told by four numbers (`Steering`); it is moved by `airframe.advance`. On a CPU it is native code
(`paths_native`), fast enough to be drawn 30 times a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.sim.backend import pick_backend
from slipstream.tasks.aircombat.physics.airframe import FIGHTER, MISSILE, PHYSICS_DT_S, Body, advance, speed_of
from slipstream.tasks.aircombat.physics.guidance import HIT_RADIUS_M, SELF_DESTRUCT_MPS, miss_distance, pronav
from slipstream.tasks.aircombat.reach.shots import BURN_TICKS, HARD, turn_rudder

NEVER = 1 << 30  # ticks


@dataclass
class Steering:
    """What M bodies do: rudder = held (with the sign changed from tick `flip` on) + what a turn still asks for."""

    held: Tensor  # [M] rudder
    turn: Tensor  # [M] rad to turn, positive left
    gain: Tensor  # [M] rudder per rad still to turn; HARD: full rudder to the end
    flip: Tensor  # [M] int32 tick

    @classmethod
    def hold(cls, rudder: Tensor) -> Steering:
        """The rudder stays as it is."""
        zero = torch.zeros_like(rudder)
        return cls(rudder, zero, zero, torch.full_like(rudder, NEVER, dtype=torch.int32))

    @classmethod
    def turning(cls, turn: Tensor, gain: Tensor | float = HARD) -> Steering:
        """A turn by an angle, then straight."""
        zero = torch.zeros_like(turn)
        return cls(zero, turn, zero + gain, torch.full_like(turn, NEVER, dtype=torch.int32))

    @classmethod
    def weave(cls, rudder: Tensor, flip: Tensor) -> Steering:
        """One rudder, then the opposite."""
        return cls(rudder, torch.zeros_like(rudder), torch.zeros_like(rudder), flip.to(torch.int32))

    @classmethod
    def cat(cls, *parts: Steering) -> Steering:
        """Several, one after the other."""
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in ("held", "turn", "gain", "flip")))


def paths(
    body: Body,
    pos: Tensor,
    vel: Tensor,
    steering: Steering,
    thrust_ticks: Tensor,
    ticks: int,
    every: int,
    backend: str = "auto",
) -> Tensor:
    """Position and speed [M, 1 + ticks // every, 3] of M bodies each `every` ticks, from now on.

    Full thrust for `thrust_ticks` [M] int32 (NEVER: always), none after.
    """
    args = (pos, vel, steering, thrust_ticks, ticks, every)
    if pick_backend(pos.device, backend) == "native":
        from slipstream.tasks.aircombat.reach.paths_native import paths as on_cpu

        return on_cpu(body, *args)
    return _paths(body, *args)


def chases(
    pos: Tensor, vel: Tensor, age: Tensor, target_pos: Tensor, target_vel: Tensor, steering: Steering, ticks: int, every: int,
    backend: str = "auto",
) -> Tensor:  # fmt: skip
    """Position and speed [M, 1 + ticks // every, 3] of missiles `age` [M] ticks old that chase fighters at full throttle.

    NaN after a hit or when the missile is too slow.
    """
    args = (pos, vel, age, target_pos, target_vel, steering, ticks, every)
    if pick_backend(pos.device, backend) == "native":
        from slipstream.tasks.aircombat.reach.paths_native import chases as on_cpu

        return on_cpu(*args)
    return _chases(*args)


def _steer(steering: Steering, left: Tensor, speed: Tensor, body: Body, tick: int) -> tuple[Tensor, Tensor]:
    turning, left = turn_rudder(speed, left, body, PHYSICS_DT_S, steering.gain)
    return torch.where(tick < steering.flip, steering.held, -steering.held) + turning, left


def _paths(
    body: Body, pos: Tensor, vel: Tensor, steering: Steering, thrust_ticks: Tensor, ticks: int, every: int
) -> Tensor:
    left, rows = steering.turn, [_row(pos, vel)]
    for tick in range(ticks):
        rudder, left = _steer(steering, left, speed_of(vel), body, tick)
        pos, vel = advance(body, pos, vel, rudder, (tick < thrust_ticks).to(pos.dtype), PHYSICS_DT_S)
        if (tick + 1) % every == 0:
            rows.append(_row(pos, vel))
    return torch.stack(rows, 1)


def _chases(
    pos: Tensor,
    vel: Tensor,
    age: Tensor,
    target_pos: Tensor,
    target_vel: Tensor,
    steering: Steering,
    ticks: int,
    every: int,
) -> Tensor:
    left, rows, dt_s = steering.turn, [_row(pos, vel)], PHYSICS_DT_S
    going, full = torch.ones_like(age, dtype=torch.bool), torch.ones_like(left)
    for tick in range(ticks):
        guided = torch.where(age + tick > 0, pronav(pos, vel, target_pos, target_vel, dt_s), 0.0)
        rudder, left = _steer(steering, left, speed_of(target_vel), FIGHTER, tick)
        pos, vel = advance(MISSILE, pos, vel, guided, (age + tick < BURN_TICKS).to(pos.dtype), dt_s)
        target_pos, target_vel = advance(FIGHTER, target_pos, target_vel, rudder, full, dt_s)
        going = going & (miss_distance(pos, vel, target_pos, target_vel, dt_s) > HIT_RADIUS_M)
        going = going & ((age + tick + 1 < BURN_TICKS) | (speed_of(vel) >= SELF_DESTRUCT_MPS))
        if (tick + 1) % every == 0:
            rows.append(_row(pos, vel).masked_fill(~going[:, None], math.nan))
    return torch.stack(rows, 1)


def _row(pos: Tensor, vel: Tensor) -> Tensor:
    return torch.cat((pos, speed_of(vel)[:, None]), -1)
