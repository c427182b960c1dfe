"""Escapes that R_ne was not computed with, flown with the plain step functions: what a target does against a missile in
flight."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.flight import (
    BURN_TICKS,
    FIGHTER,
    HIT_RADIUS_M,
    LONGEST_TICKS,
    MISSILE,
    PHYSICS_DT_S,
    SELF_DESTRUCT_MPS,
    advance,
    launch,
    miss_distance,
    pronav,
    speed_of,
)


class Weaving:
    """Full throttle and a rudder that swings, hard over or smoothly, with a period of 3 to 20 s."""

    def __init__(self, u: Tensor) -> None:
        self.rate, self.phase = 2 * math.pi / (3 + 17 * u[:, 0]), 2 * math.pi * u[:, 1]
        self.size, self.square = 0.4 + 0.6 * u[:, 2], u[:, 3] < 0.5

    def __call__(self, time_s: float, pos: Tensor, vel: Tensor, missile: Tensor) -> Tensor:
        wave = torch.sin(self.rate * time_s + self.phase)
        return self.size * torch.where(self.square, torch.sign(wave), wave)


class DelayedTurn:
    """Straight on for up to 12 s, then at full rudder to some heading, half of them away from the missile, then
    straight."""

    def __init__(self, u: Tensor) -> None:
        self.delay, self.turn, self.away = 12 * u[:, 0], (2 * u[:, 1] - 1) * math.pi, u[:, 2] < 0.5
        self.began = torch.zeros(len(u), dtype=torch.bool)

    def __call__(self, time_s: float, pos: Tensor, vel: Tensor, missile: Tensor) -> Tensor:
        begins = ~self.began & (time_s >= self.delay)
        self.turn = torch.where(begins & self.away, _angle(vel, pos - missile), self.turn)
        self.began = self.began | begins
        step = speed_of(vel) * (PHYSICS_DT_S / FIGHTER.min_radius_m)
        rudder = torch.where(self.began, (self.turn / step).clamp(-1, 1), 0.0)
        self.turn = self.turn - rudder * step
        return rudder


class Notching:
    """Keeps the missile on the beam, left or right, wherever that is; some only once it has come near."""

    def __init__(self, u: Tensor) -> None:
        self.side, self.within = (
            torch.where(u[:, 0] < 0.5, 1.0, -1.0),
            torch.where(u[:, 1] < 0.5, 1e9, 3000 + 7000 * u[:, 2]),
        )

    def __call__(self, time_s: float, pos: Tensor, vel: Tensor, missile: Tensor) -> Tensor:
        line = missile - pos
        beam = torch.stack((-line[:, 1], line[:, 0]), -1) * self.side[:, None]
        near = line.square().sum(-1).sqrt() < self.within
        return torch.where(near, (_angle(vel, beam) * 20).clamp(-1, 1), 0.0)


FAMILIES = {"weaving": Weaving, "delayed turn": DelayedTurn, "notching": Notching}


def hits(state: tuple[Tensor, ...], escape) -> Tensor:
    """Which targets [M] are hit by missiles launched now, at full throttle; `state` as `reach_table.placed` gives it for [M]
    ranges."""
    pos, vel, target_pos, target_vel = state
    pos, vel = launch(pos, vel)
    full = torch.ones(len(pos), dtype=pos.dtype)
    hit, going = torch.zeros(len(pos), dtype=torch.bool), torch.ones(len(pos), dtype=torch.bool)
    for age in range(LONGEST_TICKS):
        rudder = pronav(pos, vel, target_pos, target_vel, PHYSICS_DT_S) if age else torch.zeros_like(full)
        evasion = escape(age * PHYSICS_DT_S, target_pos, target_vel, pos)
        pos, vel = advance(MISSILE, pos, vel, rudder, full * (age < BURN_TICKS), PHYSICS_DT_S)
        target_pos, target_vel = advance(FIGHTER, target_pos, target_vel, evasion, full, PHYSICS_DT_S)
        hit = hit | (going & (miss_distance(pos, vel, target_pos, target_vel, PHYSICS_DT_S) <= HIT_RADIUS_M))
        going = going & ~hit
        if age + 1 >= BURN_TICKS:
            going = going & (speed_of(vel) >= SELF_DESTRUCT_MPS)
        if age % 60 == 0 and not going.any():
            break
    return hit


def _angle(heading: Tensor, wanted: Tensor) -> Tensor:
    """By how much [M] to turn from one direction to the other."""
    cross = heading[:, 0] * wanted[:, 1] - heading[:, 1] * wanted[:, 0]
    return torch.atan2(cross, (heading * wanted).sum(-1))
