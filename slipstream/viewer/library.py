"""What the viewer may show: the runs and recordings below one folder. Nothing else is ever opened.

A page asks by the names that `scan` found, never by a path. Links are not followed, and a file that has a further
name (a hard link) is not opened: another user may have put a private file of ours here.
"""

from __future__ import annotations

import json
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

from slipstream.config.overrides import read_yaml
from slipstream.recordings import SUFFIX, parse_recording, read_title
from slipstream.storage.errors import SaveError
from slipstream.storage.files import LOCK_NAME
from slipstream.storage.tensor_file import Reader, is_unicode, open_regular

DEPTH = 5  # levels of folders below the root
MOST_ENTRIES = 20_000  # files and folders looked at in one folder
MOST_FOLDERS = 20_000  # looked at in one scan, those near the root first
MOST_SHOWN = 2_000
CHUNK = 4 << 20  # of a log, per answer
RECORDING_BYTES = 256 << 20  # memory that opening a recording may take; its title takes less
TITLE_BYTES = 32 << 20
MAX_NUMBER = 1.7e308
RUN_FILES = ("config.yaml", "metrics.jsonl")
FIGURES = (".png", ".svg", ".jpg")


class NotHere(LookupError):
    """Nothing of this name is below the folder, or it is gone."""


@dataclass
class Found:
    """The result of a scan: paths by name."""

    runs: dict[str, Path] = field(default_factory=dict)
    recordings: dict[str, Path] = field(default_factory=dict)
    signature: tuple[Any, ...] = ()  # changes when something is new or was written


