"""The look of our figures (dark; touches no global matplotlib state), and those that any task can use. Each writes one
PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slipstream.storage.files import write_file

GROUND = "#0d1117"
PANEL = "#121821"
GRID = "#222c39"
MUTED = "#8b98a9"
INK = "#e8edf4"
SERIES = ("#4cc9f0", "#f9a03f", "#b388ff", "#5ee08a", "#ff6b6b", "#ffe066")

DPI = 200  # 8 inches make 1,600 pixels: sharp at 800 on a dense screen


def new_figure(width_in: float, height_in: float) -> Any:
    """An empty dark figure with an Agg canvas of its own, whatever backend the user has chosen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=DPI, facecolor=GROUND)
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: Any, xlabel: str = "", ylabel: str = "") -> None:
    """Gives axes the house look."""
    axes.set_facecolor(PANEL)
    axes.grid(True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelsize=9.5, length=0, pad=5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(xlabel, color=MUTED, fontsize=10.5, labelpad=7)
    axes.set_ylabel(ylabel, color=MUTED, fontsize=10.5, labelpad=7)


def style_legend(axes: Any, **where: Any) -> None:
    """A legend without a frame of its own, where there is something to name."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=9.5, labelcolor=INK, **where)


def save_figure(figure: Any, path: str | Path) -> Path:
    """Writes the figure as PNG, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    png = io.BytesIO()
    figure.savefig(png, format="png", facecolor=figure.get_facecolor())
    write_file(path, png.getvalue())
    return path


# -- figures of any run ----------------------------------------------------------------------------------------------

TRAINING, EVALUATION = SERIES[0], SERIES[1]
MOST_PANELS, MOST_LINES, MOST_COMPONENTS = 8, 6, 12  # of `draw_curves`


def learning_curve(rows: Sequence[Mapping[str, Any]], path: str | Path, title: str = "") -> Path:
    """Success and return of the training episodes against frames and wall time, with the evaluations as markers.

    `rows` are those of `read_metrics`; a metric that is null or absent in a row is no point.
    """
    panels = [
        (name, label) for name, label in (("success", "success"), ("return", "episode return")) if _has(rows, name)
    ]
    if not panels:
        raise ValueError("nothing to draw: no row has episode/success, eval/success, episode/return or eval/return")
    xs = [("frames", "frames")] + ([("time_s", "")] if np.isfinite(_column(rows, "time_s")).any() else [])
    figure = new_figure(4.6 * len(xs) + 0.6, 2.9 * len(panels) + 0.9)
    grid = figure.subplots(len(panels), len(xs), sharex="col", sharey="row", squeeze=False)
    for line, (name, label) in enumerate(panels):
        for place, (x_name, _) in enumerate(xs):
            axes = grid[line][place]
            style_axes(axes, ylabel=label if place == 0 else "")
            _draw_learning(axes, rows, x_name, name)
            if name == "success":
                axes.set_ylim(-0.03, 1.03)
    for place, (x_name, label) in enumerate(xs):
        if x_name == "frames":
            grid[-1][place].xaxis.set_major_formatter(_formatter(_frames_tick))
        else:
            label = _time_axis(grid[-1][place], float(np.nanmax(_column(rows, "time_s"))))
        grid[-1][place].set_xlabel(label)
    style_legend(grid[0][0], loc="best")
    return finish_figure(figure, path, title)


def success_bars(
    path: str | Path, rows: Sequence[Mapping[str, Any]], title: str = "success on maps not trained on"
) -> Path:
    """One bar a policy: rows of name, success and, where known, success_low and success_high; `group` colours them."""
    if not rows:
        raise ValueError("nothing to draw: give at least one row with name and success")
    groups = list(dict.fromkeys(str(row.get("group", "")) for row in rows))
    figure = new_figure(8.0, 1.5 + 0.52 * len(rows))
    axes = figure.subplots()
    style_axes(axes)
    axes.grid(False, axis="y")
    for y, row in enumerate(rows):
        colour = SERIES[groups.index(str(row.get("group", ""))) % len(SERIES)]
        success = float(row["success"])
        low, high = (float(row.get(key, success)) for key in ("success_low", "success_high"))
        axes.barh(y, success, height=0.62, color=colour, alpha=0.85, zorder=2)
        if high > low:
            axes.plot([low, high], [y, y], color=GROUND, linewidth=4.5, solid_capstyle="round", zorder=3)
            axes.plot([low, high], [y, y], color=INK, linewidth=2, solid_capstyle="round", zorder=4)
        axes.text(
            max(success, high) + 0.015,
            y,
            f"{success:.2f}",
            color=INK,
            fontsize=11.5,
            fontweight="bold",
            va="center",
            zorder=5,
        )
    axes.set(xlim=(0, 1.09), ylim=(len(rows) - 0.45, -0.55), xticks=np.linspace(0, 1, 6))
    axes.set_yticks(range(len(rows)), [str(row["name"]) for row in rows], color=INK, fontsize=11)
    if len(groups) > 1:
        from matplotlib.patches import Patch

        handles = [Patch(color=SERIES[i % len(SERIES)], label=group) for i, group in enumerate(groups)]
        figure.legend(
            handles=handles, loc="outside upper right", ncols=len(groups), frameon=False, fontsize=10, labelcolor=INK
        )
    return finish_figure(figure, path, title)


def rates_over_size(
    path: str | Path, series: Mapping[str, Sequence[tuple[float, float]]], title: str, xlabel: str, ylabel: str
) -> Path:
    """One line a label, of (size, rate) points, both axes logarithmic; the last rate of each line is written beside
    it."""
    if not any(series.values()):
        raise ValueError("nothing to draw: give at least one series of (size, rate) points")
    figure = new_figure(8.0, 4.8)
    axes = figure.subplots()
    style_axes(axes, xlabel=xlabel, ylabel=ylabel)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for k, (label, points) in enumerate(series.items()):
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, color=SERIES[k % len(SERIES)], marker="o", markersize=5, linewidth=2, label=label)
        beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "color": INK, "fontsize": 10}
        axes.annotate(_frames_tick(float(f"{ys[-1]:.3g}")), (xs[-1], ys[-1]), **beside)
    sizes = sorted({x for points in series.values() for x, _ in points})
    axes.set_xticks(sizes, [f"{int(x):,}" for x in sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(_formatter(_frames_tick))
    style_legend(axes, loc="best")
    return finish_figure(figure, path, title)


def success_over_time(
    path: str | Path, series: Mapping[str, ArrayLike], title: str = "success against wall time"
) -> Path:
    """One line a label: arrays [K, 2] of seconds and success, or [K, 4] with the interval's low and high end, which is
    shaded."""
    arrays = {label: np.asarray(points, dtype=np.float64) for label, points in series.items()}
    for label, points in arrays.items():
        if points.ndim != 2 or points.shape[1] not in (2, 4) or not len(points):
            raise ValueError(
                f"series {label!r} must be [K, 2] (seconds, success) or [K, 4] (and low, high), not {list(points.shape)}"
            )
    if not arrays:
        raise ValueError("nothing to draw: series is empty")
    figure = new_figure(8.0, 4.6)
    axes = figure.subplots()
    style_axes(axes, ylabel="success")
    for index, (label, points) in enumerate(arrays.items()):
        colour = SERIES[index % len(SERIES)]
        if points.shape[1] == 4:
            axes.fill_between(points[:, 0], points[:, 2], points[:, 3], color=colour, alpha=0.16, linewidth=0)
        axes.plot(points[:, 0], points[:, 1], color=colour, linewidth=2, marker="o", markersize=4.5, label=label)
    axes.set_xlabel(_time_axis(axes, max(float(np.nanmax(points[:, 0])) for points in arrays.values())))
    axes.set_ylim(-0.03, 1.03)
    style_legend(axes, loc="best")
    return finish_figure(figure, path, title)


def draw_curves(
    path: str | Path, episodes: Sequence[Mapping[str, NDArray[Any]]], names: Sequence[str], title: str
) -> Path:
    """One panel a key over the steps of an episode: of a single episode the components of each, of several one line an
    episode.

    episodes: for each, arrays [L, ...] by key. names: what to call them in the legend.
    """
    keys = [key for key, value in episodes[0].items() if np.asarray(value).dtype.kind in "biuf"][:MOST_PANELS]
    if not keys:
        raise ValueError("nothing to draw: the episodes hold no real numbers")
    figure = new_figure(9.6, 1.9 * len(keys) + 0.9)
    grid = figure.subplots(len(keys), 1, sharex=True, squeeze=False)[:, 0]
    for axes, key in zip(grid, keys, strict=True):
        several = len(episodes) > 1 and np.asarray(episodes[0][key])[0].size > 1
        style_axes(axes, ylabel=key.removeprefix("observation.").replace("_", " ") + ("\n(mean)" if several else ""))
        for k, episode in enumerate(episodes[:MOST_LINES]):
            values = np.asarray(episode[key], np.float64).reshape(len(episode[key]), -1)
            if len(episodes) == 1:
                _draw_components(axes, values)
            else:  # of several episodes each is one line: what it sees on the average
                axes.plot(values.mean(-1), color=SERIES[k % len(SERIES)], linewidth=1.6, label=names[k])
    style_legend(grid[0], loc="upper right", ncols=MOST_LINES)
    grid[-1].set_xlabel("step")
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontsize=14, fontweight="bold")
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    return save_figure(figure, path)


def _draw_components(axes: Any, values: NDArray[Any]) -> None:
    """[L, C]: a line a component, or an image where they are many."""
    if values.shape[1] <= MOST_COMPONENTS:
        for c in range(values.shape[1]):
            axes.plot(
                values[:, c], color=SERIES[c % len(SERIES)], linewidth=1.6, linestyle="-" if c < len(SERIES) else "--"
            )
        return
    axes.grid(False)
    axes.imshow(
        values.T,
        aspect="auto",
        cmap="magma",
        interpolation="nearest",
        origin="lower",
        extent=(0, len(values), 0, values.shape[1]),
    )


def _draw_learning(axes: Any, rows: Sequence[Mapping[str, Any]], x_name: str, name: str) -> None:
    x = _column(rows, x_name)
    y = _column(rows, f"episode/{name}")
    known = np.isfinite(x) & np.isfinite(y)
    if known.any():
        axes.plot(x[known], y[known], color=TRAINING, linewidth=0.9, alpha=0.35)
        axes.plot(x[known], smooth(y[known]), color=TRAINING, linewidth=2, label="training")
    y = _column(rows, f"eval/{name}")
    known = np.isfinite(x) & np.isfinite(y)
    if known.any():
        axes.plot(x[known], y[known], color=EVALUATION, linewidth=1, alpha=0.6, linestyle=(0, (3, 2)))
        axes.plot(
            x[known],
            y[known],
            color=EVALUATION,
            linestyle="",
            marker="o",
            markersize=7,
            markeredgecolor=GROUND,
            label="evaluation",
        )


def _column(rows: Sequence[Mapping[str, Any]], key: str) -> NDArray[Any]:
    """One metric as [rows] floats, NaN where it is null or absent."""
    values = (row.get(key) for row in rows)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _has(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return bool(np.isfinite(np.concatenate([_column(rows, f"{kind}/{name}") for kind in ("episode", "eval")])).any())


def smooth(values: NDArray[Any]) -> NDArray[Any]:
    """Centred mean over a 25th of the points; at the ends over what there is."""
    reach = len(values) // 50
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    low, high = np.maximum(at - reach, 0), np.minimum(at + reach + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def _time_axis(axes: Any, longest_s: float) -> str:
    """Puts seconds on the axis in the unit that suits; returns its label."""
    from matplotlib.ticker import MaxNLocator

    size, unit = next(
        (size, unit) for size, unit in ((3600, "h"), (60, "min"), (1, "s")) if longest_s >= 2 * size or size == 1
    )
    ticks = MaxNLocator(6, steps=[1, 2, 3, 5, 10]).tick_values(0, longest_s / size)
    axes.set_xticks([tick * size for tick in ticks if 0 <= tick <= 1.02 * longest_s / size])
    axes.xaxis.set_major_formatter(_formatter(lambda seconds: f"{seconds / size:g}"))
    return f"wall time ({unit})"


def _frames_tick(frames: float) -> str:
    return f"{frames / 1e6:g}M" if frames >= 1e6 else f"{frames / 1e3:g}k" if frames >= 1e3 else f"{frames:g}"


def _formatter(text: Callable[[float], str]) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: text(value))


def frames_axis(axes: Any) -> None:
    """Label the x-axis as frames, with ticks such as 20k and 5M."""
    axes.xaxis.set_major_formatter(_formatter(_frames_tick))
    axes.set_xlabel("frames")


def finish_figure(figure: Any, path: str | Path, title: str = "") -> Path:
    """Add the title, lay the panels out and write the PNG."""
    if title:
        figure.suptitle(title, x=0.02, ha="left", color=INK, fontsize=14, fontweight="bold")
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    return save_figure(figure, path)
