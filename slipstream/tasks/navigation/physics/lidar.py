"""Analytic LiDAR: distances along fixed beams to boxes, the ground, and (optionally) moving boxes and pillars.

`scan_torch` and `scan_movers_torch` are the reference forms, for any device. `sensors_native.py` computes the same on a
CPU in one parallel loop over drones, `sensors_triton.py` on CUDA in one kernel. A slow ray caster in the tests is the
oracle for all three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from slipstream.sim.devices import pick_backend
from slipstream.tasks.navigation.physics.world import WorldGrid

if TYPE_CHECKING:
    from slipstream.tasks.navigation.physics.obstacles import MovingObstacles

MAX_BEAMS = 65_536  # a file from somebody else may ask for any number
FAR_M = 1e4  # beyond the range of any beam


@dataclass
class LidarConfig:
    """The beams: `azimuths` directions, counter-clockwise from the drone's yaw, at each elevation."""

    range_m: float = 4.0
    azimuths: int = 36
    elevations_deg: tuple[float, ...] = (-10.0, 0.0, 10.0, 20.0)
    fov_deg: float = 360.0  # less: the azimuths are spread over this field of view, around the yaw

    def __post_init__(self) -> None:
        if self.range_m <= 0 or self.azimuths < 1 or not self.elevations_deg:
            raise ValueError(f"env.lidar needs a positive range_m and at least one beam, not {self}")
        if self.azimuths * len(self.elevations_deg) > MAX_BEAMS:
            raise ValueError(f"env.lidar has more than {MAX_BEAMS:,} beams: set fewer azimuths or elevations_deg")
        if any(not abs(e) <= 90 for e in self.elevations_deg):
            raise ValueError(f"env.lidar.elevations_deg must be within ±90°, not {self.elevations_deg}")
        if not 0 < self.fov_deg <= 360:
            raise ValueError(f"env.lidar.fov_deg={self.fov_deg:g} must be in (0, 360]")

    @property
    def is_partial(self) -> bool:
        """Whether the beams are others than the kernels for full circles and elevations up to 80° take."""
        return self.fov_deg < 360 or any(abs(e) > 80 for e in self.elevations_deg)

    def directions(self) -> Tensor:
        """Return the beams [azimuths · elevations, 3] as unit vectors; the x axis is the yaw."""
        spread = math.radians(self.fov_deg)
        azimuth = torch.arange(self.azimuths, dtype=torch.float64) * (spread / self.azimuths)
        if self.fov_deg < 360:  # symmetric around the yaw, in the middle of equal shares
            azimuth = azimuth + spread * (0.5 / self.azimuths - 0.5)
        level = torch.deg2rad(torch.tensor(self.elevations_deg, dtype=torch.float64))
        x, y = torch.cos(azimuth)[:, None] * torch.cos(level), torch.sin(azimuth)[:, None] * torch.cos(level)
        return torch.stack((x, y, torch.sin(level).expand_as(x)), -1).flatten(0, 1)


class Scan(NamedTuple):
    """The result of one scan of N drones."""

    distance: Tensor  # [N, azimuths, elevations] m, at most the range
    nearest: Tensor  # [N] m
    mean_log: Tensor  # [N] mean log distance, distances clamped to at least 1e-6 m


