"""What timers write to: durations by name, and the iteration that runs."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from typing import Any

from slipstream.monitor.device_events import DeviceTimers, Event
from slipstream.monitor.iterations import Iterations
from slipstream.monitor.statistics import Series


class Ledger:
    """The state that the timers of all threads share. What is written without the lock belongs to the learner's thread."""

    def __init__(
        self, history: int, clock: Callable[[], float], enabled: bool, events: Callable[[Any], Event] | None
    ) -> None:
        if history < 1:
            raise ValueError(f"history must be at least 1, not {history}")
        self.enabled = enabled
        self.clock = clock
        self.lock = Lock()
        self.series: dict[str, Series] = {}
        self.iterations = Iterations(history)
        self._history = history
        self._events = events
        self._device: DeviceTimers | None = None
        self.bind_learner()

    def bind_learner(self) -> None:
        """Makes the calling thread the learner, which others should not make wait."""
        self.learner = get_ident()
        self.depth = self.wait_depth = 0  # of timers running in that thread
        self.waited_s = 0.0  # inside of the outermost one

    def record(self, name: str, duration_ms: float) -> None:
        """Adds a duration that something else measured."""
        series = self.series_of(name)
        with self.lock:
            series.add(duration_ms)

    def series_of(self, name: str) -> Series:
        """What `name` has recorded, empty at first."""
        with self.lock:
            return self.series.setdefault(name, Series(self._history))

    def device_timers(self) -> DeviceTimers:
        """The pairs of events, made when the first is needed."""
        if self._device is None:
            self._device = DeviceTimers(self._device_time, self._events, self.clock)
        return self._device

    def _device_time(self, name: str, ms: float, outermost: bool) -> None:
        self.record(f"{name}/device", ms)
        if outermost:
            line = self.iterations.now.device
            line[name] = line.get(name, 0.0) + ms / 1e3

    def _poll(self) -> None:
        """Takes in the device times that have come, in the learner's thread."""
        if self._device is not None and get_ident() == self.learner:
            self._device.collect()
