"""Each term of the reward and each end, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from slipstream.tasks.navigation.env import NavigationReward

LOG_4 = math.log(4)
START_V = 0.016 * 2.2 * 2  # m/s after one step with a command of 2 m/s, from rest


def _open(situation, height: float = 2.0, goal: tuple | None = None, **config):
    """Nothing in range: all beams read 4 m."""
    made = situation(**config)
    made.start((0, 0, height), goal or (10, 0, height))
    return made


def test_hovering_in_the_open_pays_1_and_the_clearances(situation):
    assert _open(situation, num_movers=0).step().reward.item() == pytest.approx(1 + LOG_4, abs=1e-5)
    assert _open(situation, num_movers=8).step().reward.item() == pytest.approx(1 + 2 * LOG_4, abs=1e-5)


@pytest.mark.parametrize(("action", "towards"), [((2, 0, 0), 1), ((-2, 0, 0), -1), ((0, 2, 0), 0)])
def test_speed_towards_the_goal_is_paid_and_its_change_costs_a_tenth(situation, action, towards):
    reward = _open(situation, num_movers=0).step(*action).reward.item()
    assert reward == pytest.approx(1 + LOG_4 + towards * START_V - 0.1 * START_V, abs=1e-4)


def test_speed_is_measured_along_the_way_to_the_goal_in_three_dimensions(situation):
    made = _open(situation, num_movers=0, goal=(3, 0, 6))  # 3-4-5
    made.env.drone.vel[:] = torch.tensor((0.0, 0.0, 1.0))
    up = 4 - 0.016  # left to the goal after this step
    assert made.step(0, 0, 1).reward.item() == pytest.approx(1 + LOG_4 + up / math.hypot(3, up), abs=1e-5)


def test_the_cost_of_a_reversal_is_its_change_of_velocity(situation):
    made = _open(situation, num_movers=0)
    made.env.drone.vel[:] = torch.tensor((0.0, 2.0, 0.0))
    change = 0.016 * 2.2 * 4
    side = (2 - change) * 0.016  # off the way: the unit vector to the goal turns
    toward = -(2 - change) * side / math.hypot(10, side)
    assert made.step(0, -2, 0).reward.item() == pytest.approx(1 + LOG_4 + toward - 0.1 * change, abs=1e-4)


def test_static_clearance_is_the_mean_log_of_all_beams(situation):
    made = _open(situation, height=0.5, num_movers=0)  # the lowest level meets the ground
    ground = 0.5 / math.sin(math.radians(10))
    assert made.step().reward.item() == pytest.approx(1 + 0.75 * LOG_4 + 0.25 * math.log(ground), abs=1e-5)


def test_a_beam_of_length_0_counts_as_1e_6(situation):
    made = situation(num_movers=0, boxes=[(0, 0, 1, 1, 6)])
    made.start((0, 0, 2), (10, 0, 2))  # inside the box
    record = made.step()
    assert record.reward.item() == pytest.approx(1 + math.log(1e-6), abs=1e-4) and record.terminated.all()


def test_moving_clearance_is_the_mean_log_of_the_five_nearest_less_half_their_width(situation):
    made = situation()
    made.put_mover(3, (2.0, 0, 3.0))  # a box 1 m wide, 1 m above: sqrt(5) m away
    made.put_mover(4, (0, 3.0, 2.5))  # a pillar 0.25 m wide, flat
    made.start((0, 0, 2), (10, 0, 2))
    moving = (math.log(math.sqrt(5) - 0.5) + math.log(3 - 0.125) + 3 * LOG_4) / 5
    assert made.step().reward.item() == pytest.approx(1 + LOG_4 + moving, abs=1e-5)


def test_the_moving_clearance_is_clamped_at_both_ends(situation):
    made = situation()
    made.put_mover(0, (3.99, 0, 4.5))  # sqrt(3.99² + 2.5²) = 4.7 m away, but in horizontal range: counts as 4
    made.put_mover(7, (0.1, 0, 2.5))  # within a pillar
    made.start((0, 0, 2), (10, 0, 2))
    assert made.step().reward.item() == pytest.approx(1 + LOG_4 + (math.log(1e-6) + 4 * LOG_4) / 5, abs=1e-4)


@pytest.mark.parametrize(("height", "excess"), [(1.0, 0), (3.0, 0), (3.19, 0), (3.5, 0.3), (0.81, 0), (0.7, 0.1)])
def test_height_beyond_the_band_costs_8_times_its_square(situation, height, excess):
    made = _open(situation, height=1.0, goal=(10, 0, 3.0), num_movers=0)
    made.env.drone.pos[:, 2] = height
    record = made.step()
    static = record.observation["lidar"].sub(4).neg().log().mean().item()
    assert record.reward.item() == pytest.approx(1 + static - 8 * excess**2, abs=1e-4)


def test_the_weights_are_configuration(situation):
    weights = NavigationReward(speed=2, alive=3, static_clearance=0.5, moving_clearance=0, smoothness=0, height=0)
    reward = _open(situation, reward=weights).step(2, 0, 0).reward.item()
    assert reward == pytest.approx(2 * START_V + 3 + 0.5 * LOG_4, abs=1e-5)


def test_a_collision_and_the_first_arrival_have_terms_of_their_own(situation):
    weights = NavigationReward(collision=20, goal=5)
    crash, plain = (
        _open(situation, height=4.2, num_movers=0, reward=reward) for reward in (weights, NavigationReward())
    )
    assert crash.step().reward.item() == pytest.approx(plain.step().reward.item() - 20, abs=1e-4)
    made, plain = (
        _open(situation, goal=(0.4, 0, 2), num_movers=0, reward=reward) for reward in (weights, NavigationReward())
    )
    bonus = [made.step().reward.item() - plain.step().reward.item() for _ in range(3)]
    assert bonus == pytest.approx([5, 0, 0], abs=1e-4)


# -- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gap", "ends"), [(0.29, True), (0.31, False)])
@pytest.mark.parametrize("side", [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_a_beam_below_0_3_m_ends_the_episode(situation, gap, ends, side):
    made = situation(num_movers=0, boxes=[(side[0] * (gap + 0.5), side[1] * (gap + 0.5), 0.5, 0.5, 6)])
    made.start((0, 0, 2), (10, 0, 2))
    record = made.step()
    assert bool(record.terminated) == ends and record.info["collision"].item() == ends
    assert not record.truncated


@pytest.mark.parametrize(("width_class", "half_width"), [(0, 0.125), (1, 0.25), (2, 0.375), (3, 0.5)])
@pytest.mark.parametrize(
    ("across", "up", "ends"),
    [(-0.01, 0, True), (0.01, 0, False), (-0.01, 0.79, True), (-0.01, -0.79, True), (-0.01, 0.81, False)],
)
def test_a_moving_box_ends_the_episode_within_0_3_m(situation, width_class, half_width, across, up, ends):
    made = situation()
    made.put_mover(width_class, (0, half_width + 0.3 + across, 2 + up))  # 0.5 m half height + 0.3 m
    made.start((0, 0, 2), (10, 0, 2))
    assert bool(made.step().terminated) == ends


@pytest.mark.parametrize(("across", "ends"), [(-0.01, True), (0.01, False)])
@pytest.mark.parametrize("height", [0.3, 3.9])
def test_a_pillar_ends_the_episode_at_any_height(situation, across, ends, height):
    made = situation()
    made.put_mover(7, (-0.8 - across, 0, 2.5))
    made.start((0, 0, height), (10, 0, height))
    assert bool(made.step().terminated) == ends


@pytest.mark.parametrize(("height", "ends"), [(0.19, True), (0.21, False), (3.99, False), (4.01, True)])
def test_flying_below_0_2_m_or_above_4_m_ends_the_episode(situation, height, ends):
    record = _open(situation, height=height).step()
    assert bool(record.terminated) == ends and record.info["collision"].item() == ends


def test_an_episode_has_exactly_as_many_steps_as_asked(situation):
    made = _open(situation, num_movers=0, max_episode_steps=7)
    records = [made.step() for _ in range(9)]
    assert [bool(r.truncated) for r in records] == [False] * 6 + [True] + [False] * 2
    assert [bool(r.valid) for r in records] == [True] * 7 + [False, True]


def test_reaching_the_goal_is_recorded_and_ends_nothing(situation):
    made = _open(situation, goal=(0.55, 0, 2), num_movers=0)
    assert made.step().info["success"] == 0
    made.env.drone.pos[:, 0] = 0.1
    record = made.step()
    assert (
        record.info["success"] == 1 and record.info["at_goal"] == 1 and not record.terminated and not record.truncated
    )
    made.env.drone.pos[:, 0] = -5.0
    record = made.step()
    assert record.info["success"] == 1 and record.info["at_goal"] == 0  # it stays recorded
    made.start((0, 0, 2), (10, 0, 2))
    assert made.step().info["success"] == 0  # until the next episode


def test_an_arrival_by_a_collision_is_no_success(situation):
    made = situation(num_movers=0, boxes=[(0.75, 0, 0.5, 0.5, 6)])
    made.start((0, 0, 2), (0.2, 0, 2))
    record = made.step()
    assert record.terminated and record.info["success"] == 0 and record.info["at_goal"] == 1


def test_the_goal_may_end_an_episode_where_that_is_asked(situation):
    made = _open(situation, goal=(0.4, 0, 2), num_movers=0, goal_ends_episode=True)
    record = made.step()
    assert record.truncated and not record.terminated and record.info["success"] == 1
