"""What one name has recorded: the last durations, and the figures that describe them."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice

PERCENTILES = (50, 90, 99)


class Series:
    """The last durations of one name in ms, and how many and how much there were in all."""

    __slots__ = ("last_ms", "count", "total_ms")

    def __init__(self, history: int) -> None:
        self.last_ms: deque[float] = deque(maxlen=history)
        self.count = 0
        self.total_ms = 0.0

    def add(self, duration_ms: float) -> None:
        """One more duration."""
        self.last_ms.append(duration_ms)
        self.count += 1
        self.total_ms += duration_ms

    def newest(self, window: int) -> list[float]:
        """The last `window` durations, the newest first."""
        return list(islice(reversed(self.last_ms), window))


def describe(newest_first_ms: list[float], count: int, total_ms: float) -> dict[str, float]:
    """Mean, deviation, extremes, percentiles and last of a window; count and total of all."""
    n = len(newest_first_ms)
    ordered = sorted(newest_first_ms)
    mean = sum(ordered) / n
    return {
        "mean": mean,
        "std": math.dist(ordered, [mean] * n) / math.sqrt(n),
        "min": ordered[0],
        "max": ordered[-1],
        "p50": percentile(ordered, 0.50),
        "p90": percentile(ordered, 0.90),
        "p99": percentile(ordered, 0.99),
        "last": newest_first_ms[0],
        "count": count,
        "total": total_ms,
    }


def percentile(ordered: list[float], share: float) -> float:
    """The value below which `share` of the `ordered` values lie, between two neighbours in a straight line."""
    at = share * (len(ordered) - 1)
    below = int(at)
    if below + 1 >= len(ordered):
        return ordered[-1]
    return ordered[below] + (at - below) * (ordered[below + 1] - ordered[below])
