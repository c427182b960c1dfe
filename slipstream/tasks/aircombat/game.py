"""The duel as a game: people fly fighters against agents, or against one another."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slipstream.config.help import ConfigError
from slipstream.recordings import Recording
from slipstream.storage.errors import SaveError
from slipstream.tasks.aircombat.agents import COMMANDS, BaseAgent, action_of, agent_class, create_agent
from slipstream.tasks.aircombat.debrief import debrief
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league.evaluation import short_name
from slipstream.tasks.aircombat.league.matches import Score, rate
from slipstream.tasks.aircombat.physics.duel import GOING_ON, GONE, SLOTS, Duels, begin
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S
from slipstream.tasks.aircombat.reach.forecast import forecast
from slipstream.tasks.aircombat.recording import ROW_S, duel_recording, reach_table
from slipstream.tasks.base import Game
from slipstream.tasks.recording import describe_policy

OFFERED = ("pursuit", "crank", "evade", "learned", "placeholder")
# lessons for new players: opponent and time limit (s), then of both sides x, y (m), vx, vy (m/s) and missiles
LESSONS = {
    "launch": ("placeholder", 60.0, (10e3, 25e3, 300.0, 0.0, 3.0), (30e3, 17e3, -160.0, 160.0, 0.0)),
    "defend": ("pursuit", 40.0, (25e3, 25e3, 300.0, 0.0, 0.0), (48e3, 25e3, -300.0, 0.0, 1.0)),
    "win": ("pursuit", 60.0, (10e3, 25e3, 300.0, 0.0, 6.0), (45e3, 25e3, -300.0, 0.0, 2.0)),
}
STARTS = ("head_on", "random", *LESSONS)
SPEEDS_MPS = (100.0, 560.0)  # of the table of reachable sets
LEAST_S = 3.0  # a shorter game is not recorded
# time, winner, then for both sides x, y, vx, vy, rudder, throttle, alive, missiles
STATE = struct.Struct("<fb" + "ffffffBB" * 2)
BODY = struct.Struct("<BHffff")  # of a missile: slot, age, x, y, vx, vy


@dataclass
class GameOptions:
    """The keys of `slipstream play` for this game."""

    opponent: str = "pursuit"
    start: str = "head_on"
    seconds: float = 60.0  # then it is a draw; the learned agent was trained for as long
    seed: int = 0


@contextlib.contextmanager
def _naming(agent: str) -> Iterator[None]:
    """Name the agent whose code failed; a file that cannot be read is named by its own error."""
    try:
        yield
    except (OSError, SaveError, ConfigError):
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"the agent {agent} raised {type(error).__name__}: {error}") from error


class DuelGame(Game):
    """One duel with people on one or both sides."""

    scene, step_s = "duel", PHYSICS_DT_S
    neutral: Sequence[float] = (0.0, 1.0, 0.0)

    def __init__(self, options: GameOptions) -> None:
        if options.start not in STARTS:
            raise ConfigError(f"start={options.start} is unknown: use {' or '.join(STARTS)}")
        if not 10 <= options.seconds <= 3600:
            raise ConfigError(f"seconds={options.seconds:g} must be between 10 and 3600")
        self.options = options
        self.offered = list(dict.fromkeys((options.opponent, *OFFERED)))  # a page may choose these and nothing else
        self._agents: dict[str, BaseAgent] = {}
        self._games = 0
        self.agent: BaseAgent | None = None
        agent_class(options.opponent)  # an unknown one is an error now
        self.start({})

    def describe(self) -> dict[str, Any]:
        """Return what the page offers."""
        offered = {"opponents": {name: short_name(name) for name in self.offered}, "starts": list(STARTS), "people": 2}
        begun = self.begun | {"opponent": self.opponent, "seconds": self.env.config.episode_s}
        return {"scene": self.scene, "title": "Air combat", **offered, **begun}

    def setup(self) -> Recording:
        """Return the table of reachable sets."""
        recording = Recording("duel", "play", {"": np.zeros(0)}, {}, reach_table(*SPEEDS_MPS), meta=self.describe())
        recording.precision = {"reach.polygon": 5.0, "reach.mach": 0.02}
        return recording

    def start(self, options: Mapping[str, Any]) -> None:
        """Begin a game: `opponent` (None for a person), `start`."""
        opponent = options.get("opponent", self.options.opponent)
        start = options.get("start", self.options.start)
        if opponent is not None and opponent not in self.offered:
            raise ValueError(f"the opponent {opponent!r} is not offered: use one of {', '.join(self.offered)}")
        if start not in STARTS:
            raise ValueError(f"the start {start!r} is unknown: use {' or '.join(STARTS)}")
        lesson = LESSONS.get(start)
        opponent = lesson[0] if lesson else opponent
        agent = None if opponent is None else self._ready(opponent)
        self.opponent, self.begun = opponent, {"opponent": opponent, "start": start}
        self.names = ("player 1", "player 2") if opponent is None else ("player", short_name(opponent))
        where, limit_s = ("head_on", lesson[1]) if lesson else (start, self.options.seconds)
        config = AirCombatConfig(num_envs=1, sides=2, start=where, episode_s=limit_s)
        self._games += 1
        self.env = AirCombatEnv(1, "cpu", self.options.seed + self._games, config)
        if lesson:
            sides = torch.tensor(lesson[2:])[None]
            self.env.engine.duels.copy_(begin(sides[..., :2], sides[..., 2:4], sides[..., 4]))
            self.env.engine.refresh()
        self.agent = agent
        # an agent that was trained with longer decisions holds each as long here
        self._hold = max(1, round(getattr(self.agent, "time_scale", None) or 1))
        self._action = torch.zeros(2, 1, 3)
        self._step = 0
        self._states = [self.snapshot()]
        self._commands: list[torch.Tensor] = []

    def _ready(self, name: str) -> BaseAgent:
        """Return the agent of a name at the start of a game."""
        with _naming(name):
            if name not in self._agents:
                self._agents[name] = create_agent(name, 1).eval()
            self._agents[name].reset(None)
        return self._agents[name]

    def _decide(self, agent: BaseAgent) -> torch.Tensor:
        with _naming(str(self.opponent)):
            action = action_of(agent, self.env.views()[1])
        for name, value in zip(COMMANDS, action[0].tolist(), strict=True):
            if not math.isfinite(value):
                raise ConfigError(f"the agent {self.opponent} gave {value} as {name}: it must be a finite number")
        return action

    @torch.no_grad()
    def step(self, controls: Sequence[Sequence[float]]) -> None:
        """Advance by 1/60 s; controls are rudder, throttle and fire of each side that a person flies."""
        if self.over:
            return
        for side, given in enumerate(controls[: 1 if self.agent else 2]):
            self._action[side, 0] = torch.tensor(given[:3])
        if self.agent is not None and self._step % self._hold == 0:
            self._action[1] = self._decide(self.agent)
        self._commands.append(self._action[:, 0].clone())
        self.env.step(self._action)
        self._step += 1
        if self._step % round(ROW_S / PHYSICS_DT_S) == 0 or self.over:
            self._states.append(self.snapshot())

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        return int(self.env.engine.duels.winner[0]) != GOING_ON

    def state(self) -> bytes:
        """Return the state: STATE, then BODY for each missile in flight."""
        d = self.env.engine.duels
        pos, vel = d.pos[0].tolist(), d.vel[0].tolist()
        sides: list[Any] = []
        for k in (0, 1):
            command = self._action[k, 0].tolist()
            sides += [*pos[k], *vel[k], command[0], command[1], bool(d.alive[0, k]), int(d.left[0, k])]
        parts = [STATE.pack(int(d.clock[0]) * PHYSICS_DT_S, int(d.winner[0]), *sides)]
        ages = d.missile_age[0].tolist()
        if any(age != GONE for age in ages):
            places, speeds = d.missile_pos[0].tolist(), d.missile_vel[0].tolist()
            for slot in range(SLOTS):
                if ages[slot] != GONE:
                    parts.append(BODY.pack(slot, min(ages[slot], 65535), *places[slot], *speeds[slot]))
        return b"".join(parts)

    def snapshot(self) -> Duels:
        """Return a copy of the duel."""
        return self.env.engine.duels.map(torch.clone)

    def extras(self, snapshot: Duels) -> bytes | None:
        """Return the spacetime diagram: its arrays as float32, in the order path, escape, missile, range, contour."""
        found = forecast(snapshot)
        names = ("path", "escape", "missile", "range", "contour")
        return b"".join(np.ascontiguousarray(found[name][0], "<f4").tobytes() for name in names)

    def result(self) -> dict[str, Any] | None:
        """Return who won, for the score sheet; a lesson counts for nobody (`pair` None)."""
        if not self.over:
            return None
        d, pair = self.env.engine.duels, None if self.begun["start"] in LESSONS else list(self.names)
        return {"winner": int(d.winner[0]), "seconds": int(d.clock[0]) * PHYSICS_DT_S, "pair": pair}

    def recording(self, title: str) -> Recording | None:
        """Return the recording of the game so far."""
        states = [*self._states, self.snapshot()]
        if int(states[-1].clock[0]) * PHYSICS_DT_S < LEAST_S:
            return None
        facts, commands = describe_policy(None, self.env.config), torch.stack(self._commands)
        facts |= {"shown_side": 1, "task": "aircombat"}
        if self.over:
            facts["debrief"] = debrief(self._states, commands)
        return duel_recording(states, self.names, title, facts, commands)

    def ratings(self, scores: Mapping[tuple[str, str], Sequence[int]]) -> dict[str, float]:
        """Return the Elo ratings of all with decided games; pursuit, or else the first opponent, is 1000."""
        results = {pair: Score(*counts) for pair, counts in scores.items()}
        ratings = rate(results) if results else {}
        return {name: round(r.elo) for name, r in ratings.items() if r.decided}
