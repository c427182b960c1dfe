"""The spacetime diagram of a duel: the plane, 20 s of future above it, and the reach of a missile launched now.

The view is that of one side: its own objects are blue, threats are red, escapes are green. Lengths are in m and times
in s, but for the axes, which are in km. The interactive form is the page that `recordings` writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, Duels, Rules, describe_duel
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S
from slipstream.tasks.aircombat.reach.forecast import FUTURE_S, forecast
from slipstream.tasks.aircombat.reach.table import reachable_sets
from slipstream.ui.figures import GRID, GROUND, INK, MUTED, PANEL, SERIES, new_figure, save_figure
from slipstream.ui.film import FORMS, picture_of, write_film

PLANE_S = 5.0  # between two planes
FINE_POINT = 15  # ticks between two points of a path
TIMES_S = np.arange(0, FUTURE_S + 1e-6, FINE_POINT * PHYSICS_DT_S)  # of the points of a path
AROUND_KM = 8.0  # shown around all bodies: 20 s of flight
CELLS = 10  # of the grid, along a side of the view
OWN, THREAT, ESCAPE, MISSILE = SERIES[0], SERIES[4], SERIES[3], SERIES[5]
SHADES = (0.30, 0.22, 0.16, 0.11)  # of the reach at 5, 10, 15, 20 s
DASHED, DOTTED = (0, (4, 2)), (0, (1, 1))
PLAY_S = 6.0  # duration of an animation
SLOWEST, FASTEST = 2.0, 8.0  # limits of its frames per second
FRAME_S = 1.5  # game time between two frames
FILM_PX = 960


@dataclass(frozen=True)
class View:
    """The square of the plane that is drawn: its lower left corner [2] and its side, in km."""

    corner: NDArray[Any]
    side: float

    def clip(self, places: NDArray[Any]) -> NDArray[Any]:
        """Return places [K, 2] (m) in km, NaN outside the view."""
        km = places / 1000
        inside = ((km >= self.corner) & (km <= self.corner + self.side)).all(-1, keepdims=True)
        return np.where(inside, km, np.nan)


def view_of(states: Sequence[Duels]) -> View:
    """Return a view that holds all aircraft and missiles of these states of a duel."""
    places = [state.pos[0].numpy() for state in states]
    places += [state.missile_pos[0][state.missile_age[0] != GONE].numpy() for state in states]
    km = np.concatenate(places) / 1000
    low, high = km.min(0), km.max(0)
    side = 10 * math.ceil(((high - low).max() + 2 * AROUND_KM) / 10)
    cell = side / CELLS
    return View(np.round(((low + high) / 2 - side / 2) / cell) * cell, side)


def draw_duel(
    duel: Duels,
    side: int = 1,
    names: tuple[str, str] = ("own side", "the enemy"),
    title: str = "",
    view: View | None = None,
    rules: Rules | None = None,
) -> Any:
    """Return the figure of a duel as one side sees it.

    Args:
        duel: of one duel ([1, ...]) on the CPU.
        side: 1 or 2.
        names: of the agents of this side and of its enemy.
        title: written above, with the time.
        view: the square that is drawn (default: around the bodies).
        rules: of the duel.
    """
    rules, view = rules or Rules(), view or view_of([duel])
    state = describe_duel(duel, rules)
    ahead = {name: x[0] for name, x in forecast(duel, FINE_POINT, rules.dt_s).items()}
    figure = new_figure(12.0, 7.2)
    _draw_box(figure, duel, state, ahead, side, view)
    _write_numbers(figure, state["aircraft"], ahead["range"], side, names)
    _write_legend(figure)
    ended = {0: "draw", side: f"{names[0]} wins", 3 - side: f"{names[1]} wins"}.get(state["winner"])
    seen = f"seen from side {side}: {names[0]} in blue, {names[1]} in red"
    clock = f"{title}   t = {state['time']:.1f} s".strip()
    figure.text(0.015, 0.975, clock, color=INK, fontsize=14, fontweight="bold", va="top")
    figure.text(0.015, 0.938, ended or seen, color=INK if ended else MUTED, fontsize=11, va="top")
    return figure


def draw_game(
    states: Sequence[Duels],
    side: int,
    path: Path,
    title: str,
    names: tuple[str, str],
    rules: Rules,
    progress: Callable[[float], None] | None = None,
) -> dict[str, str]:
    """Write the diagram with the most missiles as a PNG, and the game as an animation if `path` is a .gif or .mp4.

    The PNG has the same name with .png. For the other arguments see `draw_duel`.
    """
    shown = [states[0]]
    for state in states[1:]:
        if int(state.clock[0] - shown[-1].clock[0]) * rules.dt_s >= FRAME_S - 1e-6 or state is states[-1]:
            shown.append(state)
    busiest = max(shown, key=lambda state: int((state.missile_age != GONE).sum()))
    picture = save_figure(draw_duel(busiest, side, names, title, rules=rules), path.with_suffix(".png"))
    if path.suffix not in FORMS:
        return {"picture": str(picture)}
    view = view_of(shown)  # one for all frames
    frames = (picture_of(draw_duel(state, side, names, title, view, rules), FILM_PX) for state in shown)
    fps = min(max(len(shown) / PLAY_S, SLOWEST), FASTEST)
    return {"picture": str(picture), "animation": str(write_film(path, frames, len(shown), fps, progress))}


# -- the box ---------------------------------------------------------------------------------------------------------


def _draw_box(
    figure: Any, duel: Duels, state: dict[str, Any], ahead: dict[str, NDArray[Any]], side: int, view: View
) -> None:
    from matplotlib.path import Path as Outline
    from mpl_toolkits.mplot3d import Axes3D

    own, enemy = side - 1, 2 - side
    axes = Axes3D(figure, rect=(0.0, 0.06, 0.76, 0.92), computed_zorder=False)
    figure.add_axes(axes)
    _draw_axes(axes, view)
    shooter, zones = state["aircraft"][enemy], []
    if shooter["alive"] and shooter["missiles"]:
        r_max, _, r_ne = ahead["contour"][enemy]
        line = np.linspace(0, 2 * math.pi, len(r_max) + 1)
        around, place = np.stack((np.cos(line), np.sin(line)), -1), duel.pos[0, enemy].numpy()
        for reach, line_style in ((r_max, DASHED), (r_ne, "solid")):
            ring = view.clip(place + np.append(reach, reach[0])[:, None] * around)
            axes.plot(ring[:, 0], ring[:, 1], 0, color=THREAT, zorder=3, linestyle=line_style)
        cos, sin = math.cos(shooter["angle"]), math.sin(shooter["angle"])
        sets = reachable_sets()
        nearest = int(np.abs(sets["speed"] - shooter["speed"]).argmin())
        zone = sets["time"], sets["polygon"][nearest], sets["mach"][nearest], SHADES
        for time_s, corners, mach, shade in zip(*zone, strict=True):
            polygon = corners @ np.array([[cos, sin], [-sin, cos]]) + place
            _draw_reach(axes, time_s, polygon, mach, shade, view)
            zones.append((time_s, Outline(polygon)))

    def line_through_time(path: NDArray[Any], crosses: bool = False, **style: Any) -> None:
        places = view.clip(path)
        axes.plot(places[:, 0], places[:, 1], TIMES_S, zorder=6, solid_capstyle="round", **style)
        axes.plot(places[:, 0], places[:, 1], 0, zorder=2.5, color=style["color"], linewidth=0.8, alpha=0.35)
        for time_s, outline in zones if crosses else ():  # a dot in each plane: red if the missile could be there then
            at = [float(np.interp(time_s, TIMES_S, path[:, k])) for k in range(2)]
            color = THREAT if outline.contains_point((at[0], at[1])) else ESCAPE
            axes.scatter(
                *view.clip(np.array(at)), time_s, s=36, color=color, edgecolors=GROUND, depthshade=False, zorder=8
            )

    if shooter["alive"]:
        line_through_time(ahead["path"][enemy], color=THREAT, linewidth=1.4, alpha=0.8)
    for escape in ahead["escape"][own]:
        line_through_time(escape, crosses=True, color=ESCAPE, linewidth=1.8, linestyle=DASHED)
    line_through_time(ahead["path"][own], crosses=True, color=OWN, linewidth=2.6)
    for slot in np.flatnonzero(duel.missile_age[0] != GONE):
        mine = slot // CARRIED == own
        style: dict[str, Any] = {"color": OWN, "linestyle": DOTTED} if mine else {"color": MISSILE}
        line_through_time(ahead["missile"][slot], linewidth=2.0, **style)
    for who, color in ((enemy, THREAT), (own, OWN)):
        alive = state["aircraft"][who]["alive"]
        style = {"marker": "o", "edgecolors": GROUND} if alive else {"marker": "x", "linewidths": 2.4}
        axes.scatter(*view.clip(duel.pos[0, who].numpy()), 0, s=70, color=color, depthshade=False, zorder=9, **style)
    for artist in axes.get_children():
        artist.set_clip_on(False)  # the box is wider than matplotlib's square


def _draw_axes(axes: Any, view: View) -> None:
    """Draw the ground with its grid and a frame every 5 s above it; label times, and km on the two front edges."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    (x, y), side = view.corner, view.side
    axes.set(xlim=(x, x + side), ylim=(y, y + side), zlim=(0, FUTURE_S), facecolor="none")
    axes.set_box_aspect((1, 1, 0.72), zoom=1.12)
    axes.set_proj_type("persp", focal_length=2.2)  # far enough away to compare distances
    axes.view_init(elev=27.0, azim=-62.0)
    axes.set_axis_off()
    square = np.array([[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]])
    for z in np.arange(0, FUTURE_S + 1e-6, PLANE_S):
        face = {"facecolors": "#9fb4cc", "alpha": 0.025} if z else {"facecolors": PANEL}
        axes.add_collection3d(Poly3DCollection([_at_height(square[:-1], z)], zorder=0, **face))
        axes.plot(square[:, 0], square[:, 1], z, color="#33415a", linewidth=0.9, zorder=1)
        label = f"+{z:.0f} s" if z else "now"
        axes.text(x - side / 50, y, z, label, color=INK, fontsize=9.5, ha="right", va="center")
    for cx, cy in square[:-1]:
        axes.plot([cx, cx], [cy, cy], [0, FUTURE_S], color="#33415a", linewidth=0.8, zorder=1)
    across = np.linspace(0, side, CELLS + 1)
    grid = [((x + at, y, 0), (x + at, y + side, 0)) for at in across]
    grid += [((x, y + at, 0), (x + side, y + at, 0)) for at in across]
    axes.add_collection3d(Line3DCollection(grid, colors=GRID, linewidths=0.7, zorder=1))
    style = {"color": MUTED, "fontsize": 8, "va": "center", "ha": "center"}
    for at in across[::2]:
        axes.text(x + at, y - side / 25, 0, f"{x + at:.0f}", **style)
        axes.text(x + side * 1.04, y + at, 0, f"{y + at:.0f}", **style)
    axes.text(x + side / 2, y - side / 7, 0, "x, km", **style)
    axes.text(x + side * 1.12, y + side / 2, 0, "y, km", **style)
    axes.text2D(0.05, 0.5, "seconds from now", rotation=90, transform=axes.transAxes, **style)


