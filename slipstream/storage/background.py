"""The one background worker: threads that take work from a queue, and errors that reach the caller."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

from slipstream.storage.errors import SaveError

QUEUE_POLICIES = ("block", "drop_oldest", "raise")
SAVER_NICE = 10  # training comes first: the threads of a saver take the time that it leaves


class _Task(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    label: str
    future: Future[Any]
    reported: bool  # an error is raised by the next `check`, not only by the future


class BackgroundWorker:
    """One or more threads that run submitted functions in order.

    The threads are daemons, are started on first use, and still take work while the interpreter shuts down (an executor
    refuses it then). An error of a submitted function is raised by the next `check`, `wait` or `raise_errors`.

    Args:
        name: what messages call this worker, such as "checkpoint saver".
        threads: how many; None for one per core, at most 4. One thread keeps the order of the tasks.
        max_queue_size: tasks that may wait besides the running ones; None for any number.
        queue_policy: what `make_room` does when that many wait: "block", "drop_oldest", "raise".
        nice: priority of the threads; above 0 the system runs them after the rest of the process.
        error: class of the errors raised.
        restart_after_fork: start again, empty, in a forked child; otherwise the child is refused.
        on_exit: called when the interpreter exits before `close`.
        on_full: called when `make_room` finds the queue full, before it waits or drops; not if it raises.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int | None = 1,
        max_queue_size: int | None = None,
        queue_policy: str = "block",
        nice: int = 0,
        error: type[RuntimeError] = SaveError,
        restart_after_fork: bool = False,
        on_exit: Callable[[], Any] | None = None,
        on_full: Callable[[], Any] | None = None,
    ) -> None:
        if max_queue_size is not None and max_queue_size < 1:
            raise ValueError(f"max_queue_size={max_queue_size} must be at least 1")
        if queue_policy not in QUEUE_POLICIES:
            raise ValueError(f"queue_policy={queue_policy!r} is unknown: use one of {', '.join(QUEUE_POLICIES)}")
        self.name, self.threads, self.nice = name, threads or min(4, os.cpu_count() or 1), nice
        self.max_queue_size, self.queue_policy = max_queue_size, queue_policy
        self.dropped = self.failed = 0
        self.durations_ms: deque[float] = deque(maxlen=1000)  # of submitted functions
        self._error, self._restart_after_fork = error, restart_after_fork
        self._on_exit, self._on_full = on_exit, on_full
        self._in_child = self._closing = False
        self._errors: list[tuple[str, BaseException]] = []
        self._reset()
        _live.add(self)

    def submit(self, function: Callable[..., Any], *args: Any, label: str = "") -> Future[Any]:
        """Queue `function(*args)`; messages call it `label`. A task that is dropped has a cancelled future."""
        return self._put(_Task(function, args, label, Future(), True))

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield `function(item)` for each item, in order; at most 2 x threads + 1 are in flight. Errors are raised
        here."""
        pending: deque[Future[Any]] = deque()
        try:
            for item in items:
                pending.append(self._put(_Task(function, (item,), "", Future(), False)))
                if len(pending) > 2 * self.threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:  # after an error: no thread may still write to memory of the caller
                if not future.cancel():
                    future.exception()

    def make_room(self) -> None:
        """Return when one more task may be queued, after doing what `queue_policy` says. Call it before an expensive
        snapshot."""
        if self.max_queue_size is None:
            return
        with self._changed:
            if len(self._tasks) < self.max_queue_size:
                return
            if self.queue_policy == "raise":
                raise self._error(
                    f"{len(self._tasks)} tasks wait for the {self.name}: save less often, or choose another queue_policy"
                )
            if self._on_full is not None:
                self._on_full()
            if self.queue_policy == "block":
                self._changed.wait_for(lambda: len(self._tasks) < (self.max_queue_size or 1))
            while len(self._tasks) >= self.max_queue_size:
                self._tasks.popleft().future.cancel()
                self.dropped += 1

    def check(self) -> None:
        """Raise the error of an earlier task; refuse after `close` and in a forked child."""
        if self._in_child:
            raise self._error(f"this {self.name} belongs to the parent process: make one after the fork")
        if self._closing:
            raise self._error(f"this {self.name} is shut down: make a new one")
        self.raise_errors()

    def raise_errors(self) -> None:
        """Raise the errors of submitted functions that were not raised before."""
        with self._changed:
            errors, self._errors = self._errors, []
        if errors:
            label, error = errors[0]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            at = f" at {label}" if label else ""
            raise self._error(f"the {self.name} failed{at}{more}: {type(error).__name__}: {error}") from error

    def pending(self) -> list[str]:
        """The labels of the tasks that are not done, oldest first."""
        with self._changed:
            return [task.label for task in (*self._running, *self._tasks)]

    def __len__(self) -> int:
        return len(self._running) + len(self._tasks)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all tasks are done; raise the errors of those that failed."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._tasks and not self._running, timeout):
                raise self._error(f"{len(self)} tasks of the {self.name} are unfinished after {timeout} s")
        self.raise_errors()

    def close(self, timeout: float | None = None) -> bool:
        """Finish the queue and end the threads. Errors of tasks are not raised: see `raise_errors`. May be called
        twice.

        Returns:
            False in a forked child, which owns neither the threads nor the files.
        """
        if self._in_child:
            return False
        with self._changed:
            self._closing = True
            self._ready.notify_all()
            others: list[threading.Thread] = [
                thread for thread in self._threads if thread is not threading.current_thread()
            ]
        end = None if timeout is None else time.monotonic() + timeout
        for thread in others:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
            if thread.is_alive():
                raise self._error(
                    f"{len(self)} tasks of the {self.name} are unfinished after {timeout} s: give it more time"
                )
        self._threads.clear()
        atexit.unregister(self._exit)
        return True

    def stop(self) -> None:
        """Drop the queue and end the threads after their running tasks. Does not wait: safe in a finalizer, in any
        thread."""
        with self._changed:
            self._closing = True
            while self._tasks:
                self._tasks.popleft().future.cancel()
            self._ready.notify_all()
            self._changed.notify_all()
        atexit.unregister(self._exit)

    def _put(self, task: _Task) -> Future[Any]:
        with self._changed:
            if self._closing or self._in_child:
                self.check()
            self._tasks.append(task)
            if len(self._threads) < min(self.threads, len(self)):
                thread = threading.Thread(target=self._work, name=f"slipstream {self.name}", daemon=True)
                with contextlib.suppress(RuntimeError):  # the interpreter is about to end
                    thread.start()
                    self._threads.append(thread)
                    if self._on_exit is not None and len(self._threads) == 1:
                        atexit.register(self._exit)
            self._ready.notify()
        if not self._threads:
            self._run(self._next())
        return task.future

    def _work(self) -> None:
        lower_priority(self.nice)
        while (task := self._next(wait=True)) is not None:
            self._run(task)
            del task

    def _next(self, wait: bool = False) -> _Task | None:
        with self._changed:
            while wait and not self._tasks and not self._closing:
                self._ready.wait()
            if not self._tasks:
                return None
            task = self._tasks.popleft()
            self._running.append(task)
            self._changed.notify_all()
            return task

    def _run(self, task: _Task | None) -> None:
        if task is None:
            return
        start = time.perf_counter()
        error: BaseException | None = None
        if task.future.set_running_or_notify_cancel():
            try:
                result = task.function(*task.args)
            except BaseException as caught:
                error = caught
            # before the task counts as done, so that whoever waits finds what the future's callbacks give back
            task.future.set_result(result) if error is None else task.future.set_exception(error)
        with self._changed:
            if task.reported:
                self.durations_ms.append(1e3 * (time.perf_counter() - start))
                if error is not None:
                    self._errors.append((task.label, error))
                    self.failed += 1
            self._running.remove(task)
            self._changed.notify_all()

    def _exit(self) -> None:
        """Finish the queue when the interpreter exits without `close`."""
        if self._on_exit is not None and not self._in_child:
            with contextlib.suppress(self._error):
                self._on_exit()

    def _reset(self) -> None:
        self._tasks: deque[_Task] = deque()
        self._running: list[_Task] = []
        self._threads: list[threading.Thread] = []
        lock = threading.RLock()  # the garbage collector may call `stop` in a thread that holds it
        self._ready: threading.Condition = threading.Condition(lock)  # the threads wait for tasks
        self._changed: threading.Condition = threading.Condition(lock)  # callers wait for room, or for the end

    def _after_fork(self) -> None:
        """A child has no threads, and the lock may have been held: start again, or refuse."""
        self._reset()
        self._in_child = not self._restart_after_fork


_live: weakref.WeakSet[BackgroundWorker] = weakref.WeakSet()


def _after_fork() -> None:
    for worker in list(_live):
        worker._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def lower_priority(nice: int) -> None:
    """Run the calling thread after others. Linux gives every thread its own priority; elsewhere this does nothing."""
    if nice and sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def close_after(close: Callable[[], Any], failure: type[SaveError], error: BaseException | None) -> None:
    """Close at the end of a `with` block that may have ended in `error`: that one is raised, with the failure to save
    as a note."""
    try:
        close()
    except failure as failed:
        if error is None:
            raise
        error.add_note(f"and: {failed}")
