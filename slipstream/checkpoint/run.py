"""Checkpoints of a run folder: find the folder, and read the newest checkpoint that is complete."""

from __future__ import annotations

import sys
from os import PathLike
from pathlib import Path
from typing import Any

from slipstream.checkpoint.load import checkpoints_of, newest_good
from slipstream.storage.files import refuse_outside_links


def find_run(path: str | PathLike[str]) -> Path:
    """Return the run folder at `path`: the folder itself, or that of a file or folder inside it, such as a
    checkpoint."""
    path = Path(path).absolute()
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give a run folder, or a file inside one")
    folder = path if path.is_dir() else path.parent
    for candidate in (folder, folder.parent):  # checkpoints are one folder below
        if (candidate / "config.yaml").is_file():
            refuse_outside_links(candidate)
            return candidate
    raise FileNotFoundError(f"{folder} is not a run folder: config.yaml is missing there and in the folder above")


def newest_state(run: Path) -> tuple[Path, Any]:
    """Return the newest complete checkpoint of a run and its state; print which newer ones are broken, and the
    remedy."""
    found = newest_good(run / "checkpoints")
    if found.broken:
        print(found.message(run), file=sys.stderr)
    return found.path, found.content


def latest_checkpoint(folder: Path) -> Path:
    """Return the newest checkpoint in a folder by its iteration, complete or not, without the suffix of its form."""
    newest = checkpoints_of(folder)[0]
    return newest.with_name(newest.name.partition(".")[0] + ".pt")
