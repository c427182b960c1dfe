"""The CPU's hot loops as parallel native code (numba): one pass over drones, no temporaries.

Each does what its plain PyTorch form does (`Lidar.scan_torch`, `MovingObstacles.nearest_torch`), to float32 rounding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numba as nb
import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from slipstream.sim.lidar import Lidar


@nb.njit(parallel=True, fastmath=True, cache=True, nogil=True)
def _scan(pos, yaw, world_of, boxes, near, count, half_m, cells, cos_az, sin_az, tan_el, cos_el, range_m, out):  # pragma: no cover
    beams, levels = cos_az.shape[0], tan_el.shape[0]
    spacing = np.float32(2 * math.pi) / np.float32(beams)
    for n in nb.prange(pos.shape[0]):
        px, py, pz = pos[n, 0], pos[n, 1], pos[n, 2]
        cy, sy = np.float32(math.cos(yaw[n])), np.float32(math.sin(yaw[n]))
        for v in range(levels):  # in horizontal metres until the end
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
            # only the beams that can meet the circle around the box
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
        for h in range(beams):
            for v in range(levels):
                out[n, h, v] /= cos_el[v]


class LidarScan:
    """`Lidar.scan` for CPU tensors."""

    def __init__(self, lidar: Lidar) -> None:
        grid, config = lidar.grid, lidar.config
        self._shape = (config.azimuths, len(config.elevations_deg))
        self._fixed = (
            lidar.world_of.numpy(),
            grid.boxes.numpy(),
            grid.near.numpy(),
            grid.count.numpy(),
            np.float32(grid.half_m),
            grid.cells,
            lidar.cos_az.numpy(),
            lidar.sin_az.numpy(),
            np.array(lidar.tan_el, np.float32),
            np.array(lidar.cos_el, np.float32),
            np.float32(config.range_m),
        )

    def __call__(self, pos: Tensor, yaw: Tensor) -> Tensor:
        """Distances [N, azimuths, elevations]."""
        out = torch.empty(len(pos), *self._shape)
        # a NaN would index the grid anywhere; such a drone scans from far away, where nothing is
        pos, yaw = torch.nan_to_num(pos, 1e4, 1e4, -1e4), torch.nan_to_num(yaw)
        _scan(pos.contiguous().numpy(), yaw.contiguous().numpy(), *self._fixed, out.numpy())
        return out


@nb.njit(parallel=True, fastmath=True, cache=True, nogil=True)
def _nearest(pos, world_of, movers, k, index, distance):  # pragma: no cover
    for n in nb.prange(pos.shape[0]):
        world = world_of[n]
        for slot in range(k):
            distance[n, slot] = np.float32(1e18)
            index[n, slot] = 0
        for m in range(movers.shape[1]):
            dx, dy = movers[world, m, 0] - pos[n, 0], movers[world, m, 1] - pos[n, 1]
            d2 = dx * dx + dy * dy
            if d2 >= distance[n, k - 1]:
                continue
            slot = k - 1
            while slot > 0 and distance[n, slot - 1] > d2:
                distance[n, slot] = distance[n, slot - 1]
                index[n, slot] = index[n, slot - 1]
                slot -= 1
            distance[n, slot] = d2
            index[n, slot] = m
        for slot in range(k):
            distance[n, slot] = math.sqrt(distance[n, slot])


def nearest(pos: Tensor, world_of: Tensor, movers: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Indices and horizontal distances [N, k] of the k movers [K, M, 3] nearest to each drone, nearest first."""
    index = torch.empty(len(pos), k, dtype=torch.int64)
    distance = torch.empty(len(pos), k)
    _nearest(pos.contiguous().numpy(), world_of.numpy(), movers.numpy(), k, index.numpy(), distance.numpy())
    return index, distance
