"""Episodes of NavigationEnv: starts, clocks, seeds, worlds, variants, state."""

from __future__ import annotations

import io
import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from slipstream.collectors import SyncDataCollector
from slipstream.config.compose import load_evaluate
from slipstream.envs.base import BadActionError
from slipstream.models import build_policy
from slipstream.models.encoders import NavRLEncoder
from slipstream.tasks.navigation import env as env_module
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv, evaluation_starts
from slipstream.tasks.navigation.physics.disturbance import DisturbanceConfig
from slipstream.tasks.navigation.physics.lidar import Lidar, LidarConfig
from slipstream.tasks.navigation.physics.obstacles import MovingObstaclesConfig

GOLDEN_STARTS_AND_GOALS = [
    [-24.0, 14.9347, 1.444, -24.0, -20.4371, 2.1562],
    [15.4826, -24.0, 2.2352, -24.0, -18.0945, 2.2311],
]
ALL_DISTURBANCES = DisturbanceConfig(0.05, 0.1, 0.1, 3, 0.5, 1.0, 0.2, 0.2)


def _env(num: int = 8, seed: int = 7, movers: int = 8, **config) -> NavigationEnv:
    config = {"num_obstacles": 20, "map_half_m": 6.0} | config
    return NavigationEnv(num, "cpu", seed, NavigationConfig(dyn=MovingObstaclesConfig(num_obstacles=movers), **config))


def _open_env(num: int, seed: int = 7, **config) -> NavigationEnv:
    return _env(num, seed, movers=0, num_obstacles=0, map_half_m=20.0, **config)


