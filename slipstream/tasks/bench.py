"""Shared by the benchmarks: the time of one call, and two forms of a step timed alternately."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable

import torch

REPEATS = 7
SECONDS = 0.4  # at least, of one measurement


def time_forms(
    cells: list[str],
    frames: int,
    forms: dict[str, Callable[[], object]],
    device: torch.device,
    repeats: int,
    steps: int = 1,
) -> list[list[str]]:
    """Time our form of a step and, if given, the plain one. Returns one row per form.

    Its further cells: the form, µs per step, frames per second, and how many times as fast as the plain form ours is.

    Args:
        cells: the first cells of each row.
        frames: per step.
        forms: by name, ours first; a call takes `steps` steps.
        device: where they run.
        repeats: measurements of each form.
        steps: per call.
    """
    times, ratio = time_alternating(forms, device, repeats)
    rows = []
    for form, seconds in times.items():
        times_plain = f"{ratio:.1f}" if form == "ours" and len(times) > 1 else ""
        rows.append([*cells, form, f"{seconds / steps * 1e6:,.0f}", f"{frames * steps / seconds:,.0f}", times_plain])
    return rows


def time_alternating(
    steps: dict[str, Callable[[], object]], device: torch.device, repeats: int
) -> tuple[dict[str, float], float]:
    """Time several forms of a step alternately, so that other work on the machine hits all.

    Returns:
        The median seconds per call of each form, and the median ratio of the last form's time to the first's.
    """
    times: dict[str, list[float]] = {form: [] for form in steps}
    for _ in range(repeats):
        for form, step in steps.items():
            times[form].append(seconds_per_call(step, device))
    first, *_, last = [*times.values(), *times.values()]
    ratio = statistics.median(b / a for a, b in zip(first, last, strict=True))
    return {form: statistics.median(seconds) for form, seconds in times.items()}, ratio


def seconds_per_call(step: Callable[[], object], device: torch.device) -> float:
    """Return the mean over about SECONDS, after two calls that do not count.

    A GPU is given twice as many calls at a time until they take that long: calls queued against the clock of the host
    would pile up there for minutes.
    """
    step()
    step()
    synchronize(device)
    calls = 1
    while True:
        began = time.perf_counter()
        for _ in range(calls):
            step()
        synchronize(device)
        seconds = time.perf_counter() - began
        if seconds >= SECONDS and calls >= 3:
            return seconds / calls
        calls *= 2


def synchronize(device: torch.device) -> None:
    """Wait for a GPU; do nothing on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def describe_device(device: torch.device) -> str:
    """Return the name of a device for a title."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads ({platform.machine()})"
