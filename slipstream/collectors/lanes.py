"""Where a pipeline produces its items: in a background thread, or on a CUDA stream that the caller's thread feeds.

Both lanes have the same methods: `allow(number)`, `take()`, `settle()`, `restart(number)`, `stop()`, `join()`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

import torch

from slipstream.storage.background import BackgroundWorker

UNLIMITED = 1 << 62
_EXIT_TIMEOUT_S = 10.0  # that the interpreter's exit grants a thread to finish its item
_CHECK_INTERVAL_S = 1.0  # how often a caller that waits checks that the thread still exists


class EndOfItems(Exception):
    """Raised by `produce` when there are no more items."""


@dataclass
class Result:
    """The outcome of one `produce(number)`: an item, or the error in its place."""

    number: int
    item: Any = None
    error: BaseException | None = None

    @property
    def is_end(self) -> bool:
        """Whether there are no more items."""
        return isinstance(self.error, EndOfItems)


class ThreadLane:
    """Call `produce(1)`, `produce(2)`, ... in one thread, each once `allow(number)` was called; at most `depth` items
    wait.

    After an error nothing is produced until it was taken, because later items would build on it; then the same number
    is produced again. All methods belong to one caller thread, except `stop`.
    """

    def __init__(self, produce: Callable[[int], Any], depth: int, set_up: Callable[[], None] | None = None) -> None:
        self._produce = produce
        self._depth = depth
        self._set_up = set_up  # called first, in the thread
        self._worker = BackgroundWorker("collector thread", error=RuntimeError, on_exit=self._leave)
        self._results: deque[Future[Result]] = deque()
        self._next = 1  # the number to be submitted
        self._allowed = 0
        self._failed = False
        self.stopped = False
        self.waited_s = 0.0  # time that the caller spent in `take`

    def allow(self, number: int) -> None:
        """Allow items up to `number`."""
        self._allowed = max(self._allowed, number)
        while self._next <= self._allowed and len(self._results) < self._depth and not (self._failed or self.stopped):
            self._results.append(self._worker.submit(self._run, self._next))
            self._next += 1

    def take(self) -> Result:
        """Wait for the next result. The end is returned again and again."""
        start = time.perf_counter()
        if not self._results:
            raise RuntimeError("no item was allowed")
        result = self._wait(self._results[0])
        if not result.is_end:
            self._results.popleft()
            if result.error is not None:
                self._discard(result.number)
            self.allow(self._allowed)  # there is room for one more
        self.waited_s += time.perf_counter() - start
        return result

    def settle(self) -> None:
        """Wait until nothing is produced and nothing more can be before the next `allow` or `take`."""
        for result in list(self._results):
            self._wait(result)

    def restart(self, number: int) -> None:
        """Discard all items; the next one is `number`, once it is allowed."""
        self._allowed = 0
        self._discard(number)

    @property
    def ready(self) -> int:
        """Items that wait to be taken."""
        return sum(result.done() for result in self._results)

    def stop(self) -> None:
        """End the thread after its current item. Waits for nothing: safe in a finalizer, in any thread, any number of
        times."""
        self.stopped = True
        self._worker.stop()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread."""
        self._worker.close(timeout)

    def _run(self, number: int) -> Result:
        if self._failed or self.stopped:
            return Result(number)  # it is discarded
        try:
            if self._set_up is not None:
                self._set_up()
                self._set_up = None
            return Result(number, self._produce(number))
        except BaseException as error:  # also SystemExit: the caller must receive it
            self._failed = True
            return Result(number, error=error)

    def _wait(self, future: Future[Result]) -> Result:
        while True:
            try:
                return future.result(_CHECK_INTERVAL_S)
            except TimeoutError:
                self._worker.check()  # raises after stop, and in a forked child
            except CancelledError:
                raise RuntimeError("the collector was stopped while a batch was awaited") from None

    def _discard(self, number: int) -> None:
        for result in self._results:
            if not result.cancel():
                self._wait(result)
        self._results.clear()
        self._next, self._failed = number, False

    def _leave(self) -> None:
        """Stop at the interpreter's exit: a thread inside of torch would crash it."""
        self.stop()
        self.join(_EXIT_TIMEOUT_S)


class StreamLane:
    """Queue the items on a CUDA stream of their own, from the caller's thread: if a GPU does the work, a thread would
    only interfere.

    `allow(number)` queues items behind everything that the caller has queued so far; later work of the caller runs
    beside them. `take` makes the caller's stream wait for the item; the host does not wait.
    """

    def __init__(self, produce: Callable[[int], Any], device: torch.device) -> None:
        self._produce = produce
        # High priority: a rollout is a chain of small kernels, which fit beside the learner's large ones.
        self._stream = torch.cuda.Stream(device, priority=-1)
        self._ready: deque[tuple[Result, torch.cuda.Event]] = deque()
        self._next = 1
        self.stopped = False
        self.waited_s = 0.0  # of the host; the learner's timers show the device's

    def allow(self, number: int) -> None:
        """Queue the items up to `number`; nothing behind an error until it was taken."""
        while self._next <= number and not self.stopped and not (self._ready and self._ready[-1][0].error):
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
            start = time.perf_counter()
            with torch.cuda.stream(self._stream):
                try:
                    result = Result(self._next, self._produce(self._next))
                    self._next += 1
                except BaseException as error:
                    result = Result(self._next, error=error)
            self.waited_s += time.perf_counter() - start
            self._ready.append((result, self._stream.record_event()))

    def take(self) -> Result:
        """Return the next result, for the caller's stream. The end is returned again and again."""
        if not self._ready:
            raise RuntimeError("no item was allowed")
        result, done = self._ready[0] if self._ready[0][0].is_end else self._ready.popleft()
        torch.cuda.current_stream(self._stream.device).wait_event(done)
        return result

    def settle(self) -> None:
        """Make the caller's stream wait for everything that was queued."""
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)

    def restart(self, number: int) -> None:
        """Discard all items; the next one is `number`."""
        self.settle()
        self._ready.clear()
        self._next = number

    @property
    def ready(self) -> int:
        """Items queued and not taken."""
        return len(self._ready)

    def stop(self) -> None:
        """Queue no more items."""
        self.stopped = True

    def join(self, timeout: float | None = None) -> None:
        """Do nothing: there is no thread."""
