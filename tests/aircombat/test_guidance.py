"""Guidance: the line of sight, the closest approach and the launch, against angles and searches done the long way."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.tasks.aircombat.physics.flight import line_of_sight_turn, miss_distance, pronav

place = st.floats(-60_000, 60_000)
pace = st.floats(-1500, 1500)


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


@settings(max_examples=100, deadline=None)
@given(place, place, pace, pace, pace, pace)
def test_the_rudder_follows_the_wrapped_change_of_angle(x, y, vx, vy, tvx, tvy):
    dt = 1 / 60
    missile, target = vector(0, 0), vector(x, y)
    vel, target_vel = vector(vx, vy), vector(tvx, tvy)
    before = (target - target_vel * dt) - (missile - vel * dt)
    if target.norm() < 150 or before.norm() < 150:  # inside the hit radius nothing is steered
        return
    angle = lambda d: math.atan2(d[1], d[0])  # noqa: E731
    rate = math.remainder(angle(target - missile) - angle(before), 2 * math.pi) / dt
    expected = max(-1.0, min(1.0, 200 / math.pi * rate))
    assert float(pronav(missile, vel, target, target_vel, dt)) == pytest.approx(expected, abs=2e-6)


def test_the_turn_keeps_its_digits_in_float32():
    offset, drift = torch.tensor([30_000.0, 40.0]), torch.tensor([-20.0, 0.01])
    (x, y), (dx, dy) = offset.tolist(), drift.tolist()
    exact = math.atan2(y, x) - math.atan2(y - dy, x - dx)
    assert float(line_of_sight_turn(offset, drift)) == pytest.approx(exact, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.floats(-300, 300), st.floats(-300, 300), pace, pace, pace, pace)
def test_the_closest_approach_is_the_least_distance(x, y, vx, vy, tvx, tvy):
    dt = 1 / 60
    pos, vel, target, target_vel = vector(0, 0), vector(vx, vy), vector(x, y), vector(tvx, tvy)
    least = float(miss_distance(pos, vel, target, target_vel, dt))
    shares = torch.linspace(0, 1, 2001, dtype=torch.float64)[:, None]
    path = (target - target_vel * dt * shares) - (pos - vel * dt * shares)
    searched = float(path.norm(dim=-1).min())
    # a drift below 1 µm counts as none
    assert least <= searched + 1e-6 and least == pytest.approx(searched, abs=0.02)


def test_a_missile_that_steps_over_its_target_has_met_it():
    dt = 0.5
    vel = vector(1200, 0)
    assert miss_distance(vector(300, 30), vel, vector(0, 0), vector(0, 0), dt) == pytest.approx(30)
    assert miss_distance(vector(300, 30), vel, vector(0, 0), vector(1200, 0), dt) == pytest.approx(
        math.hypot(300, 30)
    )  # flies beside it


def test_a_missile_on_top_of_its_target_keeps_a_finite_rudder():
    zero = torch.zeros(2)
    for dtype in (torch.float32, torch.float64):
        rudder = pronav(zero.to(dtype), vector(300, 0).to(dtype), zero.to(dtype), vector(0, 0).to(dtype), 1 / 60)
        assert torch.isfinite(rudder) and abs(rudder) <= 1
