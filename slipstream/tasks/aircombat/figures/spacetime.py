"""The spacetime diagram of a duel: the plane, 20 s of future above it, and the reach of a missile launched now.

A scene is plain data from `slipstream.tasks.aircombat.reach.scene`; lengths in m, times in s. The view is that of one
side: its own objects are blue, threats are red, escapes are green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.ui.figures import GRID, GROUND, INK, MUTED, PANEL, new_figure, save_figure

FIELD_KM, FUTURE_S, PLANE_S = 50.0, 20.0, 5.0
SIDES_KM = 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0  # of a view
OWN, THREAT, ESCAPE, MISSILE, SAFE = "#4cc9f0", "#ff5c5c", "#5ee08a", "#ffd166", "#5ee08a"
IDLE = "#4a5564"  # the bar of a side without missiles
NAME_CHARS = 14  # of a name above its column
SHADES = (0.30, 0.22, 0.16, 0.11)  # of the reach at 5, 10, 15, 20 s
AZIMUTH_DEG, ELEVATION_DEG = -62.0, 27.0

Scene = Mapping[str, Any]


def spacetime(path: str | Path, scene: Scene, title: str = "") -> Path:
    """Draw a scene as a PNG, zoomed to the action. Returns its path."""
    return save_figure(draw_scene(scene, title, view_of([scene])), path)


def draw_scene(scene: Scene, title: str = "", view: View | None = None) -> Any:
    """Return the figure of a scene: the diagram, a map of the plane, and numbers. The default view is the field.

    A scene may have "names": those of the own and of the enemy's agent, in place of these words.
    """
    figure = new_figure(12.0, 7.2)
    view = view or _field_view(scene)
    _draw_box(figure, scene, view)
    _draw_map(figure, scene, view)
    _write_numbers(figure, scene)
    clock = f"{title}   " if title else ""
    figure.text(0.015, 0.975, f"{clock}t = {scene['time']:.1f} s", color=INK, fontsize=14, fontweight="bold", va="top")
    own, enemy = scene.get("names", ("own side", "the enemy"))
    ended = {0: "draw", scene["side"]: f"{own} wins", 3 - scene["side"]: f"{enemy} wins"}.get(scene["winner"])
    seen = f"seen from side {scene['side']}: {own} in blue, {enemy} in red"
    figure.text(0.015, 0.938, ended or seen, color=INK if ended else MUTED, fontsize=11, va="top")
    _write_legend(figure)
    return figure


@dataclass(frozen=True)
class View:
    """The square of the plane that is drawn: its lower left corner [2] and its side, in km."""

    corner: NDArray[Any]
    side: float = FIELD_KM

    @property
    def cell(self) -> float:
        """The side of a square of the grid."""
        return 2.5 if self.side <= 25 else 5.0 if self.side <= 50 else 10.0

    def inside(self, places_km: NDArray[Any]) -> NDArray[Any]:
        """Return whether places [..., 2] are in the view."""
        return np.all((places_km >= self.corner) & (places_km <= self.corner + self.side), axis=-1)


def view_of(scenes: Sequence[Scene]) -> View:
    """Return the smallest view, on its grid, that holds both aircraft, their trails and paths and all missiles."""
    places = []
    for scene in scenes:
        bodies = [scene["own"], scene["enemy"], *scene["missiles"]["incoming"], *scene["missiles"]["outgoing"]]
        places.append(np.array([[body["x"], body["y"]] for body in bodies]))
        places += [np.asarray(path)[:, :2] for path in (scene["own_path"], scene["enemy_path"])]
        places += [np.asarray(trail) for trail in scene.get("trails", {}).values()]
    around = np.concatenate(places) / 1000
    around = around[np.isfinite(around).all(-1)]
    low, high = around.min(0), around.max(0)
    own = np.array([scenes[-1]["own"]["x"], scenes[-1]["own"]["y"]]) / 1000
    return _view(low, high, own, next((side for side in SIDES_KM if side >= (high - low).max() + 2.0), SIDES_KM[-1]))


def _field_view(scene: Scene) -> View:
    """Return the field, or a square of its size around both aircraft if one is outside."""
    places = np.array([[scene[who]["x"], scene[who]["y"]] for who in ("own", "enemy")]) / 1000
    if (places >= 0).all() and (places <= FIELD_KM).all():
        return View(np.zeros(2))
    return _view(places.min(0), places.max(0), places[0], FIELD_KM)


def _view(low: NDArray[Any], high: NDArray[Any], own: NDArray[Any], side: float) -> View:
    """Return the view around `low` to `high`, with the own aircraft inside even if they are more than `side` apart."""
    cell = View(low, side).cell
    corner = np.round(((low + high) / 2 - side / 2) / cell) * cell
    behind = np.floor(own / cell) * cell  # the cell of the own aircraft
    return View(np.clip(corner, behind + cell - side, behind), side)


# -- the box ---------------------------------------------------------------------------------------------------------


def _draw_box(figure: Any, scene: Scene, view: View) -> None:
    from matplotlib.path import Path as Outline
    from mpl_toolkits.mplot3d import Axes3D

    axes = Axes3D(figure, rect=(0.0, 0.06, 0.72, 0.92), computed_zorder=False)
    figure.add_axes(axes)
    (x, y), side = view.corner, view.side
    axes.set(xlim=(x, x + side), ylim=(y, y + side), zlim=(0, FUTURE_S), facecolor="none")
    axes.set_box_aspect((1, 1, 0.72), zoom=1.12)
    axes.set_proj_type("persp", focal_length=2.2)  # far enough away to compare distances
    axes.view_init(elev=ELEVATION_DEG, azim=AZIMUTH_DEG)
    axes.set_axis_off()
    _draw_planes(axes, view)
    _label_box(axes, view)
    for k, reach in enumerate(scene["reach"]):
        _draw_reach(axes, reach, SHADES[min(k, len(SHADES) - 1)], view)
    if scene["contours"]:
        for name, style in (("r_max", {"linewidth": 1.3, "linestyle": (0, (5, 3))}), ("r_ne", {"linewidth": 2.0})):
            ring = _clipped(_closed(scene["contours"][name]) / 1000, view)
            axes.plot(ring[:, 0], ring[:, 1], 0, color=THREAT, zorder=3, **style)
    times = np.asarray(scene["times"])
    zones = [(reach["time"], Outline(np.asarray(reach["polygon"]))) for reach in scene["reach"]]
    if scene["enemy"]["alive"]:
        _draw_path(axes, scene["enemy_path"], times, view, color=THREAT, linewidth=1.4, alpha=0.8)
    for escape in scene["escapes"]:
        _draw_path(axes, escape, times, view, color=ESCAPE, linewidth=1.8, linestyle=(0, (4, 2)))
        _draw_crossings(axes, escape, times, zones, view, size=26)
    _draw_path(axes, scene["own_path"], times, view, color=OWN, linewidth=2.6)
    _draw_crossings(axes, scene["own_path"], times, zones, view, size=44)
    for missile in scene["outgoing"]:
        _draw_path(axes, missile, times, view, color=OWN, linewidth=1.6, linestyle=(0, (1, 1)))
    for missile in scene["incoming"]:
        _draw_path(axes, missile, times, view, color=MISSILE, linewidth=2.2)
    for who, color in (("enemy", THREAT), ("own", OWN)):
        body = scene[who]
        point = _clipped(np.array([[body["x"], body["y"]]]) / 1000, view)[0]
        alive, down = {"marker": "o", "edgecolors": GROUND, "linewidths": 1}, {"marker": "x", "linewidths": 2.4}
        style = alive if body["alive"] else down
        axes.scatter(*point, 0, s=70, color=color, depthshade=False, zorder=9, **style)
    for artist in axes.get_children():
        artist.set_clip_on(False)  # the box is wider than matplotlib's square


def _draw_planes(axes: Any, view: View) -> None:
    """Draw the ground with its 5 km grid, and a frame every 5 s above it."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    (x, y), side = view.corner, view.side
    square = np.array([[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]])
    across = np.arange(view.cell, side, view.cell)
    lines = [((x + at, y), (x + at, y + side)) for at in across] + [((x, y + at), (x + side, y + at)) for at in across]
    for z in np.arange(0, FUTURE_S + 1e-6, PLANE_S):
        if z == 0:
            face, frame, thick, dense = {"facecolors": PANEL, "alpha": 1.0}, "#2c3a4f", 0.7, 1.0
        else:
            face, frame, thick, dense = {"facecolors": "#9fb4cc", "alpha": 0.025}, "#33415a", 0.3, 0.7
        axes.add_collection3d(Poly3DCollection([_at_height(square[:-1], z)], zorder=0, **face))
        axes.plot(square[:, 0], square[:, 1], z, color=frame, linewidth=0.9, zorder=1)
        grid = [[(*a, z), (*b, z)] for a, b in lines]
        axes.add_collection3d(Line3DCollection(grid, colors=GRID, linewidths=thick, alpha=dense, zorder=1))
    for cx, cy in square[:-1]:
        axes.plot([cx, cx], [cy, cy], [0, FUTURE_S], color="#33415a", linewidth=0.8, zorder=1)


