"""How far a missile reaches, looked up: ranges over the geometry of a launch, computed once and interpolated.

A launch is told by four numbers: the shooter's speed, the target's speed, the bearing of the target off the shooter's nose and its
aspect, the angle of the shooter off the target's nose (0: it comes straight at you). Mirrored launches are alike, so the
bearing is held from 0 to 180° and the aspect from -180° to 180°.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

SPEED_LIMITS_MPS = (150.0, 550.0)  # of both; beyond, the nearest is taken
SHIPPED = Path(__file__).parent / "reach.npz"


def pseudo_angle(cos: Tensor, sin: Tensor) -> Tensor:
    """A stand-in for the angle of (cos, sin) in [-2, 2] that grows with it: 0 at 0°, ±0.5 at ±45°, ±1 at ±90°, ±2 at ±180°.

    It needs no arctangent, which native code and kernels would each round in their own way.
    """
    size = cos.abs() + sin.abs()
    share = 1 - cos / size.clamp(min=1e-12)
    return torch.where(sin < 0, -share, share)


def angle_of(pseudo: Tensor) -> Tensor:
    """The angle (rad) that `pseudo_angle` gives `pseudo` for."""
    cos = 1 - pseudo.abs()
    return torch.atan2(torch.sign(pseudo) * (1 - cos.abs()), cos)


@dataclass
class ReachTable:
    """Ranges on a grid, even in both speeds and in the pseudo-angles of bearing and aspect."""

    values: Tensor  # [channels, own speeds, target speeds, bearings, aspects] float32, m; see CHANNELS

    @classmethod
    def load(cls, path: Path = SHIPPED, device: torch.device | str = "cpu") -> ReachTable:
        """The table of a file, by default the one that ships with the package."""
        with np.load(path) as file:
            return cls(torch.from_numpy(file["values"].astype(np.float32)).to(device).contiguous())

    def save(self, path: Path = SHIPPED) -> None:
        """Writes the table."""
        np.savez_compressed(path, values=self.values.cpu().numpy())

    @staticmethod
    def grid(own_speeds: int, target_speeds: int, bearings: int, aspects: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Own speed, target speed (m/s), bearing and aspect (rad) of every point, each of the four numbers' shape, float64."""
        low, high = SPEED_LIMITS_MPS
        axes = (
            torch.linspace(low, high, own_speeds, dtype=torch.float64),
            torch.linspace(low, high, target_speeds, dtype=torch.float64),
            angle_of(torch.linspace(0, 2, bearings, dtype=torch.float64)),
            angle_of(torch.linspace(-2, 2, aspects, dtype=torch.float64)),
        )
        own, target, bearing, aspect = torch.meshgrid(*axes, indexing="ij")
        return own, target, bearing, aspect

    def lookup(self, own_speed: Tensor, target_speed: Tensor, bearing: Tensor, aspect: Tensor, channel: int = 0) -> Tensor:
        """The range [...] (m), interpolated linearly on all four axes; bearing and aspect are pseudo-angles."""
        low, high = SPEED_LIMITS_MPS
        mirrored = bearing < 0
        aspect = torch.where(mirrored, -aspect, aspect)
        shares = ((own_speed - low) / (high - low), (target_speed - low) / (high - low), bearing.abs() / 2, (aspect + 2) / 4)
        table = self.values[channel]
        flat = table.flatten()
        places, weights = [], []
        for share, count, stride in zip(shares, table.shape, table.stride(), strict=True):
            place = (share * (count - 1)).clamp(0, count - 1)
            first = place.to(torch.int64).clamp(max=max(count - 2, 0))
            part = place - first
            places.append((first * stride, (first + min(1, count - 1)) * stride))
            weights.append((1 - part, part))
        total = torch.zeros_like(own_speed)
        for corner in product((0, 1), repeat=4):
            index = sum(places[axis][end] for axis, end in enumerate(corner))
            weight = math.prod(weights[axis][end] for axis, end in enumerate(corner))
            total = total + weight * flat[index]
        return total
