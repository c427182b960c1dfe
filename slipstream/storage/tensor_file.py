"""The one binary file format, a valid safetensors file. docs/checkpoint-format.md describes it for other readers.

    8 bytes   length of the header
    header    JSON, filled up with blanks: {"__metadata__": {"slipstream": a description}, name: an entry, ...}
    data      the entries without gaps; the last one, of 32 bytes, is the SHA-256 of everything before the data

The description, JSON in one string, has the kind of file, the client's head and a table of pieces. Pieces cut the data,
and each has a checksum and is read alone. Entries say what other readers of safetensors see: a raw tensor is one entry
and one piece, compressed pieces of one column or stream are one entry of bytes.

Files are not trusted. `Reader` is the one guard between a file and memory: a budget in bytes, and checks of every
number, text and size that a file claims. Whoever reads a file makes one per load and asks it before it believes or
allocates anything.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import stat
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from slipstream.storage.errors import DamagedFileError, SaveError, TooLargeError, printable

VERSION = 4
START = b'{"__metadata__":{"slipstream":'  # the header of every file of ours begins so
_TABLE = r"\"pieces\":\""  # before the table in the text of a header
HASH = "slipstream.header_sha256"
HASH_BYTES = 32
ALIGN = 64  # where the data begin
_ALIGN_ENTRY = 8  # where entries of numbers begin: aligned for every dtype that safetensors names
_MAX_HEADER = 100_000_000  # of the safetensors library
_PIECE = struct.Struct(">BHIL")  # codec, length in 6 bytes, CRC-32
_TYPES = {  # torch's name: that of safetensors; the others are bytes there
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip

MAX_INTEGER = (1 << 63) - 1
MAX_DIMENSIONS = 64
MAX_VALUES = 20_000_000  # of one JSON text, and of one nested state
_MAX_JSON = 256 << 20
_VALUE_BYTES = 80  # memory of one parsed JSON value, at most
_BLOCK = 4 << 20
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ALWAYS_ALLOWED = 64 << 20
_INTEGERS = frozenset((int,))
_WRONG = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RuntimeError, MemoryError),
    struct.error,
)


class Reader:
    """Limits for reading one file.

    Args:
        name: the file, as error messages name it.
        max_bytes: memory that reading may take in all; None for SLIPSTREAM_MAX_BYTES, or else `default_max_bytes()`.
        error: the class of the errors that are raised, except for TooLargeError.
    """

    def __init__(
        self, name: object, *, max_bytes: int | None = None, error: type[DamagedFileError] = DamagedFileError
    ) -> None:
        self.name, self.error = str(name), error
        self.used = 0
        self._max_bytes = _max_bytes_given() if max_bytes is None else max_bytes
        self._counts: dict[str, int] = {}

    @property
    def max_bytes(self) -> int:
        """The budget in bytes."""
        if self._max_bytes is None:
            self._max_bytes = default_max_bytes()
        return self._max_bytes

    def fail(self, text: str) -> NoReturn:
        """Raise the error of this reader, with the name of the file; control characters in `text` are shown as text."""
        raise self.error(f"{self.name}: {printable(text, keep='')}")

    def claim(self, nbytes: int, what: str = "the data") -> int:
        """Count `nbytes` against the budget; call it before the memory is allocated."""
        self.used += nbytes
        # asking the system takes as long as loading a small file: the default is never below _ALWAYS_ALLOWED
        if (self._max_bytes is not None or self.used > _ALWAYS_ALLOWED) and self.used > self.max_bytes:
            raise TooLargeError(
                f"{self.name}: {what} would take {self.used / 1e9:.3g} GB of memory, the limit is {self.max_bytes / 1e9:.3g} GB: "
                "the file is damaged or hostile; if you trust it, set SLIPSTREAM_MAX_BYTES or max_bytes to a larger number"
            )
        return nbytes

    def count(self, number: int, limit: int, what: str) -> None:
        """Count things of one kind over the complete file; refuse more than `limit`."""
        self._counts[what] = self._counts.get(what, 0) + number
        if self._counts[what] > limit:
            self.fail(f"it has more than {limit} {what}")

    def integer(self, value: Any, what: str, low: int = 0, high: int = MAX_INTEGER) -> int:
        """Check that `value` is an integer within [low, high]."""
        if type(value) is not int or not low <= value <= high:
            self.fail(f"{what} is {shorten(value)}, which is not an integer from {low} to {high}")
        return value

    def integers(
        self, values: Any, what: str, low: int = 0, high: int = MAX_INTEGER, max_count: int = MAX_VALUES
    ) -> list[int]:
        """Check a list of integers."""
        if type(values) not in (list, tuple) or len(values) > max_count:
            self.fail(f"{what} is {shorten(values)}, which is not a list of at most {max_count} numbers")
        if values and (not _INTEGERS.issuperset(map(type, values)) or min(values) < low or max(values) > high):
            for value in values:
                self.integer(value, what, low, high)
        return list(values)

    def shape(self, values: Any, what: str) -> tuple[int, ...]:
        """Check the sizes of a tensor: no negative one, and a product below 2^63."""
        sizes = self.integers(values, what, max_count=MAX_DIMENSIONS)
        self.product(sizes, what)
        return tuple(sizes)

    def product(self, sizes: Sequence[int], what: str) -> int:
        """Multiply sizes that were checked; the result is below 2^63, also if one of them is 0."""
        if math.prod(filter(None, sizes)) > MAX_INTEGER:
            self.fail(f"{what} is {shorten(list(sizes))}, which is too large")
        return math.prod(sizes)

    def text(self, value: Any, what: str, max_length: int = 4096) -> str:
        """Check a string: bounded, and without half characters (surrogates), which no file or page can hold."""
        if type(value) is not str or len(value) > max_length or not (value.isascii() or is_unicode(value)):
            self.fail(f"{what} is {shorten(value)}, which is not a text of at most {max_length} letters")
        return value

    def version(self, value: Any, current: int) -> None:
        """Check the version of a format: files of other versions are refused."""
        if self.integer(value, "the version") != current:
            age, remedy = ("an older", "make it again") if value < current else ("a newer", "update")
            self.fail(f"it was written by {age} version of Slipstream, with version {value} of its format: {remedy}")

    def dtype(self, value: Any, what: str) -> np.dtype[Any]:
        """Check the name of a NumPy dtype: numbers, dates or texts of a fixed size, never objects or fields."""
        name = self.text(value, what, 32)
        try:
            dtype = np.dtype(name)
        except (TypeError, ValueError, SyntaxError):
            dtype = np.dtype(object)
        if dtype.hasobject or dtype.names is not None or dtype.shape or not 0 < dtype.itemsize <= 1 << 20:
            self.fail(f"{what} is {name!r}, which is not a dtype of plain numbers")
        return dtype

    def torch_dtype(self, value: Any, what: str) -> Any:
        """Check the name of a torch dtype; quantized ones (quint8, ...) are refused."""
        import torch  # here: recordings are read without it

        dtype = getattr(torch, self.text(value, what, 32), None)
        if not isinstance(dtype, torch.dtype) or value.startswith("q"):
            self.fail(f"{what} is {value!r}, which is not a dtype of tensors")
        return dtype

    def read(self, path: str | Path) -> bytes:
        """Return a file's bytes; they are claimed first. A pipe or a device is refused, since it might never end."""
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(self.claim(os.fstat(file.fileno()).st_size, "the file"))

    def json(self, data: Any, what: str = "the index") -> Any:
        """Parse JSON of bounded size and number of values; its memory is claimed first. Python bounds the depth."""
        text = bytes(data)
        values = 1 + text.count(b",") + text.count(b"[") + text.count(b"{") + text.count(b":")
        if len(text) > _MAX_JSON or values > MAX_VALUES:
            self.fail(f"{what} has {len(text)} bytes with {values} values, which is too much")
        self.claim(len(text) + _VALUE_BYTES * values, what)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            self.fail(f"{what} is malformed JSON ({type(error).__name__})")

    def check_view(
        self, shape: Sequence[int], stride: Sequence[int], offset: int, itemsize: int, nbytes: int, what: str
    ) -> None:
        """Check that a strided view stays within `nbytes`, and claim what it shows beyond them (a stride of 0
        repeats)."""
        if len(shape) != len(stride):
            self.fail(f"{what} has {len(shape)} sizes and {len(stride)} strides")
        shown, last = itemsize, offset
        for size, step in zip(shape, stride, strict=True):
            shown *= size
            last += (size - 1) * step
        if not shown:
            self.product(shape, what)
        elif (last + 1) * itemsize > nbytes:
            self.fail(f"{what} of shape {shorten(list(shape))} runs past the end of its {nbytes} bytes")
        elif shown > nbytes:
            self.claim(shown - nbytes, what)

    def lz4(self, data: bytes) -> io.BytesIO:
        """Return data as a file; those of an LZ4 frame decompressed, every part claimed before the next one is read."""
        import lz4.frame

        if data[:4] != _LZ4_MAGIC:
            return io.BytesIO(data)
        out = io.BytesIO()
        try:
            with lz4.frame.open(io.BytesIO(data)) as frame:
                while block := frame.read(_BLOCK):
                    self.claim(len(block), "the LZ4 frame")
                    out.write(block)
        except (RuntimeError, EOFError) as error:
            if isinstance(error, TooLargeError):
                raise
            raise self.error(f"{self.name}: the LZ4 frame is damaged or cut short: {error}") from error
        out.seek(0)
        return out

    @contextlib.contextmanager
    def parsing(self, what: str) -> Iterator[None]:
        """Turn the errors of taking a malformed structure apart into the error of this reader."""
        try:
            yield
        except SaveError as error:
            if isinstance(error, self.error) or not isinstance(error, DamagedFileError):
                raise
            raise self.error(str(error)) from error
        except _WRONG as error:
            raise self.error(f"{self.name}: {what} is malformed ({type(error).__name__})") from error


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


