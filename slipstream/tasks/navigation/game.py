"""The field as a game: a person flies a drone and races a learned one."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slipstream.algorithms.policy_file import load_policy
from slipstream.config.help import ConfigError
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.memory import Stepper
from slipstream.recordings import Recording
from slipstream.tasks.base import Game
from slipstream.tasks.evaluation import action_of
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv, evaluation_starts
from slipstream.tasks.navigation.evaluation import policy_settings
from slipstream.tasks.navigation.recording import FlightRows, field_facts, flight_recording

FLYING, REACHED, CRASHED = 0, 1, 2
EVERY = 4  # steps between two rows of the recording
LEAST_ROWS = 40
APART_M = 1.5  # between the two at the start
# time, winner, drones, moving obstacles; then DRONE of each, then x, y, z of each obstacle
STATE = struct.Struct("<fbBB")
DRONE = struct.Struct("<ffffffB")


@dataclass
class RaceOptions:
    """The keys of `slipstream play` for this game."""

    opponent: str = "learned"  # the shipped policy; the path of a checkpoint or run
    start: str = "easy"  # or navrl: 350 standing and 80 moving obstacles
    seconds: float = 90.0
    seed: int = 0


STARTS = {"easy": (120, 24), "medium": (240, 48), "navrl": (350, 80)}


class RaceGame(Game):
    """One person and one policy cross the same field."""

    scene = "flight"
    neutral: Sequence[float] = (0.0, 0.0, 0.0)

    def __init__(self, options: RaceOptions, weights: Any) -> None:
        if options.start not in STARTS:
            raise ConfigError(f"start={options.start} is unknown: use {', '.join(STARTS)}")
        if not 10 <= options.seconds <= 600:
            raise ConfigError(f"seconds={options.seconds:g} must be between 10 and 600")
        self.options, self._games = options, 0
        self.trained = load_policy(weights if options.opponent == "learned" else options.opponent)
        self.names = "player", "learned" if options.opponent == "learned" else self.trained.name
        self.start({})

    def describe(self) -> dict[str, Any]:
        """Return what the page offers."""
        offered = {"opponents": {"learned": self.names[1]}, "starts": list(STARTS), "people": 1}
        begun = {"opponent": "learned", "start": self.begun, "seconds": self.options.seconds}
        return {"scene": self.scene, "title": "Race a learned drone", **offered, **begun}

    def setup(self) -> Recording:
        """Return the field."""
        env = self.env
        arrays = {"box": env.grid.boxes_of_world(0), "drone.goal": self._goals, "drone.yaw": self._yaw}
        arrays["mover.size"] = torch.stack((env.movers.width, env.movers.height), -1).cpu().numpy()
        facts = self.describe() | field_facts(env.config)
        return Recording("flight", "play", {"": np.zeros(0)}, {}, arrays, meta=facts)

    @torch.no_grad()
    def start(self, options: Mapping[str, Any]) -> None:
        """Begin a race; `start` is the density of the field."""
        start = options.get("start", getattr(self, "begun", self.options.start))
        if start not in STARTS or options.get("opponent", "learned") != "learned":
            raise ValueError(f"the race {start!r} is unknown: use {', '.join(STARTS)}")
        self.begun = start
        standing, moving = STARTS[start]
        seed = self.options.seed + 1000  # one field per density, so that the page keeps it
        dyn = dataclasses.replace(NavigationConfig().dyn, num_obstacles=moving)
        sensors = policy_settings(self.trained)
        self._interval = sensors.pop("decision_interval")  # a person decides at every physics step
        world: dict[str, Any] = {"num_obstacles": standing, "dyn": dyn, "world_seeds": [seed], "random_clock": False}
        config = NavigationConfig(num_envs=2, max_episode_steps=10**6, **world, **sensors)
        self.env, self.step_s = NavigationEnv(2, "cpu", self.options.seed, config), config.dt_s
        env = self.env
        at, to = evaluation_starts(1, config.map_half_m)
        at, to = at.repeat(2, 1), to.repeat(2, 1)
        at[:, 0], to[:, 0] = torch.tensor([-APART_M / 2, APART_M / 2]), 0.0
        self._goals, way = to.numpy(), (to - at).numpy()  # the env draws new ones for a drone that has collided
        self._yaw = np.arctan2(way[:, 1], way[:, 0])
        self.observation = env.place(at, to)
        self.policy = Stepper(self.trained.build(env, "cpu"), 2, "cpu")
        self.status = [FLYING, FLYING]
        self.time_s, self._step, self._winner = 0.0, 0, -1
        self._last = env.drone.pos.clone(), env.drone.vel.clone()
        self.rows = FlightRows(env, 2)

    @torch.no_grad()
    def step(self, controls: Sequence[Sequence[float]]) -> None:
        """Advance by one physics step; controls are forward, left and up."""
        if self._winner >= 0:
            return
        if self._step % self._interval == 0:
            with set_exploration_type(ExplorationType.MEAN):
                self._action = action_of(self.policy(self.observation))
            if not bool(torch.isfinite(self._action).all()):
                raise ConfigError(f"the policy {self.names[1]} gave an action that is not finite")
        action = self._action.clone()
        action[0] = torch.tensor(controls[0][:3]) * self.env.config.max_speed_mps
        if self._step % EVERY == 0:
            self.rows.add_state(self.time_s, torch.tensor([s != FLYING for s in self.status]))
            self.rows.add_decision(action, None)
        record = self.env.step(action)
        self.policy.keep(record.valid)
        self.observation = record.observation
        self._step, self.time_s = self._step + 1, self.time_s + self.step_s
        for k in (0, 1):
            if self.status[k] == FLYING:
                self._last[0][k], self._last[1][k] = self.env.drone.pos[k], self.env.drone.vel[k]
                if bool(record.terminated[k]):
                    self.status[k] = CRASHED
                elif float(record.info["at_goal"][k]) > 0:
                    self.status[k] = REACHED
        self._winner = self._judge()

    def _judge(self) -> int:
        """Return 1 or 2 for the first at the goal, 0 if nobody gets there, -1 while it runs."""
        if REACHED in self.status:
            return 1 + self.status.index(REACHED)
        if self.status[0] == CRASHED and self.status[1] == CRASHED or self.time_s >= self.options.seconds:
            return 0
        return -1

    def state(self) -> bytes:
        """Return the state: STATE, DRONE of each, then the places of the moving obstacles."""
        movers = self.env.movers.pos[0].cpu()
        parts = [STATE.pack(self.time_s, self._winner, len(self.status), len(movers))]
        for k in range(len(self.status)):
            parts.append(DRONE.pack(*self._last[0][k].tolist(), *self._last[1][k].tolist(), self.status[k]))
        return b"".join((*parts, movers.numpy().astype("<f4").tobytes()))

    def result(self) -> dict[str, Any] | None:
        """Return who was first."""
        if self._winner < 0:
            return None
        return {"winner": self._winner, "seconds": self.time_s, "pair": list(self.names)}

    def recording(self, title: str) -> Recording | None:
        """Return the race so far."""
        if len(self.rows.times_s) < LEAST_ROWS:
            return None
        outcome = np.array(self.status)
        return flight_recording(self.rows, outcome, self._goals, title, None, self.trained)