def _label_box(axes: Any, view: View) -> None:
    """Label times on the left edge and km on the two front edges of the floor, outside the box in the default view.

    From another azimuth curves may pass there: the labels are in front, on a background of their own.
    """
    (x, y), side = view.corner, view.side
    plate = {"facecolor": GROUND, "alpha": 0.75, "edgecolor": "none", "pad": 1.2}
    title = {"color": MUTED, "fontsize": 10, "ha": "center", "va": "center", "zorder": 10, "bbox": plate}
    tick = {"color": MUTED, "fontsize": 8, "zorder": 10, "bbox": plate}
    for z in np.arange(0, FUTURE_S + 1e-6, PLANE_S):
        label = f"+{z:.0f} s" if z else "now"
        axes.text(
            x - side / FIELD_KM, y, z, label, color=INK, fontsize=9.5, ha="right", va="center", zorder=10, bbox=plate
        )
    unit = side / FIELD_KM  # distances of the labels from the box
    for at in np.arange(0, side + 0.1, 2 * view.cell):
        axes.text(x + at, y - 1.5 * unit, 0, f"{x + at:.0f}", ha="center", va="top", **tick)
        axes.text(x + side + 1.2 * unit, y + at, 0, f"{y + at:.0f}", ha="left", va="center", **tick)
    axes.text2D(0.032, 0.472, "seconds from now", rotation=90, transform=axes.figure.transFigure, **title)
    axes.text(x + side / 2, y - 7.5 * unit, 0, "x, km", **title)
    axes.text(x + side + 6.0 * unit, y + side / 2, 0, "y, km", **title)


