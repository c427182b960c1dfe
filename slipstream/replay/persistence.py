"""The files and bytes of a replay buffer in host memory.

    replay.slip       the last save: its files of rows, the oldest piece, the sampler
    rows-RANDOM.slip  everything about a run of pieces: blocks, end flags, pieces, pending observations

Each save adds one file of the rows that are new. Every file appears complete or not at all, so a save that is killed
leaves the one before. Nothing in a file is trusted: all numbers are checked before they reach native code.
"""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.replay.index import ROW
from slipstream.replay.rows import StreamState
from slipstream.replay.samplers import Sampler
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec.registry import HEADER_BYTES, header_of, read_header
from slipstream.storage.files import atomic_file, prepare_folder
from slipstream.storage.schema import Key, KeySpec, show
from slipstream.storage.tensor_file import Deferred, MemoryFile, Reader, TensorFile, TensorFileWriter
from slipstream.storage.tree import load_state, store_state

Memory = Any  # that of host_storage.py, which imports this file
KIND = "rply"
LIST_FILE = "replay.slip"
_ROWS_FILE = re.compile(r"rows-[0-9a-f]{32}\.slip")

FullBlock = tuple[Key, int, int]  # the key, the first row, the section of the file
Files = list[list[Any]]  # of a folder, as this buffer last saved it: [name, one past its last piece]


# --- contents as pieces of a file and back


def write_rows(memory: Memory, writer: TensorFileWriter, first: int) -> tuple[Any, list[FullBlock]]:
    """Write all pieces from `first` on; return (JSON for the head, the full blocks)."""
    pieces = memory.index.export(first)
    first_row = int(pieces[0, ROW])
    full: list[FullBlock] = []
    columns: list[dict[str, Any]] = []
    for key in memory.schema.specs:
        column, name = memory.columns[key], ".".join(map(str, key))
        if not isinstance(column, BlockColumn):
            columns.append({"rows": writer.add(*column.views(first_row), name=name)})
            continue
        column.flush()
        blocks = []
        for block in column.blocks(first_row):
            header = block.header
            blocks.append(writer.add(Deferred(block.nbytes, block.read), name=name))
            if header.rows == header.block_rows:  # the next file has an unfinished block again, with more rows
                full.append((key, header.first_row, blocks[-1]))
        columns.append({"blocks": blocks})
    streams = [[name, s.last_piece, s.done] for name, s in memory.streams.items()]
    head = {
        "first_piece": first,
        "schema": memory.schema.describe(),
        "pieces": writer.add_array(pieces, "slipstream.pieces"),
        "ends": writer.add(*memory.ends.views(first_row), name="slipstream.ends"),
        "columns": columns,
        "streams": store_state(writer, {"writers": streams, "pending": list(memory.pending.items())}),
    }
    return head, full


class RowsFile:
    """A file of rows whose head and pieces were read; `restore` reads the rest."""

    def __init__(self, container: TensorFile, head: Any) -> None:
        self.container, self.head, reader = container, head, container.reader
        for number in range(len(container)):
            container.section(number)  # every byte is checked here, once
        with reader.parsing("the head of a file of rows"):
            self.first_piece = reader.integer(head["first_piece"], "a piece")
            self.pieces = container.array(head["pieces"], "the index").numpy()
            self.ends = container.section(head["ends"])

    @classmethod
    def open(cls, path: Path, reader: Reader) -> RowsFile:
        """Open a file of rows."""
        reader.name = str(path)
        container = TensorFile.open(path, KIND, reader=reader)
        return cls(container, container.head)


