"""Timers as `with` blocks and decorators. Written for speed: a microsecond each, a sixth of that when turned off."""

from __future__ import annotations

import functools
import inspect
import statistics
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any, Self, TypeVar

from slipstream.monitor.ledger import Ledger

F = TypeVar("F", bound=Callable[..., Any])


class Timer:
    """One running timer."""

    __slots__ = ("_monitor", "_name", "_waits", "_start", "_mine")

    def __init__(self, monitor: Ledger, name: str, waits: bool = False) -> None:
        self._monitor = monitor
        self._name = name
        self._waits = waits  # nothing is done in it: a wait for what is done elsewhere

    def __enter__(self) -> Self:
        monitor = self._monitor
        self._mine = mine = get_ident() == monitor.learner
        if mine:
            monitor.depth += 1
            if self._waits:
                monitor.wait_depth += 1
        self._start = monitor.clock()
        return self

    def __exit__(self, *_: object) -> None:
        monitor = self._monitor
        seconds = monitor.clock() - self._start
        name = self._name + "/wait" if self._waits else self._name
        try:
            series = monitor.series[name]
        except KeyError:
            series = monitor.series_of(name)
        with monitor.lock:
            series.last_ms.append(1e3 * seconds)  # as Series.add: a call would cost a tenth of the whole
            series.count += 1
            series.total_ms += 1e3 * seconds
        if self._mine:
            monitor.depth = depth = monitor.depth - 1
            if self._waits:
                self._charge(monitor, seconds)
            elif not depth:  # an outermost timer: its time, less what was waited for inside of it
                line = monitor.iterations.now.line
                line[name] = line.get(name, 0.0) + seconds - monitor.waited_s
                monitor.waited_s = 0.0

    def _charge(self, monitor: Ledger, seconds: float) -> None:
        """In the learner's thread: a wait to the stage that was waited for."""
        monitor.wait_depth -= 1
        if not monitor.wait_depth:
            waits = monitor.iterations.now.waits
            waits[self._name] = waits.get(self._name, 0.0) + seconds
            if monitor.depth:
                monitor.waited_s += seconds

    def __call__(self, function: F) -> F:
        """The function, timed at every call."""
        _check_function(function)
        monitor, name, waits = self._monitor, self._name, self._waits

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with Timer(monitor, name, waits) if monitor.enabled else NOTHING:
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]


class DeviceTimer(Timer):
    """A timer that also has the device's own time."""

    __slots__ = ("_device", "_pair", "_outermost")

    def __init__(self, monitor: Ledger, name: str, device: Any) -> None:
        super().__init__(monitor, name)
        self._device = device

    def __enter__(self) -> Self:
        monitor = self._monitor
        self._outermost = get_ident() == monitor.learner and monitor.depth == 0
        self._pair = monitor.device_timers().begin(self._device)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        if self._pair is not None:
            self._monitor.device_timers().end(self._pair, self._name, self._device, self._outermost)
        super().__exit__()

    def __call__(self, function: F) -> F:
        """The function, timed at every call."""
        _check_function(function)
        monitor, name, device = self._monitor, self._name, self._device

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with DeviceTimer(monitor, name, device) if monitor.enabled else NOTHING:
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]


class Idle:
    """What a monitor that is turned off gives out: it does nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, function: F) -> F:
        """The function as it is."""
        return function


NOTHING = Idle()


def cost_of_a_timer_s(timer: Callable[[str], Timer | Idle], number: int = 500) -> float:
    """Seconds that one timer around nothing takes here: the median of five rounds."""
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(number):
            with timer("x"):
                pass
        whole = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(number):
            pass
        rounds.append((whole - (time.perf_counter() - start)) / number)
    return max(statistics.median(rounds), 0.0)


def _check_function(function: Any) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        kind = "coroutine" if inspect.iscoroutinefunction(function) else "generator"
        raise TypeError(
            f"a timer around a {kind} function would time only its start: use `with monitor.timer(...)` inside of it"
        )
