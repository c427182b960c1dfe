"""Moving obstacles by what the specification says of their number, shapes and ways."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream.config.compose import load_train
from slipstream.tasks.navigation.env import NavigationEnv
from slipstream.tasks.navigation.physics.maps import DRAWS_BEFORE_RELAXING, spread_evenly
from slipstream.tasks.navigation.physics.obstacles import MovingObstacles, MovingObstaclesConfig

DT_S = 0.016
REDRAW_STEPS = 125  # 2 s


def _make(
    num: int = 80, seeds: tuple[int, ...] = (1,), backend: str = "auto", device: str = "cpu", **config
) -> MovingObstacles:
    settings = MovingObstaclesConfig(num_obstacles=num, **config)
    return MovingObstacles(settings, list(seeds), DT_S, 20.0, device, backend)


def _fly(movers: MovingObstacles, steps: int) -> dict[str, torch.Tensor]:
    """The state after each step, [steps, K, M, 3]."""
    log: dict[str, list] = {"pos": [], "vel": [], "goal": []}
    for _ in range(steps):
        movers.advance()
        for name, rows in log.items():
            rows.append(getattr(movers, name).clone())
    return {name: torch.stack(rows) for name, rows in log.items()}


@pytest.mark.parametrize(("asked", "there"), [(0, 0), (8, 8), (15, 8), (80, 80), (87, 80)])
@pytest.mark.filterwarnings("ignore:.*rounded down")
def test_the_number_is_rounded_down_to_a_multiple_of_8(asked, there):
    movers = _make(asked)
    movers.advance()
    assert movers.count == there and movers.pos.shape == (1, there, 3)


def test_rounding_is_printed_once_with_the_number_used():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for word in ("env_dyn.num_obstacles=20", "env_dyn.num_obstacles=20", "env_dyn.num_obstacles=16"):
            cfg = load_train([word, "env.num_envs=2", "env.num_obstacles=0"])
            assert NavigationEnv(2, config=cfg.env).movers.count == 16
    assert [str(one.message) for one in shown] == [
        "env.dyn.num_obstacles=20 is rounded down to 16 (four widths of two kinds)"
    ]


@pytest.mark.parametrize("number", [-8, 1, 7])
def test_a_number_that_cannot_be_shared_out_is_refused(number):
    with pytest.raises(ValueError, match="env_dyn.num_obstacles"):
        MovingObstaclesConfig(num_obstacles=number)


def test_half_are_boxes_of_1_m_half_are_pillars_of_5_m_each_in_four_widths():
    movers = _make(80)
    columns = (movers.pillar, movers.width, movers.height, movers.width_class)
    kinds = list(zip(*(column.tolist() for column in columns), strict=True))
    expected = {(pillar, 0.25 * (c + 1), 5.0 if pillar else 1.0, c): 10 for pillar in (False, True) for c in range(4)}
    assert {kind: kinds.count(kind) for kind in set(kinds)} == expected


def test_origins_lie_in_the_map_and_far_apart():
    origin = _make(80).origin[0]
    assert (origin[:, :2].abs() <= 20).all() and (origin[:, 2] >= 0).all() and (origin[:, 2] <= 4.5).all()
    assert (origin[40:, 2] == 2.5).all()
    apart = torch.cdist(origin[:, :2], origin[:, :2]) + 1e3 * torch.eye(80)
    preferred = 2 * math.sqrt(20 * 20 / 80)
    assert apart.min() >= preferred * 0.8**3
    assert apart.min(1).values.median() > 0.6 * preferred


def test_the_first_draw_that_is_free_is_taken():
    mine, theirs = np.random.default_rng(7), np.random.default_rng(7)
    points = np.zeros((30, 2))
    for i in range(30):
        apart = 2 * math.sqrt(20.0**2 / 30)
        while True:
            draws = theirs.uniform(-20.0, 20.0, (DRAWS_BEFORE_RELAXING, 2))
            free = (np.linalg.norm(points[None, :i] - draws[:, None], axis=-1) >= apart).all(1)
            if free.any():
                break
            apart *= 0.8
        points[i] = draws[free.argmax()]
    assert np.array_equal(spread_evenly(mine, 30, 20.0), points) and mine.random() == theirs.random()


def test_kinds_and_widths_are_not_sorted_by_place():
    origin = torch.cat([_make(80, (seed,)).origin for seed in range(20)])
    assert origin[:, :40, 0].mean().abs() < 1.5 and origin[:, 40:, 0].mean().abs() < 1.5  # standard error 0.4


def test_goals_lie_around_the_origin_inside_the_map():
    movers = _make(80, speed_mps=(3.0, 4.0))  # fast, so that many goals are reached
    goals = _fly(movers, 3000)["goal"]
    rel = (goals - movers.origin).flatten(0, 1)
    assert rel[..., :2].abs().max() <= 5 + 1e-5 and goals[..., :2].abs().max() <= 20
    boxes, pillars = goals[:, :, :40, 2], goals[:, :, 40:, 2]
    assert boxes.min() >= 0 and boxes.max() <= 4.5 and (pillars == 2.5).all()
    down_up = rel[:, :40, 2]
    assert down_up.min() >= -5 - 1e-5 and down_up.max() <= 4 + 1e-5
    assert rel[..., 0].min() < -4 and rel[..., 0].max() > 4 and rel[..., 1].min() < -4 and rel[..., 1].max() > 4
    assert down_up.min() < -3 and down_up.max() > 3


def test_speed_and_heading_change_every_2_s_and_they_fly_straight_between():
    log = _fly(_make(), 1000)
    changed = (log["vel"][1:] != log["vel"][:-1]).any(-1).flatten(1)  # [999, M], row t: step t + 1 differs from step t
    at_redraw = torch.arange(1, 1000) % REDRAW_STEPS == 0
    assert changed[at_redraw].all() and not changed[~at_redraw].any()
    torch.testing.assert_close(log["pos"][1:] - log["pos"][:-1], log["vel"][1:] * DT_S, atol=4e-6, rtol=0)


def test_speeds_fill_half_to_one_and_a_half_m_s_uniformly():
    log = _fly(_make(), 20 * REDRAW_STEPS)
    speed = log["vel"][::REDRAW_STEPS].norm(dim=-1).flatten()  # 1,600 draws
    assert speed.min() >= 0.5 - 1e-5 and speed.max() <= 1.5 + 1e-5
    assert speed.mean() == pytest.approx(1.0, abs=0.04) and speed.std() == pytest.approx(1 / math.sqrt(12), abs=0.02)


def test_at_a_redraw_the_heading_points_to_the_goal():
    movers = _make()
    for k in range(5):
        before = movers.pos.clone()
        movers.advance()
        way = movers.goal - before
        assert torch.nn.functional.cosine_similarity(way, movers.vel, dim=-1).min() > 1 - 1e-5, k
        for _ in range(REDRAW_STEPS - 1):
            movers.advance()


def test_a_new_goal_comes_when_the_old_one_is_closer_than_half_a_meter_and_only_then():
    movers = _make()
    changes = 0
    for _ in range(1500):
        distance, goal = (movers.goal - movers.pos).norm(dim=-1), movers.goal.clone()
        movers.advance()
        changed = (movers.goal != goal).any(-1)
        clear = (distance - 0.5).abs() > 1e-5
        assert torch.equal(changed[clear], (distance < 0.5)[clear])
        changes += int(changed.sum())
    assert changes > 160  # more than the first goals


def test_native_code_moves_them_as_pytorch_does():
    native, plain = (_fly(_make(seeds=(1, 2, 3), backend=backend), 1200) for backend in ("native", "torch"))
    assert torch.equal(native["goal"][0], plain["goal"][0])
    for name, rows in plain.items():
        torch.testing.assert_close(native[name], rows, atol=2e-3, rtol=0)


KERNEL = """
import sys
import torch
from slipstream.tasks.navigation.physics import sensors_triton
from slipstream.tasks.navigation.physics.obstacles import ARRIVAL_M, TOP_M
from test_obstacles import _make

