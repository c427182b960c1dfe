"""A duel as plain numbers, for pictures and people."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.airframe import FIGHTER, MISSILE, Body, g_load, mach, speed_of
from slipstream.tasks.aircombat.physics.duel import CARRIED, GOING_ON, GONE, SIDES, SLOTS, Duels, Rules, guide


def describe_duel(duels: Duels, rules: Rules, index: int) -> dict[str, Any]:
    """`time` (s), `winner` (None, 0 a draw, 1, 2), the `aircraft` of both sides and the `missiles` in flight; reads back."""
    one = Duels(**{name: x[index : index + 1].cpu() for name, x in duels.tensors().items()})
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
    return {
        "time": int(one.clock[0]) * rules.dt_s,
        "winner": None if winner == GOING_ON else winner,
        "aircraft": aircraft,
        "missiles": missiles,
    }


def _body(body: Body, pos: Tensor, vel: Tensor, rudder: Tensor) -> dict[str, Any]:
    (x, y), (vx, vy) = pos.tolist(), vel.tolist()
    return {
        "x": x,
        "y": y,
        "vx": vx,
        "vy": vy,
        "speed": float(speed_of(vel)),
        "angle": float(torch.atan2(vel[1], vel[0])),  # rad, counter-clockwise from the x axis
        "mach": float(mach(vel)),
        "g_load": float(g_load(body, vel, rudder)),
    }
