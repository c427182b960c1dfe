"""The sensors and the moving obstacles as Triton kernels: one launch each, where plain PyTorch needs about a hundred.

They compute what `Lidar.scan_torch`, `Things.cast_torch`, `MovingObstacles.nearest_torch` and its
`advance_torch` compute, to float32 rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.sim.random_triton import mix, uniform

if TYPE_CHECKING:
    from slipstream.tasks.navigation.physics.lidar import Lidar, Rays
    from slipstream.tasks.navigation.physics.obstacles import MovingObstacles


@triton.jit
def _scan(  # one lane per drone and azimuth, all elevations at once
    pos, yaw, world_of, boxes, near, count, cos_az, sin_az, tan_el, cos_el, out,
    lanes, half_m, cells, most_near, num_boxes, range_m,
    BEAMS: tl.constexpr, LEVELS: tl.constexpr, LEVELS_PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = lane < lanes
    drone = lane // BEAMS
    beam = lane % BEAMS
    px = tl.load(pos + drone * 3, mask=live, other=0.0)
    py = tl.load(pos + drone * 3 + 1, mask=live, other=0.0)
    pz = tl.load(pos + drone * 3 + 2, mask=live, other=0.0)
    angle = tl.load(yaw + drone, mask=live, other=0.0)
    cy, sy = tl.cos(angle), tl.sin(angle)
    ca, sa = tl.load(cos_az + beam), tl.load(sin_az + beam)
    dx, dy = cy * ca - sy * sa, sy * ca + cy * sa
    inv_x = 1.0 / tl.where(tl.abs(dx) < 1e-6, 1e-6, dx)
    inv_y = 1.0 / tl.where(tl.abs(dy) < 1e-6, 1e-6, dy)
    i = tl.minimum(tl.maximum(px + half_m, 0.0), cells - 1e-3).to(tl.int32)
    j = tl.minimum(tl.maximum(py + half_m, 0.0), cells - 1e-3).to(tl.int32)
    world = tl.load(world_of + drone, mask=live, other=0).to(tl.int32)
    cell = (world * cells + i) * cells + j
    real = tl.load(count + cell, mask=live, other=0)

    level = tl.arange(0, LEVELS_PADDED)
    tan = tl.load(tan_el + level, mask=level < LEVELS, other=0.0)[None, :]
    cos = tl.load(cos_el + level, mask=level < LEVELS, other=1.0)[None, :]
    down = tan < 0
    safe_tan = tl.where(down, tan, -1.0)
    ground = tl.where(down, tl.maximum(pz[:, None] / -safe_tan, 0.0), 1e9)
    best = tl.minimum(range_m * cos, ground)  # in horizontal meters
    for c in range(tl.max(real, 0)):
        box = tl.load(near + cell * most_near + c, mask=live & (c < real), other=num_boxes - 1)
        at_box = boxes + (world * num_boxes + box) * 5
        rx, ry = tl.load(at_box) - px, tl.load(at_box + 1) - py
        hx, hy, top = tl.load(at_box + 2), tl.load(at_box + 3), tl.load(at_box + 4) - pz
        ax, bx, ay, by = (rx - hx) * inv_x, (rx + hx) * inv_x, (ry - hy) * inv_y, (ry + hy) * inv_y
        enter = tl.maximum(tl.maximum(tl.minimum(ax, bx), tl.minimum(ay, by)), 0.0)[:, None]
        leave = tl.minimum(tl.maximum(ax, bx), tl.maximum(ay, by))[:, None]
        top = top[:, None]
        first = tl.where(down, tl.maximum(enter, top / safe_tan), enter)
        hit = (first < leave) & (down | (enter * tan <= top))
        best = tl.where(hit, tl.minimum(best, first), best)
    tl.store(out + lane[:, None] * LEVELS + level[None, :], best / cos, mask=live[:, None] & (level < LEVELS)[None, :])


class LidarScan:
    """`Lidar.scan` for CUDA tensors."""

    def __init__(self, lidar: Lidar) -> None:
        self._lidar = lidar
        device = lidar.world_of.device
        self._tan = torch.tensor(lidar.tan_el, device=device)
        self._cos = torch.tensor(lidar.cos_el, device=device)

    def __call__(self, pos: Tensor, yaw: Tensor) -> Tensor:
        """Return distances [N, azimuths, elevations]."""
        lidar, grid, config = self._lidar, self._lidar.grid, self._lidar.config
        beams, levels = config.azimuths, len(config.elevations_deg)
        out = torch.empty(len(pos), beams, levels, device=pos.device)
        lanes = len(pos) * beams
        fixed = lidar.world_of, grid.boxes, grid.near, grid.count, lidar.cos_az, lidar.sin_az, self._tan, self._cos
        _scan[(triton.cdiv(lanes, 128),)](
            pos.contiguous(), yaw.contiguous(), *fixed, out, lanes,
            grid.half_m, grid.cells, grid.near.shape[-1], grid.boxes.shape[1], config.range_m,
            BEAMS=beams, LEVELS=levels, LEVELS_PADDED=triton.next_power_of_2(levels), BLOCK=128,
        )  # fmt: skip
        return out


@triton.jit
def _nearest(
    pos, world_of, movers, index, distance, num, count, K: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr
):
    drone = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = drone < num
    px = tl.load(pos + drone * 3, mask=live, other=0.0)[:, None]
    py = tl.load(pos + drone * 3 + 1, mask=live, other=0.0)[:, None]
    world = tl.load(world_of + drone, mask=live, other=0)[:, None]
    mover = tl.arange(0, PADDED)[None, :]
    there = movers + (world * count + mover) * 3
    known = live[:, None] & (mover < count)
    dx = tl.load(there, mask=known, other=1e9) - px
    dy = tl.load(there + 1, mask=known, other=1e9) - py
    d2 = tl.where(known, dx * dx + dy * dy, 1e30)
    for k in tl.static_range(K):
        first = tl.argmin(d2, 1)
        tl.store(index + drone * K + k, first.to(tl.int64), mask=live)
        tl.store(distance + drone * K + k, tl.sqrt(tl.min(d2, 1)), mask=live)
        d2 = tl.where(mover == first[:, None], 1e30, d2)


def nearest(pos: Tensor, world_of: Tensor, movers: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return indices and horizontal distances [N, k] of the k movers [K, M, 3] nearest to each drone, nearest first."""
    num, count = len(pos), movers.shape[1]
    index = torch.empty(num, k, dtype=torch.int64, device=pos.device)
    distance = torch.empty(num, k, device=pos.device)
    padded = triton.next_power_of_2(count)
    _nearest[(triton.cdiv(num, 16),)](
        pos.contiguous(), world_of, movers, index, distance, num, count, K=k, PADDED=padded, BLOCK=16
    )
    return index, distance


