"""Files that an evaluation draws: which names it takes, and animations as GIF, or as MP4 if ffmpeg or imageio-ffmpeg is
installed."""

from __future__ import annotations

import importlib.util
import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from slipstream.storage.files import check_writable, write_file
from slipstream.ui.figures import show_text_as_it_is

FORMS = (".gif", ".mp4")
OUTPUTS = (".png", ".html", *FORMS)  # suffixes of `out=`
COLORS = 128  # of a GIF
HOLD_S = 2.0  # the last frame stays


def check_outputs(path: str | Path, beside: Sequence[str] = ()) -> Path:
    """Return the path that `out=` names. Raises before any work if it, or a file with a suffix of `beside`, cannot be
    written here."""
    path = Path(path)
    if path.suffix not in OUTPUTS:
        raise ValueError(f"out={path}: the name must end in {', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}")
    if path.suffix in FORMS:
        check_animation(path)
    for suffix in (path.suffix, *beside):
        check_writable(path.with_suffix(suffix))
    return path


def check_animation(path: str | Path) -> Path:
    """Return the path of an animation. Raises ValueError if its format is unknown or cannot be written here."""
    path = Path(path)
    if path.suffix not in FORMS:
        raise ValueError(f"{path.name}: the name of an animation must end in {' or '.join(FORMS)}")
    if path.suffix == ".mp4" and find_ffmpeg() is None:
        raise ValueError(
            f"{path.name} needs ffmpeg: put it on the PATH or pip install imageio-ffmpeg, or write {path.stem}.gif"
        )
    return path


def find_ffmpeg() -> str | None:
    """Return the ffmpeg on the PATH, or that of the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found is None and importlib.util.find_spec("imageio_ffmpeg"):
        import imageio_ffmpeg

        with suppress(RuntimeError):  # it has none for this platform
            found = imageio_ffmpeg.get_ffmpeg_exe()
    return found


def write_film(
    path: str | Path,
    frames: Iterable[Any],
    count: int,
    fps: float,
    samples: Sequence[Any],
    colors: Sequence[str],
    progress: Callable[[float], None] | None = None,
) -> Path:
    """Write a film, complete or not at all. Its last frame stays for two seconds.

    Args:
        path: ends in .gif or .mp4.
        frames: `count` Pillow images of one size, taken one by one.
        count: of the frames.
        fps: frames per second.
        samples: some of the frames, for the colors of a GIF.
        colors: `#rrggbb` of thin lines, which a GIF must keep; the first is the ground.
        progress: takes the share of the frames drawn so far.
    """
    path = check_animation(path)

    def shown() -> Iterator[Any]:
        for number, frame in enumerate(frames, 1):
            yield frame
            if progress:
                progress(number / count)
        yield from [frame] * round(HOLD_S * fps)

    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, _gif(shown(), fps, _palette(samples, colors)) if path.suffix == ".gif" else _mp4(shown(), fps))
    return path


def picture_of(figure: Any, width_px: int) -> Any:
    """Render a figure as a Pillow image."""
    from PIL import Image

    buffer = io.BytesIO()
    show_text_as_it_is(figure)
    dpi = 2 * round(width_px / figure.get_figwidth() / 2)
    figure.savefig(buffer, format="png", dpi=dpi, facecolor=figure.get_facecolor())
    return Image.open(buffer).convert("RGB")


def _gif(frames: Iterable[Any], fps: float, palette: Any) -> bytes:
    from PIL import Image

    few = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first, buffer = next(few), io.BytesIO()
    first.save(
        buffer, format="GIF", save_all=True, append_images=few, duration=round(1000 / fps), loop=0, optimize=True
    )
    return buffer.getvalue()


def _palette(samples: Sequence[Any], colors: Sequence[str]) -> Any:
    """Return one palette for all frames: colors do not flicker, and unchanged areas compress well.

    Most colors are taken by area from the samples. The colors of thin lines are added by name, each also half faded
    for the edges of lines, because they would be lost by area.
    """
    from PIL import Image

    sample = Image.new("RGB", (samples[0].width, samples[0].height * len(samples)))
    for k, frame in enumerate(samples):
        sample.paste(frame, (0, k * frame.height))
    ground, *named = [tuple(int(color[i : i + 2], 16) for i in (1, 3, 5)) for color in dict.fromkeys(colors)]
    named += [tuple((a + b) // 2 for a, b in zip(color, ground, strict=True)) for color in named]
    common = sample.quantize(COLORS - len(named)).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*common[: 3 * (COLORS - len(named))], *(part for color in named for part in color)])
    return palette


def _mp4(frames: Iterable[Any], fps: float) -> bytes:
    frames = iter(frames)
    first = next(frames)
    width, height = first.width // 2 * 2, first.height // 2 * 2
    with tempfile.TemporaryDirectory() as folder:
        film, log = Path(folder) / "film.mp4", Path(folder) / "log"
        command = [find_ffmpeg() or "ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
        command += ["-s", f"{width}x{height}", "-r", str(fps), "-i", "-", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
        command += ["-movflags", "+faststart", str(film)]
        with log.open("wb") as errors, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors) as process:
            assert process.stdin is not None
            try:
                for frame in chain((first,), frames):
                    process.stdin.write(frame.crop((0, 0, width, height)).tobytes())
                process.stdin.close()
            except BrokenPipeError:
                pass  # ffmpeg ended: its exit code and its last words say why
        if process.returncode or not film.exists():
            text = log.read_text(errors="replace").strip()
            raise RuntimeError(f"ffmpeg failed: {text or f'exit code {process.returncode}'}; write a .gif instead")
        return film.read_bytes()
