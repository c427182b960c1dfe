"""A slow, plain ray caster in float64: one ray against one thing at a time, face by face. The oracle for every fast
LiDAR."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Vec = tuple[float, float, float]
INF = math.inf
NUDGE_RAD = 1e-5  # a beam that sees something else after these nudges grazes an edge; float32 may take either side
NUDGE_M = 1e-5
SAME_M = 3e-4


def ray_box(start: Vec, ray: Vec, low: Vec, high: Vec) -> float:
    """The distance to the first of the box's six faces that the ray goes through; 0 from inside."""
    if all(low[a] <= start[a] <= high[a] for a in range(3)):
        return 0.0
    best = INF
    for axis in range(3):
        if ray[axis] == 0.0:
            continue
        for plane in (low[axis], high[axis]):
            t = (plane - start[axis]) / ray[axis]
            if 0 <= t < best and all(low[b] <= start[b] + t * ray[b] <= high[b] for b in range(3) if b != axis):
                best = t
    return best


def ray_cylinder(start: Vec, ray: Vec, center: Vec, radius: float, height: float) -> float:
    """The distance to the side or the caps of an upright cylinder; 0 from inside."""
    x, y = start[0] - center[0], start[1] - center[1]
    low, high = center[2] - height / 2, center[2] + height / 2
    if math.hypot(x, y) <= radius and low <= start[2] <= high:
        return 0.0
    hits = []
    a, b, c = ray[0] ** 2 + ray[1] ** 2, x * ray[0] + y * ray[1], x * x + y * y - radius * radius
    if a > 0 and b * b >= a * c:
        root = math.sqrt(b * b - a * c)
        hits += [t for t in ((-b - root) / a, (-b + root) / a) if t >= 0 and low <= start[2] + t * ray[2] <= high]
    if ray[2] != 0:
        for cap in (low, high):
            t = (cap - start[2]) / ray[2]
            if t >= 0 and math.hypot(x + t * ray[0], y + t * ray[1]) <= radius:
                hits.append(t)
    return min(hits, default=INF)


def ray_ground(start: Vec, ray: Vec) -> float:
    """The distance down to z = 0."""
    return max(-start[2] / ray[2], 0.0) if ray[2] < 0 else INF


def beam(yaw: float, azimuth: int, azimuths: int, elevation_deg: float, turn: float = 0.0, lift: float = 0.0) -> Vec:
    """The unit vector of a beam: azimuths counter-clockwise from the yaw, elevations up."""
    a, e = yaw + 2 * math.pi * azimuth / azimuths + turn, math.radians(elevation_deg) + lift
    return math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)


class StaticThings:
    """Boxes [M, 5] (x, y, half width, half length, height) that stand on the ground, and the ground."""

    def __init__(self, boxes: np.ndarray) -> None:
        self.boxes = [tuple(map(float, box)) for box in boxes]

    def near(self, start: Vec, range_m: float) -> list:
        """Those that a beam of this range could meet, generously."""
        reach = range_m + 1.0
        return [b for b in self.boxes if math.hypot(b[0] - start[0], b[1] - start[1]) - math.hypot(b[2], b[3]) <= reach]

    @staticmethod
    def distance(start: Vec, ray: Vec, things: Sequence) -> float:
        """To the first of them or the ground."""
        best = ray_ground(start, ray)
        for x, y, hx, hy, top in things:
            best = min(best, ray_box(start, ray, (x - hx, y - hy, 0.0), (x + hx, y + hy, top)))
        return best


class MovingThings:
    """Upright boxes and pillars [M, 6] (x, y, z of the center, width, height, 1 for a pillar); no ground."""

    def __init__(self, things: np.ndarray) -> None:
        self.things = [tuple(map(float, thing)) for thing in things]

    def near(self, start: Vec, range_m: float) -> list:
        """All of them."""
        return self.things

    @staticmethod
    def distance(start: Vec, ray: Vec, things: Sequence) -> float:
        """To the first of them."""
        best = INF
        for x, y, z, width, height, pillar in things:
            if pillar:
                best = min(best, ray_cylinder(start, ray, (x, y, z), width / 2, height))
            else:
                w, h = width / 2, height / 2
                best = min(best, ray_box(start, ray, (x - w, y - w, z - h), (x + w, y + w, z + h)))
        return best


def scan(
    things: StaticThings | MovingThings,
    start: Vec,
    yaw: float,
    azimuths: int,
    elevations_deg: Sequence[float],
    range_m: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Distances [azimuths, elevations] from one place, and which beams graze an edge (bool)."""
    truth = np.empty((azimuths, len(elevations_deg)))
    grazes = np.zeros(truth.shape, bool)
    near = things.near(start, range_m)
    x, y, z = start
    for h in range(azimuths):
        for v, elevation in enumerate(elevations_deg):
            truth[h, v] = min(things.distance(start, beam(yaw, h, azimuths, elevation), near), range_m)
            for turn, lift in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                aside = (x + lift * NUDGE_M, y + turn * NUDGE_M, z - lift * NUDGE_M)
                ray = beam(yaw, h, azimuths, elevation, turn * NUDGE_RAD, lift * NUDGE_RAD)
                grazes[h, v] |= abs(min(things.distance(aside, ray, near), range_m) - truth[h, v]) > SAME_M
    return truth, grazes
