"""The MuJoCo drone as a vehicle of its own process, in real time: sensor messages out, velocity commands in.

`slipstream fly vehicle=mujoco` starts it. It knows nothing of the policy: only the transport connects the two.
"""

from __future__ import annotations

import heapq
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.config.help import ConfigError
from slipstream.deploy.links import Link
from slipstream.deploy.messages import Cloud, Command, Depth, Message, Obstacles, Odometry, rotation
from slipstream.recordings import SUFFIX, write_html
from slipstream.sim.frames import quat_from_yaw, quat_to_matrix, to_goal_frame
from slipstream.tasks.navigation.env import GOAL_RADIUS_M, evaluation_starts
from slipstream.tasks.navigation.mujoco.simulator import CAUSES, MujocoEnv
from slipstream.tasks.navigation.recording import FlightRows, flight_recording

COMMAND_TIMEOUT_S = 0.5  # without a command for this long it hovers, as autopilots do
SENSE_EVERY, RECORD_EVERY = 2, 8  # physics steps
CLOCK_JUMP_S = 30.0
HOLD_S = 2.0  # that it flies after it has reached the goal
FAULTS = ("cut", "freeze", "nan", "clock_ahead", "clock_back")


@dataclass
class VehicleOptions:
    """The keys of `slipstream fly` that are the vehicle's."""

    loss: float = 0.0  # share of the messages that are lost, each way
    delay_ms: float = 0.0  # of every message, each way
    jitter_ms: float = 0.0  # on top of it, uniform; messages overtake one another
    fault: str = ""  # KIND@START+SECONDS, as cut@8+1, of the sensors
    seconds: float = 60.0
    out: str = "flight"  # of the recording, without a suffix

    def __post_init__(self) -> None:
        if not (0 <= self.loss < 1 and min(self.delay_ms, self.jitter_ms) >= 0 and self.seconds > 0):
            raise ConfigError("loss must be in [0, 1), delay_ms and jitter_ms at least 0, seconds more than 0")
        self.when()

    def when(self) -> tuple[str, float, float]:
        """Return kind, begin and end (s) of the fault."""
        if not self.fault:
            return "", math.inf, math.inf
        found = re.fullmatch(r"(\w+)@(\d+\.?\d*)\+(\d+\.?\d*)", self.fault)
        if found is None or found[1] not in FAULTS:
            raise ConfigError(f"fault={self.fault}: write KIND@START+SECONDS with one of {', '.join(FAULTS)}")
        return found[1], float(found[2]), float(found[2]) + float(found[3])


class LossyLink:
    """A link that loses, delays and reorders messages in both directions."""

    def __init__(self, link: Link, options: VehicleOptions) -> None:
        self.link, self.options = link, options
        self._random = np.random.default_rng(0)
        self._queues: tuple[list[Any], list[Any]] = ([], [])  # in, out: heaps of (due, number, message)
        self._number = 0

    def _put(self, queue: list[Any], message: Message) -> None:
        if self._random.random() >= self.options.loss:
            late_ms = self.options.delay_ms + self._random.random() * self.options.jitter_ms
            self._number += 1
            heapq.heappush(queue, (time.monotonic() + late_ms / 1000, self._number, message))

    def _due(self, queue: list[Any]) -> list[Message]:
        return [heapq.heappop(queue)[2] for _ in range(len(queue)) if queue[0][0] <= time.monotonic()]

    def send(self, message: Message) -> None:
        """Send a message, later or never."""
        self._put(self._queues[1], message)

    def receive(self, timeout_s: float) -> list[Message]:
        """Return what has arrived, and send what is due."""
        for message in self.link.receive(timeout_s):
            self._put(self._queues[0], message)
        for message in self._due(self._queues[1]):
            self.link.send(message)
        return self._due(self._queues[0])


