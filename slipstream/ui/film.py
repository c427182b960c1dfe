"""Files that an evaluation draws: which names it takes, and animations as GIF, or as MP4 if ffmpeg is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from slipstream.storage.files import check_writable, write_file
from slipstream.ui.figures import GRID, GROUND, INK, MUTED, PANEL, SERIES, pixels

FORMS = (".gif", ".mp4")
OUTPUTS = (".png", ".html", *FORMS)  # suffixes of `out=`
HOLD_S = 2.0  # the last frame stays
CUBE = (16, 68, 120, 172, 224)  # of red, green and blue: 125 colors of a GIF


def check_outputs(path: str | Path, beside: Sequence[str] = ()) -> Path:
    """Return the path that `out=` names. Raises before any work if it, or a file with a suffix of `beside`, cannot be
    written here."""
    path = Path(path)
    if path.suffix not in OUTPUTS:
        raise ValueError(f"out={path}: the name must end in {', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}")
    if path.suffix == ".mp4" and find_ffmpeg() is None:
        raise ValueError(f"{path.name} needs ffmpeg: install it, or write {path.stem}.gif")
    for suffix in (path.suffix, *beside):
        check_writable(path.with_suffix(suffix))
    return path


def find_ffmpeg() -> str | None:
    """Return the ffmpeg on the PATH."""
    return shutil.which("ffmpeg")


def write_film(
    path: Path,
    frames: Iterable[Any],
    count: int,
    fps: float,
    progress: Callable[[float], None] | None = None,
    colors: Sequence[str] = (),
) -> Path:
    """Write a film, complete or not at all. Its last frame stays for two seconds.

    Args:
        path: ends in .gif or .mp4.
        frames: `count` Pillow images of one size, taken one by one.
        count: of the frames.
        fps: frames per second.
        progress: takes the share of the frames drawn so far.
        colors: `#rrggbb` of lines beside those of `ui.figures`, for a GIF.
    """

    def shown() -> Iterator[Any]:
        for number, frame in enumerate(frames, 1):
            yield frame
            if progress:
                progress(number / count)
        yield from [frame] * round(HOLD_S * fps)

    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, _gif(shown(), fps, colors) if path.suffix == ".gif" else _mp4(shown(), fps))
    return path


def picture_of(figure: Any, width_px: int) -> Any:
    """Render a figure as a Pillow image."""
    from PIL import Image

    return Image.fromarray(pixels(figure, 2 * round(width_px / figure.get_figwidth() / 2)))


def _gif(frames: Iterator[Any], fps: float, colors: Sequence[str]) -> bytes:
    """Return a GIF with one palette for all frames: colors do not flicker, and unchanged areas compress well."""
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette(colors))
    few = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first, buffer = next(few), io.BytesIO()
    first.save(
        buffer, format="GIF", save_all=True, append_images=few, duration=round(1000 / fps), loop=0, optimize=True
    )
    return buffer.getvalue()


def _palette(colors: Sequence[str]) -> list[int]:
    """Return up to 256 colors: those of lines, each in shades from the ground on for edges and faint lines, and a cube
    for the rest."""
    ground, *named = [
        [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        for color in dict.fromkeys((GROUND, PANEL, GRID, MUTED, INK, *SERIES, *colors))
    ]
    cube = [(r, g, b) for r in CUBE for g in CUBE for b in CUBE]
    steps = (256 - len(cube) - 1) // len(named)
    shades = [
        [round(a + (b - a) * k / steps) for a, b in zip(ground, color, strict=True)]
        for color in named
        for k in range(1, steps + 1)
    ]
    return [part for color in (ground, *shades, *cube) for part in color]


def _mp4(frames: Iterator[Any], fps: float) -> bytes:
    first = next(frames)
    width, height = first.width // 2 * 2, first.height // 2 * 2
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        command = [find_ffmpeg() or "ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
        command += ["-s", f"{width}x{height}", "-r", str(fps), "-i", "-", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
        command += ["-movflags", "+faststart", str(film)]
        try:
            with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
                assert process.stdin is not None
                for frame in chain((first,), frames):
                    process.stdin.write(frame.crop((0, 0, width, height)).tobytes())
        except BrokenPipeError:
            pass  # ffmpeg has ended: it printed why
        if not film.exists() or process.returncode:
            raise RuntimeError(f"ffmpeg failed with exit code {process.returncode}: write a .gif instead")
        return film.read_bytes()
