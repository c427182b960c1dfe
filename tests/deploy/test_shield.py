"""The safety shield: by hand, against a search over velocities, NumPy against torch, and in the env."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from slipstream.cli import main
from slipstream.deploy.shield import FAR, Shield
from slipstream.tasks.navigation.deployment import describe
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv

SHIELD = describe(NavigationConfig()).shield()
CLEAR = np.full((1, 144), 4.0)
NO_ROWS = np.zeros((1, 5, 10))
STILL = np.zeros((1, 3))


def one(wanted, distance=CLEAR, velocity=STILL, rows=NO_ROWS) -> np.ndarray:
    return SHIELD.filter(np.array([wanted], float), distance, np.asarray(velocity, float), rows)[0]


def row(x, y, z, vx=0.0, vy=0.0, width_class=1, floats=1.0) -> np.ndarray:
    """Return rows [1, 5, 10] of one obstacle."""
    rows, length = np.zeros((1, 5, 10)), np.sqrt(x * x + y * y + z * z)
    rows[0, 0] = x / length, y / length, z / length, np.hypot(x, y), z, vx, vy, 0.0, width_class, floats
    return rows


def flown_scenes(moving: bool = True) -> tuple[torch.Tensor, ...]:
    """Return what 256 drones see among obstacles, and random wishes."""
    config = NavigationConfig(num_worlds=1, world_seeds=[7], shield=True, decision_interval=4)
    env = NavigationEnv(256, seed=1, config=config)
    place = torch.rand(256, 3, generator=torch.Generator().manual_seed(2)) * torch.tensor([36.0, 36.0, 3.0])
    env.place(place - torch.tensor([18.0, 18.0, -0.5]), torch.zeros(256, 3))
    wanted = torch.rand(256, 3, generator=torch.Generator().manual_seed(3)) * 4 - 2
    for _ in range(4):
        env.step(wanted)
    seen = env.shield
    free = seen.distance.amin(1) > 0.35  # not in an obstacle
    rows = seen.rows if moving else torch.zeros_like(seen.rows)
    return wanted[free], seen.distance[free], seen.velocity[free], rows[free]


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_free_space_changes_nothing():
    assert np.allclose(one([1.5, -2.0, 0.3]), [1.5, -2.0, 0.3])


def test_a_wall_ahead_leaves_the_speed_that_can_be_braked():
    distance = CLEAR.copy()
    ahead = np.flatnonzero(SHIELD.directions[:, 0] > 0.999)
    distance[0, ahead] = 1.0
    gap = 1.0 - SHIELD.radius_m - SHIELD.margin_m
    limit = float(SHIELD.approach_speed(np.array(gap)))
    found = one([2.0, 0.0, 0.0], distance)
    assert found[0] == pytest.approx(min(limit, 2.0), abs=0.02) and abs(found[1]) < 0.02
    faster = one([2.0, 0.0, 0.0], distance, [[2.0, 0.0, 0.0]])  # it must brake earlier at speed
    assert faster[0] < found[0] - 0.1
    assert np.allclose(one([-2.0, 1.0, 0.0], distance), [-2.0, 1.0, 0.0])  # away from it is free


def test_speed_and_braking_distance_fit_into_the_gap():
    gap = np.array([0.1, 0.5, 1.0, 3.0])
    speed = SHIELD.approach_speed(gap)
    assert np.allclose(speed * SHIELD.hold_s + speed**2 / (2 * SHIELD.brake_mps2), gap)
    assert SHIELD.approach_speed(np.array(-0.1)) < 0


def test_a_crossing_obstacle_is_passed_behind_or_waited_for():
    near = row(0.9, 0.0, 0.0, vx=-1.5)  # comes towards the drone
    found = one([2.0, 0.0, 0.0], rows=near)
    assert not np.allclose(found, [2.0, 0.0, 0.0])
    away = row(0.9, 0.0, 0.0, vx=2.5)  # flies away faster
    assert np.allclose(one([2.0, 0.0, 0.0], rows=away), [2.0, 0.0, 0.0], atol=1e-6)


def test_a_floating_box_below_limits_the_descent_alone():
    below = row(0.1, 0.0, -1.0)
    assert np.allclose(one([1.0, 0.0, 0.5], rows=below), [1.0, 0.0, 0.5], atol=1e-6)
    assert one([0.0, 0.0, -2.0], rows=below)[2] > -2.0


# -- oracles -----------------------------------------------------------------------------------------------------------


def half_spaces(wanted, distance, velocity, rows) -> tuple[np.ndarray, np.ndarray]:
    """Return normals [M, 3] and bounds [M] of one drone, written out beam by beam."""
    normals, bounds = [], []
    for k, direction in enumerate(SHIELD.directions):
        if distance[k] < SHIELD.range_m:
            gap = distance[k] - SHIELD.radius_m - SHIELD.margin_m - SHIELD.lag_s * (direction @ velocity)
            normals.append(direction)
            bounds.append(float(SHIELD.approach_speed(np.array(gap))))
    n, b = SHIELD.obstacle_planes(wanted[None, None], velocity[None, None], rows[None])
    real = b[0] < FAR
    return np.concatenate((np.reshape(normals, (-1, 3)), n[0][real])), np.concatenate((bounds, b[0][real]))


def test_no_admissible_velocity_is_nearer():
    scenes = [x.double().numpy() for x in flown_scenes()]
    found = SHIELD.filter(*scenes)
    axis = np.linspace(-2, 2, 33)
    grid = np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3)
    compared, missed, violations = 0, 0, []
    for k in range(0, len(found), 2):
        normals, bounds = half_spaces(*(x[k] for x in scenes))
        admissible = (grid @ normals.T <= bounds + 1e-9).all(1)
        if not len(bounds) or not admissible.any():
            continue
        nearest = np.linalg.norm(grid[admissible] - scenes[0][k], axis=1).min()
        compared += 1
        missed += np.linalg.norm(found[k] - scenes[0][k]) > nearest + 0.02
        violations.append((normals @ found[k] - bounds).max())
    assert compared > 60 and missed == 0
    assert np.quantile(violations, 0.98) < 0.1  # m/s, where the limits are steep; most are exact
    assert np.median(violations) < 1e-3


def test_a_crossing_obstacle_is_missed_within_the_horizon():
    """The velocity obstacle, against stepping both bodies through the horizon."""
    rng, still = np.random.default_rng(4), replace(SHIELD, moving_lag_s=0.0)
    hits = 0
    for _ in range(400):
        x, y = rng.uniform(-3, 3, 2)
        obstacle = row(x, y, 0.0, *rng.uniform(-1.5, 1.5, 2), rng.integers(4), 0.0)
        radius = still.widths_m[int(obstacle[0, 0, 8])] / 2 + still.radius_m + still.moving_margin_m
        if np.hypot(x, y) < radius + 0.05:
            continue
        wanted = np.array([[*rng.uniform(-2, 2, 2), 0.0]])
        flown = still.filter(wanted, CLEAR, STILL, obstacle)[0]
        times = np.linspace(0, still.horizon_s, 100)[:, None]

        def gap(velocity, obstacle=obstacle, x=x, y=y, times=times):
            return np.hypot(*((x, y) + times * (obstacle[0, 0, 5:7] - velocity[:2])).T).min()

        hits += gap(wanted[0]) < radius
        n, b = still.obstacle_planes(wanted[:, None], STILL[:, None], obstacle)
        if n[0, 0] @ flown <= b[0, 0] + 1e-3:  # else nothing within the speed limits is admissible
            assert gap(flown) > radius - 0.02
        if gap(wanted[0]) > radius + 1e-6:
            assert np.allclose(flown, wanted[0], atol=1e-6)
    assert hits > 10


@pytest.mark.parametrize("moving", [True, False])
def test_torch_and_numpy_agree(moving):
    scenes = flown_scenes(moving)
    directions = torch.from_numpy(SHIELD.directions)
    ours = replace(SHIELD, directions=directions, xp=torch).filter(*(x.double() for x in scenes))
    assert np.abs(ours.numpy() - SHIELD.filter(*(x.double().numpy() for x in scenes))).max() < 1e-5
    single = replace(SHIELD, directions=directions.float(), xp=torch).filter(*scenes)
    assert (single - ours).abs().max() < 1e-2 and (single - ours).abs().quantile(0.99) < 1e-4


def test_without_rows_of_obstacles():
    none = Shield(SHIELD.directions, 4.0).filter(
        np.ones((2, 3)), np.full((2, 144), 4.0), np.ones((2, 3)), NO_ROWS[:, :0].repeat(2, 0)
    )
    assert np.allclose(none, 1)


# -- in the env --------------------------------------------------------------------------------------------------------


def test_the_env_restores_the_shield_bit_for_bit():
    config = NavigationConfig(num_obstacles=40, map_half_m=6.0, shield=True, random_clock=False)
    env, wanted = NavigationEnv(8, seed=5, config=config), torch.full((8, 3), 1.5)
    for _ in range(60):
        env.step(wanted)
    state = env.state_dict()
    first = [env.step(wanted).observation["state"].clone() for _ in range(5)]
    env.load_state_dict(state)
    assert all(torch.equal(x, env.step(wanted).observation["state"]) for x in first)


def test_the_shield_keeps_drones_from_walls():
    hits = {}
    for shield in (False, True):
        config = NavigationConfig(shield=shield, goals="opposite", random_clock=False, world_seeds=[3])
        env = NavigationEnv(64, seed=5, config=replace(config, dyn=replace(config.dyn, num_obstacles=0)))
        ahead, hits[shield] = torch.tensor([2.0, 0.0, 0.0]).expand(64, 3), 0
        for _ in range(900):
            hits[shield] += int(env.step(ahead).terminated.sum())
    assert hits[False] > 30 and hits[True] < hits[False] / 10


def test_eval_says_how_many_commands_were_changed(capsys):
    small = ["env.map_half_m=3", "env.num_obstacles=6", "env.dyn.num_obstacles=8", "eval.num_drones=4"]
    words = [*small, "eval.map_seeds=[5]", "eval.max_steps=400", "eval.picture=false", "device=cpu", "threads=1"]
    assert main(["eval", "shield=on", *words, "json=true"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 0 < result["shielded"] < 1
