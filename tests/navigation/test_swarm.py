"""Groups of drones that share a space: what they see of each other, when they collide, and how groups are evaluated."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import MovingThings, scan

from slipstream.algorithms.policy_file import load_policy
from slipstream.cli import main
from slipstream.config.compose import load_evaluate
from slipstream.config.registry import find_task
from slipstream.tasks.navigation import evaluation
from slipstream.tasks.navigation.demo import straight
from slipstream.tasks.navigation.env import (
    CameraConfig,
    LidarConfig,
    MovingObstaclesConfig,
    NavigationConfig,
    NavigationEnv,
    crossing_starts,
)
from slipstream.tasks.navigation.physics.obstacles import SEEN_COLUMNS

NOBODY = MovingObstaclesConfig(num_obstacles=0)
EMPTY = NavigationConfig(num_obstacles=0, map_half_m=6.0, dyn=NOBODY, random_clock=False, lidar_sees_moving=True)
BACKENDS = ["native", "torch"]


def make(size: int, num: int = 0, config: NavigationConfig = EMPTY, **changes) -> NavigationEnv:
    num = num or size
    return NavigationEnv(num, config=replace(config, num_envs=num, swarm=size, **changes))


def put(env: NavigationEnv, *places, joined: bool = True) -> dict:
    """Place drones that fly along x, as if they had flown for a while; return what they observe."""
    start = torch.tensor(places, dtype=torch.float32)
    env.place(start, start + torch.tensor((20.0, 0.0, 0.0)))
    env.clock.fill_(100 if joined else 0)
    return env._observe()


def rows(seen: dict, drone: int) -> list[dict[str, float]]:
    """The obstacles that a drone observes."""
    table = seen["dynamic_obstacle"][drone, 0]
    return [dict(zip(SEEN_COLUMNS, row.tolist(), strict=True)) for row in table if row.any()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_drone_observes_the_others_of_its_group(backend):
    env = make(3, 6, backend=backend)
    env.drone.vel[1] = torch.tensor((0.0, -0.5, 0.0))
    seen = put(env, (0, 0, 2), (2, 1, 2), (0, -3, 2.5), (0, 0.5, 2), (9, 9, 2), (-9, 9, 2))
    near, far = rows(seen, 0)
    assert (near["distance"], far["distance"]) == pytest.approx((5**0.5, 3))
    assert near["unit_x"] == pytest.approx(2 / 5**0.5) and far["height_offset"] == pytest.approx(0.5)
    assert near["width_class"] == 2 and near["floats"] == 1  # 0.6 m wide: not narrower than it is
    assert not rows(seen, 3)  # half a meter beside the first one, but of another group
    assert env._moving_clearance[0].tolist() == pytest.approx([5**0.5 - 0.3, 9.25**0.5 - 0.3, 4, 4, 4])


def test_moving_obstacles_and_drones_are_sorted_together():
    env = make(2, dyn=MovingObstaclesConfig(num_obstacles=8))
    env.movers.pos.copy_(torch.tensor((50.0, 0.0, 2.0)).expand(1, 8, 3))
    env.movers.pos[0, 0] = torch.tensor((1.0, 0.0, 2.0))
    env.movers.pos[0, 1] = torch.tensor((0.0, 3.0, 2.0))
    seen = put(env, (0, 0, 2), (0, -2, 2))
    assert [row["distance"] for row in rows(seen, 0)] == pytest.approx([1, 2, 3])
    assert [row["width_class"] for row in rows(seen, 0)] == [0, 2, 1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("apart", "hits"), [((0.59, 0, 0), True), ((0.61, 0, 0), False), ((0, 0, 0.59), True), ((0, 0, 0.61), False)]
)
def test_two_drones_collide_where_their_cylinders_meet(backend, apart, hits):
    env = make(2, backend=backend)
    x, y, z = apart
    put(env, (0, 0, 2), (x, y, 2 + z))
    record = env._outcome()
    assert record.terminated.tolist() == [hits, hits]
    assert record.info["drone_collision"].tolist() == [hits, hits] == record.info["collision"].bool().tolist()


def test_drones_of_two_groups_fly_through_one_another():
    env = make(2, 4)
    put(env, (0, 0, 2), (5, 5, 2), (0.1, 0, 2), (5, 5.1, 2))
    assert not env._outcome().terminated.any()


def test_a_drone_joins_its_group_after_a_second():
    env = make(2)
    seen = put(env, (0, 0, 2), (0.2, 0, 2), joined=False)
    assert not rows(seen, 0) and not env._outcome().terminated.any()
    env.clock[0] = 63  # 1.008 s: the second one meets it, but has not joined itself
    seen = env._observe()
    assert rows(seen, 1) and not rows(seen, 0) and not env._outcome().terminated.any()


def test_a_drone_that_is_gone_is_met_by_nobody():
    env = make(2)
    put(env, (0, 0, 2), (0.2, 0, 2))
    env.swarm.gone[1] = True
    assert not rows(env._observe(), 0) and not env._outcome().terminated.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_beams_meet_the_others_as_cylinders(backend):
    places = [(0, 0, 2), (1.5, 0.3, 2.1), (-0.9, 1.2, 1.8), (0.2, -2.0, 2.4)]
    lidar = LidarConfig(azimuths=24, elevations_deg=(-20.0, 0.0, 15.0))
    seen = put(make(4, backend=backend, lidar=lidar), *places)
    for k, place in enumerate(places):
        others = MovingThings(np.array([(*p, 0.6, 0.6, 1) for i, p in enumerate(places) if i != k]))
        truth, grazes = scan(others, place, 0.0, 24, lidar.elevations_deg, 4.0)
        for v, elevation in enumerate(lidar.elevations_deg):  # the ground of the env
            if elevation < 0:
                truth[:, v] = np.minimum(truth[:, v], place[2] / np.sin(np.radians(-elevation)))
        actual = 4.0 - seen["lidar"][k, 0].numpy()
        assert (truth < 4).any() and np.abs(actual - truth)[~grazes].max() < 1e-4


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_camera_sees_the_others_and_not_its_own_drone(backend):
    camera = CameraConfig(yaws_deg=(0.0,), width=16, height=12, mount_m=(-0.1, 0.0, 0.0))
    env = make(2, backend=backend, camera=camera)
    put(env, (0, 0, 2), (2.1, 0, 2))
    middle = env.depth[:, 0, 5:7, 7:9]
    assert middle[0].min() == pytest.approx(2.1 + 0.1 - 0.3, abs=0.03) and middle[1].min() == pytest.approx(10)


KERNEL = """
import torch
from slipstream.tasks.navigation.physics.lidar import Rays, level_rotation
from test_swarm import make, put
places = (torch.rand(9, 3, generator=torch.Generator().manual_seed(1)) * torch.tensor((4.0, 4.0, 1.0))).tolist()
env, found = make(3, 9, backend="torch"), []
put(env, *places)
for backend in ("torch", "triton"):
    env.swarm._backend = backend
    seen = env.swarm.sense_others(env.drone.pos, env.heading, 5, 4.0, 0.3)
    sensor = level_rotation(env.drone.yaw), Rays.build(env.config.lidar.directions(), backend), 4.0
    found.append([*seen[:2], seen.hit.float(), env.swarm.cast(env.drone.pos, *sensor)])
