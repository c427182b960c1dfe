"""Jobs that one background thread does in order: a bounded queue, and errors that reach the caller."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from slipstream.storage.codec.workers import lower_priority
from slipstream.storage.errors import SaveError

POLICIES = ("block", "drop_oldest", "keep_newest", "raise")
NICE = 10  # the training comes first: a saver's threads take what it leaves

Job = TypeVar("Job")


class SaveQueue(Generic[Job]):
    """Calls `write(job)` in a thread, then `release(job)`; `release` also takes what is dropped.

    size: jobs that may wait, besides the one being written. policy: what `make_room` does when that many wait: "block";
    "drop_oldest" of those waiting; "keep_newest" (drop all that wait); "raise". What goes wrong in the thread is raised, as
    `error`, by the next `check`, `wait` or `close`. `name_of(job)` is how messages call a job, `owner` how they call the saver.
    """

    def __init__(
        self,
        write: Callable[[Job], None],
        release: Callable[[Job], None],
        name_of: Callable[[Job], str],
        size: int,
        policy: str,
        error: type[SaveError],
        owner: str,
        say: Callable[[str], None],
        on_exit: Callable[[], None],
    ) -> None:
        if size < 1:
            raise ValueError(f"max_queue_size ({size}) must be at least 1")
        if policy not in POLICIES:
            raise ValueError(f"queue_policy is {policy!r}: use one of {', '.join(POLICIES)}")
        self._write, self._release, self._name_of, self._say = write, release, name_of, say
        self.size, self.policy, self._error, self._owner = size, policy, error, owner
        self.dropped = self.failed = 0
        self.background_ms: deque[float] = deque(maxlen=1000)
        self._jobs: deque[Job] = deque()
        self._current: Job | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._errors: list[tuple[str, BaseException]] = []
        self._pid = os.getpid()
        self._on_exit = on_exit  # `close` of the owner: the interpreter may leave without it
        self._thread = threading.Thread(target=self._work, name=f"slipstream-{owner}", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def check(self) -> None:
        """Raises what went wrong, and where nothing can be taken any more."""
        if os.getpid() != self._pid:
            raise self._error(f"this {self._owner} belongs to the parent process: make one after the fork")
        if self._closing or not self._thread.is_alive():
            raise self._error(f"this {self._owner} is shut down: make a new one")
        self.raise_errors()

    def make_room(self) -> None:
        """Returns when one more job may be put; does what the policy says where that many wait."""
        with self._changed:
            if len(self._jobs) < self.size:
                return
            if self.policy == "raise":
                raise self._error(
                    f"{len(self._jobs)} snapshots wait to be written: save less often, or choose another queue_policy"
                )
            if self.policy == "block":
                self._say("the queue is full: waiting")
                self._changed.wait_for(lambda: len(self._jobs) < self.size)
                return
            while len(self._jobs) >= (self.size if self.policy == "drop_oldest" else 1):
                dropped = self._jobs.popleft()
                self._release(dropped)
                self.dropped += 1
                self._say(f"the queue is full: {self._name_of(dropped)} is not written")

    def put(self, job: Job) -> None:
        """Appends a job."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()

    def pending(self) -> list[Job]:
        """The jobs that are not done, oldest first."""
        with self._changed:
            return [*([] if self._current is None else [self._current]), *self._jobs]

    def __len__(self) -> int:
        return len(self.pending())

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until everything is done; raises what went wrong."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._jobs and self._current is None, timeout):
                raise self._error(f"{len(self)} saves are still unfinished after {timeout} s")
        self.raise_errors()

    def wait_for_error(self, timeout: float | None = None) -> bool:
        """Blocks until something has gone wrong; whether it has."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._errors, timeout))

    def close(self, timeout: float | None) -> bool:
        """Finishes the queue and ends the thread; False in a forked child, which owns neither. Does not raise what went wrong."""
        if os.getpid() != self._pid:
            return False
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise self._error(f"{len(self)} saves are unfinished after {timeout} s: give shutdown more time")
        atexit.unregister(self._at_exit)
        return True

    def raise_errors(self) -> None:
        """Raises what went wrong and was not raised before."""
        with self._changed:
            errors, self._errors = self._errors, []
        if errors:
            name, error = errors[0]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise self._error(f"saving {name} failed{more}: {type(error).__name__}: {error}") from error

    def _work(self) -> None:
        lower_priority(NICE)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                job = self._current = self._jobs.popleft()
                self._changed.notify_all()
            start = time.perf_counter()
            error: BaseException | None = None
            try:
                self._write(job)
            except BaseException as caught:
                error = caught
            with self._changed:
                if error is not None:
                    self._errors.append((self._name_of(job), error))
                    self.failed += 1
                    self._say(f"saving {self._name_of(job)} failed: {error}")
                self._release(job)
                self.background_ms.append(1e3 * (time.perf_counter() - start))
                self._current = None
                self._changed.notify_all()
            del job, error

    def _at_exit(self) -> None:
        """The interpreter leaves without a `close`: do what is queued all the same."""
        with contextlib.suppress(self._error):
            self._on_exit()


def close_after(close: Callable[[], None], failure: type[SaveError], error: BaseException | None) -> None:
    """Close at the end of a `with` block that may have ended in `error`: that comes first, and a failure to save is noted with it."""
    try:
        close()
    except failure as failed:
        if error is None:
            raise
        error.add_note(f"and: {failed}")


def timings(blocking_ms: deque[float], background_ms: deque[float]) -> dict[str, Any]:
    """What saves cost, for `get_stats`: median and 99th percentile of either list."""
    import numpy as np

    stats = {}
    for name, times in (("blocking", list(blocking_ms)), ("background", list(background_ms))):
        stats[f"{name}_ms_median"] = float(np.median(times)) if times else 0.0
        stats[f"{name}_ms_p99"] = float(np.percentile(times, 99)) if times else 0.0
    return stats
