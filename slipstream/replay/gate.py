"""Many may read at once; whoever removes what they read waits for them, and they for him."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Gate:
    """A readers-writer lock in which a waiting writer goes before new readers, so that neither side starves the other."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._readers = 0
        self._writers = 0  # inside or waiting
        self._busy = False
        self.reading = _Reading(self)

    @contextlib.contextmanager
    def removing(self) -> Iterator[None]:
        """Alone."""
        with self._changed:
            self._writers += 1
            while self._readers or self._busy:
                self._changed.wait()
            self._busy = True
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._writers -= 1
                self._changed.notify_all()


class _Reading:
    """`with gate.reading:` is shared. Not to be nested: a writer may be waiting between the two. (A generator would take twice as long.)"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        gate = self._gate
        with gate._changed:
            while gate._writers:
                gate._changed.wait()
            gate._readers += 1

    def __exit__(self, *exc: object) -> None:
        gate = self._gate
        with gate._changed:
            gate._readers -= 1
            if not gate._readers and gate._writers:
                gate._changed.notify_all()
