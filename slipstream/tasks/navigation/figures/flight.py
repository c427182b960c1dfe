"""The figure of an evaluation: all flights over the obstacle field, from above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.ui.figures import GRID, GROUND, INK, MUTED, new_figure, save_figure, wrap_legend
from slipstream.ui.tables import format_percent

TIMEOUT, SUCCESS, COLLISION, MOVING = 0, 1, 2, 3  # outcomes of drones; MOVING is for the label of moving obstacles
OUTCOMES = ((SUCCESS, "goal reached", "#3ddbd9"), (COLLISION, "collided", "#ff5c5c"), (TIMEOUT, "timed out", "#ffc857"))
MOVER = "#b794f6"
FIELD = "#131b27"
TRAIL_SHARE = 0.08  # of the flight time: shows a heading without covering the map
SIZE_IN = 8.0, 8.8  # of the figure
VIEW = 0.03, 0.055, 0.94, 0.94 * 8.0 / 8.8  # of the field in it: left, lower edge, width, height
POINTS_PER_PATH = 500  # more are not visible at 1,600 pixels


def paths_to_goal(state: NDArray[Any], direction: NDArray[Any]) -> NDArray[Any]:
    """Return positions [L, 3] relative to the goal, in world axes, from an episode's `state` [L, 8] and `direction` [L,
    ..., 3].

    The state begins with the direction to the goal in the goal frame, the horizontal distance and the height to it.
    """
    distance = np.hypot(state[:, 3], state[:, 4])[:, None]
    ahead, left, up = (state[:, :3] * distance).T
    flat = direction.reshape(len(direction), -1)[:, :2]
    heading = flat / np.maximum(np.linalg.norm(flat, axis=-1, keepdims=True), 1e-6)
    c, s = heading.T
    return -np.stack((c * ahead - s * left, s * ahead + c * left, up), -1)


class FlightDrawing:
    """Draw saved episodes as paths relative to their goals, which are in the center (`tasks.base.EpisodeDrawing`)."""

    keys: Sequence[Any] = (
        *(("observation", "state"), ("observation", "direction")),
        *(("info", "success"), ("info", "collision")),
    )
    most = 96

    def draw(self, path: Path, episodes: Sequence[tuple[bool, Mapping[Any, Any]]], title: str) -> Path:
        """Draw the episodes; one that has not ended counts as timed out."""
        state, direction = self.keys[:2]
        flown = [paths_to_goal(data[state].numpy(), data[direction].numpy()) for _, data in episodes]
        paths = np.full((max(map(len, flown)), len(flown), 3), np.nan)
        for i, one in enumerate(flown):
            paths[: len(one), i] = one
        outcomes = np.array([self._outcome(terminated, data) for terminated, data in episodes])
        no_boxes, goals = np.empty((0, 5)), np.zeros((len(flown), 2))
        half_m = max(1.0, 1.05 * float(np.nanmax(np.abs(paths[..., :2]))))
        title, labels = f"{title}; their goals in the middle", {TIMEOUT: "timed out, or not ended"}
        return flight_paths(path, no_boxes, paths, outcomes, goals, title=title, map_half_m=half_m, labels=labels)

    def _outcome(self, terminated: bool, data: Mapping[Any, Any]) -> int:
        success, collision = (bool(data[key].any()) if key in data else False for key in self.keys[2:])
        return COLLISION if terminated or collision else SUCCESS if success else TIMEOUT


def flight_paths(path: str | Path, *args: Any, **settings: Any) -> Path:
    """Draw N flights as a PNG: `flight_figure` with these arguments, saved. Returns `path`."""
    return save_figure(flight_figure(*args, **settings), path)


def flight_figure(
    boxes: NDArray[Any],
    paths: NDArray[Any],
    outcome: NDArray[Any],
    goals: NDArray[Any],
    movers: NDArray[Any] | None = None,
    widths: NDArray[Any] | None = None,
    title: str = "",
    map_half_m: float = 20.0,
    labels: Mapping[int, str] | None = None,
) -> Any:
    """Return the figure of N flights.

    Args:
        boxes: [M, 5] x, y of the center, half width in x and y, height, in m.
        paths: [T, N, 3] positions in m, NaN after the end.
        outcome: [N] 0 timeout, 1 success, 2 collision.
        goals: [N, 2] m.
        movers: [T, K, 3] m.
        widths: [K] m, of the movers.
        title: of the figure.
        map_half_m: half the side of the map.
        labels: other labels of the outcomes.
    """
    boxes, paths, outcome, goals = (np.asarray(a, dtype=np.float64) for a in (boxes, paths, outcome, goals))
    _check_shapes(boxes, paths, outcome, goals, movers, widths)
    has_movers = movers is not None and bool(np.size(movers))
    labels = {MOVING: "moving, at the end"} | dict(labels or {})
    figure, axes, _ = draw_field(boxes, paths, outcome, goals, has_movers, title, map_half_m, labels)
    if has_movers:
        _draw_movers(axes, np.asarray(movers, dtype=np.float64), np.asarray(widths, dtype=np.float64))
    _draw_paths(axes, paths, outcome)
    return figure


def draw_field(
    boxes: NDArray[Any],
    paths: NDArray[Any],
    outcome: NDArray[Any],
    goals: NDArray[Any],
    has_movers: bool,
    title: str,
    map_half_m: float,
    labels: Mapping[int, str],
) -> tuple[Any, Any, float]:
    """Return the figure with all that does not move, its axes, and half the side of the view in m."""
    half_m = _view_half_m(paths, goals, map_half_m)
    figure = new_figure(*SIZE_IN)
    axes = figure.add_axes(VIEW)
    axes.set(xlim=(-half_m, half_m), ylim=(-half_m, half_m), aspect="equal", xticks=[], yticks=[], facecolor=GROUND)
    for spine in axes.spines.values():
        spine.set_visible(False)
    _draw_field(axes, map_half_m)
    heights = _draw_boxes(axes, boxes)
    _draw_goals(axes, goals)
    _write_header(figure, title, outcome, has_movers, labels)
    _write_footer(figure, axes, half_m, heights if len(boxes) else None)
    return figure, axes, half_m


def to_figure(places: NDArray[Any], half_m: float) -> NDArray[Any]:
    """Return places [..., 2] in m as shares of the figure's width and height, from the upper left corner."""
    left, low, width, height = VIEW
    x, y = np.moveaxis((np.asarray(places) + half_m) / (2 * half_m), -1, 0)
    return np.stack((left + width * x, 1 - (low + height * y)), -1)


