"""Training time, which evaluations do not count towards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Training time, `used_s` of it before now; evaluation pauses it."""

    def __init__(self, limit_s: float, used_s: float = 0.0) -> None:
        self.limit_s = limit_s
        self._lap = time.perf_counter()
        self._start = self._lap - used_s

    def used_s(self) -> float:
        """Seconds used of the limit; 0 without one, when time decides nothing."""
        return time.perf_counter() - self._start if self.limit_s else 0.0

    def share(self) -> float:
        """The share of the limit that is used; 0 without a limit."""
        return self.used_s() / self.limit_s if self.limit_s else 0.0

    def is_up(self) -> bool:
        """Whether the limit is reached."""
        return bool(self.limit_s) and self.share() >= 1

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self._lap = self._lap, time.perf_counter()
        return max(self._lap - before, 1e-9)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block whose time does not count."""
        began = time.perf_counter()
        yield
        gone = time.perf_counter() - began
        self._start += gone
        self._lap += gone
