"""Generate maps: where the blocks of a static world are, by NavRL's rule on a height field, and where moving obstacles
start.

Seeded with NumPy only, so that a seed gives the same map on every device; without torch, which takes seconds to import.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right

import numpy as np

CELL_M = 0.1  # the height field's cell
BLOCK_CELLS = (4, 8)  # sides of a block, with equal probability
CORNER_EVERY = 4  # corners are on every 4th cell
HEIGHT_BANDS_M = ((1.0, 1.5), (1.5, 2.0), (2.0, 4.0), (4.0, 6.0))
HEIGHT_BAND_SHARES = (0.10, 0.15, 0.20, 0.55)
_BAND_ENDS = (np.cumsum(HEIGHT_BAND_SHARES) / np.sum(HEIGHT_BAND_SHARES)).tolist()
REFUSED_GAP_CELLS = (2, 10)  # a placement this near to an earlier block is refused
MAX_DRAWS = 100_000  # then any place is accepted
DRAWS_BEFORE_RELAXING = 200  # for a moving obstacle
_ONE_HEIGHT = re.compile(rb"([^\0])\1*")


def place_blocks(seed: int, count: int, map_half_m: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """Return corners and sides in cells [count, 4] (x, y, width, length) and heights [count] (m), in placement
    order."""
    cells = round(2 * map_half_m / CELL_M)
    rng = np.random.default_rng(seed)
    choices = np.array((len(BLOCK_CELLS), len(BLOCK_CELLS), cells // CORNER_EVERY, cells // CORNER_EVERY))
    blocks = np.zeros((count, 4), np.int64)
    heights = np.zeros(count)
    # Where a block of each shape is refused because of the blocks so far, with a margin for those at the edge.
    reach = _REFUSED.shape[1] // 2
    refused = np.zeros((len(_SHAPES), cells + 2 * reach, cells + 2 * reach), bool)
    for i in range(count):
        low, high = HEIGHT_BANDS_M[bisect_right(_BAND_ENDS, rng.random())]  # as rng.choice(p=...), but 20 times faster
        heights[i] = round(low + (high - low) * rng.random(), 1)
        for _ in range(MAX_DRAWS):  # accepted: about the third draw at NavRL's density
            wide, long, corner_x, corner_y = rng.integers(choices).tolist()
            shape, width, length = len(BLOCK_CELLS) * wide + long, BLOCK_CELLS[wide], BLOCK_CELLS[long]
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


def place_boxes(seed: int, count: int, map_half_m: float) -> np.ndarray:
    """Return the boxes [M, 5] of a static world of `count` blocks."""
    return boxes_of(*place_blocks(seed, count, map_half_m), map_half_m)


def place_moving(seed: int, count: int, map_half_m: float, top_m: float) -> np.ndarray:
    """Return where moving obstacles start [count, 3] (m): the first half below `top_m`, the others at height 0."""
    rng = np.random.default_rng(seed)
    places = np.zeros((count, 3), np.float32)
    places[:, :2] = spread_evenly(rng, count, map_half_m)[rng.permutation(count)]
    places[: count // 2, 2] = rng.uniform(0, top_m, count // 2)
    return places


def spread_evenly(rng: np.random.Generator, count: int, half_m: float) -> np.ndarray:
    """Return points [count, 2] in ±half_m at least 2·half_m/sqrt(count) apart, or less where no place is left."""
    points = np.zeros((count, 2))
    for i in range(count):
        apart = 2 * math.sqrt(half_m * half_m / count)
        while True:
            draws = rng.uniform(-half_m, half_m, (DRAWS_BEFORE_RELAXING, 2))
            first = _first_free(draws, points[:i], apart)
            if first is not None:
                points[i] = draws[first]
                break
            apart *= 0.8
    return points


def _first_free(draws: np.ndarray, points: np.ndarray, apart: float) -> int | None:
    """Return the first of `draws` [D, 2] that is at least `apart` from all `points` [P, 2]; None if there is none."""
    for part in (slice(16), slice(16, None)):  # mostly one of the first
        x = draws[part, :1] - points[:, 0]
        y = draws[part, 1:] - points[:, 1]
        x *= x
        y *= y
        x += y
        free = np.sqrt(x.min(1, initial=np.inf)) >= apart
        first = int(free.argmax())
        if free[first]:
            return first + (part.start or 0)
    return None
