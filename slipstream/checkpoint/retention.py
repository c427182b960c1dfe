"""Which checkpoints of a folder stay, and the `latest` and `best` links. The folder itself is the only record."""

from __future__ import annotations

import contextlib
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from slipstream.checkpoint.errors import CheckpointError
from slipstream.checkpoint.format import HEADER, IS_DIFFERENCE, MAGIC, read_index
from slipstream.storage.files import FileSystem, point_link, sync_folder

_NAME = re.compile(r"^(?P<stem>.*?)(?P<step>\d+)(?P<rest>\.pt(?:\.slip|\.lz4)?)$")


@dataclass
class Entry:
    """One checkpoint of a folder."""

    path: Path
    step: int
    identity: bytes = b""
    base: bytes = b""  # identity of the full file it needs
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Retention:
    """Keep the last `keep_last`, those whose step is a multiple of `keep_every`, and the best by `best_metric`; and what these need.

    Without `keep_last` nothing is ever removed. Only numbered files of the same name as the one just saved are looked at.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    best_metric: str | None = None
    best_mode: str = "max"
    links: bool = False

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 1:
            raise ValueError(f"keep_last ({self.keep_last}) must be at least 1, or None to keep all")
        if self.keep_every is not None and (self.keep_every < 1 or self.keep_last is None):
            raise ValueError(
                "keep_every needs keep_last, and must be at least 1: without keep_last every checkpoint is kept"
            )
        if self.best_mode not in ("max", "min"):
            raise ValueError(f"best_mode is {self.best_mode!r}: use 'max' or 'min'")

    def apply(self, saved: Path, known: dict[Path, Entry], fs: FileSystem) -> list[Path]:
        """After `saved` was written: point the links, remove what need not stay; the removed paths."""
        if self.links and _NAME.match(saved.name):  # a file without a number is not one of a series
            _link(saved, "latest", fs)
        if self.keep_last is None and self.best_metric is None:
            return []
        entries = family(saved, known)
        best = self._best(entries)
        if self.links and best is not None and best.path == saved:
            _link(saved, "best", fs)
        if self.keep_last is None:
            return []
        by_step = sorted(entries, key=lambda e: e.step)
        keep = {e.path for e in by_step[-self.keep_last :]} | {saved}
        keep |= {e.path for e in entries if self.keep_every and e.step % self.keep_every == 0}
        keep |= {best.path} if best is not None else set()
        keep |= {Path(os.path.realpath(link)) for link in saved.parent.glob("best.pt*") if link.is_symlink()}
        needed = {e.base for e in entries if e.path in keep and e.base}
        removed = [e.path for e in entries if e.path not in keep and (e.identity not in needed or not e.identity)]
        removed.sort(
            key=lambda p: not _is_difference(p)
        )  # differences first: cut short here, no difference loses its base
        for path in removed:
            with contextlib.suppress(FileNotFoundError):
                fs.unlink(path)
            known.pop(path, None)
        if removed:
            _remove_unneeded_bases(saved.parent, fs)
            sync_folder(saved.parent, fs)
        return removed

    def _best(self, entries: list[Entry]) -> Entry | None:
        name = self.best_metric
        rated = [e for e in entries if name is not None and name in e.metrics and not math.isnan(e.metrics[name])]
        sign = 1 if self.best_mode == "max" else -1
        return max(rated, key=lambda e: (sign * e.metrics[str(name)], e.step), default=None)


def family(saved: Path, known: dict[Path, Entry]) -> list[Entry]:
    """The checkpoints beside `saved` that differ from it only by their number. `known` remembers what was read."""
    match = _NAME.match(saved.name)
    if match is None:
        return [known[saved]] if saved in known else []
    out = []
    for path in saved.parent.iterdir():
        other = _NAME.match(path.name)
        if other is None or other["stem"] != match["stem"] or path.is_symlink() or not path.is_file():
            continue
        if path not in known:
            known[path] = read_entry(path, int(other["step"]))
        out.append(known[path])
    return out


def number_of(path: Path) -> int | None:
    """The number at the end of a checkpoint's name; None where it has none."""
    match = _NAME.match(path.name)
    return int(match["step"]) if match else None


def read_entry(path: Path, step: int) -> Entry:
    """What a file says about itself; a plain torch file says nothing, and a damaged one is left to `verify`."""
    with contextlib.suppress(CheckpointError, OSError), open(path, "rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            index = read_index(file.fileno(), path)
            base = index.base[1] if index.base else b""
            return Entry(path, step if index.step is None else index.step, index.identity, base, index.metrics)
    return Entry(path, step)


def needed_bases(folder: Path) -> dict[bytes, list[Path]]:
    """Identity of every full file that differences in `folder` need, with the differences."""
    out: dict[bytes, list[Path]] = {}
    for path in folder.glob("*.slip"):
        if not path.is_symlink() and _is_difference(path):
            entry = read_entry(path, 0)
            if entry.base:  # a damaged one cannot say
                out.setdefault(entry.base, []).append(path)
    return out


def _remove_unneeded_bases(folder: Path, fs: FileSystem) -> None:
    aside = list(folder.glob(".base-*.pt.slip"))
    if aside:
        needed = {identity.hex() for identity in needed_bases(folder)}
        for path in aside:
            if path.name.removeprefix(".base-").removesuffix(".pt.slip") not in needed:
                fs.unlink(path)


def _is_difference(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(HEADER.size)
    except OSError:
        return False
    return len(head) == HEADER.size and head[: len(MAGIC)] == MAGIC and bool(HEADER.unpack(head)[2] & IS_DIFFERENCE)


def _link(saved: Path, name: str, fs: FileSystem) -> None:
    form = saved.suffix if saved.suffix in (".slip", ".lz4") else ""
    point_link(saved.with_name(f"{name}.pt{form}"), saved, fs)
    for other in ("", ".slip", ".lz4"):
        stale = saved.with_name(f"{name}.pt{other}")
        if other != form and stale.is_symlink():
            fs.unlink(stale)
