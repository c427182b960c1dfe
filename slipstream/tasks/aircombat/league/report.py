"""The report of a league training: the last evaluation as a table, and curves of all evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.ui.figures import (
    GRID,
    INK,
    MUTED,
    SERIES,
    finish_figure,
    frames_axis,
    metric_column,
    new_figure,
    style_axes,
    wrap_legend,
)
from slipstream.ui.tables import write_report

OUTCOMES = {"won": SERIES[3], "draw": MUTED, "lost": SERIES[4]}


def write_league_report(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path | None:
    """Write report.html and curves.png into the run's folder; nothing if `rows` of its metrics hold no evaluation."""
    rows = [row for row in rows if row.get("league/elo") is not None]
    if not rows:
        return None
    last = rows[-1]
    won = (key for row in rows for key in row if key.startswith("league/") and key.endswith("/won"))
    names = list(dict.fromkeys(key.split("/")[1] for key in won))
    curves = outcome_curves(rows, folder / "curves.png", names, "games won, drawn and lost while learning")
    facts = {
        "rating": f"{last['league/elo']:.0f} ({last['league/elo_low']:.0f} … {last['league/elo_high']:.0f})",
        "stage": int(last["league/stage"]),
        "training": f"{last['frames']:,} frames in {last['time_s']:.0f} s, evaluations included",
    }
    met = [name for name in names if last.get(f"league/{name}/won") is not None]
    table = [_line(last, name) for name in met] + ([_learner_line(last, met)] if met else [])
    return write_report(folder, "Air combat: the league", table, {"Evaluations while training": curves}, facts)


def _line(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    won, draw, lost = (row[f"league/{name}/{what}"] for what in ("won", "draw", "lost"))
    decided = won / (won + lost) if won + lost else None
    shares = {"won": won, "draw": draw, "lost": lost, "won of decided": decided}
    return {"opponent": name, **shares, "won − lost": won - lost, "Elo": row.get(f"league/{name}/elo")}


def _learner_line(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the row of the learner: the means over its opponents, and its own rating."""
    means = {f"league//{what}": np.mean([row[f"league/{name}/{what}"] for name in names]) for what in OUTCOMES}
    return _line({**means, "league//elo": row["league/elo"]}, "") | {"opponent": "all (the learner)"}


def outcome_curves(
    rows: Sequence[Mapping[str, Any]], path: str | Path, opponents: Sequence[str], title: str = ""
) -> Path:
    """Draw one panel per opponent, with shares of games won, drawn and lost over frames, and the rating with its
    interval.

    The pool of past policies has a panel if it holds more than one that already has its own.

    Args:
        rows: of `read_metrics`, those of evaluations.
        path: of the PNG.
        opponents: in the order of the panels.
        title: of the figure.
    """
    frames = np.array([row["frames"] for row in rows], dtype=np.float64)
    met = [name for name in opponents if any(row.get(f"league/{name}/won") is not None for row in rows)]
    met = [name for name in met if name != "pool" or _pool_differs(rows, met)]
    lines = -(-len(met) // 2)
    figure = new_figure(9.6, 2.3 * lines + 3.0)
    grid = figure.add_gridspec(lines + 1, 2, height_ratios=[1.0] * lines + [1.2])
    for k, name in enumerate(met):
        axes = figure.add_subplot(grid[k // 2, k % 2])
        style_axes(axes, ylabel="share of games" if k % 2 == 0 else "")
        _stack(axes, frames, [metric_column(rows, f"league/{name}/{what}") for what in OUTCOMES])
        axes.set_title(f"against {name}", color=INK, fontsize=10.5, loc="left")
        axes.set_ylim(0, 1)
        _stages(axes, frames, rows)
    if met:  # beside the title: the panels have no free corner
        handles, _ = figure.axes[0].get_legend_handles_labels()
        wrap_legend(figure, handles, loc="upper right", bbox_to_anchor=(0.99, 1.0), fontsize=10.5)
    axes = figure.add_subplot(grid[lines, :])
    style_axes(axes, ylabel="Elo (pursuit: 1000)")
    low, high = metric_column(rows, "league/elo_low"), metric_column(rows, "league/elo_high")
    axes.fill_between(frames, low, high, color=SERIES[0], alpha=0.2, linewidth=0)
    axes.plot(frames, metric_column(rows, "league/elo"), color=SERIES[0], linewidth=2, marker="o", markersize=3.5)
    _stages(axes, frames, rows)
    for axes in figure.axes:  # one scale for all panels
        frames_axis(axes)
        axes.set_xlim(0, 1.02 * float(frames.max()))
        axes.set_xlabel("frames" if axes is figure.axes[-1] else "")
    return finish_figure(figure, path, title or " ")


def _pool_differs(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    """Return whether some evaluation of the pool differs from that of its only named member."""
    selves = [name for name in names if name.startswith("stage")]
    for row in rows:
        pool, *members = [[row.get(f"league/{name}/{what}") for what in OUTCOMES] for name in ("pool", *selves)]
        members = [shares for shares in members if None not in shares]
        if None not in pool and members != [pool]:
            return True
    return False


def _stack(axes: Any, frames: NDArray[Any], shares: list[NDArray[Any]]) -> None:
    """Stack the shares: won below, drawn between, lost above."""
    low = np.zeros_like(frames)
    alone = np.isfinite(shares[0]).sum() == 1  # a single evaluation is drawn as a bar
    for (name, color), share in zip(OUTCOMES.items(), shares, strict=True):
        style = {"color": color, "alpha": 0.75, "linewidth": 0, "label": name}
        if alone:
            axes.bar(frames, share, 0.04 * float(frames.max()), low, **style)
        else:
            axes.fill_between(frames, low, low + share, **style)
        low = low + share


def _stages(axes: Any, frames: NDArray[Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw a line where a stage begins."""
    stage = metric_column(rows, "league/stage")
    for k in np.flatnonzero(np.diff(stage) > 0):
        axes.axvline(frames[k], color=GRID, linewidth=1.5)
        place = {"va": "top", "transform": axes.get_xaxis_transform()}
        axes.text(frames[k], 0.98, f" stage {int(stage[k + 1])}", color=INK, fontsize=8, **place)
