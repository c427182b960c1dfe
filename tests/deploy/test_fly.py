"""Closed loops over each transport with the MuJoCo vehicle in its own process, and messages read by others' tools."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstream.cli import main
from slipstream.deploy import Cloud, Command, Depth, Obstacles, Odometry, Pilot
from slipstream.deploy.links import REMEDIES, UdpLink, open_link, split_address
from slipstream.deploy.loop import FlightLog, fly, replay

SMALL = ["env.map_half_m=3", "env.num_obstacles=4", "env.dyn.num_obstacles=8", "eval.map_seeds=[5]", "threads=1"]
ODOMETRY = Odometry(12.5, [1.0, -2.0, 3.0, 0.4, 0.5, -0.6, *(np.array([0.8, 0.1, -0.2, 0.5]) / np.sqrt(0.94))])
CLOUD = Cloud(12.5, [[1.5, 0.5, -0.25], [-2.0, 3.0, 1.0], [3.0, -1.0, 0.0]])
OBSTACLES = Obstacles(12.5, np.arange(32).reshape(4, 8) / 8)
DEPTH = Depth(12.5, [[1.5, np.inf, np.nan], [-np.inf, 0.25, 7.0]])
COMMAND = Command(12.75, [0.5, -1.0, 0.25, 0.7])


ROOT = Path(__file__).parents[2]


def needs(module: str):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"needs {module} (extra fly)")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def roscore(tmp_path_factory):
    """A real roscore of its own port; skips without one."""
    packages = [f"/usr/lib/python3/dist-packages/{name}" for name in ("nav_msgs", "sensor_msgs", "geometry_msgs")]
    if shutil.which("roscore") is None or not all(map(os.path.isdir, packages)):
        pytest.skip(f"needs roscore and rospy: apt install ros-core {REMEDIES['ros1'].removeprefix('apt install ')}")
    home, port = tmp_path_factory.mktemp("ros"), free_port()
    settings = {"ROS_HOME": str(home), "ROS_LOG_DIR": str(home), "ROS_IP": "127.0.0.1"}
    settings["ROS_MASTER_URI"] = f"http://127.0.0.1:{port}"
    core = subprocess.Popen(["roscore", "-p", str(port)], env=os.environ | settings, stdout=subprocess.DEVNULL)
    for _ in range(300):
        time.sleep(0.1)
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", port)) == 0:
                break
    yield settings
    core.terminate()
    core.wait(20)


@pytest.fixture(params=["udp", "mavlink", "dds", "ros1"])
def transport(request):
    """Each transport that is installed, and its environment variables."""
    pytest.importorskip("mujoco")
    pytest.importorskip("mcap")
    if request.param == "ros1":
        return "ros1", os.environ | request.getfixturevalue("roscore")
    pytest.importorskip({"udp": "socket", "mavlink": "pymavlink", "dds": "cyclonedds"}[request.param])
    return request.param, os.environ | {"ROS_DOMAIN_ID": str(os.getpid() % 90 + 10)}


def test_closed_loop(transport, exported, tmp_path):
    """Five seconds in real time. How it flew is not judged if the machine was too busy for real time."""
    transport, environment = transport
    onnx, log = exported("navigation")[0], tmp_path / "flight.mcap"
    words = [f"onnx={onnx}", f"transport={transport}", f"log={log}", f"out={tmp_path}/flight", "seconds=5", *SMALL]
    words += [f"address=127.0.0.1:{free_port()}"] if transport in ("udp", "mavlink") else []
    command = [sys.executable, "-m", "slipstream", "fly", "vehicle=mujoco", "shield=on", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stderr
    stats, result = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    decisions = sum(stats["states"].values())
    if stats["late_ms"]["p99"] < 30 and result["clock_ratio"] < 1.01:
        assert stats["states"]["fly"] > decisions / 3 and result["collision"] == ""
    assert replay(log, onnx) == (decisions, 0)
    assert (tmp_path / "flight.html").is_file()


@pytest.mark.soak
@pytest.mark.parametrize(
    "words", [[], ["loss=0.05", "jitter_ms=50"], ["maps=3001", "faults=cut@8+1,freeze@8+1,nan@8+1"]]
)
def test_flights_over_80_moving_obstacles(transport, words):
    """Of ten flights one may fail: `slipstream eval sim=mujoco` loses none on these maps."""
    command = [sys.executable, ROOT / "benchmarks" / "fly.py", transport[0], *words]
    done = subprocess.run(command, env=transport[1], capture_output=True, text=True, check=True)
    rows = [json.loads(line.removeprefix("TABLE")) for line in done.stdout.splitlines() if line.startswith("TABLE")]
    if max(row["late p99 ms (worst flight)"] for row in rows) > 30 or max(row["clock_ratio"] for row in rows) > 1.01:
        pytest.skip("the machine was too busy for real time")
    for row in rows:
        assert row["success"] >= row["flights"] - 1 and row["differ when replayed"] == 0
        assert row["largest difference to torch"] < 1e-4
        assert not row["fault"] or (row["braked_after_s"][0] or 9) < 0.7


# -- messages, read by others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["x", "-1", "233"])
def test_a_ros_domain_that_cannot_be_is_refused(domain, monkeypatch):
    pytest.importorskip("cyclonedds")
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    with pytest.raises(ValueError, match=f"ROS_DOMAIN_ID={domain} must be"):
        open_link("dds", "", "pilot")


def test_a_pilot_for_this_machine_listens_here_alone():
    link = UdpLink(f"localhost:{free_port()}")
    assert link._socket.getsockname()[0] == "127.0.0.1"
    link.close()


@pytest.mark.parametrize("words", ["fault=cut@.+1", "fault=cut@8+1.2.3", "out=/nonexistent/flight", "loss=nan"])
def test_a_vehicle_is_refused_before_it_flies(words, capsys):
    pytest.importorskip("mujoco")
    assert main(["fly", "--only", "vehicle", *words.split()]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_udp_carries_messages_between_its_two_ends_alone():
    port = free_port()
    vehicle, pilot = (UdpLink(f"127.0.0.1:{port}", role) for role in ("vehicle", "pilot"))
    for message in (ODOMETRY, CLOUD, OBSTACLES):
        vehicle.send(message)
        (found,) = pilot.receive(1.0)
        assert type(found) is type(message) and np.array_equal(found.values, message.values)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"junk", ("127.0.0.1", port + 1))
        assert pilot.receive(0.05) == []
    vehicle._socket.send(b"junk")
    assert pilot.receive(0.05) == []
    pilot.send(COMMAND)
    assert np.array_equal(vehicle.receive(1.0)[0].values, COMMAND.values)
    for link in (vehicle, pilot):
        link.close()
    with pytest.raises(ValueError, match="no address"):
        split_address("localhost")


MAVLINK_READER = """
import json, os, sys, time
os.environ["MAVLINK20"] = "1"
from pymavlink import mavutil
link = mavutil.mavlink_connection("udpin:" + sys.argv[1], dialect="ardupilotmega", source_system=255)
print("ready", flush=True)
found, end = {}, time.time() + 20
while time.time() < end and len(found) < 4:
    message = link.recv_match(blocking=True, timeout=1)
    if message is not None and message.get_type() != "BAD_DATA":
        found[message.get_type()] = message.to_dict()
