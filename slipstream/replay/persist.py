"""A replay buffer in a folder: each save adds a file of what is new, then names all files in one list; or finds them by a scan.

    replay.json                what belongs to the last save (with a checksum)
    rows-IDENTITY-NUMBER.slip  files of rows, in order
    state-IDENTITY-NUMBER.slip the sampler and the like, at the last save

Every file appears whole or not at all. A save that is killed leaves the one before; what it had already written can be had
with `recover=True`.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.replay.memory import Memory
from slipstream.replay.snapshot import (
    Place,
    Progress,
    RowsFile,
    read_rows,
    read_state,
    restore,
    write_rows,
    write_state,
)
from slipstream.storage.errors import DamagedFileError
from slipstream.storage.files import write_file
from slipstream.storage.schema import Key

_LIST = "replay.json"
_NAME = re.compile(r"(rows|state)-([0-9a-f]{32})-(\d+)\.slip")
_LEFT_OVER = re.compile(r"\.(rows-[0-9a-f]{32}-\d+\.slip|state-[0-9a-f]{32}-\d+\.slip|replay\.json)\.[^.]+\.tmp")


class Folder:
    """One folder that holds one buffer."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.identity = uuid.uuid4().hex
        self.progress = Progress()
        self._files: list[dict[str, Any]] = []  # name, first_piece, last_piece
        self._number = 0  # of the last save

    def save(self, memory: Memory) -> tuple[Path | None, list[Place]]:
        """Writes what is new. Gives the new file of rows, if any, and where its blocks lie. Hold `writing`."""
        self.path.mkdir(parents=True, exist_ok=True)
        listed = self._listed()
        if listed is not None and (listed["identity"], listed["number"]) != (self.identity, self._number):
            # another buffer was saved here, or this one by another process: begin anew beside it, it goes when we are done
            self.identity, self.progress, self._files = uuid.uuid4().hex, Progress(), []
        number = (listed["number"] if listed is not None else self._number) + 1
        path: Path | None = None
        places: list[Place] = []
        if memory.index.tail > max(self.progress.piece, memory.index.head):
            writer, after, places = write_rows(memory, self.progress, self.identity)
            path = self.path / f"rows-{self.identity}-{number:08d}.slip"
            write_file(path, writer.end())
            first = max(self.progress.piece, memory.index.head)
            self._files.append({"name": path.name, "first_piece": first, "last_piece": memory.index.tail})
            self.progress = after
        state = f"state-{self.identity}-{number:08d}.slip"
        write_file(self.path / state, write_state(memory).end())
        self._files = [f for f in self._files if f["last_piece"] > memory.index.head]
        body = {"format": 1, "identity": self.identity, "number": number, "files": self._files, "state": state}
        text = json.dumps(body)
        write_file(self.path / _LIST, json.dumps({"body": text, "crc32": zlib.crc32(text.encode())}).encode())
        self._number = number
        self._sweep({state, *(f["name"] for f in self._files)})
        return path, places

    def load(self, memory: Memory, recover: bool, keep: Callable[[Key, int, np.ndarray], None]) -> None:
        """Fills an empty memory. With `recover`, from all files of rows that are whole and follow one another."""
        try:
            listed = self._listed()
        except DamagedFileError:
            if not recover:
                raise
            listed = None
        if listed is None or recover:
            files, state = self._scan(), None
            if not files:
                if listed is not None or any(self.path.glob("rows-*")):
                    raise DamagedFileError(f"{self.path}: no file of rows is whole: nothing can be recovered")
                raise FileNotFoundError(f"{self.path} holds no replay buffer")
            if (
                listed is not None
                and listed["files"]
                and files[-1].head["last_piece"] == listed["files"][-1]["last_piece"]
            ):
                with contextlib.suppress(OSError, DamagedFileError):
                    saved = read_state(_map(self.path / listed["state"]), listed["state"])
                    state = saved if files[0].head["first_piece"] <= saved["head"] else None
        else:
            files = [read_rows(_map(self.path / f["name"]), str(self.path / f["name"])) for f in listed["files"]]
            state = read_state(_map(self.path / listed["state"]), listed["state"])
        self.progress = restore(memory, files, state, keep)
        if listed is not None and not recover:
            self.identity, self._number, self._files = listed["identity"], listed["number"], list(listed["files"])
        else:  # what was recovered is written anew by the next save
            self.progress = Progress()

    def _listed(self) -> dict[str, Any] | None:
        try:
            outer = json.loads((self.path / _LIST).read_text())
            text = outer["body"]
            if zlib.crc32(text.encode()) != outer["crc32"]:
                raise ValueError("its checksum does not hold")
            body = json.loads(text)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError(
                f"{self.path / _LIST} is damaged ({error}): load(folder, recover=True) finds the rows"
            ) from error
        if body["format"] != 1:
            raise DamagedFileError(f"{self.path / _LIST} has format {body['format']}, this version reads 1")
        return body

    def _scan(self) -> list[RowsFile]:
        """The longest run of whole files that follow one another; of equals the newest."""
        runs: list[list[RowsFile]] = []
        by_identity: dict[str, list[tuple[int, Path]]] = {}
        for path in self.path.glob("rows-*.slip"):
            if (match := _NAME.fullmatch(path.name)) is not None:
                by_identity.setdefault(match[2], []).append((int(match[3]), path))
        for numbered in by_identity.values():
            run: list[RowsFile] = []
            for _, path in sorted(numbered):
                try:
                    file = read_rows(_map(path), str(path))
                except (DamagedFileError, OSError, ValueError):
                    run = []  # what comes after may still follow itself, if its blocks do not begin in this one
                    continue
                run = [*run, file] if run and run[-1].head["last_piece"] == file.head["first_piece"] else [file]
                runs.append(run)
        return max(runs, key=lambda r: (_steps(r), r[-1].what), default=[])

    def _sweep(self, kept: set[str]) -> None:
        """Removes what no list names any more, and what killed saves left."""
        for path in self.path.iterdir():
            if (_NAME.fullmatch(path.name) and path.name not in kept) or _LEFT_OVER.fullmatch(path.name):
                path.unlink(missing_ok=True)


def _steps(run: list[RowsFile]) -> int:
    return int(run[-1].pieces["step0"][-1] - run[0].pieces["step0"][0])


def _map(path: Path) -> np.ndarray:
    """The file's bytes, read as they are asked for."""
    if path.stat().st_size == 0:
        raise DamagedFileError(f"{path} is empty")
    return np.memmap(path, np.uint8, mode="r")
