"""slipstream fly: fly a drone, simulated or real, with a policy, by messages of a robot's protocol.

    slipstream fly vehicle=mujoco                        the shipped policy and a MuJoCo drone, each in its own process
    slipstream fly vehicle=mujoco transport=dds loss=0.05 jitter_ms=50 shield=on log=flight.mcap
    slipstream fly onnx=policy.onnx transport=mavlink address=127.0.0.1:14540 goal=10,0,2 --dry-run

  onnx=         an exported policy; without it checkpoint= (or the shipped policy) is exported first
  transport=    udp (default), dds (ROS 2), ros1 or mavlink; address= is where: HOST:PORT, for dds hosts
  goal=x,y,z    m, ENU: x east, y north, z up; vehicle=mujoco gives its own
  shield=on     the safety shield may change commands
  fence=x0,y0,x1,y1   heights=z0,z1   limits, m; heights are those of the training by default
  log=          an MCAP file of all messages and decisions
  seconds=60    of flight; by default 60 with vehicle=mujoco, and without an end otherwise
  tracked=keep  keep LiDAR hits on tracked obstacles although the policy's LiDAR did not see them in training
  --dry-run     print commands, send none

Keys of vehicle=mujoco: loss=0.05, delay_ms=, jitter_ms= (each way), fault=cut@8+1 (also freeze, nan, clock_ahead,
clock_back), out= (of its recording; flight), and all keys of `slipstream eval`: eval.map_seeds=[3001], sim.hull_m=0.25.

The pilot never arms and never changes the mode: you do, with the ground station or the remote control. Ctrl-C ends the
commands; what the autopilot does then is its own setting.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import select
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipstream.cli import check_output
from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys
from slipstream.config.values import BOOLEANS
from slipstream.deploy.links import TRANSPORTS, open_link
from slipstream.deploy.loop import FlightLog, fly
from slipstream.deploy.pilot import Decision, Limits, Pilot
from slipstream.sim.processes import python_command, python_environment

PILOT_KEYS = ("onnx", "goal", "env.shield", "fence", "heights", "log", "tracked")
VEHICLE_KEYS = ("loss", "delay_ms", "jitter_ms", "fault", "seconds", "out")
AT_GOAL_S = 1.5  # that it holds the goal of a simulated flight before it ends


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags; everything else is a key."""
    parser.add_argument("--dry-run", action="store_true", help="print commands, send none")
    parser.add_argument("--only", choices=("pilot", "vehicle"), help="run one of the two processes")
    parser.add_argument("--force", action="store_true", help="overwrite the file that log= names")


def run(args: argparse.Namespace) -> int:
    """Fly; return 1 if a simulated flight failed."""
    own, words = split_keys(args.words, (*PILOT_KEYS, *VEHICLE_KEYS, "transport", "address", "vehicle"))
    transport, address = own.get("transport", "udp"), own.get("address", "")
    if transport not in TRANSPORTS:
        raise ConfigError(f"unknown transport '{transport}': use one of {', '.join(TRANSPORTS)}")
    if own.get("vehicle") not in (None, "mujoco"):
        raise ConfigError(f"unknown vehicle '{own['vehicle']}': use mujoco, or leave it out for a real one")
    if transport == "ros1" and address:
        raise ConfigError(f"address={address} has no effect on ros1: set ROS_MASTER_URI")
    with_vehicle = bool(own.get("vehicle")) and args.only is None
    if with_vehicle and "goal" in own:
        raise ConfigError(f"goal={own['goal']} has no effect: vehicle=mujoco flies over the map to a goal of its own")
    _check(own, words, flies_alone="vehicle" not in own and args.only != "vehicle")
    if args.only == "vehicle":
        return _serve_vehicle(own, words, open_link(transport, address, "vehicle"))
    log_path = check_output(own.get("log"), args.force, "mcap")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_now:
        pilot = _pilot(own, words, Path(folder))
        link = open_link(transport, address, "pilot")
        vehicle = _start_vehicle(args.words) if with_vehicle else None
        try:
            goal = _numbers(own, "goal", 3)
            if vehicle is not None:
                assert vehicle.stdout is not None
                goal = json.loads(vehicle.stdout.readline() or "{}").get("goal")
            if goal is None:
                raise ConfigError("the vehicle did not start" if vehicle else "name the goal: goal=10,0,2")
            pilot.fly_to(goal)
            log = FlightLog(log_path, pilot) if log_path else None
            if log:
                open_now.callback(log.close)
            seconds = float(own.get("seconds", math.inf if vehicle is None else 3600))
            stats = fly(pilot, link, seconds, log, _watch(pilot, vehicle, args.dry_run), send=not args.dry_run)
            print(json.dumps(stats.summary()))
            if vehicle is None:
                return 0
            result = json.loads((vehicle.communicate(timeout=600)[0].splitlines() or ["{}"])[-1])
            print(json.dumps(result))
            return 0 if result.get("success") else 1
        finally:
            link.close()
            if vehicle is not None:
                vehicle.kill()


