"""N duels of two fighters with missiles: their state, and the rules of one physics sub-step, in plain tensors.

This is the form that all others are held to: native code (`duel_native`) and the GPU's kernel (`duel_triton`) do the same.
Every time is a whole number of sub-steps ("ticks"), so that nothing depends on how sums of float32 seconds round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.airframe import FIGHTER, MISSILE, PHYSICS_DT_S, advance, speed_of
from slipstream.tasks.aircombat.physics.guidance import (
    BURN_S,
    HIT_RADIUS_M,
    SELF_DESTRUCT_MPS,
    launch,
    miss_distance,
    pronav,
)

SIDES = 2
CARRIED = 6  # missiles a side, at most
SLOTS = SIDES * CARRIED  # side 1 has the first half
COOLDOWN_S = 0.5
FIELD_M = 50_000.0  # a scale for starts and pictures; there is no wall
GONE = -1  # the age of a missile that does not fly
GOING_ON = -1  # the winner of a duel that has none yet


@dataclass(frozen=True)
class Rules:
    """What a duel is held to, in ticks of `dt_s`."""

    dt_s: float = PHYSICS_DT_S
    episode_s: float = 60.0

    def ticks(self, seconds: float) -> int:
        """The whole number of sub-steps that take at least so long."""
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
        return self.ticks(BURN_S)


@dataclass
class Duels:
    """The state of N duels. A duel that is over stays as it was when it ended."""

    pos: Tensor  # [N, 2, 2] m, of the sides' aircraft
    vel: Tensor  # [N, 2, 2] m/s
    rudder: Tensor  # [N, 2] as last commanded
    alive: Tensor  # [N, 2] bool
    left: Tensor  # [N, 2] int32: missiles still carried
    cooldown: Tensor  # [N, 2] int32: ticks until the next launch may be
    missile_pos: Tensor  # [N, 12, 2]
    missile_vel: Tensor  # [N, 12, 2]
    missile_age: Tensor  # [N, 12] int32: ticks flown, or GONE
    clock: Tensor  # [N] int32: ticks into the duel
    winner: Tensor  # [N] int32: GOING_ON, 0 a draw, 1, 2
    fired: Tensor  # [N, 2] int32: missiles launched in this duel
    shots: Tensor  # [N, 2] int32: missiles launched in this decision
    hits: Tensor  # [N, 2] int32: 1 where the side killed its enemy in this decision

    @classmethod
    def create(cls, num: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Duels:
        """Duels without aircraft, to be filled by a start."""
        real = lambda *shape: torch.zeros(num, *shape, dtype=dtype, device=device)  # noqa: E731
        whole = lambda *shape: torch.zeros(num, *shape, dtype=torch.int32, device=device)  # noqa: E731
        return cls(
            pos=real(SIDES, 2),
            vel=real(SIDES, 2),
            rudder=real(SIDES),
            alive=torch.zeros(num, SIDES, dtype=torch.bool, device=device),
            left=whole(SIDES),
            cooldown=whole(SIDES),
            missile_pos=real(SLOTS, 2),
            missile_vel=real(SLOTS, 2),
            missile_age=whole(SLOTS).fill_(GONE),
            clock=whole(),
            winner=whole(),
            fired=whole(SIDES),
            shots=whole(SIDES),
            hits=whole(SIDES),
        )

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def copy_(self, other: Duels, where: Tensor | None = None) -> None:
        """Takes over `other`'s state, in place; with `where` [N] only in those duels."""
        for name, mine in self.tensors().items():
            theirs = getattr(other, name)
            if where is not None:
                theirs = torch.where(where.view(-1, *[1] * (mine.dim() - 1)), theirs, mine)
            mine.copy_(theirs)


def begin(pos: Tensor, vel: Tensor, missiles: Tensor) -> Duels:
    """Duels at their first moment, from the aircraft's [N, 2, 2] positions and velocities and [N, 2] missiles carried."""
    duels = Duels.create(len(pos), pos.device, pos.dtype)
    duels.pos, duels.vel = pos, vel
    duels.left = missiles.to(torch.int32)
    duels.alive = torch.ones_like(duels.alive)
    duels.winner.fill_(GOING_ON)
    return duels


def targets_of(sides: Tensor) -> Tensor:
    """What each missile slot [N, 12, ...] aims at, of the sides' values [N, 2, ...]: the other side's."""
    return sides.flip(1).repeat_interleave(CARRIED, 1)


def guide(duels: Duels, dt_s: float) -> Tensor:
    """The missiles' rudders [N, 12]: proportional navigation after the first tick, straight on where the target is gone."""
    steers = (duels.missile_age > 0) & targets_of(duels.alive)
    rudder = pronav(duels.missile_pos, duels.missile_vel, targets_of(duels.pos), targets_of(duels.vel), dt_s)
    return torch.where(steers, rudder, 0.0)


