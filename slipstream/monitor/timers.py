"""Timers as `with` blocks and decorators: about one microsecond each, a sixth of that when disabled."""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from threading import get_ident
from typing import Any, Self, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Monitor = Any  # a PerformanceMonitor, whose module imports this one
Event = Any  # a torch.cuda.Event(enable_timing=True), or what a test gives instead
MAX_PENDING = 128  # device measurements in flight; further ones are dropped and counted


class Timer:
    """One running timer of a PerformanceMonitor. With a `device` it also measures the device's own time."""

    __slots__ = ("_monitor", "_name", "_waits", "_device", "_start", "_is_learner", "_events", "_outermost")

    def __init__(self, monitor: Monitor, name: str, waits: bool = False, device: Any = None) -> None:
        self._monitor = monitor
        self._name = name
        self._waits = waits  # the block only waits for work that is done elsewhere
        self._device = device

    def __enter__(self) -> Self:
        monitor = self._monitor
        self._is_learner = is_learner = get_ident() == monitor.learner
        if self._device is not None:
            self._outermost = is_learner and monitor.depth == 0
            self._events = monitor.device_timers.begin(self._device)
        if is_learner:
            monitor.depth += 1
            if self._waits:
                monitor.wait_depth += 1
        self._start = monitor.clock()
        return self

    def __exit__(self, *_: object) -> None:
        monitor = self._monitor
        if self._device is not None and self._events is not None:
            monitor.device_timers.end(self._events, self._name, self._device, self._outermost)
        seconds = monitor.clock() - self._start
        name = self._name + "/wait" if self._waits else self._name
        try:
            series = monitor.series[name]
        except KeyError:
            series = monitor.get_series(name)
        with monitor.lock:
            series.last_ms.append(1e3 * seconds)  # as in PerformanceMonitor.record: a call would cost a tenth more
            series.count += 1
            series.total_ms += 1e3 * seconds
        if self._is_learner:
            monitor.depth = depth = monitor.depth - 1
            if self._waits:
                self._add_wait(monitor, seconds)
            elif not depth:  # an outermost timer: its time without the waits inside it
                monitor.current.host[name] += seconds - monitor.waited_s
                monitor.waited_s = 0.0

    def _add_wait(self, monitor: Monitor, seconds: float) -> None:
        monitor.wait_depth -= 1
        if not monitor.wait_depth:
            monitor.current.waits[self._name] += seconds
            if monitor.depth:
                monitor.waited_s += seconds

    def __call__(self, function: F) -> F:
        """Decorate a function: every call is timed."""
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            kind = "coroutine" if inspect.iscoroutinefunction(function) else "generator"
            raise TypeError(
                f"a timer around a {kind} function would time only its start: use `with monitor.timer(...)` inside it"
            )

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if not self._monitor.enabled:
                return function(*args, **kwargs)
            with Timer(self._monitor, self._name, self._waits, self._device):
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]


class NullTimer(nullcontext[None]):
    """The timer of a disabled monitor: it does nothing."""

    def __call__(self, function: F) -> F:
        """Return the function unchanged."""
        return function


NULL_TIMER = NullTimer()


class DeviceTimers:
    """Pairs of CUDA events that are recorded now and read once the device has reached them. Nothing waits for them.

    `begin` and `end` may be called from any thread, `collect` only from the learner's: an event must not be queried
    while a CUDA graph is captured in any thread, and the learner's thread knows when it captures.

    Args:
        report: Called with (name, milliseconds, whether no other timer enclosed it).
        make: Creates an event of a device; for tests.
    """

    def __init__(self, report: Callable[[str, float, bool], None], make: Callable[[Any], Event] | None = None) -> None:
        self._report = report
        self._make = make or _cuda_event
        self._is_capturing = _cuda_is_capturing if make is None else lambda: False
        self._get_stream = _cuda_stream if make is None else lambda device: None
        self._free: dict[str, list[tuple[Event, Event]]] = {}
        self._pending: deque[tuple[str, str, bool, Event, Event]] = deque()
        self.dropped = 0  # measurements not taken because too many were pending

    def begin(self, device: Any) -> tuple[Event, Event] | None:
        """Record the start. Return None during graph capture or when too many measurements are pending."""
        if self._is_capturing():
            return None
        if len(self._pending) >= MAX_PENDING:
            self.dropped += 1
            return None
        free = self._free.setdefault(str(device), [])
        pair = free.pop() if free else (self._make(device), self._make(device))
        pair[0].record(self._get_stream(device))
        return pair

    def end(self, pair: tuple[Event, Event], name: str, device: Any, outermost: bool) -> None:
        """Record the end."""
        pair[1].record(self._get_stream(device))
        self._pending.append((name, str(device), outermost, *pair))

    def collect(self) -> None:
        """Report the measurements that are complete, in order."""
        if self._pending and not self._is_capturing():
            while self._pending and self._pending[0][4].query():
                name, key, outermost, start, end = self._pending.popleft()
                self._report(name, start.elapsed_time(end), outermost)
                self._free[key].append((start, end))


def is_cuda(device: Any) -> bool:
    """Return whether `device`, a torch.device or its name, is a CUDA device."""
    return device is not None and getattr(device, "type", str(device).partition(":")[0]) == "cuda"


def _cuda_event(device: Any) -> Event:
    import torch

    with torch.cuda.device(device):
        return torch.cuda.Event(enable_timing=True)


def _cuda_stream(device: Any) -> Any:
    import torch

    return torch.cuda.current_stream(device)  # of that device, which need not be the current one


def _cuda_is_capturing() -> bool:
    import torch

    return torch.cuda.is_current_stream_capturing()
