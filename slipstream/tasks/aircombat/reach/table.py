"""ReachTable: the reach of a missile over the geometry of a launch, computed once and interpolated.

A launch geometry has four numbers: the speeds of shooter and target, the bearing of the target off the shooter's nose,
and the aspect, the angle of the shooter off the target's nose (0: it flies straight at the shooter). Mirrored launches
are equal, so the bearing covers 0 to 180° and the aspect -180° to 180°.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# 0 where there is none; see tools/reach_table.py, which writes the file
CHANNELS = ("r_max", "r_min", "r_ne", "time_quarter", "time_half", "time_full")
SPEED_LIMITS_MPS = (150.0, 550.0)  # of both; outside, the nearest is used
SHIPPED = Path(__file__).parent / "reach.npz"
# m and s, of each channel: a file stores multiples of them in 16 bits
UNITS = np.array((2.0, 2.0, 2.0, 0.004, 0.004, 0.004), np.float32).reshape(-1, 1, 1, 1, 1)
SETS = Path(__file__).parent / "sets.npz"  # the reachable sets; tools/reachable_sets.py writes the file
SET_UNITS = np.float32(2.0), np.float32(0.02)  # m and Mach


def pseudo_angle(cos: Tensor, sin: Tensor) -> Tensor:
    """Return a monotonic stand-in for the angle of (cos, sin), in [-2, 2]: 0 at 0°, ±0.5 at ±45°, ±1 at ±90°, ±2 at
    ±180°.

    It needs no arctangent, which native code and kernels round differently.
    """
    size = cos.abs() + sin.abs()
    share = 1 - cos / size.clamp(min=1e-12)
    return torch.where(sin < 0, -share, share)


@dataclass
class ReachTable:
    """Ranges on a grid, even in both speeds and in the pseudo-angles of bearing and aspect."""

    values: Tensor  # [channels, own speeds, target speeds, bearings, aspects] float32, m and s; see CHANNELS
    _rows: Tensor = field(init=False, repr=False)  # [points, channels]

    def __post_init__(self) -> None:
        self._rows = self.values.flatten(1).T.contiguous()

    @classmethod
    def load(cls, path: Path = SHIPPED, device: torch.device | str = "cpu") -> ReachTable:
        """Read a table from a file (default: the one shipped with the package)."""
        with np.load(path) as file:
            values = file["values"] * UNITS
        return cls(torch.from_numpy(values).to(device).contiguous())

    def lookup(
        self, own_speed: Tensor, target_speed: Tensor, bearing: Tensor, aspect: Tensor, channels: int = len(CHANNELS)
    ) -> Tensor:
        """Interpolate the first so many channels [..., channels] linearly on all four axes; bearing and aspect are
        pseudo-angles."""
        low, high = SPEED_LIMITS_MPS
        mirrored = bearing < 0
        aspect = torch.where(mirrored, -aspect, aspect)
        speeds = (own_speed - low) / (high - low), (target_speed - low) / (high - low)
        shares = *speeds, bearing.abs() / 2, (aspect + 2) / 4
        table = self.values[0]
        places, weights = [], []
        for share, count, stride in zip(shares, table.shape, table.stride(), strict=True):
            place = (share * (count - 1)).clamp(0, count - 1)
            first = place.to(torch.int64).clamp(max=max(count - 2, 0))
            part = place - first
            places.append((first * stride, (first + min(1, count - 1)) * stride))
            weights.append((1 - part, part))
        rows = self._rows[:, :channels]
        total = rows.new_zeros((*own_speed.shape, rows.shape[1]))
        for i, j, k, m in product((0, 1), repeat=4):  # the grid points around the geometry
            weight = weights[0][i] * weights[1][j] * weights[2][k] * weights[3][m]
            total = total + weight[..., None] * rows[places[0][i] + places[1][j] + places[2][k] + places[3][m]]
        return total


@cache
def shipped_table(device: torch.device) -> ReachTable:
    """Return the shipped table, read once per device."""
    return ReachTable.load(device=device)


@cache
def reachable_sets() -> dict[str, NDArray[np.float32]]:
    """Return all places where a missile launched now can be, for any rudder.

    Returns:
        speed [V] of the carrier, m/s; time [4] after the launch, s; polygon [V, 4, C, 2] around the set, m in the
        carrier's frame (x ahead, y to the left); mach [V, 4, C] of the missile at the corners.
    """
    with np.load(SETS) as file:
        sets = dict(file)
    return sets | {name: sets[name] * unit for name, unit in zip(("polygon", "mach"), SET_UNITS, strict=True)}
