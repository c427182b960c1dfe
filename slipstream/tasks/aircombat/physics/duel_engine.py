"""The engine of N duels: state, starts, what the sides see, and one decision of all of them, in the form that fits the device.

`DuelEngine` is the plain PyTorch form; `native` (CPU) and `triton` (CUDA) do a whole decision in one pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slipstream.sim.backend import pick_backend
from slipstream.sim.random import CounterRandom
from slipstream.sim.seeding import derive_seed
from slipstream.tasks.aircombat.observation import WIDTH
from slipstream.tasks.aircombat.physics.airframe import PHYSICS_DT_S
from slipstream.tasks.aircombat.physics.duel import GOING_ON, SIDES, Duels, Rules, fly
from slipstream.tasks.aircombat.physics.duel_starts import NUMBERS, StartConfig, drawn, head_on
from slipstream.tasks.aircombat.physics.duel_view import view_of_sides
from slipstream.tasks.aircombat.reach.reach_table import ReachTable

COMMAND_BOUNDS = ((-1.0, 1.0), (0.0, 1.0), (0.0, 1.0))  # rudder, throttle, fire (yes above 0.5)
COMMAND_SLACK = 1e-3  # of their span: rounding is no offence
STARTS = ("head_on", "random")
FACTS = (  # of the last decision, for each side
    "success",  # this side won
    "lost",
    "draw",
    "winner",  # 0 a draw, 1, 2; -1 while the duel goes on
    "alive",
    "enemy_alive",
    "elapsed_s",  # of the duel
    "step_s",  # of this decision, less where the duel ended inside it
    "shots",  # launched in this decision
    "hits",  # 1 where this side's missile hit in this decision
    "was_hit",
    "fired",  # missiles in the duel so far
)


@dataclass
class DuelConfig:
    """What an engine is made for."""

    time_scale: float = 1.0
    coarse_dt: bool = False
    episode_s: float = 60.0
    start: str = "head_on"
    starts: StartConfig = field(default_factory=StartConfig)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_scale) and self.time_scale > 0):
            raise ValueError(f"env.time_scale must be a positive number, not {self.time_scale}")
        if not (math.isfinite(self.episode_s) and self.episode_s > 0):
            raise ValueError(f"env.episode_s must be a positive number of seconds, not {self.episode_s}")
        if self.start not in STARTS:
            raise ValueError(f"unknown start '{self.start}': use one of {', '.join(STARTS)}")

    @property
    def ticks(self) -> int:
        """Physics sub-steps of a decision."""
        return 1 if self.coarse_dt else max(1, math.ceil(self.time_scale - 1e-9))

    @property
    def rules(self) -> Rules:
        """Of the sub-steps: at most 1/60 s long, unless `coarse_dt` takes the decision in one."""
        return Rules(PHYSICS_DT_S * (self.time_scale / self.ticks), self.episode_s)


class DuelEngine:
    """N duels in plain tensors. What it writes stays in the same memory from call to call."""

    backend = "torch"

    def __init__(self, num: int, config: DuelConfig, seed: int, device: torch.device | str = "cpu") -> None:
        self.num = num
        self.config = config
        self.rules, self.ticks = config.rules, config.ticks
        self.device = torch.device(device)
        self.table = ReachTable.load(device=self.device)
        self.duels = Duels.create(num, self.device)
        self.episode = torch.zeros(num, dtype=torch.int64, device=self.device)  # duels begun
        self.view = torch.zeros(SIDES, num, WIDTH, device=self.device)  # what the sides see
        self.facts = torch.zeros(len(FACTS), SIDES, num, device=self.device)
        self.bad = torch.zeros(SIDES, num, dtype=torch.bool, device=self.device)  # commands that were not sound, sticky
        self._low, self._high = torch.tensor(COMMAND_BOUNDS, device=self.device).unbind(-1)
        self.random = CounterRandom([derive_seed(seed, "duel starts")], num, self.device)
        self._head_on = head_on(num, self.device) if config.start == "head_on" else None

    def step(self, command: Tensor, resetting: Tensor, ticks: int | None = None) -> None:
        """One decision with the commands [2, N, 3]; the duels of `resetting` [N] begin anew instead.

        Commands that are no numbers or out of bounds are replaced, in place, and flagged in `bad`.
        """
        before = self.duels.clock.clone()
        self._make_sound(command)
        fly(self.duels, command.transpose(0, 1), self.rules, self.ticks if ticks is None else ticks)
        self.begin(resetting)
        self.refresh(before)

    def _make_sound(self, command: Tensor) -> None:
        slack = COMMAND_SLACK * (self._high - self._low)
        sound = (command >= self._low - slack) & (command <= self._high + slack)  # a NaN is neither
        self.bad.logical_or_(~sound.all(-1))
        command.copy_(torch.nan_to_num(command, 0.0, 0.0, 0.0).clamp(self._low, self._high))

    def begin(self, mask: Tensor) -> None:
        """Starts new duels where `mask` [N] is True."""
        start = self._head_on or drawn(self.random.uniform(self.episode, NUMBERS), self.config.starts)
        self.duels.copy_(start, where=mask)
        self.episode.add_(mask)

    def refresh(self, clock_before: Tensor | None = None, where: Tensor | None = None) -> None:
        """What the sides see, and the facts, from the state as it is; with `where` [N] only in those duels."""
        view = view_of_sides(self.duels, self.rules, self.table)
        self.view.copy_(view if where is None else torch.where(where[:, None], view, self.view))
        duels, dt_s = self.duels, self.rules.dt_s
        winner, ticks = duels.winner, duels.clock - (duels.clock if clock_before is None else clock_before)
        won = torch.stack((winner == 1, winner == 2))
        over = winner != GOING_ON
        alive, hits = duels.alive.T, duels.hits.T
        both = lambda x: x.expand(SIDES, -1)  # noqa: E731
        facts = (
            won,
            won.flip(0),
            both(over & ~won.any(0)),
            both(winner),
            alive,
            alive.flip(0),
            both(duels.clock * dt_s),
            both(ticks.clamp(min=0) * dt_s),  # a new duel's clock is back at zero
            duels.shots.T,
            hits,
            hits.flip(0),
            duels.fired.T,
        )
        told = torch.stack([x.to(torch.float32) for x in facts])
        self.facts.copy_(told if where is None else torch.where(where, told, self.facts))


def make_engine(
    num: int, config: DuelConfig, seed: int, device: torch.device | str = "cpu", backend: str = "auto"
) -> DuelEngine:
    """The engine in the fastest form that the device allows, or in the one that is asked for."""
    form = pick_backend(torch.device(device), backend)
    if form == "native":
        from slipstream.tasks.aircombat.physics.duel_native import NativeEngine

        return NativeEngine(num, config, seed, device)
    if form == "triton":
        from slipstream.tasks.aircombat.physics.duel_triton import TritonEngine

        return TritonEngine(num, config, seed, device)
    return DuelEngine(num, config, seed, device)
