"""The flights of an evaluation as an animation: the field from above, drones and moving obstacles by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.tasks.navigation.figures.flight import COLLISION, MOVER, OUTCOMES, SUCCESS, VIEW, draw_field, to_figure
from slipstream.ui.figures import GROUND, INK
from slipstream.ui.film import picture_of, write_film

FPS = 25  # 40 ms per frame: a GIF counts in 10 ms
LONGEST_S = 12.0  # of the film; a longer flight is shown faster
WIDTH_PX = 720
LARGER = 2  # a frame is drawn this much larger and scaled down, for smooth edges
COLORS = {kind: color for kind, _, color in OUTCOMES}


def film_flights(
    path: str | Path,
    boxes: NDArray[Any],
    paths: NDArray[Any],
    outcome: NDArray[Any],
    goals: NDArray[Any],
    times_s: NDArray[Any],
    movers: NDArray[Any],
    widths: NDArray[Any],
    title: str = "",
    map_half_m: float = 20.0,
    progress: Callable[[float], None] | None = None,
) -> Path:
    """Write N flights as .gif or .mp4 with 25 frames per second; each shows the time and the mean speed.

    Args:
        path: ends in .gif or .mp4.
        times_s: [T] of the points of `paths` and `movers`.
        progress: takes the share that is drawn.

    The others are those of `flight_paths`.
    """
    paths, times_s = np.asarray(paths, np.float64), np.asarray(times_s, np.float64)
    figure, _, half_m = draw_field(boxes, paths, outcome, goals, bool(np.size(movers)), title, map_half_m, {})
    ground = picture_of(figure, LARGER * WIDTH_PX)
    ended_s, places = end_times(paths, times_s)
    last_s = float(np.max(ended_s, initial=0.0))
    shown_s = np.linspace(0.0, last_s, int(np.ceil(min(last_s, LONGEST_S) * FPS)) + 1)
    speedup = f"    ×{last_s / LONGEST_S:.1f}" if last_s > 1.05 * LONGEST_S else ""
    speeds = mean_speeds(paths, times_s)

    def pixels(points: NDArray[Any]) -> NDArray[Any]:  # [frames, bodies, 2]
        at = np.stack([at_time(points, times_s, now_s) for now_s in shown_s])
        return to_figure(at[..., :2], half_m) * (ground.width, ground.height)

    drones = pixels(places)
    obstacles = pixels(np.asarray(movers))
    radii = np.asarray(widths, np.float64) / 2 * VIEW[2] * ground.width / (2 * half_m)

    def frames() -> Iterator[Any]:
        from PIL import ImageDraw

        trails = ground.copy()
        trail_pen = ImageDraw.Draw(trails)
        for k, now_s in enumerate(shown_s):
            flying = ended_s >= now_s
            for i in np.flatnonzero(flying):
                segment = [*drones[max(k - 1, 0), i], *drones[k, i]]
                trail_pen.line(segment, fill=COLORS[int(outcome[i])], width=LARGER)
            frame = trails.copy()
            pen = ImageDraw.Draw(frame)
            for place, radius in zip(obstacles[k], radii, strict=True):
                _disc(pen, place, radius, MOVER)
            for place, kind, flies in zip(drones[k], outcome, flying, strict=True):
                _draw_drone(pen, place, int(kind), bool(flies))
            row = min(int(np.searchsorted(times_s, now_s, "right")), len(speeds)) - 1
            words = f"t = {now_s:.1f} s    {int(flying.sum())} flying    mean {speeds[row]:.1f} m/s{speedup}"
            _write(pen, (0.44 * ground.width, 0.967 * ground.height), words)
            yield frame.reduce(LARGER)

    colors = (GROUND, *COLORS.values(), MOVER, INK)
    return write_film(path, frames(), len(shown_s), FPS, [ground.reduce(LARGER)], colors, progress)


def end_times(paths: NDArray[Any], times_s: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return when each flight ends [N], -1 for one that never began, and the paths [T, N, 3] with the last place kept
    after the end."""
    there = np.isfinite(paths).all(-1)  # [T, N]
    rows = np.where(there, np.arange(len(paths))[:, None], 0)
    filled = np.take_along_axis(paths, np.maximum.accumulate(rows, 0)[..., None], 0)
    return np.where(there.any(0), times_s[rows.max(0)], -1.0), filled


def at_time(places: NDArray[Any], times_s: NDArray[Any], now_s: float) -> NDArray[Any]:
    """Return the places [N, 3] at a time between the points [T, N, 3]."""
    after = int(np.clip(np.searchsorted(times_s, now_s), 1, max(len(times_s) - 1, 1)))
    if len(times_s) == 1:
        return places[0]
    share = (now_s - times_s[after - 1]) / (times_s[after] - times_s[after - 1])
    return places[after - 1] + min(max(share, 0.0), 1.0) * (places[after] - places[after - 1])


def mean_speeds(paths: NDArray[Any], times_s: NDArray[Any]) -> NDArray[Any]:
    """Return the mean speed [max(T - 1, 1)] of the drones that fly, between each two points; 0 if none does."""
    if len(paths) < 2:
        return np.zeros(1)
    speed = np.linalg.norm(np.diff(paths, axis=0), axis=-1) / np.diff(times_s)[:, None]
    flying = np.isfinite(speed)
    return np.where(flying, speed, 0.0).sum(1) / np.maximum(flying.sum(1), 1)


def _draw_drone(pen: Any, place: NDArray[Any], outcome: int, flying: bool) -> None:
    if not np.isfinite(place).all():
        return
    if flying:
        _disc(pen, place, 4.0 * LARGER, COLORS[outcome], INK)
    elif outcome == COLLISION:
        x, y, r = *place, 4.0 * LARGER
        for dy in (-r, r):
            pen.line([x - r, y - dy, x + r, y + dy], fill=COLORS[COLLISION], width=2 * LARGER)
    else:
        _disc(pen, place, 2.5 * LARGER, COLORS[outcome], None if outcome == SUCCESS else INK)


def _disc(pen: Any, place: NDArray[Any], radius: float, fill: str, outline: str | None = None) -> None:
    x, y = place
    pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=fill, outline=outline, width=LARGER)


def _write(pen: Any, place: tuple[float, float], text: str) -> None:
    import matplotlib
    from PIL import ImageFont

    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", 12 * LARGER)
    pen.text(place, text, fill=INK, font=font, anchor="mm")