def _check_shapes(boxes: Any, paths: Any, outcome: Any, goals: Any, movers: Any, widths: Any) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 5:
        raise ValueError(f"boxes must be [M, 5] (x, y, half width x, half width y, height), not {list(boxes.shape)}")
    if paths.ndim != 3 or paths.shape[2] != 3:
        raise ValueError(f"paths must be [T, N, 3], not {list(paths.shape)}")
    n = paths.shape[1]
    if outcome.shape != (n,) or goals.shape != (n, 2):
        raise ValueError(
            f"{n} paths need outcome [{n}] and goals [{n}, 2], not {list(outcome.shape)} and {list(goals.shape)}"
        )
    if (movers is None) != (widths is None) or (movers is not None and np.shape(movers)[1:] != (np.size(widths), 3)):
        raise ValueError("give both movers [T, K, 3] and widths [K] with the same K, or neither")


def _view_half_m(paths: NDArray[Any], goals: NDArray[Any], map_half_m: float) -> float:
    """Return half the side of the view: map, starts, goals and flights, without drones that flew far away."""
    ends = np.concatenate((np.abs(paths[:1, :, :2]).ravel(), np.abs(goals).ravel()))
    flown = np.abs(paths[..., :2])
    needed, reach = (float(np.max(a[np.isfinite(a)], initial=map_half_m)) for a in (ends, flown))
    return max(needed, min(reach, 1.3 * map_half_m)) + 0.05 * map_half_m