print(json.dumps(found, default=str))
"""


@needs("pymavlink")
def test_mavlink_is_parsed_by_pymavlink_in_another_process():
    from slipstream.deploy.mavlink import MavlinkLink

    address = f"127.0.0.1:{free_port()}"
    reader = subprocess.Popen([sys.executable, "-c", MAVLINK_READER, address], stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "ready\n"
    vehicle = MavlinkLink(address, "vehicle")
    for message in (ODOMETRY, CLOUD, OBSTACLES):
        vehicle.send(message)
    found = json.loads(reader.communicate(timeout=30)[0])
    vehicle.close()
    odometry, ring = found["ODOMETRY"], found["OBSTACLE_DISTANCE"]
    assert (odometry["x"], odometry["y"], odometry["z"]) == (-2.0, 1.0, -3.0)  # NED
    assert odometry["frame_id"] == 1 and odometry["time_usec"] == 12_500_000
    assert max(ring["distances"]) == ring["max_distance"] + 1 < 65_535  # no obstacle, not unknown
    assert min(ring["distances"]) == 316 and found["TUNNEL"]["payload_type"] == 40_001
    assert found["HEARTBEAT"]["type"] == 2


@pytest.fixture
def mavlink():
    """The two ends of a link."""
    pytest.importorskip("pymavlink")
    from slipstream.deploy.mavlink import MavlinkLink

    address = f"127.0.0.1:{free_port()}"
    with (
        contextlib.closing(MavlinkLink(address, "pilot")) as pilot,
        contextlib.closing(MavlinkLink(address, "vehicle")) as vehicle,
    ):
        yield pilot, vehicle


def test_mavlink_round_trip_and_no_arming(mavlink):
    pilot, vehicle = mavlink
    sent = []
    write = pilot.connection.write
    pilot.connection.write = lambda data: (sent.append(bytes(data)), write(data))[1]
    found = []
    for _ in range(3):
        for message in (ODOMETRY, CLOUD, OBSTACLES):
            vehicle.send(message)
        found += pilot.receive(1.0)
    by_kind = {type(message): message for message in found}
    for message in (ODOMETRY, CLOUD, OBSTACLES):
        values = by_kind[type(message)].values
        flip = -1 if type(message) is Odometry and values[0, 6] * ODOMETRY.values[0, 6] < 0 else 1  # q and −q are one
        values = np.concatenate((values[:, :6], flip * values[:, 6:]), 1) if flip < 0 else values
        assert np.allclose(values, message.values, atol=1e-5)
    pilot.send(COMMAND)
    (command,) = [m for m in vehicle.receive(1.0) if isinstance(m, Command)]
    assert np.allclose(command.values, COMMAND.values, atol=1e-6)
    assert {int.from_bytes(data[7:10], "little") for data in sent} == {0, 84}  # heartbeat and setpoint, nothing else
    pilot.connection.port.sendto(b"\xfd\x09junk", ("127.0.0.1", vehicle.connection.port.getsockname()[1]))
    assert vehicle.receive(0.05) == []


def test_a_ring_of_mavlink_is_read_as_the_specification_says(mavlink):
    pilot, vehicle = mavlink

    def ring(distances, **settings):
        settings = {"increment": 10, "min_distance": 20, "max_distance": 400, "frame": 12} | settings
        vehicle._mav.heartbeat_send(2, 0, 0, 0, 4)
        vehicle._mav.obstacle_distance_send(1, 0, (distances + [65_535] * 72)[:72], **settings)
        return [message.values for message in pilot.receive(1.0) + pilot.receive(0.05)]

    (found,) = ring([200, 0, *[401] * 33, 15])  # of 36: 2 m ahead, one that touches, one below the minimum
    right, left = np.radians((-10, 10))
    expected = [[2, 0, 0], [0.01 * np.cos(right), 0.01 * np.sin(right), 0]]
    assert np.allclose(found, [*expected, [0.15 * np.cos(left), 0.15 * np.sin(left), 0]])
    assert [len(values) for values in ring([401] * 36)] == [0]  # nothing near
    assert [len(values) for values in ring([0] * 36)] == [36]
    assert ring([]) == []  # all unknown
    assert ring([200, 65_535, *[401] * 34]) == []  # one unknown
    assert ring([401] * 72, increment=1) == []  # 72° alone
    assert ring([401] * 72, increment=0) == ring([401] * 72, increment_f=float("inf")) == []


@pytest.fixture
def convert():
    """Messages of ROS from ours and back."""
    pytest.importorskip("cyclonedds")
    from slipstream.deploy.dds import message_types
    from slipstream.deploy.ros import RosMessages

    return RosMessages(message_types())


@needs("rosbags")
def test_ros_2_messages_are_parsed_by_rosbags(convert):
    from rosbags.typesys import Stores, get_typestore

    from slipstream.deploy.ros import TOPICS

    store = get_typestore(Stores.ROS2_HUMBLE)
    for message in (ODOMETRY, CLOUD, OBSTACLES, DEPTH, COMMAND):
        topic, ours = convert.write(message)
        package, name = TOPICS[topic]
        data = ours.serialize(use_version_2=False)
        theirs = store.deserialize_cdr(data, f"{package}/msg/{name}")
        assert bytes(store.serialize_cdr(theirs, f"{package}/msg/{name}")) == data
        assert theirs.header.frame_id == ours.header.frame_id
        back = convert.read(topic, theirs)
        assert back.stamp == pytest.approx(message.stamp)
        assert np.allclose(back.values[:, :3], message.values[:, :3], atol=1e-6, equal_nan=True)
    assert np.allclose(convert.read("odom", convert.write(ODOMETRY)[1]).values, ODOMETRY.values)


ROS_1_SENDER = """
import time
from slipstream.deploy.ros1 import Ros1Link
from tests.deploy.test_fly import CLOUD, OBSTACLES, ODOMETRY
link = Ros1Link("vehicle")
for _ in range(1000):
    for message in (ODOMETRY, CLOUD, OBSTACLES):
        link.send(message)
    time.sleep(0.02)
