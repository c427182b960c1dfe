"""Frames: signs and axes by hand."""

from __future__ import annotations

import math

import pytest
import torch

from slipstream.sim.frames import heading_of, quat_from_yaw, quat_rotate_by, quat_to_matrix, to_goal_frame, to_world

NORTH = torch.tensor((0.0, 1.0))  # the goal lies along +y


def test_the_goal_frame_has_x_ahead_y_left_z_up():
    assert to_goal_frame(torch.tensor((0.0, 3.0, 1.0)), NORTH).tolist() == [3, 0, 1]
    assert to_goal_frame(torch.tensor((-2.0, 0.0, 0.0)), NORTH).tolist() == [0, 2, 0]
    assert to_world(torch.tensor((3.0, 2.0, 1.0)), NORTH).tolist() == [-2, 3, 1]


def test_to_world_undoes_to_goal_frame():
    generator = torch.Generator().manual_seed(0)
    vec, heading = torch.randn(50, 3, generator=generator), heading_of(torch.randn(50, 3, generator=generator))
    torch.testing.assert_close(to_world(to_goal_frame(vec, heading), heading), vec)


def test_a_heading_without_horizontal_part_points_along_x():
    assert heading_of(torch.tensor(((0.0, 0.0, 5.0), (0.0, -2.0, 1.0)))).tolist() == [[1, 0], [0, -1]]


def test_a_quarter_turn_of_yaw_brings_the_body_x_axis_to_world_y():
    matrix = quat_to_matrix(quat_from_yaw(torch.tensor(math.pi / 2)))
    torch.testing.assert_close(matrix, torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("angle", [1e-9, 1e-5, 1.1e-4, 0.3, 2.0])
def test_a_rotation_vector_turns_about_the_body_axis(angle):
    facing_y = quat_from_yaw(torch.tensor([math.pi / 2]))
    rolled = quat_rotate_by(facing_y, torch.tensor([[angle, 0.0, 0.0]]))  # about the body's x, which is world y
    body_y = quat_to_matrix(rolled)[0, :, 1]
    expected = torch.tensor((-math.cos(angle), 0.0, math.sin(angle)))
    torch.testing.assert_close(body_y, expected, atol=1e-6, rtol=0)
