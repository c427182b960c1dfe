"""How long a device took: CUDA events that are recorded now and read once they have come to pass. Nothing waits for them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

RING = 128  # measurements under way; more than that are not taken, and counted

Report = Callable[[str, float, bool], None]  # name, ms, whether no other timer was around it


class Event(Protocol):
    """What is needed of `torch.cuda.Event(enable_timing=True)`."""

    def record(self, stream: Any = None) -> None:
        """Marks this point of a stream."""

    def query(self) -> bool:
        """Whether the device has come to it."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this event to `end`; both have come to pass."""


class DeviceTimers:
    """Pairs of events. `begin` and `end` from any thread; `collect` from one: the learner's.

    An event must not be asked while a CUDA graph is captured, in whatever thread; the learner's thread knows when it captures.
    """

    def __init__(
        self, report: Report, make: Callable[[Any], Event] | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._report = report
        self._make = make or _cuda_event
        self._is_capturing = _cuda_is_capturing if make is None else lambda: False
        self._stream_of = _cuda_stream if make is None else lambda device: None
        self._clock = clock
        self._free: dict[str, list[tuple[Event, Event]]] = {}
        self._under_way: deque[tuple[str, str, bool, Event, Event]] = deque()
        self.dropped = 0  # measurements not taken because the ring was full
        self.spent_s = 0.0  # in all of this
        self.count = 0

    def begin(self, device: Any) -> tuple[Event, Event] | None:
        """Marks the start; None where it cannot be timed: while a graph is captured, or when too many are under way."""
        if self._is_capturing():
            return None
        if len(self._under_way) >= RING:
            self.dropped += 1
            return None
        began = self._clock()
        key = str(device)
        free = self._free.setdefault(key, [])
        pair = free.pop() if free else (self._make(device), self._make(device))
        pair[0].record(self._stream_of(device))
        self.spent_s += self._clock() - began
        return pair

    def end(self, pair: tuple[Event, Event], name: str, device: Any, outermost: bool) -> None:
        """Marks the end."""
        began = self._clock()
        pair[1].record(self._stream_of(device))
        self._under_way.append((name, str(device), outermost, *pair))
        self.count += 1
        self.spent_s += self._clock() - began

    def collect(self) -> None:
        """Reports what has come to pass, in order; the rest stays."""
        if not self._under_way or self._is_capturing():
            return
        began = self._clock()
        while self._under_way and self._under_way[0][4].query():
            name, key, outermost, start, end = self._under_way.popleft()
            self._report(name, start.elapsed_time(end), outermost)
            self._free[key].append((start, end))
        self.spent_s += self._clock() - began


def is_cuda(device: Any) -> bool:
    """Whether `device`, a torch.device or its name, is a CUDA device."""
    return device is not None and getattr(device, "type", str(device).partition(":")[0]) == "cuda"


def _cuda_event(device: Any) -> Event:
    import torch

    with torch.cuda.device(device):
        return torch.cuda.Event(enable_timing=True)  # type: ignore[return-value]


def _cuda_stream(device: Any) -> Any:
    import torch

    return torch.cuda.current_stream(device)  # of that device, which need not be the current one


def _cuda_is_capturing() -> bool:
    import torch

    return torch.cuda.is_current_stream_capturing()
