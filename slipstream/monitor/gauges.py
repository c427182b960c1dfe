"""Gauges: numbers sampled over a run, such as memory and queue lengths, and a check for leaks."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

MAX_SAMPLES = 240  # at that many every second one is dropped and the sampling interval doubles
READ_INTERVAL_S = 1.0  # gauges are read at most this often
LEAK_FLOOR_MB = 16.0  # growth below this is not a leak
LEAK_SHARE = 0.02  # nor is growth below this share of the level
EXPECTED_ERROR = 0.05  # relative error of expected growth: allocators round up, indices are added
MIN_SAMPLES = 50  # fewer are not judged
WARM_UP = 0.2  # share of the run that is skipped: allocators and caches fill up first
PARTS = 5  # a leak grows from each part of the rest to the next; three single steps do not
MIN_RISE = 0.25  # each part rises by at least this share of the mean rise

RESIDENT = "rss_mb"  # the gauge of this process's memory
Read = Callable[[], float]


def find_leak(times_s: Any, values: Any, floor: float) -> float | None:
    """Return the growth per hour of values [n] if the medians of the parts of a run rise one after another, by more
    than `floor` in all."""
    if len(values) < MIN_SAMPLES:
        return None
    skip = int(WARM_UP * len(values))
    x = np.asarray(values[skip:])
    medians = np.array([np.median(part) for part in np.array_split(x, PARTS)])
    rises = np.diff(medians)
    growth = float(medians[-1] - medians[0]) * PARTS / (PARTS - 1)  # from the middles of the parts to the ends
    if rises.min() <= MIN_RISE * rises.mean() or growth < max(floor, LEAK_SHARE * float(np.median(x))):
        return None
    return 3600 * growth / float(times_s[-1] - times_s[skip])


class Gauges:
    """Functions that return a number, read together at most once per second, with samples over the complete run."""

    def __init__(self) -> None:
        self.readers: dict[str, Read] = {}
        self.leak_floors: dict[str, float] = {}  # growth of these gauges beyond the floor is a leak
        self.parts: list[str] = []  # gauges whose growth is expected in the resident memory
        self.values: dict[str, float] = {}  # the last ones
        self.errors: dict[str, str] = {}  # why a gauge is disabled
        self.samples: list[tuple[float, dict[str, float]]] = []
        self._every_s = READ_INTERVAL_S
        self._read_s = -math.inf

    def sample(self, now_s: float) -> None:
        """Read all gauges if it is time to. A gauge that fails is disabled: it must not end a training."""
        if now_s - self._read_s < READ_INTERVAL_S:
            return
        self._read_s = now_s
        for name in self.readers.keys() - self.errors.keys():
            try:
                self.values[name] = float(self.readers[name]())
            except Exception as error:
                self.errors[name] = f"{type(error).__name__}: {error}"
                self.values.pop(name, None)
        if not self.samples or now_s - self.samples[-1][0] >= 0.999 * self._every_s:
            self.samples.append((now_s, dict(self.values)))
        if len(self.samples) >= MAX_SAMPLES:
            del self.samples[1::2]
            self._every_s *= 2

    def leaks(self) -> dict[str, float]:
        """Return the growth per hour of the gauges that grow steadily."""
        leaks = {}
        for name, floor in self.leak_floors.items():
            samples = [(now_s, values) for now_s, values in list(self.samples) if name in values]
            parts = self.parts if name == RESIDENT else ()
            expected = np.array([sum(values.get(part, 0.0) for part in parts) for _, values in samples])
            doubt = EXPECTED_ERROR * float(np.ptp(expected)) if samples else 0.0
            growing = np.array([values[name] for _, values in samples]) - expected
            rate = find_leak([now_s for now_s, _ in samples], growing, floor + doubt)
            if rate is not None:
                leaks[name] = rate
        return leaks


def is_cuda(device: Any) -> bool:
    """Return whether `device`, a torch.device or its name, is a CUDA device."""
    return getattr(device, "type", str(device).partition(":")[0]) == "cuda"


def memory_gauges(device: Any = None) -> dict[str, Read]:
    """Return readers, in MB, of this process's resident memory and of a CUDA device's allocated and reserved memory."""
    readers: dict[str, Read] = {}
    if sys.platform == "linux":
        readers[RESIDENT] = _resident_mb
    if is_cuda(device):
        import torch

        readers["gpu_allocated_mb"] = lambda: torch.cuda.memory_allocated(device) / 2**20
        readers["gpu_reserved_mb"] = lambda: torch.cuda.memory_reserved(device) / 2**20
    return readers


def _resident_mb() -> float:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
