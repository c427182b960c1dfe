"""The sensors and the moving obstacles as parallel native code (numba) for a CPU: one pass, no temporaries.

They compute what the PyTorch forms in `Lidar`, `Things` and `MovingObstacles` compute, to float32 rounding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import torch
from torch import Tensor

from slipstream.sim.random_native import mix, uniform
from slipstream.tasks.navigation.physics.voxels_native import FAST, f32

if TYPE_CHECKING:
    from slipstream.tasks.navigation.physics.lidar import Lidar, Rays
    from slipstream.tasks.navigation.physics.obstacles import MovingObstacles


@nb.njit(parallel=True, fastmath=True, cache=True, nogil=True)
def _scan(
    pos, yaw, world_of, boxes, near, count, half_m, cells, cos_az, sin_az, tan_el, cos_el, range_m, out, nearest, mean_log
):  # pragma: no cover  # fmt: skip
    beams, levels = cos_az.shape[0], tan_el.shape[0]
    spacing = np.float32(2 * math.pi) / np.float32(beams)
    for n in nb.prange(pos.shape[0]):
        px, py, pz = pos[n, 0], pos[n, 1], pos[n, 2]
        cy, sy = np.float32(math.cos(yaw[n])), np.float32(math.sin(yaw[n]))
        for v in range(levels):  # in horizontal meters until the end
            far = range_m * cos_el[v]
            if tan_el[v] < 0:
                far = min(far, max(-pz / tan_el[v], np.float32(0)))
            for h in range(beams):
                out[n, h, v] = far
        world = world_of[n]
        i = int(min(max(px + half_m, np.float32(0)), np.float32(cells) - np.float32(1e-3)))
        j = int(min(max(py + half_m, np.float32(0)), np.float32(cells) - np.float32(1e-3)))
        cell = i * cells + j
        for c in range(count[world, cell]):
            b = near[world, cell, c]
            rx, ry = boxes[world, b, 0] - px, boxes[world, b, 1] - py
            hx, hy, top = boxes[world, b, 2], boxes[world, b, 3], boxes[world, b, 4] - pz
            gap_x, gap_y = max(abs(rx) - hx, np.float32(0)), max(abs(ry) - hy, np.float32(0))
            if gap_x * gap_x + gap_y * gap_y > range_m * range_m:
                continue
            # only the beams that can hit the circle around the box
            around = hx * hx + hy * hy
            d2 = rx * rx + ry * ry
            first, number = 0, beams
            if d2 > around * np.float32(1.0001):
                middle = math.atan2(cy * ry - sy * rx, cy * rx + sy * ry) / spacing
                spread = math.asin(math.sqrt(around / d2)) / spacing + np.float32(0.01)
                first = int(math.ceil(middle - spread))
                number = int(math.floor(middle + spread)) - first + 1
            for k in range(number):
                h = (first + k) % beams
                dx, dy = cy * cos_az[h] - sy * sin_az[h], sy * cos_az[h] + cy * sin_az[h]
                ix = np.float32(1) / dx if abs(dx) >= 1e-6 else np.float32(1e6)
                iy = np.float32(1) / dy if abs(dy) >= 1e-6 else np.float32(1e6)
                ax, bx, ay, by = (rx - hx) * ix, (rx + hx) * ix, (ry - hy) * iy, (ry + hy) * iy
                enter = max(max(min(ax, bx), min(ay, by)), np.float32(0))
                leave = min(max(ax, bx), max(ay, by))
                if enter >= leave:
                    continue
                for v in range(levels):
                    tan = tan_el[v]
                    at = enter
                    if tan < 0:
                        at = max(enter, top / tan)
                        if at >= leave:
                            continue
                    elif enter * tan > top:
                        continue
                    if at < out[n, h, v]:
                        out[n, h, v] = at
        least, total = range_m, np.float64(0)
        for h in range(beams):
            product = np.float64(1)  # one logarithm for the beams of one azimuth
            for v in range(levels):
                d = out[n, h, v] / cos_el[v]
                out[n, h, v] = d
                least = min(least, d)
                product *= max(d, np.float32(1e-6))
            total += math.log(product)
        nearest[n] = least
        mean_log[n] = total / (beams * levels)


class LidarScan:
    """`Lidar.measure` for CPU tensors."""

    def __init__(self, lidar: Lidar) -> None:
        grid, config = lidar.grid, lidar.config
        self._shape = (config.azimuths, len(config.elevations_deg))
        boxes = (x.numpy() for x in (lidar.world_of, grid.boxes, grid.near, grid.count))
        azimuths = lidar.cos_az.numpy(), lidar.sin_az.numpy()
        elevations = (np.array(x, np.float32) for x in (lidar.tan_el, lidar.cos_el))
        size = np.float32(grid.half_m), grid.cells
        self._beams = (*azimuths, *elevations, np.float32(config.range_m))
        self._fixed = (*boxes, *size, *self._beams)
        self._world_of = lidar.world_of.numpy()

    def __call__(self, pos: Tensor, yaw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return distances [N, azimuths, elevations], the minimum [N], and the mean log [N]."""
        n = len(pos)
        out, nearest, mean_log = torch.empty(n, *self._shape), torch.empty(n), torch.empty(n)
        # NaN would be an invalid grid index: such a drone scans from far away, where nothing is
        pos, yaw = torch.nan_to_num(pos, 1e4, 1e4, -1e4), torch.nan_to_num(yaw)
        drones, results = (pos.contiguous(), yaw.contiguous()), (out, nearest, mean_log)
        inputs: list[Any] = [*(x.numpy() for x in drones), *self._fixed, *(x.numpy() for x in results)]
        _scan(*inputs)
        return out, nearest, mean_log


