"""The airframe against what paper says of it."""

from __future__ import annotations

import pytest
import torch

from slipstream.tasks.aircombat.physics.flight import FIGHTER, PHYSICS_DT_S, advance, g_load, mach


def fly(body, seconds, speed, rudder=0.0, thrust=0.0, dt_s=PHYSICS_DT_S, dtype=torch.float64):
    """The path [steps + 1, 2] and velocities of one body that starts along x."""
    pos, vel = torch.zeros(2, dtype=dtype), torch.tensor([speed, 0.0], dtype=dtype)
    path, velocities = [pos], [vel]
    for _ in range(round(seconds / dt_s)):
        pos, vel = advance(body, pos, vel, torch.tensor(rudder, dtype=dtype), torch.tensor(thrust, dtype=dtype), dt_s)
        path.append(pos)
        velocities.append(vel)
    return torch.stack(path), torch.stack(velocities)


def coasting_error(dt_s):
    _, vel = fly(FIGHTER, 20, 400.0, dt_s=dt_s)
    return abs(float(vel[-1].norm()) / (400 / (1 + 9.8 / 160_000 * 400 * 20)) - 1)


def test_coasting_speed_falls_as_one_over_time():
    assert coasting_error(1 / 60) < 0.01
    assert coasting_error(1 / 30) / coasting_error(1 / 60) == pytest.approx(2, rel=0.05)
    assert coasting_error(1 / 60) / coasting_error(1 / 240) == pytest.approx(4, rel=0.1)


def radius_error(dt_s, rudder):
    path, _ = fly(FIGHTER, 6, 300.0, rudder, 1.0, dt_s)
    a, b, c = path[0], path[len(path) // 2], path[-1]  # the circle through three points of the path
    ab, bc, ca = (b - a).norm(), (c - b).norm(), (a - c).norm()
    area = 0.5 * abs((b - a)[0] * (c - a)[1] - (b - a)[1] * (c - a)[0])
    return abs(float(ab * bc * ca / (4 * area)) * abs(rudder) / 1000 - 1)


@pytest.mark.parametrize("rudder", [1.0, -1.0, 0.4])
def test_the_turn_radius_is_the_least_one_over_the_rudder(rudder):
    assert radius_error(1 / 60, rudder) < 0.01
    assert radius_error(1 / 240, rudder) < 0.3 * radius_error(1 / 60, rudder)


def test_a_positive_rudder_turns_left_and_loads_to_the_left():
    path, vel = fly(FIGHTER, 1, 300.0, 0.5)
    assert path[-1, 1] > 0 and vel[-1, 1] > 0
    assert g_load(FIGHTER, vel[0], torch.tensor(0.5)) == pytest.approx(0.5 * 90 / 9.8)
    assert mach(vel[0]) == pytest.approx(300 / 340)
