"""From sensor messages to the observations of the training: the same beams, order, frame and columns.

The env's LiDAR is level and turns with the yaw, which the drones hold towards their goal: beam (h, v) looks
360°/azimuths · h counter-clockwise from the yaw. A drone that does not hold it, within 30°, gets the beams of the line
start → goal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from slipstream.deploy.messages import rotation
from slipstream.deploy.shield import Shield

OBSTACLE_COLUMNS = 10
YAW_HELD = np.cos(np.radians(30))


@dataclass(frozen=True)
class Deployment:
    """What the ONNX file says of its sensors and limits (`deploy` in its metadata)."""

    decision_s: float
    range_m: float
    azimuths: int
    elevations_deg: tuple[float, ...]
    lidar_sees_moving: bool
    observe_moving: bool
    nearest: int  # moving obstacles observed
    widths_m: tuple[float, ...]  # of their classes
    heights_m: tuple[float, float]  # of a floating box and of a pillar
    max_speed_mps: float
    radius_m: float
    goal_radius_m: float
    height_limits_m: tuple[float, float]
    velocity_lag_s: float  # of the drone: a step of the command is followed with this time constant
    fov_deg: float = 360.0  # less: the azimuths are spread over this field of view, around the yaw
    camera_range_m: float = 0.0
    actions: tuple[tuple[float, ...], ...] | None = None  # [3] each, of a discrete policy, m/s

    @classmethod
    def read(cls, text: str) -> Deployment:
        """Read the JSON of a file that is not trusted. Raises ValueError if a fact is missing or impossible."""
        try:
            facts: dict[str, Any] = json.loads(text)
            found = cls(**{f.name: facts[f.name] for f in fields(cls) if f.name in facts})
            (h0, h1), (z0, z1), actions = found.heights_m, found.height_limits_m, np.ravel(found.actions or ())
            sizes = [found.decision_s, found.range_m, found.azimuths, found.max_speed_mps, found.radius_m]
            sizes += [found.nearest, found.goal_radius_m, len(found.widths_m), found.fov_deg, len(found.elevations_deg)]
            more = [h0, h1, z0, z1, found.velocity_lag_s, found.camera_range_m, *found.widths_m, *found.elevations_deg]
            fits = np.isfinite(np.array([*sizes, *more, *actions])).all() and min(sizes) > 0 and found.decision_s <= 10
            fits &= found.azimuths * len(found.elevations_deg) <= 65_536 and found.nearest <= 1000
            fits &= type(found.azimuths) is type(found.nearest) is int
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the file's facts for deployment cannot be read: {error}") from None
        if not fits:
            raise ValueError("the file's facts for deployment are impossible: export the policy again")
        return found

    @property
    def _azimuth(self) -> tuple[float, float]:
        """That of the first beam, and the spacing, rad; a part of a circle is symmetric around the yaw."""
        step = np.radians(self.fov_deg) / self.azimuths
        return (0.0 if self.fov_deg == 360 else step * (1 - self.azimuths) / 2), step

    def shield(self) -> Shield:
        """Return the safety shield for these sensors."""
        first, step = self._azimuth
        azimuth, level = first + step * np.arange(self.azimuths), np.radians(self.elevations_deg)
        x, y = (np.multiply.outer(f(azimuth), np.cos(level)) for f in (np.cos, np.sin))
        directions = np.stack((x, y, np.broadcast_to(np.sin(level), x.shape)), -1).reshape(-1, 3)
        lag_s, hold_s = (self.velocity_lag_s + self.decision_s) / 2, max(0.1, self.decision_s)
        sizes = self.range_m, self.widths_m, self.heights_m[0], self.max_speed_mps, self.radius_m
        return Shield(directions, *sizes, lag_s=lag_s, moving_lag_s=self.velocity_lag_s, hold_s=hold_s)

    def lidar(self, points: np.ndarray) -> np.ndarray:
        """Return the observation `lidar` [1, azimuths, elevations]: range minus distance of each beam.

        Args:
            points: hits [K, 3] m in a level frame whose x axis is beam 0. A beam measures the nearest of the
                hits that are closer to it in angle than to other beams. Hits more than half a spacing beside all beams
                are left out.
        """
        image = np.full((self.azimuths, len(self.elevations_deg)), self.range_m)
        points = points[np.isfinite(points).all(1)].astype(float)
        distance = np.linalg.norm(points, axis=1)
        points, distance = points[distance > 0], distance[distance > 0]
        first, step = self._azimuth
        column = (np.arctan2(points[:, 1], points[:, 0]) - first + step / 2) % (2 * np.pi) // step
        elevation = np.degrees(np.arcsin(np.clip(points[:, 2] / distance, -1, 1)))
        beams = np.array(self.elevations_deg, float)
        row = np.abs(elevation[:, None] - beams).argmin(1)
        half = np.diff(np.sort(beams)).min() / 2 if len(beams) > 1 else 5.0
        seen = (np.abs(elevation - beams[row]) <= half) & (column < self.azimuths)
        np.minimum.at(image, (column[seen].astype(int), row[seen]), distance[seen])
        return (self.range_m - image[None]).astype(np.float32)

    def camera(self, depth: np.ndarray, dtype: Any) -> np.ndarray:
        """Return the observation `camera` of `Depth`: 0 where nothing is in range, the highest value at the lens."""
        near = np.where(depth > 0, np.clip(1 - depth / self.camera_range_m, 0, 1), np.isneginf(depth))
        return (near * 255 + 0.5).astype(dtype) if dtype == np.uint8 else near.astype(dtype)

    def dynamic_obstacle(self, rows: np.ndarray, position: np.ndarray, to_goal: np.ndarray) -> np.ndarray:
        """Return the observation `dynamic_obstacle` [1, nearest, 10].

        Args:
            rows: of `Obstacles`, [K, 8], ENU.
            position: of the drone [3] m, ENU.
            to_goal: rotation [3, 3] from ENU to the goal frame.
        """
        found = np.zeros((1, self.nearest, OBSTACLE_COLUMNS), np.float32)
        relative = rows[:, :3] - position
        across = np.hypot(relative[:, 0], relative[:, 1])
        order = np.argsort(across, kind="stable")[: self.nearest]
        for k, i in enumerate(order[across[order] <= self.range_m]):
            floats = abs(rows[i, 7] - self.heights_m[0]) < abs(rows[i, 7] - self.heights_m[1])
            place = to_goal @ relative[i] * (1, 1, floats)  # a pillar counts as 2-D
            unit = place / max(float(np.linalg.norm(place)), 1e-6)
            width_class = np.abs(np.array(self.widths_m) - rows[i, 6]).argmin()
            found[0, k] = *unit, across[i], place[2], *(to_goal @ rows[i, 3:6]), width_class, floats
        return found


def turned_to_yaw(points: np.ndarray, attitude: np.ndarray, to_goal: np.ndarray) -> np.ndarray:
    """Turn points of the goal frame into the level frame of the drone's yaw, if it holds its yaw towards the goal."""
    x, y, _ = to_goal @ rotation(attitude)[:, 0]
    length = float(np.hypot(x, y))
    if x < YAW_HELD * length or length < 1e-6:
        return points
    c, s = x / length, y / length
    return points @ np.array(((c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)))


