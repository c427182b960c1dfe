"""Depth cameras: rays against the slow caster, images by hand, MuJoCo's images, and a policy that sees through one."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
import torch
from helpers.small_run import TINY
from oracle import MovingThings

from slipstream.cli import main
from slipstream.sim.frames import quat_to_matrix
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.mujoco.validation import compare_camera
from slipstream.tasks.navigation.physics.camera import CameraConfig
from slipstream.tasks.navigation.physics.lidar import LidarConfig, Rays, Things

needs_mujoco = pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="needs the extra mujoco")
SMALL = {"num_envs": 4, "num_obstacles": 0, "map_half_m": 6.0, "random_clock": False}
LEVEL = torch.eye(3).expand(4, 3, 3)


def some_things(seed: int, count: int = 30) -> torch.Tensor:
    """Boxes and cylinders [2, M, 7] around the origin."""
    rng = np.random.default_rng(seed)
    middle, half = rng.uniform((-5, -5, 0), (5, 5, 3), (2, count, 3)), rng.uniform(0.1, 1, (2, count, 1))
    tall, is_round = rng.uniform(0.1, 2, (2, count, 1)), rng.random((2, count, 1)) < 0.5
    return torch.from_numpy(np.concatenate((middle, half, half, tall, is_round), -1)).float()


def some_sensor(seed: int, num: int, ahead: bool, device: str = "cpu"):
    generator = torch.Generator().manual_seed(seed)
    pos = torch.rand(num, 3, generator=generator) * torch.tensor([6.0, 6.0, 3.0]) - torch.tensor([3.0, 3.0, 0.0])
    rotation = quat_to_matrix(torch.nn.functional.normalize(torch.randn(num, 4, generator=generator), dim=-1))
    camera, lidar = CameraConfig((0.0,), 21, 13, 110.0), LidarConfig(azimuths=30, elevations_deg=(-90.0, -7.0, 0.0))
    table = camera.directions().flatten(0, 1) if ahead else lidar.directions()
    space_of, own = torch.arange(num) % 2, torch.arange(num) % 5 - 1
    return [x.to(device) for x in (pos, rotation, space_of, own)], table


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("ahead", [True, False])
def test_rays_agree_with_the_slow_caster(backend, ahead):
    table = some_things(1)
    (pos, rotation, space_of, own), rays = some_sensor(2, 10, ahead)
    found = Things(table, backend).cast(pos, rotation, Rays.build(rays, backend), space_of, 4.0, own)
    truth = []
    for n in range(10):
        rows = [row for m, row in enumerate(table[space_of[n]].double().tolist()) if m != own[n]]
        things = MovingThings(np.array([(*row[:3], 2 * row[3], 2 * row[5], row[6]) for row in rows])).things
        for ray in (rays @ rotation[n].double().T).tolist():
            start = tuple(pos[n].double().tolist())
            truth.append(min(MovingThings.distance(start, ray, things), 4.0))
    wrong = (found.flatten() - torch.tensor(truth)).abs() > 1e-3
    assert wrong.float().mean() < 0.002 and (found < 3.9).float().mean() > 0.3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("ahead", [True, False])
def test_rays_of_the_gpu_kernel_agree_with_plain_torch(ahead):
    table = some_things(3, 200).cuda()
    (pos, rotation, space_of, own), rays = some_sensor(4, 500, ahead, "cuda")
    sensor = pos, rotation, Rays.build(rays, "triton", "cuda"), space_of, 4.0, own
    difference = (Things(table, "triton").cast(*sensor) - Things(table, "torch").cast(*sensor)).abs()
    assert (difference > 1e-3).float().mean() < 1e-3


def built(**camera):
    env = NavigationEnv(4, config=NavigationConfig(**SMALL, camera=CameraConfig(**camera)))
    env.movers.pos[:] = torch.tensor([2.0, 0.0, 2.0])  # a pile of obstacles ahead; the widest box begins at 1.5 m
    return env


def test_depth_is_along_the_optical_axis():
    env = built(yaws_deg=(0.0, 180.0), width=32, height=24, range_m=5.0)
    pos = torch.tensor([0.0, 0.0, 2.0]).expand(4, 3)
    depth = env.camera.depth(pos, LEVEL, env.cast)
    assert depth.shape == (4, 2, 24, 32)
    assert torch.allclose(depth[:, 0, 10:14, 13:19], torch.tensor(1.5), atol=1e-4)  # a face at right angles is flat
    assert torch.allclose(depth[0, 1, -1], torch.tensor(2 / (11.5 / 16)), atol=1e-3)  # the ground, behind
    assert (depth[:, 1, :12] == 5).all()  # the sky
    env.movers.pos[..., 1] = 1.0  # to the left
    moved = env.camera.depth(pos, LEVEL, env.cast)[0, 0]
    assert moved[11, :12].min() < 2 and (moved[11, 24:] == 5).all()


def test_mount_and_attitude_move_the_image():
    pos = torch.tensor([0.0, 0.0, 2.0]).expand(4, 3)
    ahead = built(yaws_deg=(0.0,), width=9, height=9, mount_m=(0.5, 0.0, 0.0))
    assert torch.allclose(ahead.camera.depth(pos, LEVEL, ahead.cast)[:, 0, 4, 4], torch.tensor(1.0), atol=1e-4)
    down = built(yaws_deg=(0.0,), width=9, height=9, pitch_deg=-90.0)
    assert torch.allclose(down.camera.depth(pos, LEVEL, down.cast)[:, 0, 4, 4], torch.tensor(2.0), atol=1e-4)
    left = built(yaws_deg=(90.0,), width=9, height=9)
    turned = quat_to_matrix(torch.tensor([0.5**0.5, 0.0, 0.0, -(0.5**0.5)])).expand(4, 3, 3)  # nose to the right
    assert torch.allclose(left.camera.depth(pos, turned, left.cast)[:, 0, 4, 4], torch.tensor(1.5), atol=1e-4)


@pytest.mark.parametrize(("stored", "high"), [("uint8", 255), ("float16", 1)])
def test_images_are_stored_in_few_bits(stored, high):
    env = built(yaws_deg=(0.0,), width=16, height=8, range_m=4.0, stored=stored)
    spec, seen = env.observation_spec["camera"], env.reset()["camera"]
    assert seen.dtype == spec.dtype and seen.shape == (4, 1, 8, 16) and seen.max() <= high == spec.high
    step = 4 / 255 if stored == "uint8" else 4 / 1024
    assert ((1 - seen.double() / high) * 4 - env.depth).abs().max() <= step / 2 + 1e-6


def test_noise_and_dropout_are_drawn_anew():
    plain, noisy = built(yaws_deg=(0.0,)), built(yaws_deg=(0.0,), noise=0.02, dropout=0.25)
    depth = torch.full((4, 1, 48, 64), 5.0)
    first, second = (noisy.camera.read(depth, torch.tensor(k)) for k in (1, 2))
    assert (first == 0).float().mean() == pytest.approx(0.25, abs=0.02) and not torch.equal(first, second)
    assert first[first > 0].float().std() == pytest.approx(0.02 * 255 / 2, abs=0.3)
    assert (plain.camera.read(depth, torch.tensor(1)) == 128).all()


def test_an_env_without_cameras_has_no_images():
    assert "camera" not in NavigationEnv(4, config=NavigationConfig(**SMALL)).reset()


@needs_mujoco
@pytest.mark.parametrize("poses", [20, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["boxes", "turned", "rooms"])
def test_images_are_within_1_mm_of_mujocos(kind, poses, tmp_path):
    path = tmp_path / "boxes.csv"
    rows = ["x,y,z,length,width,height,yaw_deg", "0,0,0,2,1,3,30", "3,1,1.5,1,1,0.4,70", "-2,3,0,4,0.1,5,-20"]
    path.write_text("\n".join(rows))
    settings = SMALL | {"num_envs": 1, "num_obstacles": 20, "map": str(path) if kind == "turned" else kind}
    env = NavigationEnv(1, config=NavigationConfig(**settings, camera=CameraConfig((0.0, 120.0), pitch_deg=-10.0)))
    env.movers.advance(100)
    places = (
        env.routes.start[0].numpy() if env.routes else np.random.default_rng(0).uniform(-6, 6, (500, 3)) / (1, 1, 3)
    )
    places[:, 2] = np.abs(places[:, 2]) + 0.3
    found = compare_camera(env, places[:, None], poses=poses)
    assert found["beams"] > poses * 48 * 64 and found["beyond_1mm"] <= 0.001 * found["beams"]
    assert found["unequal"] > 0.01 * found["beams"]


WORDS = [*TINY, "env.max_episode_steps=200", "env.camera.yaws_deg=[0]", "env.camera.width=16", "env.camera.height=12"]
WORDS += ["model.keys=[camera,state,direction]"]


def test_a_policy_with_a_camera_trains_flies_and_is_exported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *WORDS, "name=seen"]) == 0
    assert main(["train", "resume=runs/seen", "total_frames=128"]) == 0
    capsys.readouterr()
    flown = ["eval.num_drones=3", "eval.map_seeds=[1]", "eval.max_steps=200", "device=cpu", "json=true"]
    assert main(["eval", "checkpoint=runs/seen", *flown]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["drones"] == 3 and (tmp_path / "runs/seen/flight.html").is_file()
    assert main(["export", "checkpoint=runs/seen", "--to", "pt2"]) == 0
    assert main(["export", "checkpoint=runs/seen", "--to", "html"]) != 0
    assert "env.camera.yaws_deg" in capsys.readouterr().err