def _check(own: dict[str, str], words: list[Any], flies_alone: bool) -> None:
    """Raise ConfigError for a value that has no meaning, and for a key that this flight would not use."""
    for key, values in (("env.shield", BOOLEANS), ("tracked", ("keep",))):
        if own.get(key, next(iter(values))) not in values:
            raise ConfigError(f"{key}={own[key]} must be one of {', '.join(values)}")
    if (_numbers(own, "seconds", 1) or (1.0,))[0] <= 0:
        raise ConfigError(f"seconds={own['seconds']} must be positive")
    for key, half in (("fence", 2), ("heights", 1)):
        box = _numbers(own, key, 2 * half)
        if box and not all(low < high for low, high in zip(box[:half], box[half:], strict=True)):
            raise ConfigError(f"{key}={own[key]}: give the smaller limits first")
    if "log" in own and importlib.util.find_spec("mcap") is None:
        raise ConfigError(f"log={own['log']} needs mcap: pip install mcap")
    unused = [key for key in VEHICLE_KEYS if key in own and key != "seconds"] if flies_alone else []
    if unused:
        raise ConfigError(f"{unused[0]}={own[unused[0]]} is of a simulated flight: add vehicle=mujoco, or leave it out")
    if flies_alone and "onnx" in own and words:
        raise ConfigError(f"{words[0]} has no effect on an exported policy: leave it, or onnx={own['onnx']}, out")


def _pilot(own: dict[str, str], words: list[Any], folder: Path) -> Pilot:
    """Build the pilot; without onnx= its file is exported."""
    path = Path(own.get("onnx") or folder / "policy.onnx")
    if not own.get("onnx"):
        from slipstream.cli.export import export_policy
        from slipstream.training.evaluate import configure

        cfg, trained = configure(words)
        export_policy(trained, cfg.task, cfg.env, "onnx", path)
    limits = Limits(fence_m=_numbers(own, "fence", 4), height_m=_numbers(own, "heights", 2))
    pilot = Pilot(path, BOOLEANS.get(own.get("env.shield", "off"), False), limits)
    keeps = own.get("vehicle") or own.get("tracked") == "keep" or pilot.deployment.lidar_sees_moving
    pilot.remove_tracked = not keeps
    return pilot


def _numbers(own: dict[str, str], key: str, count: int) -> Any:
    """Return the numbers that a key names; None without it."""
    if key not in own:
        return None
    try:
        found = tuple(float(x) for x in own[key].split(","))
    except ValueError:
        found = ()
    if len(found) != count or not all(map(math.isfinite, found)):
        raise ConfigError(f"{key}={own[key]} must be {count} numbers with commas between them")
    return found


def _start_vehicle(words: list[str]) -> subprocess.Popen[str]:
    command = python_command("-m", "slipstream", "fly", *words, "--only", "vehicle")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=python_environment())


def _serve_vehicle(own: dict[str, str], words: list[Any], link: Any) -> int:
    from slipstream.config import registry
    from slipstream.storage.files import check_writable
    from slipstream.training.evaluate import configure

    check_writable(Path(own.get("out", "flight")).with_suffix(".rec"))
    cfg, trained = configure(words)
    options = [f"{key}={own[key]}" for key in VEHICLE_KEYS if key in own]
    result = registry.find_task(cfg.task).serve_vehicle(cfg, trained, link, options)
    link.close()
    return 0 if result["success"] else 1


def _watch(pilot: Pilot, vehicle: subprocess.Popen[str] | None, dry_run: bool) -> Callable[[Decision], bool]:
    """Return what is called after each decision: it prints once a second and ends the flight."""
    every = 1 if dry_run else max(1, round(1 / pilot.deployment.decision_s))
    count = {"decisions": 0, "at goal": 0}

    def watch(decision: Decision) -> bool:
        if count["decisions"] % every == 0:
            at, goal = pilot.odometry.last, pilot.goal
            left = "" if at is None or goal is None else f"{math.dist(at.values[0, :3], goal):6.1f} m to go, "
            x, y, z, yaw = decision.command.values[0]
            why = f" ({decision.reason})" if decision.reason else " (shield)" if decision.shielded else ""
            command = f"command {x:+.2f} {y:+.2f} {z:+.2f} m/s ENU, yaw {yaw:+.2f}"
            print(f"{decision.state}{why}: {left}{command}", flush=True)
        count["decisions"] += 1
        count["at goal"] += decision.state == "goal"
        if vehicle is not None:
            assert vehicle.stdout is not None
            ended = bool(select.select([vehicle.stdout.fileno()], [], [], 0)[0])
            return ended or count["at goal"] * pilot.deployment.decision_s > AT_GOAL_S
        return False

    return watch
