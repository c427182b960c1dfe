"""A thread that makes numbered items ahead of their use, no further than it was told to."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

UNLIMITED = 1 << 62
_LEAVE_S = 10.0  # what the interpreter's exit grants a thread in the middle of its work
_LOOK_S = 1.0  # how often whoever waits looks whether the thread is still there


class End(Exception):
    """Raised by `make`: there are no more items."""


@dataclass
class Made:
    """What came of one call of `make`: an item, or the error in its place; neither where there are no more."""

    number: int
    item: Any = None
    error: BaseException | None = None

    @property
    def is_end(self) -> bool:
        """Nothing follows."""
        return isinstance(self.error, End)


class Worker:
    """Calls `make(1)`, `make(2)`, ... in one thread, each once `allow(number)` was said, at most `depth` items waiting.

    The thread is started by the first `allow`, knows nothing but this object, and ends with `stop`. An error takes the place of its
    item: `take` gives it when its turn comes, and after it the same number is made again if somebody asks.
    """

    def __init__(
        self, make: Callable[[int], Any], depth: int, name: str, begin: Callable[[], None] = lambda: None
    ) -> None:
        self._make = make
        self._begin = begin  # called first, in the thread
        self._depth = depth
        self._name = name
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        # Reentrant: the garbage collector may call `stop` in a thread that holds it.
        self._changed = threading.Condition(threading.RLock())
        self._ready: deque[Made] = deque()
        self._next = 1  # the number to be made
        self._allowed = 0
        self._busy = False
        self._stopped = False
        self.waited_s = 0.0  # in `take`: the time that whoever takes stood still
        _live.add(self)

    # -- by whoever takes --------------------------------------------------------------------------------------------

    def allow(self, number: int) -> None:
        """Items up to `number` may be made."""
        with self._changed:
            self._allowed = max(self._allowed, number)
            ended = bool(self._ready) and self._ready[-1].is_end
            if not (self._stopped or ended or self._is_running()):
                self._raise_if_forked()
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def take(self) -> Made:
        """The next item, waited for; the end stays, whoever asks."""
        began = time.perf_counter()
        with self._changed:
            while not self._ready:
                self._raise_if_gone()
                self._changed.wait(_LOOK_S)
            made = self._ready[0] if self._ready[0].is_end else self._ready.popleft()
            self._changed.notify_all()
        self.waited_s += time.perf_counter() - began
        return made

    def peek(self) -> Any:
        """The item that `take` would give at once; None where it would wait, or raise."""
        with self._changed:
            return self._ready[0].item if self._ready else None

    def settle(self) -> None:
        """Waits until nothing is being made and nothing more can be, before the next `allow` or `take`."""
        with self._changed:
            while self._is_running() and (self._busy or self._may_make()):
                self._raise_if_gone()
                self._changed.wait(_LOOK_S)

    def restart(self, number: int) -> None:
        """Forgets what was made; the next item is `number`, once it is allowed."""
        with self._changed:
            self._allowed = 0
            while self._busy:
                self._raise_if_gone()
                self._changed.wait(_LOOK_S)
            self._ready.clear()
            self._next = number

    @property
    def ready(self) -> int:
        """Items that wait to be taken."""
        return len(self._ready)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Lets the thread end after what it is making now. Waits for nothing: safe in a finaliser, in any thread, any number of times."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Waits for the thread's end, not for itself; whether it has ended."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._begin()
        except BaseException as error:
            self._put(Made(self._next, error=error))
        while True:
            with self._changed:
                while not self._stopped and not self._may_make():
                    self._changed.wait()
                if self._stopped:
                    return
                number, self._busy = self._next, True
            try:
                made = Made(number, self._make(number))
            except BaseException as error:  # also SystemExit: whoever waits must hear of it
                made = Made(number, error=error)
            self._put(made)
            if made.is_end:
                return
            del made  # what waits for the learner must not be held here as well

    def _put(self, made: Made) -> None:
        with self._changed:
            self._ready.append(made)
            self._next += made.error is None
            self._busy = False
            self._changed.notify_all()

    def _may_make(self) -> bool:
        # Behind an error nothing is made until it was taken: what follows would be built on it.
        failed = bool(self._ready) and self._ready[-1].error is not None
        return self._next <= self._allowed and len(self._ready) < self._depth and not failed

    def _raise_if_gone(self) -> None:
        if self._stopped:
            raise RuntimeError("the collecting thread was stopped while somebody waited for it")
        self._raise_if_forked()
        if not self._is_running():
            raise RuntimeError("the collecting thread is gone")

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _raise_if_forked(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this collector's thread stayed in the process that was forked: build a new collector here"
            )


_live: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """A thread that is inside of torch while the interpreter is torn down would crash it."""
    workers = list(_live)
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join(_LEAVE_S)