class Lidar:
    """Fixed beams over one grid of worlds."""

    def __init__(self, config: LidarConfig, grid: WorldGrid, world_of: Tensor, backend: str = "auto") -> None:
        self.config = config
        self.grid = grid
        self.world_of = world_of  # [N] int64: the world of each drone
        device = world_of.device
        azimuth = torch.arange(config.azimuths, dtype=torch.float64) * (2 * math.pi / config.azimuths)
        self.cos_az = torch.cos(azimuth).float().to(device)
        self.sin_az = torch.sin(azimuth).float().to(device)
        self.tan_el = [math.tan(math.radians(e)) for e in config.elevations_deg]
        self.cos_el = [math.cos(math.radians(e)) for e in config.elevations_deg]
        self.backend = pick_backend(device, backend)
        if self.backend == "native":
            from slipstream.tasks.navigation.physics import sensors_native

            self._native = sensors_native.LidarScan(self)
        elif self.backend == "triton":
            from slipstream.tasks.navigation.physics import sensors_triton

            self._triton = sensors_triton.LidarScan(self)

    def scan(self, pos: Tensor, yaw: Tensor) -> Tensor:
        """Return distances [N, azimuths, elevations] (m) to static obstacles and ground, at most the range."""
        return self.measure(pos, yaw).distance

    def measure(self, pos: Tensor, yaw: Tensor) -> Scan:
        """Return the distances with their minimum and mean log."""
        if self.backend == "native":
            return Scan(*self._native(pos, yaw))
        distance = self._triton(pos, yaw) if self.backend == "triton" else self.scan_torch(pos, yaw)
        return Scan(distance, distance.amin((1, 2)), distance.clamp(min=1e-6).log().mean((1, 2)))

    def scan_torch(self, pos: Tensor, yaw: Tensor) -> Tensor:
        """The reference form of `scan`."""
        near = self.grid.near[self.world_of, self.grid.cell_of(pos)].long()
        boxes = self.grid.boxes[self.world_of[:, None], near]  # [N, C, 5]
        inv_x, inv_y = self._inverse_directions(yaw)
        enter, leave = _slab(boxes[..., 0] - pos[:, None, 0], boxes[..., 2], inv_x)
        enter_y, leave_y = _slab(boxes[..., 1] - pos[:, None, 1], boxes[..., 3], inv_y)
        enter = torch.maximum(enter, enter_y).clamp(min=0)  # [N, C, azimuths], in horizontal meters
        leave = torch.minimum(leave, leave_y)
        below_top = (boxes[..., 4] - pos[:, None, 2])[..., None]  # height of the box's top above the drone
        out = []
        for tan, cos in zip(self.tan_el, self.cos_el, strict=True):
            first = enter
            if tan < 0:  # a beam that enters above the top may still hit it
                first = torch.maximum(enter, below_top / tan)
                hit = first < leave
            else:
                hit = (enter < leave) & (enter * tan <= below_top)
            nearest = torch.where(hit, first, FAR_M).amin(1)
            out.append(self._capped(nearest, pos, tan, cos))
        return torch.stack(out, -1)

    def scan_movers(self, pos: Tensor, yaw: Tensor, movers: MovingObstacles) -> Tensor:
        """Return distances [N, azimuths, elevations] (m) to moving obstacles only, at most the range."""
        if self.backend == "native":
            return self._native.scan_movers(pos, yaw, movers)
        if self.backend == "triton":
            return self._triton.scan_movers(pos, yaw, movers)
        return self.scan_movers_torch(pos, yaw, movers)

    def scan_movers_torch(self, pos: Tensor, yaw: Tensor, movers: MovingObstacles) -> Tensor:
        """The reference form of `scan_movers`."""
        rel = (movers.pos[self.world_of] if len(movers.pos) > 1 else movers.pos) - pos[:, None]  # [N, M, 3]
        inv_x, inv_y = self._inverse_directions(yaw)
        half = movers.width / 2
        box_in, box_out = _slab(rel[..., 0], half, inv_x)
        box_in_y, box_out_y = _slab(rel[..., 1], half, inv_y)
        dir_x, dir_y = 1 / inv_x[:, None], 1 / inv_y[:, None]
        along = rel[..., 0, None] * dir_x + rel[..., 1, None] * dir_y
        off = rel[..., 0, None] * dir_y - rel[..., 1, None] * dir_x
        chord = (half[:, None] ** 2 - off**2).clamp(min=0).sqrt()  # 0 where the beam misses
        round_ = movers.pillar[:, None]
        enter = torch.where(round_, along - chord, torch.maximum(box_in, box_in_y)).clamp(min=0)
        leave = torch.where(round_, along + chord, torch.minimum(box_out, box_out_y))
        low = (rel[..., 2] - movers.height / 2)[..., None]
        high = (rel[..., 2] + movers.height / 2)[..., None]
        out = []
        for tan, cos in zip(self.tan_el, self.cos_el, strict=True):
            if tan == 0:
                first, last = enter, torch.where((low <= 0) & (high >= 0), leave, -1.0)
            else:
                first = torch.maximum(enter, torch.minimum(low / tan, high / tan))
                last = torch.minimum(leave, torch.maximum(low / tan, high / tan))
            nearest = torch.where(first < last, first, FAR_M).amin(1)
            out.append((nearest / cos).clamp(max=self.config.range_m))
        return torch.stack(out, -1)

    def _inverse_directions(self, yaw: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 / x and 1 / y of each beam's horizontal direction, [N, azimuths], limited to 1e6."""
        cos, sin = torch.cos(yaw)[:, None], torch.sin(yaw)[:, None]
        x = cos * self.cos_az - sin * self.sin_az
        y = sin * self.cos_az + cos * self.sin_az
        return 1 / torch.where(x.abs() < 1e-6, 1e-6, x), 1 / torch.where(y.abs() < 1e-6, 1e-6, y)

    def _capped(self, nearest: Tensor, pos: Tensor, tan: float, cos: float) -> Tensor:
        """Convert horizontal distances [N, azimuths] to distances along the beam, limited by ground and range."""
        if tan < 0:
            nearest = torch.minimum(nearest, (pos[:, 2] / -tan).clamp(min=0)[:, None])
        return (nearest / cos).clamp(max=self.config.range_m)


def _slab(rel: Tensor, half: Tensor, inv: Tensor) -> tuple[Tensor, Tensor]:
    """Return where a beam enters and leaves the slab |x − rel| ≤ half, [N, boxes, azimuths]."""
    a, b = (rel - half)[..., None] * inv[:, None], (rel + half)[..., None] * inv[:, None]
    return torch.minimum(a, b), torch.maximum(a, b)
