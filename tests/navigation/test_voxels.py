"""Voxel worlds: the distance field, rays, clearances and merged boxes, against brute force, boxes and MuJoCo."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
import torch
from oracle import ray_box, ray_ground

from slipstream.config.help import ConfigError
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.mujoco.validation import compare_lidar
from slipstream.tasks.navigation.physics.lidar import Lidar, LidarConfig, VoxelLidar, level_rotation
from slipstream.tasks.navigation.physics.map_files import Window, _fill
from slipstream.tasks.navigation.physics.places import _solid_blocks
from slipstream.tasks.navigation.physics.voxels import (
    FIELD_CAP,
    Solid,
    VoxelWorld,
    distance_field,
    fill_boxes,
    grid_of,
    merge_boxes,
)
from slipstream.tasks.navigation.physics.world import WorldGrid

needs_mujoco = pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="needs the extra mujoco")


def some_solid(seed: int, share: float = 0.05, shape=(14, 11, 9), voxel_m: float = 0.25) -> Solid:
    rng = np.random.default_rng(seed)
    return Solid(rng.random(shape) < share, np.array((-1.7, -1.4, 0.0)), voxel_m)


def random_rays(rng: np.random.Generator, count: int) -> torch.Tensor:
    rays = rng.normal(size=(count, 3))
    rays[: count // 8, rng.integers(0, 3)] = 0.0  # parallel to a face
    rays[0], rays[1], rays[2] = (1, 0, 0), (0, -1, 0), (0, 0, -1)
    return torch.from_numpy(rays / np.linalg.norm(rays, axis=1, keepdims=True)).float()


def brute_force(solid: Solid, start, ray, range_m: float) -> float:
    best = min(ray_ground(start, ray), range_m)
    for cell in np.argwhere(solid.voxels):
        low = solid.origin + cell * solid.voxel_m
        best = min(best, ray_box(start, ray, tuple(low), tuple(low + solid.voxel_m)))
    return best


@pytest.mark.parametrize("seed", range(3))
def test_field_is_the_chebyshev_distance(seed):
    voxels = some_solid(seed, 0.01).voxels
    cells = np.argwhere(np.ones_like(voxels))
    apart = np.abs(cells[:, None] - np.argwhere(voxels)[None]).max(-1).min(1)
    assert (distance_field(voxels).ravel() == np.minimum(apart, FIELD_CAP)).all()
    assert (distance_field(np.zeros((3, 3, 3), bool)) == FIELD_CAP).all()


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("seed", range(4))
def test_rays_agree_with_brute_force(backend, seed):
    rng, solid = np.random.default_rng(seed), some_solid(seed)
    world = VoxelWorld.build([some_solid(seed + 50, 0.3), solid], backend=backend)
    table = random_rays(rng, 60)
    pos = torch.from_numpy(rng.uniform((-3, -3, 0.05), (3, 3, 3), (12, 3))).float()  # some of them outside
    distance = world.cast(pos, torch.eye(3).expand(12, 3, 3), table, torch.ones(12, dtype=torch.int64), 2.5)
    truth = np.array([[brute_force(solid, p, r, 2.5) for r in table.double().tolist()] for p in pos.double().tolist()])
    wrong = np.abs(distance.numpy() - truth) > 1e-4
    assert wrong.mean() < 0.003, np.argwhere(wrong)  # a ray along an edge may take either side
    assert (truth < 2.4).mean() > 0.2


def test_both_forms_agree_far_from_the_origin():
    solid = Solid(some_solid(3).voxels, np.array((5000.3, -3000.1, 0.0)), 0.25)
    rng = np.random.default_rng(0)
    pos = torch.from_numpy(solid.origin + rng.uniform(0, 2, (64, 3))).float()
    turn = level_rotation(torch.linspace(-3, 3, 64))
    given = turn, random_rays(rng, 100), torch.zeros(64, dtype=torch.int64), 3.0
    native, plain = (VoxelWorld.build([solid], backend=b).cast(pos, *given) for b in ("native", "torch"))
    assert (native - plain).abs().max() < 1e-4


def test_a_position_that_is_not_finite_sees_nothing():
    for backend in ("native", "torch"):
        world = VoxelWorld.build([some_solid(0)], backend=backend)
        pos = torch.tensor([[math.nan, 0.0, 1.0], [0.0, math.inf, 1.0]])
        given = torch.eye(3).expand(2, 3, 3), torch.tensor([[1.0, 0.0, 0.0]]), torch.zeros(2, dtype=torch.int64)
        assert (world.cast(pos, *given, 4.0) == 4.0).all()
        assert (world.clearance(pos, given[2], 0.4) == 0.4).all()


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_clearance_is_exact(backend):
    rng, solid = np.random.default_rng(1), some_solid(1, 0.02)
    world = VoxelWorld.build([solid], backend=backend)
    pos = rng.uniform((-2.5, -2.5, -0.2), (2.5, 2.5, 2.8), (300, 3))
    low = solid.origin + np.argwhere(solid.voxels) * solid.voxel_m
    gap = np.maximum(np.maximum(low[None] - pos[:, None], pos[:, None] - low[None] - solid.voxel_m), 0)
    truth = np.minimum(np.linalg.norm(gap, axis=-1).min(1), 0.6)
    found = world.clearance(torch.from_numpy(pos).float(), torch.zeros(300, dtype=torch.int64), 0.6).numpy()
    assert np.abs(found - truth).max() < 1e-5 and (truth < 0.6).mean() > 0.3


def test_lidar_among_blocks_is_that_of_the_exact_boxes():
    solid, config = _solid_blocks(7, 350, 20.0), LidarConfig()
    world_of = torch.zeros(512, dtype=torch.int64)
    pos = (torch.rand(512, 3, generator=torch.manual_seed(0)) - 0.5) * torch.tensor([44.0, 44.0, 3.5])
    pos[:, 2] += 2
    yaw = torch.linspace(-3, 3, 512)
    boxes = Lidar(config, WorldGrid.generate([7], 350, 4.0), world_of).scan(pos, yaw)
    voxels = VoxelLidar(config, VoxelWorld.build([solid]), world_of, 0.3).scan(pos, yaw)
    assert ((boxes - voxels).abs() > 1e-3).float().mean() < 1e-4 and (boxes < 4).float().mean() > 0.1


def test_merged_boxes_fill_the_same_voxels():
    solid = some_solid(5, 0.4)
    boxes = merge_boxes(solid).astype(np.float64)
    again = Solid(np.zeros_like(solid.voxels), solid.origin, solid.voxel_m)
    bottom, tall = boxes[:, 5], boxes[:, 4] - boxes[:, 5]
    fill_boxes(again, np.stack((boxes[:, 0], boxes[:, 1], bottom, boxes[:, 2], boxes[:, 3], tall, 0 * tall), -1))
    assert (again.voxels == solid.voxels).all() and len(boxes) < solid.voxels.sum()
    volume = (4 * boxes[:, 2] * boxes[:, 3] * tall).sum()
    assert volume == pytest.approx(solid.voxels.sum() * solid.voxel_m**3, rel=1e-5)  # none overlap
    assert merge_boxes(Solid(np.zeros((4, 4, 4), bool), np.zeros(3), 0.1)).shape == (0, 6)


def test_turned_box_covers_its_inside_and_no_far_voxel():
    solid = grid_of(np.array((-2, -2, 0)), np.array((2, 2, 2)), 0.1, "test")
    fill_boxes(solid, np.array([[0.2, -0.1, 0.5, 1.0, 0.25, 0.6, 0.7]]))
    center = solid.origin + (np.argwhere(np.ones_like(solid.voxels)) + 0.5) * 0.1
    dx, dy = center[:, 0] - 0.2, center[:, 1] + 0.1
    along, across = math.cos(0.7) * dx + math.sin(0.7) * dy, math.cos(0.7) * dy - math.sin(0.7) * dx
    outside = np.maximum(np.abs(along) - 1.0, np.abs(across) - 0.25)
    height = np.maximum(0.5 - center[:, 2], center[:, 2] - 1.1)
    filled = solid.voxels.ravel()
    assert filled[(outside < 0) & (height < 0)].all()
    assert not filled[(outside > 0.1) | (height > 0.051)].any()  # a voxel's half diagonal is 0.07


def test_too_many_voxels_are_refused_before_memory_is_taken():
    with pytest.raises(ConfigError, match="env.voxel_m"):
        grid_of(np.zeros(3), np.array((5000.0, 5000.0, 5.0)), 0.1, "big.ply")
    with pytest.raises(ConfigError, match="empty"):
        grid_of(np.zeros(3), np.array((5.0, math.nan, 5.0)), 0.1, "odd.ply")


# -- other beams -----------------------------------------------------------------------------------------------------


def test_beams_of_a_field_of_view_are_symmetric_around_the_yaw():
    table = LidarConfig(azimuths=4, elevations_deg=(0.0, 90.0), fov_deg=90.0).directions().view(4, 2, 3)
    angles = torch.rad2deg(torch.atan2(table[:, 0, 1], table[:, 0, 0]))
    assert torch.allclose(angles, torch.tensor([-33.75, -11.25, 11.25, 33.75], dtype=torch.float64))
    assert torch.allclose(table[:, 1, 2], torch.ones(4, dtype=torch.float64))


def test_lidar_with_a_field_of_view_flies_among_boxes():
    lidar = LidarConfig(azimuths=12, elevations_deg=(-90.0, 0.0), fov_deg=120.0)
    env = NavigationEnv(8, config=NavigationConfig(map_half_m=4, num_obstacles=6, lidar=lidar))
    seen = env.reset()["lidar"]
    assert seen.shape == (8, 1, 12, 2)
    height = env.drone.pos[:, 2]
    assert torch.allclose(4 - seen[:, 0, 0, 0], height, atol=1e-5)  # straight down


# -- MuJoCo ----------------------------------------------------------------------------------------------------------


@needs_mujoco
@pytest.mark.parametrize("poses", [60, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["turned boxes", "rooms"])
def test_rays_are_within_1_mm_of_mujocos(kind, poses, tmp_path):
    if kind == "rooms":
        config = NavigationConfig(num_envs=1, map="rooms", map_half_m=6.0, world_seeds=[4])
    else:
        path = tmp_path / "boxes.csv"
        rows = ["x,y,z,length,width,height,yaw_deg", "0,0,0,2,1,3,30", "3,1,1.5,1,1,0.4,70", "-2,3,0,4,0.1,5,-20"]
        path.write_text("\n".join(rows))
        config = NavigationConfig(num_envs=1, map=str(path), world_seeds=[4])
    env = NavigationEnv(1, config=config)
    assert env.routes is not None
    places = env.routes.start[0].numpy()[:, None]
    found = compare_lidar(env, places, poses=poses)
    assert found["beams"] == poses * 144 and found["beyond_1mm"] <= 0.001 * found["beams"]
    assert found["unequal"] > 0.01 * found["beams"]


def test_boxes_reader_keeps_yaw_and_height(tmp_path):
    rows = [{"x": 5, "y": 5, "z": 1, "length": 2, "width": 2, "height": 1, "yaw_deg": 45}]
    solid, offset = _fill(tmp_path / "a.csv", rows, Window(0.0, 5.0, 0.1))
    assert np.allclose(offset, (-5, -5, 0)) and solid.size_m[0] == pytest.approx(2 * math.sqrt(2), abs=0.11)
    filled = np.flatnonzero(solid.voxels.any((0, 1)))
    assert filled[0] == 10 and filled[-1] == 19  # 1 m to 2 m
