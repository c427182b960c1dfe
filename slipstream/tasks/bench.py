"""Shared by the benchmarks: two forms of a step timed alternately."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable

import torch
from torch.utils.benchmark import Timer

REPEATS = 7
SECONDS = 0.4  # at least, of one measurement


def time_forms(
    cells: list[str], frames: int, forms: dict[str, Callable[[], object]], steps: int = 1
) -> list[list[str]]:
    """Time our form of a step and, if given, the plain one, alternately, so that other work on the machine hits both.
    Returns one row per form.

    Its further cells: the form, µs per step, frames per second, and how many times as fast as the plain form ours is:
    the median ratio.

    Args:
        cells: the first cells of each row.
        frames: per step.
        forms: by name, ours first; a call takes `steps` steps.
        steps: per call.
    """
    threads = torch.get_num_threads()
    timers = {form: Timer("step()", globals={"step": step}, num_threads=threads) for form, step in forms.items()}
    times: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(REPEATS):
        for form, timer in timers.items():
            times[form].append(timer.blocked_autorange(min_run_time=SECONDS).median)
    first, last = list(times.values())[0], list(times.values())[-1]
    ratio = statistics.median(b / a for a, b in zip(first, last, strict=True))
    rows = []
    for form, measured in times.items():
        seconds = statistics.median(measured)
        times_plain = f"{ratio:.1f}" if form == "ours" and len(times) > 1 else ""
        rows.append([*cells, form, f"{seconds / steps * 1e6:,.0f}", f"{frames * steps / seconds:,.0f}", times_plain])
    return rows


def synchronize(device: torch.device) -> None:
    """Wait for a GPU; do nothing on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def describe_device(device: torch.device) -> str:
    """Return the name of a device for a title."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads ({platform.machine()})"