def restore(memory: Memory, files: list[RowsFile], reader: Reader) -> None:
    """Fill empty contents from files of rows that follow one another."""
    if not files:
        return
    # by key and first row, the file and its section; of an unfinished block the newest counts
    blocks: dict[Key, dict[int, tuple[TensorFile, int]]] = {}
    for file in files:
        memory.schema.restore(file.head["schema"], reader)
        memory.index.restore(file.first_piece, file.pieces, len(file.ends), reader)
        _append_plain(memory.ends, file, file.ends)
        for spec, column in zip(memory.schema.specs.values(), file.head["columns"], strict=True):
            if "blocks" in column:
                for section in column["blocks"]:
                    row = header_of(file.container.view(section, HEADER_BYTES)).first_row
                    blocks.setdefault(spec.key, {})[row] = file.container, section
                continue
            rows = file.container.section(column["rows"])
            if rows.nbytes != len(file.ends) * spec.row_bytes:
                reader.fail(f"{show(spec.key)} has {rows.nbytes} bytes for {len(file.ends)} rows")
            reader.claim(rows.nbytes, show(spec.key))
            plain = memory.columns.setdefault(spec.key, memory.settings.plain(spec))
            _append_plain(plain, file, rows.view(spec.dtype).reshape(len(file.ends), *spec.shape))
    for key, found in blocks.items():
        memory.columns[key] = _restore_blocks(memory, memory.schema.specs[key], found, reader)
    index = memory.index
    for key in memory.schema.specs:
        column = memory.columns.get(key)
        if column is None or column.head > index.head_row or column.tail != index.tail_row:
            reader.fail(f"{show(key)} does not have the rows {index.head_row} to {index.tail_row}")
    memory.columns = {key: memory.columns[key] for key in memory.schema.specs}
    _restore_streams(memory, files[-1], reader)


def _append_plain(column: Any, file: RowsFile, rows: np.ndarray) -> None:
    if not column.tail:
        column.start(int(file.pieces[0, ROW]))
    column.append(rows)


def _restore_blocks(
    memory: Memory, spec: KeySpec, blocks: dict[int, tuple[TensorFile, int]], reader: Reader
) -> BlockColumn:
    """Return a column of blocks; if the buffer spills, full ones stay in their files."""
    first, section = blocks[min(blocks)]
    header, codec = read_header(first.view(section)), memory.settings.codec_of(spec.key)
    reader.claim(4 * header.block_rows * header.frame_bytes, f"a block of {show(spec.key)}")  # to open and refill one
    column = BlockColumn(spec.shape, spec.dtype, codec, header.group, header.block_rows)
    for row, (file, section) in sorted(blocks.items()):
        data = file.view(section)
        reader.claim(data.nbytes, show(spec.key))
        header = column.add_block(data)
        if memory.settings.memory_budget is not None and file.is_file and header.rows == header.block_rows:
            column.relocate(row, file, section)
            reader.claim(-data.nbytes)
    return column


def _restore_streams(memory: Memory, file: RowsFile, reader: Reader) -> None:
    """Read streams and pending observations, and check that the index fits them."""
    state, number = load_state(file.container, file.head["streams"]), 0
    for name, last_piece, done in state["writers"]:
        if type(name) not in (str, int) or name in memory.streams or not len(done):
            reader.fail("a stream is there twice, or has no environments")
        if last_piece.dtype != np.int64 or done.dtype != bool or last_piece.shape != done.shape or done.ndim != 1:
            reader.fail("a stream has different numbers of environments")
        memory.streams[name] = StreamState(number, last_piece, done)
        number += len(done)
    memory.index.check_links(np.concatenate([np.empty(0, np.int64), *(s[1] for s in state["writers"])]), reader)
    pending = dict(state["pending"])
    for key, spec in memory.schema.specs.items():
        if number and spec.next_key is not None:
            if key not in pending or (pending[key].shape, pending[key].dtype) != ((number, *spec.shape), spec.dtype):
                reader.fail(f"the pending observations {show(key)} do not fit {number} environments")
            memory.pending[key] = pending[key]


