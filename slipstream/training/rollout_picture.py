"""Pictures of saved episodes: flown paths around their goals, or the curves of what an episode gave and saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.tasks.navigation.figures.flight import TIMEOUT, flight_paths
from slipstream.training.canvas import INK, SERIES, new_figure, save_figure, style_axes, style_legend

MOST_PANELS, MOST_LINES, MOST_COMPONENTS = 8, 6, 12
LABELS = {TIMEOUT: "timed out, or goes on"}


def paths_to_goal(state: NDArray[Any], direction: NDArray[Any]) -> NDArray[Any]:
    """Positions [L, 3] relative to the goal, in world axes, from a navigation episode's `state` [L, 8] and `direction` [L, ..., 3].

    The state begins with the direction to the goal in the goal frame, the horizontal distance and the height to it.
    """
    distance = np.hypot(state[:, 3], state[:, 4])[:, None]
    ahead, left, up = (state[:, :3] * distance).T
    flat = direction.reshape(len(direction), -1)[:, :2]
    heading = flat / np.maximum(np.linalg.norm(flat, axis=-1, keepdims=True), 1e-6)
    c, s = heading.T
    return -np.stack((c * ahead - s * left, s * ahead + c * left, up), -1)


def draw_paths(path: str | Path, episodes: Sequence[NDArray[Any]], outcomes: Sequence[int], title: str) -> Path:
    """Episodes [L, 3] of positions relative to the goal, which is drawn in the middle; outcomes as in `flight_paths`."""
    longest = max(len(e) for e in episodes)
    paths = np.full((longest, len(episodes), 3), np.nan)
    for i, episode in enumerate(episodes):
        paths[: len(episode), i] = episode
    reach = float(np.nanmax(np.abs(paths[..., :2])))
    nothing = np.empty((0, 5))
    goals, half_m = np.zeros((len(episodes), 2)), max(1.0, 1.05 * reach)
    return flight_paths(path, nothing, paths, np.array(outcomes), goals, title=title, map_half_m=half_m, labels=LABELS)


def draw_curves(
    path: str | Path, episodes: Sequence[Mapping[str, NDArray[Any]]], names: Sequence[str], title: str
) -> Path:
    """One panel a key over the steps of an episode: of a single episode the components of each, of several one line an episode.

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
