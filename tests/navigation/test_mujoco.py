"""MuJoCo as a second simulator: its sensors, flight and contacts, models of users, and the two commands."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from slipstream.cli import main
from slipstream.config.help import ConfigError
from slipstream.config.schema import EvalConfig
from slipstream.recordings import load_recording
from slipstream.tasks.navigation import evaluation
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.evaluation import build_for, evaluation_env
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.mujoco.model import DRONE, Drone
from slipstream.tasks.navigation.mujoco.simulator import CAUSES, MujocoDrones, MujocoEnv, MujocoLidar
from slipstream.tasks.navigation.mujoco.validation import compare_lidar, step_responses
from slipstream.tasks.navigation.physics.obstacles import MovingObstacles, MovingObstaclesConfig
from slipstream.tasks.navigation.physics.quadrotor import Variation

needs_mujoco = pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="needs the extra mujoco")
SIM = SimConfig(name="mujoco")
NO_BOXES = np.zeros((0, 5), np.float32)
DT_S = 0.016
SMALL = [
    *("env.map_half_m=3", "env.num_obstacles=4", "env.dyn.num_obstacles=8", "eval.num_drones=4"),
    *("eval.map_seeds=[5]", "eval.max_steps=500", "device=cpu", "threads=1", "sim.autopilot_hz=125"),
]


def fly(drones: MujocoDrones, start, command, seconds: float, variation: Variation | None = None) -> None:
    """Fly drones from `start` with constant commands."""
    num = len(drones.pos)
    start, command = (torch.tensor(x, dtype=torch.float32).expand(num, 3) for x in (start, command))
    drones.reset(torch.ones(num, dtype=torch.bool), start, torch.zeros(num))
    for _ in range(round(seconds / DT_S)):
        drones.advance(command, variation or Variation.none(num, "cpu"))


def free_places(env: NavigationEnv, count: int) -> np.ndarray:
    """Return random places [count, 1, 3] outside of all boxes."""
    rng, boxes = np.random.default_rng(0), env.grid.boxes[0].numpy()
    places = rng.uniform((-22, -22, 0.3), (22, 22, 4), (4 * count, 3))
    gap = np.abs(places[:, None, :2] - boxes[None, :, :2]) - boxes[None, :, 2:4]
    inside = ((gap < 0.01).all(-1) & (places[:, None, 2] < boxes[None, :, 4] + 0.01)).any(1)
    return places[~inside][:count, None]


# -- sensors ---------------------------------------------------------------------------------------------------------


@needs_mujoco
@pytest.mark.parametrize("poses", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_lidar_is_within_1_mm_of_mujocos_rays(poses):
    env = NavigationEnv(1, config=NavigationConfig(num_envs=1, world_seeds=[101]))
    found = compare_lidar(env, free_places(env, poses), poses=poses)
    assert found["beams"] == poses * 144 and found["largest_m"] < 1e-3
    assert found["unequal"] > 0.01 * found["beams"]  # beams do hit something, computed in two ways


@needs_mujoco
def test_lidar_sees_moving_obstacles_as_ours_does():
    config = NavigationConfig(num_envs=24, num_obstacles=0, lidar_sees_moving=True)
    env = NavigationEnv(24, config=config)
    for _ in range(130):
        env.movers.advance()
    pos, yaw = env.movers.pos[0, ::3][:24] + torch.tensor([1.3, 0.4, 0.1]), torch.linspace(-3, 3, 24)
    ours = env.lidar.scan_movers(pos, yaw, env.movers)
    theirs = MujocoLidar(config.lidar, [NO_BOXES], 24, env.movers).scan_movers(pos, yaw, env.movers)
    outside = ours.amin((1, 2)) > 0  # within an obstacle ours measures 0, MuJoCo the way out
    assert (ours[outside] < 4).sum() > 100 and (ours - theirs)[outside].abs().max() < 1e-3


# -- flight ----------------------------------------------------------------------------------------------------------


@needs_mujoco
def test_a_drone_hovers_where_it_is():
    drones = MujocoDrones(SIM, [NO_BOXES], 2, DT_S)
    fly(drones, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0), 2.0)
    assert torch.allclose(drones.pos, torch.tensor([1.0, 2.0, 3.0]), atol=1e-3)
    assert drones.yaw.abs().max() < 1e-6 and not drones.cause.any()


@needs_mujoco
def test_one_decision_of_4_meets_the_obstacles_of_4_decisions_of_1():
    seen = []
    for interval, decisions in ((4, 5), (1, 20)):
        config = NavigationConfig(num_envs=2, num_obstacles=0, decision_interval=interval)
        env = MujocoEnv(2, 3, config, SIM)
        (field,) = env.simulated.fields
        for _ in range(decisions):
            env.step(torch.zeros(2, 3))
        seen.append((field.data.mocap_pos.copy(), env.drone.pos.clone()))
    assert np.array_equal(seen[0][0], seen[1][0]) and torch.equal(seen[0][1], seen[1][1])


@needs_mujoco
def test_step_responses_with_equal_gains_agree():
    rows = [row for row in step_responses(SIM, "quadrotor", DT_S) if row["gains"] == "equal gains"]
    assert len(rows) == 4
    for row in rows:
        assert abs(row["relative"]) < 0.1 and row["largest"] < 0.1
        assert 0.3 < row["mujoco_s"] < 0.7


@needs_mujoco
def test_another_velocity_gain_flies_differently():
    slow, fast = (MujocoDrones(replace(SIM, velocity_gain=gain), [NO_BOXES], 1, DT_S) for gain in (1.0, 3.0))
    for drones in (slow, fast):
        fly(drones, (0.0, 0.0, 5.0), (1.0, 0.0, 0.0), 0.6)
    assert fast.vel[0, 0] > slow.vel[0, 0] + 0.2


@needs_mujoco
def test_mass_and_wind_of_each_drone_count():
    drones = MujocoDrones(SIM, [NO_BOXES], 3, DT_S)
    push = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    fly(drones, (0.0, 0.0, 5.0), (0.0, 0.0, 0.0), 3.0, Variation(torch.tensor([1.0, 1.2, 1.0]), torch.ones(3), push))
    nominal, heavy, blown = drones.vel
    assert nominal.abs().max() < 1e-3
    # the autopilot has no integrator: g · 0.2 / 1.2 of missing lift is met by the gain times the velocity error
    assert heavy[2].item() == pytest.approx(-9.81 * 0.2 / SIM.velocity_gain, rel=0.02)
    assert blown[1].item() == pytest.approx(1 / SIM.velocity_gain, rel=0.02)


# -- contacts --------------------------------------------------------------------------------------------------------


@needs_mujoco
@pytest.mark.parametrize("hull_m", [0.25, 0.4])
def test_a_drone_touches_a_box_where_its_hull_ends(hull_m):
    box = np.array([[2.0, 0.0, 0.35, 0.35, 5.0]], np.float32)
    drones = MujocoDrones(replace(SIM, hull_m=hull_m), [box], 2, DT_S)
    start = torch.tensor([[0.0, 0.0, 2.0], [0.0, 5.0, 2.0]])
    drones.reset(torch.ones(2, dtype=torch.bool), start, torch.zeros(2))
    for _ in range(200):
        drones.advance(torch.tensor([[1.0, 0.0, 0.0]]).expand(2, 3), Variation.none(2, "cpu"))
        if drones.cause.any():
            break
    assert [CAUSES[cause] for cause in drones.cause] == ["standing", ""]
    assert drones.pos[0, 0].item() == pytest.approx(1.65 - hull_m, abs=0.03)


@needs_mujoco
@pytest.mark.parametrize(("command", "cause"), [((0.0, 0.0, -1.0), "ground"), ((0.0, 0.0, 0.0), "moving")])
def test_the_ground_and_moving_obstacles_are_touched_too(command, cause):
    movers = MovingObstacles(MovingObstaclesConfig(num_obstacles=8), [0], DT_S, 20.0)
    at = movers.pos[0, 3 if cause == "moving" else 0].tolist()
    start = (at[0] + 0.7, at[1], at[2]) if cause == "moving" else (40.0, 0.0, 0.4)
    drones = MujocoDrones(SIM, [NO_BOXES], 1, DT_S, movers)
    fly(drones, start, command, 0.9)
    assert CAUSES[drones.cause[0]] == cause


@needs_mujoco
def test_drones_do_not_touch_one_another():
    drones = MujocoDrones(SIM, [NO_BOXES], 3, DT_S)
    fly(drones, (0.0, 0.0, 2.0), (0.5, 0.0, 0.0), 0.3)
    assert not drones.cause.any()


@needs_mujoco
def test_a_contact_ends_the_flight_and_the_next_one_starts_clean():
    world = NavigationConfig(num_obstacles=30, dyn=MovingObstaclesConfig(num_obstacles=0))
    env = evaluation_env(world, EvalConfig(num_drones=1, map_seeds=[5]), "cpu", sim=SIM)
    boxes = env.grid.boxes[0, :-1]
    x, y, half_x, _, height = boxes[boxes[:, 4].argmax()].tolist()
    env.place(torch.tensor([[x - half_x - 0.8, y, height / 2]]), torch.tensor([[x + 20, y, height / 2]]))
    ends = [bool(env.step(torch.tensor([[2.0, 0.0, 0.0]])).terminated) for _ in range(70)]
    assert CAUSES[env.first_cause[0]] == "standing" and sum(ends) == 1


# -- models ----------------------------------------------------------------------------------------------------------

OWN = """<mujoco><worldbody><geom type="plane" size="9 9 1"/><body name="my_quad" pos="0 0 1"><freejoint/>
<geom type="box" size="0.2 0.2 0.05" pos="0.02 0 0" mass="1.1"/>
<site name="a" pos="0.15 0.15 0"/><site name="b" pos="-0.15 0.15 0"/><site name="c" pos="-0.15 -0.15 0"/><site name="d" pos="0.15 -0.15 0"/>
</body></worldbody><actuator><motor site="a" gear="0 0 2 0 0 0.04" ctrlrange="0 4"/><motor site="b" gear="0 0 2 0 0 -0.04" ctrlrange="0 4"/>
<motor site="c" gear="0 0 2 0 0 0.04" ctrlrange="0 4"/><motor site="d" gear="0 0 2 0 0 -0.04" ctrlrange="0 4"/></actuator></mujoco>"""


@needs_mujoco
def test_ones_own_drone_flies_and_collides_with_its_own_geoms(tmp_path):
    """An X layout without rotor lag, whose center of mass is 2 cm ahead of the body's origin."""
    (tmp_path / "mine.xml").write_text(OWN)
    sim = replace(SIM, model=str(tmp_path / "mine.xml"))
    drones = MujocoDrones(sim, [NO_BOXES], 2, DT_S)
    fly(drones, (0.0, 0.0, 3.0), (0.0, 0.0, 0.0), 2.0)
    assert torch.allclose(drones.pos, torch.tensor([0.0, 0.0, 3.0]), atol=0.01)
    fly(drones, (0.0, 0.0, 3.0), (1.0, -0.5, 0.2), 3.0)
    assert torch.allclose(drones.vel, torch.tensor([1.0, -0.5, 0.2]), atol=0.01)
    fly(drones, (0.0, 0.0, 0.12), (0.0, 0.0, 0.0), 0.1)  # above 0.05 m, half its height
    assert not drones.cause.any()


