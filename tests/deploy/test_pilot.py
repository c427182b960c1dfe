"""The pilot against the env: the same observations and commands on the same poses; and its watchdog."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from slipstream.deploy import Cloud, Depth, Limits, Obstacles, Odometry, Pilot
from slipstream.deploy.messages import pack, swap_attitude, swap_frd_flu, swap_ned_enu, swap_yaw, unpack, yaw_of
from slipstream.deploy.pilot import Source
from slipstream.deploy.sensors import Deployment, scan_points
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.memory import Stepper
from slipstream.sim.frames import quat_from_yaw, quat_rotate_by, quat_to_matrix
from slipstream.tasks.evaluation import action_of
from slipstream.tasks.navigation.deployment import describe
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.physics.lidar import LidarConfig


def messages_of(env: NavigationEnv, k: int, stamp: float, tilt=(0.0, 0.0, 0.0)) -> list:
    """What drone k of the env would send, its LiDAR turned with a body that is tilted."""
    quat = quat_rotate_by(quat_from_yaw(env.drone.yaw[k : k + 1].double()), torch.tensor([tilt]).double())[0]
    distance = env.lidar.scan(env.drone.pos, env.drone.yaw)[k]
    if env.config.lidar_sees_moving:
        distance = torch.minimum(distance, env.lidar.scan_movers(env.drone.pos, env.drone.yaw, env.movers)[k])
    lidar = env.config.lidar
    azimuth = env.drone.yaw[k].double() + torch.arange(lidar.azimuths) * (2 * math.pi / lidar.azimuths)
    level = torch.deg2rad(torch.tensor(lidar.elevations_deg).double())
    x, y = azimuth.cos()[:, None] * level.cos(), azimuth.sin()[:, None] * level.cos()
    beams = torch.stack((x, y, level.sin().expand_as(x)), -1)[distance < lidar.range_m]
    world = beams * distance[distance < lidar.range_m, None]
    odometry = np.concatenate((env.drone.pos[k], env.drone.vel[k], quat))
    movers = env.movers
    rows = torch.cat((movers.pos[0], movers.vel[0], movers.width[:, None], movers.height[:, None]), 1)
    return [Odometry(stamp, odometry), Cloud(stamp, world @ quat_to_matrix(quat)), Obstacles(stamp, rows)]


@pytest.mark.parametrize("name", ["navigation", "navigation_lidar"])
def test_commands_are_those_of_the_envs_policy(exported, name):
    path, trained, config = exported(name)
    n, steps = 6, 25
    config = replace(config, num_envs=n, num_worlds=1, world_seeds=[3001], random_clock=False)
    env = NavigationEnv(n, seed=3, config=config)
    policy = Stepper(trained.build(env, "cpu"), n, "cpu")
    start = torch.tensor([[-3.0 + k, 14.0 + k, 1.5] for k in range(n)])
    observation = env.place(start, start * torch.tensor([-1.0, -1.0, 1.2]))
    pilots = [Pilot(path, limits=Limits(recover_s=0.0)) for _ in range(n)]
    for pilot, goal in zip(pilots, env.goal.numpy(), strict=True):
        pilot.fly_to(goal)
    flying = torch.ones(n, dtype=torch.bool)
    with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
        for t in range(steps):
            now, action = 0.064 * t, action_of(policy(observation))
            for k in range(n):
                if not flying[k]:
                    continue
                for message in messages_of(env, k, now, tilt=(0.1 * k, -0.2, 0.0)):
                    assert pilots[k].receive(message, now + 100)
                decision = pilots[k].decide(now + 100)
                assert decision.state == "fly"
                for key in ("state", "lidar", *(["dynamic_obstacle"] if config.observe_moving else [])):
                    assert np.abs(decision.observation[key] - observation[key][k].numpy()).max() < 2e-5
                assert np.abs(decision.action - action[k].numpy()).max() < 1e-4
            record = env.step(action)
            observation = record.observation
            flying &= ~record.terminated
    assert flying.sum() > n / 2 and (observation["lidar"] > 0).any()


def test_commands_of_a_policy_with_cameras_are_those_of_the_env(camera_policy):
    path, trained, config = camera_policy
    env = NavigationEnv(
        3, seed=3, config=replace(config, num_envs=3, num_worlds=1, world_seeds=[3], random_clock=False)
    )
    policy = Stepper(trained.build(env, "cpu"), 3, "cpu")
    start = torch.tensor([[-2.0 + 2 * k, 6.5, 1.5] for k in range(3)])
    observation, pilots = (
        env.place(start, -start * torch.tensor([1.0, 1.0, -1.0])),
        [Pilot(path, limits=Limits(recover_s=0.0)) for _ in range(3)],
    )
    for pilot, goal in zip(pilots, env.goal.numpy(), strict=True):
        pilot.fly_to(goal)
    with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
        for t in range(6):
            action = action_of(policy(observation))
            for k, pilot in enumerate(pilots):
                pilot.receive(messages_of(env, k, float(t))[0], t)
                image = Depth(
                    t, torch.where(env.depth[k] < config.camera.range_m, env.depth[k], math.inf).flatten(0, 1)
                )
                assert pilot.receive(unpack(pack(image)), t)
                decision = pilot.decide(t)
                assert torch.equal(torch.from_numpy(decision.observation["camera"]), observation["camera"][k])
                assert np.abs(decision.action - action[k].numpy()).max() < 1e-4
            observation = env.step(action).observation
    assert observation["camera"].any()


def test_depth_images_are_checked(camera_policy):
    pilot = Pilot(camera_policy[0], limits=Limits(recover_s=0.0))
    pilot.fly_to([30.0, 0.0, 2.0])
    good = np.full((24, 16), 2.0)
    pilot.receive(Odometry(1.0, [0, 0, 2, 1, 0, 0, 1, 0, 0, 0]), 1.0)
    assert pilot.decide(1.0).reason == "camera missing"
    for bad in (np.full((24, 16), math.nan), np.zeros((24, 16)), np.full((24, 16), -1.0)):
        assert not pilot.receive(Depth(1.0, bad), 1.0)
    assert not pilot.receive(Depth(1.0, good.reshape(16, 24)), 1.0)
    assert "camera of 16 × 24 pixels" in pilot.decide(1.0).reason
    good[0] = 0, math.nan, math.inf, -math.inf, 99, *good[0, 5:]
    assert pilot.receive(Depth(1.0, good), 1.0)
    decision = pilot.decide(1.0)
    scale = 255 if decision.observation["camera"].dtype == np.uint8 else 1
    assert decision.state == "fly"
    assert np.allclose(decision.observation["camera"][0, 0] / scale, [0, 0, 0, 1, 0] + [0.8] * 11, atol=2e-3)
    for step in range(1, 12):  # the same image while it moves
        pilot.receive(Odometry(1 + step / 10, [step / 10, 0, 2, 1, 0, 0, 1, 0, 0, 0]), 1 + step / 10)
        pilot.receive(Depth(1 + step / 10, good), 1 + step / 10)
        decision = pilot.decide(1 + step / 10)
    assert decision.reason == "camera frozen"
    assert pilot.decide(2.4).reason == "odometry late"


def test_facts_of_the_file_are_those_of_the_env(exported):
    path, _, config = exported("navigation")
    facts = Pilot(path).deployment
    assert facts.decision_s == pytest.approx(config.dt_s * config.decision_interval)
    assert json.loads(json.dumps(facts.__dict__)) == json.loads(json.dumps(describe(config).__dict__))


@pytest.mark.parametrize("fov_deg", [360.0, 90.0])
def test_each_beam_of_the_env_has_its_place(fov_deg):
    lidar = LidarConfig(azimuths=9, fov_deg=fov_deg, elevations_deg=(-10.0, 0.0, 10.0))
    facts, beams = describe(NavigationConfig(lidar=lidar)), lidar.directions().numpy()
    assert np.allclose(facts.shield().directions, beams)
    for k, beam in enumerate(beams):
        assert np.flatnonzero(facts.lidar(2 * beam[None])).tolist() == [k]
    behind = np.array([[-2.0, 0.0, 0.0]])
    assert facts.lidar(behind).any() == (fov_deg == 360)


def test_import_needs_no_torch():
    code = "import slipstream.deploy, sys, resource; print('torch' in sys.modules, 'onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# -- frames and bytes --------------------------------------------------------------------------------------------------


def test_frames_by_hand():
    assert swap_ned_enu([1.0, 2.0, 3.0]).tolist() == [2.0, 1.0, -3.0]
    assert swap_frd_flu([1.0, 2.0, 3.0]).tolist() == [1.0, -2.0, -3.0]
    assert swap_yaw(0.0) == pytest.approx(math.pi / 2)  # north is a quarter turn from east
    assert swap_yaw(swap_yaw(2.5)) == pytest.approx(2.5)
    north = swap_attitude(np.array([1.0, 0.0, 0.0, 0.0]))  # level and to the north, of NED
    assert yaw_of(north) == pytest.approx(math.pi / 2)
    half = math.sqrt(0.5)
    assert yaw_of(swap_attitude(np.array([half, 0.0, 0.0, half]))) == pytest.approx(0.0)  # east


def test_attitude_turns_vectors_alike_in_both_frames():
    from slipstream.deploy.messages import rotation

    rng = np.random.default_rng(0)
    for quat in rng.normal(size=(20, 4)):
        ahead = rng.normal(size=3)  # FRD
        ned = rotation(quat) @ ahead
        enu = rotation(swap_attitude(quat)) @ swap_frd_flu(ahead)
        assert np.allclose(swap_ned_enu(ned), enu)
        assert np.allclose(np.abs(swap_attitude(swap_attitude(quat))), np.abs(quat))


def test_messages_come_back_from_bytes():
    for message in (Odometry(1.5, np.arange(10)), Cloud(2.0, np.ones((7, 3))), Obstacles(0.0, np.zeros((0, 8)))):
        back = unpack(pack(message))
        assert type(back) is type(message) and back.stamp == message.stamp
        assert np.array_equal(back.values, message.values)


def test_any_bytes_are_a_message_or_a_value_error():
    rng, good = np.random.default_rng(1), pack(Cloud(0.0, np.ones((5, 3))))
    for _ in range(3000):
        data = bytearray(good if rng.random() < 0.7 else rng.bytes(rng.integers(0, 60)))
        for _ in range(rng.integers(0, 4)):
            if data:
                data[rng.integers(len(data))] = rng.integers(256)
        with contextlib.suppress(ValueError):
            unpack(bytes(data[: rng.integers(0, len(data) + 1)]))


def test_ranges_follow_rep_117():
    ranges = [1.0, math.inf, math.nan, -math.inf, 0.05, 9.0]
    found = scan_points(np.array(ranges), -math.pi / 2, math.pi / 2, 0.1, 5.0)
    assert np.allclose(found, [[0, -1, 0], [0.1 * math.cos(math.pi), 0.1 * math.sin(math.pi), 0]], atol=1e-9)
    with pytest.raises(ValueError, match="NaN"):
        scan_points(np.full(4, math.nan), 0.0, 0.1, 0.1, 5.0)


def test_hits_on_tracked_obstacles_are_left_out_for_a_policy_that_did_not_see_them(exported):
    pilot = flying_pilot(exported)
    pilot.remove_tracked = True
    pilot.receive(Cloud(1.0, [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), 1.0)
    pilot.receive(Obstacles(1.0, [[2.3, 0.0, 2.0, 0, 0, 0, 0.5, 1.0]]), 1.0)
    lidar = pilot.decide(1.0).observation["lidar"][0]
    assert lidar[0, 1] == 0 and lidar[9, 1] == pytest.approx(2.0)


@pytest.mark.parametrize("yaw_deg,seen_deg", [(0, 0), (20, -20)])
def test_a_scan_is_moved_to_the_present_pose(exported, yaw_deg, seen_deg):
    """At 0 s a wall 4.5 m ahead (beyond the range) and a pillar 2 m ahead, 1 m left; at 0.3 s it is 0.6 m nearer."""
    pilot, half = Pilot(exported("navigation")[0], True, Limits(recover_s=0.0)), math.radians(yaw_deg) / 2
    pilot.fly_to([0.0, 30.0, 2.0])  # north, so that the goal frame is not the world's
    quarter = math.sqrt(0.5)
    pilot.receive(Odometry(0.0, [0, 0, 2, 0, 2, 0, quarter, 0, 0, quarter]), 0.0)
    pilot.receive(Cloud(0.0, [[4.5, 0.0, 0.0], [2.0, 1.0, 0.0], [math.inf] * 3]), 0.0)
    pilot.receive(Obstacles(0.0, np.zeros((0, 8))), 0.0)
    pilot.decide(0.0)
    turned = math.cos(math.pi / 4 + half), 0, 0, math.sin(math.pi / 4 + half)
    pilot.receive(Odometry(0.3, [0, 0.6, 2, 0, 2, 0, *turned]), 0.3)
    decision, expected = pilot.decide(0.3), [[3.9, 0.0, 0.0], [1.4, 1.0, 0.0]]
    assert decision.state == "fly" and np.allclose(pilot._points, expected, atol=1e-6)  # what the shield sees
    lidar = 4 - decision.observation["lidar"][0]
    pillar = math.degrees(math.atan2(1.0, 1.4))
    for angle, distance in ((0, 3.9), (pillar, math.hypot(1.4, 1.0))):
        assert lidar[round((angle + seen_deg) / 10) % 36, 1] == pytest.approx(distance)
    assert (lidar < 4).sum() == 2


# -- watchdog ----------------------------------------------------------------------------------------------------------


def flying_pilot(exported, limits: Limits | None = None, until: float = 1.0) -> Pilot:
    """Return a pilot that flies east at 1 m/s, 2 m above ground, with good data every 50 ms up to `until`."""
    pilot = Pilot(exported("navigation")[0], limits=limits)
    pilot.fly_to([30.0, 0.0, 2.0])
    feed(pilot, 0.0, until)
    return pilot


def feed(pilot, begin, end, skip=(), change=None, stamp=lambda now: now):
    """Feed good messages every 50 ms, decide after each; return the states."""
    states = []
    for i in range(round((end - begin) / 0.05)):
        now = begin + 0.05 * i
        moved = 0.001 * round(now * 20)
        good = {
            "odometry": Odometry(stamp(now), [moved, 0, 2, 1, 0, 0, 1, 0, 0, 0]),
            "lidar": Cloud(stamp(now), [[3.0 + moved, 0.0, 0.0]]),
            "obstacles": Obstacles(stamp(now), np.zeros((0, 8))),
        }
        for name, message in good.items():
            if name not in skip:
                pilot.receive(change(name, message) if change else message, now)
        decision = pilot.decide(now)
        states.append((now, decision.state, decision.reason, np.abs(decision.command.values[0, :3]).max()))
    return states


def test_it_waits_for_data_and_then_flies(exported):
    pilot = Pilot(exported("navigation")[0])
    pilot.fly_to([30.0, 0.0, 2.0])
    assert pilot.decide(0.0).state == "wait" and pilot.decide(0.0).reason == "odometry missing"
    states = feed(pilot, 0.0, 1.0)
    assert [state for _, state, *_ in states if state != "wait"] == ["fly"] * sum(s[1] == "fly" for s in states)
    assert states[-1][1] == "fly" and states[-1][3] > 0.5


@pytest.mark.parametrize("name,limit_s", [("odometry", 0.25), ("lidar", 0.4), ("obstacles", 0.6)])
def test_late_data_brake_within_the_limit(exported, name, limit_s):
    pilot = flying_pilot(exported)
    states = feed(pilot, 1.0, 2.0, skip=[name])
    braked = next(s for s in states if s[1] == "brake")
    assert braked[0] - 0.95 <= limit_s + 0.06 and braked[2] == f"{name} late" and braked[3] == 0
    after = feed(pilot, 2.0, 3.0)
    assert after[-1][1] == "fly"  # recovers
    assert all(s[1] == "brake" for s in after if s[0] < 2.45)


@pytest.mark.parametrize("name", ["odometry", "lidar"])
def test_frozen_data_brake(exported, name):
    pilot = flying_pilot(exported)
    frozen = {"odometry": [0.02, 0, 2, 1, 0, 0, 1, 0, 0, 0], "lidar": [[3.02, 0.0, 0.0]]}
    states = feed(pilot, 1.0, 2.0, change=lambda n, m: type(m)(m.stamp, frozen[n]) if n == name else m)
    braked = next(s for s in states if s[1] == "brake")
    assert braked[2] == f"{name} frozen" and braked[0] <= 1.65


@pytest.mark.parametrize("name", ["odometry", "lidar", "obstacles"])
def test_nan_is_never_flown_with(exported, name):
    pilot = flying_pilot(exported)

    def broken(n, message):
        values = np.full((2 - (n == "odometry"), len(message.columns)), np.nan)
        return type(message)(message.stamp, values) if n == name else message

    states = feed(pilot, 1.0, 2.0, change=broken)
    assert all(np.isfinite(s[3]) for s in states) and states[-1][1] == "brake" and states[-1][3] == 0


def test_order_and_clock_jumps(exported):
    pilot = flying_pilot(exported)
    assert not pilot.receive(Odometry(0.5, [9, 9, 2, 0, 0, 0, 1, 0, 0, 0]), 1.0)  # older than the last
    back = feed(pilot, 1.0, 4.0, stamp=lambda now: now - 50)  # the sender's clock is set back
    assert any(s[1] == "brake" for s in back) and back[-1][1] == "fly"
    ahead = feed(pilot, 4.0, 6.0, stamp=lambda now: now + 500)
    assert ahead[-1][1] == "fly" and pilot.odometry.age(6.0) < 0.2


def ages(ahead=lambda k: 0.0, delay=lambda k: 0.0, count=400):
    """Return the ages of odometry at 100 Hz just before each message, whose stamp is `ahead` and that is late."""
    source, found = Source("odometry", 0.25, Limits()), []
    for k in range(count):
        found.append(source.age(k / 100))
        source.take(Odometry(k / 100 + ahead(k) - delay(k), [k, 0, 2, 1, 0, 0, 1, 0, 0, 0]), k / 100)
    return np.array(found[1:])


@pytest.mark.parametrize("ahead_s", [0.04, 0.3, 0.9, 5.0])
def test_one_stamp_ahead_changes_no_age(ahead_s):
    found = ages(lambda k: ahead_s * (k == 100))
    assert found.min() > -0.05 and found.max() < 0.07
    again = ages(lambda k: ahead_s * (k in (100, 150, 152)))  # not one after the other
    assert again.min() > -0.05 and again.max() < 0.07
    assert ages(lambda k: ahead_s * (k == 0))[200:].max() < 0.07


def test_a_clock_set_ahead_and_a_delay_that_stays():
    assert np.abs(ages(lambda k: 0.3 * (k >= 100))).max() < 0.03
    late = ages(delay=lambda k: 0.3 * (k >= 100), count=3000)  # of a queue that never empties again
    assert (late[140:] > 0.25).all()
    first = ages(delay=lambda k: 0.5 * (k == 0) + 0.02 * (k % 4))  # the first message was slow, the others vary
    assert first[10:].min() > -0.05 and first[10:].max() < 0.09


def test_delays_count_as_age(exported):
    pilot = flying_pilot(exported)
    states = feed(pilot, 1.0, 2.0, stamp=lambda now: 0.95 + (now - 0.95) * 0.2)  # ever later
    assert any(s[2] == "odometry late" for s in states)


def test_goal_fence_and_heights(exported):
    pilot = flying_pilot(exported, Limits(fence_m=(-5.0, -5.0, 3.0, 5.0), height_m=(1.0, 2.2)))
    decision = feed(pilot, 1.0, 1.1)[-1]
    assert decision[1] == "fly"
    velocity = pilot._within_limits(np.array([2.0, -2.0, 2.0]), np.array([2.5, 0.0, 2.1]))
    assert np.allclose(velocity, [0.5, -2.0, 0.1])
    pilot.receive(Odometry(1.2, [3.5, 0, 2, 1, 0, 0, 1, 0, 0, 0]), 1.2)
    outside = pilot.decide(1.2)
    assert outside.state == "brake" and outside.reason == "outside of the limits"
    pilot = flying_pilot(exported)
    pilot.receive(Odometry(1.0, [29.7, 0, 2, 1, 0, 0, 1, 0, 0, 0]), 1.0)
    at_goal = pilot.decide(1.0)
    assert at_goal.state == "goal" and np.allclose(at_goal.command.values[0, :3], [0.3, 0, 0])


def test_a_file_without_facts_is_refused(exported, tmp_path):
    import onnx

    model = onnx.load(exported("navigation")[0])
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    with pytest.raises(ValueError, match="facts for deployment"):
        Deployment.read("[]")
    with pytest.raises(ValueError, match="no facts for deployment"):
        Pilot(tmp_path / "bare.onnx")
    (tmp_path / "page.onnx").write_text("<html>")
    with pytest.raises(ValueError, match="is not an ONNX file"):
        Pilot(tmp_path / "page.onnx")


# -- what strangers send -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"azimuths": 36.0},
        {"decision_s": 1e9},
        {"heights_m": [1.0]},
        {"widths_m": ["wide"]},
        {"actions": [[1.0, math.nan, 0.0]]},
        {"actions": "fast"},
        {"azimuths": 18},
        {"decision_s": 0.0},
        {"azimuths": 1e9},
        {"range_m": "x"},
        {"nearest": math.nan},
        {"nearest": 6},
    ],
)
def test_a_file_whose_facts_do_not_fit_is_refused_before_the_flight(exported, tmp_path, change):
    with pytest.raises(ValueError, match="deployment"):
        Pilot(changed_file(exported("navigation")[0], tmp_path, **change))


def changed_file(path, folder, **change):
    """Return a copy of an exported policy with other facts."""
    import onnx

    model = onnx.load(path)
    entry = next(x for x in model.metadata_props if x.key == "deploy")
    entry.value = json.dumps(json.loads(entry.value) | change)
    onnx.save(model, folder / "changed.onnx")
    return folder / "changed.onnx"


def test_commands_stay_below_the_speed_limit_of_the_file(exported, tmp_path):
    pilot = Pilot(changed_file(exported("navigation")[0], tmp_path, max_speed_mps=0.5), limits=Limits(recover_s=0.0))
    pilot.fly_to([30.0, 0.0, 2.0])
    assert feed(pilot, 0.0, 0.5)[-1][3] == 0.5


def test_a_policy_with_memory_recovers_from_an_action_that_is_not_finite(exported):
    pilot = Pilot(exported("navigation_lidar")[0])
    pilot.fly_to([30.0, 0.0, 2.0])
    feed(pilot, 0.0, 1.0)
    pilot.memory = np.full_like(pilot.memory, math.nan)
    states = feed(pilot, 1.0, 2.0)
    assert states[0][1:3] == ("brake", "the policy's action is not finite") and states[-1][1] == "fly"


@pytest.mark.parametrize("value", [1e7, -1e300, math.nan])
def test_numbers_that_cannot_be_are_not_used(exported, value):
    pilot = flying_pilot(exported)
    assert not pilot.receive(Odometry(1.0, [1, 0, 2, value, 0, 0, 1, 0, 0, 0]), 1.0)
    assert not pilot.receive(Obstacles(1.0, [[1, 0, 2, value, 0, 0, 1, 1]]), 1.0)
    with pytest.raises(ValueError, match="not within"):
        pilot.fly_to([value, 0.0, 2.0])


def test_a_frozen_lidar_with_beams_of_nan_is_found(exported):
    pilot = flying_pilot(exported)
    frozen = [[3.0, 0.0, 0.0], [math.nan] * 3]
    states = feed(pilot, 1.0, 2.0, change=lambda n, m: Cloud(m.stamp, frozen) if n == "lidar" else m)
    assert states[-1][2] == "lidar frozen"


def test_a_sender_whose_clock_runs_slow_is_flown_with_for_hours(exported):
    pilot = flying_pilot(exported)
    for hour in range(1, 5):
        begin = 3600.0 * hour
        feed(pilot, begin, begin + 1.0, stamp=lambda now: now * (1 - 1e-4))
        assert feed(pilot, begin + 1.0, begin + 2.0, stamp=lambda now: now * (1 - 1e-4))[-1][1] == "fly"


def test_many_obstacles_and_points_do_not_stop_the_loop(exported):
    pilot, rng = flying_pilot(exported), np.random.default_rng(0)
    pilot.remove_tracked = True
    assert not pilot.receive(Obstacles(1.0, rng.normal(0, 2, (100_000, 8))), 1.0)
    assert pilot.receive(Obstacles(1.0, rng.normal(0, 2, (500, 8))), 1.0)
    assert pilot.receive(Cloud(1.0, rng.normal(0, 2, (100_000, 3))), 1.0)
    assert pilot.decide(1.0).state == "fly"
