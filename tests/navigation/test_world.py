"""The static world against the placement rule as the specification words it, checked by brute force."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch

from slipstream.tasks.navigation.physics import maps
from slipstream.tasks.navigation.physics.maps import boxes_of, place_blocks
from slipstream.tasks.navigation.physics.world import WorldGrid


@cache
def _placed(seed: int, count: int = 350, half: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    return place_blocks(seed, count, half)


def _refused(new: list[int], earlier: list[int]) -> bool:
    """The specification's sentence, word for word."""
    x, y, width, length = new
    dx, dy = abs(earlier[0] - x) - width, abs(earlier[1] - y) - length
    if dx < 0 and dy < 0:
        return False
    return 2 <= math.sqrt(dx**2 + dy**2) <= 10


def _first_broken_pair(blocks: np.ndarray) -> tuple[int, int] | None:
    rows = blocks.tolist()
    return next(((i, j) for i in range(len(rows)) for j in range(i) if _refused(rows[i], rows[j])), None)


@pytest.mark.parametrize("seed", [1, 101, 2**60])
def test_no_block_breaks_the_placement_rule(seed):
    assert _first_broken_pair(_placed(seed)[0]) is None


def test_a_block_that_stands_alone_is_0_3_or_0_7_m_wide_from_its_corner():
    boxes = boxes_of(np.array([(200, 240, 4, 8)]), np.array([1.7]))
    np.testing.assert_allclose(boxes, [(0.15, 4.35, 0.15, 0.35, 1.7)], atol=1e-6)


def test_a_seed_always_gives_the_world_it_gave_first():
    blocks, heights = _placed(201)  # a map of published figures, as the prototype drew it
    assert blocks[[0, 1, 2, 349]].tolist() == [[308, 236, 8, 4], [256, 216, 8, 4], [148, 220, 4, 8], [228, 340, 8, 4]]
    assert heights[[0, 1, 2, 349]].tolist() == [5.1, 5.0, 5.9, 5.6]