"""


@needs("rosbags")
@pytest.mark.skipif(shutil.which("rosbag") is None, reason="needs rosbag (apt install ros-core)")
def test_a_recorded_bag_is_read_by_rosbags(roscore, tmp_path):
    from rosbags.highlevel import AnyReader

    from slipstream.deploy.ros import RosMessages

    environment, bag = os.environ | roscore, tmp_path / "flight.bag"
    sender = subprocess.Popen([sys.executable, "-c", ROS_1_SENDER], env=environment, cwd=ROOT)
    topics = {"odom": ODOMETRY, "points": CLOUD, "obstacles": OBSTACLES}
    subprocess.run(["rosbag", "record", "--limit=5", "-O", bag, *topics], env=environment, check=True, timeout=60)
    sender.kill()
    sender.wait()
    convert, found = RosMessages({}), {}
    with AnyReader([bag]) as reader:
        for connection, _, data in reader.messages():
            topic = connection.topic.strip("/")
            found[topic] = convert.read(topic, reader.deserialize(data, connection.msgtype))
    assert found.keys() == topics.keys()
    for topic, message in topics.items():
        assert found[topic].stamp == pytest.approx(message.stamp)
        assert np.allclose(found[topic].values, message.values, atol=1e-6)


@needs("cyclonedds")
def test_a_ros_2_message_that_is_no_text_is_left_out(monkeypatch):
    from slipstream.deploy.dds import DdsLink

    monkeypatch.setenv("ROS_DOMAIN_ID", str(os.getpid() % 90 + 120))
    link = DdsLink()
    samples = [None, link._convert.write(ODOMETRY)[1], link._convert.write(CLOUD)[1]]

    class Reader:
        def take(self, count):
            taken = [samples.pop(0) for _ in range(min(count, len(samples)))]
            return [b"\xff".decode() if m is None else m for m in taken]  # cyclonedds decodes a frame_id

    link._readers, link._waitset = {"odom": Reader()}, type("No", (), {"wait": lambda self, timeout: None})()
    (message,) = link.receive(0.01)
    assert np.allclose(message.values, ODOMETRY.values)


def test_depth_images_of_ros(convert):
    image = convert.write(DEPTH)[1]
    image.encoding, image.step, image.is_bigendian = "16UC1", 8, 1  # mm, rows of 8 bytes, the last two of no pixel
    image.data = np.array([[1500, 0, 300, 9], [65535, 1, 2, 9]], ">u2").tobytes()
    assert np.allclose(convert.read("depth", image).values, [[1.5, 0, 0.3], [65.535, 0.001, 0.002]])
    for change in (
        {"encoding": "rgb8"},
        {"step": 5},
        {"width": 2**31},
        {"height": 2**31},
        {"data": b"x"},
        {"width": 0},
    ):
        with pytest.raises(ValueError):
            convert.read("depth", replace(image, **change))


def test_a_cloud_that_does_not_fit_is_refused(convert):
    for change in ({"width": 10**6}, {"point_step": 2**31}, {"fields": []}, {"is_bigendian": True}, {"data": b"x"}):
        cloud = convert.write(CLOUD)[1]
        for name, value in change.items():
            setattr(cloud, name, value)
        with pytest.raises(ValueError):
            convert.read("points", cloud)
    for change in ({"offset": 2**31 - 2}, {"offset": 2**32 - 4}, {"datatype": 0}, {"name": "other"}):
        cloud = convert.write(CLOUD)[1]
        cloud.fields[1] = replace(cloud.fields[1], **change)
        with pytest.raises(ValueError):  # NumPy itself would read outside of the data
            convert.read("points", cloud)
    assert len(convert.read("points", convert.write(Cloud(1.0, []))[1]).values) == 0


# -- the loop ----------------------------------------------------------------------------------------------------------


class Lines:
    """A link that always has good data."""

    def __init__(self) -> None:
        self.sent = []

    def receive(self, timeout_s):
        time.sleep(min(timeout_s, 0.01))
        now = time.monotonic()
        moved = now % 100 / 100
        odometry = Odometry(now, [moved, 0, 2, 1, 0, 0, 1, 0, 0, 0])
        return [odometry, Cloud(now, [[3 + moved, 0, 0]]), Obstacles(now, np.zeros((0, 8)))]

    def send(self, message):
        self.sent.append(message)


def after(decisions: int):
    """Return an `on_decision` that ends a flight after so many."""
    count = iter(range(1, decisions + 1))
    return lambda decision: next(count) == decisions


@needs("mcap")
def test_a_log_opens_with_mcap_and_replays(exported, tmp_path):
    from mcap.reader import make_reader

    onnx = exported("navigation_lidar")[0]  # with memory
    pilot, link, path = Pilot(onnx, shield=True), Lines(), tmp_path / "log.mcap"
    pilot.fly_to([30.0, 0.0, 2.0])
    log = FlightLog(path, pilot)
    stats = fly(pilot, link, log=log, on_decision=after(20))
    log.close()
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    topics = {channel.topic for channel in summary.channels.values()}
    assert topics == {"odometry", "cloud", "obstacles", "decision"}
    assert sum(stats.states.values()) == 20 and len(link.sent) == 21  # and a stop at the end
    assert link.sent[-1].values[0, :3].tolist() == [0, 0, 0]
    assert replay(path, onnx) == (20, 0)
    data = path.read_bytes()
    for bad in (b"", data[: len(data) // 2], data.replace(b'"limits": {', b'"limits": ['), b"x" * 1000):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="cannot be decided again"):
            replay(path, onnx)


def test_a_dry_run_sends_nothing(exported):
    pilot, link = Pilot(exported("navigation")[0]), Lines()
    pilot.fly_to([30.0, 0.0, 2.0])
    stats = fly(pilot, link, on_decision=after(3), send=False)
    assert sum(stats.states.values()) == 3 and link.sent == []


@pytest.mark.parametrize(
    "word,message",
    [
        ("transport=smoke", "unknown transport"),
        ("vehicle=car", "unknown vehicle"),
        ("goal=1,2", "must be 3 numbers"),
        ("onnx=no.onnx", "no file"),
        ("address=here", "no address"),
        ("address=no.host.invalid:14650", "'no.host.invalid' that is not known"),
        ("transport=dds address=<x/>", "'<x/>' that is not known"),
        ("transport=mavlink address=a:b:99", "'a:b' that is not known"),
        ("transport=ros1 address=127.0.0.1:99", "has no effect on ros1"),
        ("vehicle=mujoco goal=1,2,3", "a goal of its own"),
        ("shield=maybe", "env.shield=maybe must be one of"),
        ("tracked=no", "must be one of keep"),
        ("seconds=-1", "must be positive"),
        ("fence=1,1,0,2", "fence=1,1,0,2: give the smaller limits first"),
        ("heights=5,1", "heights=5,1: give"),
        ("loss=0.5", "add vehicle=mujoco"),
        ("env.max_speed_mps=9", "no effect on an exported policy"),
        ("goat=1,2,3", "no effect on an exported policy"),
    ],
)
def test_words_that_are_wrong(word, message, exported, capsys):
    words = word.split() + ([] if word.startswith("onnx") else [f"onnx={exported('navigation')[0]}"])
    assert main(["fly", *words]) == 2
    assert message in capsys.readouterr().err
