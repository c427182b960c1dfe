"""Saves, state dicts and spilling of a replay buffer in host memory.

    replay.slip                the last save: its files of rows, the sampler, which episodes are complete
    rows-IDENTITY-NUMBER.slip  everything about a run of pieces: blocks, end flags, pieces, pending observations

Each save adds one file of the rows that are new. Files of rows that follow one another make a buffer without anything
else: `recover=True` finds them by their names. Every file appears complete or not at all, so a save that is killed
leaves the one before. Nothing in a file is trusted: all numbers are checked before they reach native code.
"""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.replay.index import FINAL, NO_LINK, STARTS
from slipstream.replay.memory import ColumnSettings, Memory
from slipstream.replay.rows import DONE, Streams
from slipstream.replay.samplers import Sampler
from slipstream.storage.background import BackgroundWorker
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec.registry import BlockHeader, read_header
from slipstream.storage.container import Container, ContainerWriter, MemoryFile
from slipstream.storage.errors import DamagedFileError, SaveError
from slipstream.storage.files import atomic_file, prepare_folder
from slipstream.storage.reader import Reader
from slipstream.storage.schema import Key, show
from slipstream.storage.serializer import load_state, store_state

KIND = "rply"
_LIST = "replay.slip"
_ROWS_FILE = re.compile(r"rows-([0-9a-f]{32})-(\d{8,18})\.slip")
_STALE_FILE = re.compile(r"\.(rows-[0-9a-f]{32}-\d+|replay)\.slip\..*\.tmp")
_PIECES = ("step0", "row0", "link", "back", "flags")
_MIN_SPILL = 1 << 20  # bytes: smaller files are not worth their names


@dataclass
class Progress:
    """How much of a buffer has been written to a folder."""

    piece: int = 0  # the first piece that has not
    rows: dict[Key, int] = field(
        default_factory=dict
    )  # by column: the first row whose block was not written completely


@dataclass
class Place:
    """Where a full block is in a file."""

    key: Key
    first_row: int
    offset: int
    nbytes: int


@dataclass
class Folder:
    """The state of one folder, as this buffer last saved it."""

    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    number: int = 0  # of the last save
    progress: Progress = field(default_factory=Progress)
    files: list[list[Any]] = field(default_factory=list)  # [name, first piece, last piece]


# --- contents as sections of a container and back


def write_rows(memory: Memory, writer: ContainerWriter, progress: Progress) -> tuple[Any, Progress, list[Place]]:
    """Write everything that `progress` lacks; return (JSON for the head, progress afterwards, places of full
    blocks)."""
    index = memory.index
    first = max(progress.piece, index.head)
    pieces = index.export(first)
    first_row = int(pieces["row0"][0])
    after, places = Progress(index.tail, {}), []
    columns: list[dict[str, Any]] = []
    for key in memory.schema.specs:
        column = memory.columns[key]
        if not isinstance(column, BlockColumn):
            columns.append({"rows": writer.add(*column.views(first_row))})
            continue
        column.flush()
        after.rows[key] = max(progress.rows.get(key, 0), column.head)
        blocks = []
        for header, data in column.blocks(after.rows[key]):
            blocks.append(writer.add(data))
            if header.rows == header.block_rows:  # the next file has an unfinished block again, with more rows
                places.append(Place(key, header.first_row, *writer.place(blocks[-1])))
                after.rows[key] = header.first_row + header.rows
        columns.append({"blocks": blocks})
    head = {
        "first_piece": first,
        "schema": memory.schema.describe(),
        "pieces": {name: writer.add_array(array) for name, array in pieces.items()},
        "ends": writer.add(*memory.ends.views(first_row)),
        "columns": columns,
        "pending": [[list(key), writer.add_array(array)] for key, array in memory.pending.items()],
        "streams": [
            [name, s.first, s.last_piece.tolist(), s.first_piece.tolist(), s.done.tolist()]
            for name, s in memory.writers.items()
        ],
    }
    return head, after, places


