"""The sensors and the moving obstacles as parallel native code (numba) for a CPU: one pass, no temporaries.

They compute what the PyTorch forms in `Lidar` and `MovingObstacles` compute, to float32 rounding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import torch
from torch import Tensor

from slipstream.sim.random_native import mix, uniform

if TYPE_CHECKING:
    from slipstream.tasks.navigation.physics.lidar import Lidar
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


@nb.njit(parallel=True, fastmath=True, cache=True, nogil=True)
def _scan_movers(
    pos, yaw, world_of, movers, width, height, pillar, cos_az, sin_az, tan_el, cos_el, range_m, out
):  # pragma: no cover
    beams, levels = cos_az.shape[0], tan_el.shape[0]
    for n in nb.prange(pos.shape[0]):
        px, py, pz = pos[n, 0], pos[n, 1], pos[n, 2]
        cy, sy = np.float32(math.cos(yaw[n])), np.float32(math.sin(yaw[n]))
        for h in range(beams):  # in horizontal meters until the end
            for v in range(levels):
                out[n, h, v] = range_m * cos_el[v]
        world = world_of[n]
        for m in range(width.shape[0]):
            rx, ry, rz = movers[world, m, 0] - px, movers[world, m, 1] - py, movers[world, m, 2] - pz
            half, tall = width[m] / 2, height[m] / 2
            gap_x, gap_y = max(abs(rx) - half, np.float32(0)), max(abs(ry) - half, np.float32(0))
            if gap_x * gap_x + gap_y * gap_y > range_m * range_m:
                continue
            low, high = rz - tall, rz + tall
            for h in range(beams):
                dx, dy = cy * cos_az[h] - sy * sin_az[h], sy * cos_az[h] + cy * sin_az[h]
                dx = dx if abs(dx) >= 1e-6 else np.float32(1e-6)
                dy = dy if abs(dy) >= 1e-6 else np.float32(1e-6)
                if pillar[m]:
                    along, off = rx * dx + ry * dy, rx * dy - ry * dx
                    chord = np.float32(math.sqrt(max(half * half - off * off, np.float32(0))))
                    enter, leave = along - chord, along + chord
                else:
                    ax, bx, ay, by = (rx - half) / dx, (rx + half) / dx, (ry - half) / dy, (ry + half) / dy
                    enter, leave = max(min(ax, bx), min(ay, by)), min(max(ax, bx), max(ay, by))
                enter = max(enter, np.float32(0))
                if enter >= leave:
                    continue
                for v in range(levels):
                    tan, first, last = tan_el[v], enter, leave
                    if tan != 0:
                        first = max(enter, min(low / tan, high / tan))
                        last = min(leave, max(low / tan, high / tan))
                    elif low > 0 or high < 0:
                        continue
                    if first < last and first < out[n, h, v]:
                        out[n, h, v] = first
        for h in range(beams):
            for v in range(levels):
                out[n, h, v] /= cos_el[v]


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

    def scan_movers(self, pos: Tensor, yaw: Tensor, movers: MovingObstacles) -> Tensor:
        """Return distances [N, azimuths, elevations] to moving obstacles."""
        out = torch.empty(len(pos), *self._shape)
        things = (x.numpy() for x in (movers.pos, movers.width, movers.height, movers.pillar))
        poses = pos.contiguous().numpy(), yaw.contiguous().numpy()
        inputs: list[Any] = [*poses, self._world_of, *things, *self._beams, out.numpy()]
        _scan_movers(*inputs)
        return out


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
