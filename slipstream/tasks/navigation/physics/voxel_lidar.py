"""LiDAR with any beams among voxels, and rays to moving things: what has no closed form for a whole fan of beams."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.tasks.navigation.physics.lidar import LidarConfig, Scan
from slipstream.tasks.navigation.physics.obstacles import MovingObstacles
from slipstream.tasks.navigation.physics.voxels import VoxelWorld

REACH_M = 0.1  # beyond the body's radius: how far the distance to voxels is computed


class VoxelLidar:
    """Fixed beams among voxels. `Scan.nearest` is the exact distance to a voxel near the body: beams miss overhangs."""

    def __init__(self, config: LidarConfig, world: VoxelWorld, world_of: Tensor, body_radius_m: float) -> None:
        self.config, self.world, self.world_of, self.body_radius_m = config, world, world_of, body_radius_m
        self.backend = world.backend
        self.table = config.directions().float().to(world_of.device)
        self._shape = (config.azimuths, len(config.elevations_deg))

    def scan(self, pos: Tensor, yaw: Tensor) -> Tensor:
        """Return distances [N, azimuths, elevations] (m) to voxels and ground, at most the range."""
        return self.measure(pos, yaw).distance

    def measure(self, pos: Tensor, yaw: Tensor) -> Scan:
        """Return the distances with their mean log, and the exact distance to a voxel."""
        distance = self.world.cast(pos, level_rotation(yaw), self.table, self.world_of, self.config.range_m)
        nearest = self.world.clearance(pos, self.world_of, self.body_radius_m + REACH_M)
        return Scan(distance.view(-1, *self._shape), nearest, distance.clamp(min=1e-6).log().mean(1))

    def scan_movers(self, pos: Tensor, yaw: Tensor, movers: MovingObstacles) -> Tensor:
        """Return distances [N, azimuths, elevations] (m) to moving obstacles only, at most the range."""
        distance = cast_movers(pos, level_rotation(yaw), self.table, self.world_of, movers, self.config.range_m)
        return distance.view(-1, *self._shape)


def level_rotation(yaw: Tensor) -> Tensor:
    """Return the rotation [N, 3, 3] of a level sensor that faces `yaw` [N]."""
    cos, sin, zero = torch.cos(yaw), torch.sin(yaw), torch.zeros_like(yaw)
    return torch.stack((cos, -sin, zero, sin, cos, zero, zero, zero, zero + 1), -1).unflatten(-1, (3, 3))


def cast_movers(
    pos: Tensor, rotation: Tensor, table: Tensor, world_of: Tensor, movers: MovingObstacles, range_m: float
) -> Tensor:
    """Return the distances [N, R] along rays to upright boxes and cylinders, at most `range_m`.

    Args:
        pos: [N, 3] m, where the rays start.
        rotation: [N, 3, 3] of the sensor in the world.
        table: [R, 3] unit vectors in the sensor's frame.
        world_of: [N] the world of each drone.
        movers: what the rays may hit.
        range_m: of each ray.
    """
    rays = torch.einsum("nij,rj->nri", rotation, table)
    best = torch.full(rays.shape[:2], range_m, device=pos.device)
    inverse = 1 / torch.where(rays.abs() < 1e-9, 1e-9, rays)
    flat = (rays[..., :2] ** 2).sum(-1).clamp(min=1e-12)
    for m in range(movers.count):  # one after another: all at once would need M times the memory
        rel = movers.pos[world_of, m] - pos  # [N, 3]
        half = torch.stack((movers.width[m], movers.width[m], movers.height[m])) / 2
        one, other = (rel - half)[:, None] * inverse, (rel + half)[:, None] * inverse
        enter, leave = torch.minimum(one, other), torch.maximum(one, other)
        along = (rays[..., :2] * rel[:, None, :2]).sum(-1) / flat
        apart = (rel[:, :2] ** 2).sum(-1)[:, None] - along**2 * flat
        chord = ((half[0] ** 2 - apart).clamp(min=0) / flat).sqrt()
        pillar = movers.pillar[m]
        across_in = torch.where(pillar, along - chord, enter[..., :2].amax(-1))
        across_out = torch.where(pillar, along + chord, leave[..., :2].amin(-1))
        first = torch.maximum(across_in, enter[..., 2]).clamp(min=0)
        last = torch.minimum(across_out, leave[..., 2])
        best = torch.where(first < last, torch.minimum(best, first), best)
    return best
