"""Gauges: numbers sampled over a run, such as memory and queue lengths, and a statistical leak check."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_SAMPLES = 240  # at that many every second one is dropped and the sampling interval doubles
READ_INTERVAL_S = 1.0  # gauges are read at most this often
LEAK_FLOOR_MB = 16.0  # growth over the window below this is not a leak
EXPECTED_ERROR = 0.05  # relative error of expected growth: allocators round up, indices are added
RECHECK = 1.05  # the leak check (2 ms) is repeated when the run is this much longer

Read = Callable[[], float]
Floats = Any  # a list or an array [n]
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


def mann_kendall(values: Floats) -> float:
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


def theil_sen(times: Floats, values: Floats) -> float:
    """Return the Theil-Sen slope: the median over all pairs, robust to 29 % of outliers."""
    t, x = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    later, earlier = np.triu_indices(len(t), 1)[::-1]
    apart = t[later] - t[earlier]
    keep = apart > 0
    return float(np.median((x[later] - x[earlier])[keep] / apart[keep])) if keep.any() else 0.0


def find_leak(name: str, times_s: Floats, values: Floats, floor: float, share: float = 0.02) -> Leak | None:
    """Return a Leak if the values after the warm-up rise steadily and by more than `floor` and `share` of their level.

    Steadily: by the Mann-Kendall test, and from each fifth of the window to the next. An allocator's steps at the
    start, a first evaluation in the middle and noise are not leaks.
    """
    skip = int(WARM_UP * len(values))
    t, x = np.asarray(times_s[skip:]), np.asarray(values[skip:])
    if len(x) < MIN_SAMPLES:
        return None
    rises = np.diff([np.median(part) for part in np.array_split(x, PARTS)])
    if rises.min() <= 0 or rises.min() < MIN_RISE * rises.mean():  # cheapest check first
        return None
    span_s = float(t[-1] - t[0])
    growth = theil_sen(t, x) * span_s
    if growth < max(floor, share * float(np.median(x))):
        return None
    p = mann_kendall(x)
    if p > MAX_P:
        return None
    return Leak(name, growth / span_s * 3600, growth, span_s, p)


class Gauge:
    """One number over the run. With a `leak_floor` it is checked for steady growth beyond that."""

    def __init__(self, read: Read, leak_floor: float | None) -> None:
        self.read, self.leak_floor = read, leak_floor
        self.clear()

    def clear(self) -> None:
        """Discard all samples."""
        self.value: float | None = None
        self.error: str | None = None  # why it is disabled
        self.samples: list[tuple[float, float, float]] = []  # seconds, value, the part of it that is expected to grow
        self._every_s = READ_INTERVAL_S
        self._checked: tuple[float, Leak | None] = (0.0, None)  # length of the run at the last check, and its result

    def leak(self, name: str) -> Leak | None:
        """Return a leak if the values grow steadily; checked again when the run is 5 % longer."""
        if self.leak_floor is None or not self.samples:
            return None
        span_s = self.samples[-1][0] - self.samples[0][0]
        if span_s >= RECHECK * self._checked[0]:
            times_s, values, expected = np.array(self.samples).T
            doubt = EXPECTED_ERROR * float(np.ptp(expected))
            self._checked = (span_s, find_leak(name, times_s, values - expected, self.leak_floor + doubt))
        return self._checked[1]

    def sample(self, now_s: float, expected: float = 0.0) -> None:
        """Read the gauge; `expected` of it is no leak. A gauge that fails is disabled: it must not end a training."""
        if self.error is not None:
            return
        try:
            self.value = float(self.read())
        except Exception as error:
            self.error, self.value = f"{type(error).__name__}: {error}", None
            return
        if self.samples and now_s - self.samples[-1][0] < 0.999 * self._every_s:
            return
        self.samples.append((now_s, self.value, expected))
        if len(self.samples) >= MAX_SAMPLES:
            del self.samples[1::2]
            self._every_s *= 2


class Gauges(dict[str, Gauge]):
    """Gauges by name, read together at most once per second."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, set[str]] = {}  # gauge -> gauges whose growth is expected in it
        self._read_s = -math.inf

    def sample(self, now_s: float) -> bool:
        """Read all gauges if it is time to. Return whether it was."""
        if not self or now_s - self._read_s < READ_INTERVAL_S:
            return False
        self._read_s = now_s
        for name, gauge in sorted(self.items(), key=lambda item: item[0] in self.parts):  # parts are read first
            parts = self.parts.get(name, set()) & self.keys()
            gauge.sample(now_s, sum(self[part].value or 0.0 for part in parts))
        return True

    def values_now(self) -> dict[str, float]:
        """Return the last values."""
        return {name: gauge.value for name, gauge in list(self.items()) if gauge.value is not None}

    def leaks(self) -> list[Leak]:
        """Return the gauges that grow steadily."""
        found = [gauge.leak(name) for name, gauge in list(self.items())]
        return [leak for leak in found if leak is not None]

    def clear_samples(self) -> None:
        """Discard all samples; the gauges stay."""
        self._read_s = -math.inf
        for gauge in self.values():
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