def _draw_field(axes: Any, map_half_m: float) -> None:
    from matplotlib.patches import Rectangle

    side, corner = 2 * map_half_m, (-map_half_m, -map_half_m)
    axes.add_patch(Rectangle(corner, side, side, facecolor=FIELD, edgecolor=GRID, linewidth=1.2, zorder=0))
    step_m = _round_step(side / 8)
    at = np.arange(-map_half_m + step_m, map_half_m - 1e-6, step_m)
    for lines in (axes.vlines, axes.hlines):
        lines(at, -map_half_m, map_half_m, colors=GRID, linewidth=0.5, alpha=0.55, zorder=0.5)


def _draw_boxes(axes: Any, boxes: NDArray[Any]) -> Any:
    """Draw boxes colored by height. Returns the mappable of the color bar."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    colors = LinearSegmentedColormap.from_list("height", ["#2b3a4f", "#4a6585", "#8fb3d1", "#e4f0fa"])
    heights = boxes[:, 4]
    low, high = (float(heights.min()), float(heights.max())) if len(boxes) else (0.0, 1.0)
    mappable = ScalarMappable(Normalize(low, max(high, low + 1e-3)), colors)
    boxes = boxes[np.argsort(heights, kind="stable")]  # tall boxes are in front of low ones
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    roofs = boxes[:, None, :2] + corners * boxes[:, None, 2:4]  # [M, 4, 2]
    style: dict[str, Any] = {"facecolors": mappable.to_rgba(boxes[:, 4]), "edgecolors": "#0a0f16", "linewidths": 0.35}
    axes.add_collection(PolyCollection(list(roofs), zorder=2, **style))
    return mappable


def _draw_movers(axes: Any, movers: NDArray[Any], widths: NDArray[Any]) -> None:
    """Draw each moving obstacle at its last position, with a trail."""
    from matplotlib.collections import EllipseCollection, LineCollection

    last = movers[-max(int(TRAIL_SHARE * len(movers)), 2) :, :, :2]
    axes.add_collection(LineCollection(list(last.swapaxes(0, 1)), colors=MOVER, linewidths=1.2, alpha=0.7, zorder=3))
    place: dict[str, Any] = {"units": "xy", "offsets": last[-1], "offset_transform": axes.transData, "zorder": 6}
    style: dict[str, Any] = {"facecolors": "#b794f6cc", "edgecolors": "#e4d8ff", "linewidths": 0.6}
    axes.add_collection(EllipseCollection(widths, widths, np.zeros_like(widths), **place, **style))


def _draw_goals(axes: Any, goals: NDArray[Any]) -> None:
    size = float(np.clip(3000 / max(len(goals), 1), 5, 60))
    axes.scatter(*goals.T, s=size, facecolors="none", edgecolors=INK, linewidths=0.7, alpha=0.7, zorder=4)


def _draw_paths(axes: Any, paths: NDArray[Any], outcome: NDArray[Any]) -> None:
    """Draw each flight as a thin line with a glow; failed flights are on top, with a mark at their end."""
    from matplotlib.collections import LineCollection

    number = max(paths.shape[1], 1)
    alpha = float(np.clip(12 / np.sqrt(number), 0.55, 0.95))
    width = float(np.clip(11 / np.sqrt(number), 0.8, 2.0))
    for order, (kind, _, color) in enumerate(OUTCOMES):
        lines = [_thinned(paths[:, i, :2]) for i in np.flatnonzero(outcome == kind)]
        lines = [line for line in lines if len(line)]
        if not lines:
            continue
        layer = 5 + 0.2 * order
        style: dict[str, Any] = {"colors": color, "capstyle": "round", "joinstyle": "round"}
        glow = LineCollection(lines, linewidths=4 * width, alpha=0.07 * alpha, zorder=layer, **style)
        axes.add_collection(glow)
        axes.add_collection(LineCollection(lines, linewidths=width, alpha=alpha, zorder=layer + 0.05, **style))
        starts, ends = np.array([line[0] for line in lines]), np.array([line[-1] for line in lines])
        axes.scatter(*starts.T, s=5 * width, color=color, alpha=0.9, linewidths=0, zorder=layer)
        if kind == COLLISION:
            axes.scatter(*ends.T, s=130, color=color, alpha=0.22, linewidths=0, zorder=7)
            axes.scatter(*ends.T, s=34, marker="x", color=GROUND, linewidths=3.2, zorder=7.1)
            axes.scatter(*ends.T, s=30, marker="x", color="#ff8a80", linewidths=1.7, zorder=7.2)
        elif kind == TIMEOUT:
            axes.scatter(*ends.T, s=30, marker="s", color=color, edgecolors=GROUND, linewidths=0.8, zorder=7)


def _thinned(line: NDArray[Any]) -> NDArray[Any]:
    """Return at most POINTS_PER_PATH points of [T, 2] before the first NaN, with the first and the last."""
    bad = ~np.isfinite(line).all(axis=1)
    line = line[: int(bad.argmax())] if bad.any() else line
    if len(line) <= POINTS_PER_PATH:
        return line
    return line[np.linspace(0, len(line) - 1, POINTS_PER_PATH).round().astype(int)]


def _write_header(figure: Any, title: str, outcome: NDArray[Any], has_movers: bool, labels: Mapping[int, str]) -> None:
    from matplotlib.lines import Line2D

    size = min(16.0, 16.0 * 52 / max(len(title), 1))
    figure.text(0.04, 0.967, title, color=INK, fontsize=size, fontweight="bold", va="center")
    handles, number = [], max(len(outcome), 1)
    style: dict[str, Any] = {"linewidth": 2.4, "markersize": 6, "markeredgewidth": 1.8}
    for kind, label, color in OUTCOMES:
        count = int((outcome == kind).sum())
        end = {SUCCESS: "", COLLISION: "x", TIMEOUT: "s"}[kind]
        text = f"{labels.get(kind, label)}  {count}  ({format_percent(count / number, 0)})"
        handles.append(Line2D([], [], color=color, marker=end, label=text, **style))
    if has_movers:
        handles.append(
            Line2D([], [], color=MOVER, linestyle="", marker="o", markersize=8, label=labels.get(MOVING, "moving"))
        )
    place = {"loc": "upper left", "bbox_to_anchor": (0.04, 0.942), "fontsize": 10.5, "borderpad": 0, "borderaxespad": 0}
    wrap_legend(figure, handles, handlelength=1.4, handletextpad=0.6, columnspacing=1.5, labelspacing=0.3, **place)


def _write_footer(figure: Any, axes: Any, half_m: float, heights: Any) -> None:
    """Draw a scale on the left, and the colors of heights, if any, on the right."""
    step_m = _round_step(half_m / 3)
    width = 0.94 * step_m / (2 * half_m)
    scale = figure.add_axes((0.04, 0.03, width, 0.008))
    scale.axis("off")
    scale.set(xlim=(0, 1), ylim=(0, 1))
    scale.plot([0, 0, 1, 1], [1, 0, 0, 1], color=MUTED, linewidth=1.4, clip_on=False)
    figure.text(0.04 + width + 0.012, 0.033, f"{step_m:g} m", color=MUTED, fontsize=10.5, va="center")
    if heights is None:
        return
    bar = figure.colorbar(heights, cax=figure.add_axes((0.76, 0.026, 0.16, 0.014)), orientation="horizontal")
    bar.outline.set_visible(False)
    bar.set_ticks([])
    low, high = heights.get_clim()
    figure.text(0.75, 0.033, f"height  {low:.1f}", color=MUTED, fontsize=10.5, va="center", ha="right")
    figure.text(0.93, 0.033, f"{high:.1f} m", color=MUTED, fontsize=10.5, va="center")


def _round_step(about: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not above `about`."""
    power = 10.0 ** np.floor(np.log10(about))
    return float(max(factor * power for factor in (1, 2, 5) if factor * power <= about * (1 + 1e-9)))
