"""Which checkpoints of a folder are kept, and the `latest` and `best` links. The folder itself is the only record."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from slipstream.checkpoint.errors import CheckpointError
from slipstream.checkpoint.file import open_container, read_summary
from slipstream.checkpoint.load import FORMS, number_of, series_of
from slipstream.storage.container import is_container
from slipstream.storage.files import FileSystem, point_link, sync_folder


@dataclass
class Entry:
    """One checkpoint of a folder."""

    path: Path
    step: int
    identity: bytes = b""
    base: bytes = b""  # identity of the complete file it needs
    metrics: dict[str, float] = field(default_factory=dict)
    written: bool = False  # by this saver, and not found in the folder


@dataclass(frozen=True)
class Retention:
    """Keep the last `keep_last`, those whose step is a multiple of `keep_every`, the best by `best_metric`, and what
    these need.

    Without `keep_last` nothing is removed. Only numbered files of the same series as the one just saved are considered.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    best_metric: str | None = None
    best_mode: str = "max"
    links: bool = False

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 1:
            raise ValueError(f"keep_last={self.keep_last} must be at least 1, or None to keep all")
        if self.keep_every is not None and (self.keep_every < 1 or self.keep_last is None):
            raise ValueError("keep_every needs keep_last, and must be at least 1: without keep_last all are kept")
        if self.best_mode not in ("max", "min"):
            raise ValueError(f"best_mode={self.best_mode!r} is unknown: use 'max' or 'min'")

    def apply(self, saved: Path, known: dict[Path, Entry], fs: FileSystem) -> list[Path]:
        """After `saved` was written, update the links and remove what is not kept; return the removed paths."""
        if self.links and number_of(saved) is not None:  # a file without a number is not one of a series
            link_to(saved, "latest", fs)
        if self.keep_last is None and self.best_metric is None:
            return []
        entries = _series(saved, known)
        best = self._best(entries)
        if self.links and best is not None and best.path == saved:
            link_to(saved, "best", fs)
        if self.keep_last is None:
            return []
        by_step = sorted(entries, key=lambda e: (e.written, e.step))  # another run's leave first, at any step
        keep = {e.path for e in by_step[-self.keep_last :]} | {saved}
        keep |= {e.path for e in entries if self.keep_every and e.step % self.keep_every == 0}
        keep |= {best.path} if best is not None else set()
        keep |= {Path(os.path.realpath(link)) for link in saved.parent.glob("best.pt*") if link.is_symlink()}
        needed = {e.base for e in entries if e.path in keep and e.base}
        removed = [e for e in entries if e.path not in keep and (e.identity not in needed or not e.identity)]
        for entry in sorted(removed, key=lambda e: not e.base):  # differences first: none ever loses its base
            with contextlib.suppress(FileNotFoundError):
                fs.unlink(entry.path)
            known.pop(entry.path, None)
        if removed:
            remove_unneeded_bases(saved.parent, fs)
            sync_folder(saved.parent, fs)
        return [entry.path for entry in removed]

    def _best(self, entries: list[Entry]) -> Entry | None:
        name = self.best_metric
        rated = [e for e in entries if name is not None and name in e.metrics and not math.isnan(e.metrics[name])]
        sign = 1 if self.best_mode == "max" else -1
        return max(rated, key=lambda e: (sign * e.metrics[str(name)], e.step), default=None)


def _series(saved: Path, known: dict[Path, Entry]) -> list[Entry]:
    """The checkpoints beside `saved` that differ from it only by their number. `known` remembers what was read."""
    series = series_of(saved)
    if series is None:
        return [known[saved]] if saved in known else []
    out = []
    for path in saved.parent.iterdir():
        if series_of(path) == series and not path.is_symlink() and path.is_file():
            if path not in known:
                known[path] = read_entry(path)
            out.append(known[path])
    return out


def read_entry(path: Path) -> Entry:
    """Read what a file says about itself; a torch file says nothing, and a damaged one is left to `verify`."""
    entry = Entry(path, number_of(path) or 0)
    with contextlib.suppress(CheckpointError, OSError):
        if is_container(path):
            with open_container(path) as container:
                base, metrics, step = read_summary(container)
                identity = container.identity
            return Entry(path, entry.step if step is None else step, identity, base[1] if base else b"", metrics)
    return entry


def needed_bases(folder: Path) -> set[bytes]:
    """The identities of the complete files that differences in `folder` need."""
    found = {read_entry(path).base for path in folder.glob("*.slip") if not path.is_symlink()}
    return found - {b""}  # of a complete or damaged one


def remove_unneeded_bases(folder: Path, fs: FileSystem) -> None:
    """Remove the complete files kept aside that no difference needs any more."""
    aside = list(folder.glob(".base-*.pt.slip"))
    needed = {identity.hex() for identity in needed_bases(folder)} if aside else set()
    for path in aside:
        if path.name.removeprefix(".base-").removesuffix(".pt.slip") not in needed:
            fs.unlink(path)


def link_to(saved: Path, name: str, fs: FileSystem) -> None:
    """Make `latest` or `best` a link to a checkpoint, with the suffix of its form; links of other forms are removed."""
    form = saved.suffix if saved.suffix in FORMS else ""
    link = saved.with_name(f"{name}.pt{form}")
    point_link(link, saved, fs)
    for stale in (saved.with_name(f"{name}.pt{other}") for other in FORMS if other != form):
        if stale.is_symlink():
            fs.unlink(stale)
