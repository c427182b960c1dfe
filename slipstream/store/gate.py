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

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Shared. Not to be nested: a writer may be waiting between the two."""
        with self._changed:
            while self._writers:
                self._changed.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                if not self._readers and self._writers:
                    self._changed.notify_all()

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