def without_tracked(points: np.ndarray, obstacles: np.ndarray, margin_m: float = 0.2) -> np.ndarray:
    """Leave out the hits on tracked obstacles, for a policy whose LiDAR did not see them in training.

    Args:
        points: [K, 3] m, relative to the drone, in any level frame.
        obstacles: [M, 5] in the same frame: x, y, z of the center, width, height.
    """
    for x, y, z, width, height in obstacles:
        beside = np.abs(points[:, :2] - (x, y)).max(1) > width / 2 + margin_m
        points = points[beside | (np.abs(points[:, 2] - z) > height / 2 + margin_m)]
    return points


def scan_points(ranges: np.ndarray, first: float, step: float, low: float, high: float) -> np.ndarray:
    """Return the hits [K, 3] of a planar laser scan: `ranges` (m) from the angle `first` on, every `step` rad.

    As REP 117 says, inf and ranges outside of [low, high] are no hits; −inf is one that is too close to measure.
    Raises ValueError if every range is NaN: that is a broken sensor.
    """
    ranges = np.asarray(ranges, float)
    if len(ranges) and np.isnan(ranges).all():
        raise ValueError("all ranges are NaN")
    ranges = np.where(np.isneginf(ranges), max(low, 0.01), ranges)
    angle = first + step * np.arange(len(ranges))
    hit = (ranges >= low) & (ranges <= high) & (ranges > 0)
    return np.stack((np.cos(angle), np.sin(angle), np.zeros_like(angle)), -1)[hit] * ranges[hit, None]