@needs_mujoco
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("<freejoint/>", ""), "it has 0 joints"),
        (("</actuator>", '<motor site="a"/></actuator>'), "5 actuators"),
        (("</actuator>", ""), "cannot read it"),
        (('mass="1.1"', 'mass="1.1" contype="0" conaffinity="0"'), "no geom that collides"),
        (('gear="0 0 2 0 0 -0.04"', 'gear="0 0 2 0 0 0.04"'), "torques around all axes"),
        (('mass="1.1"', 'mass="11"'), "cannot hover"),
    ],
)
def test_a_drone_without_the_contract_is_refused(tmp_path, change, said):
    path = tmp_path / "mine.xml"
    path.write_text(OWN.replace(*change))
    with pytest.raises(ConfigError, match=said) as caught:
        Drone.read(replace(SIM, model=str(path)))
    assert f"sim.model={path}" in str(caught.value)


@needs_mujoco
def test_our_drone_is_the_one_of_training():
    drone = Drone.read(SIM)
    assert np.allclose(drone.inertia, np.diag([0.716, 0.007, 0.007, 0.012]))
    assert np.allclose(drone.hover, 0.716 * 9.81 / 4) and drone.has_lag and DRONE.is_file()


# -- the commands ----------------------------------------------------------------------------------------------------


