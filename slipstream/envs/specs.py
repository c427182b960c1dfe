"""Specs of observations and actions of one environment, and types of a step of many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Observation = dict[str, Tensor]  # each [N, ...]
Key = tuple[str, ...]
Rows = list[tuple[list[Key], list[Tensor]]]  # per dtype: the keys of a frame, and the memory that they are written to
Step = Callable[[Observation, Rows], None]  # a step of all environments from an observation, written to rows


@dataclass(frozen=True)
class Box:
    """A tensor of real numbers: shape for one environment, and bounds."""

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
    """One vector of real components, each with its own bounds, followed by switches: 0 or 1 (on above 0.5)."""

    low: tuple[float, ...]  # of the real components
    high: tuple[float, ...]
    switches: int = 1  # on/off components after them
    mask: str | None = None  # the observation [switches] that is 0 where a switch has no effect
    names: tuple[str, ...] = ()  # of all components
    dtype: torch.dtype = torch.float32

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one action."""
        return (len(self.low) + self.switches,)

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Lower and upper bound of every component."""
        return (*zip(self.low, self.high, strict=True), *[(0.0, 1.0)] * self.switches)


Spec = Box | Discrete | Hybrid
