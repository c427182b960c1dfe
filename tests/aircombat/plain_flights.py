"""The reference form of `time_of_hit`, `flights_native.paths` and `chases`, in plain tensors."""

from __future__ import annotations

import math

import torch

from slipstream.tasks.aircombat.physics.flight import (
    BURN_TICKS,
    FIGHTER,
    HIT_RADIUS_M,
    LONGEST_TICKS,
    MISSILE,
    PHYSICS_DT_S,
    SELF_DESTRUCT_MPS,
    advance,
    launch,
    miss_distance,
    pronav,
    speed_of,
)


def paths(pos, vel, held, turn, ticks, every):
    rows = [pos]
    for tick in range(ticks):
        rudder, turn = turn_rudder(speed_of(vel), turn, FIGHTER, PHYSICS_DT_S)
        pos, vel = advance(FIGHTER, pos, vel, held + rudder, torch.ones_like(held), PHYSICS_DT_S)
        if (tick + 1) % every == 0:
            rows.append(pos)
    return torch.stack(rows, 1)


def chases(pos, vel, age, target_pos, target_vel, held, ticks, every):
    rows, dt_s = [row(pos, vel)], PHYSICS_DT_S
    going, full = torch.ones_like(age, dtype=torch.bool), torch.ones_like(held)
    for tick in range(ticks):
        guided = torch.where(age + tick > 0, pronav(pos, vel, target_pos, target_vel, dt_s), 0.0)
        pos, vel = advance(MISSILE, pos, vel, guided, (age + tick < BURN_TICKS).to(pos.dtype), dt_s)
        target_pos, target_vel = advance(FIGHTER, target_pos, target_vel, held, full, dt_s)
        going = going & (miss_distance(pos, vel, target_pos, target_vel, dt_s) > HIT_RADIUS_M)
        going = going & ((age + tick + 1 < BURN_TICKS) | (speed_of(vel) >= SELF_DESTRUCT_MPS))
        if (tick + 1) % every == 0:
            rows.append(row(pos, vel).masked_fill(~going[:, None], math.nan))
    return torch.stack(rows, 1)


def row(pos, vel):
    return torch.cat((pos, speed_of(vel)[:, None]), -1)


def turn_rudder(speed, left_to_turn, body, dt_s):
    """Return the rudder [...] of a turn by `left_to_turn` (rad), and the angle that is left after it."""
    step = speed * (dt_s / body.min_radius_m)  # rad at full rudder
    rudder = (left_to_turn / step).clamp(-1, 1)
    return rudder, left_to_turn - rudder * step


def time_of_hit(pos, vel, target_pos, target_vel, turn, throttle):
    dt_s = PHYSICS_DT_S
    pos, vel = launch(pos, vel)
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
            if age % 60 == 0 and result.device.type == "cpu" and not going.any():  # no device to wait for
                break
    return result