def _draw_reach(axes: Any, reach: Scene, shade: float, view: View) -> None:
    """Draw where an enemy missile launched now can be at one time; the edge fades below Mach 1."""
    from matplotlib.colors import to_rgba
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Bbox
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    z = reach["time"]
    ring = _closed(np.asarray(reach["polygon"])) / 1000
    mach = np.append(reach["mach"], reach["mach"][0])
    flat = np.asarray(Outline(ring).clip_to_bbox(Bbox([view.corner, view.corner + view.side])).vertices)
    if len(flat) < 3:
        return
    style = {"facecolors": to_rgba(THREAT, shade), "edgecolors": "none", "zorder": 2 + z / 10}
    axes.add_collection3d(Poly3DCollection([_at_height(flat, z)], **style))
    edge = _at_height(ring, z)
    pieces = np.stack((edge[:-1], edge[1:]), axis=1)
    seen = view.inside(pieces[..., :2]).all(1)
    strength = np.clip((np.minimum(mach[:-1], mach[1:]) - 0.55) / 0.45, 0.08, 1.0)
    colors = [to_rgba(THREAT, 0.9 * a) for a in strength[seen]]
    if seen.any():  # if a set fills the box or only touches it, no edge is inside
        axes.add_collection3d(Line3DCollection(pieces[seen], colors=colors, linewidths=1.3, zorder=2 + z / 10))


def _draw_path(axes: Any, path: NDArray[Any], times: NDArray[Any], view: View, **style: Any) -> None:
    """Draw a path through time, and its shadow on the ground."""
    places = _clipped(np.asarray(path)[:, :2] / 1000, view)
    axes.plot(places[:, 0], places[:, 1], times, zorder=6, solid_capstyle="round", **style)
    axes.plot(places[:, 0], places[:, 1], 0, zorder=2.5, color=style["color"], linewidth=0.8, alpha=0.35)


def _draw_crossings(
    axes: Any, path: NDArray[Any], times: NDArray[Any], zones: list[Any], view: View, size: float
) -> None:
    """Draw a dot where a path crosses each plane: red if the missile could be there at that time."""
    style = {"s": size, "edgecolors": GROUND, "linewidths": 1.0, "depthshade": False, "zorder": 8}
    for time, outline in zones:
        place = np.array([np.interp(time, times, path[:, k]) for k in range(2)])
        point = _clipped(place[None] / 1000, view)[0]
        if np.isfinite(point).all():
            axes.scatter(*point, time, color=THREAT if outline.contains_point(place) else SAFE, **style)


def _at_height(places: NDArray[Any], z: float) -> NDArray[Any]:
    """Return places [K, 2] of the plane at a height [K, 3]."""
    return np.column_stack((places, np.full(len(places), z)))


