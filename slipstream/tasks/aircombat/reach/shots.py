"""Shots: a missile launched now at a target that flies a simple programme, flown to its end, many at once.

Everything that `reach` says comes from here, and everything here is moved by `airframe.advance` and steered by `guidance.pronav`, the
functions that training flies with (the native and Triton forms use those of the native and the Triton engine).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slipstream.sim.backend import pick_backend
from slipstream.tasks.aircombat.physics.airframe import FIGHTER, MISSILE, PHYSICS_DT_S, Body, advance, speed_of
from slipstream.tasks.aircombat.physics.guidance import (
    BURN_S,
    HIT_RADIUS_M,
    SELF_DESTRUCT_MPS,
    launch,
    miss_distance,
    pronav,
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
        from slipstream.tasks.aircombat.reach.shots_triton import time_of_hit as on_gpu

        return on_gpu(*state)
    from slipstream.tasks.aircombat.reach.shots_native import time_of_hit as on_cpu

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
