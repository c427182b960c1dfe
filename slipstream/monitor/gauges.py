"""Gauges: numbers sampled over a run, such as memory and queue lengths, and a statistical leak check."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_SAMPLES = 240  # at that many every second one is dropped and the sampling interval doubles
READ_INTERVAL_S = 1.0  # gauges are read at most this often
LEAK_FLOOR_MB = 16.0  # growth over the window below this is not a leak
EXPECTED_ERROR = 0.05  # relative error of expected growth: allocators round up, indices are added
RECHECK = 1.05  # the leak check (2 ms) is repeated when the run is this much longer

Read = Callable[[], float]
MIN_SAMPLES = 40  # fewer are not judged
WARM_UP = 0.2  # share of the window that is skipped: allocators and caches fill up first
PARTS = 5  # a leak grows from each part of the window to the next; three single steps do not
MAX_P = 1e-3  # significance of the trend test
MIN_RISE = 0.25  # each part rises by at least this share of the mean rise


@dataclass(frozen=True)
class Leak:
    """A gauge that grows steadily."""

    name: str
    per_hour: float  # in the gauge's unit
    growth: float  # over the window, by the fitted slope
    span_s: float
    p: float

    def __str__(self) -> str:
        return f"{self.name} grows by {self.per_hour:,.0f} per hour ({self.growth:,.0f} in the last {self.span_s / 60:.1f} min)"


def mann_kendall(values: Sequence[float]) -> float:
    """Return the one-sided p-value of the Mann-Kendall trend test, corrected for ties."""
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 3:
        return 1.0
    later, earlier = np.triu_indices(n, 1)[::-1]
    s = float(np.sign(x[later] - x[earlier]).sum())
    _, ties = np.unique(x, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0 or s <= 0:
        return 1.0
    return 0.5 * math.erfc((s - 1) / math.sqrt(2 * variance))


def theil_sen(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the Theil-Sen slope: the median over all pairs, robust to 29 % of outliers."""
    t, x = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    later, earlier = np.triu_indices(len(t), 1)[::-1]
    apart = t[later] - t[earlier]
    keep = apart > 0
    return float(np.median((x[later] - x[earlier])[keep] / apart[keep])) if keep.any() else 0.0


def find_leak(
    name: str, times_s: Sequence[float], values: Sequence[float], floor: float, share: float = 0.02
) -> Leak | None:
    """Return a Leak if the values after the warm-up rise steadily and by more than `floor` and `share` of their level.

    Steadily: by the Mann-Kendall test, and from each fifth of the window to the next. An allocator's steps at the
        start, a
    first evaluation in the middle and noise are not leaks.
    """
    skip = int(WARM_UP * len(values))
    t, x = np.asarray(times_s[skip:], dtype=np.float64), np.asarray(values[skip:], dtype=np.float64)
    if len(x) < MIN_SAMPLES:
        return None
    rises = np.diff([np.median(part) for part in np.array_split(x, PARTS)])
    if rises.min() <= 0 or rises.min() < MIN_RISE * rises.mean():  # cheapest check first
        return None
    span_s = float(t[-1] - t[0])
    growth = theil_sen(t.tolist(), x.tolist()) * span_s
    if growth < max(floor, share * float(np.median(x))):
        return None
    p = mann_kendall(x.tolist())
    if p > MAX_P:
        return None
    return Leak(name, growth / span_s * 3600, growth, span_s, p)


class Gauge:
    """One number over the run."""

    def __init__(self, read: Read, leak_floor: float | None) -> None:
        self.read = read
        self.leak_floor = leak_floor  # None: not checked
        self.value: float | None = None
        self.most: float | None = None
        self.error: str | None = None  # why it is disabled
        self.times_s: list[float] = []
        self.values: list[float] = []
        self.expected: list[float] = []  # the part of each value that is expected to grow
        self._every_s = READ_INTERVAL_S
        self._checked: tuple[float, Leak | None] | None = None  # length of the run at the last check, and its result

    def leak(self, name: str) -> Leak | None:
        """Return a leak if the values grow steadily; checked again when the run is 5 % longer."""
        if self.leak_floor is None or not self.times_s:
            return None
        span_s = self.times_s[-1] - self.times_s[0]
        if self._checked is None or span_s >= RECHECK * self._checked[0]:
            rest = [value - expected for value, expected in zip(self.values, self.expected, strict=True)]
            doubt = EXPECTED_ERROR * (max(self.expected) - min(self.expected))
            self._checked = (span_s, find_leak(name, self.times_s, rest, self.leak_floor + doubt))
        return self._checked[1]

    def sample(self, now_s: float, expected: float = 0.0) -> None:
        """Read the gauge; `expected` of it is no leak. A gauge that fails is disabled: it must not end a training."""
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
        if len(self.values) >= MAX_SAMPLES:
            del self.times_s[1::2], self.values[1::2], self.expected[1::2]
            self._every_s *= 2

    def clear(self) -> None:
        """Discard all samples."""
        self.value = self.most = self.error = self._checked = None
        self.times_s.clear()
        self.values.clear()
        self.expected.clear()
        self._every_s = READ_INTERVAL_S


class Gauges:
    """Gauges by name, read together at most once per second."""

    def __init__(self) -> None:
        self.by_name: dict[str, Gauge] = {}
        self.parts: dict[str, set[str]] = {}  # gauge -> gauges whose growth is expected in it
        self._read_s: float | None = None

    def add(self, name: str, read: Read, leak_floor: float | None = None) -> None:
        """Add or replace a gauge; with a `leak_floor` it is checked for steady growth beyond that."""
        self.by_name[name] = Gauge(read, leak_floor)

    def sample(self, now_s: float) -> bool:
        """Read all gauges if it is time to. Return whether it was."""
        if not self.by_name or (self._read_s is not None and now_s - self._read_s < READ_INTERVAL_S):
            return False
        self._read_s = now_s
        totals = {name: self.parts[name] & self.by_name.keys() for name in self.by_name.keys() & self.parts.keys()}
        for name, gauge in list(self.by_name.items()):
            if name not in totals:
                gauge.sample(now_s)
        for name, parts in totals.items():  # last, when their parts are known
            self.by_name[name].sample(now_s, sum(self.by_name[part].value or 0.0 for part in parts))
        return True

    def values(self) -> dict[str, float]:
        """Return the last values."""
        return {name: gauge.value for name, gauge in list(self.by_name.items()) if gauge.value is not None}

    def errors(self) -> dict[str, str]:
        """Return the errors of disabled gauges."""
        return {name: gauge.error for name, gauge in list(self.by_name.items()) if gauge.error is not None}

    def leaks(self) -> list[Leak]:
        """Return the gauges that grow steadily."""
        found = [gauge.leak(name) for name, gauge in list(self.by_name.items())]
        return [leak for leak in found if leak is not None]

    def clear(self) -> None:
        """Discard all samples; the gauges stay."""
        self._read_s = None
        for gauge in self.by_name.values():
            gauge.clear()


def memory_gauges(device: Any = None) -> dict[str, Read]:
    """Return readers, in MB, of this process's resident memory and of a CUDA device's allocated and reserved memory."""
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
    """Return a reader of resident memory in MB, or None if the system has none."""
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