class RowsFile:
    """A file of rows whose head and arrays were read. Blocks and plain rows are read by `restore`."""

    def __init__(self, container: Container, head: Any) -> None:
        self.container, self.head, self.name = container, head, container.reader.name
        reader = container.reader
        for _, reason in container.damage():  # every byte is checked here, once
            raise reader.error(reason)
        with reader.parsing("the head of a file of rows"):
            self.first_piece = reader.integer(head["first_piece"], "a piece")
            self.pieces = {name: container.array(head["pieces"][name], "the index") for name in _PIECES}
            self.last_piece = self.first_piece + self.pieces["flags"].size
            self.steps = int(self.pieces["step0"][-1]) - int(self.pieces["step0"][0])
            self.ends = container.view(head["ends"])


def restore(
    memory: Memory, settings: ColumnSettings, files: Iterable[RowsFile], reader: Reader, spills: bool
) -> Progress:
    """Fill empty contents from files of rows that follow one another.

    Args:
        spills: leave full blocks in the files instead of copying them.
    """
    progress = Progress()
    blocks: dict[int, dict[int, np.ndarray]] = {}
    last: RowsFile | None = None
    for file in files:
        container, last = file.container, file
        memory.schema.restore(file.head["schema"], reader)
        specs = list(memory.schema.specs.values())
        memory.index.restore(file.first_piece, file.pieces, len(file.ends), reader)
        first_row = int(file.pieces["row0"][0])
        if not memory.ends.tail:
            memory.ends.start(first_row)
        memory.ends.append(file.ends)
        if len(file.head["columns"]) != len(specs):
            reader.fail("a key has no column")
        for i, (spec, column) in enumerate(zip(specs, file.head["columns"], strict=True)):
            if "blocks" in column:
                for section in column["blocks"]:
                    data = container.view(section)
                    blocks.setdefault(i, {})[read_header(data).first_row] = (
                        data  # of an unfinished block the newest counts
                    )
                continue
            rows = container.view(column["rows"])
            if rows.nbytes != len(file.ends) * spec.row_bytes:
                reader.fail(f"{show(spec.key)} has {rows.nbytes} bytes for {len(file.ends)} rows")
            reader.claim(rows.nbytes, show(spec.key))
            plain = memory.columns.get(spec.key)
            if plain is None:
                plain = memory.columns[spec.key] = settings.plain(spec)
                plain.start(first_row)
            plain.append(rows.view(spec.dtype).reshape(len(file.ends), *spec.shape))
    if last is None:
        return progress
    for i, found in blocks.items():
        progress.rows[specs[i].key] = _restore_blocks(memory, settings, specs[i], found, reader, spills)
    index = memory.index
    for spec in specs:
        column = memory.columns.get(spec.key)
        if column is None or column.head > index.head_row or column.tail != index.tail_row:
            reader.fail(f"{show(spec.key)} does not have the rows {index.head_row} to {index.tail_row}")
    memory.columns = {spec.key: memory.columns[spec.key] for spec in specs}
    _restore_streams(memory, last, reader)
    progress.piece = index.tail
    return progress


def _restore_blocks(
    memory: Memory, settings: ColumnSettings, spec: Any, blocks: dict[int, np.ndarray], reader: Reader, spills: bool
) -> int:
    """Make a column from its blocks; return the first row whose block is not full yet."""
    rows = sorted(blocks)
    header: BlockHeader = read_header(blocks[rows[0]])
    reader.claim(
        4 * header.block_rows * header.frame_bytes, f"a block of {show(spec.key)}"
    )  # to open and to refill one
    codec = settings.codec_of(spec.key)
    column = memory.columns[spec.key] = BlockColumn(spec.shape, spec.dtype, codec, header.group, header.block_rows)
    full = rows[0]
    for row in rows:
        reader.claim(blocks[row].nbytes, show(spec.key))
        header = column.add_block(blocks[row])
        if header.rows == header.block_rows:
            full = row + header.rows
            if spills:
                column.relocate(row, blocks[row])
                reader.claim(-blocks[row].nbytes)
    return full


