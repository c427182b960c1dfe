"""How duels begin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.duel import CARRIED, FIELD_M, Duels, begin

NUMBERS = 8  # uniform random numbers that one start takes
HEAD_ON_X_M = (0.2 * FIELD_M, 0.8 * FIELD_M)
HEAD_ON_MPS = 300.0


@dataclass
class StartConfig:
    """The settings of `env.starts.*`, for start=random: what is drawn, evenly, for each duel (and each side)."""

    range_m: tuple[float, float] = (15_000.0, 60_000.0)
    speed_mps: tuple[float, float] = (250.0, 400.0)
    missiles: tuple[int, int] = (1, CARRIED)

    def __post_init__(self) -> None:
        for name, (low, high) in {
            "range_m": self.range_m,
            "speed_mps": self.speed_mps,
            "missiles": self.missiles,
        }.items():
            if not 0 < low <= high:
                raise ValueError(
                    f"env.starts.{name} must be two positive numbers, the lower one first, not {low}, {high}"
                )
        if self.missiles[1] > CARRIED:
            raise ValueError(f"an aircraft carries at most {CARRIED} missiles, not {self.missiles[1]}")


def head_on(num: int, device: torch.device | str = "cpu") -> Duels:
    """Both on the middle line of the field, 30 km apart, nose to nose, with all missiles."""
    x = torch.tensor(HEAD_ON_X_M, device=device)
    pos = torch.stack((x, torch.full_like(x, FIELD_M / 2)), -1)
    vel = torch.tensor([[HEAD_ON_MPS, 0.0], [-HEAD_ON_MPS, 0.0]], device=device)
    missiles = torch.full((num, 2), CARRIED, dtype=torch.int32, device=device)
    return begin(pos.expand(num, 2, 2).clone(), vel.expand(num, 2, 2).clone(), missiles)


def drawn(u: Tensor, config: StartConfig) -> Duels:
    """Duels around the middle of the field from uniform numbers [N, NUMBERS]: any bearing, any headings."""
    pick = lambda limits, x: limits[0] + (limits[1] - limits[0]) * x  # noqa: E731
    half = pick(config.range_m, u[:, 0]) / 2
    line = 2 * math.pi * u[:, 1]  # the bearing of side 2 from side 1
    offset = half[:, None] * torch.stack((torch.cos(line), torch.sin(line)), -1)
    pos = FIELD_M / 2 + torch.stack((-offset, offset), 1)
    heading = 2 * math.pi * u[:, 2:4]
    speed = pick(config.speed_mps, u[:, 4:6])
    vel = speed[..., None] * torch.stack((torch.cos(heading), torch.sin(heading)), -1)
    fewest, most = config.missiles
    missiles = fewest + (u[:, 6:8] * (most - fewest + 1)).to(torch.int32)
    return begin(pos, vel, missiles)