@needs_mujoco
def test_eval_flies_the_shipped_policy_in_mujoco(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "sim=mujoco", "sim.hull_m=0.25", *SMALL, "json=true"]) == 0
    text = capsys.readouterr().out
    result = json.loads(text.splitlines()[-1])
    assert result["success"] >= 0.75 and result["drones"] == 4 and "MuJoCo, hull 0.25 m" in text
    recording = load_recording(result["recording"])
    assert "MuJoCo" in recording.title and recording.columns["drone.position"].shape[1:] == (4, 3)


class Counter:
    """A policy that remembers how many decisions it has taken."""

    memory_size = 1

    def __init__(self):
        self.seen = []

    def __call__(self, observation):
        self.seen.append(observation["memory"][0, 0].item())
        return {"action": torch.zeros(1, 3), "memory": observation["memory"] + 1}


@pytest.mark.parametrize("sim", [None, pytest.param(SIM, marks=needs_mujoco)])
def test_a_flight_carries_the_memory_of_its_policy(sim):
    world = NavigationConfig(num_obstacles=0, dyn=MovingObstaclesConfig(num_obstacles=0))
    env = evaluation_env(world, EvalConfig(num_drones=1, map_seeds=[5], max_steps=5), "cpu", sim=sim)
    policy = Counter()
    evaluation.fly(env, policy, 1, record_paths=False)
    assert policy.seen == [0, 1, 2, 3, 4]


