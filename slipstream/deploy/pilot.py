"""Pilot: sensor messages in, velocity commands out, with a watchdog over the sensors and limits over the flight."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.deploy import sensors
from slipstream.deploy.messages import Cloud, Command, Depth, Message, Obstacles, Odometry, rotation, yaw_of
from slipstream.deploy.sensors import Deployment
from slipstream.deploy.shield import Shield

KNOWN = ("state", "lidar", "direction", "dynamic_obstacle", "camera")
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
MAX_INPUT = 1 << 20  # numbers; the file is not trusted
STOPPED_MPS = 0.2
MAX_OBSTACLES = 1000  # more would take longer than a decision may
ABSURD = 1e6  # m, m/s: a broken sensor
CLOCK_DRIFT = 2e-4  # s per s between the sender's clock and ours
EARLY_S = 0.05  # a message earlier than the fastest before it by more than this is used if the next is early, too


@dataclass(frozen=True)
class Limits:
    """When to brake, and where not to fly."""

    odometry_s: float = 0.25  # oldest odometry that is flown with
    cloud_s: float = 0.4
    camera_s: float = 0.4
    obstacles_s: float = 0.6  # of policies that read them, and once any have come
    frozen_s: float = 0.5  # the same values for this long while the drone moves
    recover_s: float = 0.5  # good data for this long before it flies on
    resync_s: float = 1.0  # after this long with stamps of the past, the sender's clock was set back
    height_m: tuple[float, float] | None = None  # default: those of the training
    fence_m: tuple[float, float, float, float] | None = None  # x and y from, x and y to
    edge_s: float = 1.0  # the speed towards a limit is at most the distance in this time
    hold_gain: float = 1.0  # 1/s, and at most hold_mps, towards the goal that is reached
    hold_mps: float = 0.5


@dataclass
class Decision:
    """One command, and why."""

    now: float
    state: str  # wait, fly, goal, brake, hold
    reason: str  # of waiting, braking and holding
    command: Command
    action: np.ndarray | None = None  # of the policy [3] m/s, goal frame
    observation: dict[str, np.ndarray] = field(default_factory=dict)
    shielded: bool = False  # the shield changed the action


class Source:
    """The last message of one sensor, and whether it can be trusted. Ages are independent of the sender's clock: the
    smallest delay seen so far counts as none. It is not forgotten, so that delays that stay are found; one wrong stamp
    does not change it."""

    def __init__(self, name: str, max_age_s: float, limits: Limits) -> None:
        self.name, self.max_age_s, self.limits = name, max_age_s, limits
        self.last: Message | None = None
        self.offset, self._accepted, self._changed = math.inf, -math.inf, -math.inf
        self._early = math.inf  # stamp of the message before, if it was early
        self._lone = False  # the offset is that of one message, which may have been wrong

    def take(self, message: Message, now: float) -> bool:
        """Keep a message if it is newer than the last, and not the first whose stamp is ahead."""
        if self.last is not None and message.stamp <= self.last.stamp:
            if now - self._accepted < self.limits.resync_s:
                return False
            self.offset = math.inf
        delay, least = now - message.stamp, self.offset + CLOCK_DRIFT * max(0.0, now - self._accepted)
        if math.isfinite(least):
            early, self._early = self._early, message.stamp if delay < least - EARLY_S else math.inf
            if self._early < math.inf and early >= message.stamp:
                return False
        if self.last is None or not np.array_equal(message.values, self.last.values, equal_nan=True):
            self._changed = now
        self.last, self._accepted, self.offset = message, now, delay if self._lone else min(least, delay)
        self._lone = math.isinf(least)
        return True

    def age(self, now: float) -> float:
        """Return the age of the last message, s."""
        return math.inf if self.last is None else now - self.last.stamp - self.offset

    def fault(self, now: float, moving: bool) -> str:
        """Return what is wrong: missing, late, frozen, or nothing."""
        if self.last is None:
            return f"{self.name} missing"
        if self.age(now) > self.max_age_s:
            return f"{self.name} late"
        unchanged = now - self._changed > self.limits.frozen_s and bool(np.isfinite(self.last.values).any())
        return f"{self.name} frozen" if unchanged and moving else ""


class Pilot:
    """An exported policy that flies from start to goal.

    Feed it messages with `receive`, and call `decide` every `deployment.decision_s`. Times are those of one local clock
    that never jumps, such as `time.monotonic()`; stamps may be of any clock. The same calls give the same commands, bit
    for bit.

    Args:
        onnx_file: of `slipstream export --to onnx`, of a drone's policy.
        shield: whether the safety shield may change the policy's commands.
        limits: of sensors, heights and the fence.
        remove_tracked: leave out the LiDAR's hits on tracked obstacles. A policy needs it whose LiDAR did not see them
            in training (`deployment.lidar_sees_moving`), unless the sender leaves them out.
    """

    def __init__(
        self, onnx_file: str | Path, shield: bool = False, limits: Limits | None = None, remove_tracked: bool = False
    ) -> None:
        if not Path(onnx_file).is_file():
            raise FileNotFoundError(f"there is no file {onnx_file}: write it with slipstream export --to onnx")
        try:
            import onnxruntime
        except ImportError:
            raise ImportError("flying an exported policy needs onnxruntime: pip install onnxruntime") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # the same sums each time
        try:
            self.session = onnxruntime.InferenceSession(str(onnx_file), options, providers=["CPUExecutionProvider"])
            about = self.session.get_modelmeta().custom_metadata_map
        except Exception as error:  # its classes have no common base of their own
            raise ValueError(f"{onnx_file} is not an ONNX file: write it with slipstream export --to onnx") from error
        if "deploy" not in about:
            raise ValueError(f"{onnx_file} has no facts for deployment: export a drone's policy with this version")
        self.deployment = facts = Deployment.read(about["deploy"])
        inputs = {x.name: x for x in self.session.get_inputs()}
        self.inputs = [name for name in inputs if name != "memory"]
        if unknown := [name for name in self.inputs if name not in KNOWN]:
            raise ValueError(f"{onnx_file} reads {', '.join(unknown)}: a pilot has {', '.join(KNOWN)} alone")
        self.limits, self.remove_tracked = limits or Limits(), remove_tracked
        self.odometry = Source("odometry", self.limits.odometry_s, self.limits)
        self.cloud = Source("lidar", self.limits.cloud_s, self.limits)
        self.camera = Source("camera", self.limits.camera_s, self.limits)
        self.obstacles = Source("obstacles", self.limits.obstacles_s, self.limits)
        self._needed = [self.odometry]
        self._needed += [self.cloud] if "lidar" in inputs or shield else []
        self._needed += [self.camera] if "camera" in inputs else []
        x0, y0, x1, y1 = self.limits.fence_m or (-np.inf, -np.inf, np.inf, np.inf)
        z0, z1 = self.limits.height_m or facts.height_limits_m
        self._low, self._high = np.array((x0, y0, z0)), np.array((x1, y1, z1))
        self.shield = facts.shield() if shield else None
        self.goal: np.ndarray | None = None
        self._history: deque[Odometry] = deque(maxlen=100)  # poses at the time of a scan
        shapes = {name: tuple(x.shape[1:]) for name, x in inputs.items()}
        fitting = {"state": (8,), "direction": (1, 3), "lidar": (1, facts.azimuths, len(facts.elevations_deg))}
        fitting["dynamic_obstacle"] = 1, facts.nearest, sensors.OBSTACLE_COLUMNS
        try:  # a decision over nothing, so that what does not fit is found before the flight
            if shapes | {name: shape for name, shape in fitting.items() if name in shapes} != shapes:
                raise ValueError(f"its inputs have shapes {shapes}")
            if max(map(math.prod, shapes.values())) > MAX_INPUT or ("camera" in shapes and facts.camera_range_m <= 0):
                raise ValueError("its camera has no range, or it reads too much")
            blank = {name: np.zeros(shapes[name], TYPES[x.type]) for name, x in inputs.items()}
            self._fresh_memory = blank["memory"][None] if "memory" in blank else None
            self._blank_image = blank.get("camera")
            self._begin_episode()
            self._act(blank)
        except Exception as error:
            raise ValueError(f"{onnx_file} does not fit its facts for deployment: {error}") from error
        self._begin_episode()

    # -- inputs ------------------------------------------------------------------------------------------------------

    def fly_to(self, goal: Any) -> None:
        """Fly to `goal` [3] m, ENU. The goal frame points there from where the drone is at the next decision."""
        goal = np.asarray(goal, float).reshape(3)
        if not (np.abs(goal) < ABSURD).all():
            raise ValueError(f"the goal {goal.tolist()} is not within {ABSURD:,.0f} m")
        self.goal = goal
        self._begin_episode()

    def _begin_episode(self) -> None:
        self.memory, self.at_goal = self._fresh_memory, False
        self._start: np.ndarray | None = None
        self._state, self._good_since = "wait", math.inf
        self._last_command = np.zeros(3)

    def receive(self, message: Message, now: float) -> bool:
        """Take a message that arrived at `now`. Return whether it was used: not if it is old, not finite or absurd."""
        values, finite = message.values, np.abs(message.values) < ABSURD
        if not math.isfinite(message.stamp):
            return False
        if isinstance(message, Cloud):  # single points may be NaN or infinite: beams without a hit
            broken = len(values) > 0 and bool(np.isnan(values).any(1).all())
            return not broken and self.cloud.take(message, now)
        if isinstance(message, Depth):
            image = self._blank_image
            if image is None or values.shape != (image.shape[0] * image.shape[1], image.shape[2]):
                self.camera.name = f"camera of {values.shape[0]} × {values.shape[1]} pixels, not the policy's,"
                return False
            self.camera.name = "camera"
            return bool((values > 0).any()) and self.camera.take(message, now)
        if isinstance(message, Obstacles):
            return bool(finite.all()) and len(values) <= MAX_OBSTACLES and self.obstacles.take(message, now)
        if not isinstance(message, Odometry) or len(values) != 1 or not finite.all():
            return False
        if abs(float(np.linalg.norm(values[0, 6:])) - 1) > 0.1 or not self.odometry.take(message, now):
            return False
        self._history.append(message)
        return True

    # -- decisions ---------------------------------------------------------------------------------------------------

    def decide(self, now: float) -> Decision:
        """Return the command for the time until the next decision."""
        reason = self._fault(now)
        if self.goal is None or self.odometry.last is None:
            return self._decision(now, "wait", reason or "no goal", np.zeros(3))
        position, velocity = self.odometry.last.values[0, :3], self.odometry.last.values[0, 3:6]
        if reason:
            self._good_since = math.inf
            if self._state != "hold":
                self._state, self.memory = "brake", self._fresh_memory
            if "odometry" not in reason and float(np.linalg.norm(velocity)) < STOPPED_MPS:
                self._state = "hold"
            return self._decision(now, self._state, reason, np.zeros(3))
        self._good_since = min(self._good_since, now)
        if self._state in ("brake", "hold", "wait") and now - self._good_since < self.limits.recover_s:
            return self._decision(now, self._state, "recovering", np.zeros(3))
        self._state = "fly"
        if self._start is None:
            self._start = position
        self.at_goal |= float(np.linalg.norm(self.goal - position)) < self.deployment.goal_radius_m
        if self.at_goal:
            back, most = self.limits.hold_gain * (self.goal - position), self.limits.hold_mps
            return self._decision(now, "goal", "", np.clip(back, -most, most))
        observation, to_goal = self.observe(now)
        action = self._act(observation)
        flown = action if self.shield is None else self._shielded(self.shield, action, observation)
        decision = self._decision(now, "fly", "", self._within_limits(to_goal.T @ flown, position))
        decision.action, decision.observation = action, observation
        decision.shielded = bool(np.abs(flown - action).max() > 1e-6)
        return decision

    def observe(self, now: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the observation of the training, and the rotation [3, 3] from ENU to the goal frame."""
        assert self.odometry.last is not None and self.goal is not None
        facts, odometry = self.deployment, self.odometry.last.values[0]
        position, velocity = odometry[:3], odometry[3:6]
        direction = (self.goal - (position if self._start is None else self._start)) * (1, 1, 0)
        length = float(np.hypot(direction[0], direction[1]))
        c, s = direction[:2] / length if length > 1e-6 else (1.0, 0.0)
        to_goal = np.array(((c, s, 0.0), (-s, c, 0.0), (0.0, 0.0, 1.0)))
        offset = self.goal - position
        unit = to_goal @ offset / max(float(np.linalg.norm(offset)), 1e-6)
        state = np.array((*unit, np.hypot(offset[0], offset[1]), offset[2], *(to_goal @ velocity)), np.float32)
        points = np.zeros((0, 3))
        if self.cloud.last is not None:
            stamp = self.cloud.last.stamp + self.cloud.offset
            then = min(self._history, key=lambda x: abs(x.stamp + self.odometry.offset - stamp))  # the time of the scan
            moved = to_goal @ (then.values[0, :3] - position)  # since then
            values, reach = self.cloud.last.values, facts.range_m + float(np.linalg.norm(moved))
            near = values[np.linalg.norm(values, axis=1) <= reach]
            points = near @ (to_goal @ rotation(then.values[0, 6:])).T + moved
        rows = np.zeros((0, 8)) if self.obstacles.last is None else self.obstacles.last.values.copy()
        rows[:, :3] += rows[:, 3:6] * max(0.0, self.obstacles.age(now))  # where they are now
        if self.remove_tracked:
            relative = (rows[:, :3] - position) @ to_goal.T
            points = sensors.without_tracked(points, np.column_stack((relative, rows[:, 6:])))
        self._points = points
        observation = {
            "state": state,
            "lidar": facts.lidar(sensors.turned_to_yaw(points, odometry[6:], to_goal)),
            "direction": direction.astype(np.float32)[None],
            "dynamic_obstacle": facts.dynamic_obstacle(rows, position, to_goal),
        }
        if self._blank_image is not None and self.camera.last is not None:
            image = facts.camera(self.camera.last.values, self._blank_image.dtype)
            observation["camera"] = image.reshape(self._blank_image.shape)
        return observation, to_goal

    # -- inside ------------------------------------------------------------------------------------------------------

    def _fault(self, now: float) -> str:
        """Return why it must not fly now, or nothing."""
        last = self.odometry.last
        speed = 0.0 if last is None else float(np.linalg.norm(last.values[0, 3:6]))
        moving = max(speed, float(np.abs(self._last_command).max())) > STOPPED_MPS
        faults = [source.fault(now, moving) for source in self._needed]
        if "dynamic_obstacle" in self.inputs or self.obstacles.last is not None:
            faults.append(self.obstacles.fault(now, False))
        if last is not None and (np.clip(last.values[0, :3], self._low, self._high) != last.values[0, :3]).any():
            faults.append("outside of the limits")
        return next(filter(None, faults), "")

    def _act(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the velocity [3] that the policy wants, in the goal frame."""
        batch = {name: observation[name][None] for name in self.inputs}
        if self.memory is None:
            (action,) = self.session.run(["action"], batch)
        else:
            action, self.memory = self.session.run(["action", "memory_out"], batch | {"memory": self.memory})
        if self.deployment.actions is not None:
            action = [self.deployment.actions[int(action[0]) % len(self.deployment.actions)]]
        most = self.deployment.max_speed_mps
        return np.clip(np.asarray(action[0], float).reshape(3), -most, most)

    def _shielded(self, shield: Shield, action: np.ndarray, observation: dict[str, np.ndarray]) -> np.ndarray:
        distance = (self.deployment.range_m - self.deployment.lidar(self._points).astype(float)).reshape(1, -1)
        velocity, rows = observation["state"][None, 5:8].astype(float), observation["dynamic_obstacle"].astype(float)
        return shield.filter(action[None], distance, velocity, rows)[0]

    def _within_limits(self, velocity: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the velocity, ENU, with a limited speed towards heights and fence."""
        low, high = ((edge - position) / self.limits.edge_s for edge in (self._low, self._high))
        return np.clip(velocity, np.minimum(low, 0), np.maximum(high, 0))

    def _decision(self, now: float, state: str, reason: str, velocity: np.ndarray) -> Decision:
        if not np.isfinite(velocity).all():  # of a broken network
            state, reason, velocity = "brake", "the policy's action is not finite", np.zeros(3)
            self._state, self._good_since, self.memory = "brake", math.inf, self._fresh_memory
        self._last_command = velocity
        yaw = math.nan if self.odometry.last is None else yaw_of(self.odometry.last.values[0, 6:])
        if self.goal is not None and self._start is not None:
            yaw = math.atan2(*(self.goal - self._start)[[1, 0]])
        return Decision(now, state, reason, Command(now, np.array((*velocity, yaw))))