@nb.njit(parallel=True, fastmath=True, cache=True, nogil=True)
# pragma: no cover
def _sense(pos, heading, world_of, table, count, range_m, margin_m, rows, clearance, hit, squares, indices):
    k = rows.shape[1]
    for n in nb.prange(pos.shape[0]):
        first = world_of[n] * count
        index, square = indices[n], squares[n]
        square[:] = np.float32(1e18)
        for m in range(count):
            dx, dy = table[first + m, 0] - pos[n, 0], table[first + m, 1] - pos[n, 1]
            d2 = dx * dx + dy * dy
            if d2 >= square[k - 1]:
                continue
            slot = k - 1
            while slot > 0 and square[slot - 1] > d2:
                square[slot], index[slot] = square[slot - 1], index[slot - 1]
                slot -= 1
            square[slot], index[slot] = d2, first + m
        hit[n] = False
        cos, sin = heading[n, 0], heading[n, 1]
        for slot in range(k):
            across = np.float32(math.sqrt(square[slot]))
            if across > range_m:
                clearance[n, slot] = range_m
                for c in range(10):
                    rows[n, slot, c] = 0
                continue
            m = index[slot]
            x, y, z = table[m, 0] - pos[n, 0], table[m, 1] - pos[n, 1], (table[m, 2] - pos[n, 2]) * table[m, 9]
            distance = np.float32(math.sqrt(square[slot] + z * z))
            clearance[n, slot] = distance - table[m, 6] / 2
            if across <= table[m, 6] / 2 + margin_m and abs(z) <= table[m, 7] / 2 + margin_m:
                hit[n] = True
            inverse = np.float32(1) / max(distance, np.float32(1e-6))
            rows[n, slot, 0] = (cos * x + sin * y) * inverse
            rows[n, slot, 1] = (cos * y - sin * x) * inverse
            rows[n, slot, 2] = z * inverse
            rows[n, slot, 3] = across
            rows[n, slot, 4] = z
            rows[n, slot, 5] = cos * table[m, 3] + sin * table[m, 4]
            rows[n, slot, 6] = cos * table[m, 4] - sin * table[m, 3]
            rows[n, slot, 7] = table[m, 5]
            rows[n, slot, 8] = table[m, 8]
            rows[n, slot, 9] = table[m, 9]


