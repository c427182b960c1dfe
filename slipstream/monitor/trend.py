"""Does a series grow? Mann and Kendall's test, Theil and Sen's slope, and the two made into a finder of leaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 40  # samples: with fewer nothing is said
WARM_UP = 0.2  # of the window: allocators and caches fill up first
PARTS = 5  # a leak grows from each part of the window to the next; three single steps cannot
SURE = 1e-3  # the chance that a series without a trend looks like this
EVEN = 0.25  # each part's rise, at least this share of the mean rise


@dataclass(frozen=True)
class Leak:
    """A gauge that grows and does not stop."""

    name: str
    per_hour: float  # in the gauge's unit
    growth: float  # over the window, as the slope has it
    span_s: float
    p: float

    def __str__(self) -> str:
        return f"{self.name} grows by {self.per_hour:,.0f} an hour ({self.growth:,.0f} in the last {self.span_s / 60:.1f} min)"


def mann_kendall(values: Sequence[float]) -> float:
    """The chance (one-sided) that a series without a trend rises as much as this one; ties are allowed for."""
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 3:
        return 1.0
    later, earlier = np.triu_indices(n, 1)[::-1]
    s = float(np.sign(x[later] - x[earlier]).sum())
    _, ties = np.unique(x, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0 or s <= 0:
        return 1.0
    return 0.5 * math.erfc((s - 1) / math.sqrt(2 * variance))


def theil_sen(times: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between all pairs: up to 29 % of the values can be outliers."""
    t, x = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    later, earlier = np.triu_indices(len(t), 1)[::-1]
    apart = t[later] - t[earlier]
    keep = apart > 0
    return float(np.median((x[later] - x[earlier])[keep] / apart[keep])) if keep.any() else 0.0


def find_leak(
    name: str, times_s: Sequence[float], values: Sequence[float], floor: float, share: float = 0.02
) -> Leak | None:
    """A leak, where the values after the warm-up rise steadily and by more than `floor` and `share` of their level.

    Steadily: by Mann and Kendall's test, and from each fifth of the window to the next. So neither the steps of an allocator
    at the start, nor a first evaluation in the middle, nor noise of any size is taken for one.
    """
    skip = int(WARM_UP * len(values))
    t, x = np.asarray(times_s[skip:], dtype=np.float64), np.asarray(values[skip:], dtype=np.float64)
    if len(x) < FEWEST:
        return None
    rises = np.diff([np.median(part) for part in np.array_split(x, PARTS)])
    if (
        rises.min() <= 0 or rises.min() < EVEN * rises.mean()
    ):  # first what is quick: it answers for nearly every clean run
        return None
    span_s = float(t[-1] - t[0])
    growth = theil_sen(t.tolist(), x.tolist()) * span_s
    if growth < max(floor, share * float(np.median(x))):
        return None
    p = mann_kendall(x.tolist())
    if p > SURE:
        return None
    return Leak(name, growth / span_s * 3600, growth, span_s, p)
