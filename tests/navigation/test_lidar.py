"""Every fast LiDAR against the oracle: no beam may be wrong by 1 cm, anywhere."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from slipstream.tasks.navigation.physics.lidar import Lidar, LidarConfig
from slipstream.tasks.navigation.physics.maps import boxes_of, place_blocks
from slipstream.tasks.navigation.physics.world import WorldGrid

TOLERANCE_M = 1e-3
MAP_HALF_M = 20.0


@dataclass
class Scene:
    """Drones in worlds, and the beams they look with."""

    worlds: list[np.ndarray]  # each [M, 5]
    pos: Tensor  # [N, 3]
    yaw: Tensor  # [N]
    world_of: Tensor  # [N]
    config: LidarConfig

    def lidar(self, backend: str) -> Lidar:
        grid = WorldGrid.from_boxes(self.worlds, self.config.range_m, MAP_HALF_M)
        return Lidar(self.config, grid, self.world_of, backend)

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """The oracle's distances and the beams that graze, [N, azimuths, elevations]."""
        things = [oracle.StaticThings(world) for world in self.worlds]
        return _look([things[k] for k in self.world_of.tolist()], self.pos, self.yaw, self.config)


def _look(things: list, pos: Tensor, yaw: Tensor, config: LidarConfig) -> tuple[np.ndarray, np.ndarray]:
    scans = [
        oracle.scan(thing, tuple(at), turn, config.azimuths, config.elevations_deg, config.range_m)
        for thing, at, turn in zip(things, pos.double().tolist(), yaw.double().tolist(), strict=True)
    ]
    truth, grazes = zip(*scans, strict=True)
    return np.stack(truth), np.stack(grazes)


def assert_agrees(distance: Tensor, truth: np.ndarray, grazes: np.ndarray) -> None:
    """No beam off by the tolerance, but for those that graze an edge."""
    assert distance.shape == truth.shape and distance.dtype == torch.float32
    error = np.where(grazes, 0.0, np.abs(distance.double().numpy() - truth))
    worst = np.unravel_index(error.argmax(), error.shape)
    assert error.max() < TOLERANCE_M, f"drone, azimuth, elevation {worst}: {distance[worst]} instead of {truth[worst]}"


def _draw(rng: np.random.Generator, num: int, low: tuple, high: tuple) -> Tensor:
    return torch.from_numpy(rng.uniform(low, high, (num, 3)).astype(np.float32))


def _yaw(rng: np.random.Generator, num: int) -> Tensor:
    return torch.from_numpy(rng.uniform(-7, 7, num).astype(np.float32))


@cache
def _world(seed: int, count: int = 350) -> np.ndarray:
    return boxes_of(*place_blocks(seed, count, MAP_HALF_M), MAP_HALF_M)


def _one_world(rng: np.random.Generator, world: np.ndarray, pos: Tensor, config: LidarConfig | None = None) -> Scene:
    return Scene([world], pos, _yaw(rng, len(pos)), torch.zeros(len(pos), dtype=torch.int64), config or LidarConfig())


def _field(rng):
    return _one_world(rng, _world(1), _draw(rng, 24, (-20, -20, 0.1), (20, 20, 4.5)))


def _above_low_boxes(rng):
    low = _world(2)[_world(2)[:, 4] < 2.5][:10]
    above = np.concatenate((low[:, :2], low[:, 4:]), 1) + rng.uniform(
        (-0.1, -0.1, 0.01), (0.1, 0.1, 0.2), (len(low), 3)
    )
    return _one_world(rng, _world(2), torch.from_numpy(above.astype(np.float32)))


def _inside_boxes(rng):
    boxes = _world(3)[:8]
    inside = np.concatenate((boxes[:, :2], boxes[:, 4:] / 2), 1)
    return _one_world(rng, _world(3), torch.from_numpy(inside.astype(np.float32)))


def _edge_and_outside(rng):
    places = [(20, 3), (-20, -7), (5, 20), (19.9, 19.9), (-20, 20), (24, 0), (-23.9, 23.9)]
    places += [(26, 2), (-26, -26), (25.99, -3), (90, -4), (-1e6, 1e6)]
    pos = torch.tensor([(*xy, 0.2 + 0.3 * i) for i, xy in enumerate(places)], dtype=torch.float32)
    return _one_world(rng, _world(4), pos)


def _cell_borders_and_axes(rng):
    shifted = _world(5) + np.array((0.037, 0.053, 0, 0, 0), np.float32)  # no drone exactly on a face
    scene = _one_world(rng, shifted, torch.floor(_draw(rng, 12, (-20, -20, 1), (20, 20, 3))))
    scene.pos[4:8, 0] += 1e-6
    scene.pos[8:, 1] -= 2e-6
    scene.yaw = torch.arange(12) * (math.pi / 2)  # beams along the axes
    return scene


