"""Specs of observations and actions of one environment, and types of a step of many."""

from __future__ import annotations

import math
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
    """A tensor of real numbers: shape for one environment, and bounds.

    `mirror` is for `model.mirror=true`: the values, flattened, in a world that is mirrored left to right. Value k is
    then value j of the real world for `mirror[k] = j + 1`, and its negative for `-(j + 1)`: (1, -2) keeps the first and
    changes the sign of the second. `side` is the value whose sign says on which side of the mirror an environment is.
    """

    shape: tuple[int, ...]
    low: float = float("-inf")
    high: float = float("inf")
    dtype: torch.dtype = torch.float32
    mirror: tuple[int, ...] = ()
    side: int | None = None

    def __post_init__(self) -> None:
        size = math.prod(self.shape)
        if self.mirror and sorted(abs(k) for k in self.mirror) != [*range(1, size + 1)]:
            raise ValueError(f"mirror={self.mirror} must name each of the {size} values once, counted from 1")
        for k, j in enumerate(self.mirror, 1):
            if abs(self.mirror[abs(j) - 1]) != k or (self.mirror[abs(j) - 1] < 0) != (j < 0):
                raise ValueError(f"mirror={self.mirror}: value {k} is {j}, but mirrored twice it must be itself")
        if any(k < 0 for k in self.mirror) and not self.dtype.is_signed:
            raise ValueError(f"mirror={self.mirror} changes signs, which {self.dtype} does not have")
        if self.side is not None and -(self.side + 1) not in self.mirror[self.side : self.side + 1]:
            raise ValueError(f"side={self.side} must be a value whose sign the mirror changes")


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
