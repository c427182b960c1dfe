"""Motion of fighters and missiles in a plane: drag, thrust, turning, and a missile's launch, guidance and hit.

Pure functions of tensors of any batch shape and float dtype: positions and velocities [..., 2] in m and m/s, the rest
[...]. A positive rudder in [-1, 1] turns left. `advance` moves every body: in training, in reach tables and in figures.
The order inside a step is: guide (`pronav`, with the positions before the step), move missile and target (`advance`),
test for a hit (`miss_distance`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

GRAVITY_MPS2 = 9.8
SOUND_MPS = 340.0
PHYSICS_DT_S = 1 / 60
LEAST_SPEED_MPS = 1e-3  # keeps the direction defined; flying bodies are never this slow


@dataclass(frozen=True)
class Body:
    """The constants of a body."""

    terminal_mps: float  # in free fall, where drag is one g
    min_radius_m: float  # at full rudder
    thrust_mps2: float  # at full throttle
    lift_drag: float  # best ratio of lift to drag

    @property
    def drag(self) -> float:
        """Drag deceleration per squared speed in straight flight, C_d0 (1/m)."""
        return GRAVITY_MPS2 / self.terminal_mps**2

    @property
    def turn_drag(self) -> float:
        """The part of C_d that full rudder adds (1/m): k / R_min²."""
        return 1 / (4 * self.drag * self.lift_drag**2) / self.min_radius_m**2

    @property
    def top_speed_mps(self) -> float:
        """The speed at which thrust and straight drag balance."""
        return math.sqrt(self.thrust_mps2 / self.drag)


FIGHTER = Body(terminal_mps=400.0, min_radius_m=1000.0, thrust_mps2=1.5 * GRAVITY_MPS2, lift_drag=5.0)
MISSILE = Body(terminal_mps=400.0, min_radius_m=1000.0, thrust_mps2=15 * GRAVITY_MPS2, lift_drag=2.0)


def speed_of(vel: Tensor) -> Tensor:
    """Return the speed [...] of velocities [..., 2], at least LEAST_SPEED_MPS."""
    return (vel[..., 0].square() + vel[..., 1].square()).sqrt().clamp(min=LEAST_SPEED_MPS)


def advance(body: Body, pos: Tensor, vel: Tensor, rudder: Tensor, thrust: Tensor, dt_s: float) -> tuple[Tensor, Tensor]:
    """Return position and velocity after one step of semi-implicit Euler (the position uses the new velocity).

    `thrust` is the share of the body's full thrust: a fighter's throttle, 1 or 0 for a missile's engine.
    """
    speed = speed_of(vel)
    drag = body.drag + body.turn_drag * rudder.square()
    # a = n (thrust - drag v²) + p v² r / R with n = vel / v and p its left normal: both as multiples of the velocity
    along = (body.thrust_mps2 * thrust / speed - drag * speed) * dt_s
    across = speed * rudder * (dt_s / body.min_radius_m)
    vx, vy = vel[..., 0], vel[..., 1]
    vel = torch.stack((vx + along * vx - across * vy, vy + along * vy + across * vx), -1)
    return pos + vel * dt_s, vel


def towards(offset: Tensor) -> tuple[Tensor, Tensor]:
    """Return length [...] and unit vector [..., 2] of an offset."""
    distance = offset.square().sum(-1).sqrt()
    return distance, offset / distance.clamp(min=1e-3)[..., None]


def off_nose(heading: Tensor, line: Tensor) -> tuple[Tensor, Tensor]:
    """Return sine and cosine of the angle from `heading` to `line`."""
    return heading[..., 0] * line[..., 1] - heading[..., 1] * line[..., 0], (heading * line).sum(-1)


def mach(vel: Tensor) -> Tensor:
    """Return the speed [...] in units of the speed of sound."""
    return speed_of(vel) / SOUND_MPS


def g_load(body: Body, vel: Tensor, rudder: Tensor) -> Tensor:
    """Return the acceleration across the flight path in g [...], positive to the left."""
    return speed_of(vel).square() * rudder / (body.min_radius_m * GRAVITY_MPS2)


NAVIGATION_GAIN_S = 200 / math.pi  # rudder per rad/s of line-of-sight rate
HIT_RADIUS_M = 100.0
LAUNCH_AHEAD_M = 20.0
BURN_S = 10.0
SELF_DESTRUCT_MPS = 200.0  # applies after burn-out only
BURN_TICKS = math.ceil(BURN_S / PHYSICS_DT_S - 1e-6)
# After burn-out a missile only slows down, from its top speed at most: no flight is longer.
LONGEST_S = BURN_S + (1 / SELF_DESTRUCT_MPS - 1 / MISSILE.top_speed_mps) / MISSILE.drag
LONGEST_TICKS = math.ceil(LONGEST_S / PHYSICS_DT_S) + 1


def launch(pos: Tensor, vel: Tensor) -> tuple[Tensor, Tensor]:
    """Return position and velocity of a missile that leaves its carrier now."""
    return pos + vel * (LAUNCH_AHEAD_M / speed_of(vel))[..., None], vel


def line_of_sight_turn(offset: Tensor, drift: Tensor) -> Tensor:
    """Return the angle [...] (rad, wrapped) by which the line of sight turned while the offset changed by `drift` to
    `offset`.

    It is atan2(cross, dot) of the old and the new line, without subtracting angles: for a target 30 km away the
    difference of two float32 angles is half noise. Turns are limited to half a radian; larger ones only happen next to
    the target.
    """
    cross = offset[..., 0] * drift[..., 1] - offset[..., 1] * drift[..., 0]  # = old × new
    dot = offset.square().sum(-1) - (offset * drift).sum(-1)  # = old · new
    ahead = dot > cross.abs()
    tangent = torch.where(ahead, cross / torch.where(ahead, dot, 1.0), 0.5 * torch.sign(cross)).clamp(-0.5, 0.5)
    return tangent * (1 - tangent.square() / 3)  # arctan; the rudder saturates long before the next term matters


def pronav(pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, dt_s: float) -> Tensor:
    """Return the rudder [...] of proportional navigation from the turn of the line of sight in the last step.

    Both bodies moved with their present velocities (semi-implicit Euler), so their last positions are known. A missile
    in its first step has no last position, and one whose target is gone has no line of sight: the caller sets their
    rudder to 0.
    """
    turn = line_of_sight_turn(target_pos - pos, (target_vel - vel) * dt_s)
    return (turn * (NAVIGATION_GAIN_S / dt_s)).clamp(-1, 1)


def miss_distance(pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, dt_s: float) -> Tensor:
    """Return the least distance [...] between missile and target during the last step, both on straight lines."""
    offset = target_pos - pos
    drift = (target_vel - vel) * dt_s
    length = drift.square().sum(-1).clamp(min=1e-12)
    # the closest approach, as a share of the step before its end
    back = ((offset * drift).sum(-1) / length).clamp(0, 1)
    nearest = offset - back[..., None] * drift
    return nearest.square().sum(-1).sqrt()