def _several_worlds(rng):
    worlds = [_world(6), _world(7, 40), _world(8, 0), _world(9, 200)]
    pos = _draw(rng, 16, (-20, -20, 0.1), (20, 20, 4))
    return Scene(worlds, pos, _yaw(rng, 16), torch.tensor([0, 1, 2, 3] * 4), LidarConfig())


def _other_beams(rng):
    config = LidarConfig(range_m=6.5, azimuths=7, elevations_deg=(-79.0, -33.0, 0.0, 5.0, 45.0))
    return _one_world(rng, _world(1), _draw(rng, 20, (-21, -21, 0.1), (21, 21, 5)), config)


def _one_beam(rng):
    return _one_world(
        rng, _world(1), _draw(rng, 40, (-20, -20, 0.1), (20, 20, 4)), LidarConfig(azimuths=1, elevations_deg=(0.0,))
    )


def _many_beams(rng):
    return _one_world(
        rng, _world(2), _draw(rng, 4, (-20, -20, 0.1), (20, 20, 4)), LidarConfig(azimuths=720, elevations_deg=(-3.0,))
    )


def _no_obstacles(rng):
    return _one_world(rng, _world(1, 0), _draw(rng, 6, (-20, -20, 0.05), (20, 20, 4)))


def _long_walls(rng):
    walls = np.array(
        [(0, 3, 15, 0.05, 2.0), (3, 0, 0.05, 19, 1.2), (-4, -4, 3, 3, 0.5), (-4, -4, 0.5, 0.5, 3.0)], np.float32
    )
    return _one_world(rng, walls, _draw(rng, 12, (-8, -6, 0.1), (8, 6, 3)))


SCENES = {
    scene.__name__.strip("_"): scene
    for scene in (
        _field, _above_low_boxes, _inside_boxes, _edge_and_outside, _cell_borders_and_axes, _several_worlds,
        _other_beams, _one_beam, _many_beams, _no_obstacles, _long_walls,
    )
}  # fmt: skip


@cache
def _scene(name: str) -> tuple[Scene, np.ndarray, np.ndarray]:
    scene = SCENES[name](np.random.default_rng(11))
    return scene, *scene.truth()


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("name", SCENES)
def test_no_beam_differs_from_the_oracle(name, backend):
    scene, truth, grazes = _scene(name)
    assert grazes.mean() < 0.02
    assert_agrees(scene.lidar(backend).scan(scene.pos, scene.yaw), truth, grazes)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", SCENES)
def test_no_beam_of_the_gpu_kernel_differs_from_the_oracle(name):
    scene, truth, grazes = _scene(name)
    grid = WorldGrid.from_boxes(scene.worlds, scene.config.range_m, MAP_HALF_M, "cuda")
    lidar = Lidar(scene.config, grid, scene.world_of.cuda(), "triton")
    assert_agrees(lidar.scan(scene.pos.cuda(), scene.yaw.cuda()).cpu(), truth, grazes)


INTERPRETED = """
import sys
import torch
from test_lidar import MOVING_SCENES, SCENES, _moving_scene
from slipstream.tasks.navigation.physics import sensors_triton
from slipstream.tasks.navigation.physics.lidar import Rays
import numpy as np
scans = {}
for name, make in SCENES.items():
    scene = make(np.random.default_rng(11))
    scans[name] = sensors_triton.LidarScan(scene.lidar("torch"))(scene.pos, scene.yaw)
for form in MOVING_SCENES:
    movers, scene = _moving_scene(*form)
    lidar = scene.lidar("torch")
    lidar.backend, lidar.rays = "triton", Rays.build(scene.config.directions(), "triton")
    scans[form] = lidar.scan_movers(scene.pos, scene.yaw, movers)
pos, world_of, movers = torch.load(sys.argv[1])
scans["nearest"] = sensors_triton.nearest(pos, world_of, movers, 5)
torch.save(scans, sys.argv[2])
"""


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """What the Triton kernels give when they are interpreted on the CPU."""
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("triton")
    given_, result = folder / "nearest.pt", folder / "scans.pt"
    rng = np.random.default_rng(5)
    pos, movers = _draw(rng, 33, (-9, -9, 0), (9, 9, 4)), _draw(rng, 48, (-9, -9, 0), (9, 9, 4)).view(2, 24, 3)
    torch.save((pos, torch.arange(33) % 2, movers), given_)
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parent)}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", INTERPRETED, str(given_), str(result)], env=env, cwd=root, check=True)
    return torch.load(given_), torch.load(result)


