"""Work beside the training: one thread with a queue, whose errors reach the caller, and a map over several threads."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from slipstream.storage.errors import SaveError

THREADS = min(4, os.cpu_count() or 1)  # of `map_in_threads`
SAVER_NICE = 10  # training comes first: the threads of a saver take the time that it leaves


class _Task(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    label: str
    future: Future[Any]


class BackgroundWorker:
    """A thread that runs submitted functions in order.

    It is a daemon, is started on first use, and still takes work while the interpreter shuts down (an executor refuses
    it then). An error of a function is raised by the next `check`, `wait` or `raise_errors`.

    Args:
        name: what messages call this worker, such as "checkpoint saver".
        nice: priority of the thread; above 0 the system runs it after the rest of the process.
        error: class of the errors raised.
        restart_after_fork: start again, empty, in a forked child; otherwise the child is refused.
        on_exit: called when the interpreter exits before `close`.
    """

    _running: _Task | None
    _thread: threading.Thread | None
    _changed: threading.Condition

    def __init__(
        self,
        name: str,
        *,
        nice: int = 0,
        error: type[RuntimeError] = SaveError,
        restart_after_fork: bool = False,
        on_exit: Callable[[], Any] | None = None,
    ) -> None:
        self.name, self.nice = name, nice
        self.dropped = self.failed = 0
        self.durations_ms: deque[float] = deque(maxlen=1000)
        self._error, self._restart_after_fork, self._on_exit = error, restart_after_fork, on_exit
        self._in_child = self._closing = False
        self._errors: list[tuple[str, BaseException]] = []
        self._reset()
        _live.add(self)

    def submit(self, function: Callable[..., Any], *args: Any, label: str = "") -> Future[Any]:
        """Queue `function(*args)`; messages call it `label`. A task that is dropped has a cancelled future."""
        task = _Task(function, args, label, Future())
        with self._changed:
            if self._closing or self._in_child:
                self.check()
            self._tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"slipstream {self.name}", daemon=True)
                self._thread.start()
                if self._on_exit is not None:
                    atexit.register(self._exit)
            self._changed.notify_all()
        return task.future

    @property
    def waiting(self) -> int:
        """How many tasks wait besides the running one."""
        return len(self._tasks)

    def make_room(self, size: int, drop: bool = False) -> None:
        """Return when fewer than `size` tasks wait: wait for that, or drop those that waited longest."""
        with self._changed:
            if not drop:
                self._changed.wait_for(lambda: self.waiting < size)
            while self.waiting >= size:
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
        """Raise the errors that were not raised before."""
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
            return [task.label for task in (self._running, *self._tasks) if task is not None]

    def __len__(self) -> int:
        return self.waiting + (self._running is not None)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all tasks are done; raise the errors of those that failed."""
        with self._changed:
            if not self._changed.wait_for(lambda: not len(self), timeout):
                raise self._unfinished(timeout)
        self.raise_errors()

    def close(self, timeout: float | None = None) -> bool:
        """Finish the queue and end the thread. Errors of tasks are not raised: see `raise_errors`. May be called twice.

        Returns:
            False in a forked child, which owns neither the thread nor the files.
        """
        if self._in_child:
            return False
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise self._unfinished(timeout)
        atexit.unregister(self._exit)
        return True

    def stop(self) -> None:
        """Drop the queue and end the thread after its running task. Does not wait: safe in a finalizer, in any
        thread."""
        with self._changed:
            self._closing = True
            while self._tasks:
                self._tasks.popleft().future.cancel()
            self._changed.notify_all()
        atexit.unregister(self._exit)

    def _unfinished(self, timeout: float | None) -> RuntimeError:
        return self._error(f"{len(self)} tasks of the {self.name} are unfinished after {timeout} s: give it more time")

    def _work(self) -> None:
        if self.nice and sys.platform == "linux":  # where every thread has its own priority
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self.nice)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._tasks or self._closing)
                if not self._tasks:
                    return
                self._running = self._tasks.popleft()
                self._changed.notify_all()
            self._run(self._running)

    def _run(self, task: _Task) -> None:
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
            self.durations_ms.append(1e3 * (time.perf_counter() - start))
            if error is not None:
                self._errors.append((task.label, error))
                self.failed += 1
            self._running = None
            self._changed.notify_all()

    def _exit(self) -> None:
        """Finish the queue when the interpreter exits without `close`."""
        if self._on_exit is not None and not self._in_child:
            with contextlib.suppress(self._error):
                self._on_exit()

    def _reset(self) -> None:
        self._tasks: deque[_Task] = deque()
        self._running = None
        self._thread = None
        # its lock can be taken twice: the garbage collector may call `stop` in a thread that holds it
        self._changed = threading.Condition(threading.RLock())

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


def map_in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield `function(item)` for each item, in order; `THREADS` threads are a few items ahead of the caller.

    The threads have the caller's priority and live as long as the iterator, so that forks need no care. An error is
    raised at its item, when no thread uses the caller's memory any more.
    """
    waiting: deque[Callable[[], Any]] = deque()
    with ThreadPoolExecutor(THREADS, "slipstream map") as pool:
        for item in items:
            try:
                waiting.append(pool.submit(function, item).result)
            except RuntimeError:  # the interpreter exits: there are no more threads
                waiting.append(functools.partial(function, item))
            if len(waiting) > 2 * THREADS:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def run_in_threads(function: Callable[[Any], Any], items: Sequence[Any], least: int = 2) -> None:
    """Call `function(item)` for each item; in several threads if there are `least` of them.

    Threads take runs of items: handing one over takes 30 us.
    """
    step = max(1, len(items) // (4 * THREADS))

    def run(start: int) -> None:
        for item in items[start : start + step]:
            function(item)

    starts = range(0, len(items), step)
    deque(map_in_threads(run, starts) if len(items) >= least else map(run, starts), maxlen=0)


def close_after(close: Callable[[], Any], failure: type[SaveError], error: BaseException | None) -> None:
    """Close at the end of a `with` block that may have ended in `error`: that one is raised, with the failure to save
    as a note."""
    try:
        close()
    except failure as failed:
        if error is None:
            raise
        error.add_note(f"and: {failed}")
