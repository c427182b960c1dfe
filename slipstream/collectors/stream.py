"""Items made on a CUDA stream of their own by the caller's thread: where a device does the work, a thread would only get in the way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from slipstream.collectors.worker import Made


class StreamLane:
    """As `Worker`: `allow(number)` queues the work of item `number` on the side stream, behind all that the caller has queued so far.

    What the caller queues after it runs beside it. `take` lets the caller's stream wait for the item; the host does not wait.
    """

    def __init__(self, make: Callable[[int], Any], device: torch.device) -> None:
        self._make = make
        # Before the learner's: a rollout is a chain of small kernels, which fit beside the large ones if they are let in.
        self._stream = torch.cuda.Stream(device, priority=-1)
        self._ready: deque[tuple[Made, torch.cuda.Event]] = deque()
        self._next = 1
        self.stopped = False
        self.waited_s = 0.0  # the host's; the device's is in the learner's timers

    def allow(self, number: int) -> None:
        """Queues the items up to `number`; behind an error nothing, until it was taken."""
        while self._next <= number and not self.stopped and not (self._ready and self._ready[-1][0].error):
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
            began = time.perf_counter()
            with torch.cuda.stream(self._stream):
                try:
                    made = Made(self._next, self._make(self._next))
                    self._next += 1
                except BaseException as error:
                    made = Made(self._next, error=error)
            self.waited_s += time.perf_counter() - began
            self._ready.append((made, self._stream.record_event()))

    def take(self) -> Made:
        """The next item, for the caller's stream."""
        if not self._ready:
            raise RuntimeError("nothing was allowed to be made")
        made, done = self._ready[0] if self._ready[0][0].is_end else self._ready.popleft()
        torch.cuda.current_stream(self._stream.device).wait_event(done)
        return made

    def peek(self) -> Any:
        """The item that `take` would give, its tensors waited for by the caller's stream; None where there is none."""
        if not self._ready:
            return None
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
        return self._ready[0][0].item

    def settle(self) -> None:
        """The caller's stream waits for all that was queued."""
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)

    def restart(self, number: int) -> None:
        """Forgets what was made; the next item is `number`."""
        self.settle()
        self._ready.clear()
        self._next = number

    @property
    def ready(self) -> int:
        """Items queued and not taken."""
        return len(self._ready)

    def stop(self) -> None:
        """No more items."""
        self.stopped = True

    def join(self, timeout: float | None = None) -> bool:
        """There is no thread."""
        return True