@pytest.mark.parametrize("name", SCENES)
def test_no_beam_of_the_triton_kernel_differs_from_the_oracle(name, interpreted):
    _, truth, grazes = _scene(name)
    assert_agrees(interpreted[1][name], truth, grazes)


def test_the_triton_kernel_finds_the_nearest_movers(interpreted):
    (pos, world_of, movers), scans = interpreted
    index, distance = scans["nearest"]
    all_distances = (movers[world_of, :, :2] - pos[:, None, :2]).norm(dim=-1)
    expected, order = all_distances.sort(1)
    assert torch.equal(index, order[:, :5])
    torch.testing.assert_close(distance, expected[:, :5])


# -- would the comparison notice? ------------------------------------------------------------------------------------


def test_one_beam_wrong_by_a_centimeter_is_noticed():
    scene, truth, grazes = _scene("field")
    distance = scene.lidar("native").scan(scene.pos, scene.yaw)
    drone, azimuth, elevation = np.argwhere(~grazes)[1234]
    distance[drone, azimuth, elevation] -= 0.01
    with pytest.raises(AssertionError, match="instead of"):
        assert_agrees(distance, truth, grazes)


# -- any world, any pose ---------------------------------------------------------------------------------------------

coordinate = st.floats(-4, 4, width=32)
a_box = st.tuples(
    coordinate,
    coordinate,
    st.sampled_from((0.15, 0.35, 1.2)),
    st.sampled_from((0.15, 0.35)),
    st.floats(0.125, 6, width=32),
)
a_pose = st.tuples(coordinate, coordinate, st.floats(0, 6, width=32), st.floats(-10, 10, width=32))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(boxes=st.lists(a_box, max_size=6), pose=a_pose)
def test_any_boxes_from_any_pose(boxes, pose):
    config = LidarConfig(azimuths=9, elevations_deg=(-10.0, 0.0, 20.0))
    world = np.array(boxes, np.float32).reshape(-1, 5)
    scene = Scene([world], torch.tensor([pose[:3]]), torch.tensor(pose[3:]), torch.zeros(1, dtype=torch.int64), config)
    truth, grazes = scene.truth()
    lidar = scene.lidar("native")
    assert_agrees(lidar.scan(scene.pos, scene.yaw), truth, grazes)
    assert_agrees(lidar.scan_torch(scene.pos, scene.yaw), truth, grazes)


# -- moving things ---------------------------------------------------------------------------------------------------


