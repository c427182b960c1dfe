"""Missiles: how they leave the carrier, find their target and hit it.

Pure functions of tensors of any batch shape and any float type, as in `airframe`. The order inside a step is: guide (`pronav`
with the positions before it), move missile and target (`airframe.advance`), then look whether they met (`miss_distance`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.airframe import speed_of

NAVIGATION_GAIN_S = 200 / math.pi  # rudder for a line-of-sight rate in rad/s
HIT_RADIUS_M = 100.0
LAUNCH_AHEAD_M = 20.0
BURN_S = 10.0
SELF_DESTRUCT_MPS = 200.0  # counts after burn-out only


def launch(pos: Tensor, vel: Tensor) -> tuple[Tensor, Tensor]:
    """Position and velocity of a missile that leaves its carrier now."""
    return pos + vel * (LAUNCH_AHEAD_M / speed_of(vel))[..., None], vel


def line_of_sight_turn(offset: Tensor, drift: Tensor) -> Tensor:
    """By what angle [...] (rad, wrapped) the line of sight turned while the target's offset changed by `drift` to `offset`.

    atan2(cross, dot) of the old and the new line, without subtracting angles: near a target 30 km away a difference of two
    float32 angles is half noise. Turns beyond half a radian, which only happen next to the target, are given as half a radian.
    """
    cross = offset[..., 0] * drift[..., 1] - offset[..., 1] * drift[..., 0]  # = old × new
    dot = offset.square().sum(-1) - (offset * drift).sum(-1)  # = old · new
    ahead = dot > cross.abs()
    tangent = torch.where(ahead, cross / torch.where(ahead, dot, 1.0), 0.5 * torch.sign(cross)).clamp(-0.5, 0.5)
    return tangent * (1 - tangent.square() / 3)  # arctan; the rudder is at its stop long before the next term counts


def pronav(pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, dt_s: float) -> Tensor:
    """The rudder [...] of proportional navigation, from the line of sight's turn in the step that led here.

    Both bodies came here with their present velocities (semi-implicit Euler), so where they stood a step ago is known. A missile
    in its first step has no such past, and one whose target is gone no line of sight: give those the rudder 0.
    """
    turn = line_of_sight_turn(target_pos - pos, (target_vel - vel) * dt_s)
    return (turn * (NAVIGATION_GAIN_S / dt_s)).clamp(-1, 1)


def miss_distance(pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, dt_s: float) -> Tensor:
    """The least distance [...] between missile and target in the step that led here, both on straight lines."""
    offset = target_pos - pos
    drift = (target_vel - vel) * dt_s
    length = drift.square().sum(-1).clamp(min=1e-12)
    back = ((offset * drift).sum(-1) / length).clamp(
        0, 1
    )  # the share of the step before its end where they were nearest
    nearest = offset - back[..., None] * drift
    return nearest.square().sum(-1).sqrt()
