"""The duel from above: the plane, the paths of the next 20 s, and the reach of the enemy's missiles.

The view is that of one side: its own objects are blue, threats are red, escapes are green. The spacetime diagram in
3-D, with time upwards, is the page that `recordings` writes. Lengths are in m and times in s; axes are in km.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, Duels, Rules
from slipstream.tasks.aircombat.reach.forecast import forecast
from slipstream.ui.figures import GROUND, INK, MUTED, SERIES, new_figure, save_figure, style_axes, style_legend
from slipstream.ui.film import FORMS, picture_of, write_film

FINE_POINT = 15  # ticks between two points of a path
AROUND_KM = 8.0  # shown around all bodies: 20 s of flight
OWN, THREAT, ESCAPE, MISSILE = SERIES[0], SERIES[4], SERIES[3], SERIES[5]
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
    ahead = {name: x[0] for name, x in forecast(duel, FINE_POINT, rules.dt_s).items()}
    figure = new_figure(12.0, 7.2)
    axes = figure.add_axes((0.06, 0.09, 0.5, 0.8))
    style_axes(axes, "x, km", "y, km")
    axes.set(xlim=(x, x + size), ylim=(y, y + size), aspect="equal")
    _draw_plane(axes, duel, ahead, side - 1)
    style_legend(axes, loc="lower left", bbox_to_anchor=(1.04, 0.0))
    ended = {0: "draw", side: f"{names[0]} wins", 3 - side: f"{names[1]} wins"}.get(int(duel.winner[0]))
    seen = f"seen from side {side}: {names[0]} in blue, {names[1]} in red; paths of the next 20 s"
    clock = f"{title}   t = {int(duel.clock[0]) * rules.dt_s:.1f} s".strip()
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


def _draw_plane(axes: Any, duel: Duels, ahead: dict[str, NDArray[Any]], own: int) -> None:
    enemy, alive = 1 - own, duel.alive[0].tolist()
    if alive[enemy] and duel.left[0, enemy]:
        r_max, _, r_ne = ahead["contour"][enemy]
        line = np.linspace(0, 2 * math.pi, len(r_max), endpoint=False)
        for name, reach, line_style in (("R_max", r_max, (0, (4, 2))), ("R_ne", r_ne, "solid")):
            ring = duel.pos[0, enemy].numpy() + reach[:, None] * np.stack((np.cos(line), np.sin(line)), -1)
            axes.plot(*_km(ring, closed=True), color=THREAT, linestyle=line_style, label=name)
    if alive[enemy]:
        axes.plot(*_km(ahead["path"][enemy]), label="enemy's path", color=THREAT, linewidth=1.4)
    left, right = ahead["escape"][own]
    for escape, label in ((left, "turn and run"), (right, None)):
        axes.plot(*_km(escape), label=label, color=ESCAPE, linewidth=1.8, linestyle=(0, (4, 2)))
    axes.plot(*_km(ahead["path"][own]), label="own path, rudder held", color=OWN, linewidth=2.6)
    labels = {own: "own missile", enemy: "incoming missile"}
    for slot in np.flatnonzero(duel.missile_age[0] != GONE).tolist():
        who = slot // CARRIED
        style: dict[str, Any] = {"color": OWN, "linestyle": (0, (1, 1))} if who == own else {"color": MISSILE}
        axes.plot(*_km(ahead["missile"][slot]), label=labels.pop(who, None), linewidth=2.0, **style)
    for who, color in ((enemy, THREAT), (own, OWN)):
        style = {"marker": "o", "edgecolors": GROUND} if alive[who] else {"marker": "x", "linewidths": 2.4}
        axes.scatter(*_km(duel.pos[0, who].numpy()), s=70, color=color, zorder=5, **style)


def _km(places: NDArray[Any], closed: bool = False) -> NDArray[Any]:
    """Return x and y in km of places [..., 2]; of a closed line the first one again at the end."""
    return (np.concatenate((places, places[:1])) if closed else places).T / 1000
