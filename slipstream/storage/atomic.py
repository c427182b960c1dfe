"""A file appears whole or not at all: temporary name, fsync of the file, rename, fsync of the folder."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_whole(path: Path, data: bytes | Iterable[Any]) -> None:
    """Writes `data`, or buffers one after another, to `path`; a reader sees the old file or the new one, never a part.

    A link stays, and the file it points to is replaced.
    """
    refuse_unwritable(path)
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            parts: Iterable[Any] = (data,) if isinstance(data, bytes) else data
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def refuse_unwritable(path: Path) -> None:
    """Raises where no file can be put at `path`: its folder is not there, or what is there is no file and a rename would destroy it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into: make it, or name another")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise FileExistsError(
            f"{path} is a device, a pipe or a socket, which a file would take the place of: name another file"
        )


def sync_folder(folder: Path) -> None:
    """Makes the folder's list of names durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
