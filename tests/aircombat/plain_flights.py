"""The reference form of `flights.time_of_hit`, `flights_native.paths` and `chases`, in plain tensors."""

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
from slipstream.tasks.aircombat.reach.flights_native import HARD


def paths(body, pos, vel, steering, thrust_ticks, ticks, every):
    left, rows = steering.turn, [row(pos, vel)]
    for tick in range(ticks):
        rudder, left = steer(steering, left, speed_of(vel), body, tick)
        pos, vel = advance(body, pos, vel, rudder, (tick < thrust_ticks).to(pos.dtype), PHYSICS_DT_S)
        if (tick + 1) % every == 0:
            rows.append(row(pos, vel))
    return torch.stack(rows, 1)


def chases(pos, vel, age, target_pos, target_vel, steering, ticks, every):
    left, rows, dt_s = steering.turn, [row(pos, vel)], PHYSICS_DT_S
    going, full = torch.ones_like(age, dtype=torch.bool), torch.ones_like(left)
    for tick in range(ticks):
        guided = torch.where(age + tick > 0, pronav(pos, vel, target_pos, target_vel, dt_s), 0.0)
        rudder, left = steer(steering, left, speed_of(target_vel), FIGHTER, tick)
        pos, vel = advance(MISSILE, pos, vel, guided, (age + tick < BURN_TICKS).to(pos.dtype), dt_s)
        target_pos, target_vel = advance(FIGHTER, target_pos, target_vel, rudder, full, dt_s)
        going = going & (miss_distance(pos, vel, target_pos, target_vel, dt_s) > HIT_RADIUS_M)
        going = going & ((age + tick + 1 < BURN_TICKS) | (speed_of(vel) >= SELF_DESTRUCT_MPS))
        if (tick + 1) % every == 0:
            rows.append(row(pos, vel).masked_fill(~going[:, None], math.nan))
    return torch.stack(rows, 1)


def steer(steering, left, speed, body, tick):
    turning, left = turn_rudder(speed, left, body, PHYSICS_DT_S, steering.gain)
    return torch.where(tick < steering.flip, steering.held, -steering.held) + turning, left


def row(pos, vel):
    return torch.cat((pos, speed_of(vel)[:, None]), -1)


def turn_rudder(speed, left_to_turn, body, dt_s, gain=HARD):
    """Return the rudder [...] of a turn by `left_to_turn` (rad), and the angle that is left after it.

    `gain` (rudder per rad) eases the turn out near its end; HARD keeps full rudder to the last step.
    """
    step = speed * (dt_s / body.min_radius_m)  # rad at full rudder
    gain = torch.as_tensor(gain, dtype=speed.dtype, device=speed.device)
    rudder = (left_to_turn * torch.minimum(gain, 1 / step)).clamp(-1, 1)
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
