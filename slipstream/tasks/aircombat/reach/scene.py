"""The content of a spacetime diagram: the next 20 s of a duel as one side must expect them, in plain arrays.

Computed from a render state (`AirCombatEnv.get_render_state`); drawn by `figures.spacetime`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.tasks.aircombat.physics.flight import (
    BURN_S,
    BURN_TICKS,
    FIGHTER,
    GRAVITY_MPS2,
    MISSILE,
    PHYSICS_DT_S,
    SOUND_MPS,
)
from slipstream.tasks.aircombat.reach.flights_native import NEVER, Steering, chases, paths
from slipstream.tasks.aircombat.reach.reachable import TIMES_S, reachable
from slipstream.tasks.aircombat.reach.table import CHANNELS, Geometry, ReachTable, pseudo_angle

FUTURE_S = 20.0
EVERY = 15  # ticks between two points of a path: 0.25 s
AZIMUTHS = 96  # points of a contour
RANGES = ("r_max", "r_min", "r_ne")


def scene_of(state: dict[str, Any], side: int = 1) -> dict[str, Any]:
    """Return the duel of a render state as `side` (1 or 2) sees it, in m and s; see the keys below."""
    if side not in (1, 2):
        raise ValueError(f"side must be 1 or 2, not {side}")
    own, enemy = state["aircraft"][side - 1], state["aircraft"][2 - side]
    incoming = [m for m in state["missiles"] if m["target"] == side]
    outgoing = [m for m in state["missiles"] if m["target"] != side]
    escapes = _escapes(own, _nearest(own, incoming) or enemy)
    may_fire = enemy["alive"] and enemy["missiles"] > 0
    return {
        "time": state["time"],
        "winner": state["winner"],
        "side": side,
        "own": own,
        "enemy": enemy,
        "missiles": {"incoming": incoming, "outgoing": outgoing},
        "times": np.arange(0, FUTURE_S + 1e-6, EVERY * PHYSICS_DT_S),  # [K]: of the points of all paths
        "own_path": _ahead(own, Steering.hold(torch.tensor([_rudder(own)])))[0],  # [K, 3]: x, y, speed
        "enemy_path": _ahead(enemy, Steering.hold(torch.tensor([_rudder(enemy)])))[0],
        "escapes": _ahead(own, Steering.turning(escapes)),  # [2, K, 3]: left, right
        "incoming": _chased(incoming, own),  # [missiles, K, 3], NaN after it is slower than sound or has hit
        "outgoing": _chased(outgoing, enemy),
        "reach": _reach(enemy) if may_fire else [],  # of an enemy missile launched now, for each of TIMES_S
        "contours": _contours(enemy, own) if may_fire else {},  # r_max, r_min, r_ne: [AZIMUTHS, 2] around the enemy
        "threat": _ranges(enemy, own),  # range, r_max, r_min, r_ne of a shot of the enemy
        "shot": _ranges(own, enemy),  # and of an own shot
    }


def scenes_of_game(states: Sequence[dict[str, Any]], side: int = 1, only: int | None = None) -> list[dict[str, Any]]:
    """Return the scenes of a recorded game, or `only` the one of that number, each with the paths flown so far as
    "trails": {"own", "enemy"} of [T, 2]."""
    flown = {who: np.array([[s["aircraft"][k]["x"], s["aircraft"][k]["y"]] for s in states]) for who, k in _who(side)}
    return [
        scene_of(state, side) | {"trails": {who: path[: index + 1] for who, path in flown.items()}}
        for index, state in enumerate(states)
        if only in (None, index)
    ]


def _who(side: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("own", side - 1), ("enemy", 2 - side)


def _pos(body: dict[str, Any]) -> Tensor:
    return torch.tensor([[body["x"], body["y"]]], dtype=torch.float32)


def _vel(body: dict[str, Any]) -> Tensor:
    return torch.tensor([[body["vx"], body["vy"]]], dtype=torch.float32)


def _rudder(body: dict[str, Any]) -> float:
    """Return the last rudder command, from the load that it causes."""
    return float(np.clip(body["g_load"] * GRAVITY_MPS2 * FIGHTER.min_radius_m / max(body["speed"], 1.0) ** 2, -1, 1))


def _ahead(body: dict[str, Any], steering: Steering) -> NDArray[Any]:
    """Return the path of a fighter at full throttle [M, K, 3]."""
    count = len(steering.held)
    thrust = torch.full((count,), NEVER, dtype=torch.int32)
    ticks = round(FUTURE_S / PHYSICS_DT_S)
    return paths(
        FIGHTER, _pos(body).repeat(count, 1), _vel(body).repeat(count, 1), steering, thrust, ticks, EVERY
    ).numpy()


def _escapes(own: dict[str, Any], threat: dict[str, Any]) -> Tensor:
    """Return the turns [2], to the left and to the right, that put the threat astern."""
    away = math.atan2(own["y"] - threat["y"], own["x"] - threat["x"])
    left = (away - own["angle"]) % (2 * math.pi)
    return torch.tensor([left, left - 2 * math.pi])


def _nearest(own: dict[str, Any], missiles: list[dict[str, Any]]) -> dict[str, Any] | None:
    return min(missiles, key=lambda m: math.hypot(m["x"] - own["x"], m["y"] - own["y"]), default=None)


def _chased(missiles: list[dict[str, Any]], target: dict[str, Any]) -> NDArray[Any]:
    """Return the paths of missiles if their target keeps its rudder, until they are under Mach 1 with the engine
    off."""
    ticks = round(FUTURE_S / PHYSICS_DT_S)
    if not missiles:
        return np.zeros((0, ticks // EVERY + 1, 3), np.float32)
    count = len(missiles)
    ages_s = [m["age_s"] for m in missiles]
    age = torch.tensor([round(a / PHYSICS_DT_S) for a in ages_s], dtype=torch.int32)
    pos, vel = torch.cat([_pos(m) for m in missiles]), torch.cat([_vel(m) for m in missiles])
    if target["alive"]:
        steering = Steering.hold(torch.full((count,), _rudder(target)))
        flown = chases(
            pos, vel, age, _pos(target).repeat(count, 1), _vel(target).repeat(count, 1), steering, ticks, EVERY
        ).numpy()
    else:  # no target: straight
        flown = paths(MISSILE, pos, vel, Steering.hold(torch.zeros(count)), BURN_TICKS - age, ticks, EVERY).numpy()
    times = np.arange(flown.shape[1]) * EVERY * PHYSICS_DT_S
    burnt_out = np.array(ages_s)[:, None] + times > BURN_S
    spent = np.logical_or.accumulate(burnt_out & (flown[..., 2] < SOUND_MPS), axis=1)
    flown[spent] = np.nan
    return flown


def _reach(shooter: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the reachable sets of a missile launched now, in the plane."""
    cos, sin = math.cos(shooter["angle"]), math.sin(shooter["angle"])
    turned = np.array([[cos, sin], [-sin, cos]])
    place = np.array([shooter["x"], shooter["y"]])
    return [
        {"time": b.time_s, "polygon": b.polygon.numpy() @ turned + place, "mach": b.mach.numpy()}
        for b in reachable(shooter["speed"], TIMES_S)
    ]