def _draw_reach(axes: Any, time_s: float, polygon: NDArray[Any], mach: NDArray[Any], shade: float, view: View) -> None:
    """Draw where an enemy missile launched now can be at one time; the edge fades below Mach 1."""
    from matplotlib.colors import to_rgba
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Bbox
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    ring, mach = (np.concatenate((x, x[:1])) for x in (polygon, mach))
    box = Bbox([view.corner, view.corner + view.side])
    flat = np.asarray(Outline(ring / 1000).clip_to_bbox(box).vertices)
    if len(flat) < 3:
        return
    style = {"facecolors": to_rgba(THREAT, shade), "edgecolors": "none", "zorder": 2 + time_s / 10}
    axes.add_collection3d(Poly3DCollection([_at_height(flat, time_s)], **style))
    edge = _at_height(view.clip(ring), time_s)
    strength = np.clip((np.minimum(mach[:-1], mach[1:]) - 0.55) / 0.45, 0.08, 1.0)
    colors = [to_rgba(THREAT, 0.9 * a) for a in strength]
    pieces = np.stack((edge[:-1], edge[1:]), axis=1)
    axes.add_collection3d(Line3DCollection(pieces, colors=colors, linewidths=1.3, zorder=2 + time_s / 10))


def _at_height(places: NDArray[Any], z: float) -> NDArray[Any]:
    """Return places [K, 2] of the plane at a height [K, 3]."""
    return np.column_stack((places, np.full(len(places), z)))