@triton.jit
def _clamped(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)


@triton.jit
def _roam(  # one lane per obstacle, all steps; the numbers are constants, because a compiler may pass floats as float64
    pos, vel, goal, origin, outline, stream, clock, lanes, count, redraw,
    DT: tl.constexpr, SLOW: tl.constexpr, FAST: tl.constexpr, ROAM_X: tl.constexpr, ROAM_Y: tl.constexpr,
    DOWN: tl.constexpr, UP: tl.constexpr, HALF: tl.constexpr, TOP: tl.constexpr, ARRIVAL: tl.constexpr,
    STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = lane < lanes
    pillar = tl.load(outline + lane % count * 3 + 2, live) > 0.5
    at = lane * 3
    px, py, pz = tl.load(pos + at, live), tl.load(pos + at + 1, live), tl.load(pos + at + 2, live)
    vx, vy, vz = tl.load(vel + at, live), tl.load(vel + at + 1, live), tl.load(vel + at + 2, live)
    gx, gy, gz = tl.load(goal + at, live), tl.load(goal + at + 1, live), tl.load(goal + at + 2, live)
    ox, oy, oz = tl.load(origin + at, live), tl.load(origin + at + 1, live), tl.load(origin + at + 2, live)
    key = tl.load(stream + lane, live).to(tl.uint32)
    now = tl.load(clock)
    for k in range(STEPS):
        state = mix(key ^ (now + k).to(tl.uint32))
        dx, dy, dz = gx - px, gy - py, gz - pz
        arrived = tl.sqrt(dx * dx + dy * dy + dz * dz) < ARRIVAL
        gx = tl.where(arrived, _clamped(ox + uniform(state, 0) * (2 * ROAM_X) - ROAM_X, -HALF, HALF), gx)
        gy = tl.where(arrived, _clamped(oy + uniform(state, 1) * (2 * ROAM_Y) - ROAM_Y, -HALF, HALF), gy)
        height = _clamped(oz + uniform(state, 2) * (DOWN + UP) - DOWN, 0.0, TOP)
        gz = tl.where(arrived & ~pillar, height, gz)  # pillars keep their height
        dx, dy, dz = gx - px, gy - py, gz - pz
        speed, turns = SLOW + (FAST - SLOW) * uniform(state, 3), (now + k) % redraw == 0
        length = tl.maximum(tl.sqrt(dx * dx + dy * dy + dz * dz), 1e-6)
        vx = tl.where(turns, speed * dx / length, vx)
        vy = tl.where(turns, speed * dy / length, vy)
        vz = tl.where(turns, speed * dz / length, vz)
        px, py, pz = px + vx * DT, py + vy * DT, pz + vz * DT
    tl.store(pos + at, px, live)
    tl.store(pos + at + 1, py, live)
    tl.store(pos + at + 2, pz, live)
    tl.store(vel + at, vx, live)
    tl.store(vel + at + 1, vy, live)
    tl.store(vel + at + 2, vz, live)
    tl.store(goal + at, gx, live)
    tl.store(goal + at + 1, gy, live)
    tl.store(goal + at + 2, gz, live)


def roam(movers: MovingObstacles, steps: int, top_m: float, arrival_m: float) -> None:
    """`MovingObstacles.advance` for CUDA tensors."""
    (slow, fast), (roam_x, roam_y, down, up) = movers.config.speed_mps, movers.config.roam_m
    lanes = movers.worlds * movers.count
    _roam[(triton.cdiv(lanes, 128),)](
        movers.pos, movers.vel, movers.goal, movers.origin, movers.outline, movers.random.stream, movers.clock,
        lanes, movers.count, movers.redraw_steps,
        DT=movers.dt_s, SLOW=slow, FAST=fast, ROAM_X=roam_x, ROAM_Y=roam_y, DOWN=down, UP=up,
        HALF=movers.map_half_m, TOP=top_m, ARRIVAL=arrival_m, STEPS=steps, BLOCK=128,
    )  # fmt: skip
    movers.clock.add_(steps)


# -- rays to boxes and cylinders: one program per drone and tile, which skips what it cannot meet --------------------


@triton.jit
def _turned(rotation, drone, row, a, b, c):
    """One component of a vector of the sensor in the world."""
    at = rotation + drone * 9 + row * 3
    return tl.load(at) * a + tl.load(at + 1) * b + tl.load(at + 2) * c


@triton.jit
def _normal(rotation, drone, planes, tile, side):
    at = planes + (tile * 4 + side) * 3
    a, b, c = tl.load(at), tl.load(at + 1), tl.load(at + 2)
    return (
        _turned(rotation, drone, 0, a, b, c),
        _turned(rotation, drone, 1, a, b, c),
        _turned(rotation, drone, 2, a, b, c),
    )


@triton.jit
def _beyond(nx, ny, nz, x, y, z, hx, hy, hz):
    """Whether a box is beyond a plane."""
    return nx * x + ny * y + nz * z > tl.abs(nx) * hx + tl.abs(ny) * hy + tl.abs(nz) * hz + 1e-3


@triton.jit
def _inverse(d):
    return 1.0 / tl.where(tl.abs(d) < 1e-9, 1e-9, d)


@triton.jit
def _cast_rays(
    things, space_of, own, pos, rotation, table, planes, out, rays, count, range_m,
    HAS_PLANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    drone, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ray = tile * BLOCK + tl.arange(0, BLOCK)
    live = ray < rays
    at = table + ray * 3
    a, b, c = tl.load(at, live, 1.0), tl.load(at + 1, live, 0.0), tl.load(at + 2, live, 0.0)
    dx = _turned(rotation, drone, 0, a, b, c)
    dy = _turned(rotation, drone, 1, a, b, c)
    dz = _turned(rotation, drone, 2, a, b, c)
    vx, vy, vz = _inverse(dx), _inverse(dy), _inverse(dz)
    flat = tl.maximum(dx * dx + dy * dy, 1e-12)
    px, py, pz = tl.load(pos + drone * 3), tl.load(pos + drone * 3 + 1), tl.load(pos + drone * 3 + 2)
    best = tl.zeros([BLOCK], tl.float32) + range_m
    if HAS_PLANES:
        ax, ay, az = _normal(rotation, drone, planes, tile, 0)
        bx, by, bz = _normal(rotation, drone, planes, tile, 1)
        cx, cy, cz = _normal(rotation, drone, planes, tile, 2)
        ex, ey, ez = _normal(rotation, drone, planes, tile, 3)
    space, self_ = tl.load(space_of + drone), tl.load(own + drone)
    for m in range(count):
        thing = things + (space * count + m) * 7
        x, y, z = tl.load(thing) - px, tl.load(thing + 1) - py, tl.load(thing + 2) - pz
        hx, hy, hz = tl.load(thing + 3), tl.load(thing + 4), tl.load(thing + 5)
        gx, gy = tl.maximum(tl.abs(x) - hx, 0.0), tl.maximum(tl.abs(y) - hy, 0.0)
        seen = (gx * gx + gy * gy <= range_m * range_m) & (m != self_)
        if HAS_PLANES:
            hidden = _beyond(ax, ay, az, x, y, z, hx, hy, hz) | _beyond(bx, by, bz, x, y, z, hx, hy, hz)
            hidden |= _beyond(cx, cy, cz, x, y, z, hx, hy, hz) | _beyond(ex, ey, ez, x, y, z, hx, hy, hz)
            seen = seen & (hidden == 0)
        if seen:
            x0, x1, y0, y1 = (x - hx) * vx, (x + hx) * vx, (y - hy) * vy, (y + hy) * vy
            enter = tl.maximum(tl.minimum(x0, x1), tl.minimum(y0, y1))
            leave = tl.minimum(tl.maximum(x0, x1), tl.maximum(y0, y1))
            along = (dx * x + dy * y) / flat
            chord = tl.sqrt(tl.maximum(hx * hx - (x * x + y * y - along * along * flat), 0.0) / flat)
            is_round = tl.load(thing + 6) > 0
            enter = tl.where(is_round, along - chord, enter)
            leave = tl.where(is_round, along + chord, leave)
            z0, z1 = (z - hz) * vz, (z + hz) * vz
            first = tl.maximum(tl.maximum(enter, tl.minimum(z0, z1)), 0.0)
            last = tl.minimum(leave, tl.maximum(z0, z1))
            best = tl.where(first < last, tl.minimum(best, first), best)
    tl.store(out + drone * rays + ray, best, live)


def cast(
    things: Tensor, pos: Tensor, rotation: Tensor, rays: Rays, space_of: Tensor, range_m: float, own: Tensor
) -> Tensor:
    """`Things.cast` for CUDA tensors."""
    out = torch.empty(len(pos), len(rays.table), device=pos.device)
    fixed = things.contiguous(), space_of.contiguous(), own.contiguous(), pos.contiguous(), rotation.contiguous()
    _cast_rays[(len(pos), len(rays.planes) - 1)](
        *fixed, rays.table, rays.planes, out, len(rays.table), things.shape[1], range_m,
        HAS_PLANES=rays.planes.shape[1] > 0, BLOCK=rays.tile, num_warps=2,
    )  # fmt: skip
    return out
