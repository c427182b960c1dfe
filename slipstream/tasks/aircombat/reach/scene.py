"""The next 20 s of duels as both sides must expect them: paths, escapes, missiles and reach, for many moments at once.

`forecast` is what a recording and a game show beside a duel. `scene_of` is the view of one side from a render state
(`AirCombatEnv.get_render_state`), in plain arrays; it is drawn by `figures.spacetime`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, SLOTS, Duels
from slipstream.tasks.aircombat.physics.flight import BURN_S, FIGHTER, GRAVITY_MPS2, PHYSICS_DT_S, SOUND_MPS, speed_of
from slipstream.tasks.aircombat.reach.flights_native import NEVER, Steering, chases, paths
from slipstream.tasks.aircombat.reach.reachable import TIMES_S, reachable
from slipstream.tasks.aircombat.reach.table import CHANNELS, Geometry, pseudo_angle, shipped_table

FUTURE_S = 20.0
FUTURE_TICKS = round(FUTURE_S / PHYSICS_DT_S)
POINT, FINE_POINT = 60, 15  # ticks between two points of a path: 1 s; 0.25 s in a scene
AZIMUTHS = 96  # points of a contour
RANGES = ("r_max", "r_min", "r_ne")


@torch.no_grad()
def forecast(duels: Duels, every: int = POINT) -> dict[str, NDArray[Any]]:
    """Return what both sides must expect at S moments, in m, with a point of each path `every` so many ticks.

    Returns:
        path [S, 2, P, 2]: with the present rudder; escape [S, 2, 2, P, 2]: turn and run to the left and to the right;
        missile [S, 12, P, 2]: until it is slower than sound; range [S, 2, 4]: distance, r_max, r_min and r_ne of a
        shot of each side; contour [S, 2, 3, 96]: these three around each side, against the other.
    """
    moments = len(duels.pos)
    pos, vel = duels.pos.reshape(-1, 2).float(), duels.vel.reshape(-1, 2).float()  # [S * 2]
    held = _ahead(pos, vel, Steering.hold(duels.rudder.reshape(-1).float()), every)
    turns = _escapes(duels)  # [S, 2 sides, 2]
    twice = lambda x: x.repeat_interleave(2, 0)  # noqa: E731
    fled = _ahead(twice(pos), twice(vel), Steering.turning(turns.reshape(-1)), every)
    found = {"path": held.reshape(moments, 2, -1, 2), "escape": fled.reshape(moments, 2, 2, -1, 2)}
    found["missile"] = _missile_paths(duels, every)
    other_pos, other_vel = (x.flip(1).reshape(-1, 2).float() for x in (duels.pos, duels.vel))
    geometry, distance = Geometry.between(pos, vel, other_pos, other_vel)
    ranges = look_up(geometry)
    found["range"] = torch.stack((distance, *(ranges[name] for name in RANGES)), -1).reshape(moments, 2, 4).numpy()
    line = torch.linspace(0, 2 * math.pi, AZIMUTHS + 1)[:-1].repeat(moments * 2)
    each = lambda x: x.repeat_interleave(AZIMUTHS)  # noqa: E731
    heading, theirs = (torch.atan2(v[:, 1], v[:, 0]) for v in (vel, other_vel))
    around = look_up(
        Geometry(each(speed_of(vel)), each(speed_of(other_vel)), line - each(heading), line + math.pi - each(theirs))
    )
    contour = torch.stack([around[name].reshape(moments, 2, AZIMUTHS) for name in RANGES], 2)
    return found | {"contour": contour.numpy()}


def scene_of(state: dict[str, Any], side: int = 1) -> dict[str, Any]:
    """Return the duel of a render state as `side` (1 or 2) sees it, in m and s; see the keys below."""
    if side not in (1, 2):
        raise ValueError(f"side must be 1 or 2, not {side}")
    own, enemy = state["aircraft"][side - 1], state["aircraft"][2 - side]
    duels, slots = _duel_of(state)
    found = {name: x[0] for name, x in forecast(duels, FINE_POINT).items()}
    ranges = [dict(zip(("range", *RANGES), row.tolist(), strict=True)) for row in found["range"]]
    line = np.linspace(0, 2 * math.pi, AZIMUTHS, endpoint=False)
    ray, place = np.stack((np.cos(line), np.sin(line)), -1), np.array([enemy["x"], enemy["y"]])
    contours = {name: place + r[:, None] * ray for name, r in zip(RANGES, found["contour"][2 - side], strict=True)}
    may_fire = enemy["alive"] and enemy["missiles"] > 0
    comes = np.array([missile["target"] == side for missile in state["missiles"]], bool)
    flown = found["missile"][slots]
    return {
        "time": state["time"],
        "winner": state["winner"],
        "side": side,
        "own": own,
        "enemy": enemy,
        "missiles": {
            "incoming": [m for m in state["missiles"] if m["target"] == side],
            "outgoing": [m for m in state["missiles"] if m["target"] != side],
        },
        "times": np.arange(0, FUTURE_S + 1e-6, FINE_POINT * PHYSICS_DT_S),  # [K]: of the points of all paths
        "own_path": found["path"][side - 1],  # [K, 2]
        "enemy_path": found["path"][2 - side],
        "escapes": found["escape"][side - 1],  # [2, K, 2]: left, right
        "incoming": flown[comes],  # [missiles, K, 2], NaN after it is slower than sound or has hit
        "outgoing": flown[~comes],
        "reach": _reach(enemy) if may_fire else [],  # of an enemy missile launched now, for each of TIMES_S
        "contours": contours if may_fire else {},  # r_max, r_min, r_ne: [AZIMUTHS, 2] around the enemy
        "threat": ranges[2 - side],  # range, r_max, r_min, r_ne of a shot of the enemy
        "shot": ranges[side - 1],  # and of an own shot
    }


def scenes_of_game(states: Sequence[dict[str, Any]], side: int = 1, only: int | None = None) -> list[dict[str, Any]]:
    """Return the scenes of a recorded game, or `only` the one of that number, each with the paths flown so far as
    "trails": {"own", "enemy"} of [T, 2]."""
    sides = {"own": side - 1, "enemy": 2 - side}
    bodies = {who: [state["aircraft"][k] for state in states] for who, k in sides.items()}
    flown = {who: np.array([[body["x"], body["y"]] for body in path]) for who, path in bodies.items()}
    return [
        scene_of(state, side) | {"trails": {who: path[: index + 1] for who, path in flown.items()}}
        for index, state in enumerate(states)
        if only in (None, index)
    ]


def _duel_of(state: dict[str, Any]) -> tuple[Duels, list[int]]:
    """Return the duel of a render state, and the slot of each of its missiles."""
    duels, free, slots = Duels.create(1), [0, CARRIED], []
    for k, body in enumerate(state["aircraft"]):
        duels.pos[0, k], duels.vel[0, k] = _vectors(body)
        # the last command, from the load that it causes
        command = body["g_load"] * GRAVITY_MPS2 * FIGHTER.min_radius_m / max(body["speed"], 1.0) ** 2
        duels.rudder[0, k], duels.alive[0, k] = float(np.clip(command, -1, 1)), body["alive"]
    for missile in state["missiles"]:
        slot = free[missile["side"] - 1]
        duels.missile_pos[0, slot], duels.missile_vel[0, slot] = _vectors(missile)
        duels.missile_age[0, slot] = round(missile["age_s"] / PHYSICS_DT_S)
        free[missile["side"] - 1] += 1
        slots.append(slot)
    return duels, slots


def _vectors(body: dict[str, Any]) -> Tensor:
    """Return position and velocity [2, 2]."""
    return torch.tensor([[body["x"], body["y"]], [body["vx"], body["vy"]]])


def _ahead(pos: Tensor, vel: Tensor, steering: Steering, every: int) -> NDArray[Any]:
    """Return the paths [M, P, 2] of fighters at full throttle."""
    thrust = torch.full((len(pos),), NEVER, dtype=torch.int32)
    return paths(FIGHTER, pos, vel, steering, thrust, FUTURE_TICKS, every)[..., :2].numpy()


def _escapes(duels: Duels) -> Tensor:
    """Return the turns [S, 2, 2] of each side, left and right, that put its nearest threat astern."""
    flies = (duels.missile_age != GONE).reshape(-1, 2, CARRIED).flip(1)  # of the missiles that chase each side
    missiles = duels.missile_pos.reshape(-1, 2, CARRIED, 2).flip(1)
    distance = torch.where(flies, (missiles - duels.pos[:, :, None]).norm(dim=-1), math.inf)
    nearest = distance.argmin(2)
    threat = missiles.gather(2, nearest[..., None, None].expand(-1, -1, 1, 2))[:, :, 0]
    threat = torch.where(flies.any(2)[..., None], threat, duels.pos.flip(1))
    away, heading = duels.pos - threat, duels.vel
    left = torch.atan2(away[..., 1], away[..., 0]) - torch.atan2(heading[..., 1], heading[..., 0])
    left = torch.remainder(left, 2 * math.pi)
    return torch.stack((left, left - 2 * math.pi), -1).float()


def _missile_paths(duels: Duels, every: int) -> NDArray[Any]:
    """Return the paths [S, 12, P, 2] of missiles in flight if their targets keep their rudders; NaN elsewhere."""
    found = np.full((len(duels.pos), SLOTS, FUTURE_TICKS // every + 1, 2), np.nan, np.float32)
    moment, slot = torch.nonzero(duels.missile_age != GONE, as_tuple=True)
    if not len(moment):
        return found
    pos, vel, age = (x[moment, slot] for x in (duels.missile_pos, duels.missile_vel, duels.missile_age))
    target = moment, 1 - slot // CARRIED
    target_pos = torch.where(duels.alive[target][:, None], duels.pos[target], torch.nan)  # without one: straight on
    steering = Steering.hold(duels.rudder[target].float())
    flown = chases(pos, vel, age, target_pos, duels.vel[target], steering, FUTURE_TICKS, every).numpy()
    ages_s = (age.numpy()[:, None] + np.arange(flown.shape[1]) * every) * PHYSICS_DT_S
    spent = np.logical_or.accumulate((ages_s > BURN_S) & (flown[..., 2] < SOUND_MPS), axis=1)
    found[moment.numpy(), slot.numpy()] = np.where(spent[..., None], np.nan, flown[..., :2])
    return found


def _reach(shooter: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the reachable sets of a missile launched now, in the plane."""
    cos, sin = math.cos(shooter["angle"]), math.sin(shooter["angle"])
    turned = np.array([[cos, sin], [-sin, cos]])
    place = np.array([shooter["x"], shooter["y"]])
    return [
        {"time": b.time_s, "polygon": b.polygon.numpy() @ turned + place, "mach": b.mach.numpy()}
        for b in reachable(shooter["speed"], TIMES_S)
    ]


def look_up(geometry: Geometry) -> dict[str, Tensor]:
    """Return the ranges [P] of the table."""
    bearing, aspect = (pseudo_angle(torch.cos(x), torch.sin(x)) for x in (geometry.bearing, geometry.aspect))
    found = shipped_table(bearing.device).lookup_all(geometry.own_speed, geometry.target_speed, bearing, aspect)
    return {name: found[:, CHANNELS.index(name)] for name in RANGES}
