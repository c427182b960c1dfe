"""Which checkpoints of a folder are kept, and the link `latest`. The folder itself is the only record."""

from __future__ import annotations

import contextlib
from pathlib import Path

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.checkpoint.load import FORMS, KIND, number_of, read_base, series_of
from slipstream.storage.files import point_link, remove_file, sync_folder
from slipstream.storage.tensor_file import Reader, TensorFile, read_identity


def keep_last(saved: Path, count: int, bases: dict[Path, str]) -> list[Path]:
    """After `saved` was written, remove all but the last `count` files of its series, and what these need; return the
    removed paths.

    A series are the files beside it that differ by their number alone.

    Args:
        bases: of each file that this saver wrote, the name of the complete file that it needs, or "".
    """
    series = series_of(saved)
    found = [
        p for p in saved.parent.iterdir() if series_of(p) == series is not None and not p.is_symlink() and p.is_file()
    ]
    found.sort(key=lambda path: (path in bases, number_of(path)))  # another run's leave first, at any number
    keep = {saved, *found[-count:]}
    needed = {bases[path] if path in bases else base_of(path) for path in keep}
    removed = [path for path in found if path not in keep and path.name not in needed]
    # differences first, so that none ever loses its base
    for path in sorted(removed, key=lambda path: not (bases[path] if path in bases else base_of(path))):
        with contextlib.suppress(FileNotFoundError):
            remove_file(path)
        bases.pop(path, None)
    if removed:
        sync_folder(saved.parent)
    return removed


def base_of(path: Path) -> str:
    """Return the name of the file that a difference needs; "" for a complete, a torch, or a damaged file."""
    with contextlib.suppress(CheckpointError, OSError):
        if read_identity(path):
            reader = Reader(path, error=CorruptCheckpointError)
            with TensorFile.open(path, KIND, reader=reader) as container, reader.parsing("the index"):
                base = read_base(container)
                return base[0] if base else ""
    return ""


def link_latest(saved: Path) -> None:
    """Make `latest` a link to a checkpoint, with the suffix of its form; links of other forms are removed."""
    form = saved.suffix if saved.suffix in FORMS else ""
    point_link(saved.with_name(f"latest.pt{form}"), saved)
    for stale in (saved.with_name(f"latest.pt{other}") for other in FORMS if other != form):
        if stale.is_symlink():
            remove_file(stale)
