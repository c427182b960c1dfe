"""A few long-lived threads for native work. Unlike an executor's, they still take work while the interpreter shuts down."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any


class Workers:
    """`count` daemon threads; with `nice` > 0 the system runs them after everything else of this process."""

    def __init__(self, count: int | None = None, nice: int = 0) -> None:
        self.count = count or min(4, os.cpu_count() or 1)
        self.nice = nice
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._pid = 0
        self._lock = threading.Lock()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """`function(item)` for each item, in order; at most 2 x count + 1 results wait at a time."""
        self._start()
        pending: deque[Future[Any]] = deque()
        try:
            for item in items:
                future: Future[Any] = Future()
                self._tasks.put((future, function, item))
                pending.append(future)
                if len(pending) > 2 * self.count:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:  # after an error: leave no thread writing into memory that the caller lets go
                if not future.cancel():
                    future.exception()

    def close(self) -> None:
        """End the threads once their work is done."""
        with self._lock:
            for _ in self._threads:
                self._tasks.put(None)
            self._threads = []

    def _start(self) -> None:
        with self._lock:
            if self._pid != os.getpid():  # first use, or first use after a fork, which leaves no threads behind
                self._pid, self._threads, self._tasks = os.getpid(), [], queue.SimpleQueue()
            while len(self._threads) < self.count:
                thread = threading.Thread(target=self._work, args=(self._tasks,), name="slipstream-codec", daemon=True)
                thread.start()
                self._threads.append(thread)

    def _work(self, tasks: queue.SimpleQueue[Any]) -> None:
        lower_priority(self.nice)
        while (task := tasks.get()) is not None:
            future, function, item = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(item))
            except BaseException as error:
                future.set_exception(error)
            del task, future, function, item


def lower_priority(nice: int) -> None:
    """Let the calling thread alone run after others (Linux gives every thread its own priority; elsewhere nothing happens)."""
    if nice and sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