def _actions(num: int, steps: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(steps, num, 3, generator=torch.Generator().manual_seed(seed)) * 4 - 2


# -- starts and goals ------------------------------------------------------------------------------------------------


def _assert_on_the_sides(points: torch.Tensor) -> None:
    x, y, z = points.T
    on_x, on_y = x.abs() == 24, y.abs() == 24
    assert (on_x | on_y).all() and points[:, :2].abs().max() <= 24
    for side in (x == 24, x == -24, y == 24, y == -24):
        assert side.float().mean().item() == pytest.approx(0.25, abs=0.03)
        along = torch.where(on_x, y, x)[side]
        assert along.mean().abs() < 2 and along.std().item() == pytest.approx(48 / math.sqrt(12), rel=0.06)
    assert z.min() >= 0.5 and z.max() <= 2.5 and z.mean().item() == pytest.approx(1.5, abs=0.05)


def test_starts_and_goals_lie_on_the_four_sides_of_the_24_m_square():
    env = _open_env(4000)
    _assert_on_the_sides(env.drone.pos)
    _assert_on_the_sides(env.goal)
    corner = (env.drone.pos * env.goal).double()
    assert corner[:, 2].mean().item() == pytest.approx(1.5**2, abs=0.05)  # start and goal are independent
    assert (env.drone.vel == 0).all()


def test_goals_across_the_map_are_on_the_opposite_side_of_the_start():
    env = _open_env(400, goals="opposite")
    start, goal = env.drone.pos[:, :2], env.goal[:, :2]
    on_side = start.abs() == 24
    assert torch.equal(goal[on_side], -start[on_side]) and (goal.abs() <= 24).all()
    sides = (start[:, 0] == 24).sum(), (start[:, 0] == -24).sum(), (start[:, 1] == 24).sum(), (start[:, 1] == -24).sum()
    assert all(70 < int(count) < 130 for count in sides)
    with pytest.raises(ValueError, match="unknown goals 'near': use any, opposite, crossing, or"):
        NavigationConfig(goals="near")


def test_there_is_at_most_one_map_per_drone():
    env = _env(3, num_worlds=5)
    assert env.config.num_worlds == len(env.world_seeds) == 3 and env.world_of.tolist() == [0, 1, 2]


def test_a_drone_faces_its_goal_at_the_start():
    for dynamics in ("velocity_lag", "quadrotor"):
        env = _open_env(50, dynamics=dynamics)
        way = env.goal - env.drone.pos
        ahead = torch.stack((torch.cos(env.drone.yaw), torch.sin(env.drone.yaw)), -1)
        torch.testing.assert_close(ahead, way[:, :2] / way[:, :2].norm(dim=-1, keepdim=True), atol=1e-5, rtol=0)


def test_place_starts_every_drone_where_it_is_told_with_its_clock_at_zero():
    env = _open_env(4)
    env.step(torch.zeros(4, 3))
    starts, goals = evaluation_starts(4)
    observation = env.place(starts, goals)
    assert torch.equal(env.drone.pos, starts) and torch.equal(env.goal, goals) and (env.clock == 0).all()
    assert observation["direction"][0, 0].tolist() == pytest.approx([0, -48, 0], abs=1e-5)
    assert env.step(torch.zeros(4, 3)).valid.all()


# -- clocks ----------------------------------------------------------------------------------------------------------


def test_the_reset_before_the_first_step_keeps_the_clocks_random():
    env = _open_env(4000)
    env.reset()
    assert env.clock.double().mean() == pytest.approx(1100, abs=45)
    env.step(torch.zeros(4000, 3))
    env.reset()
    assert (env.clock == 0).all()


def test_timeouts_of_a_collected_env_do_not_come_all_at_once():
    env = _open_env(500, max_episode_steps=20)
    collector = SyncDataCollector(env, lambda observation: torch.zeros(500, 3), frames_per_batch=500 * 20)
    ends = collector.rollout()["truncated"].sum(0)  # [20], of 500 drones
    assert ends.min() > 5 and ends.max() < 60


def test_later_episodes_start_at_step_0():
    env = _open_env(50, max_episode_steps=10)
    lengths, count = [], torch.zeros(50)
    for _ in range(40):
        record = env.step(torch.zeros(50, 3))
        count += record.valid
        ended = record.truncated | record.terminated
        lengths += list(zip(ended.nonzero().flatten().tolist(), count[ended].tolist(), strict=True))
        count[ended] = 0
    first = {}
    later = [length for drone, length in lengths if drone in first or first.update({drone: length})]
    assert set(later) == {10.0} and len(set(first.values())) > 5


def test_clocks_start_at_0_where_that_is_asked():
    assert (_open_env(50, random_clock=False).clock == 0).all()


# -- seeds -----------------------------------------------------------------------------------------------------------


def test_same_seed_same_episodes_and_other_seeds_others(same_record):
    first, second, other = _env(max_episode_steps=40), _env(max_episode_steps=40), _env(seed=8, max_episode_steps=40)
    differs = resets = 0
    for action in _actions(8, 120):
        a, b, c = first.step(action), second.step(action), other.step(action)
        same_record(a, b)
        differs += not torch.equal(a.observation["state"], c.observation["state"])
        resets += int((~a.valid).sum())
    assert resets > 16 and differs == 120


def test_an_episode_follows_from_seed_drone_and_number_alone():
    def starts(env: NavigationEnv, masks: list[list[int]]) -> dict[tuple[int, int], list[float]]:
        seen = {}
        for drones in masks:
            mask = torch.zeros(env.num_envs, dtype=torch.bool)
            mask[drones] = True
            env.reset(mask)
            for drone in drones:
                seen[drone, int(env.episode[drone])] = [*env.drone.pos[drone].tolist(), *env.goal[drone].tolist()]
        return seen

    one_by_one = starts(_open_env(3), [[0], [0], [0], [1], [2], [2], [1]])
    together = starts(_open_env(9), [[0, 1, 2], [0, 1, 2], [0, 8]])
    shared = one_by_one.keys() & together.keys()
    assert len(shared) == 7 and all(one_by_one[key] == together[key] for key in shared)
    assert len({tuple(value) for value in (one_by_one | together).values()}) == len(one_by_one.keys() | together.keys())


def test_a_seed_always_gives_the_starts_it_gave_first():
    env = _open_env(2, seed=7)
    assert torch.cat((env.drone.pos, env.goal), 1).tolist() == [
        pytest.approx(row, abs=1e-4) for row in GOLDEN_STARTS_AND_GOALS
    ]


# -- worlds ----------------------------------------------------------------------------------------------------------


def test_drones_spread_evenly_over_the_worlds():
    env = _env(10, num_worlds=3, num_obstacles=5)
    counts = torch.bincount(env.world_of)
    assert len(counts) == 3 and counts.max() - counts.min() <= 1
    assert len(set(env.world_seeds)) == 3


def test_a_drone_lives_in_its_world_alone(same_record):
    both = _env(4, num_worlds=2, world_seeds=[31, 32])
    alone = _env(4, world_seeds=[32])
    starts, goals = evaluation_starts(4, 6.0)
    both.place(starts, goals)
    alone.place(starts, goals)
    for action in _actions(4, 60) * 0.2 + torch.tensor((1.5, 0, 0)):
        same_record(both.step(action), alone.step(action), slice(2, 4))
    assert not torch.equal(both.step(action).observation["lidar"][:2], alone.step(action).observation["lidar"][:2])


def test_a_wrong_number_of_seeds_is_refused():
    with pytest.raises(ValueError, match="world_seeds has 3 seeds, more than env.num_envs=2"):
        _env(2, num_worlds=3, world_seeds=[1, 2, 3])
    with pytest.raises(ValueError, match="world_seeds"):
        NavigationConfig(num_worlds=2, world_seeds=[1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"dynamics": "jet"},
        {"actions": "words"},
        {"boundary": "wall"},
        {"num_envs": 0},
        {"decision_interval": 0},
        {"num_obstacles": -1},
        {"dt_s": 0.0},
        {"map_half_m": 1.0},
        {"body_radius_m": 4.5},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NavigationConfig(**wrong)


OTHER_BEAMS = [{"azimuths": 1}, {"azimuths": 90, "elevations_deg": (5.0,)}, {"azimuths": 9, "fov_deg": 60.0}]


@pytest.mark.parametrize("beams", OTHER_BEAMS, ids=str)
def test_contact_does_not_depend_on_the_beams(beams):
    """Drones at random places: the same ones touch a box, whatever the LiDAR of the sensor is."""
    start = torch.rand(400, 3, generator=torch.Generator().manual_seed(1)) * torch.tensor((12, 12, 3))
    start -= torch.tensor((6.0, 6.0, -0.5))
    hits = []
    for lidar in (LidarConfig(), LidarConfig(**beams)):
        env = _env(400, num_worlds=1, world_seeds=[5], lidar=lidar, movers=0)
        env.place(start, start + 5.0)
        hits.append(env.step(torch.zeros(400, 3)).info["collision"])
    assert torch.equal(hits[0], hits[1]) and 5 < hits[0].sum() < 200


def test_moving_obstacles_go_on_whatever_the_drones_do():
    calm, busy = _env(), _env()
    for step, action in enumerate(_actions(8, 60)):
        calm.step(action * 0)
        busy.step(action)
        if step % 7 == 0:
            busy.reset()
    assert torch.equal(calm.movers.pos, busy.movers.pos) and torch.equal(calm.movers.vel, busy.movers.vel)


# -- variants --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamics", ["velocity_lag", "quadrotor"])
def test_one_decision_of_4_is_4_decisions_of_1(dynamics):
    coarse, fine = _env(dynamics=dynamics, decision_interval=4), _env(dynamics=dynamics)
    for env in (coarse, fine):
        env.place(*evaluation_starts(8, 6.0))
    for action in _actions(8, 5):
        record = coarse.step(action)
        for _ in range(4):
            last = fine.step(action)
    for key, value in record.observation.items():
        assert torch.equal(value, last.observation[key]), key
    assert (coarse.clock == 20).all() and torch.equal(coarse.movers.pos, fine.movers.pos)


def test_27_discrete_actions_are_the_velocities_of_three_speeds_on_each_axis(same_record):
    env, continuous = _env(27, actions="discrete"), _env(27)
    assert env.action_spec.n == 27
    velocities = torch.tensor(list(itertools.product((-2.0, 0.0, 2.0), repeat=3)))
    assert {tuple(v) for v in env.action_table.tolist()} == {tuple(v) for v in velocities.tolist()}
    order = torch.randperm(27, generator=torch.Generator().manual_seed(0))
    same_record(env.step(order), continuous.step(env.action_table[order]))


def test_discrete_speeds_are_configuration():
    env = _env(2, actions="discrete", discrete_speeds_mps=[-1.0, 1.0])
    assert env.action_spec.n == 8 and env.action_table.abs().eq(1).all()


def test_a_quadrotor_flies_to_its_goal():
    env = _open_env(16, dynamics="quadrotor", random_clock=False)
    env.place(*evaluation_starts(16, 2.0))  # 12 m
    for _ in range(420):
        to_goal = (env.goal - env.drone.pos).norm(dim=-1).clamp(max=2.0)
        record = env.step(torch.stack((to_goal, torch.zeros(16), torch.zeros(16)), -1))
    assert record.info["success"].all() and (env.episode == env.episode[0]).all()


def test_disturbances_of_size_0_change_nothing(same_record):
    plain, zero = _env(), _env(disturbance=DisturbanceConfig(wind_change_s=3.0))
    for action in _actions(8, 30):
        same_record(plain.step(action), zero.step(action))


@pytest.mark.parametrize("backends", [("torch", "native")])
def test_backends_agree(backends):
    envs = [_env(64, backend=backend, num_obstacles=40, lidar_sees_moving=True) for backend in backends]
    for action in _actions(64, 30):
        a, b = (env.step(action) for env in envs)
        assert torch.equal(a.terminated, b.terminated)
        torch.testing.assert_close(a.reward, b.reward, atol=1e-4, rtol=0)
        for key, value in a.observation.items():
            torch.testing.assert_close(value, b.observation[key], atol=1e-4, rtol=0)


def test_without_the_detector_only_its_list_is_missing():
    envs = [_env(16, lidar_sees_moving=True, observe_moving=flag) for flag in (True, False)]
    for action in _actions(16, 10):
        a, b = (env.step(action) for env in envs)
        assert a.observation.keys() - b.observation.keys() == {"dynamic_obstacle"}
        assert all(torch.equal(x, a.observation[name]) for name, x in b.observation.items())
        assert torch.equal(a.reward, b.reward) and torch.equal(a.terminated, b.terminated)
    policy = build_policy(envs[1].observation_spec, envs[1].action_spec)
    assert policy.keys == ("lidar", "state") and isinstance(policy.encoder, NavRLEncoder)
    assert set(policy(b.observation)) == {"action", "log_prob", "value"}


# -- the boundary ----------------------------------------------------------------------------------------------------

AROUND = [  # (drone is at, start, goal) on a map of ±20 m, and whether it is outside
    ((0.0, 0.0), (0.0, 24.0), (0.0, -24.0), False),
    ((19.9, 0.0), (0.0, 24.0), (0.0, -24.0), False),
    ((20.1, 0.0), (0.0, 24.0), (0.0, -24.0), True),  # beside the map: the way around the obstacles
    ((0.0, -25.9), (0.0, 24.0), (0.0, -24.0), False),  # overshoots its goal
    ((0.0, 26.1), (0.0, 24.0), (0.0, -24.0), True),
    ((22.0, 0.0), (22.0, 24.0), (22.0, -24.0), False),  # the straight way, beside the map
    ((-21.0, 0.0), (22.0, 24.0), (22.0, -24.0), True),
]


def _at_the_places(backend, boundary):
    env = _open_env(len(AROUND), backend=backend, boundary=boundary, random_clock=False)
    high = lambda k: torch.tensor([[*row[k], 2.0] for row in AROUND])  # noqa: E731
    env.place(high(1), high(2))
    env.drone.pos.copy_(high(0))
    return env.step(torch.zeros(len(AROUND), 3))


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_leaving_the_map_ends_an_episode_where_that_is_asked(backend):
    record = _at_the_places(backend, "terminate")
    assert record.terminated.tolist() == [row[3] for row in AROUND]
    assert torch.equal(record.info["collision"], record.terminated.float()) and not record.truncated.any()
    assert not _at_the_places(backend, "none").terminated.any()


def test_evaluations_take_the_boundary_from_the_command_line():
    words = ["env.boundary=terminate", "eval.map_seeds=[1]", "eval.num_drones=2"]
    assert load_evaluate(words).env.boundary == "terminate" and load_evaluate([]).env.boundary == "none"


# -- bad actions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamics", ["velocity_lag", "quadrotor"])
def test_a_nan_action_leaves_the_other_drones_untouched_and_the_env_usable(dynamics, same_record):
    hurt, sound = _env(dynamics=dynamics), _env(dynamics=dynamics)
    others = torch.tensor([0, 1, 3, 4, 5, 6, 7])
    for step, action in enumerate(_actions(8, 60)):
        poisoned = action.clone()
        if step < 30:
            poisoned[2, step % 3] = (math.nan, math.inf, -math.inf)[step % 3]
        same_record(hurt.step(poisoned), sound.step(action), others)
        if step == 29:
            with pytest.raises(BadActionError, match=r"1 of 8 environments \(2\)"):
                hurt.check()
    hurt.check()
    assert torch.isfinite(hurt.drone.pos).all() and torch.isfinite(hurt.drone.vel).all()


# -- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant", [{}, {"dynamics": "quadrotor"}, {"swarm": 4, "goals": "crossing"}, {"shield": True}]
)
def test_a_saved_env_goes_on_bit_for_bit(variant, same_record):
    config = {"disturbance": ALL_DISTURBANCES, "num_worlds": 2, "max_episode_steps": 60, "lidar_sees_moving": True}
    env, twin = _env(**config | variant), _env(**config | variant)
    actions = _actions(8, 260)
    for action in actions[:90]:
        env.step(action)
    file = io.BytesIO()
    torch.save(env.state_dict(), file)
    expected = [env.step(action) for action in actions[90:]]
    file.seek(0)
    twin.load_state_dict(torch.load(file, weights_only=True))
    assert sum(int((~record.valid).sum()) for record in expected) > 16
    for action, record in zip(actions[90:], expected, strict=True):
        same_record(twin.step(action), record)


def test_a_fresh_env_stays_fresh_when_restored():
    env, twin = _open_env(400), _open_env(400)
    twin.step(torch.zeros(400, 3))
    twin.load_state_dict(env.state_dict())
    env.reset()
    twin.reset()
    assert torch.equal(env.clock, twin.clock) and env.clock.max() > 1000


@pytest.mark.parametrize(
    "other", [{"seed": 8}, {"seed": 8, "world_seeds": [1]}, {"world_seeds": [2]}, {"num": 9, "world_seeds": [1]}]
)
def test_the_state_of_another_env_is_refused(other):
    state = _env(**{"world_seeds": [1]} if "world_seeds" in other else {}).state_dict()
    with pytest.raises(ValueError, match="build"):
        _env(**other).load_state_dict(state)


# -- no host synchronization -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamics", ["velocity_lag", "quadrotor"])
@pytest.mark.parametrize("actions", ["continuous", "discrete"])
def test_a_step_needs_no_value_and_no_shape_from_the_data(dynamics, actions):
    # a meta tensor has a shape and no values: any read-back, boolean index or data-dependent shape raises
    config = NavigationConfig(
        num_obstacles=20, num_worlds=2, dynamics=dynamics, actions=actions, disturbance=ALL_DISTURBANCES, lidar_sees_moving=True,
        dyn=MovingObstaclesConfig(num_obstacles=8), map_half_m=6.0, decision_interval=2,
        boundary="terminate" if actions == "discrete" else "none",
    )  # fmt: skip
    env = NavigationEnv(6, "meta", 1, config)
    for _ in range(3):
        action = (
            torch.zeros(6, dtype=torch.int64, device="meta")
            if actions == "discrete"
            else torch.zeros(6, 3, device="meta")
        )
        record = env.step(action)
    env.reset(torch.ones(6, dtype=torch.bool, device="meta"))
    assert record.observation["lidar"].shape == (6, 1, 36, 4) and record.reward.shape == (6,)
    with pytest.raises(NotImplementedError):
        env.clock.nonzero()  # and a read-back would have been noticed


# -- kernels are compiled while maps are generated -------------------------------------------------------------------


def _launches(monkeypatch) -> list[tuple]:
    """The launches of sensors from here on, as a Triton kernel's key distinguishes them."""
    found, obstacles = [], env_module.MovingObstacles
    near = lambda x: x.grid.near.shape[1:2] + x.grid.boxes.shape[2:]  # noqa: E731

    def spy(name, original, key):
        return lambda self, *args: (found.append((name, *key(self, *args))), original(self, *args))[1]

    monkeypatch.setattr(
        Lidar, "measure", spy("scan", Lidar.measure, lambda x, pos, yaw: (pos.shape, yaw.shape, near(x)))
    )
    monkeypatch.setattr(obstacles, "nearest", spy("nearest", obstacles.nearest, lambda x, pos, of, k: (pos.shape, k)))
    monkeypatch.setattr(obstacles, "advance", spy("advance", obstacles.advance, lambda x, steps: (steps,)))
    return found


def test_kernels_launched_ahead_are_those_of_a_step(monkeypatch):
    config = {"num_worlds": 4, "decision_interval": 3, "backend": "torch"}
    plain = _env(12, **config)
    found = _launches(monkeypatch)
    monkeypatch.setattr(env_module, "pick_backend", lambda device, wanted: "triton")
    env = _env(12, **config)
    ahead = found[:3]
    assert {name for name, *_ in ahead} == {"scan", "nearest", "advance"}
    for action in _actions(12, 5):
        env.step(action)
        plain.step(action)
    assert set(found) == set(ahead)
    for name, value in plain.state_tensors().items():
        assert torch.equal(env.state_tensors()[name], value)


def test_kernels_that_fail_ahead_do_not_stop_an_env(monkeypatch):
    def in_thread(device, *calls):
        with ThreadPoolExecutor() as pool:
            return [pool.submit(call) for call in calls]

    monkeypatch.setattr(env_module, "run_beside", in_thread)
    monkeypatch.setattr(NavigationEnv, "_compile_kernels", lambda self: 1 / 0)
    _env(4).step(torch.zeros(4, 3))
