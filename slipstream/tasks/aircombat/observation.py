"""What one side of a duel observes: the names, scales and groups of its numbers, and access to each number by name.

Bearings are relative to the own nose, positive to the left; an aspect is the own bearing relative to the other's nose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.duel import FIELD_M

RANGE_SCALE_M = FIELD_M
POSITION_SCALE_M = FIELD_M / 2  # from the center of the field
SPEED_SCALE_MPS = 500.0
CLOSING_SCALE_MPS = 1000.0
TIME_SCALE_S = 60.0

OWN_NAMES = (
    *("own_x", "own_y", "own_heading_sin", "own_heading_cos", "own_speed"),
    *("missiles_left", "missiles_in_flight", "cooldown", "own_rudder", "time_left", "own_alive"),
)
ENEMY_NAMES = (
    *("enemy_range", "enemy_bearing_sin", "enemy_bearing_cos", "enemy_aspect_sin", "enemy_aspect_cos"),
    *("enemy_closing", "enemy_speed", "enemy_r_max", "enemy_alive"),
)
INCOMING = 2  # missiles observed, the nearest first
INCOMING_NAMES = ("range", "bearing_sin", "bearing_cos", "closing", "time_to_go", "engine_on", "present")
ABSENT = (2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)  # the row of a missile that does not exist: far away, late
GROUPS: dict[str, tuple[int, ...]] = {  # the observation keys in packing order, and the shape of each
    "own": (len(OWN_NAMES),),
    "enemy": (len(ENEMY_NAMES),),
    "incoming": (INCOMING, len(INCOMING_NAMES)),
    "can_fire": (1,),
}
WIDTH = len(OWN_NAMES) + len(ENEMY_NAMES) + INCOMING * len(INCOMING_NAMES) + 1

_MEMBERS: dict[str, tuple[str, ...]] = {  # the names of a group's numbers, flattened in order
    "own": OWN_NAMES,
    "enemy": ENEMY_NAMES,
    "incoming": tuple(f"incoming_{k + 1}_{name}" for k in range(INCOMING) for name in INCOMING_NAMES),
}
OBSERVED = (*(name for members in _MEMBERS.values() for name in members), "can_fire")  # every number by name
_PLACES: dict[str, tuple[str, Any]] = {  # the group of each name, and its index in that group
    **{name: ("own", (..., i)) for i, name in enumerate(OWN_NAMES)},
    **{name: ("enemy", (..., i)) for i, name in enumerate(ENEMY_NAMES)},
    **{name: ("incoming", (..., *divmod(i, len(INCOMING_NAMES)))) for i, name in enumerate(_MEMBERS["incoming"])},
}
# The names and units of midrangeRL. Its enemy_speed and enemy_alive are names here too; a speed of 1 is 400 m/s there.
MIDRANGE: dict[str, Callable[[Mapping[str, Tensor]], Tensor]] = {
    "x": lambda view: 0.5 * (view["own_x"] + 1.0),
    "y": lambda view: 0.5 * (view["own_y"] + 1.0),
    "angle": lambda view: torch.atan2(view["own_heading_sin"], view["own_heading_cos"]) / math.tau % 1.0,
    "speed": lambda view: view["own_speed"] * (SPEED_SCALE_MPS / 400.0),
    "missiles": lambda view: view["missiles_left"],
    "alive": lambda view: view["own_alive"],
    "enemy_distance": lambda view: view["enemy_range"],
    "enemy_relative_angle": lambda view: torch.atan2(view["enemy_bearing_sin"], view["enemy_bearing_cos"]) / math.pi,
}


class SideView(dict[str, Tensor]):
    """The observation of one side: the groups 'own', 'enemy', 'incoming', 'can_fire', and each number by its own name.

    `view["enemy"]` is [N, 9]; `view["enemy_range"]` is its first column, [N].
    """

    def __missing__(self, name: str) -> Tensor:
        if name in MIDRANGE:
            return MIDRANGE[name](self)
        group, place = _PLACES[name]
        return self[group][place]


def split_view(packed: Tensor) -> SideView:
    """Return the groups of packed observations [..., WIDTH]; they share its memory."""
    view, first = SideView(), 0
    for name, shape in GROUPS.items():
        width = math.prod(shape)
        view[name] = packed[..., first : first + width].unflatten(-1, shape)
        first += width
    return view


def to_named(view: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of all numbers of a grouped observation by name, midrangeRL's too, [N] each: the form of its
    loop."""
    named = {name: (view[name].squeeze(-1) if name == "can_fire" else view[name]).clone() for name in OBSERVED}
    return named | {name: number(named) for name, number in MIDRANGE.items()}


def to_grouped(observation: Mapping[str, Tensor]) -> SideView:
    """Return the grouped observation of the named form, [N] each. The inverse of `to_named`."""
    view = SideView(can_fire=observation["can_fire"].unsqueeze(-1))
    for group, members in _MEMBERS.items():
        view[group] = torch.stack([observation[name] for name in members], -1).unflatten(-1, GROUPS[group])
    return view
