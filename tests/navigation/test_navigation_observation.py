"""Each entry of the observation by hand."""

from __future__ import annotations

import math

import pytest
import torch

from slipstream.tasks.navigation.physics.disturbance import DisturbanceConfig


def test_shapes_and_types_are_the_specification_s(situation):
    made = situation(num_envs=3)
    observation = made.start((0, -24, 1), (0, 24, 1))
    assert {key: list(value.shape) for key, value in observation.items()} == {
        "state": [3, 8],
        "lidar": [3, 1, 36, 4],
        "direction": [3, 1, 3],
        "dynamic_obstacle": [3, 1, 5, 10],
    }
    assert all(value.dtype == torch.float32 for value in observation.values())
    assert {key: spec.shape for key, spec in made.env.observation_spec.items()} == {
        k: tuple(v.shape[1:]) for k, v in observation.items()
    }


def test_the_goal_frame_stays_that_of_start_and_goal_when_the_drone_drifts(situation):
    made = situation()
    made.start((0, 0, 1), (0, 10, 1))  # x of the frame is world y, its y is world −x
    made.env.drone.pos[:] = torch.tensor((3.0, 6.0, 2.0))
    made.env.drone.vel[:] = torch.tensor((0.5, 1.5, -0.25))
    state = made.look()["state"][0].tolist()
    norm = math.sqrt(9 + 16 + 1)
    assert state == pytest.approx([4 / norm, 3 / norm, -1 / norm, 5, -1, 1.5, -0.5, -0.25], abs=1e-6)


def test_direction_is_the_way_from_start_to_goal_without_height_and_not_normalized(situation):
    made = situation()
    observation = made.start((1, 2, 0.5), (4, -2, 2.5))
    assert observation["direction"][0, 0].tolist() == [3, -4, 0]
    made.env.drone.pos += 1.0
    assert made.look()["direction"][0, 0].tolist() == [3, -4, 0]


def test_an_action_is_a_velocity_in_the_goal_frame(situation):
    made = situation()
    made.start((0, 0, 1), (0, 10, 1))
    for _ in range(300):
        made.step(1.0, 0.5, 0.25)
        made.env.drone.pos[:] = torch.tensor((0.0, 0.0, 1.0))
    assert made.env.drone.vel[0].tolist() == pytest.approx([-0.5, 1.0, 0.25], abs=1e-3)
    assert made.look()["state"][0, 5:].tolist() == pytest.approx([1.0, 0.5, 0.25], abs=1e-3)


def test_beams_count_counter_clockwise_from_the_way_ahead_and_upwards(situation):
    made = situation(boxes=[(0, 2.5, 0.5, 0.5, 6), (-2.0, 0, 0.5, 0.5, 6)])  # ahead, and to the left
    lidar = made.start((0, 0, 1.0), (0, 10, 1.0))["lidar"][0, 0]
    assert lidar[0, 1].item() == pytest.approx(4 - 2.0, abs=1e-5)
    assert lidar[9, 1].item() == pytest.approx(4 - 1.5, abs=1e-5)
    assert lidar[18, 1] == 0 and lidar[27, 1] == 0  # nothing behind, nothing to the right
    assert lidar[0, 2].item() == pytest.approx(4 - 2 / math.cos(math.radians(10)), abs=1e-5)
    assert lidar[0, 3].item() == pytest.approx(4 - 2 / math.cos(math.radians(20)), abs=1e-5)
    made.env.drone.pos[:] = torch.tensor((0.0, -9.0, 0.5))
    lidar = made.look()["lidar"][0, 0]
    assert lidar[:, 0].tolist() == pytest.approx([4 - 0.5 / math.sin(math.radians(10))] * 36, abs=1e-5)  # the ground
    assert (lidar[:, 1:] == 0).all()


def test_a_moving_box_row_by_row(situation):
    made = situation()
    made.put_mover(2, (1.0, 2.0, 2.0), vel=(0.3, -0.4, 0.5))  # 0.75 m wide
    rows = made.start((0, 0, 1), (0, 10, 1))["dynamic_obstacle"][0, 0]
    norm = math.sqrt(6)
    assert rows[0].tolist() == pytest.approx(
        [2 / norm, -1 / norm, 1 / norm, math.sqrt(5), 1, -0.4, -0.3, 0.5, 2, 1], abs=1e-6
    )
    assert (rows[1:] == 0).all()