class Library:
    """The runs and recordings below `root`: a folder of runs, one run, or one recording."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.exists():
            raise FileNotFoundError(f"there is no {root}: name a run, a folder of runs or a recording")
        self.found = Found()
        self._read: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}  # titles and configs, each when written
        self.scan()

    def scan(self) -> Found:
        """Look again what is there."""
        found = Found()
        signature: list[Any] = []
        recordings: list[tuple[Path, os.stat_result]] = []
        for path, info in self._files():
            if path.name == "config.yaml" and path.parent.joinpath("git.json").exists():
                found.runs[self._name(path.parent)] = path.parent
            elif path.suffix == SUFFIX:
                recordings.append((path, info))
            elif path.name != "metrics.jsonl":
                continue
            signature.append((path, info.st_mtime_ns, info.st_size, info.st_nlink))
        found.recordings = {self._name(path): path for path in _in_turns(recordings)}
        locked = _locked_inodes()
        signature.append(tuple(sorted(name for name, path in found.runs.items() if _is_running(path, locked))))
        found.signature = tuple(signature)
        self.found = found
        return found

    def index(self) -> dict[str, Any]:
        """Return everything that there is, newest first."""
        locked = _locked_inodes()
        runs = [self._describe_run(name, path, locked) for name, path in list(self.found.runs.items())[:MOST_SHOWN]]
        shown = list(self.found.recordings.items())[:MOST_SHOWN]
        folders = set(self.found.runs.values())
        recordings = [self._describe_recording(name, path, folders) for name, path in shown]
        for entries in (runs, recordings):
            entries.sort(key=lambda entry: -entry["modified"])
        return {"root": _text(self.root.name), "runs": runs, "recordings": recordings}

    def recording(self, name: str) -> bytes:
        """Return the bytes of a recording, for the page, after they were checked.

        Raises:
            NotHere: There is none of this name.
            SaveError: The file is damaged or too large.
        """
        path = self._path(self.found.recordings, name)
        try:
            self._info(path)
            reader = Reader(name, max_bytes=RECORDING_BYTES)
            data = reader.read(path)
            parse_recording(data, reader)
            return data
        except FileNotFoundError as error:
            raise NotHere(name) from error

    def run(self, name: str, offset: int = 0) -> dict[str, Any]:
        """Return config, files and the log of a run from byte `offset` on; `offset` of the answer is for the next
        call. A log that became shorter is sent again from its start."""
        folder = self._path(self.found.runs, name)
        log = folder / "metrics.jsonl"
        rows: list[dict[str, Any]] = []
        size = self._info(log).st_size if log.is_file() and not log.is_symlink() else 0
        restarted = offset > size
        offset = 0 if restarted else offset
        if size:
            with open(log, "rb") as file:
                file.seek(offset)
                data = file.read(CHUNK)
            end = data.rfind(b"\n") + 1  # the last line may be in the writing
            offset += end
            rows = [row for line in data[:end].splitlines() if (row := _row(line)) is not None]
        checkpoints = [_file(p) for p in _listed(folder / "checkpoints") if p.name.startswith("ckpt_")]
        figures = [_file(p) for p in _listed(folder) if p.suffix in FIGURES]
        near = [n for n in self.found.recordings if self.found.recordings[n].is_relative_to(folder)]
        facts = {"name": name, "offset": offset, "more": offset < size and bool(rows), "restarted": restarted}
        facts |= {"running": _is_running(folder, _locked_inodes())}
        return facts | {"rows": rows, "config": self._known_config(folder), "checkpoints": checkpoints, "figures": figures,
                        "recordings": near}  # fmt: skip

    def figure(self, run: str, name: str) -> Path:
        """Return the path of a figure of a run."""
        folder = self._path(self.found.runs, run)
        found = {_text(path.name): path for path in _listed(folder) if path.suffix in FIGURES}
        path = self._path(found, name)
        self._info(path)
        return path

    def _path(self, known: dict[str, Path], name: str) -> Path:
        path = known.get(name)
        if path is None or path.is_symlink() or not path.exists():
            raise NotHere(name)
        real = os.path.realpath(path)
        if real != str(path) or not (path == self.root or path.is_relative_to(self.root)):
            raise NotHere(name)  # a folder above it became a link
        return path

    def _name(self, path: Path) -> str:
        """Return the name by which a page asks; bytes of a name that are no text are shown as \\xff."""
        name = path.name if path == self.root else path.relative_to(self.root).as_posix()
        return _text(name)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the regular files of the folders level by level, so that no folder with many files hides another."""
        if self.root.is_file():
            yield self.root, self.root.stat()
            return
        level = [self.root]
        left = MOST_FOLDERS
        for _ in range(DEPTH):
            level, folders = [], level[:left]
            left -= len(folders)
            for folder in folders:
                for entry in _entries(folder):
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISREG(info.st_mode):
                        yield Path(entry.path), info
                    elif stat.S_ISDIR(info.st_mode) and not entry.name.startswith("."):
                        level.append(Path(entry.path))

    def _info(self, path: Path) -> os.stat_result:
        """Return the facts of a file below the root.

        Raises:
            OSError: It is none that may be opened: a link, a pipe, or a file that has a further name.
        """
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(f"{_text(path.name)} is not a regular file")
        if info.st_nlink > 1 and path != self.root:
            raise PermissionError(f"{_text(path.name)} has a further name (a hard link): copy it to show it")
        return info

    def _describe_run(self, name: str, path: Path, locked: set[int]) -> dict[str, Any]:
        log = path / "metrics.jsonl"
        facts = {"name": name, "running": _is_running(path, locked), "modified": 0.0, "task": "", "last": {}}
        try:
            facts["modified"] = max(p.stat().st_mtime for p in (log, path / "config.yaml") if p.exists())
            self._info(path / "config.yaml")
            task = self._known_config(path).get("task")
            facts["task"] = task if isinstance(task, str) else ""
            if log.is_file() and not log.is_symlink():
                self._info(log)
                facts["last"] = _last_row(log)
        except (OSError, ValueError) as error:
            facts["error"] = str(error)
        return facts

    def _known_config(self, folder: Path) -> dict[str, Any]:
        """Return a run's config; an empty one if it cannot be read."""
        path = folder / "config.yaml"
        try:
            return self._read_once(path, self._info(path), _config)
        except OSError:
            return {}

    def _read_once(self, path: Path, info: os.stat_result, read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Return what `read` returns for a file, read again only if it was written."""
        key = (info.st_mtime_ns, info.st_size)
        known = self._read.get(path)
        if known is None or known[0] != key:
            known = self._read[path] = (key, read(path))
        return known[1]

    def _describe_recording(self, name: str, path: Path, folders: set[Path]) -> dict[str, Any]:
        run = next((self._name(folder) for folder in path.parents if folder in folders), "")
        facts = {"name": name, "run": run, "modified": 0.0, "bytes": 0}
        try:
            info = self._info(path)
            facts |= {"modified": info.st_mtime, "bytes": info.st_size}
            return facts | self._read_once(path, info, lambda path: _title(path, name))
        except FileNotFoundError:
            return facts | {"error": "it is gone"}
        except OSError as error:
            return facts | {"scene": "", "title": name, "frames": 0, "summary": "", "error": str(error)}


def _in_turns(files: list[tuple[Path, os.stat_result]]) -> list[Path]:
    """Return files so that each folder's newest comes first, then each one's second newest, and so on."""
    files = sorted(files, key=lambda file: -file[1].st_mtime_ns)
    folders: defaultdict[Path, Iterator[int]] = defaultdict(count)
    turns = {path: next(folders[path.parent]) for path, _ in files}
    return sorted(turns, key=turns.__getitem__)


def _title(path: Path, name: str) -> dict[str, Any]:
    try:
        return read_title(path, Reader(name, max_bytes=TITLE_BYTES))
    except (SaveError, OSError, ValueError) as error:
        return {"scene": "", "title": name, "frames": 0, "summary": "", "error": str(error)}


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, up to a limit; the files that make it a run are always among it."""
    try:
        with os.scandir(folder) as listing:
            found = list(islice(listing, MOST_ENTRIES))
            if len(found) == MOST_ENTRIES:
                found += [entry for entry in listing if entry.name in RUN_FILES]
    except OSError:
        return []
    return sorted(found, key=lambda entry: entry.name)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink())
    except OSError:
        return []


