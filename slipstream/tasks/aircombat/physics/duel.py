"""N duels of two fighters with missiles in plain tensors: state, starts, and the rules of one physics sub-step.

This is the reference form. Native code (`engine_native`) and the GPU kernel (`engine_triton`) compute the same. All
times are integer numbers of sub-steps ("ticks"), so that nothing depends on how sums of float32 seconds round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics import flight
from slipstream.tasks.aircombat.physics.flight import FIGHTER, MISSILE, PHYSICS_DT_S, Body, speed_of

SIDES = 2
CARRIED = 6  # missiles per side, at most
SLOTS = SIDES * CARRIED  # the first half belongs to side 1
COOLDOWN_S = 0.5
FIELD_M = 50_000.0  # a scale for starts and figures; there is no wall
GONE = -1  # the age of a missile that does not fly
GOING_ON = -1  # the winner while a duel is not over


@dataclass(frozen=True)
class Rules:
    """The limits of a duel, in ticks of `dt_s`."""

    dt_s: float = PHYSICS_DT_S
    episode_s: float = 60.0

    def ticks(self, seconds: float) -> int:
        """Return the number of sub-steps that take at least `seconds`."""
        return math.ceil(seconds / self.dt_s - 1e-6)

    @property
    def limit(self) -> int:
        """Ticks of an episode."""
        return self.ticks(self.episode_s)

    @property
    def cooldown(self) -> int:
        """Ticks between two launches of one side."""
        return self.ticks(COOLDOWN_S)

    @property
    def burn(self) -> int:
        """Ticks that a missile's engine runs."""
        return self.ticks(flight.BURN_S)


