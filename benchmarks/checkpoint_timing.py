"""The timing of benchmarks/checkpoint.py: ways of saving alternate, each into a new file; and its table."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoint_states import State


def milliseconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def timed(save: Callable[[State, Path], Any], state: State, path: Path) -> float:
    return milliseconds(lambda: save(state, path))


class Rotation:
    """New names in a scratch folder; all but the last two are removed, so that every writer finds the disk alike."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, list[Path]()

    def __call__(self) -> Path:
        self._made.append(self._folder / f"c_{time.monotonic_ns()}.pt")
        for stem in self._made[:-2]:
            for path in self._folder.glob(stem.name + "*"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        self._made = self._made[-2:]
        return self._made[-1]


def in_turns(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Each way once to warm up, then all of them in turn, `rounds` times."""
    for way in ways.values():
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(way())
    return times


def table(title: str, header: list[str], rows: list[list[str]], note: str = "") -> str:
    lines = [f"## {title}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *([note, ""] if note else [])])
