"""Flights over the field from above: as a PNG, as a film, and one moment of an env.

Matplotlib draws once what does not move; paths, drones and moving obstacles are drawn over it with Pillow.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.storage.files import write_file
from slipstream.ui.figures import GRID, INK, MUTED, new_figure, wrap_legend
from slipstream.ui.film import picture_of, write_film
from slipstream.ui.tables import format_percent

TIMEOUT, SUCCESS, COLLISION = 0, 1, 2  # outcomes of drones
OUTCOMES = ((SUCCESS, "goal reached", "#3ddbd9"), (COLLISION, "collided", "#ff5c5c"), (TIMEOUT, "timed out", "#ffc857"))
COLORS = {kind: color for kind, _, color in OUTCOMES}
MOVER, FIELD = "#b794f6", "#131b27"
LOW_BOX, TALL_BOX = "#2b3a4f", "#e4f0fa"
SIZE_IN = 8.0, 8.8  # of the figure
VIEW = 0.03, 0.055, 0.94, 0.94 * 8.0 / 8.8  # of the field in it: left, lower edge, width, height
LARGER = 2  # an image is drawn this much larger and scaled down, for smooth edges
PNG_PX, FILM_PX, MOMENT_PX = 1600, 720, 960  # width
FPS = 25  # 40 ms per frame: a GIF counts in 10 ms
LONGEST_S = 12.0  # of the film; a longer flight is shown faster


class FlightPicture:
    """N flights over a field.

    Args:
        boxes: [M, 5] x, y of the center, half width in x and y, height, in m.
        paths: [T, N, 3] positions in m, NaN after the end.
        outcome: [N] 0 timeout, 1 success, 2 collision.
        goals: [N, 2] m.
        movers: [T, K, 3] m.
        widths: [K] m, of the movers.
        title: of the picture.
        map_half_m: half the side of the map.
    """

    def __init__(
        self,
        boxes: NDArray[Any],
        paths: NDArray[Any],
        outcome: NDArray[Any],
        goals: NDArray[Any],
        movers: NDArray[Any],
        widths: NDArray[Any],
        title: str = "",
        map_half_m: float = 20.0,
    ) -> None:
        self.boxes, self.paths, self.outcome, self.goals = boxes, np.asarray(paths, np.float64), outcome, goals
        self.movers, self.widths, self.title, self.map_half_m = movers, widths, title, map_half_m
        self.half_m = view_half_m(self.paths, goals, map_half_m)

    def png(self, path: str | Path) -> Path:
        """Write all flights to their ends."""
        from PIL import ImageDraw

        path = Path(path)
        image = self._draw_ground(PNG_PX)
        pen, line_px = ImageDraw.Draw(image), image.width // FILM_PX
        for kind, _, color in OUTCOMES:  # failed flights on top
            for flight in self.paths[:, self.outcome == kind].swapaxes(0, 1):
                line = self._pixels(image, flight[np.isfinite(flight).all(1)]).ravel().tolist()
                pen.line(line, fill=color, width=line_px, joint="curve")
        _, places = end_times(self.paths, np.arange(len(self.paths)))
        flying = np.zeros(len(self.outcome), bool)
        self._draw_bodies(image, self.movers[-1], self._pixels(image, places[-1]), flying)
        png = io.BytesIO()
        image.reduce(LARGER).save(png, format="PNG")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, png.getvalue())
        return path

    def moment(self) -> NDArray[Any]:
        """Return the first moment as an image, uint8 [height, width, 3], with all drones flying."""
        image = self._draw_ground(MOMENT_PX, {TIMEOUT: "flying"})
        flying = np.ones(len(self.outcome), bool)
        self._draw_bodies(image, self.movers[0], self._pixels(image, self.paths[0]), flying)
        return np.array(image.reduce(LARGER))

    def film(self, path: str | Path, times_s: NDArray[Any], progress: Callable[[float], None] | None = None) -> Path:
        """Write .gif or .mp4 with 25 frames per second; each shows the time and the mean speed.

        Args:
            path: ends in .gif or .mp4.
            times_s: [T] of the points of paths and movers.
            progress: takes the share that is drawn.
        """
        ground = self._draw_ground(FILM_PX)
        ended_s, places = end_times(self.paths, times_s)
        last_s = float(np.max(ended_s, initial=0.0))
        shown_s = np.linspace(0.0, last_s, int(np.ceil(min(last_s, LONGEST_S) * FPS)) + 1)
        speedup = f"    ×{last_s / LONGEST_S:.1f}" if last_s > 1.05 * LONGEST_S else ""
        speeds = mean_speeds(self.paths, times_s)

        def frames() -> Iterator[Any]:
            from PIL import ImageDraw

            trails = ground.copy()
            trail_pen = ImageDraw.Draw(trails)
            before: NDArray[Any] | None = None
            for now_s in shown_s:
                drones = self._pixels(ground, at_time(places, times_s, now_s))
                flying = ended_s >= now_s
                for i in np.flatnonzero(flying):
                    start = drones if before is None else before
                    trail_pen.line([*start[i], *drones[i]], fill=COLORS[int(self.outcome[i])], width=LARGER)
                before = drones
                frame = trails.copy()
                self._draw_bodies(frame, at_time(self.movers, times_s, now_s), drones, flying)
                row = min(int(np.searchsorted(times_s, now_s, "right")), len(speeds)) - 1
                words = f"t = {now_s:.1f} s    {int(flying.sum())} flying    mean {speeds[row]:.1f} m/s{speedup}"
                _write(frame, words)
                yield frame.reduce(LARGER)

        return write_film(Path(path), frames(), len(shown_s), FPS, progress, [*COLORS.values(), MOVER])

    # -- what moves --------------------------------------------------------------------------------------------------

    def _pixels(self, image: Any, places: NDArray[Any]) -> NDArray[Any]:
        """Return places [..., 2 or 3] in m as pixels [..., 2] of an image."""
        left, low, width, height = VIEW
        x, y = np.moveaxis((np.asarray(places)[..., :2] + self.half_m) / (2 * self.half_m), -1, 0)
        return np.stack((left + width * x, 1 - (low + height * y)), -1) * (image.width, image.height)

    def _draw_bodies(self, image: Any, movers: NDArray[Any], drones: NDArray[Any], flying: NDArray[Any]) -> None:
        """Draw moving obstacles at `movers` [K, 3] m, and drones at `drones` [N, 2] pixels."""
        from PIL import ImageDraw

        pen, unit = ImageDraw.Draw(image), image.width / FILM_PX
        radii = np.asarray(self.widths) / 2 * VIEW[2] * image.width / (2 * self.half_m)
        for place, radius in zip(self._pixels(image, movers), radii, strict=True):
            _disc(pen, place, radius, MOVER)
        for place, kind, flies in zip(drones, self.outcome, flying, strict=True):
            if not np.isfinite(place).all():
                continue
            if flies:
                _disc(pen, place, 4.0 * unit, COLORS[kind], INK)
            elif kind == COLLISION:
                (x, y), r = place, 4.0 * unit
                for dy in (-r, r):
                    pen.line([x - r, y - dy, x + r, y + dy], fill=COLORS[COLLISION], width=round(2 * unit))
            else:
                _disc(pen, place, 2.5 * unit, COLORS[kind], None if kind == SUCCESS else INK)

    # -- what does not -----------------------------------------------------------------------------------------------

    def _draw_ground(self, width_px: int, labels: Mapping[int, str] | None = None) -> Any:
        """Return the image of field, boxes, goals and legend, `LARGER` times as large."""
        from matplotlib.collections import PolyCollection
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.patches import Rectangle

        figure, half_m, side = new_figure(*SIZE_IN), self.half_m, 2 * self.map_half_m
        axes = figure.add_axes(VIEW)
        axes.set(xlim=(-half_m, half_m), ylim=(-half_m, half_m), aspect="equal")
        axes.axis("off")
        corner = (-self.map_half_m, -self.map_half_m)
        axes.add_patch(Rectangle(corner, side, side, facecolor=FIELD, edgecolor=GRID, linewidth=1.2, zorder=0))
        at = np.arange(-self.map_half_m, self.map_half_m, round_step(side / 8))
        for lines in (axes.vlines, axes.hlines):
            lines(at, -self.map_half_m, self.map_half_m, colors=GRID, linewidth=0.5, alpha=0.55, zorder=0.5)
        boxes = self.boxes[np.argsort(self.boxes[:, 4], kind="stable")]  # tall boxes in front of low ones
        corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
        roofs = boxes[:, None, :2] + corners * boxes[:, None, 2:4]  # [M, 4, 2]
        shades = LinearSegmentedColormap.from_list("height", [LOW_BOX, TALL_BOX])
        colors = shades(boxes[:, 4] / max(boxes[:, 4].max(initial=1e-3), 1e-3))
        axes.add_collection(PolyCollection(list(roofs), facecolors=colors, edgecolors="#0a0f16", linewidths=0.35))
        size = float(np.clip(3000 / max(len(self.goals), 1), 5, 60))
        axes.scatter(*self.goals.T, s=size, facecolors="none", edgecolors=INK, linewidths=0.7, alpha=0.7, zorder=4)
        size = min(16.0, 16.0 * 52 / max(len(self.title), 1))
        figure.text(0.04, 0.967, self.title, color=INK, fontsize=size, fontweight="bold", va="center")
        self._draw_legend(figure, labels or {})
        step_m = round_step(half_m / 3)
        figure.add_artist(Rectangle((0.04, 0.03), 0.94 * step_m / (2 * half_m), 0.003, facecolor=MUTED))
        note = f"{step_m:g} m; brighter boxes are taller" if len(boxes) else f"{step_m:g} m"
        figure.text(0.94 * step_m / (2 * half_m) + 0.052, 0.032, note, color=MUTED, fontsize=10.5, va="center")
        return picture_of(figure, LARGER * width_px)

    def _draw_legend(self, figure: Any, labels: Mapping[int, str]) -> None:
        from matplotlib.lines import Line2D

        handles, number = [], max(len(self.outcome), 1)
        for kind, label, color in OUTCOMES if len(self.outcome) else ():
            count = int((self.outcome == kind).sum())
            text = f"{labels.get(kind, label)}  {count}  ({format_percent(count / number, 0)})"
            handles.append(Line2D([], [], color=color, marker="x" if kind == COLLISION else "o", label=text))
        if len(self.widths):
            handles.append(Line2D([], [], color=MOVER, linestyle="", marker="o", label="moving"))
        place = {"loc": "upper left", "bbox_to_anchor": (0.04, 0.945), "borderpad": 0, "borderaxespad": 0}
        wrap_legend(figure, handles, fontsize=10.5, handlelength=1.4, columnspacing=1.5, **place)


def view_half_m(paths: NDArray[Any], goals: NDArray[Any], map_half_m: float) -> float:
    """Return half the side of the view: map, starts, goals and flights, without drones that flew far away."""
    ends = np.concatenate((np.abs(paths[:1, :, :2]).ravel(), np.abs(goals).ravel()))
    flown = np.abs(paths[..., :2])
    needed, reach = (float(np.max(a[np.isfinite(a)], initial=map_half_m)) for a in (ends, flown))
    return max(needed, min(reach, 1.3 * map_half_m)) + 0.05 * map_half_m


def round_step(about: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not above `about`."""
    power = 10.0 ** np.floor(np.log10(about))
    return float(max(factor * power for factor in (1, 2, 5) if factor * power <= about * (1 + 1e-9)))


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


def _disc(pen: Any, place: NDArray[Any], radius: float, fill: str, outline: str | None = None) -> None:
    x, y = place
    pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=fill, outline=outline, width=LARGER)


def _write(image: Any, text: str) -> None:
    """Write a line into the lower right corner."""
    import matplotlib
    from PIL import ImageDraw, ImageFont

    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", 12 * LARGER)
    place = 0.97 * image.width, 0.967 * image.height
    ImageDraw.Draw(image).text(place, text, fill=INK, font=font, anchor="rm")
