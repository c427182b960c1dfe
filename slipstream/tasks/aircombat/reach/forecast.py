"""The next 20 s of duels as both sides must expect them: paths, escapes, missiles and reach, for many moments at once.

A recording, a game and the spacetime diagram show this.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, SLOTS, Duels
from slipstream.tasks.aircombat.physics.flight import BURN_S, PHYSICS_DT_S, SOUND_MPS, off_nose, speed_of, towards
from slipstream.tasks.aircombat.reach.flights_native import chases, paths
from slipstream.tasks.aircombat.reach.table import CHANNELS, pseudo_angle, shipped_table

FUTURE_S = 20.0
FUTURE_TICKS = round(FUTURE_S / PHYSICS_DT_S)
POINT = 60  # ticks between two points of a path
AZIMUTHS = 96  # points of a contour
RANGES = ("r_max", "r_min", "r_ne")


@torch.no_grad()
def forecast(duels: Duels, every: int = POINT, dt_s: float = PHYSICS_DT_S) -> dict[str, NDArray[Any]]:
    """Return what both sides must expect at S moments, in m, with a point of each path `every` so many ticks.

    `dt_s` is the physics step of the duels, in which the ages of their missiles are counted.

    Returns:
        path [S, 2, P, 2]: with the present rudder; escape [S, 2, 2, P, 2]: turn and run to the left and to the right;
        missile [S, 12, P, 2]: until it is slower than sound; range [S, 2, 4]: distance, r_max, r_min and r_ne of a
        shot of each side; contour [S, 2, 3, 96]: these three around each side, against the other.
    """
    moments = len(duels.pos)
    pos, vel = duels.pos.reshape(-1, 2).float(), duels.vel.reshape(-1, 2).float()  # [S * 2]
    other_pos, other_vel = (x.flip(1).reshape(-1, 2).float() for x in (duels.pos, duels.vel))
    still = torch.zeros(len(pos))
    held = paths(pos, vel, duels.rudder.reshape(-1), still, FUTURE_TICKS, every)
    pair, turns = still.repeat_interleave(2), _escapes(duels).flatten()
    fled = paths(pos.repeat_interleave(2, 0), vel.repeat_interleave(2, 0), pair, turns, FUTURE_TICKS, every)

    distance, line = towards(other_pos - pos)
    around = torch.linspace(0, 2 * math.pi, AZIMUTHS + 1)[:-1]  # directions from a side to its enemy
    circle = torch.stack((torch.cos(around), torch.sin(around)), -1).expand(len(pos), -1, -1)
    ranges, contours = look_up(vel, other_vel, line), look_up(vel[:, None], other_vel[:, None], circle)
    return {
        "path": held.reshape(moments, 2, -1, 2),
        "escape": fled.reshape(moments, 2, 2, -1, 2),
        "missile": _missile_paths(duels, every, dt_s),
        "range": torch.cat((distance[:, None], ranges), -1).reshape(moments, 2, 4).numpy(),
        "contour": contours.mT.reshape(moments, 2, len(RANGES), AZIMUTHS).numpy(),
    }


def look_up(vel: Tensor, target_vel: Tensor, line: Tensor) -> Tensor:
    """Return r_max, r_min and r_ne [..., 3] (m), from the table, of shooters and targets with these velocities [..., 2]
    m/s, where `line` [..., 2] is the direction from shooter to target."""
    vel, target_vel, line = torch.broadcast_tensors(vel, target_vel, line)
    speed, target_speed = speed_of(vel), speed_of(target_vel)
    sin, cos = off_nose(vel / speed[..., None], line)
    target_sin, target_cos = off_nose(target_vel / target_speed[..., None], -line)
    angles = pseudo_angle(cos, sin), pseudo_angle(target_cos, target_sin)
    found = shipped_table(line.device).lookup(speed, target_speed, *angles)
    return found[..., [CHANNELS.index(name) for name in RANGES]]


def _escapes(duels: Duels) -> Tensor:
    """Return the turns [S, 2, 2] of each side, left and right, that put its nearest threat astern."""
    flies = (duels.missile_age != GONE).reshape(-1, 2, CARRIED).flip(1)  # of the missiles that chase each side
    missiles = duels.missile_pos.reshape(-1, 2, CARRIED, 2).flip(1)
    distance = torch.where(flies, (missiles - duels.pos[:, :, None]).norm(dim=-1), math.inf)
    nearest = distance.argmin(2)
    threat = missiles.gather(2, nearest[..., None, None].expand(-1, -1, 1, 2))[:, :, 0]
    threat = torch.where(flies.any(2)[..., None], threat, duels.pos.flip(1))
    away, heading = duels.pos - threat, duels.vel
    left = torch.atan2(away[..., 1], away[..., 0]) - torch.atan2(heading[..., 1], heading[..., 0])
    left = torch.remainder(left, 2 * math.pi)
    return torch.stack((left, left - 2 * math.pi), -1).float()


def _missile_paths(duels: Duels, every: int, dt_s: float) -> NDArray[Any]:
    """Return the paths [S, 12, P, 2] of missiles in flight if their targets keep their rudders; NaN elsewhere."""
    found = np.full((len(duels.pos), SLOTS, FUTURE_TICKS // every + 1, 2), np.nan, np.float32)
    moment, slot = torch.nonzero(duels.missile_age != GONE, as_tuple=True)
    if not len(moment):
        return found
    pos, vel, age = (x[moment, slot] for x in (duels.missile_pos, duels.missile_vel, duels.missile_age))
    age = (age * (dt_s / PHYSICS_DT_S)).round().to(torch.int32)
    target = moment, 1 - slot // CARRIED
    target_pos = torch.where(duels.alive[target][:, None], duels.pos[target], torch.nan)  # without one: straight on
    flown = chases(pos, vel, age, target_pos, duels.vel[target], duels.rudder[target], FUTURE_TICKS, every)
    ages_s = (age.numpy()[:, None] + np.arange(flown.shape[1]) * every) * PHYSICS_DT_S
    spent = np.logical_or.accumulate((ages_s > BURN_S) & (flown[..., 2] < SOUND_MPS), axis=1)
    found[moment.numpy(), slot.numpy()] = np.where(spent[..., None], np.nan, flown[..., :2])
    return found