def _movers(rng: np.random.Generator, worlds: int, count: int, spread: float) -> SimpleNamespace:
    rank = torch.arange(count)
    pos = torch.from_numpy(
        rng.uniform((-spread, -spread, 0), (spread, spread, 4.5), (worlds, count, 3)).astype(np.float32)
    )
    pillar = rank % 2 == 1
    pos[:, pillar, 2] = 2.5
    width, height = torch.tensor((0.25, 0.5, 0.75, 1.0))[rank // 2 % 4], torch.where(pillar, 5.0, 1.0)
    outline = torch.stack((width, height, pillar.float()), -1)
    return SimpleNamespace(pos=pos, width=width, height=height, pillar=pillar, outline=outline)


def _mover_truth(movers: SimpleNamespace, scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    shape = torch.stack((movers.width, movers.height, movers.pillar.float()), -1)
    things = [oracle.MovingThings(torch.cat((pos, shape), -1).double().numpy()) for pos in movers.pos]
    return _look([things[k] for k in scene.world_of.tolist()], scene.pos, scene.yaw, scene.config)


def _moving_scene(worlds: int, elevations: tuple[float, ...]) -> tuple[SimpleNamespace, Scene]:
    rng = np.random.default_rng(3)
    movers = _movers(rng, worlds, 16, 3.0)
    pos = _draw(rng, 10, (-3, -3, 0.0), (3, 3, 6.5))
    pos[0] = movers.pos[0, 0]  # inside a box
    pos[1] = movers.pos[0, 1]  # inside a pillar
    scene = Scene(
        [_world(1, 0)] * worlds, pos, _yaw(rng, 10), torch.arange(10) % worlds, LidarConfig(elevations_deg=elevations)
    )
    return movers, scene


MOVING_SCENES = [(worlds, elevations) for worlds in (1, 2) for elevations in ((-10.0, 0.0, 10.0, 20.0), (-70.0, 60.0))]


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize(("worlds", "elevations"), MOVING_SCENES)
def test_no_beam_to_moving_things_differs_from_the_oracle(worlds, elevations, backend):
    movers, scene = _moving_scene(worlds, elevations)
    truth, grazes = _mover_truth(movers, scene)
    distance = scene.lidar(backend).scan_movers(scene.pos, scene.yaw, movers)
    assert (truth < 4).mean() > 0.2 and grazes.mean() < 0.02
    assert_agrees(distance, truth, grazes)
    movers.width = movers.width + 0.02
    with pytest.raises(AssertionError, match="instead of"):
        assert_agrees(scene.lidar(backend).scan_movers(scene.pos, scene.yaw, movers), truth, grazes)


@pytest.mark.parametrize(("worlds", "elevations"), MOVING_SCENES)
def test_no_beam_of_the_triton_kernel_to_moving_things_differs_from_the_oracle(worlds, elevations, interpreted):
    movers, scene = _moving_scene(worlds, elevations)
    assert_agrees(interpreted[1][worlds, elevations], *_mover_truth(movers, scene))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(("worlds", "elevations"), MOVING_SCENES)
def test_no_beam_of_the_gpu_kernel_to_moving_things_differs_from_the_oracle(worlds, elevations):
    movers, scene = _moving_scene(worlds, elevations)
    there = SimpleNamespace(**{name: x.cuda() for name, x in vars(movers).items()})
    grid = WorldGrid.from_boxes(scene.worlds, scene.config.range_m, MAP_HALF_M, "cuda")
    lidar = Lidar(scene.config, grid, scene.world_of.cuda(), "triton")
    found = lidar.scan_movers(scene.pos.cuda(), scene.yaw.cuda(), there).cpu()
    assert_agrees(found, *_mover_truth(movers, scene))


# -- what a scan costs -----------------------------------------------------------------------------------------------


def test_each_cell_lists_exactly_the_boxes_in_range_of_it():
    grid = WorldGrid.from_boxes([_world(1, 60)], 4.0, MAP_HALF_M)
    rng = np.random.default_rng(0)
    for cell in rng.integers(0, grid.cells**2, 200):
        x, y = cell // grid.cells - grid.half_m, cell % grid.cells - grid.half_m  # the cell's lower corner
        in_range = {
            m
            for m, (bx, by, hx, hy, _) in enumerate(_world(1, 60).tolist())
            if math.hypot(max(bx - hx - x - 1, x - bx - hx, 0), max(by - hy - y - 1, y - by - hy, 0)) <= 4.05
        }
        count = int(grid.count[0, cell])
        assert set(grid.near[0, cell, :count].tolist()) == in_range and count == len(in_range)
        assert (grid.near[0, cell, count:] == 60).all() or len(_world(1, 60)) != 60


def test_candidates_follow_the_local_density_not_the_number_of_obstacles():
    near_origin = _world(1, 20) * np.array((0.1, 0.1, 1, 1, 1), np.float32)
    far_away = np.array([(18 - 0.01 * i, 18, 0.15, 0.15, 2) for i in range(500)], np.float32)
    alone = WorldGrid.from_boxes([near_origin], 4.0, MAP_HALF_M)
    crowded = WorldGrid.from_boxes([np.concatenate((near_origin, far_away))], 4.0, MAP_HALF_M)
    middle = [alone.cell_of(torch.tensor([[x, y, 1.0]])).item() for x in (-2.5, 0.5) for y in (-1.5, 3.5)]
    assert torch.equal(alone.count[0, middle], crowded.count[0, middle])


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_scan_reads_no_box_but_the_candidates_of_its_cell(backend):
    scene, truth, grazes = _scene("field")
    for drone in range(6):
        one = Scene(
            scene.worlds, scene.pos[drone : drone + 1], scene.yaw[drone : drone + 1], scene.world_of[:1], scene.config
        )
        lidar = one.lidar(backend)
        listed = torch.zeros(lidar.grid.boxes.shape[1], dtype=torch.bool)
        listed[lidar.grid.near[0, lidar.grid.cell_of(one.pos)[0]].long()] = True
        lidar.grid.boxes[0, ~listed] = torch.tensor((0.0, 0.0, 100.0, 100.0, 100.0))  # would swallow the drone
        assert_agrees(lidar.scan(one.pos, one.yaw), truth[drone : drone + 1], grazes[drone : drone + 1])


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_position_that_is_no_number_harms_no_other_drone(backend):
    scene, truth, grazes = _scene("field")
    pos = scene.pos.clone()
    pos[3] = math.nan
    pos[4] = math.inf
    distance = scene.lidar(backend).scan(pos, scene.yaw)
    others = [i for i in range(len(pos)) if i not in (3, 4)]
    assert_agrees(distance[others], truth[others], grazes[others])
