"""Animations of a game: GIF, or MP4 if ffmpeg is installed. The page for a browser is written by `recordings`."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slipstream.storage.files import write_file
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
)
from slipstream.tasks.aircombat.reach.scene import scenes_of_game
from slipstream.tasks.figures import show_text_as_it_is

FORMS = (".gif", ".mp4")
WIDTH_IN = 12.0  # of the spacetime diagram
PAGE_SUFFIX = ".html"
COLOURS = 128  # of a GIF
PLAY_S, HOLD_S = 6.0, 2.0  # duration of a game, and of its last frame
SLOWEST, FASTEST = 2.0, 8.0  # limits of the default frames per second


FRAME_S = 1.5  # game time between two frames


def animate(
    path: str | Path,
    scenes: Sequence[Scene],
    title: str = "",
    fps: float | None = None,
    width_px: int = 960,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Write scenes as an animation.

    Args:
        path: ends in .gif or .mp4.
        scenes: of `scenes_of_game`.
        title: shown on every frame.
        fps: frames per second (default: a game takes six seconds, at 2 to 8 frames per second). The last frame stays
            for two seconds.
        width_px: of a frame.
        progress: called with the number of frames drawn so far.

    Returns:
        `path`.
    """
    path = writable(path)
    if not scenes:
        raise ValueError("there is no scene to draw: give at least one")
    if fps is None:
        fps = min(max(len(scenes) / PLAY_S, SLOWEST), FASTEST)
    frames = []
    for count, scene in enumerate(scenes, 1):
        frames.append(_picture(draw_scene(scene, title), width_px))
        if progress:
            progress(count)
    frames += [frames[-1]] * round(HOLD_S * fps)
    path.parent.mkdir(parents=True, exist_ok=True)
    write = {".gif": _gif, ".mp4": _mp4}[path.suffix]
    write_file(path, write(frames, fps))
    return path


def writable(path: str | Path) -> Path:
    """Return the path of an animation. Raises ValueError if its format is unknown or cannot be written here."""
    path = Path(path)
    if path.suffix not in FORMS:
        raise ValueError(f"{path.name}: the name of an animation must end in {' or '.join(FORMS)}")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError(f"{path.name} needs ffmpeg on the PATH: install it, or write {path.stem}.gif")
    return path


def _picture(figure: Any, width_px: int) -> Any:
    """Render a figure as a Pillow image."""
    from PIL import Image

    buffer = io.BytesIO()
    show_text_as_it_is(figure)
    figure.savefig(buffer, format="png", dpi=2 * round(width_px / WIDTH_IN / 2), facecolor=figure.get_facecolor())
    return Image.open(buffer).convert("RGB")


def _gif(frames: Sequence[Any], fps: float) -> bytes:
    from PIL import Image

    palette = _palette(frames)
    first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    buffer = io.BytesIO()
    first.save(
        buffer, format="GIF", save_all=True, append_images=rest, duration=round(1000 / fps), loop=0, optimize=False
    )
    return buffer.getvalue()


def _palette(frames: Sequence[Any]) -> Any:
    """Return one palette for all frames: colours do not flicker, and unchanged areas compress well.

    Most colours are taken by area from three frames. The colours of thin lines are added by name, each also half faded
    for the edges of lines, because they would be lost by area.
    """
    from PIL import Image

    sample = Image.new("RGB", (frames[0].width, frames[0].height * 3))
    for k, index in enumerate((0, len(frames) // 2, len(frames) - 1)):
        sample.paste(frames[index], (0, k * frames[0].height))
    named = [
        tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
        for colour in dict.fromkeys((OWN, THREAT, MISSILE, ESCAPE, SAFE, INK))
    ]
    ground = tuple(int(GROUND[i : i + 2], 16) for i in (1, 3, 5))
    named += [tuple((a + b) // 2 for a, b in zip(colour, ground, strict=True)) for colour in named]
    common = sample.quantize(COLOURS - len(named)).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*common[: 3 * (COLOURS - len(named))], *(part for colour in named for part in colour)])
    return palette


def _mp4(frames: Sequence[Any], fps: float) -> bytes:
    width, height = (frames[0].width // 2 * 2, frames[0].height // 2 * 2)
    size, rate = f"{width}x{height}", str(fps)
    command = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", rate, "-i", "-"]
    command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "frag_keyframe+empty_moov", "-f", "mp4", "-"]
    raw = b"".join(frame.crop((0, 0, width, height)).tobytes() for frame in frames)
    done = subprocess.run(command, input=raw, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"ffmpeg failed: {done.stderr.decode(errors='replace').strip()}; write a .gif instead")
    return done.stdout


def draw_game(
    states: list[dict[str, Any]], side: int, path: Path, title: str, progress: Callable[[float], None]
) -> dict[str, str]:
    """Write the spacetime diagram with the most missiles as a PNG, as `side` sees it, and an animation.

    `path` names the animation (.gif or .mp4), or a page (.html), which is not written here; the PNG has the same name
    with .png.
    """
    shown = [states[0]]
    for state in states[1:]:
        if state["time"] - shown[-1]["time"] >= FRAME_S - 1e-6 or state is states[-1]:
            shown.append(state)
    busiest = max(range(len(shown)), key=lambda k: len(shown[k]["missiles"]))
    if path.suffix == PAGE_SUFFIX:
        scenes = scenes_of_game(shown, side, only=busiest)
        return {"picture": str(spacetime(path.with_suffix(".png"), scenes[0], title))}
    scenes = scenes_of_game(shown, side)
    picture = spacetime(path.with_suffix(".png"), scenes[busiest], title)
    film = animate(path, scenes, title, progress=lambda count: progress(count / len(scenes)))
    return {"picture": str(picture), "animation": str(film)}
