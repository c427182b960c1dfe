"""A buffer's memory as records and back: rows once, from a piece on; everything else as it is at the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.replay.index.episodes import DONE
from slipstream.replay.index.step_index import FINAL, NO_LINK, STARTS, check_pieces
from slipstream.replay.index.streams import Streams
from slipstream.replay.memory import Memory
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec.registry import BlockHeader, read_header
from slipstream.storage.columns import RawColumn
from slipstream.storage.records import DamagedFileError, RecordWriter, array_of, json_of, read_records
from slipstream.storage.schema import Key, KeySpec, show


@dataclass
class Progress:
    """How much of a buffer has been written somewhere."""

    piece: int = 0  # the first piece that has not
    rows: dict[Key, int] = field(
        default_factory=dict
    )  # by column: the first row whose block has not, or not to its end


@dataclass
class Place:
    """Where a full block lies in what was written."""

    key: Key
    first_row: int
    offset: int
    nbytes: int


def write_rows(memory: Memory, progress: Progress, identity: str) -> tuple[RecordWriter, Progress, list[Place]]:
    """(records of everything that `progress` lacks, progress afterwards, places of its full blocks). Hold `writing`."""
    index = memory.index
    first = max(progress.piece, index.head)
    pieces = index.export(first)
    first_row = int(pieces["row0"][0])
    writer = RecordWriter()
    keys = list(memory.schema.specs)
    kinds = {i: isinstance(memory.columns[key], BlockColumn) for i, key in enumerate(keys) if key in memory.columns}
    head = {"identity": identity, "first_piece": first, "last_piece": index.tail, "schema": memory.schema.describe()}
    writer.add_json("head", head | {"blocks": [i for i, block in kinds.items() if block], "streams": _streams(memory)})
    for name, array in pieces.items():
        writer.add_array(f"pieces/{name}", array)
    for _, data in memory.ends.blocks(first_row):
        writer.add("ends", data)
    after, places = Progress(index.tail, {}), []
    for i, key in enumerate(keys):
        column = memory.columns.get(key)
        if column is None:
            continue
        column.flush()
        start = max(progress.rows.get(key, 0), column.head) if isinstance(column, BlockColumn) else first_row
        after.rows[key] = start
        for header, data in column.blocks(start):
            offset = writer.add(f"column/{i}", data)
            if isinstance(header, BlockHeader):
                if header.rows < header.block_rows:
                    continue  # the next file holds it again, longer
                places.append(Place(key, header.first_row, offset, len(data)))
            after.rows[key] = header.first_row + header.rows
    for i, key in enumerate(keys):
        if key in memory.pending:
            writer.add_array(f"pending/{i}", memory.pending[key])
    return writer, after, places


def write_state(memory: Memory) -> RecordWriter:
    """What changes all the time and is small: the oldest piece, whole episodes, the sampler. Hold `writing`."""
    writer = RecordWriter()
    with memory.lock:
        state = memory.sampler.state_dict()
        whole = memory.whole.export(memory.index.head)
    writer.add_json(
        "state",
        {"head": memory.index.head, "sampler": {k: v for k, v in state.items() if not isinstance(v, np.ndarray)}},
    )
    writer.add_array("whole", whole)
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            writer.add_array(f"sampler/{name}", value)
    return writer


@dataclass
class RowsFile:
    """What a file of rows holds, checked, its blocks views of the file."""

    what: str
    head: dict[str, Any]
    pieces: dict[str, np.ndarray]
    pending: dict[int, np.ndarray]
    ends: list[np.ndarray]
    blocks: list[tuple[int, np.ndarray]]


def read_rows(data: np.ndarray, what: str) -> RowsFile:
    """Reads and checks a file of rows."""
    file = RowsFile(what, {}, {}, {}, [], [])
    for record in read_records(data, what):
        named = array_of(record)
        if record.name == "head":
            file.head = json_of(record)
        elif record.name == "ends":
            file.ends.append(record.payload)
        elif record.name.startswith("column/"):
            file.blocks.append((int(record.name.split("/")[1]), record.payload))
        elif named is not None and named[0].startswith("pieces/"):
            file.pieces[named[0].split("/")[1]] = named[1]
        elif named is not None and named[0].startswith("pending/"):
            file.pending[int(named[0].split("/")[1])] = named[1]
    if not file.head or set(file.pieces) != {"step0", "row0", "link", "back", "flags"}:
        raise DamagedFileError(f"{what} holds no rows")
    return file


def read_state(data: np.ndarray, what: str) -> dict[str, Any]:
    """What `write_state` wrote."""
    state: dict[str, Any] = {}
    arrays = {}
    for record in read_records(data, what):
        if record.name == "state":
            state = json_of(record)
        elif (named := array_of(record)) is not None:
            arrays[named[0]] = named[1]
    state["whole"] = arrays["whole"]
    state["sampler"] |= {name.split("/")[1]: array for name, array in arrays.items() if name.startswith("sampler/")}
    return state


def restore(
    memory: Memory,
    files: Iterable[RowsFile],
    state: dict[str, Any] | None,
    keep: Callable[[Key, int, np.ndarray], None],
) -> Progress:
    """`_restore`; whatever malformed contents cause is raised as DamagedFileError."""
    try:
        return _restore(memory, files, state, keep)
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise DamagedFileError(f"what was saved is malformed: {type(error).__name__}: {error}") from error


def _restore(
    memory: Memory,
    files: Iterable[RowsFile],
    state: dict[str, Any] | None,
    keep: Callable[[Key, int, np.ndarray], None],
) -> Progress:
    """Fills an empty memory from files that follow one another; without `state` (after a crash) what it held is worked out anew.

    `keep(key, first_row, block)` is told of each full block that was taken over.
    """
    progress = Progress()
    ordered: dict[int, dict[int, np.ndarray]] = {}
    last = None
    for file in files:
        memory.schema.restore(file.head["schema"])
        before = memory.ends.tail
        for data in file.ends:
            memory.ends.add_block(data)
        first_row = before if last is not None else memory.ends.head
        check_pieces(file.head["first_piece"], file.pieces, memory.ends.tail - first_row)
        if file.pieces["row0"][0] != first_row:
            raise ValueError(f"{file.what}: its rows begin at {first_row}, its pieces at {file.pieces['row0'][0]}")
        memory.index.restore(file.head["first_piece"], file.pieces)
        raw = set(range(len(memory.schema.specs))) - set(file.head["blocks"])
        for i, data in file.blocks:
            row = RawColumn.first_row_of(data) if i in raw else read_header(data).first_row
            ordered.setdefault(i, {})[row] = data  # a block that went on is there again, longer: the newest counts
        last = file
    if last is None:
        return progress
    specs = list(memory.schema.specs.values())
    for i, spec in enumerate(specs):
        if i in ordered:
            progress.rows[spec.key] = _fill_column(memory, spec, i in last.head["blocks"], ordered[i], keep)
    tails = {column.tail for column in (*memory.columns.values(), memory.ends)}
    if tails != {memory.index.tail_row}:
        raise DamagedFileError(f"{last.what}: the keys end at different rows ({sorted(tails)})")
    if any(column.head > memory.index.head_row for column in memory.columns.values()):
        raise DamagedFileError(f"{last.what}: a key begins after the first row")
    memory.pending = {specs[i].key: array for i, array in last.pending.items()}
    for s in last.head["streams"]:
        memory.writers[s["name"]] = Streams(
            s["first"],
            np.array(s["last_piece"], np.int64),
            np.array(s["first_piece"], np.int64),
            np.array(s["done"], bool),
        )
    _check_streams(memory)
    progress.piece = memory.index.tail
    if state is None:
        memory.whole.restore(_whole_episodes(memory))
        memory.sampler.added(memory.index.head_step, memory.index.tail_step, memory.index.head_step)
    else:
        if type(state["head"]) is not int or not memory.index.head <= state["head"] <= memory.index.tail:
            raise DamagedFileError(f"the oldest piece is {state['head']}, which is not among those saved")
        memory.evict(state["head"])
        memory.whole.restore(_checked_whole(memory, state["whole"]))
        memory.sampler.load_state_dict(state["sampler"])
        memory.sampler.check(memory.index.head_step, memory.index.tail_step)
    for column in (*memory.columns.values(), memory.ends):
        column.evict(memory.index.head_row)
    return progress


def _fill_column(memory: Memory, spec: KeySpec, as_blocks: bool, blocks: dict[int, np.ndarray], keep: Any) -> int:
    """A column from its blocks; the first row whose block is not full yet."""
    rows = sorted(blocks)
    if not as_blocks:
        column = memory.columns[spec.key] = memory.settings.plain(spec)
        for row in rows:
            column.add_block(blocks[row])
        return column.tail
    header = read_header(blocks[rows[0]])
    codec = memory.settings.codec_of(spec.key)
    coded = memory.columns[spec.key] = BlockColumn(spec.shape, spec.dtype, codec, header.group, header.block_rows)
    done = rows[0]
    for row in rows:
        header = coded.add_block(blocks[row])
        if header.rows == header.block_rows:
            done = row + header.rows
            keep(spec.key, row, blocks[row])
    return done


def _check_streams(memory: Memory) -> None:
    """Raises where streams or pending observations are not what a writer leaves."""
    index, number = memory.index, 0
    has_steps = np.diff(index.export(index.head)["step0"]) > 0
    for s in memory.writers.values():
        if s.first != number or not len(s.last_piece) == len(s.first_piece) == len(s.done) or s.last_piece.ndim != 1:
            raise DamagedFileError("the streams of the writers do not follow one another")
        number += len(s.done)
        pieces = np.concatenate([s.first_piece, s.last_piece])
        held = s.first_piece[s.first_piece >= index.head]
        if ((pieces < -1) | (pieces >= index.tail)).any() or not has_steps[held - index.head].all():
            raise DamagedFileError("a stream goes on from a piece that does not exist")
        if ((s.first_piece > s.last_piece) | ((s.first_piece < 0) & (s.last_piece >= 0))).any():
            raise DamagedFileError("a stream's episode begins after its last piece")
    index.check_links(number)
    for key, spec in memory.schema.specs.items():
        array = memory.pending.pop(key, None)
        if number and spec.next_key is not None:
            if array is None or (array.shape, array.dtype) != ((number, *spec.shape), spec.dtype):
                raise DamagedFileError(f"the pending observations {show(key)} do not fit {number} streams")
            memory.pending[key] = array


def _checked_whole(memory: Memory, pieces: np.ndarray) -> np.ndarray:
    """First pieces of complete episodes: among those held, and with steps."""
    index = memory.index
    if pieces.dtype != np.int64 or pieces.ndim != 1 or ((pieces < index.head) | (pieces >= index.tail)).any():
        raise DamagedFileError("the list of complete episodes names a piece that does not exist")
    if not (np.diff(index.export(index.head)["step0"]) > 0)[pieces - index.head].all():
        raise DamagedFileError("the list of complete episodes names a piece without steps")
    return pieces


def _streams(memory: Memory) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "first": s.first,
            "last_piece": s.last_piece.tolist(),
            "first_piece": s.first_piece.tolist(),
            "done": s.done.tolist(),
        }
        for name, s in memory.writers.items()
    ]


def _whole_episodes(memory: Memory) -> np.ndarray:
    """Found from the pieces: chains with their beginning whose last step is an end, or is followed by a final observation for good."""
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
