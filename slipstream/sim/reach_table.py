"""How far a missile reaches, looked up: ranges over the geometry of a launch, computed once and interpolated.

A launch is told by four numbers: the shooter's speed, the target's speed, the bearing of the target off the shooter's nose and its
aspect, the angle of the shooter off the target's nose (0: it comes straight at you). Mirrored launches are alike, so the
bearing is held from 0 to 180° and the aspect from -180° to 180°.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slipstream.sim.airframe import MISSILE, PHYSICS_DT_S, advance
from slipstream.sim.guidance import BURN_S, LAUNCH_AHEAD_M

CHANNELS = ("r_max", "r_min", "r_ne")  # what `reach.envelope` finds; 0 where there is no such range
SPEED_LIMITS_MPS = (150.0, 550.0)  # of both; beyond, the nearest is taken
SHIPPED = Path(__file__).parent / "reach.npz"
UNIT_M = 2.0  # a file holds ranges as whole multiples of it, 16 bits each
FLIGHT_S = tuple(2.0 * k for k in range(42))  # the times at which straight flights are held


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
    flown: Tensor  # [launch speeds, FLIGHT_S] float32, m: how far a missile that flies straight has come

    @classmethod
    def load(cls, path: Path = SHIPPED, device: torch.device | str = "cpu") -> ReachTable:
        """The table of a file, by default the one that ships with the package."""
        with np.load(path) as file:
            values, flown = torch.from_numpy(file["values"] * np.float32(UNIT_M)), torch.from_numpy(file["flown"])
        return cls(values.to(device).contiguous(), flown.to(device).contiguous())

    def save(self, path: Path = SHIPPED) -> None:
        """Writes the table."""
        values = (self.values.cpu() / UNIT_M).round().numpy().astype(np.uint16)
        np.savez_compressed(path, values=values, flown=self.flown.cpu().numpy())

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
            a, b, c, d = corner
            index = places[0][a] + places[1][b] + places[2][c] + places[3][d]
            total = total + weights[0][a] * weights[1][b] * weights[2][c] * weights[3][d] * flat[index]
        return total

    def time_of_flight(self, own_speed: Tensor, distance: Tensor, closing: Tensor, target_speed: Tensor) -> Tensor:
        """About how long [...] (s) a missile flies to a target that keeps its velocity, if it could turn onto its course at once.

        `closing` is the target's speed towards the launch point. Where the missile never gets there, the longest time is given.
        """
        low, high = SPEED_LIMITS_MPS
        rows = len(self.flown)
        place = ((own_speed - low) / (high - low) * (rows - 1)).clamp(0, rows - 1)
        first = place.to(torch.int64).clamp(max=rows - 2)
        part = (place - first)[..., None]
        flown = (1 - part) * self.flown[first] + part * self.flown[first + 1]  # [..., times]
        times = torch.tensor(FLIGHT_S, dtype=flown.dtype, device=flown.device)
        along = distance[..., None] - closing[..., None] * times
        across = (target_speed.square() - closing.square()).clamp(min=0).sqrt()[..., None] * times
        left = (along.square() + across.square()).sqrt() - flown  # between the target and the farthest point flown to
        met = left <= 0
        late = ~met.any(-1)
        after = met.to(torch.int8).argmax(-1).clamp(min=1)[..., None]  # the first time at which it has come far enough
        behind, ahead = (left.gather(-1, index)[..., 0] for index in (after - 1, after))
        share = (behind / (behind - ahead).clamp(min=1e-3)).clamp(0, 1)
        time = (after[..., 0] - 1 + share) * FLIGHT_S[1]
        return torch.where(late, FLIGHT_S[-1], time)


def straight_flights(launch_speeds: int = 9) -> Tensor:
    """How far [speeds, FLIGHT_S] a missile that is launched at each speed and flies straight has come, from its carrier."""
    vel = torch.zeros(launch_speeds, 2, dtype=torch.float64)
    vel[:, 0] = torch.linspace(*SPEED_LIMITS_MPS, launch_speeds, dtype=torch.float64)
    pos = torch.zeros_like(vel)
    pos[:, 0] = LAUNCH_AHEAD_M
    rudder = torch.zeros(launch_speeds, dtype=torch.float64)
    every, burn = round(FLIGHT_S[1] / PHYSICS_DT_S), round(BURN_S / PHYSICS_DT_S)
    rows = [pos[:, 0]]
    for tick in range(every * (len(FLIGHT_S) - 1)):
        pos, vel = advance(MISSILE, pos, vel, rudder, torch.full_like(rudder, float(tick < burn)), PHYSICS_DT_S)
        if (tick + 1) % every == 0:
            rows.append(pos[:, 0])
    return torch.stack(rows, 1).float()
