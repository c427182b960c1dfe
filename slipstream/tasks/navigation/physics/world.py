"""The static world: blocks placed by NavRL's rule on a height field, as boxes, with a grid to find near boxes.

Seeded with NumPy only, so that a seed gives the same world on every device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

CELL_M = 0.1  # the height field's cell
BLOCK_CELLS = (4, 8)  # sides of a block, with equal probability
CORNER_EVERY = 4  # corners are on every 4th cell
HEIGHT_BANDS_M = ((1.0, 1.5), (1.5, 2.0), (2.0, 4.0), (4.0, 6.0))
HEIGHT_BAND_SHARES = (0.10, 0.15, 0.20, 0.55)
REFUSED_GAP_CELLS = (2, 10)  # a placement this near to an earlier block is refused
MAX_DRAWS = 100_000  # then any place is accepted


def place_blocks(seed: int, count: int, map_half_m: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """Return corners and sides in cells [count, 4] (x, y, width, length) and heights [count] (m), in placement
    order."""
    rng = np.random.default_rng(seed)
    cells = round(2 * map_half_m / CELL_M)
    blocks = np.zeros((count, 4), np.int64)
    heights = np.zeros(count)
    for i in range(count):
        low, high = HEIGHT_BANDS_M[rng.choice(len(HEIGHT_BANDS_M), p=HEIGHT_BAND_SHARES)]
        heights[i] = round(rng.uniform(low, high), 1)
        blocks[i] = _draw_block(rng, blocks[:i], cells)
    return blocks, heights


def _draw_block(rng: np.random.Generator, earlier: np.ndarray, cells: int) -> np.ndarray:
    """Return the first draw that the placement rule accepts (about the third at NavRL's density), or the last one."""
    block = np.zeros(4, np.int64)
    for _ in range(MAX_DRAWS):
        width, length = (BLOCK_CELLS[rng.integers(0, len(BLOCK_CELLS))] for _ in range(2))
        corners = (int(rng.integers(0, cells // CORNER_EVERY)) * CORNER_EVERY for _ in range(2))
        x, y = (min(corner, cells - side) for corner, side in zip(corners, (width, length), strict=True))
        block[:] = x, y, width, length
        # as in NavRL: gaps between corners, minus the new block's own sides
        gap_x = np.abs(earlier[:, 0] - x) - width
        gap_y = np.abs(earlier[:, 1] - y) - length
        square = gap_x * gap_x + gap_y * gap_y
        near = (square >= REFUSED_GAP_CELLS[0] ** 2) & (square <= REFUSED_GAP_CELLS[1] ** 2)
        if not (near & ((gap_x >= 0) | (gap_y >= 0))).any():
            break
    return block


def boxes_of(blocks: np.ndarray, heights: np.ndarray, map_half_m: float = 20.0) -> np.ndarray:
    """Return the solid boxes [M, 5] (x, y, half width, half length, height; m) of the blocks' height-field mesh.

    Heights belong to nodes, and a face is solid where all four of its nodes are raised: a block of w cells is w − 1
    cells wide, touching blocks leave no slit, and a later block overwrites an earlier one. Faces of one height are
    merged into rectangles, so a separate block is one box.
    """
    cells = round(2 * map_half_m / CELL_M)
    nodes = np.zeros((cells, cells), np.int64)  # height in tenths of a meter
    for (x, y, width, length), height in zip(blocks, heights, strict=True):
        nodes[x : x + width, y : y + length] = round(height * 10)
    faces = np.minimum.reduce([nodes[:-1, :-1], nodes[1:, :-1], nodes[:-1, 1:], nodes[1:, 1:]])
    boxes = []
    for x, y in np.argwhere(faces > 0):
        height = faces[x, y]
        if height == 0:  # taken by an earlier rectangle
            continue
        row_ends = np.flatnonzero(faces[x, y:] != height)
        length = int(row_ends[0]) if len(row_ends) else faces.shape[1] - y
        width = 1
        while x + width < faces.shape[0] and (faces[x + width, y : y + length] == height).all():
            width += 1
        faces[x : x + width, y : y + length] = 0
        half = np.array((width, length)) * CELL_M / 2
        center = np.array((x, y)) * CELL_M + half - map_half_m
        boxes.append((*center, *half, height / 10))
    return np.array(boxes, np.float32).reshape(-1, 5)


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
        worlds = [boxes_of(*place_blocks(seed, count, map_half_m), map_half_m) for seed in seeds]
        return cls.from_boxes(worlds, range_m, map_half_m, device)

    @classmethod
    def from_boxes(
        cls, worlds: list[np.ndarray], range_m: float, map_half_m: float = 20.0, device: torch.device | str = "cpu"
    ):
        """Build the grid over given boxes, one array [M, 5] per world."""
        half = int(np.ceil(map_half_m + range_m + 2))
        cells = 2 * half
        center = np.arange(cells) - half + 0.5
        most = max(len(world) for world in worlds)
        boxes = np.tile(np.array([1e4, 1e4, 0.01, 0.01, 0.1], np.float32), (len(worlds), most + 1, 1))
        found: list[tuple[np.ndarray, np.ndarray]] = []
        for k, world in enumerate(worlds):
            boxes[k, : len(world)] = world
            gap_x = np.maximum(np.abs(center[:, None] - world[:, 0]) - world[:, 2] - 0.5, 0)  # [G, M]
            gap_y = np.maximum(np.abs(center[:, None] - world[:, 1]) - world[:, 3] - 0.5, 0)
            distance = np.sqrt(gap_x[:, None] ** 2 + gap_y[None] ** 2).reshape(cells * cells, -1)
            in_range = distance <= range_m + 0.05
            order = np.argsort(np.where(in_range, distance, np.inf), 1, kind="stable")
            found.append((order, in_range.sum(1)))
        width = max(1, *(int(count.max(initial=0)) for _, count in found))
        near = np.full((len(worlds), cells * cells, width), most, np.int32)
        for k, (order, count) in enumerate(found):
            real = np.arange(min(width, order.shape[1])) < count[:, None]
            near[k, :, : real.shape[1]] = np.where(real, order[:, : real.shape[1]], most)
        count = np.stack([count for _, count in found]).astype(np.int32)
        to = lambda array: torch.from_numpy(array).to(device)  # noqa: E731
        return cls(to(boxes), to(near), to(count), float(half), cells)

    def boxes_of_world(self, k: int) -> np.ndarray:
        """Return the boxes [M, 5] of world k, without padding."""
        boxes = self.boxes[k].cpu().numpy()
        return boxes[np.abs(boxes[:, 0]) < 1e3]

    def cell_of(self, pos: Tensor) -> Tensor:
        """Return the cell index [N] of positions [N, 3]."""
        # NaN would be no valid index
        ij = torch.nan_to_num(pos[:, :2] + self.half_m).clamp(0, self.cells - 1e-3).long()
        return ij[:, 0] * self.cells + ij[:, 1]
