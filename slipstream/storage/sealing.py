"""The background thread that codes finished blocks with the slow setting."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import Protocol

from slipstream.storage.background import lower_priority


class Sealable(Protocol):
    """What the thread calls."""

    def seal_next(self) -> bool:
        """Code the oldest block that waits; keeps its own errors."""


class Sealer:
    """One thread for all columns of the process, below everything else in priority. It ends with the process, or is never started."""

    def __init__(self) -> None:
        self._tasks: deque[weakref.ref[Sealable]] = deque()
        self._wake = threading.Condition()
        self._started = False

    def submit(self, column: Sealable) -> None:
        """Let `column.seal_next()` run once in the background; a column that is gone by then is skipped."""
        with self._wake:
            if not self._started:
                self._started = True
                threading.Thread(target=self._work, name="slipstream-sealer", daemon=True).start()
            self._tasks.append(weakref.ref(column))
            self._wake.notify()

    def _work(self) -> None:
        lower_priority(5)  # 10 leaves it a hundredth of a busy machine, and `flush` waits for it
        while True:
            with self._wake:
                while not self._tasks:
                    self._wake.wait()
                reference = self._tasks.popleft()
            column = reference()
            if column is not None:
                column.seal_next()
            del column


_sealer = Sealer()


def _after_fork() -> None:
    """A child has no sealing thread, and its lock may have been held: begin anew. `flush()` there does the waiting work itself."""
    global _sealer
    _sealer = Sealer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def sealer() -> Sealer:
    """The process's sealer."""
    return _sealer
