"""The static world: blocks placed by NavRL's rule on a height field, as boxes, with a grid to find near boxes.

Seeded with NumPy only, so that a seed gives the same world on every device.
"""

from __future__ import annotations

import re
from bisect import bisect_right
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
_ONE_HEIGHT = re.compile(rb"([^\0])\1*")


def place_blocks(seed: int, count: int, map_half_m: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """Return corners and sides in cells [count, 4] (x, y, width, length) and heights [count] (m), in placement
    order."""
    cells = round(2 * map_half_m / CELL_M)
    draws = _Draws(seed, cells // CORNER_EVERY)
    blocks = np.zeros((count, 4), np.int64)
    heights = np.zeros(count)
    # Where a block of each shape is refused because of the blocks so far, with a margin for those at the edge.
    reach = _REFUSED.shape[1] // 2
    refused = np.zeros((len(_SHAPES), cells + 2 * reach, cells + 2 * reach), bool)
    for i in range(count):
        low, high = HEIGHT_BANDS_M[draws.band()]
        heights[i] = round(low + (high - low) * draws.uniform(), 1)
        for _ in range(MAX_DRAWS):  # accepted: about the third draw at NavRL's density
            shape, corner_x, corner_y = draws.block()
            width, length = _SHAPES[shape]
            x, y = min(corner_x * CORNER_EVERY, cells - width), min(corner_y * CORNER_EVERY, cells - length)
            if not refused.item(shape, x + reach, y + reach):
                break
        blocks[i] = x, y, width, length
        refused[:, x : x + 2 * reach + 1, y : y + 2 * reach + 1] |= _REFUSED
    return blocks, heights


_SHAPES = [(width, length) for width in BLOCK_CELLS for length in BLOCK_CELLS]


def _refused_places() -> np.ndarray:
    """Return where a new block of each shape is refused around the corner of an earlier one: [shapes, D, D] bool."""
    reach = max(BLOCK_CELLS) + REFUSED_GAP_CELLS[1]
    distance = np.abs(np.arange(-reach, reach + 1))
    places = []
    for width, length in _SHAPES:  # as in NavRL: gaps between corners, minus the new block's own sides
        gap_x, gap_y = np.meshgrid(distance - width, distance - length, indexing="ij")
        square = gap_x * gap_x + gap_y * gap_y
        near = (square >= REFUSED_GAP_CELLS[0] ** 2) & (square <= REFUSED_GAP_CELLS[1] ** 2)
        places.append(near & ((gap_x >= 0) | (gap_y >= 0)))
    return np.stack(places)


_REFUSED = _refused_places()


class _Draws:
    """The numbers of `np.random.default_rng(seed)`, drawn many at a time: those of `choice(p=HEIGHT_BAND_SHARES)`,
    `random()` and `integers()`. One by one NumPy takes 10 times as long.

    Args:
        seed: of the generator.
        corners: the number of corners along a side of the map.
    """

    _SHARES = (np.cumsum(HEIGHT_BAND_SHARES) / np.sum(HEIGHT_BAND_SHARES)).tolist()

    def __init__(self, seed: int, corners: int) -> None:
        self._bits = np.random.PCG64(seed)
        self._corners = corners
        self._half: int | None = None  # the upper 32 bits of the last number, if the next integer takes them
        self._raw: list[int] = []
        self._next = 0

    def _fill(self) -> None:
        """Draw the next numbers, and compute the blocks that any two of them make."""
        raw = self._bits.random_raw(4096)
        low, high = raw & 0xFFFFFFFF, raw >> 32
        x, y = low * self._corners, high * self._corners
        refused = (2**32 - self._corners) % self._corners
        self._plain = ((x & 0xFFFFFFFF >= refused) & (y & 0xFFFFFFFF >= refused)).tolist()
        self._shape = ((low >> 31) * len(BLOCK_CELLS) + (high >> 31)).tolist()
        self._x, self._y = (x >> 32).tolist(), (y >> 32).tolist()
        self._raw, self._next = raw.tolist(), 0

    def _number(self) -> int:
        if self._next == len(self._raw):
            self._fill()
        self._next += 1
        return self._raw[self._next - 1]

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return (self._number() >> 11) * 2.0**-53

    def band(self) -> int:
        """Return the index of a height band."""
        return bisect_right(self._SHARES, self.uniform())

    def block(self) -> tuple[int, int, int]:
        """Return the index of a shape, and a corner."""
        first, second = self._next, self._next + 1
        if second < len(self._raw) and self._half is None and self._plain[second]:
            self._next += 2
            return self._shape[first], self._x[second], self._y[second]
        shape = self._integer(len(BLOCK_CELLS)) * len(BLOCK_CELLS) + self._integer(len(BLOCK_CELLS))
        return shape, self._integer(self._corners), self._integer(self._corners)

    def _integer(self, below: int) -> int:
        """Return an integer in [0, below) of 32 bits, by Lemire's method."""
        while True:
            if self._half is None:
                number = self._number()
                bits, self._half = number & 0xFFFFFFFF, number >> 32
            else:
                bits, self._half = self._half, None
            product = bits * below
            if product & 0xFFFFFFFF >= (2**32 - below) % below:
                return product >> 32


def boxes_of(blocks: np.ndarray, heights: np.ndarray, map_half_m: float = 20.0) -> np.ndarray:
    """Return the solid boxes [M, 5] (x, y, half width, half length, height; m) of the blocks' height-field mesh.

    Heights belong to nodes, and a face is solid where all four of its nodes are raised: a block of w cells is w − 1
    cells wide, touching blocks leave no slit, and a later block overwrites an earlier one. Faces of one height are
    merged into rectangles, so a separate block is one box.
    """
    cells = round(2 * map_half_m / CELL_M)
    nodes = np.zeros((cells, cells), np.uint8)  # height in tenths of a meter
    for (x, y, width, length), height in zip(blocks.tolist(), heights.tolist(), strict=True):
        nodes[x : x + width, y : y + length] = round(height * 10)
    faces = np.minimum.reduce([nodes[:-1, :-1], nodes[1:, :-1], nodes[:-1, 1:], nodes[1:, 1:]])
    rows = [bytearray(row.tobytes()) for row in faces]  # text: a run of one height is found and compared at once
    boxes = []
    for x in range(cells - 1):
        for run in _ONE_HEIGHT.finditer(bytes(rows[x])):  # what earlier rectangles took is 0
            y, end = run.span()
            width = 1
            while x + width < cells - 1 and rows[x + width][y:end] == run[0]:
                rows[x + width][y:end] = bytes(end - y)
                width += 1
            half_x, half_y = width * CELL_M / 2, (end - y) * CELL_M / 2
            center = x * CELL_M + half_x - map_half_m, y * CELL_M + half_y - map_half_m
            boxes.append((*center, half_x, half_y, run[0][0] / 10))
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
        cells, device = 2 * half, torch.device(device)
        # Compiled kernels know these sizes: rounded up on a GPU, they are equal for most seeds, and kernels are reused.
        step = (64, 40) if device.type == "cuda" else (1, 1)
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