# -- the numbers -----------------------------------------------------------------------------------------------------


def _write_numbers(
    figure: Any, aircraft: list[dict[str, Any]], ranges: NDArray[Any], side: int, names: tuple[str, str]
) -> None:
    """Write Mach, load and missiles of both sides, and rate a shot of either."""
    for who, name, color, y in ((side - 1, names[0], OWN, 0.88), (2 - side, names[1], THREAT, 0.56)):
        body, (distance, r_max, r_min, r_ne) = aircraft[who], ranges[who]
        figure.text(0.755, y, name, color=color, fontsize=13, fontweight="bold", va="top")
        state = f"Mach {body['mach']:.2f}, {body['g_load']:+.1f} g" if body["alive"] else "down"
        lines = [state, f"missiles left: {body['missiles']}"]
        if aircraft[0]["alive"] and aircraft[1]["alive"]:
            verdict = _rate_shot(distance, r_max, r_min, r_ne) if body["missiles"] else "no missiles left"
            lines += [f"range {distance / 1000:.1f} km: {verdict}"]
            lines += [f"R_max {r_max / 1000:.1f}   R_ne {r_ne / 1000:.1f}   r_min {r_min / 1000:.1f}"]
        figure.text(0.755, y - 0.045, "\n".join(lines), color=INK, fontsize=10.5, va="top", linespacing=1.7)


