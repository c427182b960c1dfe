"""What an observation or an action looks like, for one environment, and what a step of many is written to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Observation = dict[str, Tensor]  # each [N, ...]
Key = tuple[str, ...]
Rows = list[tuple[list[Key], list[Tensor]]]  # per dtype: keys of a frame, and the memory they are written to
Step = Callable[[Observation, Rows], None]  # of all environments, from what they show, written to rows


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


@dataclass(frozen=True)
class Hybrid:
    """One vector of real components, each with its own bounds, followed by yes/no components, 0 or 1 (above 0.5 is yes)."""

    low: tuple[float, ...]  # of the real components
    high: tuple[float, ...]
    switches: int = 1  # yes/no components after them
    mask: str | None = None  # the observation [switches] that says, by 0, where a switch does nothing
    names: tuple[str, ...] = ()  # of all components
    dtype: torch.dtype = torch.float32

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return (len(self.low) + self.switches,)

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """The lower and upper bound of every component."""
        return (*zip(self.low, self.high, strict=True), *[(0.0, 1.0)] * self.switches)


Spec = Box | Discrete | Hybrid
