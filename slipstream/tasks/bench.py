"""What the benchmarks of tasks share: a table, and the time of one call."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

REPEATS = 7
SECONDS = 0.4  # at least, of one measurement


@dataclass
class BenchTable:
    """The result of `slipstream bench env`."""

    title: str
    header: list[str]
    rows: list[list[str]]


def seconds_per_call(step: Callable[[], None], device: torch.device) -> float:
    """Return the mean over about SECONDS, after two calls that do not count.

    A GPU is given twice as many calls at a time until they take that long: calls queued against the clock of the host would pile up
    there for minutes.
    """
    step()
    step()
    synchronise(device)
    calls = 1
    while True:
        began = time.perf_counter()
        for _ in range(calls):
            step()
        synchronise(device)
        seconds = time.perf_counter() - began
        if seconds >= SECONDS and calls >= 3:
            return seconds / calls
        calls *= 2


def synchronise(device: torch.device) -> None:
    """Wait for a GPU; do nothing on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def describe_device(device: torch.device) -> str:
    """Return the name of a device for a title."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads ({platform.machine()})"
