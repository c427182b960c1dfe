"""PerformanceMonitor: how long each phase of a loop takes on the host."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock


class PerformanceMonitor:
    """Named timers with rolling statistics, safe to share between threads.

    It never waits for a device: on CUDA a timer holds the time to launch the work, unless what it encloses reads
    something back. Timers nest, and an inner timer's time is also in the outer one's; name it "outer/inner", so that
    readers who add phases up can tell.

    `clock` gives seconds. `history` is how many of the last durations each name keeps, the largest useful `window`.
    """

    def __init__(self, history: int = 1000, clock: Callable[[], float] = time.perf_counter) -> None:
        if history < 1:
            raise ValueError(f"history must be at least 1, not {history}")
        self._history = history
        self._clock = clock
        self._lock = Lock()
        self._series: dict[str, _Series] = {}

    @contextmanager
    def timer(self, name: str) -> Iterator[None]:
        """Times a `with` block, or every call of the function it decorates; one that raises is timed too."""
        start = self._clock()
        try:
            yield
        finally:
            self._record(name, 1e3 * (self._clock() - start))

    def get_stats(self, window: int = 100) -> dict[str, dict[str, float]]:
        """Per name, in milliseconds: mean, std, min, max and last of the last `window` calls; count and total of all since `reset`."""
        if window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        with self._lock:
            copies = {name: (list(islice(reversed(s.last_ms), window)), s.count, s.total_ms) for name, s in self._series.items()}
        return {name: _stats(*copy) for name, copy in copies.items()}

    def get_summary(self, window: int = 100) -> str:
        """The statistics as text, one line a name: mean, standard deviation, [min, max]."""
        lines = ["=== Performance Summary ==="]
        for name, s in self.get_stats(window).items():
            lines.append(f"{name:<25}: {s['mean']:7.2f} ms (±{s['std']:6.2f} ms) [{s['min']:6.2f}, {s['max']:6.2f}]")
        return "\n".join(lines)

    def reset(self) -> None:
        """Forgets everything timed so far; a timer that is running still records when it ends."""
        with self._lock:
            self._series.clear()

    def _record(self, name: str, duration_ms: float) -> None:
        with self._lock:
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = _Series(self._history)
            series.last_ms.append(duration_ms)
            series.count += 1
            series.total_ms += duration_ms


class _Series:
    """What one name has recorded."""

    __slots__ = ("last_ms", "count", "total_ms")

    def __init__(self, history: int) -> None:
        self.last_ms: deque[float] = deque(maxlen=history)
        self.count = 0
        self.total_ms = 0.0


def _stats(newest_first_ms: list[float], count: int, total_ms: float) -> dict[str, float]:
    n = len(newest_first_ms)
    mean = math.fsum(newest_first_ms) / n
    return {
        "mean": mean,
        "std": math.sqrt(math.fsum((x - mean) ** 2 for x in newest_first_ms) / n),
        "min": min(newest_first_ms),
        "max": max(newest_first_ms),
        "last": newest_first_ms[0],
        "count": count,
        "total": total_ms,
    }
