"""Timers as `with` blocks: about one microsecond each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from slipstream.monitor.performance import PerformanceMonitor as Monitor

Event = Any  # a torch.cuda.Event(enable_timing=True)
MAX_PENDING = 128  # device measurements in flight; further ones are dropped


class Timer:
    """One running timer of a PerformanceMonitor. With a `device` it also measures the device's own time."""

    __slots__ = ("_monitor", "_name", "_device", "_start", "_is_learner", "_event", "_outermost")

    def __init__(self, monitor: Monitor, name: str, device: Any = None) -> None:
        self._monitor, self._name, self._device = monitor, name, device

    def __enter__(self) -> Self:
        monitor = self._monitor
        self._is_learner = is_learner = get_ident() == monitor.learner
        if self._device is not None:
            self._outermost = is_learner and monitor.depth == 0
            self._event = monitor.device_timers.begin(self._device)
        if is_learner:
            monitor.depth += 1
        self._start = monitor.clock()
        return self

    def __exit__(self, *_: object) -> None:
        monitor = self._monitor
        if self._device is not None and self._event is not None:
            monitor.device_timers.end(self._event, self._name, self._device, self._outermost)
        seconds = monitor.clock() - self._start
        monitor.record(self._name, 1e3 * seconds)
        if self._is_learner:
            monitor.depth -= 1
            if not monitor.depth:
                monitor.current.host[self._name] += seconds


class DeviceTimers:
    """Pairs of CUDA events that are recorded now and read once the device has reached them. Nothing waits for them.

    `begin` and `end` may be called from any thread, `collect` only from the learner's: an event must not be queried
    while a CUDA graph is captured in any thread, and the learner's thread knows when it captures.
    """

    def __init__(self) -> None:
        self._pending: deque[tuple[str, bool, Event, Event]] = deque()

    def begin(self, device: Any) -> Event | None:
        """Record the start. Return None during graph capture or when too many measurements are pending."""
        if self._is_capturing() or len(self._pending) >= MAX_PENDING:
            return None
        return self._record(device)

    def end(self, start: Event, name: str, device: Any, outermost: bool) -> None:
        """Record the end."""
        self._pending.append((name, outermost, start, self._record(device)))

    def collect(self) -> Iterator[tuple[str, float, bool]]:
        """Yield (name, milliseconds, whether no other timer enclosed it) of the measurements that are complete, in
        order."""
        if self._pending and not self._is_capturing():
            while self._pending and self._pending[0][3].query():
                name, outermost, start, end = self._pending.popleft()
                yield name, start.elapsed_time(end), outermost

    def _record(self, device: Any) -> Event:
        """Return an event in the current stream of the device, which need not be the current device."""
        import torch

        event = torch.cuda.Event(enable_timing=True)  # made when it is recorded, on the stream's device
        event.record(torch.cuda.current_stream(device))
        return event

    def _is_capturing(self) -> bool:
        import torch

        return torch.cuda.is_current_stream_capturing()
