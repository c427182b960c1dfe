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
from contextlib import suppress
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
TAIL = 1 << 16  # of a log, where its last row is
RECORDING_BYTES = 256 << 20  # memory that opening a recording may take; its title takes less
TITLE_BYTES = 32 << 20
MAX_NUMBER = 1.7e308
RUN_FILES = ("config.yaml", "metrics.jsonl")
FIGURES = (".png", ".svg", ".jpg")


class NotHere(LookupError):
    """Nothing of this name is below the folder, or it is gone."""


class Library:
    """The runs and recordings below `root`: a folder of runs, one run, or one recording.

    `runs` and `recordings` are paths by name, as the last `scan` found them; `running` are the folders that are being
    written; `signature` changes when something is new or was written.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.exists():
            raise FileNotFoundError(f"there is no {root}: name a run, a folder of runs or a recording")
        self._read: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}  # titles and configs, each when written
        self.scan()

    def scan(self) -> None:
        """Look again what is there."""
        runs: dict[str, Path] = {}
        signature: list[Any] = []
        recordings: list[tuple[Path, os.stat_result]] = []
        running: set[Path] = set()
        locked = _locked_inodes()
        for path, info in self._files():
            if path.name == "config.yaml" and path.parent.joinpath("git.json").exists():
                runs[self._name(path.parent)] = path.parent
            elif path.suffix == SUFFIX:
                recordings.append((path, info))
            elif path.name == LOCK_NAME and info.st_ino in locked:
                running.add(path.parent)
            elif path.name != "metrics.jsonl":
                continue
            signature.append((path, info.st_mtime_ns, info.st_size, info.st_nlink))
        self.runs, self.running = runs, running
        self.recordings = {self._name(path): path for path in _in_turns(recordings)}
        self.signature = tuple(signature)

    def index(self) -> dict[str, Any]:
        """Return everything that there is, newest first."""
        folders = set(self.runs.values())
        runs = [self._describe_run(name, path) for name, path in list(self.runs.items())[:MOST_SHOWN]]
        shown = list(self.recordings.items())[:MOST_SHOWN]
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
        path = self._path(self.recordings, name)
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
        folder = self._path(self.runs, name)
        rows, end, size = self._log(folder, offset)
        return {
            "name": name,
            "running": folder in self.running,
            "rows": rows,
            "offset": end,
            "more": end < size and bool(rows),
            "restarted": offset > size,
            "config": self._known_config(folder),
            "checkpoints": [file for file in _listed(folder / "checkpoints") if file["name"].startswith("ckpt_")],
            "figures": [file for file in _listed(folder) if file["name"].endswith(FIGURES)],
            "recordings": [name for name, path in self.recordings.items() if path.is_relative_to(folder)],
        }

    def figure(self, run: str, name: str) -> Path:
        """Return the path of a figure of a run."""
        folder = self._path(self.runs, run)
        path = self._path({_text(path.name): path for path in folder.iterdir() if path.suffix in FIGURES}, name)
        self._info(path)
        return path

    def _path(self, known: dict[str, Path], name: str) -> Path:
        """Return the path of a name, if neither it nor a folder above it has become a link."""
        path = known.get(name)
        if path is None or os.path.realpath(path) != str(path) or not path.exists():
            raise NotHere(name)
        return path

    def _log(self, folder: Path, offset: int) -> tuple[list[dict[str, Any]], int, int]:
        """Return rows of a run's log from byte `offset` on, the byte behind them, and the log's size. A negative offset
        is counted from the end, one behind it from the start."""
        log = folder / "metrics.jsonl"
        if log.is_symlink() or not log.is_file():
            return [], 0, 0
        size = self._info(log).st_size
        offset = max(0, size + offset) if offset < 0 else offset if offset <= size else 0
        with os.fdopen(open_regular(log), "rb") as file:
            file.seek(offset)
            data = file.read(CHUNK)
        end = data.rfind(b"\n") + 1  # the last line may be in the writing
        return [row for line in data[:end].splitlines() if (row := _row(line)) is not None], offset + end, size

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

    def _describe_run(self, name: str, folder: Path) -> dict[str, Any]:
        facts = {"name": name, "running": folder in self.running, "modified": 0.0, "task": "", "last": {}}
        try:
            files = (folder / file for file in RUN_FILES)
            facts["modified"] = max(path.stat().st_mtime for path in files if path.exists())
            self._info(folder / "config.yaml")
            task = self._known_config(folder).get("task")
            facts["task"] = task if isinstance(task, str) else ""
            rows, *_ = self._log(folder, -TAIL)
            facts["last"] = rows[-1] if rows else {}
        except (OSError, ValueError) as error:
            facts["error"] = str(error)
        return facts

    def _known_config(self, folder: Path) -> dict[str, Any]:
        """Return a run's config; an empty one if it cannot be read."""
        try:
            return self._read_once(folder / "config.yaml", _config)
        except OSError:
            return {}

    def _read_once(self, path: Path, read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Return what `read` returns for a file, read again only if it was written."""
        info = self._info(path)
        key = (info.st_mtime_ns, info.st_size)
        known = self._read.get(path)
        if known is None or known[0] != key:
            known = self._read[path] = (key, read(path))
        return known[1]

    def _describe_recording(self, name: str, path: Path, folders: set[Path]) -> dict[str, Any]:
        run = next((self._name(folder) for folder in path.parents if folder in folders), "")
        facts = {"name": name, "run": run, "modified": 0.0, "bytes": 0}
        facts |= {"scene": "", "title": name, "frames": 0, "summary": ""}
        try:
            info = self._info(path)
            facts |= {"modified": info.st_mtime, "bytes": info.st_size}
            return facts | self._read_once(path, lambda path: read_title(path, Reader(name, max_bytes=TITLE_BYTES)))
        except FileNotFoundError:
            return facts | {"error": "it is gone"}
        except (SaveError, OSError, ValueError) as error:
            return facts | {"error": str(error)}


def _in_turns(files: list[tuple[Path, os.stat_result]]) -> list[Path]:
    """Return files so that each folder's newest comes first, then each one's second newest, and so on."""
    files = sorted(files, key=lambda file: -file[1].st_mtime_ns)
    folders: defaultdict[Path, Iterator[int]] = defaultdict(count)
    turns = {path: next(folders[path.parent]) for path, _ in files}
    return sorted(turns, key=turns.__getitem__)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, up to a limit; the files that make it a run are always among it."""
    try:
        with os.scandir(folder) as listing:
            found = list(islice(listing, MOST_ENTRIES))
            if len(found) == MOST_ENTRIES:
                found += [entry for entry in listing if entry.name in (*RUN_FILES, LOCK_NAME)]
    except OSError:
        return []
    return sorted(found, key=lambda entry: entry.name)


def _listed(folder: Path) -> list[dict[str, Any]]:
    """Return name, size and time of the files in a folder."""
    files = []
    for entry in _entries(folder):
        with suppress(OSError):  # it is gone
            if entry.is_file(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                files.append({"name": _text(entry.name), "bytes": info.st_size, "modified": info.st_mtime})
    return files


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
    """Return the numbers of a log's line that JSON has; None if it is no row."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    return {key: x for key, x in row.items() if is_unicode(key) and (x is None or _is_finite(x))}


def _is_finite(x: Any) -> bool:
    return type(x) in (int, float) and -MAX_NUMBER <= x <= MAX_NUMBER


def _locked_inodes() -> set[int]:
    """Return the inodes of files that some process holds a write lock on."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return set()
    fields = (line.split() for line in lines)
    return {int(f[5].rpartition(":")[2]) for f in fields if len(f) > 5 and f[1] == "FLOCK" and f[3] == "WRITE"}
