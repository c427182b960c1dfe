"""The look of our figures (dark; touches no global matplotlib state), and those that any task can use. Each writes one
PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.storage.errors import printable
from slipstream.storage.files import write_file

GROUND = "#0d1117"
PANEL = "#121821"
GRID = "#222c39"
MUTED = "#8b98a9"
INK = "#e8edf4"
SERIES = ("#4cc9f0", "#f9a03f", "#b388ff", "#5ee08a", "#ff6b6b", "#ffe066")

DPI = 200  # 8 inches make 1,600 pixels: sharp at 800 on a dense screen


def new_figure(width_in: float, height_in: float) -> Any:
    """Return an empty dark figure with an Agg canvas of its own, whatever backend the user has chosen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=DPI, facecolor=GROUND)
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: Any, xlabel: str = "", ylabel: str = "") -> None:
    """Give axes our look."""
    axes.set_facecolor(PANEL)
    axes.grid(True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelsize=9.5, length=0, pad=5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(xlabel, color=MUTED, fontsize=10.5, labelpad=7)
    axes.set_ylabel(ylabel, color=MUTED, fontsize=10.5, labelpad=7)


def style_legend(axes: Any, **where: Any) -> None:
    """Add a legend without a frame, if anything has a label."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=9.5, labelcolor=INK, **where)


def show_text_as_it_is(figure: Any) -> None:
    """Read no text of the figure as a formula, and show its control characters: names may come from a file."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_text(printable(text.get_text()))


def pixels(figure: Any, dpi: float | None = None) -> NDArray[Any]:
    """Render a figure as an image, uint8 [height, width, 3]; by default 960 pixels wide."""
    show_text_as_it_is(figure)
    figure.set_dpi(dpi or 960 / figure.get_figwidth())
    figure.canvas.draw()
    return np.array(figure.canvas.buffer_rgba())[..., :3]


def wrap_legend(owner: Any, handles: Sequence[Any], **where: Any) -> Any:
    """Add a legend to a figure or to axes, in as many columns as fit into its width."""
    renderer = owner.figure.canvas.get_renderer()
    for columns in range(len(handles), 0, -1):
        legend = owner.legend(handles=handles, ncols=columns, frameon=False, labelcolor=INK, **where)
        box = legend.get_window_extent(renderer)
        if columns == 1 or (box.x0 >= owner.bbox.x0 and box.x1 <= owner.bbox.x1):
            return legend
        legend.remove()


def save_figure(figure: Any, path: str | Path) -> Path:
    """Write the figure as a PNG, complete or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    png = io.BytesIO()
    show_text_as_it_is(figure)
    figure.savefig(png, format="png", facecolor=figure.get_facecolor())
    write_file(path, png.getvalue())
    return path


def finish_figure(figure: Any, path: str | Path, title: str = "") -> Path:
    """Add the title, lay out the panels and write the figure."""
    if title:
        figure.suptitle(title, x=0.02, ha="left", color=INK, fontsize=14, fontweight="bold")
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    return save_figure(figure, path)


def metric_column(rows: Sequence[Mapping[str, Any]], key: str) -> NDArray[Any]:
    """Return one metric as [rows] floats, NaN where it is null or absent."""
    values = (row.get(key) for row in rows)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


# -- figures of any run ----------------------------------------------------------------------------------------------

TRAINING, EVALUATION = SERIES[0], SERIES[1]


def own_metrics(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the env's own `info` in the rows of a log, in the order in which they appear."""
    known = ("count", "return", "length", "success")
    names = (key.removeprefix("episode/") for row in rows for key in row if key.startswith("episode/"))
    return [name for name in dict.fromkeys(names) if name not in known]


def learning_curve(
    rows: Sequence[Mapping[str, Any]], path: str | Path, title: str = "", own: Sequence[str] = ()
) -> Path:
    """Draw success and return of the training episodes over frames and wall time, with the evaluations as markers.

    Args:
        rows: Those of `read_metrics`; a metric that is null or absent in a row is no point.
        own: Names of the env's `info` that get a panel too.
    """
    labels = {"success": "success", "return": "episode return"} | {name: name.replace("_", " ") for name in own}
    panels = [name for name in labels if _has(rows, name)]
    if not panels:
        raise ValueError("nothing to draw: no episode has ended, and no evaluation was made")
    times = metric_column(rows, "time_s")
    xs = ["frames", "time_s"] if np.isfinite(times).any() else ["frames"]
    figure = new_figure(4.6 * len(xs) + 0.6, 2.9 * len(panels) + 0.9)
    grid = figure.subplots(len(panels), len(xs), sharex="col", sharey="row", squeeze=False)
    for line, name in zip(grid, panels, strict=True):
        for axes, x_name in zip(line, xs, strict=True):
            style_axes(axes, ylabel=labels[name] if x_name == "frames" else "")
            _draw_learning(axes, rows, x_name, name)
            if name == "success":
                axes.set_ylim(-0.03, 1.03)
    frames_axis(grid[-1][0])
    if "time_s" in xs:
        time_axis(grid[-1][1], float(np.nanmax(times)))
    style_legend(grid[0][0], loc="best")
    return finish_figure(figure, path, title)


def _draw_learning(axes: Any, rows: Sequence[Mapping[str, Any]], x_name: str, name: str) -> None:
    """Draw a metric of the training, as it is and smoothed, and of the evaluations."""

    def points(kind: str) -> tuple[NDArray[Any], NDArray[Any]]:
        x, y = metric_column(rows, x_name), metric_column(rows, f"{kind}/{name}")
        known = np.isfinite(x) & np.isfinite(y)
        return x[known], y[known]

    x, y = points("episode")
    if len(x):
        axes.plot(x, y, color=TRAINING, linewidth=0.9, alpha=0.35)
        axes.plot(x, smooth(y), color=TRAINING, linewidth=2, label="training")
    x, y = points("eval")
    if len(x):
        markers = {"linestyle": "", "marker": "o", "markersize": 7, "markeredgecolor": GROUND}
        axes.plot(x, y, color=EVALUATION, linewidth=1, alpha=0.6, linestyle=(0, (3, 2)))
        axes.plot(x, y, color=EVALUATION, label="evaluation", **markers)


def _has(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(np.isfinite(metric_column(rows, f"{kind}/{name}")).any() for kind in ("episode", "eval"))


def smooth(values: NDArray[Any]) -> NDArray[Any]:
    """Return the centered mean over a 25th of the points, over fewer at the ends."""
    reach = len(values) // 50
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    low, high = np.maximum(at - reach, 0), np.minimum(at + reach + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def frames_axis(axes: Any) -> None:
    """Label the x-axis as frames, with ticks such as 20k and 5M."""
    axes.xaxis.set_major_formatter(_formatter(_frames_tick))
    axes.set_xlabel("frames")


def time_axis(axes: Any, longest_s: float) -> None:
    """Label an x axis of seconds in hours, minutes or seconds."""
    from matplotlib.ticker import MaxNLocator

    size, unit = (3600, "h") if longest_s >= 7200 else (60, "min") if longest_s >= 120 else (1, "s")
    ticks = MaxNLocator(6, steps=[1, 2, 3, 5, 10]).tick_values(0, longest_s / size)
    axes.set_xticks([tick * size for tick in ticks if 0 <= tick <= 1.02 * longest_s / size])
    axes.xaxis.set_major_formatter(_formatter(lambda seconds: f"{seconds / size:g}"))
    axes.set_xlabel(f"wall time ({unit})")


def _frames_tick(frames: float) -> str:
    return f"{frames / 1e6:g}M" if frames >= 1e6 else f"{frames / 1e3:g}k" if frames >= 1e3 else f"{frames:g}"


def _formatter(text: Callable[[float], str]) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: text(value))