@dataclass
class Duels:
    """The state of N duels. A duel that is over keeps its last state."""

    pos: Tensor  # [N, 2, 2] m, of the sides' aircraft
    vel: Tensor  # [N, 2, 2] m/s
    rudder: Tensor  # [N, 2] last command
    alive: Tensor  # [N, 2] bool
    left: Tensor  # [N, 2] int32: missiles still on board
    cooldown: Tensor  # [N, 2] int32: ticks until the next launch is allowed
    missile_pos: Tensor  # [N, 12, 2]
    missile_vel: Tensor  # [N, 12, 2]
    missile_age: Tensor  # [N, 12] int32: ticks in flight, or GONE
    clock: Tensor  # [N] int32: ticks into the duel
    winner: Tensor  # [N] int32: GOING_ON, 0 a draw, 1, 2
    fired: Tensor  # [N, 2] int32: missiles launched in this duel
    shots: Tensor  # [N, 2] int32: missiles launched in this decision
    hits: Tensor  # [N, 2] int32: 1 where the side killed its enemy in this decision

    @classmethod
    def create(cls, num: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Duels:
        """Return empty duels, to be filled by a start."""
        real = lambda *shape: torch.zeros(num, *shape, dtype=dtype, device=device)  # noqa: E731
        integer = lambda *shape: torch.zeros(num, *shape, dtype=torch.int32, device=device)  # noqa: E731
        missiles = {"missile_pos": real(SLOTS, 2), "missile_vel": real(SLOTS, 2), "missile_age": integer(SLOTS) + GONE}
        counts = {name: integer(SIDES) for name in ("left", "cooldown", "fired", "shots", "hits")}
        bodies = {"pos": real(SIDES, 2), "vel": real(SIDES, 2), "rudder": real(SIDES), "alive": integer(SIDES).bool()}
        return cls(**bodies, **missiles, **counts, clock=integer(), winner=integer())

    @classmethod
    def cat(cls, parts: Iterable[Duels]) -> Duels:
        """Return the duels of all parts, one after the other."""
        return cls(*map(torch.cat, zip(*(part.tensors().values() for part in parts), strict=True)))

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def map(self, function: Callable[[Tensor], Tensor]) -> Duels:
        """Return duels with `function` applied to every tensor."""
        return Duels(**{name: function(x) for name, x in self.tensors().items()})

    def copy_(self, other: Duels, where: Tensor | None = None) -> None:
        """Copy `other`'s state into this one; with `where` [N] only in those duels."""
        for name, mine in self.tensors().items():
            theirs = getattr(other, name)
            if where is not None:
                theirs = torch.where(where.view(-1, *[1] * (mine.dim() - 1)), theirs, mine)
            mine.copy_(theirs)


def begin(pos: Tensor, vel: Tensor, missiles: Tensor) -> Duels:
    """Return duels at their start, from positions and velocities [N, 2, 2] and missiles on board [N, 2]."""
    duels = Duels.create(len(pos), pos.device, pos.dtype)
    duels.pos, duels.vel = pos, vel
    duels.left = missiles.to(torch.int32)
    duels.alive = torch.ones_like(duels.alive)
    duels.winner.fill_(GOING_ON)
    return duels


def targets_of(sides: Tensor) -> Tensor:
    """Return the value of each missile slot's target [N, 12, ...] from the sides' values [N, 2, ...]."""
    return sides.flip(1).repeat_interleave(CARRIED, 1)


def guide(duels: Duels, dt_s: float) -> Tensor:
    """Return the missiles' rudders [N, 12]: proportional navigation after the first tick, 0 where the target is
    gone."""
    steers = (duels.missile_age > 0) & targets_of(duels.alive)
    rudder = flight.pronav(duels.missile_pos, duels.missile_vel, targets_of(duels.pos), targets_of(duels.vel), dt_s)
    return torch.where(steers, rudder, 0.0)


def fly(duels: Duels, command: Tensor, rules: Rules, ticks: int) -> None:
    """Advance the duels by `ticks` sub-steps in place, with the commands [N, 2, 3] (rudder, throttle, fire) held."""
    duels.shots.zero_()
    duels.hits.zero_()
    rudder, throttle, fire = command[..., 0], command[..., 1], command[..., 2] > 0.5
    now = replace(duels)
    for _ in range(ticks):
        now = substep(now, rudder, throttle, fire, rules)
    duels.copy_(now)


def substep(was: Duels, rudder: Tensor, throttle: Tensor, fire: Tensor, rules: Rules) -> Duels:
    """Return the duels after one tick: fire, guide, move, events. Commands are [N, 2]."""
    going = was.winner == GOING_ON
    now = _fire(was, fire & going[:, None], rules)
    missile_rudder = guide(now, rules.dt_s)
    now = _move(now, rudder, throttle, missile_rudder, rules)
    now = _apply_events(now, rules)
    over = ~going
    for name, before in was.tensors().items():  # a duel that is over keeps its last state
        setattr(now, name, torch.where(over.view(-1, *[1] * (before.dim() - 1)), before, getattr(now, name)))
    return now


def _fire(duels: Duels, wanted: Tensor, rules: Rules) -> Duels:
    """Launch missiles where a side wants to and can; the slot is given by the missiles left."""
    num = len(wanted)
    fires = wanted & can_fire(duels)
    slot = (CARRIED - duels.left).clamp(max=CARRIED - 1)[..., None]
    index = torch.arange(CARRIED, dtype=torch.int32, device=slot.device)
    fresh = (fires[..., None] & (index == slot)).reshape(num, SLOTS)
    pos, vel = (x.repeat_interleave(CARRIED, 1) for x in flight.launch(duels.pos, duels.vel))
    return replace(
        duels,
        missile_pos=torch.where(fresh[..., None], pos, duels.missile_pos),
        missile_vel=torch.where(fresh[..., None], vel, duels.missile_vel),
        missile_age=torch.where(fresh, 0, duels.missile_age),
        left=duels.left - fires.to(torch.int32),
        cooldown=torch.where(fires, rules.cooldown, duels.cooldown),
        fired=duels.fired + fires.to(torch.int32),
        shots=duels.shots + fires.to(torch.int32),
    )


def can_fire(duels: Duels) -> Tensor:
    """Return which sides [N, 2] could launch a missile now."""
    return duels.alive & (duels.left > 0) & (duels.cooldown == 0) & (duels.winner == GOING_ON)[:, None]


def _move(duels: Duels, rudder: Tensor, throttle: Tensor, missile_rudder: Tensor, rules: Rules) -> Duels:
    """Move all bodies by one tick."""
    dt_s, age = rules.dt_s, duels.missile_age
    pos, vel = flight.advance(FIGHTER, duels.pos, duels.vel, rudder, throttle, dt_s)
    burns = (age < rules.burn).to(pos.dtype)
    missiles = duels.missile_pos, duels.missile_vel
    missile_pos, missile_vel = flight.advance(MISSILE, *missiles, missile_rudder, burns, dt_s)
    flies = age != GONE
    return replace(
        duels,
        pos=pos,
        vel=vel,
        rudder=rudder,
        cooldown=(duels.cooldown - 1).clamp(min=0),
        missile_pos=torch.where(flies[..., None], missile_pos, duels.missile_pos),
        missile_vel=torch.where(flies[..., None], missile_vel, duels.missile_vel),
        missile_age=torch.where(flies, age + 1, age),
        clock=duels.clock + 1,
    )


def _apply_events(duels: Duels, rules: Rules) -> Duels:
    """Apply hits, self-destruction, and the end of the duel."""
    flies = duels.missile_age != GONE
    targets = targets_of(duels.pos), targets_of(duels.vel)
    missed_by = flight.miss_distance(duels.missile_pos, duels.missile_vel, *targets, rules.dt_s)
    hit = flies & (missed_by <= flight.HIT_RADIUS_M)
    too_slow = (duels.missile_age >= rules.burn) & (speed_of(duels.missile_vel) < flight.SELF_DESTRUCT_MPS)
    flies = flies & ~hit & ~too_slow
    kills = hit.reshape(-1, SIDES, CARRIED).any(-1)  # [N, 2]: this side's missiles hit the other
    alive = duels.alive & ~kills.flip(1)
    armed = (duels.left > 0).any(1) | flies.any(1)
    draw = ~armed | (duels.clock >= rules.limit)
    one, two = alive[:, 0], alive[:, 1]
    winner = torch.where(one & two, torch.where(draw, 0, GOING_ON), one.to(torch.int32) + 2 * two.to(torch.int32))
    return replace(
        duels,
        alive=alive,
        missile_age=torch.where(flies, duels.missile_age, GONE),
        winner=winner.to(torch.int32),
        hits=duels.hits + kills.to(torch.int32),
    )


NUMBERS = 8  # uniform random numbers per start
HEAD_ON_X_M = (0.2 * FIELD_M, 0.8 * FIELD_M)
HEAD_ON_MPS = 300.0


@dataclass
class StartConfig:
    """The settings of `env.starts.*` for start=random: the ranges of uniform draws per duel (speed, missiles: per
    side)."""

    range_m: tuple[float, float] = (15_000.0, 60_000.0)
    speed_mps: tuple[float, float] = (250.0, 400.0)
    missiles: tuple[int, int] = (1, CARRIED)

    def __post_init__(self) -> None:
        for name in ("range_m", "speed_mps", "missiles"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"env.starts.{name}=({low}, {high}) must be two positive numbers, the lower one first")
        if self.missiles[1] > CARRIED:
            raise ValueError(f"env.starts.missiles: an aircraft has at most {CARRIED} missiles, not {self.missiles[1]}")


def head_on(num: int, device: torch.device | str = "cpu") -> Duels:
    """Return duels that start nose to nose, 30 km apart on the center line of the field, with all missiles."""
    x = torch.tensor(HEAD_ON_X_M, device=device)
    pos = torch.stack((x, torch.full_like(x, FIELD_M / 2)), -1)
    vel = torch.tensor([[HEAD_ON_MPS, 0.0], [-HEAD_ON_MPS, 0.0]], device=device)
    missiles = torch.full((num, 2), CARRIED, dtype=torch.int32, device=device)
    return begin(pos.expand(num, 2, 2).clone(), vel.expand(num, 2, 2).clone(), missiles)


def random_starts(u: Tensor, config: StartConfig) -> Duels:
    """Return duels around the center of the field from uniform numbers [N, NUMBERS]: any bearing, any headings."""
    pick = lambda limits, x: limits[0] + (limits[1] - limits[0]) * x  # noqa: E731
    half = pick(config.range_m, u[:, 0]) / 2
    line = 2 * math.pi * u[:, 1]  # the bearing of side 2 from side 1
    offset = half[:, None] * torch.stack((torch.cos(line), torch.sin(line)), -1)
    pos = FIELD_M / 2 + torch.stack((-offset, offset), 1)
    heading = 2 * math.pi * u[:, 2:4]
    speed = pick(config.speed_mps, u[:, 4:6])
    vel = speed[..., None] * torch.stack((torch.cos(heading), torch.sin(heading)), -1)
    fewest, most = config.missiles
    missiles = fewest + (u[:, 6:8] * (most - fewest + 1)).to(torch.int32)
    return begin(pos, vel, missiles)


def describe_duel(one: Duels, rules: Rules) -> dict[str, Any]:
    """Return one duel ([1, ...] on the CPU) as plain numbers: `time` (s), `winner` (None, 0 a draw, 1, 2), both
    `aircraft`, `missiles` in flight."""
    winner = int(one.winner[0])
    aircraft = [
        _body(FIGHTER, one.pos[0, side], one.vel[0, side], one.rudder[0, side])
        | {"alive": bool(one.alive[0, side]), "missiles": int(one.left[0, side])}
        for side in range(SIDES)
    ]
    rudder, age = guide(one, rules.dt_s)[0], one.missile_age[0].tolist()
    missiles = []
    for slot in range(SLOTS):
        if age[slot] == GONE:
            continue
        side = slot // CARRIED + 1
        body = _body(MISSILE, one.missile_pos[0, slot], one.missile_vel[0, slot], rudder[slot])
        flight = {"engine_on": age[slot] < rules.burn, "age_s": age[slot] * rules.dt_s}
        missiles.append(body | {"alive": True, "side": side, "target": SIDES + 1 - side} | flight)
    ended = None if winner == GOING_ON else winner
    return {"time": int(one.clock[0]) * rules.dt_s, "winner": ended, "aircraft": aircraft, "missiles": missiles}


def _body(body: Body, pos: Tensor, vel: Tensor, rudder: Tensor) -> dict[str, Any]:
    (x, y), (vx, vy) = pos.tolist(), vel.tolist()
    angle = float(torch.atan2(vel[1], vel[0]))  # rad, counter-clockwise from the x axis
    speeds = {"speed": float(speed_of(vel)), "angle": angle, "mach": float(flight.mach(vel))}
    return {"x": x, "y": y, "vx": vx, "vy": vy, **speeds, "g_load": float(flight.g_load(body, vel, rudder))}