def _file(path: Path) -> dict[str, Any]:
    try:
        info = path.stat()
    except OSError:
        return {"name": _text(path.name), "bytes": 0, "modified": 0.0}
    return {"name": _text(path.name), "bytes": info.st_size, "modified": info.st_mtime}


def _config(path: Path) -> dict[str, Any]:
    """Return a config as a page can get it; an empty one if it cannot be read."""
    try:
        config = read_yaml(path)
        json.dumps(config, allow_nan=False, ensure_ascii=False).encode()
    except (OSError, ValueError, TypeError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def _text(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    return {key: value for key, value in row.items() if is_unicode(key) and (value is None or _is_finite(value))}


def _is_finite(value: Any) -> bool:
    """Return whether a value of a log is a number that JSON has."""
    return type(value) in (int, float) and -MAX_NUMBER <= value <= MAX_NUMBER


def _last_row(log: Path) -> dict[str, Any]:
    """Return the last complete row of a log."""
    try:
        with os.fdopen(open_regular(log), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - (1 << 16)))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    return next((row for line in reversed(lines[:-1]) if (row := _row(line)) is not None), {})


def _locked_inodes() -> set[int]:
    """Return the inodes of files that some process holds a write lock on."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return set()
    fields = (line.split() for line in lines)
    return {int(f[5].rpartition(":")[2]) for f in fields if len(f) > 5 and f[1] == "FLOCK" and f[3] == "WRITE"}


def _is_running(folder: Path, locked: set[int]) -> bool:
    try:
        return os.stat(folder / LOCK_NAME).st_ino in locked
    except OSError:
        return False
