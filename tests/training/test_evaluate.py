"""The protocol over worlds whose outcome is known beforehand, and what is made of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from slipstream.config.compose import load_train
from slipstream.config.schema import EvalConfig
from slipstream.envs.base import BadActionError, Outcome, TensorEnv
from slipstream.envs.specs import Box, Observation
from slipstream.tasks.evaluation import bootstrap_interval, fly_each, fly_episodes, wilson, with_intervals
from slipstream.tasks.navigation import demo
from slipstream.tasks.navigation.env import NavigationConfig, evaluation_starts
from slipstream.tasks.navigation.evaluation import Flights, compare, evaluation_env, fly, summarize
from slipstream.tasks.navigation.physics.obstacles import MovingObstaclesConfig
from slipstream.tasks.navigation.physics.world import WorldGrid

SMALL = NavigationConfig(
    num_obstacles=0, map_half_m=4.0, dyn=MovingObstaclesConfig(num_obstacles=0)
)  # 16 m from start to goal
FIGURES = {"success", "success_low", "success_high", "collision", "timeout", "time_to_goal_s", "drones"}

# -- flights of known outcome ------------------------------------------------------------------------------------------


def straight(observation: Observation) -> Tensor:
    """Full speed along the line from start to goal."""
    return torch.tensor([2.0, 0.0, 0.0]).expand(len(observation["state"]), 3)


def homing(observation: Observation) -> Tensor:
    """To the goal, slower as it comes near, and staying there."""
    towards, distance = observation["state"][:, :3], observation["state"][:, 3:4]
    return towards * distance.clamp(max=2.0)


def hovering(observation: Observation) -> Tensor:
    return torch.zeros(len(observation["state"]), 3)


def crossing(policy, monkeypatch=None, walls=None, drones=4, maps=(7, 8), max_steps=700, **settings):
    """The flights of `policy`; `walls` gives the boxes [M, 5] of each map."""
    if walls is not None:
        worlds = [np.array(w, np.float32).reshape(-1, 5) for w in walls]
        generate = lambda seeds, count, range_m, half_m, device: WorldGrid.from_boxes(worlds, range_m, half_m, device)  # noqa: E731
        monkeypatch.setattr(WorldGrid, "generate", generate)
    env = evaluation_env(SMALL, EvalConfig(num_drones=drones, map_seeds=list(maps), max_steps=max_steps), "cpu")
    return fly(env, policy, drones, **settings)


WALL = [0.0, 0.0, 4.0, 0.2, 6.0]  # across the whole map, 6 m high
EAST = [2.0, 0.0, 2.0, 0.2, 6.0]  # only where x > 0


def test_starts_and_goals_are_the_protocols():
    start, goal = evaluation_starts(256)
    assert start[0].tolist() == [-16.0, 24.0, 2.0] and start[128].tolist() == [0.0, 24.0, 2.0]
    assert start[255].tolist() == [pytest.approx((255 / 256 - 0.5) * 32), 24.0, 2.0]
    assert goal[0].tolist() == [-16.0, -24.0, 2.0] and goal[255].tolist() == [16.0, -24.0, 2.0]


def test_flying_straight_arrives_when_the_lag_says():
    flights = crossing(straight)
    assert flights.success.all() and not flights.collision.any() and not flights.timeout.any()
    start, goal = evaluation_starts(4, 4.0)
    way = (goal - start).norm(dim=1) - 0.5  # the goal counts from 0.5 m
    expected = way / 2.0 + 1 / 2.2  # at 2 m/s, one time constant late
    np.testing.assert_allclose(flights.time_to_goal_s, expected.expand(2, 4), atol=0.03)
    assert not flights.success_strict.any()  # they fly on past it


def test_staying_at_the_goal_is_also_navrls_stricter_success():
    flights = crossing(homing, max_steps=1000)
    assert flights.success.all() and flights.success_strict.all()


def test_hovering_is_a_timeout():
    flights = crossing(hovering, max_steps=50)
    assert flights.timeout.all() and np.isnan(flights.time_to_goal_s).all()


def test_a_wall_stops_the_drones_of_its_map_only(monkeypatch):
    flights = crossing(straight, monkeypatch, [[WALL], []])
    assert flights.collision.tolist() == [[True] * 4, [False] * 4]
    assert flights.success.tolist() == [[False] * 4, [True] * 4]
    assert flights.map_seeds == [7, 8]


@pytest.mark.parametrize(("wall_y", "arrives"), [(-9.0, True), (-7.0, False)])
def test_a_collision_counts_before_the_goal_and_not_after_it(monkeypatch, wall_y, arrives):
    flights = crossing(straight, monkeypatch, [[[0.0, wall_y, 8.0, 0.2, 6.0]]], maps=(7,))  # the goals lie at y = -8
    assert (flights.success == arrives).all() and (flights.collision != arrives).all()
    assert not flights.success_strict.any()


def test_paths_are_kept_until_the_flight_is_over(monkeypatch):
    flights = crossing(straight, monkeypatch, [[WALL]], maps=(7,), drones=2)
    assert flights.paths.shape[1:] == (2, 3)
    start, _ = evaluation_starts(2, 4.0)
    np.testing.assert_allclose(flights.paths[0], start)
    ends = np.isnan(flights.paths[:, :, 0]).argmax(0)
    assert (ends > 0).all() and np.isnan(flights.paths[ends.max() :]).all()
    assert flights.paths[ends[0] - 1, 0, 1] < 1.0  # at the wall


def test_a_policy_that_gives_nan_is_an_error():
    with pytest.raises(BadActionError, match="NaN"):
        crossing(lambda observation: hovering(observation) * float("nan"), max_steps=3)


class Countdown(TensorEnv):
    """Env i ends after i + 1 steps, each paying 1; `won` is 1 in every second one."""

    observation_spec = {"x": Box((1,))}
    action_spec = Box((1,), -1.0, 1.0)
    state_names = ("left",)

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.left = torch.zeros(num_envs)

    def _reset(self, mask: Tensor) -> None:
        self.left.copy_(torch.where(mask, torch.arange(self.num_envs) + 1.0, self.left))

    def _advance(self, action: Tensor) -> None:
        self.left -= 1

    def _observe(self) -> Observation:
        return {"x": self.left[:, None].clone()}

    def _outcome(self) -> Outcome:
        over = self.left <= 0
        won = (torch.arange(self.num_envs) % 2).float()
        return Outcome(torch.ones(self.num_envs), over, torch.zeros_like(over), {"won": won})


def test_unfinished_episodes_count_as_they_stood():
    act = lambda observation: torch.zeros(len(observation["x"]), 1)  # noqa: E731
    result = fly_episodes(Countdown(4), act, 3)
    assert result == {"return": 2.25, "length": 2.25, "won": 0.5, "unfinished": 0.25}


def test_each_figure_of_an_own_env_has_an_interval():
    act = lambda observation: torch.zeros(len(observation["x"]), 1)  # noqa: E731
    figures = fly_each(Countdown(4), act)
    assert figures["length"].tolist() == [1.0, 2.0, 3.0, 4.0] and figures["won"].tolist() == [0.0, 1.0, 0.0, 1.0]
    result = with_intervals(figures)
    assert result["length"] == 2.5 and 1.0 <= result["length_low"] < 2.5 < result["length_high"] <= 4.0
    assert [result["won"], result["won_low"], result["won_high"]] == pytest.approx([0.5, 0.15, 0.85], abs=0.001)
    alone = with_intervals(fly_each(Countdown(1), act))
    assert alone == {f"{name}{part}": value for name, mean in (("return", 1.0), ("length", 1.0), ("won", 0.0))
                     for part, value in (("", mean), ("_low", None), ("_high", None))}  # fmt: skip


# -- judging -----------------------------------------------------------------------------------------------------------


def flights_of(success, collision=None, time_s=None):
    success = np.array(success, dtype=bool)
    collision = np.zeros_like(success) if collision is None else np.array(collision, dtype=bool)
    time_s = np.where(success, 10.0, np.nan) if time_s is None else np.array(time_s)
    none = np.zeros((0, success.shape[1], 3))
    return Flights(list(range(len(success))), success, collision, time_s, success, none, none)


def test_the_figures_of_two_maps_by_hand():
    flights = flights_of(
        [[1, 1, 1, 0], [1, 0, 0, 0]],
        [[0, 0, 0, 1], [0, 1, 0, 0]],
        [[10.0, 12.0, 14.0, np.nan], [20.0, np.nan, np.nan, np.nan]],
    )
    result = summarize(flights)
    assert result["success"] == 0.5 and result["collision"] == 0.25 and result["timeout"] == 0.25
    assert result["time_to_goal_s"] == 14.0 and result["drones"] == 8
    low, high = result["success_low"], result["success_high"]
    assert (low, high) == (0.25, 0.75)  # of two maps: both the worse, both the better
    first, second = result["maps"]
    names = ("success", "collision", "timeout", "time_to_goal_s", "drones", "map_seed")
    assert [first[name] for name in names] == [0.75, 0.25, 0.0, 12.0, 4, 0]
    assert [second[name] for name in names] == [0.25, 0.25, 0.5, 20.0, 4, 1]
    assert first["success_low"] < 0.75 < first["success_high"]


def test_the_interval_comes_from_the_maps_not_from_the_drones():
    assert bootstrap_interval(np.array([0.7, 0.7, 0.7])) == pytest.approx((0.7, 0.7))
    # half of 16 maps at 0, half at 1: the mean of a resample is a binomial of 16 draws, whose 95 % lie from 4/16 to
    # 12/16
    assert bootstrap_interval(np.repeat([0.0, 1.0], 8)) == (0.25, 0.75)
    assert bootstrap_interval(np.array([0.2, 0.9, 0.4])) == bootstrap_interval(np.array([0.2, 0.9, 0.4]))


def test_one_maps_interval_is_wilsons():
    assert wilson(50, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    low, high = wilson(10, 10)
    assert 0.7 < low < 0.75 and high == pytest.approx(1.0) and wilson(0, 0) == (0.0, 1.0)


def test_two_policies_are_compared_map_by_map():
    # maps of very different difficulty, and the same gain of 0.25 on each: the difference is certain
    mine, theirs = flights_of([[1, 1, 1, 1], [1, 0, 0, 0]]), flights_of([[1, 1, 1, 0], [0, 0, 0, 0]])
    result = compare(mine, theirs)
    assert (result["difference"], result["difference_low"], result["difference_high"]) == (0.25, 0.25, 0.25)
    assert [row["difference"] for row in result["maps"]] == [0.25, 0.25]
    assert compare(theirs, mine)["difference"] == -0.25


def test_a_mixed_comparison_has_an_interval_over_zero():
    result = compare(flights_of([[1, 1], [0, 0]]), flights_of([[0, 0], [1, 1]]))
    assert (result["difference"], result["difference_low"], result["difference_high"]) == (0.0, -1.0, 1.0)


def test_flights_over_other_maps_cannot_be_compared():
    other = flights_of([[1, 1]])
    other.map_seeds = [99]
    with pytest.raises(ValueError, match="same maps"):
        compare(flights_of([[1, 1]]), other)


def test_the_demo_flies_straight_as_fast_as_the_drone_may(monkeypatch):
    monkeypatch.setattr(demo, "FINAL_MAPS", [101])
    words = "preset=demo env.max_speed_mps=1 env.map_half_m=4 env.num_obstacles=0 env.dyn.num_obstacles=0 device=cpu"
    flights = demo.NavigationDemo(
        load_train([*words.split(), "eval.num_drones=2", "eval.bootstrap=10", "eval.max_steps=1200"])
    )
    flights.before()
    assert [row["name"] for row in flights.rows] == ["flying straight", "untrained policy"]
    assert flights.rows[0]["time_to_goal_s"] > 15  # 16 m
