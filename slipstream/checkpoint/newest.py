"""The newest checkpoint of a run that is whole; broken ones are passed over and named."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.checkpoint.load import is_slip, load_checkpoint
from slipstream.checkpoint.maintenance import verify
from slipstream.checkpoint.retention import number_of


@dataclass
class Newest:
    """A checkpoint that could be read, and the newer ones that could not."""

    path: Path
    content: Any
    broken: list[tuple[Path, str]]  # and why, newest first

    @property
    def iteration(self) -> int:
        """The iterations done when it was saved."""
        return number_of(self.path) or 0

    def told(self, run: Path) -> str:
        """One line on what is broken, what is taken instead, and what to do; empty where nothing is."""
        if not self.broken:
            return ""
        why = ", ".join(f"{path.name} is broken ({reason})" for path, reason in self.broken)
        taken = f"going on from iteration {self.iteration}, {self.path.name}"
        return f"{why}: {taken}; `slipstream ckpt repair {run}` puts what is broken aside"


def checkpoints_of(folder: Path) -> list[Path]:
    """The checkpoints ckpt_000123.pt… of a run, the highest iteration first; of several forms of one, the last written."""
    found = [
        path for path in folder.glob("ckpt_*.pt*") if number_of(path) is not None and path.is_file()
    ]  # not *.slip.broken
    if not found:
        aside = len(list(folder.glob("ckpt_*.broken")))
        why = f"{aside} were put aside as broken" if aside else "the run has not reached its first save_interval"
        raise FileNotFoundError(f"no checkpoint in {folder}: {why}")
    return sorted(found, key=lambda path: (number_of(path) or 0, path.stat().st_mtime_ns), reverse=True)


def is_damage(error: Exception) -> bool:
    """Whether a file that could not be read is broken: a bad sector is damage; no permission, or no such file, is not."""
    return not isinstance(error, OSError) or error.errno == errno.EIO


def load_checked(path: Path) -> Any:
    """The state at `path`, if every byte it is made of is as it was written."""
    if not is_slip(path) and (reason := verify(path)) is not None:  # torch itself takes flipped bytes for data
        raise CorruptCheckpointError(reason)
    return load_checkpoint(path)


def newest_good(folder: Path, read: Callable[[Path], Any] = load_checked) -> Newest:
    """The newest checkpoint of a run's `folder` that `read` can read; a difference counts with the whole file it needs."""
    broken: list[tuple[Path, str]] = []
    for path in checkpoints_of(folder):
        try:
            return Newest(path, read(path), broken)
        except FileNotFoundError:  # removed meanwhile, by the training that goes on
            continue
        except (CheckpointError, OSError) as error:
            if not is_damage(error):
                raise
            broken.append((path, str(error).removeprefix(f"{path}: ")))
    why = ", ".join(f"{path.name} ({reason})" for path, reason in broken[:3]) + (" ..." if len(broken) > 3 else "")
    raise CorruptCheckpointError(
        f"no checkpoint in {folder} is whole: {why}. Copy one back from elsewhere, or start a new run with init= and a policy that is good"
    )
