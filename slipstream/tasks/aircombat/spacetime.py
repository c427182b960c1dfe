"""The spacetime diagram of a duel on paper: the plane, where everybody can be in the next 20 s, and dots every 5 s.

The view is that of one side: its own objects are blue, threats are red, escapes are green. The form in 3-D, with time
upwards, is the page that `recordings` writes. Lengths are in m and times in s, but for the axes, which are in km.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, Duels, Rules, describe_duel
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S
from slipstream.tasks.aircombat.reach.forecast import FUTURE_S, forecast
from slipstream.tasks.aircombat.reach.table import reachable_sets
from slipstream.ui.figures import GROUND, INK, MUTED, SERIES, new_figure, save_figure, style_axes, style_legend
from slipstream.ui.film import FORMS, picture_of, write_film

FINE_POINT = 15  # ticks between two points of a path
TIMES_S = np.arange(0, FUTURE_S + 1e-6, FINE_POINT * PHYSICS_DT_S)  # of the points of a path
AROUND_KM = 8.0  # shown around all bodies: 20 s of flight
OWN, THREAT, ESCAPE, MISSILE = SERIES[0], SERIES[4], SERIES[3], SERIES[5]
SHADE = 0.09  # of the reach at 5, 10, 15 and 20 s, one above the other
PLAY_S = 6.0  # duration of an animation
SLOWEST, FASTEST = 2.0, 8.0  # limits of its frames per second
FRAME_S = 1.5  # game time between two frames
FILM_PX = 960

View = tuple[float, float, float]  # km: the lower left corner of the square that is drawn, and its side


def view_of(states: Sequence[Duels]) -> View:
    """Return a view that holds all aircraft and missiles of these states of a duel."""
    places = [state.pos[0].numpy() for state in states]
    places += [state.missile_pos[0][state.missile_age[0] != GONE].numpy() for state in states]
    km = np.concatenate(places) / 1000
    low, high = km.min(0), km.max(0)
    side = 10 * math.ceil(((high - low).max() + 2 * AROUND_KM) / 10)
    x, y = np.round((low + high - side) / 2)
    return float(x), float(y), float(side)


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
    rules, (x, y, size) = rules or Rules(), view or view_of([duel])
    state = describe_duel(duel, rules)
    ahead = {name: x[0] for name, x in forecast(duel, FINE_POINT, rules.dt_s).items()}
    figure = new_figure(12.0, 7.2)
    axes = figure.add_axes((0.06, 0.09, 0.5, 0.8))
    style_axes(axes, "x, km", "y, km")
    axes.set(xlim=(x, x + size), ylim=(y, y + size), aspect="equal")
    _draw_plane(axes, duel, state["aircraft"], ahead, side - 1)
    style_legend(axes, loc="lower left", bbox_to_anchor=(1.04, 0.0))
    _write_numbers(figure, state["aircraft"], ahead["range"], side, names)
    ended = {0: "draw", side: f"{names[0]} wins", 3 - side: f"{names[1]} wins"}.get(state["winner"])
    seen = f"seen from side {side}: {names[0]} in blue, {names[1]} in red; dots are 5, 10, 15 and 20 s ahead"
    clock = f"{title}   t = {state['time']:.1f} s".strip()
    figure.text(0.015, 0.975, clock, color=INK, fontsize=14, fontweight="bold", va="top")
    figure.text(0.015, 0.938, ended or seen, color=INK if ended else MUTED, fontsize=11, va="top")
    return figure


def draw_game(
    states: Sequence[Duels], side: int, path: Path, title: str, names: tuple[str, str], rules: Rules
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
    return {"picture": str(picture), "animation": str(write_film(path, frames, len(shown), fps))}


def _draw_plane(
    axes: Any, duel: Duels, aircraft: list[dict[str, Any]], ahead: dict[str, NDArray[Any]], own: int
) -> None:
    from matplotlib.path import Path as Outline

    enemy, shooter = 1 - own, aircraft[1 - own]
    zones: list[tuple[float, Outline]] = []
    if shooter["alive"] and shooter["missiles"]:
        place, angle = duel.pos[0, enemy].numpy(), shooter["angle"]
        r_max, _, r_ne = ahead["contour"][enemy]
        line = np.linspace(0, 2 * math.pi, len(r_max), endpoint=False)
        for name, reach, line_style in (("R_max", r_max, (0, (4, 2))), ("R_ne", r_ne, "solid")):
            ring = place + reach[:, None] * np.stack((np.cos(line), np.sin(line)), -1)
            axes.plot(*_km(ring, closed=True), color=THREAT, linestyle=line_style, label=name)
        sets = reachable_sets()
        nearest = int(np.abs(sets["speed"] - shooter["speed"]).argmin())
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        for time_s, corners, mach in zip(sets["time"], sets["polygon"][nearest], sets["mach"][nearest], strict=True):
            polygon = corners @ turn + place
            label = None if zones else "reach of a missile launched now"
            axes.fill(*_km(polygon), color=THREAT, alpha=SHADE, linewidth=0, label=label)
            fast = np.where(mach[:, None] >= 1, polygon, np.nan)  # its edge is drawn where it is faster than sound
            axes.plot(*_km(fast, closed=True), color=THREAT, linewidth=1.0, alpha=0.7)
            zones.append((time_s, Outline(polygon)))

    def draw_path(path: NDArray[Any], label: str | None, crosses: bool = False, **style: Any) -> None:
        axes.plot(*_km(path), label=label, solid_capstyle="round", **style)
        for time_s, outline in zones if crosses else ():  # red where the missile could be at that time
            x, y = (float(np.interp(time_s, TIMES_S, path[:, k])) for k in range(2))
            color = THREAT if outline.contains_point((x, y)) else ESCAPE
            axes.scatter(x / 1000, y / 1000, s=36, color=color, edgecolors=GROUND, zorder=4)

    if shooter["alive"]:
        draw_path(ahead["path"][enemy], "enemy's path", color=THREAT, linewidth=1.4)
    left, right = ahead["escape"][own]
    for escape, label in ((left, "turn and run"), (right, None)):
        draw_path(escape, label, crosses=True, color=ESCAPE, linewidth=1.8, linestyle=(0, (4, 2)))
    draw_path(ahead["path"][own], "own path, rudder held", crosses=True, color=OWN, linewidth=2.6)
    labels = {own: "own missile", enemy: "incoming missile"}
    for slot in np.flatnonzero(duel.missile_age[0] != GONE).tolist():
        who = slot // CARRIED
        style: dict[str, Any] = {"color": OWN, "linestyle": (0, (1, 1))} if who == own else {"color": MISSILE}
        draw_path(ahead["missile"][slot], labels.pop(who, None), linewidth=2.0, **style)
    for who, color in ((enemy, THREAT), (own, OWN)):
        style = {"marker": "o", "edgecolors": GROUND} if aircraft[who]["alive"] else {"marker": "x", "linewidths": 2.4}
        axes.scatter(*_km(duel.pos[0, who].numpy()), s=70, color=color, zorder=5, **style)


def _km(places: NDArray[Any], closed: bool = False) -> NDArray[Any]:
    """Return x and y in km of places [..., 2]; of a closed line the first one again at the end."""
    return (np.concatenate((places, places[:1])) if closed else places).T / 1000


def _write_numbers(
    figure: Any, aircraft: list[dict[str, Any]], ranges: NDArray[Any], side: int, names: tuple[str, str]
) -> None:
    """Write Mach, load and missiles of both sides, and rate a shot of either."""
    for who, name, color, y in ((side - 1, names[0], OWN, 0.88), (2 - side, names[1], THREAT, 0.65)):
        body, (distance, r_max, r_min, r_ne) = aircraft[who], ranges[who]
        figure.text(0.6, y, name, color=color, fontsize=13, fontweight="bold", va="top")
        state = f"Mach {body['mach']:.2f}, {body['g_load']:+.1f} g" if body["alive"] else "down"
        lines = [state, f"missiles left: {body['missiles']}"]
        if aircraft[0]["alive"] and aircraft[1]["alive"]:
            verdict = _rate_shot(distance, r_max, r_min, r_ne) if body["missiles"] else "no missiles left"
            lines += [f"range {distance / 1000:.1f} km: {verdict}"]
            lines += [f"R_max {r_max / 1000:.1f}   R_ne {r_ne / 1000:.1f}   r_min {r_min / 1000:.1f}"]
        figure.text(0.6, y - 0.045, "\n".join(lines), color=INK, fontsize=10.5, va="top", linespacing=1.7)


def _rate_shot(distance: float, r_max: float, r_min: float, r_ne: float) -> str:
    """Return the rating of a launch now."""
    if distance < r_min:
        return "too near"
    return "NO ESCAPE" if distance <= r_ne else "in reach" if distance <= r_max else "out of reach"
