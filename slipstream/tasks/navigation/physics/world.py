"""The static world: boxes, with a grid to find those near a drone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slipstream.sim.processes import map_in_processes
from slipstream.tasks.navigation.physics.maps import place_boxes


@dataclass
class WorldGrid:
    """K static worlds on one device, with the boxes within LiDAR range of each square meter.

    The outermost cells are empty: positions outside the grid are clamped to them.
    """

    # [K, M + 1, 5] float32 (x, y, half width, half length, height); the last, and any padding, is far away
    boxes: Tensor
    near: Tensor  # [K, G * G, C] int32: the boxes in range of each cell, nearest first, padded with M
    count: Tensor  # [K, G * G] int32: how many of them are real
    half_m: float  # the grid covers ±half_m
    cells: int  # G, cells of 1 m along a side

    @classmethod
    def generate(
        cls, seeds: list[int], count: int, range_m: float, map_half_m: float = 20.0, device: torch.device | str = "cpu"
    ):
        """Generate one world of `count` obstacles per seed."""
        worlds = map_in_processes(place_boxes, [(seed, count, map_half_m) for seed in seeds])
        return cls.from_boxes(worlds, range_m, map_half_m, device)

    @classmethod
    def from_boxes(
        cls, worlds: list[np.ndarray], range_m: float, map_half_m: float = 20.0, device: torch.device | str = "cpu"
    ):
        """Build the grid over given boxes, one array [M, 5] per world."""
        half = int(np.ceil(map_half_m + range_m + 2))
        cells, device = 2 * half, torch.device(device)
        # Compiled kernels know these sizes: rounded up on a GPU, they are equal for most seeds, and kernels are reused.
        # Triton compiles another kernel for sizes that are no multiples of 16.
        step = (64, 48) if device.type == "cuda" else (1, 1)
        most = -(-(max(len(world) for world in worlds) + 1) // step[0]) * step[0] - 1
        padded = np.tile(np.array([1e4, 1e4, 0.01, 0.01, 0.1], np.float32), (len(worlds), most + 1, 1))
        for k, world in enumerate(worlds):
            padded[k, : len(world)] = world
        place = torch.device("cpu") if device.type == "meta" else device  # sizes depend on values
        boxes = torch.from_numpy(padded).to(place)
        center = torch.arange(cells, dtype=torch.float64, device=place)[:, None] - half + 0.5
        found = [_boxes_in_range(boxes[k, : len(world)].double(), center, range_m) for k, world in enumerate(worlds)]
        count = torch.stack([counts for _, counts in found])
        width = -(-max(1, *(near.shape[1] for near, _ in found)) // step[1]) * step[1]
        near = torch.full((len(worlds), cells * cells, width), most, dtype=torch.int32, device=place)
        for k, (mine, counts) in enumerate(found):
            real = torch.arange(mine.shape[1], device=place) < counts[:, None]
            near[k, :, : mine.shape[1]] = torch.where(real, mine, most)
        return cls(boxes.to(device), near.to(device), count.int().to(device), float(half), cells)

    def boxes_of_world(self, k: int) -> np.ndarray:
        """Return the boxes [M, 5] of world k, without padding."""
        boxes = self.boxes[k].cpu().numpy()
        return boxes[np.abs(boxes[:, 0]) < 1e3]

    def cell_of(self, pos: Tensor) -> Tensor:
        """Return the cell index [N] of positions [N, 3]."""
        # NaN would be no valid index
        ij = torch.nan_to_num(pos[:, :2] + self.half_m).clamp(0, self.cells - 1e-3).long()
        return ij[:, 0] * self.cells + ij[:, 1]


def _boxes_in_range(world: Tensor, center: Tensor, range_m: float) -> tuple[Tensor, Tensor]:
    """Return the boxes of `world` [M, 5] in range of each cell, nearest first [G * G, C], and their numbers [G * G]."""
    gap_x = ((center - world[:, 0]).abs() - world[:, 2] - 0.5).clamp(min=0)  # [G, M]
    gap_y = ((center - world[:, 1]).abs() - world[:, 3] - 0.5).clamp(min=0)
    distance = (gap_x.square()[:, None] + gap_y.square()[None]).sqrt().flatten(0, 1)
    in_range = distance <= range_m + 0.05
    counts = in_range.sum(1)
    cell, box = in_range.nonzero(as_tuple=True)  # by cell, then by box
    column = torch.arange(len(cell), device=world.device) - (counts.cumsum(0) - counts)[cell]
    width = int(counts.max()) if len(counts) else 0
    near = distance.new_full((len(counts), width), torch.inf)
    near[cell, column] = distance[cell, box]
    boxes = torch.zeros_like(near, dtype=torch.int64)
    boxes[cell, column] = box
    return boxes.gather(1, near.sort(dim=1, stable=True).indices), counts
