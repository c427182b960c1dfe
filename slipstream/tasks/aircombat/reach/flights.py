"""Flights of many bodies at once: missiles launched at targets (`time_of_hit`), and the steering programs of
`flights_native.paths`.

All bodies are moved by `flight.advance` and guided by `flight.pronav`, as in training. The native and Triton forms use
the step functions of the native and the Triton engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.sim.devices import pick_backend
from slipstream.tasks.aircombat.physics.flight import (
    BURN_S,
    FIGHTER,
    HIT_RADIUS_M,
    MISSILE,
    PHYSICS_DT_S,
    SELF_DESTRUCT_MPS,
    Body,
    advance,
    launch,
    miss_distance,
    pronav,
    speed_of,
)

HOLD = -1.0  # throttle of a target that keeps its present velocity
HARD = math.inf  # gain of a turn at full rudder
NEVER = 1 << 30  # ticks
BURN_TICKS = math.ceil(BURN_S / PHYSICS_DT_S - 1e-6)
# After burn-out a missile only slows down, from its top speed at most: no flight is longer.
LONGEST_S = BURN_S + (1 / SELF_DESTRUCT_MPS - 1 / MISSILE.top_speed_mps) / MISSILE.drag
LONGEST_TICKS = math.ceil(LONGEST_S / PHYSICS_DT_S) + 1


@dataclass
class Steering:
    """The rudder program of M bodies: `held` (its sign changes at tick `flip`) plus the rudder of a turn."""

    held: Tensor  # [M] rudder
    turn: Tensor  # [M] rad to turn, positive left
    gain: Tensor  # [M] rudder per rad still to turn; HARD: full rudder to the end
    flip: Tensor  # [M] int32 tick

    @classmethod
    def hold(cls, rudder: Tensor) -> Steering:
        """Keep a rudder [M]."""
        zero = torch.zeros_like(rudder)
        return cls(rudder, zero, zero, torch.full_like(rudder, NEVER, dtype=torch.int32))

    @classmethod
    def turning(cls, turn: Tensor, gain: Tensor | float = HARD) -> Steering:
        """Turn by an angle [M], then fly straight."""
        zero = torch.zeros_like(turn)
        return cls(zero, turn, zero + gain, torch.full_like(turn, NEVER, dtype=torch.int32))

    @classmethod
    def weave(cls, rudder: Tensor, flip: Tensor) -> Steering:
        """Hold a rudder [M], and the opposite from tick `flip` [M] on."""
        return cls(rudder, torch.zeros_like(rudder), torch.zeros_like(rudder), flip.to(torch.int32))

    @classmethod
    def cat(cls, *parts: Steering) -> Steering:
        """Concatenate several programs."""
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in ("held", "turn", "gain", "flip")))


def time_of_hit(
    pos: Tensor,
    vel: Tensor,
    target_pos: Tensor,
    target_vel: Tensor,
    turn: Tensor,
    throttle: Tensor,
    backend: str = "auto",
) -> Tensor:
    """Fly M missiles, launched now, to their ends. There is no time limit.

    Args:
        pos: of the shooters, [M, 2] m.
        vel: of the shooters, [M, 2] m/s.
        target_pos: [M, 2] m.
        target_vel: [M, 2] m/s.
        turn: [M] rad, positive left: a target turns by it at full rudder, then flies straight.
        throttle: [M] of the targets; with HOLD a target keeps its present velocity instead.
        backend: see `pick_backend`.

    Returns:
        [M] s to the hit; infinite where the missile gets too slow before it hits.
    """
    missile_pos, missile_vel = launch(pos, vel)
    state = (missile_pos, missile_vel, target_pos, target_vel, turn, throttle)
    chosen = pick_backend(pos.device, backend)
    if chosen == "triton":
        from slipstream.tasks.aircombat.reach.flights_triton import time_of_hit as on_gpu

        return on_gpu(*state)
    if chosen == "native":
        from slipstream.tasks.aircombat.reach.flights_native import time_of_hit as on_cpu

        return on_cpu(*state)
    return _time_of_hit(*state)


def turn_rudder(
    speed: Tensor, left_to_turn: Tensor, body: Body, dt_s: float, gain: Tensor | float = HARD
) -> tuple[Tensor, Tensor]:
    """Return the rudder [...] of a turn by `left_to_turn` (rad), and the angle that is left after it.

    `gain` (rudder per rad) eases the turn out near its end; HARD keeps full rudder to the last step.
    """
    step = speed * (dt_s / body.min_radius_m)  # rad at full rudder
    gain = torch.as_tensor(gain, dtype=speed.dtype, device=speed.device)
    rudder = (left_to_turn * torch.minimum(gain, 1 / step)).clamp(-1, 1)
    return rudder, left_to_turn - rudder * step


def _time_of_hit(
    pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, turn: Tensor, throttle: Tensor
) -> Tensor:
    """The reference form of `time_of_hit`; the missiles are already launched."""
    dt_s = PHYSICS_DT_S
    result = torch.full_like(turn, math.inf)
    going = torch.ones_like(turn, dtype=torch.bool)
    holds = throttle < 0
    throttle = throttle.clamp(min=0)
    for age in range(LONGEST_TICKS):
        rudder = pronav(pos, vel, target_pos, target_vel, dt_s) if age else torch.zeros_like(turn)
        pos, vel = advance(MISSILE, pos, vel, rudder, torch.full_like(turn, float(age < BURN_TICKS)), dt_s)
        evasion, turn = turn_rudder(speed_of(target_vel), turn, FIGHTER, dt_s)
        _, turned = advance(FIGHTER, target_pos, target_vel, evasion, throttle, dt_s)
        target_vel = torch.where(holds[..., None], target_vel, turned)
        target_pos = target_pos + target_vel * dt_s
        hit = going & (miss_distance(pos, vel, target_pos, target_vel, dt_s) <= HIT_RADIUS_M)
        result = torch.where(hit, (age + 1) * dt_s, result)
        going = going & ~hit
        if age + 1 >= BURN_TICKS:
            going = going & (speed_of(vel) >= SELF_DESTRUCT_MPS)
            if age % 60 == 0 and result.device.type == "cpu" and not going.any():  # no device to wait for
                break
    return result
