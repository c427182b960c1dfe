"""The figure of a league's run: shares of games against each opponent, and the rating."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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

OUTCOMES = {"won": SERIES[3], "draw": MUTED, "lost": SERIES[4]}


def league_curves(rows: Sequence[Mapping[str, Any]], path: str | Path, title: str = "") -> Path | None:
    """Draw one panel per opponent, with shares of games won, drawn and lost over frames, and the rating with its
    interval; nothing if `rows` of a run's metrics hold no evaluation of a league."""
    rows = [row for row in rows if row.get("league/elo") is not None]
    if not rows:
        return None
    keys = dict.fromkeys(key for row in rows for key in row if key.startswith("league/") and key.endswith("/won"))
    names = [key.removeprefix("league/").removesuffix("/won") for key in keys]
    frames, stage = (metric_column(rows, key) for key in ("frames", "league/stage"))
    lines = -(-len(names) // 2)
    figure = new_figure(9.6, 2.3 * lines + 3.0)
    grid = figure.add_gridspec(lines + 1, 2, height_ratios=[1.0] * lines + [1.2])
    for k, name in enumerate(names):
        axes = figure.add_subplot(grid[k // 2, k % 2])
        style_axes(axes, ylabel="share of games" if k % 2 == 0 else "")
        shares = [metric_column(rows, f"league/{name}/{what}") for what in OUTCOMES]  # won below, lost above
        axes.stackplot(frames, shares, colors=list(OUTCOMES.values()), labels=list(OUTCOMES), alpha=0.75, linewidth=0)
        axes.set_title(f"against {name}", color=INK, fontsize=10.5, loc="left")
        axes.set_ylim(0, 1)
    handles, _ = figure.axes[0].get_legend_handles_labels()  # beside the title: the panels have no free corner
    wrap_legend(figure, handles, loc="upper right", bbox_to_anchor=(0.99, 1.0), fontsize=10.5)
    axes = figure.add_subplot(grid[lines, :])
    style_axes(axes, ylabel="Elo (pursuit: 1000)")
    low, high = metric_column(rows, "league/elo_low"), metric_column(rows, "league/elo_high")
    axes.fill_between(frames, low, high, color=SERIES[0], alpha=0.2, linewidth=0)
    axes.plot(frames, metric_column(rows, "league/elo"), color=SERIES[0], linewidth=2, marker="o", markersize=3.5)
    for axes in figure.axes:
        for begin in np.flatnonzero(np.diff(stage) > 0):
            axes.axvline(frames[begin], color=GRID, linewidth=1.5)
            place = {"va": "top", "transform": axes.get_xaxis_transform()}
            axes.text(frames[begin], 0.98, f" stage {int(stage[begin + 1])}", color=INK, fontsize=8, **place)
        frames_axis(axes)
        axes.set_xlim(0, 1.02 * float(frames.max()))  # one scale for all panels
        axes.set_xlabel("frames" if axes is figure.axes[-1] else "")
    return finish_figure(figure, path, title)
