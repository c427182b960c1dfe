"""Compare runs: settings that differ, final metrics with intervals, learning curves with a mean and a band.

Runs that differ in nothing but their seed form a group; two groups with the same seeds are compared seed by seed. Of
two or three seeds all values are shown: an interval from them says little, and Student's reaches far outside of what a
rate can be. From four seeds on the mean has its 95 % interval, which for a rate ends at 0 and 1.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.config.compose import flat_settings
from slipstream.config.help import ConfigError, nearest
from slipstream.training.metrics_log import read_metrics
from slipstream.training.run_folder import RunFolder
from slipstream.ui.figures import SERIES, finish_figure, frames_axis, new_figure, smooth, style_axes, style_legend
from slipstream.ui.tables import TextTable, format_number

SHOWN = ("eval/success", "eval/return", "episode/success", "episode/return")  # metrics that are compared by default
NOT_COMPARED = ("seed", "name", "root", "resume", "quiet", "threads")  # settings that do not make a run another one
LAST_SHARE = 0.1  # a final metric is the mean of this part of the run: one row alone is noise
FEW = 4  # seeds from which on there is an interval
RATES = ("success", "collision", "timeout", "unfinished", "won", "draw", "lost", "share")  # and NAME_*, *_NAME
SPREAD = f"(all values) or, from {FEW} on, [95 % interval]"
POINTS = 200  # of a mean curve
MAX_CELL = 400  # characters of a setting in a table
# two-sided 95 % quantiles of Student's t by degrees of freedom; the normal distribution's beyond
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass
class Group:
    """Runs that differ in nothing but their seed."""

    settings: dict[str, Any]
    runs: list[Path] = field(default_factory=list)
    seeds: list[Any] = field(default_factory=list)
    rows: list[list[dict[str, Any]]] = field(default_factory=list)  # per run: the rows of its log
    name: str = ""

    def curves(self, metric: str) -> dict[Any, NDArray[Any]]:
        """Return (frames, values) [2, n] of each run that has the metric, by seed."""
        curves = {}
        for seed, rows in zip(self.seeds, self.rows, strict=True):
            points = [(row["frames"], row[metric]) for row in rows if None not in (row.get(metric), row.get("frames"))]
            if points:
                curves[seed] = np.array(points, np.float64).T
        return curves

    def finals(self, metric: str) -> dict[Any, float]:
        """Return the metric at the end of each run that has it, by seed."""
        values = {seed: curve[1] for seed, curve in self.curves(metric).items()}
        return {seed: float(x[-max(1, round(LAST_SHARE * len(x))) :].mean()) for seed, x in values.items()}


def load_groups(paths: Sequence[str | PathLike[str]]) -> list[Group]:
    """Read the configs and logs of runs; a folder that holds runs stands for all of them.

    Raises:
        ConfigError: A folder holds no run, or a run has logged nothing yet.
    """
    groups: list[Group] = []
    for path in dict.fromkeys(run for given in paths for run in _runs_of(Path(given))):
        run = RunFolder.open(path)
        settings = flat_settings(run.config())
        seed = settings.get("seed")
        seed = seed if isinstance(seed, int) else str(seed)  # a file may hold anything, such as a list
        settings = {key: value for key, value in settings.items() if key not in NOT_COMPARED}
        rows = read_metrics(run.path) if run.metrics_path.exists() else []
        if not rows:
            raise ConfigError(f"{path} has logged nothing yet: leave it out, or compare after its first iteration")
        group = next((g for g in groups if g.settings == settings and seed not in g.seeds), None)
        if group is None:
            groups.append(group := Group(settings))
        group.runs.append(run.path)
        group.seeds.append(seed)
        group.rows.append(rows)
    changed = [key for key, _ in differences(groups)][:3]
    for number, group in enumerate(groups, start=1):
        values = ", ".join(f"{key.rpartition('.')[2]}={_cell(group.settings.get(key))}" for key in changed)
        group.name = group.runs[0].name if len(group.runs) == 1 else values or f"group {number}"
    return groups


def differences(groups: Sequence[Group]) -> list[tuple[str, list[Any]]]:
    """Return the settings that differ, each with its value per group."""
    keys = dict.fromkeys(key for group in groups for key in group.settings)
    columns = [(key, [group.settings.get(key) for group in groups]) for key in keys]
    return [(key, values) for key, values in columns if any(value != values[0] for value in values)]


def metrics_of(groups: Sequence[Group], wanted: Sequence[str] = ()) -> list[str]:
    """Return the metrics to compare: those that are wanted, or the usual ones that some run has."""
    known = list(dict.fromkeys(key for group in groups for rows in group.rows for row in rows for key in row))
    for name in wanted:
        if name not in known:
            raise ConfigError(f"no run has the metric '{name}'{nearest(name, known)}")
    return list(wanted) or [name for name in SHOWN if name in known]


def is_rate(metric: str) -> bool:
    """Return whether a metric is a share of 0 to 1, by its name."""
    name = metric.rpartition("/")[2]
    return any(name == rate or name.startswith(f"{rate}_") or name.endswith(f"_{rate}") for rate in RATES)


def spread(values: Sequence[float], metric: str, difference: bool = False) -> tuple[float, float]:
    """Return the 95 % interval of a mean over seeds; that of a rate, or a difference of rates, ends where these do. Of
    fewer than four values return the lowest and the highest."""
    if len(values) < FEW:
        return min(values), max(values)
    quantile = T_95[len(values) - 2] if len(values) - 2 < len(T_95) else 1.96
    mean, half = float(np.mean(values)), float(quantile * np.std(values, ddof=1) / math.sqrt(len(values)))
    lowest, highest = (-1.0 if difference else 0.0), 1.0
    if not is_rate(metric) or min(values) < lowest or max(values) > highest:
        return mean - half, mean + half
    return max(mean - half, lowest), min(mean + half, highest)


def describe(values: Sequence[float], metric: str, difference: bool = False) -> str:
    """Return the mean over seeds as text, with all of few values, or with its interval."""
    if not len(values):
        return "–"
    sign = "+" if difference else ""
    mean = format_number(float(np.mean(values)), sign)
    if len(values) == 1:
        return mean
    if len(values) < FEW:
        return f"{mean} ({', '.join(format_number(value, sign) for value in values)})"
    if min(values) == max(values):
        return f"{mean} (all {len(values)} alike)"  # without a spread there is no interval
    low, high = spread(values, metric, difference)
    return f"{mean} [{format_number(low, sign)} … {format_number(high, sign)}]"


def tables(groups: Sequence[Group], metrics: Sequence[str]) -> list[TextTable]:
    """Return the tables: final metrics, differences to the first group, settings that differ."""
    finals = [[group.finals(metric) for metric in metrics] for group in groups]
    rows = []
    for group, of_group in zip(groups, finals, strict=True):
        cells = [describe(list(v.values()), metric) for v, metric in zip(of_group, metrics, strict=True)]
        rows.append([group.name, str(len(group.runs)), *cells])
    found = [TextTable(f"final metrics: mean over seeds {SPREAD}", ["runs", "seeds", *metrics], rows, left=1)]
    rows = []
    for group, of_group in zip(groups[1:], finals[1:], strict=True):
        pairs = [[b[seed] - a[seed] for seed in a if seed in b] for a, b in zip(finals[0], of_group, strict=True)]
        cells = [describe(p, metric, difference=True) for p, metric in zip(pairs, metrics, strict=True)]
        rows.append([group.name, str(max(map(len, pairs), default=0)), *cells])
    if rows:
        title = f"difference to {groups[0].name}: mean over equal seeds {SPREAD}"
        found.append(TextTable(title, ["runs", "pairs", *metrics], rows, left=1))
    if changed := [[_cell(key), *map(_cell, values)] for key, values in differences(groups)]:
        names = [group.name for group in groups]
        found.append(TextTable("settings that differ", ["key", *names], changed, left=1 + len(names)))
    return found


def draw(groups: Sequence[Group], metrics: Sequence[str], path: Path) -> Path:
    """Draw one panel per metric, smoothed: each run thin, the mean of a group thick, with a band: the 95 % interval, or
    of few seeds from the lowest to the highest."""
    if not metrics:
        raise ConfigError("nothing to draw: the runs have no success or return; name metrics with --metric NAME")
    figure = new_figure(8.6, 2.9 * len(metrics) + 0.9)
    grid = figure.subplots(len(metrics), 1, sharex=True, squeeze=False)[:, 0]
    for axes, metric in zip(grid, metrics, strict=True):
        style_axes(axes, ylabel=metric)
        for number, group in enumerate(groups):
            _draw_group(axes, group, metric, SERIES[number % len(SERIES)])
    frames_axis(grid[-1])
    style_legend(grid[0], loc="best")
    return finish_figure(figure, path)


def _draw_group(axes: Any, group: Group, metric: str, color: str) -> None:
    curves = [(frames, smooth(values)) for frames, values in group.curves(metric).values()]
    single = len(curves) == 1
    style = {"linewidth": 2, "label": group.name} if single else {"linewidth": 0.8, "alpha": 0.35}
    for frames, values in curves:
        axes.plot(frames, values, color=color, **style)
    if len(curves) < 2:
        return
    start, end = max(frames[0] for frames, _ in curves), min(frames[-1] for frames, _ in curves)
    grid = np.linspace(start, end, POINTS)
    values = np.stack([np.interp(grid, *points) for points in curves])
    low, high = zip(*(spread(column, metric) for column in values.T.tolist()), strict=True)
    axes.fill_between(grid, low, high, color=color, alpha=0.16, linewidth=0)
    axes.plot(grid, values.mean(0), color=color, linewidth=2.2, label=f"{group.name} ({len(curves)} seeds)")


def _runs_of(path: Path) -> list[Path]:
    """Return the runs that a path names: itself, or the runs inside the folder."""
    if not path.is_dir() and (".pt" in path.suffixes or (path.parent == Path() and not path.exists())):
        raise ConfigError(
            f"{path} is not a run folder; policies are compared over the same maps by "
            f"slipstream eval {shlex.quote(f'checkpoint={path}')} compare=OTHER"
        )
    if (path / "config.yaml").exists() or not path.is_dir():
        return [path]
    runs = sorted(inner.parent for inner in path.glob("*/config.yaml"))
    if not runs:
        raise ConfigError(f"{path} holds no run: give run folders, or a folder of run folders")
    return runs


def _cell(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]} …"
