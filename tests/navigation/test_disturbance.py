"""Each disturbance does what it says, and nothing when it is 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from slipstream.tasks.navigation.env import NavigationConfig
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.mujoco.simulator import MujocoDrones
from slipstream.tasks.navigation.physics.disturbance import Disturbance, DisturbanceConfig
from slipstream.tasks.navigation.physics.quadrotor import Body, Quadrotor, Variation, VelocityLag

NUM = 4000
EVERYONE = torch.ones(NUM, dtype=torch.bool)
FIRST = torch.zeros(NUM, dtype=torch.int64)


def _make(**config) -> Disturbance:
    disturbance = Disturbance(DisturbanceConfig(**config), NUM, 3, seed=5)
    disturbance.reset(EVERYONE, FIRST)
    return disturbance


def test_nothing_is_disturbed_by_default():
    calm = _make()
    action, distance, vel = torch.randn(NUM, 3), torch.rand(NUM, 36, 4), torch.randn(NUM, 3)
    calm.update_wind(0.016)
    assert (
        calm.delay_action(action) is action
        and calm.lidar_reading(distance, 4.0) is distance
        and calm.velocity_reading(vel) is vel
    )
    assert (calm.mass == 1).all() and (calm.gain == 1).all() and (calm.push == 0).all()


@pytest.mark.parametrize(
    ("setting", "value"),
    [("lidar_dropout", 1.0), ("mass_range", -0.1), ("gain_range", 1.5), ("wind_mps2", -1.0), ("wind_change_s", 0.0)],
)
def test_settings_that_make_no_sense_are_refused(setting, value):
    with pytest.raises(ValueError, match="must"):
        DisturbanceConfig(**{setting: value})


@pytest.mark.parametrize(("setting", "name"), [("mass_range", "mass"), ("gain_range", "gain")])
def test_mass_and_gain_are_drawn_for_each_episode_within_their_range(setting, name):
    disturbance = _make(**{setting: 0.3})
    drawn = getattr(disturbance, name)
    assert drawn.min() >= 0.7 and drawn.max() <= 1.3
    assert drawn.mean() == pytest.approx(1, abs=0.012) and drawn.std() == pytest.approx(0.6 / math.sqrt(12), abs=0.005)
    other = {"mass": disturbance.gain, "gain": disturbance.mass}[name]
    assert (other == 1).all()
    before, some = drawn.clone(), torch.arange(NUM) % 2 == 0
    disturbance.reset(some, FIRST + 1)
    now = getattr(disturbance, name)
    assert torch.equal(now[~some], before[~some]) and (now[some] != before[some]).float().mean() > 0.99


@pytest.mark.parametrize(
    ("mass", "gain", "constant"), [(1.0, 1.0, 1 / 2.2), (1.25, 1.0, 1.25 / 2.2), (1.0, 0.8, 1 / 2.2 / 0.8)]
)
def test_mass_and_gain_change_the_lag_as_they_should(mass, gain, constant):
    drone, varied = VelocityLag(1, 0.001), Variation(torch.tensor([mass]), torch.tensor([gain]), torch.zeros(1, 3))
    for _ in range(round(constant / 0.001)):
        drone.advance(torch.ones(1, 3), varied)
    assert drone.vel[0, 0].item() == pytest.approx(1 - 1 / math.e, abs=2e-3)


def test_a_quadrotor_heavier_than_it_knows_sinks_until_the_controller_makes_it_up():
    drone = Quadrotor(1, 0.016)
    for _ in range(600):
        drone.advance(torch.zeros(1, 3), Variation(torch.tensor([1.2]), torch.ones(1), torch.zeros(1, 3)))
    assert drone.vel[0, 2].item() == pytest.approx(-0.2 * 9.81 / 2.2, rel=0.01)


@pytest.mark.parametrize("dynamics", [VelocityLag, Quadrotor])
def test_a_steady_wind_carries_the_drone_along(dynamics):
    drone = dynamics(1, 0.016)
    for _ in range(600):
        drone.advance(torch.zeros(1, 3), Variation(torch.ones(1), torch.ones(1), torch.tensor([[1.1, 0.0, 0.0]])))
    assert drone.vel[0].tolist() == pytest.approx([0.5, 0, 0], abs=0.01)  # 1.1 / 2.2


def test_gusts_have_the_strength_and_the_correlation_time_that_was_set():
    windy = _make(wind_mps2=0.8, wind_change_s=0.5)
    action = torch.zeros(NUM, 3)
    for _ in range(200):
        windy.delay_action(action)
        windy.update_wind(0.016)
    before = windy.push.clone()
    assert before.std() == pytest.approx(0.8, rel=0.03) and before.mean().abs() < 0.03
    for _ in range(31):  # 0.496 s
        windy.delay_action(action)
        windy.update_wind(0.016)
    assert float((before * windy.push).mean()) / 0.64 == pytest.approx(math.exp(-0.992), abs=0.04)


def test_an_action_comes_late_by_a_number_drawn_for_each_episode():
    late = _make(latency_steps=3)
    counts = torch.bincount(late.delay, minlength=4)
    assert len(counts) == 4 and (counts.double() / NUM - 0.25).abs().max() < 0.03
    for step in range(6):
        arrived = late.delay_action(torch.full((NUM, 3), step + 1.0))
        expected = (step + 1.0 - late.delay).clamp(min=0)  # zero until the first one has arrived
        assert torch.equal(arrived, expected[:, None].expand(-1, 3))
    some = torch.arange(NUM) % 2 == 0
    late.reset(some, FIRST + 1)
    arrived = late.delay_action(torch.full((NUM, 3), 7.0))[:, 0]
    assert torch.equal(arrived[some], torch.where(late.delay == 0, 7.0, 0.0)[some])  # nothing of the last episode
    assert torch.equal(arrived[~some], (7.0 - late.delay)[~some])


def test_lidar_noise_has_its_standard_deviation_and_stays_in_range():
    noisy = _make(lidar_noise_m=0.05)
    noisy.delay_action(torch.zeros(NUM, 3))
    noise = noisy.lidar_reading(torch.full((NUM, 6, 2), 2.0), 4.0) - 2
    assert noise.std() == pytest.approx(0.05, rel=0.02) and noise.mean().abs() < 1e-3
    assert (
        noisy.lidar_reading(torch.full((NUM, 6, 2), 3.99), 4.0).max() == 4
        and noisy.lidar_reading(torch.full((NUM, 6, 2), 0.01), 4.0).min() == 0
    )
    missed = noisy.lidar_reading(torch.full((NUM, 6, 2), 4.0), 4.0)  # no hit reads as the range
    assert (missed < 4).float().mean() == pytest.approx(0.5, abs=0.01)
    again = noisy.lidar_reading(torch.full((NUM, 6, 2), 2.0), 4.0) - 2
    assert torch.equal(again, noise)  # one look a decision
    noisy.delay_action(torch.zeros(NUM, 3))
    assert not torch.equal(noisy.lidar_reading(torch.full((NUM, 6, 2), 2.0), 4.0) - 2, noise)


def test_a_lost_beam_sees_nothing():
    lossy = _make(lidar_dropout=0.2)
    lossy.delay_action(torch.zeros(NUM, 3))
    seen = lossy.lidar_reading(torch.full((NUM, 6, 2), 1.5), 4.0)
    assert set(seen.unique().tolist()) == {1.5, 4.0}
    assert (seen == 4).float().mean() == pytest.approx(0.2, abs=0.01)


def test_noise_and_dropout_of_many_beams():
    config = DisturbanceConfig(lidar_noise_m=0.05, lidar_dropout=0.1)
    reading = Disturbance(config, 2, 3, seed=0).lidar_reading(torch.full((2, 360, 20), 2.0), 4.0)
    lost = reading == 4.0
    assert lost.float().mean() == pytest.approx(0.1, abs=0.02)
    assert (reading[~lost] - 2).std() == pytest.approx(0.05, rel=0.03)


def test_velocity_noise_has_its_standard_deviation():
    noisy = _make(velocity_noise_mps=0.1)
    noise = noisy.velocity_reading(torch.ones(NUM, 3)) - 1
    assert noise.std() == pytest.approx(0.1, rel=0.03) and noise.mean().abs() < 5e-3


def body_of(lag=1.0, inertia=1.0, drag=0.0, thrust=1.0) -> Variation:
    one, none = torch.ones(1), torch.zeros(1, 3)
    return Variation(one, one, none, Body(*(torch.full((1,), x) for x in (lag, inertia, drag, thrust))))


def flown(drone, varied: Variation, seconds: float, command=(0.0, 0.0, 0.0)):
    for _ in range(round(seconds / 0.016)):
        drone.advance(torch.tensor([command]), varied)
    return drone


def rigid():
    drone = Quadrotor(1, 0.016)
    drone.reset(torch.ones(1, dtype=torch.bool), torch.tensor([[0.0, 0.0, 5.0]]), torch.zeros(1))
    return drone


def mujoco_drones():
    pytest.importorskip("mujoco")
    drones = MujocoDrones(SimConfig("mujoco"), [np.zeros((0, 5), np.float32)], 1, 0.016)
    drones.reset(torch.ones(1, dtype=torch.bool), torch.tensor([[0.0, 0.0, 5.0]]), torch.zeros(1))
    return drones


@pytest.mark.parametrize("make", [rigid, mujoco_drones, lambda: VelocityLag(1, 0.016)])
def test_drag_slows_a_flight(make):
    plain, dragged = (flown(make(), body_of(drag=drag), 8.0, (1.0, 0.0, 0.0)).vel[0, 0] for drag in (0.0, 0.5))
    gain = 2.5 if make is mujoco_drones else 2.2
    assert plain == pytest.approx(1.0, abs=0.01) and dragged == pytest.approx(gain / (gain + 0.5), abs=0.02)


@pytest.mark.parametrize("make", [rigid, mujoco_drones])
def test_an_empty_battery_lowers_the_drone(make):
    assert flown(make(), body_of(thrust=0.9), 2.0).pos[0, 2] < 4.7 < flown(make(), body_of(), 2.0).pos[0, 2]


@pytest.mark.parametrize("make", [rigid, mujoco_drones])
@pytest.mark.parametrize("change", [{"lag": 1.8}, {"inertia": 1.8}])
def test_slow_rotors_and_more_inertia_turn_later(make, change):
    tilt = [
        flown(make(), varied, 0.1, (2.0, 0.0, 0.0)).attitude[0, 2, 0].abs() for varied in (body_of(), body_of(**change))
    ]
    assert tilt[1] < 0.9 * tilt[0]


def test_a_body_of_ones_is_the_nominal_one():
    nominal = flown(rigid(), Variation.none(1, "cpu"), 1.0, (1.0, -1.0, 0.5))
    assert torch.allclose(nominal.pos, flown(rigid(), body_of(), 1.0, (1.0, -1.0, 0.5)).pos, atol=1e-5)


def test_bodies_are_drawn_per_episode_and_the_battery_sags():
    varied = _make(motor_lag_range=0.4, inertia_range=0.2, drag_per_s=0.3, battery_sag_per_min=0.6, mass_range=0.1)
    body = varied.variation.body
    for x, low, high in (
        (body.lag, 0.6, 1.4),
        (body.inertia, 0.8, 1.2),
        (body.drag_per_s, 0, 0.3),
        (body.thrust, 1, 1),
    ):
        assert low <= x.min() <= low + 0.01 and high - 0.01 <= x.max() <= high
    assert torch.equal(varied.mass, _make(mass_range=0.1).mass)  # the same draws as without a body
    varied.update_wind(30.0)
    thrust = varied.variation.body.thrust
    assert 0.7 <= thrust.min() < 0.71 and thrust.max() > 0.99
    some, lag = torch.arange(NUM) % 2 == 0, body.lag.clone()
    varied.reset(some, FIRST + 1)
    again = varied.variation.body
    assert (again.thrust[some] == 1).all() and torch.equal(again.thrust[~some], thrust[~some])
    assert (again.lag[some] != lag[some]).any() and "body" in varied.state_names


def test_what_only_a_rigid_body_has_is_refused_without_one():
    with pytest.raises(ValueError, match="inertia_range changes a rigid body: add env.dynamics=quadrotor"):
        NavigationConfig(disturbance=DisturbanceConfig(inertia_range=0.1))
