"""A file appears whole or not at all: temporary name, fsync of the file, rename, fsync of the folder."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_whole(path: Path, data: bytes | Iterable[Any]) -> None:
    """Writes `data`, or buffers one after another, to `path`; a reader sees the old file or the new one, never a part."""
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


def sync_folder(folder: Path) -> None:
    """Makes the folder's list of names durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