def _closed(ring: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((ring, ring[:1]))


def _clipped(places_km: NDArray[Any], view: View) -> NDArray[Any]:
    """Replace places outside the box by NaN."""
    return np.where(view.inside(places_km)[..., None], places_km, np.nan)


# -- the map and the numbers -----------------------------------------------------------------------------------------


def _draw_map(figure: Any, scene: Scene, view: View) -> None:
    """Draw the plane from above, now: R_max and R_ne of the enemy, trails, paths and missiles."""
    axes = figure.add_axes((0.735, 0.475, 0.25, 0.25 * 12.0 / 7.2))
    (x, y), side = view.corner, view.side
    axes.set(xlim=(x, x + side), ylim=(y, y + side), aspect="equal", facecolor=PANEL)
    axes.set_xticks(np.arange(x, x + side + 1, view.cell), labels=[])
    axes.set_yticks(np.arange(y, y + side + 1, view.cell), labels=[])
    axes.tick_params(length=0)
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_color(GRID)

    def line(path: NDArray[Any], color: str, **style: Any) -> None:
        axes.plot(path[:, 0] / 1000, path[:, 1] / 1000, color=color, **style)

    if scene["contours"]:
        r_max, r_ne = (_closed(scene["contours"][name]) for name in ("r_max", "r_ne"))
        axes.fill(*(r_max.T / 1000), color=THREAT, alpha=0.07, linewidth=0)
        line(r_max, THREAT, linewidth=1.2, linestyle=(0, (5, 3)))
        axes.fill(*(r_ne.T / 1000), color=THREAT, alpha=0.20, linewidth=0)
        line(r_ne, THREAT, linewidth=1.6)
    for who, trail in scene.get("trails", {}).items():
        line(np.asarray(trail), OWN if who == "own" else THREAT, linewidth=1.4, alpha=0.55)
    for escape in scene["escapes"]:
        line(escape, ESCAPE, linewidth=1.2, linestyle=(0, (4, 2)))
    line(scene["own_path"], OWN, linewidth=1.8)
    for name, color in (("outgoing", OWN), ("incoming", MISSILE)):
        for body, path in zip(scene["missiles"][name], scene[name], strict=True):
            line(path, color, linewidth=1.2, linestyle=(0, (1, 1)))
            place = np.array([[body["x"], body["y"]]])
            line(place, color, marker="o", markersize=4.5, markeredgecolor=GROUND)
    for who, color in (("enemy", THREAT), ("own", OWN)):
        _draw_craft(axes, scene[who], color, view.side / FIELD_KM)
    axes.text(0.0, 1.02, "now, from above", transform=axes.transAxes, color=MUTED, fontsize=9)
    axes.text(1.0, 1.02, f"a square: {view.cell:g} km", transform=axes.transAxes, color=MUTED, fontsize=9, ha="right")


def _draw_craft(axes: Any, body: Scene, color: str, size: float) -> None:
    """Draw an arrowhead along the flight, or a cross for a destroyed aircraft."""
    x, y = body["x"] / 1000, body["y"] / 1000
    if not body["alive"]:
        axes.plot(x, y, marker="x", markersize=9, markeredgewidth=2.4, color=color, zorder=9)
        return
    cos, sin = np.cos(body["angle"]), np.sin(body["angle"])
    shape = size * np.array([[1.9, 0], [-1.2, 1.15], [-0.55, 0], [-1.2, -1.15]]) @ np.array(
        [[cos, sin], [-sin, cos]]
    ) + (x, y)
    axes.fill(shape[:, 0], shape[:, 1], facecolor=color, edgecolor=GROUND, linewidth=0.8, zorder=9)


def _write_numbers(figure: Any, scene: Scene) -> None:
    """Write Mach, load and missiles of both sides, and rate a shot of either."""
    left, right, line, top = 0.735, 0.985, 0.032, 0.432
    own, enemy = (_short(name) for name in scene.get("names", ("own", "enemy")))
    for column, (who, name, color) in enumerate((("own", own, OWN), ("enemy", enemy, THREAT))):
        body, x = scene[who], left + 0.127 * column
        figure.text(x, top, name, color=color, fontsize=11, fontweight="bold", va="top")
        state = f"M {body['mach']:.2f}" if body["alive"] else "down"
        figure.text(x, top - line, state, color=INK, fontsize=17, fontweight="bold", va="top")
        carried = "1 missile" if body["missiles"] == 1 else f"{body['missiles']} missiles"
        figure.text(x, top - 2.45 * line, f"{body['g_load']:+.1f} g   {carried}", color=INK, fontsize=10.5, va="top")
    distance = f"range {scene['threat']['range'] / 1000:.1f} km"
    figure.text(left, top - 3.75 * line, distance, color=INK, fontsize=11, va="top")
    if not (scene["own"]["alive"] and scene["enemy"]["alive"]):
        return  # there is no shooter or no target
    named = "names" in scene
    shots = (
        ("threat", "enemy", f"{enemy}'s shot", THREAT),
        ("shot", "own", f"{own}'s shot" if named else "own shot", OWN),
    )
    for row, (key, who, name, color) in enumerate(shots):
        y = top - (5.0 + 4.1 * row) * line
        verdict, urgent = _verdict(scene[key], scene[who]["missiles"])
        figure.text(left, y, name, color=color, fontsize=11, fontweight="bold", va="top")
        style = {"color": INK, "fontweight": "bold"} if urgent else {"color": MUTED}
        figure.text(right, y, verdict, fontsize=11, va="top", ha="right", **style)
        shade = color if scene[who]["missiles"] else IDLE
        _draw_scale(figure, scene[key], (left, y - 2.05 * line, right - left, 0.014), shade)


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARS else name[: NAME_CHARS - 1] + "…"


def _verdict(ranges: Mapping[str, float], carried: int) -> tuple[str, bool]:
    """Return the rating of a launch now, and whether to emphasize it."""
    here = ranges["range"]
    if not carried:
        return "no missiles left", False
    if here < ranges["r_min"]:
        return "too near", False
    if here <= ranges["r_ne"]:
        return "NO ESCAPE", True
    if here <= ranges["r_max"]:
        return "in reach", True
    return "out of reach", False


def _draw_scale(figure: Any, ranges: Mapping[str, float], box: tuple[float, float, float, float], color: str) -> None:
    """Draw a bar from 0 to 60 km: reach pale, no escape solid, the present range as a mark."""
    axes = figure.add_axes(box)
    most = 60.0
    km = {name: min(value / 1000, most) for name, value in ranges.items()}
    axes.set(xlim=(0, most), ylim=(0, 1))
    axes.set_axis_off()
    axes.barh(0.5, most, height=1, color=PANEL)
    for name, alpha in (("r_max", 0.35), ("r_ne", 0.9)):
        axes.barh(0.5, max(km[name] - km["r_min"], 0), left=km["r_min"], height=1, color=color, alpha=alpha)
    axes.plot([km["range"]] * 2, [-0.5, 1.5], color=INK, linewidth=2.2, clip_on=False, solid_capstyle="butt")
    labels = [("r_min", "r_min"), ("R_ne", "r_ne"), ("R_max", "r_max")]
    text = "   ".join(f"{label} {ranges[name] / 1000:.1f}" if ranges[name] else f"{label} –" for label, name in labels)
    axes.text(0, -0.75, f"{text} km", color=MUTED, fontsize=9, va="top")


def _write_legend(figure: Any) -> None:
    """Write the legend along the lower edge."""
    from matplotlib.lines import Line2D

    dots: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 7, "markeredgecolor": GROUND}
    handles = [
        Line2D([], [], color=OWN, linewidth=2.6, label="own path, rudder held"),
        Line2D([], [], color=ESCAPE, linewidth=1.8, linestyle=(0, (4, 2)), label="turn and run"),
        Line2D([], [], color=MISSILE, linewidth=2.2, label="incoming missile"),
        Line2D([], [], color=OWN, linewidth=1.6, linestyle=(0, (1, 1)), label="own missile"),
        Line2D([], [], color=THREAT, linewidth=1.4, alpha=0.8, label="enemy's path"),
        Line2D([], [], color=THREAT, linewidth=6, alpha=0.35, label="reach of a missile launched now"),
        Line2D([], [], color=THREAT, linewidth=1.3, linestyle=(0, (5, 3)), label="R_max"),
        Line2D([], [], color=THREAT, linewidth=2.0, label="R_ne"),
        Line2D([], [], color=THREAT, label="in its reach then", **dots),
        Line2D([], [], color=SAFE, label="outside", **dots),
    ]
    place = {"loc": "lower left", "bbox_to_anchor": (0.005, 0.0), "ncols": 5, "columnspacing": 1.1, "handlelength": 1.7}
    figure.legend(handles=handles, frameon=False, fontsize=9, labelcolor=INK, **place)
