"""The one binary file format, a valid safetensors file. docs/checkpoint-format.md describes it for other readers.

    8 bytes   length of the header
    header    JSON, filled up with blanks: {"__metadata__": {"slipstream": a description}, name: an entry, ...}
    data      the entries without gaps; the last one, of 32 bytes, is the SHA-256 of everything before the data

The description, JSON in one string, has the kind of file, the client's head and a table of pieces. Pieces cut the data,
and each has a checksum and is read alone. Entries say what other readers of safetensors see: a raw tensor is one entry
and one piece, compressed pieces of one column or stream are one entry of bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from slipstream.storage.errors import DamagedFileError, SaveError
from slipstream.storage.reader import Reader, open_regular, read_at

VERSION = 4
START = b'{"__metadata__":{"slipstream":'  # the header of every file of ours begins so
_TABLE = r"\"pieces\":\""  # before the table in the text of a header
_OLDER = b"\x89SLIP"  # how files began before version 3, then the digit of their version
HASH = "slipstream.header_sha256"
HASH_BYTES = 32
ALIGN = 64  # where the data begin
_ALIGN_ENTRY = 8  # where entries of numbers begin: aligned for every dtype that safetensors names
_MAX_HEADER = 100_000_000  # of the safetensors library
_PIECE = struct.Struct(">BHIL")  # codec, length in 6 bytes, CRC-32
_TYPES = {  # NumPy's or torch's name: that of safetensors; the others are bytes there
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


class Entry(NamedTuple):
    """What another reader of safetensors sees under one name."""

    name: str
    dtype: str
    shape: Sequence[int]
    nbytes: int


class Deferred(NamedTuple):
    """A part of a piece that is read when it is written, so that not all of them are in memory."""

    nbytes: int
    read: Callable[[], Any]


class MemoryFile(io.BytesIO):
    """A file in memory: for a state dict, or to send."""

    def write_at(self, offset: int, data: bytes) -> None:
        """Overwrite bytes that were written before, such as a header."""
        self.seek(offset)
        self.write(data)

    def join(self) -> np.ndarray:
        """Return everything, uint8 [n]."""
        return np.frombuffer(self.getbuffer(), np.uint8)


class ContainerWriter:
    """Writes a file. What is added is kept until `finish`, or written at once after `reserve`.

    Args:
        file: an `AtomicFile` or a `MemoryFile` that nothing was written to.
        kind: four letters that say what the file holds, such as "ckpt".
    """

    def __init__(self, file: Any, kind: str) -> None:
        self.identity = b""  # the SHA-256 of the header, once the file is finished: files refer to each other by it
        self._file, self._kind = file, kind
        self._names: dict[str, int] = {}  # of the entries, and the last number that was added to each
        self._open: str | None = None  # the name of the entry that the next piece may continue
        self._entries: list[Entry] = []
        self._pieces: list[list[int]] = []  # codec, bytes, checksum
        self._waiting: list[tuple[Any, ...]] = []  # the parts of each piece
        self._room = self._end = 0  # bytes kept for the header, and of the data
        self._description = ("", "", "")  # its text before, at and after the table
        self._described: Sequence[Entry] | None = None  # the entries whose text is `_listed`
        self._listed = ""

    def add(self, *parts: Any, name: str = "bytes", codec: int = 0, checksum: int | None = None) -> int:
        """Add one piece made of one or more buffers, which must not change before `finish`; return its number.

        Pieces that are added one after the other with the same name are one entry.

        Args:
            checksum: `checksum_of(*parts)` where it was computed before, in another thread.
        """
        if self._open != name:
            self._begin(name, "U8", [0])
            self._open = name
        last = self._entries[-1]
        nbytes = self._put(parts, codec, checksum)
        self._entries[-1] = last._replace(shape=[last.nbytes + nbytes], nbytes=last.nbytes + nbytes)
        return len(self._pieces) - 1

    def add_array(self, data: Any, name: str = "array") -> list[Any]:
        """Add an array or a tensor as an entry; return what `Container.array` needs to read it, for the head."""
        if isinstance(data, np.ndarray):
            if data.dtype.hasobject or data.dtype.names:
                raise TypeError(f"an array of dtype {data.dtype} is not plain numbers: save its columns as arrays")
            label, dtype = data.dtype.str, data.dtype.name if data.dtype.isnative else ""
            flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        else:
            import torch  # here: recordings are written without it

            label, dtype = str(data.dtype), str(data.dtype).removeprefix("torch.")
            flat = np.empty(0, np.uint8)  # an empty tensor may have a stride of 0, which `view` refuses
            if data.numel():
                flat = data.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        self._begin(name, *entry_type(dtype, data.shape, flat.size))
        self._put((flat,), 0, None)
        self._entries[-1] = self._entries[-1]._replace(nbytes=flat.size)
        return [len(self._pieces) - 1, label, list(data.shape)]

    def reserve(self, head: Any, entries: Sequence[Entry], pieces: int) -> None:
        """Keep room for a header with these entries, none of which may become larger, and write what is added from now
        on at once."""
        self._describe(head)
        self._room = len(self._header(entries, bytes(_PIECE.size * pieces)))
        self._file.write(bytes(self._room))

    def finish(self, head: Any = None, entries: Sequence[Entry] | None = None) -> int:
        """Write everything that waits, and the header; return the size of the file.

        Args:
            head: what the client says, if it was not given to `reserve`.
            entries: by default those that were added.
        """
        entries = self._entries if entries is None else entries
        if not self._room:
            self.reserve(head, entries, len(self._pieces))
            for piece, parts in zip(self._pieces, self._waiting, strict=True):
                self._write(piece, parts)
        header = self._header(entries, b"".join(_PIECE.pack(c, n >> 32, n & 0xFFFFFFFF, x) for c, n, x in self._pieces))
        self.identity = hashlib.sha256(header).digest()
        self._file.write(self.identity)
        self._file.write_at(0, header)
        return self._room + self._end + HASH_BYTES

    def _begin(self, name: str, dtype: str, shape: Sequence[int]) -> None:
        missing = 0 if dtype == "U8" else -self._end % _ALIGN_ENTRY
        if missing:
            self._entries.append(Entry(unique_name("padding", self._names), "U8", [missing], missing))
            self._put((bytes(missing),), 0, None)
        self._entries.append(Entry(unique_name(name, self._names), dtype, list(shape), 0))
        self._open = None

    def _put(self, parts: tuple[Any, ...], codec: int, checksum: int | None) -> int:
        nbytes = sum(part.nbytes if isinstance(part, Deferred) else memoryview(part).nbytes for part in parts)
        self._end += nbytes
        self._pieces.append([codec, nbytes, -1 if checksum is None else checksum])
        if self._room:
            self._write(self._pieces[-1], parts)
        else:
            self._waiting.append(parts)
        return nbytes

    def _write(self, piece: list[int], parts: tuple[Any, ...]) -> None:
        data = [part.read() if isinstance(part, Deferred) else part for part in parts]
        piece[2] = checksum_of(*data) if piece[2] < 0 else piece[2]
        written = sum(self._file.write(part) for part in data)
        assert written == piece[1]

    def _describe(self, head: Any) -> None:
        """Write the description as text around the table of pieces, which has a fixed width."""
        description = {"version": VERSION, "kind": self._kind, "pieces": "", "head": head}
        self._description = _to_json(_to_json(description)).partition(_TABLE)

    def _header(self, entries: Sequence[Entry], table: bytes) -> bytes:
        """Return length and header, a multiple of ALIGN bytes, and not less than the room kept for them."""
        if entries is not self._described:
            listed: dict[str, Any] = {}
            at = 0
            for name, dtype, shape, nbytes in [*entries, Entry(HASH, "U8", [HASH_BYTES], HASH_BYTES)]:
                listed[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + nbytes]}
                at += nbytes
            self._described, self._listed = entries, _to_json(listed)[1:]
        before, name, after = self._description
        body = b"".join((START, f"{before}{name}{table.hex()}{after}}},{self._listed}".encode()))
        room = max(self._room, -(-(8 + len(body)) // ALIGN) * ALIGN)
        if room > _MAX_HEADER:
            raise SaveError(
                f"its names and shapes take {len(body):,} bytes, the limit of safetensors files is {_MAX_HEADER:,}: "
                "save fewer and larger tensors, or several files"
            )
        return struct.pack("<Q", room - 8) + body.ljust(room - 8)


class Container:
    """An open file. The header is checked on opening; the checksum of a piece is tested when it is read.

    A file is read, never mapped: one that changes or shrinks meanwhile gives an error. A piece must fit the reader's
    budget; who keeps it claims its memory.
    """

    def __init__(self, kind: str, reader: Reader, *, fd: int = -1, data: np.ndarray | None = None) -> None:
        self.kind, self.reader = kind, reader
        self._fd, self._data = fd, data
        self._size = len(data) if data is not None else os.fstat(fd).st_size
        self._read_header()

    @classmethod
    def open(cls, path: str | Path, kind: str, *, reader: Reader | None = None) -> Container:
        """Open a file.

        Raises:
            DamagedFileError: (or the reader's own error) if the file is cut short, damaged or of another kind.
        """
        return cls(kind, reader or Reader(path), fd=open_regular(path))

    @classmethod
    def from_bytes(cls, data: Any, kind: str, name: str, *, reader: Reader | None = None) -> Container:
        """Read a file that is in memory: bytes, or an array uint8 [n]."""
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
        """Close the file. Pieces that were read stay valid."""
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
        """Return a piece, or its first `most` bytes, without testing its checksum: for payloads that have their own."""
        start, size = self._place(number)
        return self._read(start, size if most is None else min(size, most))

    def section(self, number: int) -> np.ndarray:
        """Return a piece, uint8 [n], after its checksum was tested."""
        data = self._read(*self._place(number))
        self._check(number, zlib.crc32(data.data))
        return data

    def owned(self, data: np.ndarray) -> np.ndarray:
        """Return a piece, or an array of one, as memory that nobody shares; its memory is claimed."""
        self.reader.claim(data.nbytes)
        return data if self._data is None else data.copy()

    def place(self, number: int) -> tuple[int, int, int]:
        """Return where a piece of a file is: (descriptor, offset, bytes). Keep the container while you use it."""
        return self._fd, *self._place(number)

    def array(self, reference: Any, what: str = "an array", *, owned: bool = False) -> Any:
        """Return what `ContainerWriter.add_array` wrote; an array of bytes in memory is a view, if not `owned`."""
        if type(reference) is not list or len(reference) != 3:
            self.reader.fail(f"{what} is malformed")
        number, label, shape = reference[0], reference[1], self.reader.shape(reference[2], what)
        is_tensor = self.reader.text(label, what, 32).startswith("torch.")
        dtype: Any = self.reader.torch_dtype(label[6:], what) if is_tensor else self.reader.dtype(label, what)
        if self.reader.product([*shape, dtype.itemsize], what) != self._place(number)[1]:
            self.reader.fail(f"{what} of {dtype} {list(shape)} does not fit its {self._place(number)[1]} bytes")
        if not is_tensor:
            data = self.owned(self.section(number)) if owned else self.section(number)
            return data.view(dtype).reshape(shape) if 0 not in shape else np.empty(shape, dtype)
        import torch

        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        return torch.from_numpy(self.owned(self.section(number))).view(dtype).reshape(shape)

    def read_into(self, number: int, out: memoryview) -> None:
        """Read a piece into `out`, which has its size, and test its checksum."""
        start, size = self._place(number)
        assert len(out) == size
        self._read_into(start, out)
        self._check(number, zlib.crc32(out))

    def damage(self) -> Iterator[tuple[int, str]]:
        """Test every piece; yield the number and the error message of those that are damaged."""
        for number in range(len(self)):
            try:
                self.section(number)
            except DamagedFileError as error:
                yield number, str(error)

    def _check(self, number: int, checksum: int) -> None:
        if checksum != self.checksums[number]:
            self.reader.fail(f"piece {number} (from byte {self.offsets[number]}) has a wrong checksum")

    def _place(self, number: int) -> tuple[int, int]:
        if type(number) is not int or not 0 <= number < len(self.sizes):
            self.reader.integer(number, "the number of a piece", 0, len(self.sizes) - 1)
        return int(self.offsets[number]), int(self.sizes[number])

    def _read(self, start: int, size: int) -> np.ndarray:
        """Return bytes of the file, uint8 [size]; of a file in memory a view."""
        if self._data is not None:
            return self._data[start : start + size]
        self.reader.claim(-self.reader.claim(size, "a piece"))
        out = np.empty(size, np.uint8)
        self._read_into(start, out.data)
        return out

    def _read_into(self, start: int, out: memoryview) -> None:
        if self._data is not None:
            out[:] = self._data[start : start + len(out)].data
        elif not read_at(self._fd, out, start):
            self.reader.fail("the file was cut short while it was read")

    def _read_header(self) -> None:
        reader, size = self.reader, self._size
        begin = self._read(0, min(size, 8 + len(START))).tobytes()
        if begin.startswith(_OLDER):
            _fail_older(reader, begin[len(_OLDER) : len(_OLDER) + 1].decode("latin1"))
        if begin[8:] != START:
            reader.fail(f"this is not a Slipstream file (wrong first bytes), or it is cut short to {size} bytes")
        (length,) = struct.unpack("<Q", begin[:8])
        if (8 + length) % ALIGN or not len(START) < length <= min(_MAX_HEADER, size - 8 - HASH_BYTES):
            reader.fail(f"its header has {length} bytes, the file {size}: it is cut short or damaged")
        reader.claim(8 + length, "the header")
        text = self._read(0, 8 + length)
        self.identity = hashlib.sha256(text.data).digest()
        if self._read(size - HASH_BYTES, HASH_BYTES).tobytes() != self.identity:
            reader.fail("the header's checksum at the end of the file is wrong: it is cut short or damaged")
        with reader.parsing("the header"):
            header = reader.json(text[8:], "the header")
            description = reader.json(header["__metadata__"]["slipstream"].encode(), "the header")
            version, kind = description["version"], reader.text(description["kind"], "the kind", 16)
            if reader.integer(version, "the version") < VERSION:
                _fail_older(reader, version)
            if version > VERSION:
                reader.fail(f"it was written by a newer version of Slipstream, version {version}: update")
            if kind != self.kind:
                reader.fail(f"this file is of the kind {kind!r}, not {self.kind!r}")
            self.head: Any = description["head"]
            self._read_table(bytes.fromhex(description["pieces"]), 8 + length)

    def _read_table(self, table: bytes, start: int) -> None:
        if len(table) % _PIECE.size:
            self.reader.fail("the table of its pieces is malformed")
        rows = np.frombuffer(table, [("codec", "u1"), ("high", ">u2"), ("low", ">u4"), ("checksum", ">u4")])
        self.codecs: list[int] = rows["codec"].tolist()
        self.checksums: list[int] = rows["checksum"].tolist()
        self.sizes = (rows["high"].astype(np.int64) << 32) + rows["low"]
        end = self._size - HASH_BYTES
        if self.sizes.sum(dtype=np.float64) > end or start + int(self.sizes.sum()) != end:
            self.reader.fail("its pieces do not fill the file")
        self.offsets = start + np.cumsum(self.sizes) - self.sizes


def _fail_older(reader: Reader, version: Any) -> NoReturn:
    reader.fail(f"it was written by an older version of Slipstream, version {version}: train or save again")


def entry_type(dtype: str, shape: Sequence[int], nbytes: int) -> tuple[str, list[int]]:
    """Return dtype and shape of an entry: bytes, if safetensors has no name for the dtype."""
    return (_TYPES[dtype], list(shape)) if dtype in _TYPES else ("U8", [nbytes])


def unique_name(name: str, taken: dict[str, int]) -> str:
    """Return the name of an entry: `name`, or if it is taken or none that JSON can hold, one like it; mark it taken."""
    base = name.encode("utf-8", "replace").decode()[:200] or "tensor"
    name = base
    while name in taken or name in ("padding", "__metadata__", HASH):
        taken[base] = taken.get(base, -1) + 1  # the next number to try
        name = f"{base}.{taken[base]}"
    taken.setdefault(name, -1)
    return name


def checksum_of(*parts: Any) -> int:
    """The CRC-32 of a piece."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


def is_container(path: Path) -> bool:
    """Return whether a file begins as those of ours do."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(8 + len(START))[8:] == START


def read_identity(path: Path) -> bytes:
    """Return the SHA-256 of a file's header, as the file itself says; empty if it is not one of ours."""
    with contextlib.suppress(OSError):
        if is_container(path):
            with os.fdopen(open_regular(path), "rb") as file:
                file.seek(-HASH_BYTES, os.SEEK_END)
                return file.read()
    return b""


def _to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
