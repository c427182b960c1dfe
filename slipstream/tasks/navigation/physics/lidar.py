"""LiDAR among boxes or voxels, and rays of any sensor to upright boxes and cylinders.

`Lidar.scan_torch` and `Things.cast_torch` are the reference forms, for any device. `sensors_native.py` computes the
same on a CPU in one parallel loop over drones, `sensors_triton.py` on CUDA in one kernel. A slow ray caster in the
tests is the oracle for all three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from slipstream.config.validation import check_range
from slipstream.sim.devices import pick_backend
from slipstream.tasks.navigation.physics.voxels import VoxelWorld
from slipstream.tasks.navigation.physics.world import WorldGrid

if TYPE_CHECKING:
    from slipstream.tasks.navigation.physics.obstacles import MovingObstacles

MAX_BEAMS = 65_536  # a file from somebody else may ask for any number
FAR_M = 1e4  # beyond the range of any beam
REACH_M = 0.1  # beyond the body's radius: how far the distance to voxels is computed
TILES = {"native": (6, 8), "torch": (6, 8), "triton": (16, 16)}  # rows and columns of an image that go together


@dataclass
class Rays:
    """The directions of a sensor, in tiles of neighbors."""

    table: Tensor  # [R, 3] unit vectors in the sensor's frame
    planes: Tensor  # [tiles + 1, P, 3] outward normals of the P = 4 or 0 planes around a tile, at the end around all
    tile: int  # rays per tile; fewer in the last one

    @classmethod
    def build(cls, table: Tensor, backend: str, device: torch.device | str = "cpu") -> Rays:
        """Find the planes around each tile of a pattern on the CPU; one that looks backwards too has none."""
        rows, columns = TILES[backend]
        tiles = [*table.double().split(rows * columns), table.double()]
        if bool((table[:, 0] > 0.01).all()):
            planes = torch.stack([torch.stack(_planes(tile)) for tile in tiles]).float()
        else:
            planes = torch.zeros(len(tiles), 0, 3)
        return cls(table.float().to(device), planes.to(device), rows * columns)


def _planes(tile: Tensor) -> list[Tensor]:
    """Return the outward normals of the planes left, right, above and below rays [R, 3], all of which look ahead."""
    planes = []
    for axis in (1, 2):
        slope = tile[:, axis] / tile[:, 0]
        for sign, limit in ((1.0, slope.max()), (-1.0, slope.min())):
            normal = torch.zeros_like(tile[0])
            normal[0], normal[axis] = -sign * limit, sign
            planes.append(normal)
    return planes


@dataclass
class Things:
    """M upright boxes and cylinders in each of K spaces."""

    table: Tensor  # [K, M, 7] float32: center, half sides (m), 1 for a cylinder
    backend: str

    @classmethod
    def standing(cls, grid: WorldGrid, backend: str) -> Things:
        """Return the boxes of the worlds, and the ground as another one."""
        x, y, half_x, half_y, top = grid.boxes.unbind(-1)
        boxes = torch.stack((x, y, top / 2, half_x, half_y, top / 2, 0 * x), -1)
        ground = torch.tensor((0.0, 0.0, -1.0, FAR_M, FAR_M, 1.0, 0.0), device=x.device)
        return cls(torch.cat((boxes, ground.expand(len(boxes), 1, -1)), 1), backend)

    @classmethod
    def moving(cls, movers: MovingObstacles, backend: str) -> Things:
        """Return the moving obstacles, where they are now."""
        half = torch.stack((movers.width / 2, movers.width / 2, movers.height / 2, movers.pillar.float()), -1)
        return cls(torch.cat((movers.pos, half.expand(len(movers.pos), -1, -1)), -1), backend)

    def cast(
        self, pos: Tensor, rotation: Tensor, rays: Rays, space_of: Tensor, range_m: float, own: Tensor | None = None
    ) -> Tensor:
        """Return the distances [N, R] (m) along rays to the things, at most `range_m`.

        Args:
            pos: [N, 3] m, where the rays start.
            rotation: [N, 3, 3] of the sensor in the world.
            rays: of the sensor.
            space_of: [N] int64.
            range_m: of each ray.
            own: [N] int64, the thing in its space that a drone is itself.
        """
        pos = torch.nan_to_num(pos, 1e4, 1e4, -1e4)
        own = torch.full_like(space_of, -1) if own is None else own
        if self.backend == "native":
            from slipstream.tasks.navigation.physics import sensors_native

            return sensors_native.cast(self.table, pos, rotation, rays, space_of, range_m, own)
        if self.backend == "triton":
            from slipstream.tasks.navigation.physics import sensors_triton

            return sensors_triton.cast(self.table, pos, rotation, rays, space_of, range_m, own)
        return self.cast_torch(pos, rotation, rays, space_of, range_m, own)

    def cast_torch(
        self, pos: Tensor, rotation: Tensor, rays: Rays, space_of: Tensor, range_m: float, own: Tensor
    ) -> Tensor:
        """The reference form of `cast`."""
        vectors = torch.einsum("nij,rj->nri", rotation, rays.table)
        best = torch.full(vectors.shape[:2], range_m, device=pos.device)
        inverse = 1 / torch.where(vectors.abs() < 1e-9, 1e-9, vectors)
        flat = (vectors[..., :2] ** 2).sum(-1).clamp(min=1e-12)
        for m in range(self.table.shape[1]):  # one after another: all at once would need M times the memory
            thing = self.table[space_of, m]  # [N, 7]
            rel, half = thing[:, :3] - pos, thing[:, 3:6]
            one, other = (rel - half)[:, None] * inverse, (rel + half)[:, None] * inverse
            enter, leave = torch.minimum(one, other), torch.maximum(one, other)
            along = (vectors[..., :2] * rel[:, None, :2]).sum(-1) / flat
            apart = (rel[:, :2] ** 2).sum(-1)[:, None] - along**2 * flat
            chord = ((half[:, :1] ** 2 - apart).clamp(min=0) / flat).sqrt()
            is_round = thing[:, 6:] > 0
            across_in = torch.where(is_round, along - chord, enter[..., :2].amax(-1))
            across_out = torch.where(is_round, along + chord, leave[..., :2].amin(-1))
            first = torch.maximum(across_in, enter[..., 2]).clamp(min=0)
            last = torch.minimum(across_out, leave[..., 2])
            hit = (first < last) & (own != m)[:, None]
            best = torch.where(hit, torch.minimum(best, first), best)
        return best


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
        check_range(self, "fov_deg", above=0, maximum=360, section="env.lidar.")

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


class Beams:
    """The beams of N level sensors."""

    def __init__(self, config: LidarConfig, world_of: Tensor, backend: str) -> None:
        self.config, self.backend = config, backend
        self.world_of = world_of  # [N] int64: the world of each drone
        self.rays = Rays.build(config.directions(), backend, world_of.device)
        self._shape = (config.azimuths, len(config.elevations_deg))

    def scan(self, pos: Tensor, yaw: Tensor) -> Tensor:
        """Return distances [N, azimuths, elevations] (m) to static obstacles and ground, at most the range."""
        return self.measure(pos, yaw).distance

    def measure(self, pos: Tensor, yaw: Tensor) -> Scan:
        """Return the distances with their minimum and mean log."""
        raise NotImplementedError

    def scan_movers(self, pos: Tensor, yaw: Tensor, movers: MovingObstacles) -> Tensor:
        """Return distances [N, azimuths, elevations] (m) to moving obstacles only, at most the range."""
        things = Things.moving(movers, self.backend)
        distance = things.cast(pos, level_rotation(yaw), self.rays, self.world_of, self.config.range_m)
        return distance.view(-1, *self._shape)


def level_rotation(yaw: Tensor) -> Tensor:
    """Return the rotation [N, 3, 3] of a level sensor that faces `yaw` [N]."""
    cos, sin, zero = torch.cos(yaw), torch.sin(yaw), torch.zeros_like(yaw)
    return torch.stack((cos, -sin, zero, sin, cos, zero, zero, zero, zero + 1), -1).unflatten(-1, (3, 3))


class VoxelLidar(Beams):
    """Beams among voxels. `Scan.nearest` is the exact distance to a voxel near the body: beams miss overhangs."""

    def __init__(self, config: LidarConfig, world: VoxelWorld, world_of: Tensor, body_radius_m: float) -> None:
        super().__init__(config, world_of, world.backend)
        self.world, self.body_radius_m = world, body_radius_m

    def measure(self, pos: Tensor, yaw: Tensor) -> Scan:
        """Return the distances with their mean log, and the exact distance to a voxel."""
        distance = self.world.cast(pos, level_rotation(yaw), self.rays.table, self.world_of, self.config.range_m)
        nearest = self.world.clearance(pos, self.world_of, self.body_radius_m + REACH_M)
        return Scan(distance.view(-1, *self._shape), nearest, distance.clamp(min=1e-6).log().mean(1))


class Lidar(Beams):
    """Beams over one grid of worlds."""

    def __init__(self, config: LidarConfig, grid: WorldGrid, world_of: Tensor, backend: str = "auto") -> None:
        device = world_of.device
        super().__init__(config, world_of, pick_backend(device, backend))
        self.grid = grid
        azimuth = torch.arange(config.azimuths, dtype=torch.float64) * (2 * math.pi / config.azimuths)
        self.cos_az = torch.cos(azimuth).float().to(device)
        self.sin_az = torch.sin(azimuth).float().to(device)
        self.tan_el = [math.tan(math.radians(e)) for e in config.elevations_deg]
        self.cos_el = [math.cos(math.radians(e)) for e in config.elevations_deg]
        if self.backend == "native":
            from slipstream.tasks.navigation.physics import sensors_native

            self._native = sensors_native.LidarScan(self)
        elif self.backend == "triton":
            from slipstream.tasks.navigation.physics import sensors_triton

            self._triton = sensors_triton.LidarScan(self)

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
