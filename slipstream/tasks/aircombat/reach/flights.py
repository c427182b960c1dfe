"""Flights of many bodies at once: missiles at targets (`time_of_hit`, `chases`) and bodies that follow a steering program (`paths`).

All bodies are moved by `flight.advance` and guided by `flight.pronav`, as in training. The native and Triton forms use the step
functions of the native and the Triton engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.sim.devices import pick_backend
from slipstream.tasks.aircombat.physics.flight import (
    BURN_S,
    FIGHTER,
    HIT_RADIUS_M,
    MISSILE,
    PHYSICS_DT_S,
    SELF_DESTRUCT_MPS,
    Body,
    advance,
    launch,
    miss_distance,
    pronav,
    speed_of,
)

HOLD = -1.0  # the throttle of a target that keeps its present velocity
HARD = math.inf  # the gain of a turn at full rudder
BURN_TICKS = math.ceil(BURN_S / PHYSICS_DT_S - 1e-6)
# From burn-out a missile only slows down, from its top speed at most: no flight is longer.
LONGEST_S = BURN_S + (1 / SELF_DESTRUCT_MPS - 1 / MISSILE.top_speed_mps) / MISSILE.drag
LONGEST_TICKS = math.ceil(LONGEST_S / PHYSICS_DT_S) + 1


def time_of_hit(
    pos: Tensor,
    vel: Tensor,
    target_pos: Tensor,
    target_vel: Tensor,
    turn: Tensor,
    throttle: Tensor,
    backend: str = "auto",
) -> Tensor:
    """How long [M] (s) a missile launched now takes to its target; infinite where it never gets there.

    Shooters and targets are [M, 2]. A target turns by `turn` [M] (rad, positive left) at full rudder, then flies straight, with
    `throttle` [M] throughout; where that is HOLD it keeps its present velocity instead. There is no time limit: a flight ends with
    a hit or when the missile is too slow.
    """
    form = pick_backend(pos.device, backend)
    missile_pos, missile_vel = launch(pos, vel)
    state = (missile_pos, missile_vel, target_pos, target_vel, turn, throttle)
    if form == "torch":
        return _time_of_hit(*state)
    if form == "triton":
        from slipstream.tasks.aircombat.reach.flights_triton import time_of_hit as on_gpu

        return on_gpu(*state)
    from slipstream.tasks.aircombat.reach.flights_native import time_of_hit as on_cpu

    return on_cpu(*state)


def turn_rudder(
    speed: Tensor, left_to_turn: Tensor, body: Body, dt_s: float, gain: Tensor | float = HARD
) -> tuple[Tensor, Tensor]:
    """The rudder [...] of a turn by `left_to_turn` (rad), and what of it is then still to be turned.

    `gain` (rudder per rad) eases the turn out as its end comes near; HARD keeps full rudder to the last step.
    """
    step = speed * (dt_s / body.min_radius_m)  # rad at full rudder
    gain = torch.as_tensor(gain, dtype=speed.dtype, device=speed.device)
    rudder = (left_to_turn * torch.minimum(gain, 1 / step)).clamp(-1, 1)
    return rudder, left_to_turn - rudder * step


def _time_of_hit(
    pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, turn: Tensor, throttle: Tensor
) -> Tensor:
    """`time_of_hit` in plain tensors, the form that the others are held to; the missiles are already launched."""
    dt_s = PHYSICS_DT_S
    result = torch.full_like(turn, math.inf)
    going = torch.ones_like(turn, dtype=torch.bool)
    holds = throttle < 0
    throttle = throttle.clamp(min=0)
    for age in range(LONGEST_TICKS):
        rudder = pronav(pos, vel, target_pos, target_vel, dt_s) if age else torch.zeros_like(turn)
        pos, vel = advance(MISSILE, pos, vel, rudder, torch.full_like(turn, float(age < BURN_TICKS)), dt_s)
        evasion, turn = turn_rudder(speed_of(target_vel), turn, FIGHTER, dt_s)
        _, turned = advance(FIGHTER, target_pos, target_vel, evasion, throttle, dt_s)
        target_vel = torch.where(holds[..., None], target_vel, turned)
        target_pos = target_pos + target_vel * dt_s
        hit = going & (miss_distance(pos, vel, target_pos, target_vel, dt_s) <= HIT_RADIUS_M)
        result = torch.where(hit, (age + 1) * dt_s, result)
        going = going & ~hit
        if age + 1 >= BURN_TICKS:
            going = going & (speed_of(vel) >= SELF_DESTRUCT_MPS)
            if age % 60 == 0 and result.device.type == "cpu" and not going.any():  # looking is free there
                break
    return result


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
        from slipstream.tasks.aircombat.reach.flights_native import paths as on_cpu

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
        from slipstream.tasks.aircombat.reach.flights_native import chases as on_cpu

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
