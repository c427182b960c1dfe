"""The sensors and the moving obstacles as Triton kernels: one launch each, where plain PyTorch needs about a hundred.

They compute what `Lidar.scan_torch`, `Lidar.scan_movers_torch`, `MovingObstacles.nearest_torch` and its
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
    from slipstream.tasks.navigation.physics.lidar import Lidar
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


@triton.jit
def _scan_movers(  # one lane per drone and azimuth, all elevations at once
    pos, yaw, world_of, movers, outline, cos_az, sin_az, tan_el, cos_el, out,
    lanes, count, range_m,
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
    dx, dy = tl.where(tl.abs(dx) < 1e-6, 1e-6, dx), tl.where(tl.abs(dy) < 1e-6, 1e-6, dy)
    inv_x, inv_y = 1.0 / dx, 1.0 / dy
    world = tl.load(world_of + drone, mask=live, other=0).to(tl.int32)

    level = tl.arange(0, LEVELS_PADDED)
    tan = tl.load(tan_el + level, mask=level < LEVELS, other=0.0)[None, :]
    cos = tl.load(cos_el + level, mask=level < LEVELS, other=1.0)[None, :]
    flat = tan == 0
    inv_tan = 1.0 / tl.where(flat, 1.0, tan)
    best = range_m * cos + tl.zeros([BLOCK, LEVELS_PADDED], tl.float32)  # in horizontal meters
    for m in range(count):
        there = movers + (world * count + m) * 3
        rx = tl.load(there, mask=live, other=1e6) - px
        ry = tl.load(there + 1, mask=live, other=1e6) - py
        rz = tl.load(there + 2, mask=live, other=1e6) - pz
        half, tall = tl.load(outline + m * 3) / 2, tl.load(outline + m * 3 + 1) / 2
        is_pillar = tl.load(outline + m * 3 + 2) > 0
        ax, bx, ay, by = (rx - half) * inv_x, (rx + half) * inv_x, (ry - half) * inv_y, (ry + half) * inv_y
        along, off = rx * dx + ry * dy, rx * dy - ry * dx
        chord = tl.sqrt(tl.maximum(half * half - off * off, 0.0))  # 0 where the beam misses
        enter = tl.where(is_pillar, along - chord, tl.maximum(tl.minimum(ax, bx), tl.minimum(ay, by)))
        leave = tl.where(is_pillar, along + chord, tl.minimum(tl.maximum(ax, bx), tl.maximum(ay, by)))[:, None]
        enter = tl.maximum(enter, 0.0)[:, None]
        low, high = (rz - tall)[:, None], (rz + tall)[:, None]
        at_low, at_high = low * inv_tan, high * inv_tan
        level_with = (low <= 0) & (high >= 0)
        first = tl.where(flat, enter, tl.maximum(enter, tl.minimum(at_low, at_high)))
        last = tl.where(flat, tl.where(level_with, leave, -1.0), tl.minimum(leave, tl.maximum(at_low, at_high)))
        best = tl.where(first < last, tl.minimum(best, first), best)
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

    def scan_movers(self, pos: Tensor, yaw: Tensor, movers: MovingObstacles) -> Tensor:
        """Return distances [N, azimuths, elevations] to moving obstacles."""
        lidar, config = self._lidar, self._lidar.config
        beams, levels = config.azimuths, len(config.elevations_deg)
        out = torch.empty(len(pos), beams, levels, device=pos.device)
        lanes = len(pos) * beams
        _scan_movers[(triton.cdiv(lanes, 128),)](
            pos.contiguous(), yaw.contiguous(), lidar.world_of, movers.pos, movers.outline,
            lidar.cos_az, lidar.sin_az, self._tan, self._cos, out, lanes, len(movers.outline), config.range_m,
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