assert found[0][2].any() and (found[0][3] < 4).any()
torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)
"""


def test_the_interpreted_kernel_finds_the_same_others():
    pytest.importorskip("triton")
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(folders), "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", KERNEL], env=env, cwd=Path(__file__).parents[2], check=True)


@pytest.mark.parametrize("worlds", [1, 3])
def test_a_group_is_in_one_world(worlds):
    env = make(4, 20, num_worlds=worlds)
    assert (env.world_of.view(5, 4) == env.world_of.view(5, 4)[:, :1]).all() and env.world_of.max() == worlds - 1


def test_a_number_of_drones_that_is_no_multiple_is_refused():
    with pytest.raises(ValueError, match="env.num_envs=7 must be a multiple of env.swarm=4: use 4"):
        make(4, 7)


def test_groups_cross_in_the_middle():
    start, goal = crossing_starts(16, 4, 6.0)
    assert torch.equal(start[:, :2], -goal[:, :2]) and (start[:, :2].abs().amax(1) == 10).all()
    assert start[:4, :2].tolist() == [[-5, -10], [10, -5], [5, 10], [-10, 5]]
    assert len({tuple(x) for x in start.tolist()}) == 16


def test_crossing_ways_pass_near_the_middle():
    env = make(4, 400, goals="crossing")
    start = env.goal - env.direction
    start, way = start[:, :2], env.direction[:, :2] / env.direction[:, :2].norm(dim=1, keepdim=True)
    passes = (start[:, 0] * way[:, 1] - start[:, 1] * way[:, 0]).abs()
    assert passes.max() <= 0.1 * 20 / 2**0.5 * 2 and env.direction.norm(dim=1).min() >= 18


# -- evaluation --------------------------------------------------------------------------------------------------------


WORLD = [
    "env.num_obstacles=0",
    "env.map_half_m=4",
    "env.dyn.num_obstacles=0",
    "eval.num_drones=8",
    "eval.map_seeds=[1,2]",
]


def fly(*words: str) -> evaluation.Flights:
    cfg = load_evaluate([*WORLD, *words])
    return evaluation.fly(evaluation.evaluation_env(cfg.env, cfg.eval, "cpu"), straight(2.0), cfg.eval.num_drones)


def test_collisions_between_drones_are_counted_apart():
    alone, pairs, groups = fly("env.goals=crossing"), fly("env.swarm=2"), fly("env.swarm=4")
    assert alone.success.all() and alone.drone_collision is None
    assert pairs.drone_collision.all() and pairs.collision.all()  # both fly straight at one another
    result = evaluation.summarize(groups, 100)
    assert result["drone_collision"] == result["collision"] == 1
    assert "drone_collision" not in evaluation.summarize(alone, 100)
    assert "of it with drones" in evaluation.percent_table(result, "")


def test_a_drone_whose_flight_is_over_is_in_nobodys_way():
    cfg = load_evaluate([*WORLD, "env.swarm=4", "eval.max_steps=1200"])
    crossing = evaluation.Crossing(evaluation.evaluation_env(cfg.env, cfg.eval, "cpu"), straight(2.0), 8)
    crossing.fly()
    assert torch.equal(crossing.env.swarm.gone, crossing.ended) and crossing.ended.all()


def test_eval_flies_groups_of_each_size(tmp_path, capsys):
    words = [*WORLD, "group_sizes=[1,4]", "eval.picture=false", "device=cpu"]
    assert main(["eval", *words]) == 0
    text = capsys.readouterr().out
    assert "crossing in groups" in text and "of it with drones" in text


def test_a_recording_names_the_group_of_each_drone():
    cfg = load_evaluate([*WORLD, "env.swarm=4", "eval.map_seeds=[1]"])
    recording = evaluation.record_flight(cfg, load_policy(find_task("navigation").weights))
    assert recording.arrays["drone.group"].tolist() == [k // 4 for k in range(32)]


# -- PettingZoo --------------------------------------------------------------------------------------------------------


def test_a_group_passes_the_tests_of_pettingzoo():
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    from slipstream.envs.adapters import PettingZooEnv

    config = replace(EMPTY, goals="crossing", num_obstacles=3, max_episode_steps=200)
    parallel_api_test(PettingZooEnv(make(4, config=config)), num_cycles=300)
    parallel_seed_test(lambda: PettingZooEnv(make(4, config=config)))


def test_an_agent_that_has_left_is_met_by_nobody():
    pytest.importorskip("pettingzoo")
    from slipstream.envs.adapters import PettingZooEnv

    view = PettingZooEnv(make(2))
    view.reset()
    put(view.env, (0, 0, 2), (0.2, 0, 2))
    still = {agent: np.zeros(3, np.float32) for agent in view.agents}
    _, _, terminated, _, _ = view.step(still)
    assert all(terminated.values()) and not view.agents and view.env.swarm.gone.all()
    view.reset()
    assert len(view.agents) == 2 and not view.env.swarm.gone.any()
