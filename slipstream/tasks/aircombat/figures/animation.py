"""Animations of a game: GIF, a page for any browser (HTML), or MP4 if ffmpeg is installed."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
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

FORMS = (".gif", ".html", ".mp4")
WIDTH_IN = 12.0  # of the spacetime diagram
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
        path: ends in .gif, .html or .mp4.
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
    write = {".gif": _gif, ".html": _html, ".mp4": _mp4}[path.suffix]
    write_file(path, write(frames, fps))
    return path


def writable(path: str | Path) -> Path:
    """Return the path of an animation. Raises ValueError if its format is unknown or cannot be written here."""
    path = Path(path)
    if path.suffix not in FORMS:
        raise ValueError(f"{path.name}: the name of an animation must end in {', '.join(FORMS)}")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError(
            f"{path.name} needs ffmpeg on the PATH: install it, or write {path.stem}.gif or {path.stem}.html"
        )
    return path


def _picture(figure: Any, width_px: int) -> Any:
    """Render a figure as a Pillow image."""
    from PIL import Image

    buffer = io.BytesIO()
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
        raise RuntimeError(
            f"ffmpeg failed: {done.stderr.decode(errors='replace').strip()}; write a .gif or .html instead"
        )
    return done.stdout


def _html(frames: Sequence[Any], fps: float) -> bytes:
    unique = list(dict.fromkeys(map(id, frames)))
    by_id = {id(frame): frame for frame in frames}
    pictures = ",\n".join(f'"{text}"' for text in _jpegs(by_id[key] for key in unique))
    page = (
        PAGE.replace("{{FRAMES}}", pictures)
        .replace("{{WIDTH}}", str(frames[0].width))
        .replace("{{MS}}", str(round(1000 / fps)))
    )
    return page.encode()


def _jpegs(frames: Iterable[Any]) -> Iterable[str]:
    for frame in frames:
        buffer = io.BytesIO()
        frame.save(buffer, format="JPEG", quality=82)
        yield "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def draw_game(
    states: list[dict[str, Any]], side: int, path: Path, title: str, progress: Callable[[float], None]
) -> dict[str, str]:
    """Write a game as `side` sees it: an animation, and the spacetime diagram with the most missiles as a PNG.

    `path` names the animation (.gif, .html or .mp4); the PNG has the same name with .png.
    """
    shown = [states[0]]
    for state in states[1:]:
        if state["time"] - shown[-1]["time"] >= FRAME_S - 1e-6 or state is states[-1]:
            shown.append(state)
    scenes = scenes_of_game(shown, side)
    busiest = max(range(len(shown)), key=lambda k: len(shown[k]["missiles"]))
    picture = spacetime(path.with_suffix(".png"), scenes[busiest], title)
    film = animate(path, scenes, title, progress=lambda count: progress(count / len(scenes)))
    return {"picture": str(picture), "animation": str(film)}


PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>air combat</title>
<style>
body { background: #0d1117; color: #e8edf4; font: 15px system-ui, sans-serif; margin: 0; display: grid; justify-items: center }
img { width: min(100vw, {{WIDTH}}px); display: block }
div { display: flex; gap: 12px; width: min(94vw, {{WIDTH}}px); padding: 10px; align-items: center }
input { flex: 1 }
button { background: #222c39; color: inherit; border: 0; border-radius: 6px; padding: 7px 16px; font: inherit }
</style>
<img id="picture" alt="the duel, frame by frame">
<div><button id="play">pause</button><input id="at" type="range" min="0" value="0" aria-label="frame"></div>
<script>
const frames = [{{FRAMES}}];
const picture = document.getElementById("picture"), at = document.getElementById("at"), play = document.getElementById("play");
let playing = true, waited = 0;
at.max = frames.length - 1;
const show = k => { at.value = k; picture.src = frames[k]; };
const pause = p => { playing = !p; play.textContent = p ? "play" : "pause"; };
at.oninput = () => { pause(true); show(+at.value); };
play.onclick = () => pause(playing);
document.onkeydown = e => {
  if (e.key === " ") { pause(playing); e.preventDefault(); }
  if (e.key === "ArrowRight") { pause(true); show(Math.min(+at.value + 1, frames.length - 1)); }
  if (e.key === "ArrowLeft") { pause(true); show(Math.max(+at.value - 1, 0)); }
};
setInterval(() => {
  if (!playing) return;
  if (+at.value < frames.length - 1) { waited = 0; show(+at.value + 1); }
  else if (++waited * {{MS}} > 2000) { waited = 0; show(0); }
}, {{MS}});
show(0);
</script>
"""