def export_state(memory: Memory, sampler: Sampler, lock: threading.Lock) -> dict[str, Any]:
    """Return the small part that changes all the time: the oldest piece and the sampler."""
    with lock:
        index = memory.index
        head = index.head if index.tail > index.head else 0  # an empty buffer starts again with step 0
        return {"head": head, "sampler": sampler.state_dict()}


def restore_state(memory: Memory, sampler: Sampler, state: Any, reader: Reader) -> None:
    """Take what `export_state` returned."""
    index = memory.index
    with reader.parsing("the state"):
        index.evict(reader.integer(state["head"], "the oldest piece", index.head, index.tail))
        reader.claim(40 * reader.integer(state["sampler"].get("size", 0), "the size of the tree"), "the priorities")
    try:
        sampler.load_state_dict(state["sampler"], index.head_step, index.tail_step)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        reader.fail(f"the sampler cannot continue: {error}")
    for column in memory.all_columns():
        column.evict(index.head_row)


# --- folders and state dicts


def write_save(
    path: Path, files: Files, memory: Memory, sampler: Sampler, lock: threading.Lock
) -> tuple[Files, Path | None, list[FullBlock]]:
    """Save into a folder what `files` lack; return its files, the new one of rows, if it was needed, and the full
    blocks in that."""
    prepare_folder(path)
    files = [f for f in files if f[1] > memory.index.head]
    if not all((path / name).is_file() for name, _ in files):  # removed, or another buffer was saved here
        files = []
    rows: Path | None = None
    full: list[FullBlock] = []
    first, last = files[-1][1] if files else memory.index.head, memory.index.tail
    if last > first:
        rows = path / f"rows-{uuid.uuid4().hex}.slip"
        with atomic_file(rows) as file:
            writer = TensorFileWriter(file, KIND)
            head, full = write_rows(memory, writer, first)
            writer.finish(head)
        files.append([rows.name, last])
    with atomic_file(path / LIST_FILE) as file:
        writer = TensorFileWriter(file, KIND)
        state = store_state(writer, export_state(memory, sampler, lock))
        writer.finish({"files": files, "state": state})
    kept = {name for name, _ in files}
    for other in path.iterdir():
        if _ROWS_FILE.fullmatch(other.name) and other.name not in kept:
            with contextlib.suppress(OSError):  # gone meanwhile, or a folder
                other.unlink()
    return files, rows, full


def write_bytes(memory: Memory, sampler: Sampler, lock: threading.Lock) -> np.ndarray:
    """Return everything as bytes."""
    index, file = memory.index, MemoryFile()
    writer = TensorFileWriter(file, KIND)
    rows = write_rows(memory, writer, index.head)[0] if index.tail > index.head else None
    state = store_state(writer, export_state(memory, sampler, lock))
    writer.finish({"rows": rows, "state": state})
    return np.frombuffer(file.getbuffer(), np.uint8)


def open_bytes(data: np.ndarray, reader: Reader) -> tuple[list[RowsFile], Any]:
    """Return (files of rows, the state) from what `write_bytes` returned."""
    container = TensorFile.from_bytes(data, KIND, reader.name, reader=reader)
    with reader.parsing("the saved buffer"):
        files = [] if container.head["rows"] is None else [RowsFile(container, container.head["rows"])]
        return files, load_state(container, container.head["state"])


def open_save(path: Path, reader: Reader) -> tuple[list[RowsFile], Files, Any]:
    """Return (files of rows, their list, the state) of the last save. Raises FileNotFoundError if there is none."""
    reader.name = str(path / LIST_FILE)
    container = TensorFile.open(path / LIST_FILE, KIND, reader=reader)
    with reader.parsing("the list of files"):
        listed = [list(entry) for entry in container.head["files"]]
        for name, last in listed:
            if not _ROWS_FILE.fullmatch(reader.text(name, "a file")):
                reader.fail(f"{name!r} is not the name of a file of rows")
            reader.integer(last, "a piece")
        state = load_state(container, container.head["state"])
    return [RowsFile.open(path / name, reader) for name, _ in listed], listed, state
