"""A clock of training time: evaluations do not count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Training time, with or without (0) a limit; `used_s` seconds were used before."""

    def __init__(self, limit_s: float, used_s: float = 0.0) -> None:
        self.limit_s = limit_s
        self._lap = time.perf_counter()
        self._start = self._lap - used_s

    def used_s(self) -> float:
        """Return the training time so far, in seconds."""
        return time.perf_counter() - self._start

    def share(self) -> float:
        """Return the share of the limit that is used; 0 without a limit."""
        return self.used_s() / self.limit_s if self.limit_s else 0.0

    def is_up(self) -> bool:
        """Return whether the limit is reached."""
        return bool(self.limit_s) and self.share() >= 1

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        before, self._lap = self._lap, time.perf_counter()
        return max(self._lap - before, 1e-9)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of a block."""
        began = time.perf_counter()
        yield
        gone = time.perf_counter() - began
        self._start += gone
        self._lap += gone