def _restore_streams(memory: Memory, file: RowsFile, reader: Reader) -> None:
    """Read streams and pending observations, and check that the index fits them."""
    index, number = memory.index, 0
    for name, first, last_piece, first_piece, done in file.head["streams"]:
        if (
            type(name) not in (str, int)
            or name in memory.writers
            or first != number
            or not all(type(d) is bool for d in done)
        ):
            reader.fail("a writer is there twice, or its streams do not follow those of the others")
        pieces = [
            np.array(reader.integers(p, "a piece", -1, index.tail - 1), np.int64) for p in (last_piece, first_piece)
        ]
        streams = memory.writers[name] = Streams(first, pieces[0], pieces[1], np.array(done, bool))
        number += len(done)
        if any(len(p) != len(done) for p in pieces) or not done:
            reader.fail("a writer has different numbers of streams")
        held = streams.first_piece[streams.first_piece >= index.head]
        begun = (streams.first_piece >= 0) == (streams.last_piece >= 0)
        if not (begun & (streams.first_piece <= streams.last_piece)).all() or not index.have_steps(held).all():
            reader.fail("a stream continues an episode that does not exist")
    index.check_links(number, reader)
    pending = {tuple(key): file.container.array(array, "a pending observation") for key, array in file.head["pending"]}
    for key, spec in memory.schema.specs.items():
        if number and spec.next_key is not None:
            if key not in pending or (pending[key].shape, pending[key].dtype) != ((number, *spec.shape), spec.dtype):
                reader.fail(f"the pending observations {show(key)} do not fit {number} streams")
            memory.pending[key] = pending[key].copy()


def _find_complete(memory: Memory) -> np.ndarray:
    """Return the first pieces of complete episodes: they have their beginning, and their last step is an end or has a
    final row."""
    index, ring = memory.index, memory.ends.ring
    base, head, tail, step0, row0, link, _, flags = index.tables()
    found = []
    for piece in range(head, tail):
        at = piece - base
        if not flags[at] & STARTS or step0[at + 1] == step0[at]:
            continue
        last = at
        while link[at] >= 0:
            at = link[at] - base
            last = at if step0[at + 1] > step0[at] else last
        row = row0[last] + step0[last + 1] - step0[last] - 1
        if flags[at] & FINAL or link[at] == NO_LINK or ring[row % len(ring)] & DONE:
            found.append(piece)
    return np.array(found, np.int64)


def export_state(memory: Memory, sampler: Sampler, lock: threading.Lock) -> dict[str, Any]:
    """Return the small part that changes all the time: the oldest piece, complete episodes, the sampler."""
    with lock:
        index = memory.index
        head = index.head if index.tail > index.head else 0  # an empty buffer starts again with step 0
        return {"head": head, "complete": memory.complete.export(head), "sampler": sampler.state_dict()}


def restore_state(memory: Memory, sampler: Sampler, state: Any, reader: Reader) -> None:
    """Take what `export_state` returned; without it, after a crash, find it out from the rows."""
    index = memory.index
    if state is not None:
        with reader.parsing("the state"):
            index.evict(reader.integer(state["head"], "the oldest piece", index.head, index.tail))
            memory.complete.restore(state["complete"], index, reader)
            reader.claim(40 * reader.integer(state["sampler"].get("size", 0), "the size of the tree"), "the priorities")
        try:
            sampler.load_state_dict(state["sampler"], index.head_step, index.tail_step)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            reader.fail(f"the sampler cannot continue: {error}")
    else:
        memory.complete.restore(_find_complete(memory), index, reader)
        sampler.added(index.head_step, index.tail_step, index.head_step)
    for column in memory.all_columns():
        column.evict(index.head_row)


# --- folders, state dicts, spilling