def sense(
    pos: Tensor, heading: Tensor, world_of: Tensor, table: Tensor, count: int, k: int, range_m: float, margin_m: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`MovingObstacles.sense` for CPU tensors; `table` holds their properties, `count` rows per world."""
    n = len(pos)
    rows, clearance, hit = torch.empty(n, k, table.shape[1]), torch.empty(n, k), torch.empty(n, dtype=torch.bool)
    inputs = (pos.contiguous().numpy(), heading.contiguous().numpy(), world_of.numpy(), table.numpy())
    limits = count, np.float32(range_m), np.float32(margin_m)
    scratch = (np.empty((n, k), np.float32), np.zeros((n, k), np.int64))
    _sense(*inputs, *limits, rows.numpy(), clearance.numpy(), hit.numpy(), *scratch)
    return rows, clearance, hit


@nb.njit(parallel=True, cache=True, nogil=True)
# pragma: no cover
def _roam(
    pos, vel, goal, origin, pillar, stream, low, high, roam_low, roam_size, clock, steps, redraw, dt, slow, fast, arrival_m
):  # fmt: skip
    worlds, count = pos.shape[0], pos.shape[1]
    for i in nb.prange(worlds * count):
        k, m = i // count, i % count
        for step in range(clock, clock + steps):
            gap = np.float32(0)
            for c in range(3):
                d = goal[k, m, c] - pos[k, m, c]
                gap += d * d
            arrived, turns = math.sqrt(gap) < arrival_m, step % redraw == 0
            if arrived or turns:
                state = mix(stream[i] ^ (step & 0xFFFFFFFF))
                if arrived:
                    for c in range(2 if pillar[m] else 3):  # pillars keep their height
                        at = origin[k, m, c] + uniform(state, c) * roam_size[c] + roam_low[c]
                        goal[k, m, c] = min(max(at, low[c]), high[c])
                if turns:
                    gap = np.float32(0)
                    for c in range(3):
                        d = goal[k, m, c] - pos[k, m, c]
                        gap += d * d
                    length = max(np.float32(math.sqrt(gap)), np.float32(1e-6))
                    speed = slow + (fast - slow) * uniform(state, 3)
                    for c in range(3):
                        vel[k, m, c] = speed * (goal[k, m, c] - pos[k, m, c]) / length
            for c in range(3):
                pos[k, m, c] += vel[k, m, c] * dt


def roam(movers: MovingObstacles, steps: int, arrival_m: float) -> None:
    """`MovingObstacles.advance` for CPU tensors."""
    state = movers.pos, movers.vel, movers.goal, movers.origin, movers.pillar, movers.random.stream
    limits = movers.low, movers.high, movers.roam_low, movers.roam_size
    counts = int(movers.clock), steps, movers.redraw_steps
    numbers = (np.float32(x) for x in (movers.dt_s, *movers.config.speed_mps, arrival_m))
    inputs: list[Any] = [*(x.numpy() for x in (*state, *limits)), *counts, *numbers]
    _roam(*inputs)
    movers.clock.add_(steps)


# -- rays to boxes and cylinders, tile by tile, so that the compiler vectorizes them ----------------------------------

W = 48  # rays of a tile
ROWS = 7
DX, DY, DZ, VX, VY, VZ, HIT = (row * W for row in range(ROWS))


@nb.njit(fastmath=FAST, nogil=True, cache=True, inline="always")
def _hidden(normals, x, y, z, hx, hy, hz):  # pragma: no cover
    """Whether a box is beyond one of the planes."""
    for p in range(normals.shape[0]):
        a, b, c = normals[p, 0], normals[p, 1], normals[p, 2]
        if a * x + b * y + c * z > abs(a) * hx + abs(b) * hy + abs(c) * hz + f32(1e-3):
            return True
    return False


@nb.njit(fastmath=FAST, nogil=True, cache=True)
def _meet_box(buf, x, y, z, hx, hy, hz):  # pragma: no cover
    for i in range(W):
        ax, bx = (x - hx) * buf[VX + i], (x + hx) * buf[VX + i]
        ay, by = (y - hy) * buf[VY + i], (y + hy) * buf[VY + i]
        az, bz = (z - hz) * buf[VZ + i], (z + hz) * buf[VZ + i]
        first = max(max(min(ax, bx), min(ay, by)), max(min(az, bz), f32(0)))
        last = min(min(max(ax, bx), max(ay, by)), max(az, bz))
        buf[HIT + i] = min(buf[HIT + i], first) if first < last else buf[HIT + i]


@nb.njit(fastmath=FAST, nogil=True, cache=True)
def _meet_cylinder(buf, x, y, z, radius, hz):  # pragma: no cover
    for i in range(W):
        dx, dy = buf[DX + i], buf[DY + i]
        flat = max(dx * dx + dy * dy, f32(1e-12))
        along = (dx * x + dy * y) / flat
        chord = np.sqrt(max(radius * radius - (x * x + y * y - along * along * flat), f32(0)) / flat)
        az, bz = (z - hz) * buf[VZ + i], (z + hz) * buf[VZ + i]
        first, last = max(max(along - chord, min(az, bz)), f32(0)), min(along + chord, max(az, bz))
        buf[HIT + i] = min(buf[HIT + i], first) if first < last else buf[HIT + i]


@nb.njit(parallel=True, fastmath=FAST, cache=True, nogil=True, error_model="numpy")
def _cast_rays(things, space_of, own, pos, rotation, table, planes, range_m, out):  # pragma: no cover
    rays, count, tiles, sides = table.shape[0], things.shape[1], planes.shape[0] - 1, planes.shape[1]
    for n in nb.prange(pos.shape[0]):
        buf, near = np.empty(ROWS * W, np.float32), np.empty((count, 7), np.float32)
        normals, turn, space = np.empty((sides, 3), np.float32), rotation[n], space_of[n]
        px, py, pz = pos[n, 0], pos[n, 1], pos[n, 2]
        seen = 0
        for tile in range(-1, tiles):  # the last planes, those of all rays, come first
            for p in range(sides):
                for k in range(3):
                    a, b, c = planes[tile, p, 0], planes[tile, p, 1], planes[tile, p, 2]
                    normals[p, k] = turn[k, 0] * a + turn[k, 1] * b + turn[k, 2] * c
            if tile < 0:
                for m in range(count):
                    x, y, z = things[space, m, 0] - px, things[space, m, 1] - py, things[space, m, 2] - pz
                    hx, hy, hz = things[space, m, 3], things[space, m, 4], things[space, m, 5]
                    gx, gy, gz = max(abs(x) - hx, f32(0)), max(abs(y) - hy, f32(0)), max(abs(z) - hz, f32(0))
                    if gx * gx + gy * gy + gz * gz > range_m * range_m or m == own[n]:
                        continue
                    if not _hidden(normals, x, y, z, hx, hy, hz):
                        near[seen, 0], near[seen, 1], near[seen, 2] = x, y, z
                        near[seen, 3], near[seen, 4], near[seen, 5], near[seen, 6] = hx, hy, hz, things[space, m, 6]
                        seen += 1
                continue
            for i in range(W):
                ray = min(tile * W + i, rays - 1)
                a, b, c = table[ray, 0], table[ray, 1], table[ray, 2]
                dx = turn[0, 0] * a + turn[0, 1] * b + turn[0, 2] * c
                dy = turn[1, 0] * a + turn[1, 1] * b + turn[1, 2] * c
                dz = turn[2, 0] * a + turn[2, 1] * b + turn[2, 2] * c
                buf[DX + i], buf[DY + i], buf[DZ + i] = dx, dy, dz
                buf[VX + i] = f32(1) / (dx if abs(dx) >= f32(1e-9) else f32(1e-9))
                buf[VY + i] = f32(1) / (dy if abs(dy) >= f32(1e-9) else f32(1e-9))
                buf[VZ + i] = f32(1) / (dz if abs(dz) >= f32(1e-9) else f32(1e-9))
                buf[HIT + i] = range_m
            for k in range(seen):
                x, y, z, hx, hy, hz = near[k, 0], near[k, 1], near[k, 2], near[k, 3], near[k, 4], near[k, 5]
                if _hidden(normals, x, y, z, hx, hy, hz):
                    continue
                if near[k, 6] > 0:
                    _meet_cylinder(buf, x, y, z, hx, hz)
                else:
                    _meet_box(buf, x, y, z, hx, hy, hz)
            for i in range(min(W, rays - tile * W)):
                out[n, tile * W + i] = buf[HIT + i]


def cast(
    things: Tensor, pos: Tensor, rotation: Tensor, rays: Rays, space_of: Tensor, range_m: float, own: Tensor
) -> Tensor:
    """`Things.cast` for CPU tensors."""
    out = torch.empty(len(pos), len(rays.table))
    sensor = (x.contiguous().numpy() for x in (things, space_of, own, pos, rotation, rays.table, rays.planes))
    inputs: list[Any] = [*sensor, np.float32(range_m), out.numpy()]
    _cast_rays(*inputs)
    return out
