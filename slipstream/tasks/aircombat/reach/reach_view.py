"""The reach of both sides' missiles as numbers of order one, worked out from what a side sees (`duel_view`)."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.duel_view import (
    ENEMY_NAMES,
    OWN_NAMES,
    RANGE_SCALE_M,
    SPEED_SCALE_MPS,
    TIME_SCALE_S,
)
from slipstream.tasks.aircombat.reach.reach_table import CHANNELS, ReachTable, pseudo_angle, time_between

MOST = 2.0  # of a ratio: farther outside is no different
REACH_NAMES = (
    *("shot_r_max", "shot_r_min", "shot_r_ne", "shot_time"),  # of one's own missile against the enemy, launched now
    *("threat_r_max", "threat_r_min", "threat_r_ne", "threat_time"),  # of the enemy's against oneself
)


def reach_of_view(own: Tensor, enemy: Tensor, table: ReachTable) -> Tensor:
    """Reach [..., 8] from the groups 'own' and 'enemy' of a view, in the order of REACH_NAMES.

    r_max and r_ne are the range over them (below 1: inside), r_min is it over the range (above 1: too near), at most MOST, which also
    stands for "there is none" of r_max and r_ne; time is the flight against a target that keeps on, in minutes.
    """
    seen = lambda name: enemy[..., ENEMY_NAMES.index(name)]  # noqa: E731
    distance = (seen("enemy_range") * RANGE_SCALE_M)[..., None]
    speeds = torch.stack((own[..., OWN_NAMES.index("own_speed")], seen("enemy_speed")), -1) * SPEED_SCALE_MPS
    bearing = pseudo_angle(seen("enemy_bearing_cos"), seen("enemy_bearing_sin"))
    aspect = pseudo_angle(seen("enemy_aspect_cos"), seen("enemy_aspect_sin"))
    angles = torch.stack((bearing, aspect), -1)
    # For the enemy's missile, the two change places: its bearing to us is our aspect. [..., 2 shooters, channels]
    found = table.lookup_all(speeds, speeds.flip(-1), angles, angles.flip(-1))
    r_max, r_min, r_ne = (found[..., CHANNELS.index(name)] for name in ("r_max", "r_min", "r_ne"))
    ratio = lambda over, under: (over / under.clamp(min=1.0)).clamp(max=MOST)  # noqa: E731
    numbers = (
        ratio(distance, r_max),
        ratio(r_min, distance),
        ratio(distance, r_ne),
        time_between(found, distance) / TIME_SCALE_S,
    )
    return torch.stack(numbers, -1).flatten(-2)
