"""Two ways of doing a thing, run in turns: how much faster is one, and how sure is that."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

PAIRS = 10  # nine of ten on one side: 1 in 93 by chance; one hiccup of the machine does not decide
FEWEST_PAIRS = 7  # all of seven on one side: 1 in 128; with fewer no interval holds with SURE
SURE = 0.975


@dataclass(frozen=True)
class Gain:
    """By what factor one way is faster than the other: the median of the pairs, and an interval of that median."""

    ratio: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        if self.pairs < FEWEST_PAIRS:  # given up: no interval
            return f"{self.ratio:.2f} × ({self.pairs} {'pair' if self.pairs == 1 else 'pairs'})"
        return f"{self.ratio:.2f} × ({self.low:.2f} … {self.high:.2f})"


def gain_of(ratios: Sequence[float]) -> Gain:
    """The gain of pairs' ratios. The interval holds for noise of any form: it lies between two of the ratios themselves."""
    ordered = sorted(ratios)
    n = len(ordered)
    inner = _left_out(n)
    return Gain(statistics.median(ordered), ordered[inner], ordered[n - 1 - inner], n)


def in_turns(
    first: Callable[[], float],
    second: Callable[[], float],
    pairs: int = PAIRS,
    lost: float | None = None,
    plan: Callable[[int], int] | None = None,
) -> Gain:
    """The gain in rate of `second` over `first`, each run once a pair, in changing order, so that a drift hits both alike.

    With `lost`, a second whose interval can no longer come to lie above it is not run on: what that takes back would have been
    taken back by all pairs too. `plan(done)` says after each pair how many it shall be; let it look at the clock, not at the rates.
    """
    ratios: list[float] = []
    while len(ratios) < pairs:
        if len(ratios) % 2:
            theirs = second()
            ours = first()
        else:
            ours = first()
            theirs = second()
        ratios.append(theirs / ours)
        pairs = plan(len(ratios)) if plan else pairs
        if lost is not None and sum(ratio <= lost for ratio in ratios) > _left_out(max(pairs, len(ratios))):
            break
    return gain_of(ratios)


def _left_out(n: int) -> int:
    """How many of the outermost of `n` ratios the interval leaves out at each end: as many as SURE allows."""
    inner = 0
    while inner + 1 < n - inner - 1 and 1 - 2 * sum(comb(n, k) for k in range(inner + 2)) / 2**n >= SURE:
        inner += 1
    return inner
