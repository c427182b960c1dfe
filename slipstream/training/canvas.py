"""The house look of a figure: dark, crisp, no more ink than data. Touches no global matplotlib state."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

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