@needs_mujoco
def test_validate_flies_in_both(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["validate", "sim.hull_m=0.25", *SMALL, "json=true"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["lidar"]["poses"] == 1000 and result["lidar"]["beyond_1mm"] == 0
    ours, theirs = (round(4 * result[name]["success"]) for name in ("slipstream", "mujoco"))
    (counts,) = result["differ"]
    assert theirs - ours == counts["only MuJoCo"] - counts["only Slipstream"]
    assert len(result["steps"]) == 8


@needs_mujoco
@pytest.mark.parametrize(("text", "said"), [(None, "there is no such file"), ("<mujoco><body>", "cannot read it")])
def test_a_model_that_cannot_be_read_is_refused(text, said, tmp_path, capsys):
    path = tmp_path / "mine.xml"
    if text:
        path.write_text(text)
    assert main(["eval", "sim=mujoco", f"sim.model={path}", *SMALL]) == 2
    error = capsys.readouterr().err
    assert f"sim.model={path}" in error and said in error and error.count("\n") == 1


def test_a_policy_that_reads_more_is_refused_by_name():
    env = NavigationEnv(1, config=NavigationConfig(num_envs=1, num_obstacles=0))
    trained = lambda *keys: SimpleNamespace(name="mine.pt", build=lambda *specs: SimpleNamespace(keys=keys))  # noqa: E731
    with pytest.raises(ConfigError, match="mine.pt reads thermal: sim=mujoco flies policies that read lidar, state"):
        build_for(trained("lidar", "thermal"), env, SIM)
    assert build_for(trained("lidar", "thermal"), env, SimConfig()).keys == ("lidar", "thermal")
    assert build_for(trained("lidar", "dynamic_obstacle", "state", "direction"), env, SIM)


def test_rates_and_angles_have_bounds():
    with pytest.raises(ValueError, match=r"sim.max_tilt_deg must be in \(0, 80\], not 90"):
        SimConfig(max_tilt_deg=90)
