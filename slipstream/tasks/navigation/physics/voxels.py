"""Voxel worlds: any geometry as solid cubes, and rays through them.

A Chebyshev distance field lets a ray skip free space: where the field is k, the cube of 2k − 1 voxels around a voxel is
free. A field of 0 is a solid voxel. `cast_torch` and `clearance_torch` are the reference forms for any device;
`voxels_native.py` computes the same on a CPU and `voxels_triton.py` on CUDA.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.config.help import ConfigError
from slipstream.sim.devices import pick_backend

FIELD_CAP = 31  # voxels; a ray takes longer skips nowhere
MAX_VOXELS = 100_000_000  # of one map
MAX_BYTES = 4 << 30  # of the fields of all worlds of an env
UNVERIFIED = "rays through voxels use plain PyTorch on a GPU: env.backend=triton has not been checked on one yet"


class Solid(NamedTuple):
    """Which cubes of a map are solid."""

    voxels: np.ndarray  # [nx, ny, nz] bool
    origin: np.ndarray  # [3] m: the lower corner of the first voxel
    voxel_m: float

    @property
    def size_m(self) -> np.ndarray:
        """The extents [3] in m."""
        return np.array(self.voxels.shape) * self.voxel_m


def grid_of(low: np.ndarray, high: np.ndarray, voxel_m: float, source: str) -> Solid:
    """Return the empty grid that covers `low` to `high` [3], m. Raises ConfigError if it would have too many voxels."""
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    size = np.ceil((high - low) / voxel_m - 1e-6)
    if not (np.isfinite(size).all() and (size >= 1).all()):
        raise ConfigError(f"{source}: it is empty between env.ground_m and env.max_height_m, or not finite: check both")
    if size.prod() > MAX_VOXELS:
        extents = " × ".join(f"{x:,.0f}" for x in high - low)
        many = f"{size.prod():,.0f} voxels of {voxel_m:g} m, and {MAX_VOXELS:,} are the most"
        raise ConfigError(f"{source}: {extents} m are {many}: crop it, or set a larger env.voxel_m")
    return Solid(np.zeros(tuple(size.astype(int)), bool), low, voxel_m)


def fill_boxes(solid: Solid, boxes: np.ndarray) -> None:
    """Mark the voxels that overlap boxes [M, 7]: center x, y, bottom z, half length, half width, height (m), yaw."""
    v, shape = solid.voxel_m, np.array(solid.voxels.shape)
    half, touch = v / 2, 1e-4  # a face that only touches a voxel does not fill it; float32 has errors of 1e-6
    for x, y, z, long, wide, tall, yaw in np.asarray(boxes, np.float64):
        cos, sin = abs(math.cos(yaw)), abs(math.sin(yaw))
        reach = np.array((long * cos + wide * sin, long * sin + wide * cos))
        low = (np.array((x - reach[0], y - reach[1], z)) + touch - solid.origin) / v
        high = (np.array((x + reach[0], y + reach[1], z + tall)) - touch - solid.origin) / v
        first, end = np.clip(np.floor(low), 0, shape).astype(int), np.clip(np.ceil(high), 0, shape).astype(int)
        if (first >= end).any():
            continue
        here = np.meshgrid(*(np.arange(a, b) for a, b in zip(first[:2], end[:2], strict=True)), indexing="ij")
        dx, dy = ((h + 0.5) * v + o - c for h, o, c in zip(here, solid.origin, (x, y), strict=False))
        grown = half * (cos + sin) - touch  # of a voxel, along the axes of the box
        along, across = math.cos(yaw) * dx + math.sin(yaw) * dy, math.cos(yaw) * dy - math.sin(yaw) * dx
        overlaps = (np.abs(along) < long + grown) & (np.abs(across) < wide + grown)
        solid.voxels[first[0] : end[0], first[1] : end[1], first[2] : end[2]] |= overlaps[..., None]


def distance_field(voxels: np.ndarray) -> np.ndarray:
    """Return the Chebyshev distance [nx, ny, nz] uint8 of each voxel to the nearest solid one, at most FIELD_CAP."""
    field, grown = np.zeros(voxels.shape, np.uint8), voxels.copy()
    for _ in range(FIELD_CAP):
        field += ~grown
        if grown.all():
            break
        for axis in range(3):
            cells = np.moveaxis(grown, axis, 0)
            before = cells[:-1].copy()
            cells[:-1] |= cells[1:]
            cells[1:] |= before
    return field


def merge_boxes(solid: Solid) -> np.ndarray:
    """Return the solid voxels as few boxes [M, 6]: center x, y, half length, half width, top, bottom (m).

    Runs along z are merged along y, and those along x. No two boxes overlap.
    """
    filled = np.pad(solid.voxels, ((0, 0), (0, 0), (1, 1))).astype(np.int8)
    edges = np.diff(filled, axis=2)
    x, y, bottom = np.nonzero(edges == 1)
    top = np.nonzero(edges == -1)[2]
    runs = np.stack((x, x + 1, y, y + 1, bottom, top), -1)
    for axis in (1, 0) if len(runs) else ():
        first, last = 2 * axis, 2 * axis + 1
        same = [c for c in range(6) if c not in (first, last)]
        runs = runs[np.lexsort((runs[:, first], *(runs[:, c] for c in same)))]
        joins = (runs[1:, same] == runs[:-1, same]).all(1) & (runs[1:, first] == runs[:-1, last])
        starts = np.flatnonzero(np.concatenate(([True], ~joins)))
        ends = np.append(starts[1:], len(runs)) - 1
        merged = runs[starts].copy()
        merged[:, last] = runs[ends, last]
        runs = merged
    low = runs[:, 0::2] * solid.voxel_m + solid.origin
    high = runs[:, 1::2] * solid.voxel_m + solid.origin
    middle, half = (low + high) / 2, (high - low) / 2
    return np.concatenate((middle[:, :2], half[:, :2], high[:, 2:], low[:, 2:]), 1).astype(np.float32)


@dataclass
class VoxelWorld:
    """K voxel worlds on one device, with their distance fields one behind the other."""

    solids: list[Solid]
    field: Tensor  # [voxels of all] uint8
    offset: Tensor  # [K] int64, of each world's field
    shape: Tensor  # [K, 3] int64
    origin: Tensor  # [K, 3] float64, m
    voxel_m: float
    backend: str

    @classmethod
    def build(cls, solids: list[Solid], device: torch.device | str = "cpu", backend: str = "auto") -> VoxelWorld:
        """Build the fields of the worlds; equal ones (the same file) are computed and kept once."""
        device = torch.device(device)
        distinct = {id(solid): solid for solid in solids}
        if (total := sum(solid.voxels.size for solid in distinct.values())) > MAX_BYTES:
            many = f"{len(distinct)} worlds of {total / len(distinct):,.0f} voxels take {total / 2**30:.1f} GB"
            raise ConfigError(f"{many}: set a larger env.voxel_m, or a smaller env.num_worlds")
        fields, start, at = [], 0, {}
        for key, solid in distinct.items():
            fields.append(torch.from_numpy(distance_field(solid.voxels)).flatten())
            at[key], start = start, start + solid.voxels.size
        offset = torch.tensor([at[id(solid)] for solid in solids])
        shape = torch.tensor([solid.voxels.shape for solid in solids])
        origin = torch.from_numpy(np.stack([solid.origin for solid in solids]).astype(np.float64))
        picked = pick_backend(device, backend)
        if picked == "triton" and backend == "auto":
            picked = "torch"
            warnings.warn(UNVERIFIED, stacklevel=3)
        place = [x.to(device) for x in (torch.cat(fields), offset, shape, origin)]
        return cls(solids, place[0], place[1], place[2], place[3], solids[0].voxel_m, picked)

    def boxes_of_world(self, k: int) -> np.ndarray:
        """Return the solid voxels of world k as boxes [M, 6] (x, y, half length, half width, top, bottom)."""
        return merge_boxes(self.solids[k])

    def cast(self, pos: Tensor, rotation: Tensor, table: Tensor, world_of: Tensor, range_m: float) -> Tensor:
        """Return the distances along rays to solid voxels and the ground, at most `range_m`.

        Args:
            pos: [N, 3] m, where the rays start.
            rotation: [N, 3, 3] of the sensor in the world.
            table: [R, 3] unit vectors in the sensor's frame.
            world_of: [N] int64.
            range_m: of each ray.

        Returns:
            [N, R] m.
        """
        pos = torch.nan_to_num(pos, 1e4, 1e4, -1e4)
        if self.backend == "native":
            from slipstream.tasks.navigation.physics import voxels_native

            return voxels_native.cast(self, pos, rotation, table, world_of, range_m)
        if self.backend == "triton":
            from slipstream.tasks.navigation.physics import voxels_triton

            return voxels_triton.cast(self, pos, rotation, table, world_of, range_m)
        return self.cast_torch(pos, rotation, table, world_of, range_m)

    def rounds(self, range_m: float) -> int:
        """The most skips that a ray of this range can take: each crosses a face of a voxel."""
        return 3 * math.ceil(range_m / self.voxel_m) + 4

    def cast_torch(self, pos: Tensor, rotation: Tensor, table: Tensor, world_of: Tensor, range_m: float) -> Tensor:
        """The reference form of `cast`."""
        rays = torch.einsum("nij,rj->nri", rotation, table)  # [N, R, 3]
        far = ray_limit(pos, rays[..., 2], range_m) / self.voxel_m
        # in voxels, relative to the drone's voxel: rounding does not grow with the map, and grazing rays stay exact
        place = (pos.double() - self.origin[world_of]) / self.voxel_m
        corner = place.floor()
        start = (place - corner).float()[:, None]
        low = (-corner).float()[:, None]
        high = (self.shape[world_of] - 1 - corner).float()[:, None]
        inverse = 1 / torch.where(rays.abs() < 1e-12, 1e-12, rays)
        ahead = (rays >= 0).float()
        sign = 2 * ahead - 1
        one_side, other_side = (low - start) * inverse, (high + 1 - start) * inverse
        enter = torch.minimum(one_side, other_side).amax(-1).clamp(min=0)
        leave = torch.minimum(torch.maximum(one_side, other_side).amin(-1), far)
        inside = enter < leave
        cell = torch.minimum(torch.maximum((start + rays * enter[..., None]).floor(), low), high)
        first = self.offset[world_of] + self._index(corner.long(), world_of)
        free = torch.zeros_like(enter)
        for _ in range(self.rounds(range_m)):
            free = self._field_at(first[:, None] + self._index(cell.long(), world_of[:, None]), inside)
            margin = (free - 1).clamp(min=0)[..., None]
            exits = (cell + ahead + sign * margin - start) * inverse
            at, axis = exits.min(-1)
            moves = inside & (free > 0) & (at < leave)
            if pos.device.type == "cpu" and not bool(moves.any()):
                break
            there = (start + rays * at[..., None]).floor()
            there = torch.minimum(torch.maximum(there, cell - margin), cell + margin)
            through = torch.nn.functional.one_hot(axis, 3).bool()
            there = torch.where(through, cell + sign * free[..., None], there)
            there = torch.minimum(torch.maximum(there, low), high)
            cell = torch.where(moves[..., None], there, cell)
        hit = ((cell + 1 - ahead - start) * inverse).amax(-1).clamp(min=0)
        return torch.where(inside & (free == 0), torch.minimum(hit, far), far) * self.voxel_m

    def _index(self, cell: Tensor, world_of: Tensor) -> Tensor:
        """Return the place of voxels [..., 3] in the field of their world."""
        size = self.shape[world_of]
        return (cell[..., 0] * size[..., 1] + cell[..., 1]) * size[..., 2] + cell[..., 2]

    def _field_at(self, index: Tensor, there: Tensor) -> Tensor:
        return self.field[torch.where(there, index, 0)].float()

    def clearance(self, pos: Tensor, world_of: Tensor, reach_m: float) -> Tensor:
        """Return the distance [N] (m) of points [N, 3] to the nearest solid voxel, at most `reach_m`."""
        pos = torch.nan_to_num(pos, 1e4, 1e4, -1e4)
        if self.backend == "native":
            from slipstream.tasks.navigation.physics import voxels_native

            return voxels_native.clearance(self, pos, world_of, reach_m)
        return self.clearance_torch(pos, world_of, reach_m)

    def clearance_torch(self, pos: Tensor, world_of: Tensor, reach_m: float) -> Tensor:
        """The reference form of `clearance`."""
        reach = math.ceil(reach_m / self.voxel_m)
        steps = torch.arange(-reach, reach + 1, device=pos.device)
        around = torch.cartesian_prod(steps, steps, steps)
        place = (pos.double() - self.origin[world_of]) / self.voxel_m
        corner = place.floor()
        inside = (place - corner).float()[:, None]  # in its voxel, 0 to 1
        cell = corner.long()[:, None] + around  # [N, C, 3]
        there = ((cell >= 0) & (cell < self.shape[world_of][:, None])).all(-1)
        index = self.offset[world_of][:, None] + self._index(cell, world_of[:, None])
        solid = there & (self._field_at(index, there) == 0)
        gap = torch.maximum(around - inside, inside - around - 1).clamp(min=0)
        distance = torch.linalg.vector_norm(gap, dim=-1) * self.voxel_m
        return torch.where(solid, distance, reach_m).amin(1).clamp(max=reach_m)


def ray_limit(pos: Tensor, down: Tensor, range_m: float) -> Tensor:
    """Return how far rays with vertical components `down` [N, R] reach from `pos` [N, 3]: to ground or range."""
    ground = pos[:, 2:].clamp(min=0) / -down.clamp(max=-1e-6)
    return torch.where(down < 0, ground, range_m).clamp(max=range_m)
