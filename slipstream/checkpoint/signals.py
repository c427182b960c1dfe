"""Signals that leave a resumable run: the handler only sets a flag; the training loop ends its iteration, saves and
leaves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

STOP_SIGNALS = [  # Windows has two of them
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
]
SAME_S = 0.5  # signals this close are one: `timeout -s INT` and schedulers send it to the process and to its group


class StopFlag:
    """Set by the first of `STOP_SIGNALS`. A second SIGINT ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._came_s = 0.0
        self._previous: dict[int, Any] = {}
        self._on_stop: Callable[[int], None] | None = None

    @property
    def requested(self) -> bool:
        """True after a stop signal."""
        return self.signal is not None

    def install(self, on_stop: Callable[[int], None] | None = None) -> None:
        """Take over the stop signals; main thread only. `on_stop(signum)` runs at the first one, between two
        bytecodes. A signal that is ignored stays ignored, as SIGHUP under `nohup`; SIGINT is taken in any case, because
        a shell lets its background processes ignore it."""
        self._on_stop = on_stop
        for signum in STOP_SIGNALS:
            if signum != signal.SIGINT and signal.getsignal(signum) == signal.SIG_IGN:
                continue
            previous = signal.signal(signum, self._handle)
            self._previous.setdefault(signum, previous)

    def restore(self) -> None:
        """Give the signals back to whoever had them before `install`."""
        while self._previous:
            signum, previous = self._previous.popitem()
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, previous if previous is not None else signal.SIG_DFL)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.requested:
            if signum == signal.SIGINT and time.monotonic() - self._came_s > SAME_S:
                # files appear complete or not at all, so leaving here loses only what was still queued
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGINT)
            return
        self._came_s = time.monotonic()  # first: a second signal may come between any two lines of this one
        self.signal = signum
        if self._on_stop is not None:
            self._on_stop(signum)