class Saves:
    """The saves of a `HostStorage`. Spilling is a save into `spill_dir` after which full blocks are read from the
    file."""

    def __init__(self, storage: Any, spill_dir: str | Path | None, memory_budget: int | None) -> None:
        self._storage = storage
        self._folders: dict[Path, Folder] = {}
        self._spill_dir = None if spill_dir is None else Path(spill_dir).absolute()
        self._budget = memory_budget
        self._after_spill = 0  # memory that the last spill could not free
        self._closed = False
        self._worker = BackgroundWorker("spilling to disk", restart_after_fork=True)
        self.spilled_files = 0

    def save(self, path: Path) -> None:
        """Save into a folder what is new since the last save there."""
        self._worker.raise_errors()
        with self._storage.writing:
            self._save(path.absolute())

    def _save(self, path: Path) -> tuple[Path | None, list[Place]]:
        """Write a save; return the new file of rows, if there is one, and where its blocks are. Hold `writing`."""
        memory, folder = self._storage.memory, self._folders.setdefault(path, Folder())
        prepare_folder(path)
        listed = read_list(path, Reader(path / _LIST))
        if listed is not None and (listed["identity"], listed["number"]) != (folder.identity, folder.number):
            # another buffer was saved here, or this one by another process: start again beside it and remove it at the
            # end
            folder.identity, folder.progress, folder.files = uuid.uuid4().hex, Progress(), []
        number = (listed["number"] if listed is not None else folder.number) + 1
        rows: Path | None = None
        places: list[Place] = []
        first, last = max(folder.progress.piece, memory.index.head), memory.index.tail
        if last > first:
            rows = path / f"rows-{folder.identity}-{number:08d}.slip"
            with atomic_file(rows) as file:
                writer = ContainerWriter(file, KIND)
                head, progress, places = write_rows(memory, writer, folder.progress)
                writer.finish(head)
            folder.files.append([rows.name, first, last])
            folder.progress = progress
        folder.files = [f for f in folder.files if f[2] > memory.index.head]
        with atomic_file(path / _LIST) as file:
            writer = ContainerWriter(file, KIND)
            state = store_state(writer, export_state(memory, self._storage.sampler, self._storage.lock))
            writer.finish({"identity": folder.identity, "number": number, "files": folder.files, "state": state})
        folder.number = number
        kept = {name for name, *_ in folder.files}
        for other in path.iterdir():
            if (_ROWS_FILE.fullmatch(other.name) and other.name not in kept) or _STALE_FILE.fullmatch(other.name):
                other.unlink(missing_ok=True)
        self._storage.saved_piece = last
        return rows, places

    def load(self, path: Path, recover: bool) -> None:
        """Replace the contents by those of a folder; if it cannot be read, nothing changes."""
        path = path.absolute()
        folder, reader = Folder(), Reader(path)
        with self._storage.writing:
            memory, sampler = self._storage.new_memory()
            files, listed, state = self._open(path, recover, reader)
            reader.name = str(path)
            spills = self._budget is not None
            with reader.parsing("the saved buffer"):
                folder.progress = restore(memory, self._storage.settings, files, reader, spills)
            restore_state(memory, sampler, state, reader)
            self._storage.replace(memory, sampler)
            if listed is not None and not recover:
                folder.identity, folder.number, folder.files = listed["identity"], listed["number"], listed["files"]
            else:
                folder.progress = Progress()  # the next save writes everything again
            self._folders = {path: folder}
            self._storage.saved_piece = memory.index.tail
            self._after_spill = self._storage.nbytes

    def _open(self, path: Path, recover: bool, reader: Reader) -> tuple[list[RowsFile], Any, Any]:
        """Return (files of rows, the list of the last save, its state)."""
        listed: Any = None
        try:
            listed = read_list(path, reader)
        except SaveError as error:
            if not recover:
                raise DamagedFileError(f"{error}: load(folder, recover=True) finds the rows") from error
        if listed is not None and not recover:
            files = [open_rows(path / name, reader) for name, *_ in listed["files"]]
            return files, listed, load_state(listed["container"], listed["state"])
        files = _scan(path, reader)
        if not files:
            if listed is not None or any(path.glob("rows-*")):
                raise DamagedFileError(f"{path}: no file of rows is complete: nothing can be recovered")
            raise FileNotFoundError(f"{path} holds no replay buffer")
        state = None
        if listed is not None and listed["files"] and files[-1].last_piece == listed["files"][-1][2]:
            with contextlib.suppress(OSError, SaveError):
                state = load_state(listed["container"], listed["state"])
                state = state if files[0].first_piece <= state["head"] else None
        return files, listed, state

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything as one tensor of bytes."""
        storage = self._storage
        with storage.writing:
            memory, file = storage.memory, MemoryFile()
            writer = ContainerWriter(file, KIND)
            rows = write_rows(memory, writer, Progress())[0] if memory.index.tail > memory.index.head else None
            writer.finish(
                {"rows": rows, "state": store_state(writer, export_state(memory, storage.sampler, storage.lock))}
            )
            return {"replay": torch.from_numpy(file.join())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the contents by those of a state dict; if it cannot be read, nothing changes."""
        reader = Reader("the state of the replay buffer")
        with reader.parsing("the state dict"):
            data = state["replay"].detach().cpu().contiguous().numpy()
        with self._storage.writing:
            container = Container.from_bytes(data, KIND, reader.name, reader=reader)
            memory, sampler = self._storage.new_memory()
            with reader.parsing("the saved buffer"):
                rows, saved = container.head["rows"], container.head["state"]
                files = [] if rows is None else [RowsFile(container, rows)]
                restore(memory, self._storage.settings, files, reader, spills=False)
            restore_state(memory, sampler, load_state(container, saved), reader)
            self._storage.replace(memory, sampler)
            self._folders.clear()
            self._storage.saved_piece = 0

    def spill_if_needed(self) -> None:
        """Start a spill if the memory is past the budget; wait for it if the memory is past twice the budget."""
        if self._budget is None:
            return
        self._worker.raise_errors()
        if self._is_over(1):
            if not len(self._worker):
                self._worker.submit(self._spill)
            if self._is_over(2):
                self._worker.wait()

    def close(self) -> None:
        """End the spilling; raise its error."""
        self._closed = True
        self._worker.close()
        self._worker.raise_errors()

    def _is_over(self, times: int) -> bool:
        """Return whether memory that a spill could free is past so many budgets."""
        assert self._budget is not None
        least = min(max(_MIN_SPILL, self._budget // 8), self._budget)
        return self._storage.nbytes > max(times * self._budget, self._after_spill + times * least)

    def _spill(self) -> None:
        assert self._spill_dir is not None
        columns = [c for c in self._storage.memory.columns.values() if isinstance(c, BlockColumn)]
        while any(c.stats()["backlog_rows"] for c in columns) and not self._is_over(2) and not self._closed:
            threading.Event().wait(0.01)  # blocks are being sealed: nobody waits for this
        with self._storage.writing:
            memory = self._storage.memory
            path, places = self._save(self._spill_dir)
            if path is not None:
                mapped = np.memmap(path, np.uint8, mode="r")
                for place in places:
                    column: Any = memory.columns[place.key]
                    column.relocate(place.first_row, mapped[place.offset : place.offset + place.nbytes])
                self.spilled_files += 1
            self._after_spill = self._storage.nbytes


def read_list(path: Path, reader: Reader) -> dict[str, Any] | None:
    """Read the list of the last save; None if there is none."""
    reader.name = str(path / _LIST)
    try:
        container = Container.open(path / _LIST, KIND, reader=reader)
    except FileNotFoundError:
        return None
    with reader.parsing("the list of files"):
        listed = dict(container.head)
        reader.text(listed["identity"], "the identity", 32)
        reader.integer(listed["number"], "the number of the save", 0, 10**17)
        for name, first, last in listed["files"]:
            if not _ROWS_FILE.fullmatch(reader.text(name, "a file")):
                reader.fail(f"{name!r} is not the name of a file of rows")
            reader.integer(first, "a piece", 0, reader.integer(last, "a piece"))
    return {**listed, "container": container}


def open_rows(path: Path, reader: Reader) -> RowsFile:
    """Open a file of rows."""
    reader.name = str(path)
    container = Container.open(path, KIND, reader=reader)
    return RowsFile(container, container.head)


def _scan(path: Path, reader: Reader) -> list[RowsFile]:
    """Return the longest run of complete files that follow one another; of equal ones the newest."""
    runs: list[list[RowsFile]] = []
    by_identity: dict[str, list[tuple[int, Path]]] = {}
    for found in path.glob("rows-*.slip"):
        if (match := _ROWS_FILE.fullmatch(found.name)) is not None:
            by_identity.setdefault(match[1], []).append((int(match[2]), found))
    for numbered in by_identity.values():
        run: list[RowsFile] = []
        for _, found in sorted(numbered):
            try:
                file = open_rows(found, reader)
            except (SaveError, OSError):
                run = []  # files after it may follow each other, if their blocks do not begin in this one
                continue
            run = [*run, file] if run and run[-1].last_piece == file.first_piece else [file]
            runs.append(run)
    return max(runs, key=lambda r: (sum(f.steps for f in r), r[-1].name), default=[])
