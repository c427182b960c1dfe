"""What an observation or an action looks like, for one environment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Observation = dict[str, Tensor]  # each [N, ...]


@dataclass(frozen=True)
class Box:
    """A tensor of real numbers: its shape for one environment, and its bounds where it has some."""

    shape: tuple[int, ...]
    low: float = float("-inf")
    high: float = float("inf")
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class Discrete:
    """One integer in [0, n)."""

    n: int
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.int64


Spec = Box | Discrete
