"""Two ways of doing a thing, run in turns: how much faster is one, and how sure is that."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

PAIRS = 10  # nine of ten on one side: 1 in 93 by chance; one hiccup of the machine does not decide
GIVEN_UP = 3  # pairs after which a way that never won is not run on
SURE = 0.975


@dataclass(frozen=True)
class Gain:
    """By what factor one way is faster than the other: the median of the pairs, and an interval of that median."""

    ratio: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        if self.pairs <= GIVEN_UP:
            return f"{self.ratio:.2f} ×"
        return f"{self.ratio:.2f} × ({self.low:.2f} … {self.high:.2f})"


def gain_of(ratios: Sequence[float]) -> Gain:
    """The gain of pairs' ratios. The interval holds for noise of any form: it lies between two of the ratios themselves."""
    ordered = sorted(ratios)
    n = len(ordered)
    inner = 0  # the outermost ratios left out at each end, as many as SURE allows
    while inner + 1 < n - inner - 1 and 1 - 2 * sum(comb(n, k) for k in range(inner + 2)) / 2**n >= SURE:
        inner += 1
    return Gain(statistics.median(ordered), ordered[inner], ordered[n - 1 - inner], n)


def in_turns(first: Callable[[], float], second: Callable[[], float], pairs: int = PAIRS, lost: float = 1.0) -> Gain:
    """The gain in rate of `second` over `first`, each run once a pair, in changing order, so that a drift hits both alike.

    A second that stays below `lost` in the first three pairs is not run on: that can only take an advice back, never make one.
    """
    ratios: list[float] = []
    for pair in range(pairs):
        if pair % 2:
            theirs = second()
            ours = first()
        else:
            ours = first()
            theirs = second()
        ratios.append(theirs / ours)
        if len(ratios) == GIVEN_UP and max(ratios) < lost:
            break
    return gain_of(ratios)
