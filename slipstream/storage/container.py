"""The one binary file format: a header, sections, an index. docs/checkpoint-format.md describes it for other readers.

    header    64 bytes: magic, version, flags, kind, identity, where the index is, checksums
    sections  one after the other, each padded with zeros to a multiple of 64 bytes
    index     JSON: the client's head, and the size and the checksum of every section

Every byte of the file is under a checksum: that of the header, of the index, or of a section (padding included).
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slipstream.storage.errors import DamagedFileError
from slipstream.storage.reader import Reader, open_regular, read_at

MAGIC = b"\x89SLIP2\r\n"
VERSION = 2
# magic, version, flags, kind, identity, index offset, index length, index checksum, 8 zeros, header checksum
HEADER = struct.Struct("<8sHH4s16sQQI8xI")
ALIGN = 64
_PIECE_BYTES = 1 << 20


class MemoryFile:
    """A container in memory: for a state dict, or to send."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.position = 0

    def write(self, data: Any) -> int:
        """Append `data`; it is kept, not copied."""
        view = memoryview(data).cast("B")
        self.parts.append(view)
        self.position += len(view)
        return len(view)

    def write_at(self, offset: int, data: bytes) -> None:
        """Overwrite the first part, which holds the header."""
        assert offset == 0 and len(data) == len(self.parts[0])
        self.parts[0] = memoryview(data)

    def join(self) -> np.ndarray:
        """Copy everything into one array, uint8 [n]."""
        out = np.empty(self.position, np.uint8)
        at = 0
        for part in self.parts:
            out[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        return out


class ContainerWriter:
    """Writes a container section by section.

    Args:
        file: an `AtomicFile` or a `MemoryFile` that nothing was written to.
        kind: four letters that say what the file holds, such as "ckpt".
        flags: 16 bits with a meaning for that kind.
    """

    def __init__(self, file: Any, kind: str, flags: int = 0) -> None:
        # files refer to each other by identity; in memory it is 0, so that equal contents are equal bytes
        self.identity = bytes(16) if isinstance(file, MemoryFile) else os.urandom(16)
        self._file, self._kind, self._flags = file, kind.encode(), flags
        self._sizes: list[int] = []
        self._checksums: list[int] = []
        self.position = HEADER.size
        file.write(bytes(HEADER.size))

    def add(self, *parts: Any, checksum: int | None = None) -> int:
        """Write one section made of one or more buffers; return its number.

        `checksum` is `section_checksum(*parts)` where it was computed before, in another thread.
        """
        size = sum(memoryview(part).nbytes for part in parts)
        self._checksums.append(section_checksum(*parts) if checksum is None else checksum)
        self._sizes.append(size)
        for part in parts:
            self._file.write(part)
        if size % ALIGN:
            self._file.write(bytes(-size % ALIGN))
        self.position += _padded(size)
        return len(self._sizes) - 1

    def add_array(self, array: np.ndarray) -> list[Any]:
        """Write an array as a section; return what `Container.array` needs to read it, for the head."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return [self.add(flat), array.dtype.str, list(array.shape)]

    def finish(self, head: Any) -> int:
        """Write the index, with the client's `head`, and the header; return the size of the file."""
        index = {"head": head, "sizes": self._sizes, "crc32": self._checksums}
        body = json.dumps(index, separators=(",", ":"), allow_nan=False).encode()
        self._file.write(body)
        fields = (MAGIC, VERSION, self._flags, self._kind, self.identity, self.position, len(body), zlib.crc32(body))
        start = HEADER.pack(*fields, 0)[:-4]
        self._file.write_at(0, start + struct.pack("<I", zlib.crc32(start)))
        return self.position + len(body)


class Container:
    """An open container. Header and index are checked on opening; a section's checksum is tested when it is read.

    A file is read, never mapped: one that changes or shrinks meanwhile gives an error. A section must fit the reader's
    budget; who keeps it claims its memory.
    """

    def __init__(self, kind: str, reader: Reader, *, fd: int = -1, data: np.ndarray | None = None) -> None:
        self.kind, self.reader = kind, reader
        self._fd, self._data = fd, data
        self._size = len(data) if data is not None else os.fstat(fd).st_size
        if self._size < HEADER.size:
            reader.fail(f"{self._size} bytes are too few: it is cut short")
        self._read_index()

    @classmethod
    def open(cls, path: str | Path, kind: str, *, reader: Reader | None = None) -> Container:
        """Open a file.

        Raises:
            DamagedFileError: (or the reader's own error) if the file is cut short, damaged or of another kind.
        """
        return cls(kind, reader or Reader(path), fd=open_regular(path))

    @classmethod
    def from_bytes(cls, data: Any, kind: str, name: str, *, reader: Reader | None = None) -> Container:
        """Read a container that is in memory: bytes, or an array uint8 [n]."""
        reader = reader or Reader(name)
        array = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
        if array.dtype != np.uint8 or array.ndim != 1:
            reader.fail(f"it is {array.dtype} {list(array.shape)}, not bytes")
        return cls(kind, reader, data=array)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def is_file(self) -> bool:
        """Whether it is an open file, not bytes in memory."""
        return self._fd >= 0

    def close(self) -> None:
        """Close the file. Sections that were read stay valid."""
        fd, self._fd, self._data = self._fd, -1, None
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def view(self, number: int, most: int | None = None) -> np.ndarray:
        """Return a section, or its first `most` bytes, without testing its checksum: for payloads that have their
        own."""
        start, size = self._place(number)
        return self._read(start, size if most is None else min(size, most))

    def section(self, number: int) -> np.ndarray:
        """Return a section, uint8 [n], after its checksum was tested."""
        start, size = self._place(number)
        data = self._read(start, _padded(size))
        self.check(number, data.data)
        return data[:size]

    def owned(self, data: np.ndarray) -> np.ndarray:
        """Return a section, or an array of one, as memory that nobody shares; its memory is claimed."""
        self.reader.claim(data.nbytes)
        return data if self._data is None else data.copy()

    def place(self, number: int) -> tuple[int, int, int]:
        """Return where a section of a file is: (descriptor, offset, bytes). Keep the container while you use it."""
        return self._fd, *self._place(number)

    def array(self, reference: Any, what: str = "an array") -> np.ndarray:
        """Return the array that `ContainerWriter.add_array` wrote; of bytes in memory a view."""
        if type(reference) is not list or len(reference) != 3:
            self.reader.fail(f"{what} is malformed")
        number, dtype, shape = (
            reference[0],
            self.reader.dtype(reference[1], what),
            self.reader.shape(reference[2], what),
        )
        if self.reader.product([*shape, dtype.itemsize], what) != self._place(number)[1]:
            self.reader.fail(f"{what} of {dtype} {list(shape)} does not fit its {self._place(number)[1]} bytes")
        return self.section(number).view(dtype).reshape(shape) if 0 not in shape else np.empty(shape, dtype)

    def read_into(self, number: int, out: memoryview) -> None:
        """Read a section with its padding into `out`, and test its checksum."""
        start, size = self._place(number)
        assert len(out) == _padded(size)
        self._read_into(start, out)
        self.check(number, out)

    def check(self, number: int, data: Any) -> None:
        """Test the checksum of a section; `data` is the section with its padding."""
        self._compare(number, zlib.crc32(data))

    def _compare(self, number: int, checksum: int) -> None:
        if checksum != self.checksums[number]:
            self.reader.fail(f"section {number} (from byte {self.offsets[number]}) has a wrong checksum")

    def damage(self) -> Iterator[tuple[int, str]]:
        """Test every section; yield the number and the error message of those that are damaged."""
        piece = np.empty(_PIECE_BYTES, np.uint8)
        for number in range(len(self)):
            try:
                start, size = self._place(number)
                left, checksum = _padded(size), 0
                while left:
                    part = piece[: min(left, _PIECE_BYTES)].data
                    self._read_into(start + _padded(size) - left, part)
                    checksum, left = zlib.crc32(part, checksum), left - len(part)
                self._compare(number, checksum)
            except DamagedFileError as error:
                yield number, str(error)

    def _place(self, number: int) -> tuple[int, int]:
        if type(number) is not int or not 0 <= number < len(self.sizes):
            self.reader.integer(number, "the number of a section", 0, len(self.sizes) - 1)
        return int(self.offsets[number]), int(self.sizes[number])

    def _read(self, start: int, size: int) -> np.ndarray:
        """Return bytes of the file, uint8 [size]; of a container in memory a view."""
        if self._data is not None:
            return self._data[start : start + size]
        self.reader.claim(-self.reader.claim(size, "a section"))
        out = np.empty(size, np.uint8)
        self._read_into(start, out.data)
        return out

    def _read_into(self, start: int, out: memoryview) -> None:
        if self._data is not None:
            out[:] = self._data[start : start + len(out)].data
        elif not read_at(self._fd, out, start):
            self.reader.fail("the file was cut short while it was read")

    def _read_index(self) -> None:
        reader, size = self.reader, self._size
        head = self._read(0, HEADER.size).tobytes()
        if head[: len(MAGIC)] != MAGIC:
            reader.fail("this is not a Slipstream file (wrong first bytes)")
        _, version, self.flags, kind, self.identity, start, length, checksum, head_checksum = HEADER.unpack(head)
        if zlib.crc32(head[:-4]) != head_checksum or any(head[-12:-4]):
            reader.fail("the header's checksum is wrong")
        if version != VERSION:
            reader.fail(f"format version {version}; this Slipstream reads version {VERSION}: update it")
        if kind != self.kind.encode():
            reader.fail(
                f"this file holds {_KINDS.get(kind, 'something unknown')}, not {_KINDS.get(self.kind.encode(), self.kind)}"
            )
        if start < HEADER.size or start % ALIGN or start + length != size:
            reader.fail(
                f"the index should end at byte {start + length}, the file at {size}: it is cut short or something was added"
            )
        reader.claim(length, "the index")
        body = self._read(start, length)
        if zlib.crc32(body.data) != checksum:
            reader.fail("the index's checksum is wrong")
        with reader.parsing("the index"):
            index = reader.json(body)
            self.head: Any = index["head"]
            self.sizes = np.array(reader.integers(index["sizes"], "the size of a section", 0, size), np.int64)
            self.checksums = reader.integers(index["crc32"], "a checksum", 0, (1 << 32) - 1)
        if len(self.checksums) != len(self.sizes) or self.sizes.sum(dtype=np.float64) > size:
            reader.fail("the index lists other sections than the file holds")
        ends = np.cumsum((self.sizes + ALIGN - 1) // ALIGN * ALIGN) + HEADER.size
        if (int(ends[-1]) if len(ends) else HEADER.size) != start:
            reader.fail("the sections do not fill the file between header and index")
        self.offsets = np.concatenate([[HEADER.size], ends[:-1]]) if len(ends) else ends


_KINDS = {
    b"ckpt": "a checkpoint",
    b"roll": "a rollout",
    b"rply": "a replay buffer",
    b"fram": "compressed frames",
    b"recd": "a recording",
}


def section_checksum(*parts: Any) -> int:
    """The CRC-32 of a section with its padding."""
    checksum = size = 0
    for part in parts:
        view = memoryview(part)
        checksum, size = zlib.crc32(view, checksum), size + view.nbytes
    return zlib.crc32(bytes(-size % ALIGN), checksum)


class FileHeader(NamedTuple):
    """The first 64 bytes of a container say this."""

    kind: str
    flags: int
    identity: bytes


def read_header(path: Path) -> FileHeader | None:
    """Return the header of a file; None if it is not a container."""
    with contextlib.suppress(OSError), os.fdopen(open_regular(path), "rb") as file:
        head = file.read(HEADER.size)
        if (
            len(head) == HEADER.size
            and head.startswith(MAGIC)
            and zlib.crc32(head[:-4]) == struct.unpack("<I", head[-4:])[0]
        ):
            _, _, flags, kind, identity, *_ = HEADER.unpack(head)
            return FileHeader(kind.decode("ascii", "replace"), flags, identity)
    return None


def _padded(size: int) -> int:
    return (size + ALIGN - 1) // ALIGN * ALIGN
