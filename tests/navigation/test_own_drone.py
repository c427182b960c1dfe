"""A drone of one's own: what the file of `env.drone` means, in both simulators, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from slipstream.config.help import ConfigError
from slipstream.config.schema import EvalConfig
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.evaluation import evaluation_env
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.mujoco.simulator import MujocoDrones, own_gains
from slipstream.tasks.navigation.physics.quadrotor import Airframe, Quadrotor, Variation

HEAVY = "mass_kg: 1.1\ninertia: [0.012, 0.012, 0.02]\narm_m: 0.2\nrotor_angles_deg: [45, 135, 225, 315]\n"
HEAVY += "motor_lag_s: 0.04\nattitude_gain: [1.2, 1.2, 0.06]\nrate_gain: [0.2, 0.2, 0.05]\n"


@pytest.fixture
def heavy(tmp_path):
    path = tmp_path / "heavy.yaml"
    path.write_text(HEAVY)
    return path


def follow(drone, seconds: float = 2.0) -> torch.Tensor:
    drone.reset(torch.ones(1, dtype=torch.bool), torch.tensor([[0.0, 0.0, 50.0]]), torch.zeros(1))
    seen = []
    for _ in range(round(seconds / 0.016)):
        drone.advance(torch.tensor([[1.0, 0.5, 0.3]]), Variation.none(1, "cpu"))
        seen.append(drone.vel[0].clone())
    return torch.stack(seen)


def test_a_drone_of_a_file_hovers_and_follows(heavy):
    drone = Quadrotor(1, 0.016, airframe=Airframe.read(heavy))
    assert follow(drone, 4.0)[-1].tolist() == pytest.approx([1.0, 0.5, 0.3], abs=0.02)
    assert drone.airframe.lag_s(0.016) == 0.04 and drone._closing == pytest.approx(1 - math.exp(-0.4))
    lift = 4 * drone.throttle.square().mean() * drone.airframe.max_thrust_n
    assert lift == pytest.approx(1.1 * 9.81, rel=0.02)


def test_the_default_is_the_hummingbird(tmp_path):
    path = tmp_path / "same.yaml"
    path.write_text("mass_kg: 0.716\n")
    assert Airframe.read(path) == Airframe()
    assert torch.equal(follow(Quadrotor(1, 0.016)), follow(Quadrotor(1, 0.016, airframe=Airframe.read(path))))


def test_mujoco_flies_the_same_drone(heavy):
    pytest.importorskip("mujoco")
    frame, sim = Airframe.read(heavy), SimConfig("mujoco")
    theirs = MujocoDrones(own_gains(sim, 0.016, frame), [np.zeros((0, 5), np.float32)], 1, 0.016, frame=frame)
    assert theirs.drone.inertia[0, 0] == pytest.approx(1.1) and theirs.drone.hover == pytest.approx(1.1 * 9.81 / 4)
    difference = (follow(theirs) - follow(Quadrotor(1, 0.016, airframe=frame))).abs()
    assert difference.max() < 0.05
    typed = own_gains(SimConfig("mujoco", max_tilt_deg=30.0), 0.016, frame)
    assert typed.max_tilt_deg == 30 and typed.motor_lag_s == 0.04 and own_gains(sim, 0.016, None) is sim


def test_an_evaluation_flies_it_in_both_simulators(heavy):
    pytest.importorskip("mujoco")
    world = NavigationConfig(num_obstacles=0, map_half_m=6.0, dynamics="quadrotor", drone=str(heavy))
    settings = EvalConfig(num_drones=2, map_seeds=[1], max_steps=100)
    for sim in (SimConfig(), SimConfig("mujoco")):
        env = evaluation_env(world, settings, "cpu", sim=sim)
        env.place(*env.protocol_flights(2))
        for _ in range(60):
            env.step(torch.tensor([[1.0, 0.0, 0.0]]).expand(2, 3))
        assert env.drone.vel[:, 1].mean() < -0.6 and env.drone.pos[:, 2].min() > 1.9


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("mas_kg: 1", "unknown name mas_kg: did you mean 'mass_kg'"),
        ("mass_kg: -1", "mass_kg must be 1 positive numbers, not -1"),
        ("inertia: [1, 2]", "inertia must be 3 positive numbers"),
        ("mass_kg: 5", "its rotors lift 2.45 kg, and 6 kg are the least"),
        ("rotor_spin: [1, 1, 1, 1]", "do not give torques around all axes"),
        ("- 1", "write NAME: VALUE on each line"),
        ("mass_kg: .nan", "mass_kg must be"),
        ("mass_kg: true", "mass_kg must be"),
        (None, "there is no such file"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(text, match, tmp_path):
    path = tmp_path / "wrong.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=match):
        NavigationEnv(1, config=NavigationConfig(num_obstacles=0, dynamics="quadrotor", drone=str(path)))


def test_a_point_mass_takes_no_file():
    with pytest.raises(ValueError, match="describes a rigid body: add env.dynamics=quadrotor"):
        NavigationConfig(drone="x.yaml")
