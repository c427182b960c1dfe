"""Animations of a game. The page for a browser is written by `recordings`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slipstream.tasks.aircombat.figures.spacetime import (
    ESCAPE,
    GROUND,
    INK,
    MISSILE,
    OWN,
    SAFE,
    THREAT,
    Scene,
    draw_scene,
    spacetime,
    view_of,
)
from slipstream.tasks.aircombat.reach.scene import scenes_of_game
from slipstream.ui.film import FORMS, check_animation, picture_of, write_film

PLAY_S = 6.0  # duration of a game
SLOWEST, FASTEST = 2.0, 8.0  # limits of the default frames per second
FRAME_S = 1.5  # game time between two frames


def animate(
    path: str | Path,
    scenes: Sequence[Scene],
    title: str = "",
    fps: float | None = None,
    width_px: int = 960,
    progress: Callable[[float], None] | None = None,
) -> Path:
    """Write scenes as an animation.

    Args:
        path: ends in .gif or .mp4.
        scenes: of `scenes_of_game`.
        title: shown on every frame.
        fps: frames per second (default: a game takes six seconds, at 2 to 8 frames per second). The last frame stays
            for two seconds.
        width_px: of a frame.
        progress: takes the share of the frames drawn so far.

    Returns:
        `path`.
    """
    path = check_animation(path)
    if not scenes:
        raise ValueError("there is no scene to draw: give at least one")
    if fps is None:
        fps = min(max(len(scenes) / PLAY_S, SLOWEST), FASTEST)
    view = view_of(scenes)  # one for all frames

    def frame_of(scene: Scene) -> Any:
        return picture_of(draw_scene(scene, title, view=view), width_px)

    samples = [frame_of(scenes[index]) for index in (0, len(scenes) // 2, -1)]
    colors = (GROUND, OWN, THREAT, MISSILE, ESCAPE, SAFE, INK)
    return write_film(path, map(frame_of, scenes), len(scenes), fps, samples, colors, progress)


def draw_game(
    states: list[dict[str, Any]],
    side: int,
    path: Path,
    title: str,
    names: tuple[str, str],
    progress: Callable[[float], None],
) -> dict[str, str]:
    """Write the spacetime diagram with the most missiles as a PNG, as `side` sees it, and an animation. `names` are
    those of the agents: of `side` and of its enemy.

    `path` names the animation (.gif or .mp4); with another suffix there is none. The PNG has the same name with .png.
    """
    shown = [states[0]]
    for state in states[1:]:
        if state["time"] - shown[-1]["time"] >= FRAME_S - 1e-6 or state is states[-1]:
            shown.append(state)
    busiest = max(range(len(shown)), key=lambda k: len(shown[k]["missiles"]))
    if path.suffix not in FORMS:
        (scene,) = scenes_of_game(shown, side, only=busiest)
        return {"picture": str(spacetime(path.with_suffix(".png"), {"names": names, **scene}, title))}
    scenes = [{"names": names, **scene} for scene in scenes_of_game(shown, side)]
    picture = spacetime(path.with_suffix(".png"), scenes[busiest], title)
    film = animate(path, scenes, title, progress=progress)
    return {"picture": str(picture), "animation": str(film)}
