"""Fighters and missiles in a plane: what drives, brakes and turns them, and one step of their motion.

Pure functions of tensors of any batch shape and any float type: positions and velocities [..., 2] in m and m/s, the rest [...].
A rudder in [-1, 1] turns left where it is positive. Everything that flies, in training, in reach tables and in pictures, is moved
by `advance`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

GRAVITY_MPS2 = 9.8
SOUND_MPS = 340.0
PHYSICS_DT_S = 1 / 60
LEAST_SPEED_MPS = 1e-3  # a body at rest has no direction; none that flies comes near it


@dataclass(frozen=True)
class Body:
    """The constants of an airframe."""

    terminal_mps: float  # falling free, where drag is one g
    min_radius_m: float  # at full rudder
    thrust_mps2: float  # at full throttle
    lift_drag: float  # at its best

    @property
    def drag(self) -> float:
        """Drag deceleration over speed squared in straight flight, C_d0 (1/m)."""
        return GRAVITY_MPS2 / self.terminal_mps**2

    @property
    def turn_drag(self) -> float:
        """What full rudder adds to it (1/m): k / R_min²."""
        return 1 / (4 * self.drag * self.lift_drag**2) / self.min_radius_m**2

    @property
    def top_speed_mps(self) -> float:
        """Where thrust and straight drag balance."""
        return math.sqrt(self.thrust_mps2 / self.drag)


FIGHTER = Body(terminal_mps=400.0, min_radius_m=1000.0, thrust_mps2=1.5 * GRAVITY_MPS2, lift_drag=5.0)
MISSILE = Body(terminal_mps=400.0, min_radius_m=1000.0, thrust_mps2=15 * GRAVITY_MPS2, lift_drag=2.0)


def speed_of(vel: Tensor) -> Tensor:
    """The speed [...] of velocities [..., 2], never quite zero."""
    return (vel[..., 0].square() + vel[..., 1].square()).sqrt().clamp(min=LEAST_SPEED_MPS)


def advance(body: Body, pos: Tensor, vel: Tensor, rudder: Tensor, thrust: Tensor, dt_s: float) -> tuple[Tensor, Tensor]:
    """Position and velocity one step on: semi-implicit Euler, the position with the new velocity.

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


def mach(vel: Tensor) -> Tensor:
    """Speed in units of the speed of sound [...]."""
    return speed_of(vel) / SOUND_MPS


def g_load(body: Body, vel: Tensor, rudder: Tensor) -> Tensor:
    """Acceleration across the flight path in g [...], positive to the left."""
    return speed_of(vel).square() * rudder / (body.min_radius_m * GRAVITY_MPS2)