def fly(duels: Duels, command: Tensor, rules: Rules, ticks: int) -> None:
    """Moves the duels on by `ticks` sub-steps, in place, with the commands [N, 2, 3] (rudder, throttle, fire) held throughout."""
    duels.shots.zero_()
    duels.hits.zero_()
    rudder, throttle, fire = command[..., 0], command[..., 1], command[..., 2] > 0.5
    now = Duels(**duels.tensors())
    for _ in range(ticks):
        now = substep(now, rudder, throttle, fire, rules)
    duels.copy_(now)


def substep(was: Duels, rudder: Tensor, throttle: Tensor, fire: Tensor, rules: Rules) -> Duels:
    """The duels one tick on: fire, guide, move, events. Commands are [N, 2]."""
    going = was.winner == GOING_ON
    now = _fire(was, fire & going[:, None], rules)
    missile_rudder = guide(now, rules.dt_s)
    now = _move(now, rudder, throttle, missile_rudder, rules)
    now = _judge(now, rules)
    over = ~going
    for name, before in was.tensors().items():  # what is over stays as it ended
        setattr(now, name, torch.where(over.view(-1, *[1] * (before.dim() - 1)), before, getattr(now, name)))
    return now


def _fire(duels: Duels, wanted: Tensor, rules: Rules) -> Duels:
    """Launches where a side wants to and can: into the slot that its missiles left name."""
    num = len(wanted)
    fires = wanted & can_fire(duels)
    slot = (CARRIED - duels.left).clamp(max=CARRIED - 1)[..., None]
    index = torch.arange(CARRIED, dtype=torch.int32, device=slot.device)
    fresh = (fires[..., None] & (index == slot)).reshape(num, SLOTS)
    pos, vel = (x.repeat_interleave(CARRIED, 1) for x in launch(duels.pos, duels.vel))
    return Duels(
        **duels.tensors()
        | {
            "missile_pos": torch.where(fresh[..., None], pos, duels.missile_pos),
            "missile_vel": torch.where(fresh[..., None], vel, duels.missile_vel),
            "missile_age": torch.where(fresh, 0, duels.missile_age),
            "left": duels.left - fires.to(torch.int32),
            "cooldown": torch.where(fires, rules.cooldown, duels.cooldown),
            "fired": duels.fired + fires.to(torch.int32),
            "shots": duels.shots + fires.to(torch.int32),
        }
    )


def can_fire(duels: Duels) -> Tensor:
    """Which sides [N, 2] could launch a missile now."""
    return duels.alive & (duels.left > 0) & (duels.cooldown == 0) & (duels.winner == GOING_ON)[:, None]


def _move(duels: Duels, rudder: Tensor, throttle: Tensor, missile_rudder: Tensor, rules: Rules) -> Duels:
    """All bodies by one tick."""
    dt_s, age = rules.dt_s, duels.missile_age
    pos, vel = advance(FIGHTER, duels.pos, duels.vel, rudder, throttle, dt_s)
    burns = (age < rules.burn).to(pos.dtype)
    missile_pos, missile_vel = advance(MISSILE, duels.missile_pos, duels.missile_vel, missile_rudder, burns, dt_s)
    flies = age != GONE
    return Duels(
        **duels.tensors()
        | {
            "pos": pos,
            "vel": vel,
            "rudder": rudder,
            "cooldown": (duels.cooldown - 1).clamp(min=0),
            "missile_pos": torch.where(flies[..., None], missile_pos, duels.missile_pos),
            "missile_vel": torch.where(flies[..., None], missile_vel, duels.missile_vel),
            "missile_age": torch.where(flies, age + 1, age),
            "clock": duels.clock + 1,
        }
    )


def _judge(duels: Duels, rules: Rules) -> Duels:
    """Hits, self-destruction, and the end of the duel."""
    flies = duels.missile_age != GONE
    missed_by = miss_distance(
        duels.missile_pos, duels.missile_vel, targets_of(duels.pos), targets_of(duels.vel), rules.dt_s
    )
    hit = flies & (missed_by <= HIT_RADIUS_M)
    too_slow = (duels.missile_age >= rules.burn) & (speed_of(duels.missile_vel) < SELF_DESTRUCT_MPS)
    flies = flies & ~hit & ~too_slow
    kills = hit.reshape(-1, SIDES, CARRIED).any(-1)  # [N, 2]: this side's missiles hit the other
    alive = duels.alive & ~kills.flip(1)
    armed = (duels.left > 0).any(1) | flies.any(1)
    draw = ~armed | (duels.clock >= rules.limit)
    one, two = alive[:, 0], alive[:, 1]
    winner = torch.where(one & two, torch.where(draw, 0, GOING_ON), one.to(torch.int32) + 2 * two.to(torch.int32))
    return Duels(
        **duels.tensors()
        | {
            "alive": alive,
            "missile_age": torch.where(flies, duels.missile_age, GONE),
            "winner": winner.to(torch.int32),
            "hits": duels.hits + kills.to(torch.int32),
        }
    )