kernel, plain = (_make(seeds=(1, 2, 3), backend="torch", device=sys.argv[1]) for _ in range(2))
for k in range(int(sys.argv[2])):
    sensors_triton.roam(kernel, 5, TOP_M, ARRIVAL_M)
    plain.advance(5)
    for name in ("pos", "vel", "goal", "clock"):
        torch.testing.assert_close(getattr(kernel, name), getattr(plain, name), atol=2e-3, rtol=0)
"""


def _run_kernel(device: str, calls: int, **environ: str) -> None:
    pytest.importorskip("triton")
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)} | environ
    command = [sys.executable, "-c", KERNEL, device, str(calls)]
    subprocess.run(command, env=env, cwd=Path(__file__).parents[2], check=True)


def test_the_interpreted_kernel_moves_them_as_pytorch_does():
    _run_kernel("cpu", 30, TRITON_INTERPRET="1")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_gpu_kernel_moves_them_as_pytorch_does():
    _run_kernel("cuda", 240)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_several_steps_at_once_are_the_same_steps(backend):
    one, many = _make(seeds=(1, 2), backend=backend), _make(seeds=(1, 2), backend=backend)
    for _ in range(40):
        many.advance(8)
    _fly(one, 320)
    assert int(many.clock) == 320
    assert torch.equal(one.pos, many.pos) and torch.equal(one.vel, many.vel) and torch.equal(one.goal, many.goal)


def test_pillars_stay_upright_at_their_height():
    assert (_fly(_make(), 600)["pos"][:, :, 40:, 2] == 2.5).all()


def test_a_world_moves_alike_alone_and_among_others():
    alone, among = _fly(_make(seeds=(5,)), 300)["pos"], _fly(_make(seeds=(3, 5, 9)), 300)["pos"]
    assert torch.equal(alone[:, 0], among[:, 1])
    assert not torch.equal(among[:, 0], among[:, 1])


def test_same_seed_same_ways_and_other_seeds_others():
    assert torch.equal(_fly(_make(), 200)["pos"], _fly(_make(), 200)["pos"])
    assert not torch.equal(_make(seeds=(1,)).origin, _make(seeds=(2,)).origin)


@pytest.mark.parametrize("worlds", [1, 3])
def test_the_nearest_are_found_by_horizontal_distance(worlds):
    movers = _make(24, tuple(range(worlds)), "torch")
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(50, 3, generator=generator) * torch.tensor((44.0, 44.0, 4.0)) - torch.tensor((22.0, 22.0, 0.0))
    world_of = torch.arange(50) * worlds // 50
    index, distance = movers.nearest(pos, world_of, 5)
    for drone in range(50):
        flat = [math.dist(pos[drone, :2].tolist(), there[:2].tolist()) for there in movers.pos[world_of[drone]]]
        order = sorted(range(24), key=flat.__getitem__)[:5]
        assert index[drone].tolist() == order
        assert distance[drone].tolist() == pytest.approx([flat[i] for i in order], rel=1e-5)


@pytest.mark.parametrize("count", [8, 80])
def test_the_native_detector_reports_what_the_plain_one_does(count):
    native, plain = _make(count, (1, 2), "native"), _make(count, (1, 2), "torch")
    for movers in (native, plain):
        _fly(movers, 130)
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(400, 3, generator=generator) * torch.tensor((44.0, 44.0, 4.0)) - torch.tensor((22.0, 22.0, 0.0))
    world_of = torch.arange(400) * 2 // 400
    pos[:200:8] = plain.pos[0, :8].repeat(4, 1)[:25] + 0.2  # some overlap
    angle = torch.rand(400, generator=generator) * 6.3
    heading = torch.stack((angle.cos(), angle.sin()), -1)
    expected = plain.sense(pos, heading, world_of, 10, 4.0, 0.3)
    actual = native.sense(pos, heading, world_of, 10, 4.0, 0.3)
    assert expected.hit.any() and (expected.rows[..., 3] > 0).any() and (expected.rows == 0).all(-1).any()
    torch.testing.assert_close(actual.rows, expected.rows, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(actual.clearance, expected.clearance, rtol=1e-4, atol=1e-5)
    assert torch.equal(actual.hit, expected.hit)