def test_a_pillar_is_flat_its_z_offset_is_0(situation):
    made = situation()
    made.put_mover(7, (-3.0, 0.0, 2.5), vel=(1, 0, 0))  # 1 m wide
    rows = made.start((0, 0, 1), (10, 0, 1))["dynamic_obstacle"][0, 0]
    assert rows[0].tolist() == pytest.approx([-1, 0, 0, 3, 0, 1, 0, 0, 3, 0], abs=1e-6)


@pytest.mark.parametrize(("distance", "seen"), [(3.999, True), (4.001, False)])
@pytest.mark.parametrize("up", [0.0, 2.5])
def test_only_the_horizontal_distance_decides_what_is_seen(situation, distance, seen, up):
    made = situation()
    made.put_mover(0, (distance, 0, 1 + up))
    row = made.start((0, 0, 1), (10, 0, 1))["dynamic_obstacle"][0, 0, 0]
    assert bool((row != 0).any()) == seen


def test_the_five_nearest_come_nearest_first(situation):
    made = situation()
    for index, x in enumerate((3.0, 1.5, 3.5, 2.0, 2.5, 1.0, 3.8, 0.9)):
        made.put_mover(index, (0, x, 2.5))
    rows = made.start((0, 0, 2.5), (10, 0, 2.5))["dynamic_obstacle"][0, 0]
    assert rows[:, 3].tolist() == pytest.approx([0.9, 1.0, 1.5, 2.0, 2.5])
    assert rows[:, 8].tolist() == [3, 1, 1, 3, 0] and rows[:, 9].tolist() == [0, 0, 1, 1, 0]


def test_without_moving_obstacles_the_rows_are_zero(situation):
    assert (situation(num_movers=0).start((0, 0, 1), (10, 0, 1))["dynamic_obstacle"] == 0).all()


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_moving_obstacles_show_in_the_lidar_only_when_asked(situation, backend):
    seen, unseen = (situation(lidar_sees_moving=flag, backend=backend) for flag in (True, False))
    for made in (seen, unseen):
        made.put_mover(3, (2.0, 0, 1))
        made.start((0, 0, 1), (10, 0, 1))
    assert seen.look()["lidar"][0, 0, 0, 1].item() == pytest.approx(4 - 1.5, abs=1e-5)
    assert unseen.look()["lidar"][0, 0, 0, 1] == 0
    seen.put_mover(3, (0.75, 0, 1))
    unseen.put_mover(3, (0.75, 0, 1))
    a, b = seen.step(), unseen.step()
    assert torch.equal(a.reward, b.reward) and torch.equal(a.terminated, b.terminated) and a.terminated.all()
    assert (a.observation["lidar"] > b.observation["lidar"]).any()


def test_a_beam_on_a_moving_obstacle_shorter_than_the_body_ends_nothing(situation):
    seen, unseen = situation(lidar_sees_moving=True), situation()
    for made in (seen, unseen):
        made.put_mover(
            3, (0.65, 0.65, 1)
        )  # its corner 0.21 m away, its center 0.92 m: more than the 0.8 m that count as overlap
        made.start((0, 0, 1), (10, 0, 1))
    a, b = seen.step(), unseen.step()
    assert a.observation["lidar"].max() > 4 - 0.3
    assert torch.equal(a.reward, b.reward) and not a.terminated.any() and not b.terminated.any()


def test_sensor_noise_changes_what_is_seen_not_what_happens(situation):
    boxes = [(0.9, 0, 0.5, 0.5, 6)]
    noise = DisturbanceConfig(lidar_noise_m=0.3, lidar_dropout=0.3, velocity_noise_mps=0.5)
    clean, noisy = situation(boxes=boxes), situation(boxes=boxes, disturbance=noise)
    for made in (clean, noisy):
        made.start((0, 0, 2), (10, 0, 2))
    a, b = clean.step(0.5, 0, 0), noisy.step(0.5, 0, 0)
    assert torch.equal(a.reward, b.reward) and torch.equal(a.terminated, b.terminated)
    assert not torch.equal(a.observation["lidar"], b.observation["lidar"])
    assert torch.equal(a.observation["state"][:, :5], b.observation["state"][:, :5])
    assert not torch.equal(a.observation["state"][:, 5:], b.observation["state"][:, 5:])
    assert noisy.env.observation_spec["lidar"].low <= b.observation["lidar"].min() and b.observation["lidar"].max() <= 4