class TensorFileWriter:
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
        """Add a tensor, or an array, as an entry; return what `TensorFile.array` needs to read it, for the head."""
        import torch  # here: recordings are written without it

        data = torch.as_tensor(data)
        dtype = str(data.dtype).removeprefix("torch.")
        flat = np.empty(0, np.uint8)  # an empty tensor may have a stride of 0, which `view` refuses
        if data.numel():
            flat = data.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        self._begin(name, *entry_type(dtype, data.shape, flat.size))
        self._put((flat,), 0, None)
        self._entries[-1] = self._entries[-1]._replace(nbytes=flat.size)
        return [len(self._pieces) - 1, dtype, list(data.shape)]

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


class TensorFile:
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
    def open(
        cls, path: str | Path, kind: str, *, reader: Reader | None = None, data: bytes | None = None
    ) -> TensorFile:
        """Open a file, or its bytes `data` if they were read before.

        Raises:
            DamagedFileError: (or the reader's own error) if the file is cut short, damaged or of another kind.
        """
        if data is not None:
            return cls.from_bytes(data, kind, str(path), reader=reader)
        return cls(kind, reader or Reader(path), fd=open_regular(path))

    @classmethod
    def from_bytes(cls, data: Any, kind: str, name: str, *, reader: Reader | None = None) -> TensorFile:
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

    def __enter__(self) -> TensorFile:
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

    def place(self, number: int) -> tuple[int, int, int]:
        """Return where a piece of a file is: (descriptor, offset, bytes). Keep the container while you use it."""
        return self._fd, *self._place(number)

    def array(self, reference: Any, what: str = "an array") -> Any:
        """Return what `TensorFileWriter.add_array` wrote as a tensor; its memory counts against the budget."""
        import torch

        if type(reference) is not list or len(reference) != 3:
            self.reader.fail(f"{what} is malformed")
        number, shape = reference[0], self.reader.shape(reference[2], what)
        dtype = self.reader.torch_dtype(reference[1], what)
        if self.reader.product([*shape, dtype.itemsize], what) != self._place(number)[1]:
            self.reader.fail(f"{what} of {dtype} {list(shape)} does not fit its {self._place(number)[1]} bytes")
        self.reader.claim(self._place(number)[1])
        out = torch.empty(shape, dtype=dtype)
        if out.numel():
            self.read_into(number, out.reshape(-1).view(torch.uint8).numpy().data)
        return out

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
            reader.version(description["version"], VERSION)
            kind = reader.text(description["kind"], "the kind", 16)
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