class Vehicle:
    """One drone of the evaluation over one map, in MuJoCo."""

    def __init__(self, env: MujocoEnv, link: Link, options: VehicleOptions) -> None:
        self.env, self.link, self.options = env, LossyLink(link, options), options
        start, goal = evaluation_starts(1, env.config.map_half_m)
        env.place(start, goal)
        self.rows, self.command, self.commanded_at = FlightRows(env, 1), np.zeros(3), -math.inf
        self.frozen: list[Message] = []
        self.braked_after_s: float | None = None  # from the begin of the fault to the first command to stop

    def sense(self, now: float, scan: bool) -> list[Message]:
        """Return what the sensors measure: odometry, and with `scan` LiDAR and tracked obstacles."""
        env, movers, range_m = self.env, self.env.movers, self.env.config.lidar.range_m
        quat = env.simulated.fields[0].qpos[0, 3:].copy()
        sensed: list[Message] = [Odometry(now, np.concatenate((env.drone.pos[0], env.drone.vel[0], quat)))]
        if not scan:
            return sensed
        seen = env._observe()  # with the noise
        distance = range_m - seen["lidar"][0, 0].numpy()
        yaw = quat_to_matrix(quat_from_yaw(env.drone.yaw.double()))[0].numpy()
        beams = (env.config.lidar.directions().numpy() @ yaw.T).reshape(*distance.shape, 3) * distance[..., None]
        sensed.append(Cloud(now, beams[distance < range_m] @ rotation(quat)))
        if env.camera is not None:
            near = seen["camera"].float().numpy() / env.config.camera.spec.high
            depth = np.where(near > 0, env.config.camera.range_m * (1 - near), np.inf)
            sensed.append(Depth(now, depth.reshape(-1, depth.shape[-1])))
        if env.config.observe_moving:
            rows = torch.cat((movers.pos[0], movers.vel[0], movers.width[:, None], movers.height[:, None]), 1)
            is_near = (rows[:, :2] - env.drone.pos[0, :2]).norm(dim=1) < 2 * range_m
            sensed.append(Obstacles(now, rows[is_near].numpy()))
        return sensed

    def spoil(self, sensed: list[Message], time_s: float) -> list[Message]:
        """Return the messages as the fault leaves them."""
        kind, begin, end = self.options.when()
        if kind.startswith("clock") and time_s >= begin:
            jump = CLOCK_JUMP_S if kind == "clock_ahead" else -CLOCK_JUMP_S
            return [type(message)(message.stamp + jump, message.values) for message in sensed]
        if not begin <= time_s < end:
            self.frozen = sensed if len(sensed) > 1 else self.frozen
            return sensed
        if kind == "nan":
            return [type(message)(message.stamp, np.full((1, message.values.shape[1]), np.nan)) for message in sensed]
        old = {type(message): message.values for message in self.frozen}
        return [type(m)(m.stamp, old[type(m)]) for m in sensed] if kind == "freeze" else []

    def step(self, number: int, begin: float) -> None:
        """Send what is measured, take the last command, and move by one physics step."""
        env, config = self.env, self.env.config
        now, time_s = time.monotonic(), number * config.dt_s
        for message in self.spoil(self.sense(now, number % SENSE_EVERY == 0), time_s):
            self.link.send(message)
        due = begin + time_s + config.dt_s
        while True:
            for message in self.link.receive(max(0.0, min(due - time.monotonic(), 0.002))):
                if isinstance(message, Command) and np.isfinite(message.values[0, :3]).all():
                    self.command, self.commanded_at = message.values[0, :3].copy(), time.monotonic()
                    if np.isfinite(message.values[0, 3]):
                        env.simulated.yaw_held[:] = float(message.values[0, 3])
                    since_s = time_s - self.options.when()[1]
                    if since_s > 0 and self.braked_after_s is None and not self.command.any():
                        self.braked_after_s = round(since_s, 3)
            if time.monotonic() >= due:
                break
        if time.monotonic() - self.commanded_at > COMMAND_TIMEOUT_S:
            self.command = np.zeros(3)
        if number % RECORD_EVERY == 0:
            self.rows.add_state(time_s, torch.zeros(1, dtype=torch.bool))
            self.rows.add_decision(to_goal_frame(torch.from_numpy(self.command[None]).float(), env.heading), None)
        command = torch.from_numpy(self.command[None]).float().clamp(-config.max_speed_mps, config.max_speed_mps)
        env.disturbance.update_wind(config.dt_s)
        env._advance_physics(command, 1)

    def fly(self) -> dict[str, Any]:
        """Fly until the goal, a collision or the end of the time; return what happened."""
        env, begin = self.env, time.monotonic()
        number, collided, at_goal = 0, False, False
        while not (collided or at_goal) and number * env.config.dt_s < self.options.seconds:
            self.step(number, begin)
            number += 1
            collided = bool(env._collided()[0])
            at_goal = not collided and float((env.goal[0] - env.drone.pos[0]).norm()) < GOAL_RADIUS_M
        time_s = number * env.config.dt_s
        clock_ratio = round((time.monotonic() - begin) / time_s, 3)  # 1 in real time
        for later in range(number, number + round(HOLD_S / env.config.dt_s) if at_goal else number):
            self.step(later, begin)
        result = {"success": at_goal, "collision": CAUSES[int(env.first_cause[0])], "time_s": round(time_s, 2)}
        return result | {"clock_ratio": clock_ratio, "braked_after_s": self.braked_after_s}

    def record(self, result: dict[str, Any], title: str, trained: Any) -> str:
        """Write the recording and its page; return the page's path."""
        outcome = np.array([1 if result["success"] else 2 if result["collision"] else 0])
        recording = flight_recording(self.rows, outcome, self.env.goal.numpy(), title, None, trained)
        recording.save(Path(self.options.out).with_suffix(SUFFIX))
        return str(write_html(recording, Path(self.options.out).with_suffix(".html")))


def serve(cfg: Any, trained: Any, link: Link, options: VehicleOptions, log: Callable[[str], None]) -> dict[str, Any]:
    """Fly the vehicle of `slipstream fly`. It prints JSON: start and goal; the result; the result with its page."""
    from slipstream.tasks.navigation.evaluation import evaluation_env

    torch.set_num_threads(1)
    few = replace(cfg.eval, num_drones=1, map_seeds=cfg.eval.map_seeds[:1])
    env = evaluation_env(cfg.env, few, "cpu", cfg.seed, replace(cfg.sim, name="mujoco"))
    assert isinstance(env, MujocoEnv)
    vehicle = Vehicle(env, link, options)
    log(json.dumps({"start": env.drone.pos[0].tolist(), "goal": env.goal[0].tolist()}))
    result: dict[str, Any] = {"map": few.map_seeds[0]} | vehicle.fly()
    log(json.dumps(result))  # the pilot stops; a recording takes a while
    if options.out:
        result["page"] = vehicle.record(result, f"{trained.name}: map {few.map_seeds[0]}, by messages", trained)
    log(json.dumps(result))
    return result
