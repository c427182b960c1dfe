"""The reference form of `flights_native.paths` and `chases`, in plain tensors."""

from __future__ import annotations

import math

import torch

from slipstream.tasks.aircombat.physics.flight import (
    FIGHTER,
    HIT_RADIUS_M,
    MISSILE,
    PHYSICS_DT_S,
    SELF_DESTRUCT_MPS,
    advance,
    miss_distance,
    pronav,
    speed_of,
)
from slipstream.tasks.aircombat.reach.flights import BURN_TICKS, turn_rudder


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