def read_identity(path: Path) -> bytes:
    """Return the SHA-256 of a file's header, as the file itself says; empty if it is not one of ours."""
    with contextlib.suppress(OSError), os.fdopen(open_regular(path), "rb") as file:
        if file.read(8 + len(START))[8:] == START:
            file.seek(-HASH_BYTES, os.SEEK_END)
            return file.read()
    return b""


def _to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _max_bytes_given() -> int | None:
    """Return the number in SLIPSTREAM_MAX_BYTES; None if it is not set."""
    given = os.environ.get("SLIPSTREAM_MAX_BYTES")
    try:
        return int(float(given)) if given else None
    except (ValueError, OverflowError):
        raise SaveError(f"SLIPSTREAM_MAX_BYTES must be a number of bytes, such as 2e9, not {given!r}") from None


def open_regular(path: str | Path) -> int:
    """Open a regular file for reading; return its descriptor. Anything else, such as a pipe that would block, is an
    OSError."""
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return fd


def read_at(fd: int, out: Any, offset: int) -> bool:
    """Fill `out` with the bytes of a file from `offset` on; return False if the file ends before.

    Files are read so and never mapped: memory of a mapped file that shrinks ends the process (SIGBUS).
    """
    view = memoryview(out).cast("B")
    done = 0
    while done < len(view):
        number = _pread(fd, view[done:], offset + done)
        if not number:
            return False
        done += number
    return True


