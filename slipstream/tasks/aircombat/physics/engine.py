"""DuelEngine: one decision of all duels (commands, sub-steps, new starts, observation, facts), in plain tensors.

`engine_native` and `engine_triton` are the same engine for a CPU and for a GPU; `make_engine` selects one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slipstream.sim.devices import pick_backend
from slipstream.sim.random import CounterRandom, derive_seed
from slipstream.tasks.aircombat import observation as obs
from slipstream.tasks.aircombat.observation import ABSENT, INCOMING, WIDTH
from slipstream.tasks.aircombat.physics import duel
from slipstream.tasks.aircombat.physics.duel import CARRIED, GOING_ON, GONE, SIDES, Duels, Rules, StartConfig
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S, off_nose, speed_of, towards
from slipstream.tasks.aircombat.reach.table import ReachTable, pseudo_angle

COMMAND_BOUNDS = ((-1.0, 1.0), (0.0, 1.0), (0.0, 1.0))  # rudder, throttle, fire (yes above 0.5)
COMMAND_SLACK = 1e-3  # share of the span: accepted as rounding
STARTS = ("head_on", "random")
FACTS = (  # per side, of the last decision
    "success",  # this side won
    "lost",
    "draw",
    "winner",  # 0 a draw, 1, 2; -1 while the duel is not over
    "alive",
    "enemy_alive",
    "elapsed_s",  # since the start of the duel
    "step_s",  # duration of this decision, less where the duel ended inside it
    "shots",  # launched in this decision
    "hits",  # 1 where this side's missile hit in this decision
    "was_hit",
    "fired",  # missiles launched in the duel so far
)


@dataclass
class DuelConfig:
    """The settings of an engine."""

    time_scale: float = 1.0  # a decision lasts time_scale/60 s of game time, in physics steps of at most 1/60 s
    coarse_dt: bool = False  # one physics step per decision, as in midrangeRL
    # game time after which a duel is a draw; [45,240]: drawn for every duel
    episode_s: float | tuple[float, float] = 60.0
    start: str = "head_on"  # where both aircraft start: head_on or random (`slipstream train` sets random)
    starts: StartConfig = field(default_factory=StartConfig)

    def __post_init__(self) -> None:
        low, high = self.limits_s
        for name, ok in (("time_scale", 0 < self.time_scale < math.inf), ("episode_s", 0 < low <= high < math.inf)):
            if not ok:
                two = ", or two of them, the lower one first" if name == "episode_s" else ""
                raise ValueError(f"env.{name} must be a positive number{two}, not {getattr(self, name)}")
        if self.start not in STARTS:
            raise ValueError(f"unknown start '{self.start}': use one of {', '.join(STARTS)}")

    @property
    def ticks(self) -> int:
        """Physics sub-steps per decision."""
        return 1 if self.coarse_dt else max(1, math.ceil(self.time_scale - 1e-9))

    @property
    def limits_s(self) -> tuple[float, float]:
        """The least and the greatest time limit."""
        given = self.episode_s
        return (given[0], given[1]) if isinstance(given, tuple | list) else (given, given)

    @property
    def rules(self) -> Rules:
        """The rules for sub-steps of at most 1/60 s, or of one decision with `coarse_dt`."""
        return Rules(PHYSICS_DT_S * (self.time_scale / self.ticks), self.limits_s[1])


class DuelEngine:
    """N duels in plain tensors. Its buffers keep their memory; clone what you keep beyond the next call."""

    backend = "torch"

    def __init__(self, num: int, config: DuelConfig, seed: int, device: torch.device | str = "cpu") -> None:
        self.num = num
        self.config = config
        self.rules, self.ticks = config.rules, config.ticks
        self.device = torch.device(device)
        self.table = ReachTable.load(device=self.device)
        self.duels = Duels.create(num, self.device)
        self.episode = torch.zeros(num, dtype=torch.int64, device=self.device)  # duels started
        self.view = torch.zeros(SIDES, num, WIDTH, device=self.device)  # the observation of both sides
        self.facts = torch.zeros(len(FACTS), SIDES, num, device=self.device)
        self.bad = torch.zeros(SIDES, num, dtype=torch.bool, device=self.device)  # invalid commands, sticky
        self._low, self._high = torch.tensor(COMMAND_BOUNDS, device=self.device).unbind(-1)
        self.random = CounterRandom([derive_seed(seed, "duel starts")], num, self.device)
        self._head_on = duel.head_on(num, self.device) if config.start == "head_on" else None
        self._limit_draws = CounterRandom([derive_seed(seed, "time limits")], num, self.device)
        self.varies_limits = config.limits_s[0] < config.limits_s[1]
        self.ahead = torch.zeros(num, dtype=torch.int32, device=self.device)  # ticks at which a duel's clock began

    def step(self, command: Tensor, resetting: Tensor, ticks: int | None = None) -> None:
        """Advance all duels by one decision with the commands [2, N, 3]; restart the duels of `resetting` [N] instead.

        Commands that are NaN or out of bounds are replaced in place and flagged in `bad`.
        """
        before = self.duels.clock.clone()
        self._clip_commands(command)
        duel.fly(self.duels, command.transpose(0, 1), self.rules, self.ticks if ticks is None else ticks)
        self.begin(resetting)
        self.refresh(before)

    def _clip_commands(self, command: Tensor) -> None:
        slack = COMMAND_SLACK * (self._high - self._low)
        valid = (command >= self._low - slack) & (command <= self._high + slack)  # False for NaN
        self.bad.logical_or_(~valid.all(-1))
        command.copy_(torch.nan_to_num(command, 0.0, 0.0, 0.0).clamp(self._low, self._high))

    def begin(self, mask: Tensor) -> None:
        """Start new duels where `mask` [N] is True."""
        start = self._head_on or duel.random_starts(self.random.uniform(self.episode, duel.NUMBERS), self.config.starts)
        self.duels.copy_(start, where=mask)
        self.episode.add_(mask)

    def draw_limits(self, begun: Tensor) -> None:
        """Give the duels that begin in the mask [N] their own time limits, if these vary: their clocks start later."""
        if not self.varies_limits:
            return
        shortest = self.rules.ticks(self.config.limits_s[0])
        drawn = self._limit_draws.uniform(self.episode, 1)[:, 0] * (self.rules.limit - shortest + 1)
        self.ahead.copy_(torch.where(begun, drawn.to(torch.int32), self.ahead))
        clock = self.duels.clock
        clock.copy_(torch.where(begun, self.ahead, clock))
        per_tick = self.rules.dt_s / obs.TIME_SCALE_S
        self.view[..., obs.OWN_NAMES.index("time_left")] = (self.rules.limit - clock) * per_tick
        self.facts[FACTS.index("elapsed_s")] = (clock - self.ahead) * self.rules.dt_s

    def refresh(self, clock_before: Tensor | None = None, where: Tensor | None = None) -> None:
        """Recompute view and facts from the present state; with `where` [N] only in those duels."""
        view = view_of_sides(self.duels, self.rules, self.table)
        self.view.copy_(view if where is None else torch.where(where[:, None], view, self.view))
        duels, dt_s = self.duels, self.rules.dt_s
        winner, ticks = duels.winner, duels.clock - (duels.clock if clock_before is None else clock_before)
        won = torch.stack((winner == 1, winner == 2))
        over = winner != GOING_ON
        alive, hits = duels.alive.T, duels.hits.T
        both = lambda x: x.expand(SIDES, -1)  # noqa: E731
        ends = won, won.flip(0), both(over & ~won.any(0)), both(winner), alive, alive.flip(0)
        times = both(duels.clock * dt_s), both(ticks.clamp(min=0) * dt_s)  # the clock of a new duel is at zero
        missiles = duels.shots.T, hits, hits.flip(0), duels.fired.T
        stacked = torch.stack([x.to(torch.float32) for x in (*ends, *times, *missiles)])
        self.facts.copy_(stacked if where is None else torch.where(where, stacked, self.facts))


def make_engine(
    num: int, config: DuelConfig, seed: int, device: torch.device | str = "cpu", backend: str = "auto"
) -> DuelEngine:
    """Return the engine of a backend; `auto` is the fastest one that the device allows."""
    form = pick_backend(torch.device(device), backend)
    if form == "native":
        from slipstream.tasks.aircombat.physics.engine_native import NativeEngine

        return NativeEngine(num, config, seed, device)
    if form == "triton":
        from slipstream.tasks.aircombat.physics.engine_triton import TritonEngine

        return TritonEngine(num, config, seed, device)
    return DuelEngine(num, config, seed, device)


def view_of_sides(duels: Duels, rules: Rules, table: ReachTable) -> Tensor:
    """Return the observation of both sides, packed [2, N, WIDTH]; `observation` names the columns."""
    heading = duels.vel / speed_of(duels.vel)[..., None]  # [N, 2, 2]
    parts = (_own(duels, rules, heading), _enemy(duels, heading, table), _incoming(duels, rules, heading))
    return torch.cat((*parts, duel.can_fire(duels).to(heading.dtype)[..., None]), -1).transpose(0, 1)


def _own(duels: Duels, rules: Rules, heading: Tensor) -> Tensor:
    dtype = heading.dtype
    place = duels.pos / obs.POSITION_SCALE_M - 1
    time_left = (rules.limit - duels.clock).to(dtype) * (rules.dt_s / obs.TIME_SCALE_S)
    flying = (duels.missile_age != GONE).reshape(-1, SIDES, CARRIED).sum(-1)
    motion = place[..., 0], place[..., 1], heading[..., 1], heading[..., 0], speed_of(duels.vel) / obs.SPEED_SCALE_MPS
    missiles = duels.left.to(dtype) / CARRIED, flying.to(dtype) / CARRIED, duels.cooldown.to(dtype) / rules.cooldown
    others = duels.rudder, time_left[:, None].expand(-1, SIDES), duels.alive.to(dtype)
    return torch.stack((*motion, *missiles, *others), -1)


def _enemy(duels: Duels, heading: Tensor, table: ReachTable) -> Tensor:
    speed = speed_of(duels.vel)
    distance, line = towards(duels.pos.flip(1) - duels.pos)
    bearing = off_nose(heading, line)
    aspect = off_nose(heading.flip(1), -line)
    closing = ((duels.vel - duels.vel.flip(1)) * line).sum(-1)
    angles = pseudo_angle(bearing[1], bearing[0]), pseudo_angle(aspect[1], aspect[0])
    r_max = table.lookup(speed, speed.flip(1), *angles, channels=1)[..., 0]
    place = distance / obs.RANGE_SCALE_M, *bearing, *aspect, closing / obs.CLOSING_SCALE_MPS
    others = speed.flip(1) / obs.SPEED_SCALE_MPS, r_max / obs.RANGE_SCALE_M, duels.alive.flip(1).to(heading.dtype)
    return torch.stack((*place, *others), -1)


def _incoming(duels: Duels, rules: Rules, heading: Tensor) -> Tensor:
    """Return the nearest missiles that target each side [N, 2, INCOMING * columns]."""
    num, dtype = len(heading), heading.dtype
    distance, line = towards(duels.missile_pos - duel.targets_of(duels.pos))  # from the target to the missile [N, 12]
    flies = duels.missile_age != GONE
    bearing = off_nose(duel.targets_of(heading), line)
    closing = ((duel.targets_of(duels.vel) - duels.missile_vel) * line).sum(-1)
    time_to_go = torch.where(closing > 0, distance / closing.clamp(min=1e-3) / obs.TIME_SCALE_S, 1.0).clamp(max=1.0)
    engine_on = (duels.missile_age < rules.burn).to(dtype)
    motion = distance / obs.RANGE_SCALE_M, *bearing, closing / obs.CLOSING_SCALE_MPS
    there = *motion, time_to_go, engine_on, torch.ones_like(distance)
    rows = torch.stack([torch.where(flies, x, absent) for x, absent in zip(there, ABSENT, strict=True)], -1)
    rows = rows.reshape(num, SIDES, CARRIED, -1).flip(1)  # missiles of side 2 target side 1
    order = torch.where(flies, distance, float("inf")).reshape(num, SIDES, CARRIED).flip(1)
    nearest = order.topk(INCOMING, -1, largest=False).indices[..., None].expand(-1, -1, -1, rows.shape[-1])
    return rows.gather(2, nearest).flatten(2)
