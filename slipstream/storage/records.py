"""Files of rows: named records, each with a checksum, written whole or not at all.

    magic      8 bytes
    record     name length (uint32), payload length (uint64), checksum of both lengths, name and payload (uint32), name, payload;
               the name is padded with blanks so that the payload begins at a multiple of 64
    ...
    record     "end", empty

A file of rows holds everything about a run of pieces: the blocks of every key, their end flags, the pieces, the pending
observations at that moment. So any number of them that follow one another make a buffer, without anything else.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from slipstream.storage.errors import DamagedFileError

MAGIC = b"SLIPROW1"
_RECORD = struct.Struct("<IQI")
_ARRAY = "array/"


class Record(NamedTuple):
    """One record of a file, its payload a view of the file's memory."""

    name: str
    payload: np.ndarray  # uint8


class RecordWriter:
    """Buffers of a file, in order: given to `write` as they come, or kept in `parts`, which is what to write."""

    def __init__(self, write: Callable[[Any], Any] | None = None) -> None:
        self.parts: list[Any] = []
        self._write = write or self.parts.append
        self._write(MAGIC)
        self.nbytes = len(MAGIC)

    def add(self, name: str, payload: Any) -> int:
        """Adds a record; where its payload will lie in the file."""
        view = memoryview(payload).cast("B")
        title = name.encode()
        title += b" " * (-(self.nbytes + _RECORD.size + len(title)) % 64)
        head = struct.pack("<IQ", len(title), len(view))
        crc = zlib.crc32(view, zlib.crc32(title, zlib.crc32(head)))
        self._write(head + struct.pack("<I", crc) + title)
        self._write(view)
        at = self.nbytes + _RECORD.size + len(title)
        self.nbytes = at + len(view)
        return at

    def add_json(self, name: str, value: Any) -> None:
        """Plain data."""
        self.add(name, json.dumps(value).encode())

    def add_array(self, name: str, array: np.ndarray) -> None:
        """An array with its dtype and shape."""
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)
        self.add(_ARRAY + name, stream.getvalue())

    def end(self) -> list[Any]:
        """Closes the file; all its parts."""
        self.add("end", b"")
        return self.parts


def read_records(data: np.ndarray, what: str) -> Iterator[Record]:
    """The records of a file, uint8 [n], each checked; raises DamagedFileError, naming `what`."""
    if data[: len(MAGIC)].tobytes() != MAGIC:
        raise DamagedFileError(f"{what} is no file of rows")
    at = len(MAGIC)
    while True:
        record, at = read_record(data, at, what)
        if record.name == "end":
            return
        yield record


def read_record(data: np.ndarray, at: int, what: str) -> tuple[Record, int]:
    """(the record that begins at byte `at`, checked, where the next one begins)."""
    if at + _RECORD.size > len(data):
        raise DamagedFileError(f"{what} is cut off at byte {at}")
    name_length, length, crc = _RECORD.unpack(data[at : at + _RECORD.size].tobytes())
    start = at + _RECORD.size
    if start + name_length + length > len(data):
        raise DamagedFileError(f"{what} is damaged at byte {at}: a record runs past its end")
    name = data[start : start + name_length]
    payload = data[start + name_length : start + name_length + length]
    head = data[at : at + _RECORD.size - 4]
    if zlib.crc32(payload.data, zlib.crc32(name.data, zlib.crc32(head.data))) != crc:
        raise DamagedFileError(f"{what} is damaged at byte {at}: a checksum does not hold")
    return Record(name.tobytes().decode(errors="replace").rstrip(" "), payload), start + name_length + length


def array_of(record: Record) -> tuple[str, np.ndarray] | None:
    """(name, array) of a record that holds one."""
    if not record.name.startswith(_ARRAY):
        return None
    return record.name.removeprefix(_ARRAY), np.lib.format.read_array(
        io.BytesIO(record.payload.tobytes()), allow_pickle=False
    )


def json_of(record: Record) -> Any:
    """The plain data of a record."""
    return json.loads(record.payload.tobytes())