if hasattr(os, "preadv"):

    def _pread(fd: int, out: memoryview, offset: int) -> int:
        return os.preadv(fd, [out], offset)

else:  # Windows: one thread after the other, since the file has one position
    _reading = threading.Lock()

    def _pread(fd: int, out: memoryview, offset: int) -> int:
        with _reading:
            os.lseek(fd, offset, os.SEEK_SET)
            data = os.read(fd, min(len(out), 1 << 30))
        out[: len(data)] = data
        return len(data)


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: one from JSON or of a file name may have surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def default_max_bytes() -> int:
    """Nine tenths of the memory that is available now, within the limits of the cgroup."""
    return max(_ALWAYS_ALLOWED, int(0.9 * min(available_memory(), _cgroup_room())))


def available_memory() -> int:
    """Return the bytes of memory that the machine can give now."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return MAX_INTEGER


def _cgroup_room() -> int:
    """Memory that the cgroup of this process and those above it still grant; cached files count as free."""
    room, root = MAX_INTEGER, Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        name = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
        for folder in ((root / name), *(root / name).parents):
            with contextlib.suppress(OSError, ValueError):
                left = int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
                stat = dict(entry.split() for entry in (folder / "memory.stat").read_text().splitlines())
                room = min(room, left + int(stat["inactive_file"]) + int(stat["active_file"]))
    return max(room, 0)


def shorten(value: Any) -> str:
    """A value from a file on one line, shortened and with escape characters shown as text."""
    if isinstance(value, (list, tuple)):
        text = f"[{', '.join(map(shorten, value[:8]))}{', ...' if len(value) > 8 else ''}]"
    elif type(value) in (str, float, bool, type(None)) or (type(value) is int and abs(value) < 1 << 200):
        text = ascii(value[:60] if type(value) is str else value)
    else:
        text = "a very large number" if type(value) is int else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