def _drawn_one_by_one(seed, count, half):
    """The placement as its first version drew it, number by number with NumPy's generator."""
    rng, cells = np.random.default_rng(seed), round(20 * half)
    blocks, heights = [], []
    for _ in range(count):
        low, high = maps.HEIGHT_BANDS_M[rng.choice(4, p=maps.HEIGHT_BAND_SHARES)]
        heights.append(round(rng.uniform(low, high), 1))
        while True:
            width, length = ((4, 8)[rng.integers(0, 2)] for _ in range(2))
            x, y = (int(rng.integers(0, cells // 4)) * 4 for _ in range(2))
            block = [min(x, cells - width), min(y, cells - length), width, length]
            if not any(_refused(block, earlier) for earlier in blocks):
                break
        blocks.append(block)
    return blocks, heights


@pytest.mark.parametrize(("seed", "count", "half"), [(1, 120, 20.0), (2**62 + 5, 30, 7.35), (301, 40, 10.05)])
def test_maps_are_those_of_numpys_generator(seed, count, half):
    blocks, heights = place_blocks(seed, count, half)
    assert (blocks.tolist(), heights.tolist()) == _drawn_one_by_one(seed, count, half)


def test_a_world_is_the_same_alone_and_among_others():
    alone, among = WorldGrid.generate([7], 40, 4.0), WorldGrid.generate([3, 7], 40, 4.0)
    num = len(boxes_of(*_placed(7, 40)))
    assert torch.equal(alone.boxes[0, :num], among.boxes[1, :num])
    assert torch.equal(alone.count[0], among.count[1])


# -- from blocks to boxes --------------------------------------------------------------------------------------------


def _height_at(boxes: np.ndarray, x: float, y: float) -> float:
    inside = (np.abs(boxes[:, 0] - x) <= boxes[:, 2] + 1e-6) & (np.abs(boxes[:, 1] - y) <= boxes[:, 3] + 1e-6)
    return float(boxes[inside, 4].max(initial=0.0))


def test_blocks_that_touch_leave_no_slit():
    boxes = boxes_of(np.array([(200, 200, 4, 4), (204, 200, 8, 4)]), np.array([3.0, 2.0]))
    along = [_height_at(boxes, x, 0.15) for x in np.arange(0.005, 1.1, 0.01)]  # nodes 0 to 11: 1.1 m
    assert min(along) == pytest.approx(2.0)
    assert _height_at(boxes, 0.25, 0.15) == pytest.approx(3.0)
    assert _height_at(boxes, 0.45, 0.15) == pytest.approx(2.0)
    assert _height_at(boxes, 1.115, 0.15) == 0


def test_blocks_one_cell_apart_leave_a_slit():
    boxes = boxes_of(np.array([(200, 200, 4, 4), (205, 200, 4, 4)]), np.array([3.0, 3.0]))
    assert _height_at(boxes, 0.4, 0.15) == 0


def test_a_later_block_overwrites_an_earlier_one():
    blocks = np.array([(200, 200, 8, 8), (204, 204, 4, 4)])
    high_then_low, low_then_high = (boxes_of(blocks, np.array(heights)) for heights in ((5.0, 1.0), (1.0, 5.0)))
    assert _height_at(high_then_low, 0.55, 0.55) == pytest.approx(1.0)
    assert _height_at(high_then_low, 0.15, 0.15) == pytest.approx(5.0)
    assert _height_at(low_then_high, 0.55, 0.55) == pytest.approx(5.0)
    assert _height_at(low_then_high, 0.15, 0.15) == pytest.approx(1.0)


def test_boxes_cover_every_solid_face_once_and_nothing_else():
    blocks, heights = _placed(1)
    nodes = np.zeros((400, 400), int)
    for (x, y, width, length), height in zip(blocks.tolist(), heights.tolist(), strict=True):
        for i in range(x, x + width):
            for j in range(y, y + length):
                nodes[i, j] = round(height * 10)
    covered = np.zeros((399, 399), int)
    for x, y, hx, hy, height in boxes_of(blocks, heights).astype(float):
        low, high = (
            (round((x - hx + 20) * 10), round((y - hy + 20) * 10)),
            (round((x + hx + 20) * 10), round((y + hy + 20) * 10)),
        )
        for i in range(low[0], high[0]):
            for j in range(low[1], high[1]):
                assert covered[i, j] == 0
                covered[i, j] = round(height * 10)
                assert covered[i, j] == min(nodes[i, j], nodes[i + 1, j], nodes[i, j + 1], nodes[i + 1, j + 1])
    solid = np.minimum(np.minimum(nodes[:-1, :-1], nodes[1:, :-1]), np.minimum(nodes[:-1, 1:], nodes[1:, 1:]))
    assert np.array_equal(covered, solid)


# -- odd sizes -------------------------------------------------------------------------------------------------------


def test_a_world_without_obstacles_has_no_boxes_and_a_grid():
    assert boxes_of(*place_blocks(1, 0)).shape == (0, 5)
    grid = WorldGrid.generate([1, 2], 0, 4.0)
    assert grid.count.sum() == 0


@pytest.mark.parametrize("half", [2.0, 3.0, 7.5])
def test_small_maps_keep_their_blocks_inside(half):
    blocks, heights = place_blocks(5, 6, half)
    boxes = boxes_of(blocks, heights, half)
    assert (np.abs(boxes[:, :2]) + boxes[:, 2:4] <= half + 1e-5).all()
    assert _first_broken_pair(blocks) is None


def test_a_block_is_accepted_anyway_when_the_draws_run_out(monkeypatch):
    monkeypatch.setattr(maps, "MAX_DRAWS", 3)
    blocks, heights = place_blocks(5, 60, 2.0)
    assert len(blocks) == len(heights) == 60 and (blocks[:, 2] >= 4).all()
    assert _first_broken_pair(blocks) is not None


def test_the_outermost_cells_of_the_grid_are_empty():
    for half, range_m in ((20.0, 4.0), (3.3, 6.7)):
        grid = WorldGrid.generate([1], 10, range_m, half)
        count = grid.count[0].view(grid.cells, grid.cells)
        assert max(count[0].max(), count[-1].max(), count[:, 0].max(), count[:, -1].max()) == 0
