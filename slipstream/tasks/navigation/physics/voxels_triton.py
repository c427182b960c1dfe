"""Rays through voxels as a Triton kernel: one lane per ray.

Not yet run on a GPU: `env.backend=auto` takes the PyTorch form there until tests/navigation/test_voxels.py passed on
one (its test on CUDA compares both). It computes what `VoxelWorld.cast_torch` computes, to float32 rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from slipstream.tasks.navigation.physics.voxels import VoxelWorld


@triton.jit
def _component(rotation, table, drone, ray, row, live):
    """One component of a ray's unit vector in the world."""
    at = rotation + drone * 9 + row * 3
    x, y, z = tl.load(table + ray * 3), tl.load(table + ray * 3 + 1), tl.load(table + ray * 3 + 2)
    return tl.load(at, live, 0.0) * x + tl.load(at + 1, live, 0.0) * y + tl.load(at + 2, live, 0.0) * z


@triton.jit
def _start(pos, origin, voxel_m, drone, world, axis, live):
    """The corner of a drone's voxel, and the place in it, along one axis."""
    here = tl.load(pos + drone * 3 + axis, live, 0.0).to(tl.float64)
    place = (here - tl.load(origin + world * 3 + axis, live, 0.0)) / voxel_m
    corner = tl.floor(place)
    return corner, (place - corner).to(tl.float32)


@triton.jit
def _inverse(d):
    return 1.0 / tl.where(tl.abs(d) < 1e-12, 1e-12, d)


@triton.jit
def _clamped(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)


@triton.jit
def _cast(
    field, offset, shape, origin, voxel_m, world_of, pos, rotation, table, out, lanes, range_m, rounds,
    RAYS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = lane < lanes
    drone, ray = lane // RAYS, lane % RAYS
    world = tl.load(world_of + drone, live, 0)
    nx = tl.load(shape + world * 3, live, 1)
    ny = tl.load(shape + world * 3 + 1, live, 1)
    nz = tl.load(shape + world * 3 + 2, live, 1)
    dx = _component(rotation, table, drone, ray, 0, live)
    dy = _component(rotation, table, drone, ray, 1, live)
    dz = _component(rotation, table, drone, ray, 2, live)
    bx, px = _start(pos, origin, voxel_m, drone, world, 0, live)
    by, py = _start(pos, origin, voxel_m, drone, world, 1, live)
    bz, pz = _start(pos, origin, voxel_m, drone, world, 2, live)
    first = tl.load(offset + world, live, 0) + (bx.to(tl.int64) * ny + by.to(tl.int64)) * nz + bz.to(tl.int64)
    lx, ly, lz = (-bx).to(tl.float32), (-by).to(tl.float32), (-bz).to(tl.float32)
    fx, fy, fz = lx + (nx - 1).to(tl.float32), ly + (ny - 1).to(tl.float32), lz + (nz - 1).to(tl.float32)

    height = tl.maximum(tl.load(pos + drone * 3 + 2, live, 0.0), 0.0)
    ground = height / -tl.minimum(dz, -1e-6)
    size = tl.full([BLOCK], 1.0, tl.float32) * voxel_m
    far = tl.where(dz < 0, tl.minimum(ground, range_m), range_m) / size
    vx, vy, vz = _inverse(dx), _inverse(dy), _inverse(dz)
    ax, ex = (lx - px) * vx, (fx + 1.0 - px) * vx
    ay, ey = (ly - py) * vy, (fy + 1.0 - py) * vy
    az, ez = (lz - pz) * vz, (fz + 1.0 - pz) * vz
    enter = tl.maximum(tl.maximum(tl.minimum(ax, ex), tl.minimum(ay, ey)), tl.maximum(tl.minimum(az, ez), 0.0))
    leave = tl.minimum(tl.minimum(tl.maximum(ax, ex), tl.maximum(ay, ey)), tl.minimum(tl.maximum(az, ez), far))
    inside = live & (enter < leave)
    cx = _clamped(tl.floor(px + dx * enter), lx, fx)
    cy = _clamped(tl.floor(py + dy * enter), ly, fy)
    cz = _clamped(tl.floor(pz + dz * enter), lz, fz)
    ox, oy, oz = tl.where(dx >= 0, 1.0, 0.0), tl.where(dy >= 0, 1.0, 0.0), tl.where(dz >= 0, 1.0, 0.0)
    sx, sy, sz = 2 * ox - 1, 2 * oy - 1, 2 * oz - 1
    free = tl.full([BLOCK], 1.0, tl.float32)
    moving, k = tl.max(inside.to(tl.int32), 0), 0
    while (moving > 0) & (k < rounds):
        at = first + (cx.to(tl.int64) * ny + cy.to(tl.int64)) * nz + cz.to(tl.int64)
        free = tl.load(field + at, inside, 1).to(tl.float32)
        margin = tl.maximum(free - 1.0, 0.0)
        tx = (cx + (ox + sx * margin) - px) * vx
        ty = (cy + (oy + sy * margin) - py) * vy
        tz = (cz + (oz + sz * margin) - pz) * vz
        t = tl.minimum(tx, tl.minimum(ty, tz))
        moves = inside & (free > 0) & (t < leave)
        through_x = tx <= t
        through_y = (ty <= t) & (through_x == 0)
        through_z = (through_x == 0) & (through_y == 0)
        qx = _clamped(tl.floor(px + dx * t), cx - margin, cx + margin)
        qy = _clamped(tl.floor(py + dy * t), cy - margin, cy + margin)
        qz = _clamped(tl.floor(pz + dz * t), cz - margin, cz + margin)
        qx = _clamped(tl.where(through_x, cx + sx * free, qx), lx, fx)
        qy = _clamped(tl.where(through_y, cy + sy * free, qy), ly, fy)
        qz = _clamped(tl.where(through_z, cz + sz * free, qz), lz, fz)
        cx, cy, cz = tl.where(moves, qx, cx), tl.where(moves, qy, cy), tl.where(moves, qz, cz)
        moving = tl.max(moves.to(tl.int32), 0)
        k += 1
    hit_x, hit_y, hit_z = (cx + 1.0 - ox - px) * vx, (cy + 1.0 - oy - py) * vy, (cz + 1.0 - oz - pz) * vz
    hit = tl.maximum(tl.maximum(hit_x, hit_y), tl.maximum(hit_z, 0.0))
    tl.store(out + lane, tl.where(inside & (free == 0), tl.minimum(hit, far), far) * size, live)


def cast(world: VoxelWorld, pos: Tensor, rotation: Tensor, table: Tensor, world_of: Tensor, range_m: float) -> Tensor:
    """`VoxelWorld.cast` for CUDA tensors."""
    out = torch.empty(len(pos), len(table), device=pos.device)
    lanes = out.numel()
    fixed = world.field, world.offset, world.shape, world.origin, world.voxel_m, world_of
    _cast[(triton.cdiv(lanes, 128),)](
        *fixed, pos.contiguous(), rotation.contiguous(), table.contiguous(), out, lanes, range_m, world.rounds(range_m),
        RAYS=len(table), BLOCK=128,
    )  # fmt: skip
    return out
