"""Shared by the benchmarks: a table, the time of one call, and two forms of a thing timed alternately."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.table import Table

from slipstream.tasks.tables import render

REPEATS = 7
SECONDS = 0.4  # at least, of one measurement


@dataclass
class BenchTable:
    """The result of a benchmark."""

    title: str
    header: list[str]
    rows: list[list[str]]

    def render(self, width: int = 120) -> str:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left")
        for name in self.header:
            table.add_column(name, justify="right")
        for row in self.rows:
            table.add_row(*row)
        return render(table, width)

    def markdown(self) -> str:
        """Return the table as Markdown, without its title."""
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.header, *self.rows)]
        lines.insert(1, "|" + "---:|" * len(self.header))
        return "\n".join(lines) + "\n"


def time_alternating(
    steps: dict[str, Callable[[], None]], device: torch.device, repeats: int
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


def seconds_per_call(step: Callable[[], None], device: torch.device) -> float:
    """Return the mean over about SECONDS, after two calls that do not count.

    A GPU is given twice as many calls at a time until they take that long: calls queued against the clock of the host
    would pile up there for minutes.
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
