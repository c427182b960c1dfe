"""A clock that the tests move by hand."""

from __future__ import annotations


class Clock:
    """Seconds that pass only when a test moves them."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pass_ms(self, ms: float) -> None:
        self.now_s += ms / 1e3