@cache
def _table() -> ReachTable:
    return ReachTable.load()


def _contours(shooter: dict[str, Any], target: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the reach in every direction, against a target with this speed and heading."""
    line = torch.linspace(0, 2 * math.pi, AZIMUTHS + 1)[:-1]
    bearing, aspect = line - shooter["angle"], line + math.pi - target["angle"]
    own_speed, target_speed = (torch.full_like(line, body["speed"]) for body in (shooter, target))
    looked_up = look_up(Geometry(own_speed, target_speed, bearing, aspect))
    ray = torch.stack((torch.cos(line), torch.sin(line)), -1)
    return {name: (_pos(shooter) + r[:, None] * ray).numpy() for name, r in looked_up.items()}


def _ranges(shooter: dict[str, Any], target: dict[str, Any]) -> dict[str, float]:
    """Return the ranges of a launch now, in m."""
    geometry, distance = Geometry.between(_pos(shooter), _vel(shooter), _pos(target), _vel(target))
    return {"range": float(distance)} | {name: float(r) for name, r in look_up(geometry).items()}


def look_up(geometry: Geometry) -> dict[str, Tensor]:
    """Return the ranges [P] of the table."""
    bearing, aspect = (pseudo_angle(torch.cos(x), torch.sin(x)) for x in (geometry.bearing, geometry.aspect))
    found = _table().lookup_all(geometry.own_speed, geometry.target_speed, bearing, aspect)
    return {name: found[:, CHANNELS.index(name)] for name in RANGES}
