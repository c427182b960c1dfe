"""A safety shield: the admissible velocity nearest to the one that the policy wants.

Each LiDAR hit and each moving obstacle gives a half space n·v ≤ b of admissible velocity commands:

- a drone follows a command with a lag T, so the place x + T·vel, where it would stop, moves exactly with the command. A
  hit at distance d in direction u then allows u·v ≤ s(d − radius − T·u·vel), where s is the speed from which the drone
  can still brake in that gap.
- a moving obstacle forbids relative velocities that meet it within a horizon (the velocity obstacle of ORCA, van den
  Berg 2011); the half space is the one whose border is nearest to the wanted velocity. An obstacle above or below may
  limit the vertical speed instead.

One code for arrays of NumPy, in a pilot, and tensors of torch (`xp=torch`: no branches, a CUDA graph can capture it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

STEPS, SWEEPS, LAST_SWEEPS = 8, 3, 12  # half spaces taken; passes over those taken after each, and in the end
SOFTNESS = 3e-3  # violation per unit of push: where nothing is admissible, the squares of the violations are least
FAR, TINY = 1e6, 1e-6


@dataclass(frozen=True)
class Shield:
    """The figures of the shield, and what it knows of the observations. All vectors are in one level frame.

    Args:
        directions: of the beams [B, 3], unit vectors; an array of NumPy or a tensor.
        range_m: a beam of this distance has no hit.
        widths_m: of the width classes of moving obstacles.
        box_height_m: of an obstacle that floats.
    """

    directions: Any
    range_m: float
    widths_m: Sequence[float] = (0.25, 0.5, 0.75, 1.0)
    box_height_m: float = 1.0
    max_speed_mps: float = 2.0  # on each axis
    radius_m: float = 0.3  # of the body
    margin_m: float = 0.05  # kept beyond the radius
    lag_s: float = 0.25  # from a command to the velocity it brings; half the time constant, as a retreat brakes harder
    hold_s: float = 0.1  # how long a command is held
    brake_mps2: float = 10.0  # the deceleration on top of it
    moving_margin_m: float = 0.1
    moving_lag_s: float = 0.45
    horizon_s: float = 0.5  # for moving obstacles
    xp: Any = np  # numpy or torch

    def filter(self, wanted: Any, distance: Any, velocity: Any, obstacles: Any) -> Any:
        """Return the admissible velocities [N, 3] nearest to `wanted` [N, 3].

        Args:
            wanted: commands of the policy, m/s.
            distance: of the beams [N, B], m.
            velocity: of the drones [N, 3], m/s.
            obstacles: [N, K, 10], rows of the observation `dynamic_obstacle`; rows of zeros are none. K may be 0.
        """
        xp, towards = self.xp, velocity @ self.directions.T
        gap = distance - self.radius_m - self.margin_m - self.lag_s * towards
        hits = xp.where(distance < self.range_m, self.approach_speed(gap), FAR)
        planes = xp.zeros_like(obstacles[..., :3]), xp.zeros_like(obstacles[..., 0])
        if obstacles.shape[1]:
            planes = self.obstacle_planes(wanted[:, None], velocity[:, None], obstacles)
        return self.project(wanted, hits, *planes)

    def approach_speed(self, gap: Any) -> Any:
        """Return the speed (m/s) towards something with this gap (m), held for `hold_s`, that can still be braked;
        negative, a retreat, within the gap."""
        xp, brake, hold = self.xp, self.brake_mps2, self.hold_s
        speed = brake * (xp.sqrt(hold * hold + 2 / brake * xp.clip(gap, 0, FAR)) - hold)
        return xp.where(gap > 0, speed, xp.clip(gap / hold, -self.max_speed_mps, 0))

    def obstacle_planes(self, wanted: Any, velocity: Any, rows: Any) -> tuple[Any, Any]:
        """Return the half spaces, normals [N, K, 3] and bounds [N, K], of rows of `dynamic_obstacle` [N, K, 10]."""
        xp = self.xp
        across, moves, floats = rows[..., 3], rows[..., 5:8], rows[..., 9]
        length = xp.clip(xp.sqrt(rows[..., 0] ** 2 + rows[..., 1] ** 2), TINY, FAR)
        ux, uy = rows[..., 0] / length, rows[..., 1] / length
        radius, step = xp.zeros_like(across), self.widths_m
        for k, width in enumerate(step):
            radius = xp.where(rows[..., 8] == k, width / 2 + self.radius_m + self.moving_margin_m, radius)
        # where both are when the command takes effect; the drone does not jump over the obstacle
        drift = self.moving_lag_s * (moves - velocity)
        closing = -(drift[..., 0] * ux + drift[..., 1] * uy)
        free = xp.clip(across - radius, 0, FAR)
        share = xp.where(closing > free, free / xp.clip(closing, TINY, FAR), 1.0)
        px, py = ux * across + share * drift[..., 0], uy * across + share * drift[..., 1]
        # the velocity obstacle: a cone with a round end
        wx, wy = (wanted[..., k] - moves[..., k] for k in (0, 1))
        square = px**2 + py**2
        touching = square <= radius**2
        horizon = xp.where(touching, self.hold_s, self.horizon_s)
        ox, oy = wx - px / horizon, wy - py / horizon
        off = xp.clip(xp.sqrt(ox**2 + oy**2), TINY, FAR)
        ahead = ox * px + oy * py
        is_round = touching | ((ahead < 0) & (ahead**2 > (radius * off) ** 2))
        leg = xp.sqrt(xp.clip(square - radius**2, 0, FAR))
        side = xp.where(px * oy - py * ox > 0, 1.0, -1.0)
        square = xp.clip(square, TINY, FAR)
        nx = xp.where(is_round, -ox / off, (px * radius + side * py * leg) / square)
        ny = xp.where(is_round, -oy / off, (py * radius - side * px * leg) / square)
        border = xp.where(is_round, (nx * px + ny * py - radius) / horizon, 0.0)
        bound = border + nx * moves[..., 0] + ny * moves[..., 1]
        # above or below it the vertical speed may be limited instead
        z = rows[..., 4] + drift[..., 2]
        gap = xp.abs(z) - self.box_height_m / 2 - self.radius_m - self.moving_margin_m
        up = xp.sign(z)
        climb = self.approach_speed(gap) + up * moves[..., 2]
        excess = nx * wanted[..., 0] + ny * wanted[..., 1] - bound
        vertical = (floats > 0) & (gap > 0) & (up * wanted[..., 2] - climb < excess)
        normal = xp.stack([xp.where(vertical, 0.0, nx), xp.where(vertical, 0.0, ny), xp.where(vertical, up, 0.0)], -1)
        return normal, xp.where(across > 0, xp.where(vertical, climb, bound), FAR)

    def project(self, wanted: Any, hits: Any, normals: Any, bounds: Any) -> Any:
        """Return the velocities [N, 3] nearest to `wanted` in the half spaces of the beams with bounds `hits` [N, B],
        those of normals [N, K, 3] and bounds [N, K], and the limits of speed. The most violated is taken first.
        """
        xp, v, most = self.xp, wanted.T, self.max_speed_mps  # [3, N]: faster than [N, 3]
        every, directions, planes = xp.arange(len(wanted)), self.directions.T, xp.moveaxis(normals, -1, 0)
        taken: list[list[Any]] = []  # normal [3, N], bound [N], push [N]
        for step in range(STEPS):
            excess = v.T @ directions - hits
            worst = excess.argmax(1)
            normal, bound, over = directions[:, worst], hits[every, worst], excess[every, worst]
            if bounds.shape[1]:
                excess = (planes * v[..., None]).sum(0) - bounds
                worst = excess.argmax(1)
                moving = excess[every, worst] > over
                normal = xp.where(moving, planes[:, every, worst], normal)
                bound = xp.where(moving, bounds[every, worst], bound)
            taken.append([normal, bound, xp.zeros_like(bound)])
            for _ in range(SWEEPS if step < STEPS - 1 else LAST_SWEEPS):
                for plane in taken:
                    normal, bound, push = plane
                    plane[2] = xp.clip(((normal * v).sum(0) - bound + push) / (1 + SOFTNESS), 0, FAR)
                    v = v - (plane[2] - push) * normal
                v = xp.clip(v, -most, most)
        return v.T