def _rate_shot(distance: float, r_max: float, r_min: float, r_ne: float) -> str:
    """Return the rating of a launch now."""
    if distance < r_min:
        return "too near"
    return "NO ESCAPE" if distance <= r_ne else "in reach" if distance <= r_max else "out of reach"


def _write_legend(figure: Any) -> None:
    """Write the legend along the lower edge."""
    from matplotlib.lines import Line2D

    dots = {"linestyle": "", "marker": "o", "markersize": 7}
    styles: dict[str, dict[str, Any]] = {
        "own path, rudder held": {"color": OWN, "linewidth": 2.6},
        "turn and run": {"color": ESCAPE, "linestyle": DASHED},
        "incoming missile": {"color": MISSILE},
        "own missile": {"color": OWN, "linestyle": DOTTED},
        "enemy's path": {"color": THREAT},
        "reach of a missile launched now": {"color": THREAT, "linewidth": 6, "alpha": 0.35},
        "R_max": {"color": THREAT, "linestyle": DASHED},
        "R_ne": {"color": THREAT},
        "in its reach then": {"color": THREAT, **dots},
        "outside": {"color": ESCAPE, **dots},
    }
    handles = [Line2D([], [], label=label, **style) for label, style in styles.items()]
    place = {"loc": "lower left", "bbox_to_anchor": (0.005, 0.0), "ncols": 5}
    figure.legend(handles=handles, frameon=False, fontsize=9, labelcolor=INK, **place)
