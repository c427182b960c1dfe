"""Gauges: numbers read now and then, such as memory and the length of queues, kept thinly over the whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from slipstream.monitor.trend import Leak, find_leak

MOST = 240  # samples kept; at that many every second one goes, and half as many come
READ_S = 1.0  # how often gauges are read at most
LEAK_FLOOR_MB = 16.0  # over the window: less is not called a leak
WELL_KNOWN = 0.05  # what is meant to grow is known to within this share of it: allocators round up, indices are added
JUDGED_ANEW = (
    1.05  # a leak is looked for again when the run is this much longer: two milliseconds each time while there is one
)

Read = Callable[[], float]


class Gauge:
    """One number over the run."""

    def __init__(self, read: Read, leak_floor: float | None) -> None:
        self.read = read
        self.leak_floor = leak_floor  # None: it may grow
        self.value: float | None = None
        self.most: float | None = None
        self.error: str | None = None  # why it is read no more
        self.times_s: list[float] = []
        self.values: list[float] = []
        self.expected: list[float] = []  # of each value, what is meant to be there
        self._every_s = READ_S
        self._judged: tuple[float, Leak | None] | None = None  # how long the run was, and what was found then

    def leak(self, name: str) -> Leak | None:
        """Whether it grows steadily; looked at anew only where the run has grown by a twentieth."""
        if self.leak_floor is None or not self.times_s:
            return None
        span_s = self.times_s[-1] - self.times_s[0]
        if self._judged is None or span_s >= JUDGED_ANEW * self._judged[0]:
            rest = [value - expected for value, expected in zip(self.values, self.expected, strict=True)]
            doubt = WELL_KNOWN * (max(self.expected) - min(self.expected))
            self._judged = (span_s, find_leak(name, self.times_s, rest, self.leak_floor + doubt))
        return self._judged[1]

    def sample(self, now_s: float, expected: float = 0.0) -> None:
        """Reads it, `expected` of it being no leak; one that fails is read no more, and says why: a gauge must not end a training."""
        if self.error is not None:
            return
        try:
            value = float(self.read())
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            return
        self.value = value
        self.most = value if self.most is None else max(self.most, value)
        if self.times_s and now_s - self.times_s[-1] < 0.999 * self._every_s:
            return
        self.times_s.append(now_s)
        self.values.append(value)
        self.expected.append(expected)
        if len(self.values) >= MOST:
            del self.times_s[1::2], self.values[1::2], self.expected[1::2]
            self._every_s *= 2

    def forget(self) -> None:
        """Drops what was read."""
        self.value = self.most = self.error = self._judged = None
        self.times_s.clear()
        self.values.clear()
        self.expected.clear()
        self._every_s = READ_S


class Gauges:
    """Gauges by name, read together, at most once a second."""

    def __init__(self) -> None:
        self.by_name: dict[str, Gauge] = {}
        self.parts: dict[str, set[str]] = {}  # of a gauge: others whose growth is meant to be
        self._read_s: float | None = None

    def add(self, name: str, read: Read, leak_floor: float | None = None) -> None:
        """Another gauge, or another way to read it; one with a `leak_floor` is watched for steady growth beyond that."""
        self.by_name[name] = Gauge(read, leak_floor)

    def sample(self, now_s: float) -> bool:
        """Reads all, if it is time to; whether it was."""
        if not self.by_name or (self._read_s is not None and now_s - self._read_s < READ_S):
            return False
        self._read_s = now_s
        whole = {name: self.parts[name] & self.by_name.keys() for name in self.by_name.keys() & self.parts.keys()}
        for name, gauge in list(self.by_name.items()):
            if name not in whole:
                gauge.sample(now_s)
        for name, parts in whole.items():  # read last, when their parts are known
            self.by_name[name].sample(now_s, sum(self.by_name[part].value or 0.0 for part in parts))
        return True

    def values(self) -> dict[str, float]:
        """What was last read."""
        return {name: gauge.value for name, gauge in list(self.by_name.items()) if gauge.value is not None}

    def errors(self) -> dict[str, str]:
        """Gauges that failed, and why."""
        return {name: gauge.error for name, gauge in list(self.by_name.items()) if gauge.error is not None}

    def leaks(self) -> list[Leak]:
        """Gauges that grow steadily."""
        found = [gauge.leak(name) for name, gauge in list(self.by_name.items())]
        return [leak for leak in found if leak is not None]

    def forget(self) -> None:
        """Drops what was read; the gauges stay."""
        self._read_s = None
        for gauge in self.by_name.values():
            gauge.forget()


def memory_gauges(device: Any = None) -> dict[str, Read]:
    """Resident memory of this process and, for a CUDA device, what torch has allocated and reserved there; in MB."""
    found: dict[str, Read] = {}
    rss = _resident_reader()
    if rss is not None:
        found["rss_mb"] = rss
    if getattr(device, "type", str(device).partition(":")[0]) == "cuda":
        import torch

        found["gpu_allocated_mb"] = lambda: torch.cuda.memory_allocated(device) / 2**20
        found["gpu_reserved_mb"] = lambda: torch.cuda.memory_reserved(device) / 2**20
    return found


def _resident_reader() -> Read | None:
    """How this system tells a process its resident memory; None where it does not."""
    if sys.platform.startswith("linux"):
        page_mb = os.sysconf("SC_PAGE_SIZE") / 2**20

        def from_proc() -> float:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * page_mb

        return from_proc
    try:
        import psutil
    except ImportError:
        return None
    process = psutil.Process()
    return lambda: process.memory_info().rss / 2**20
