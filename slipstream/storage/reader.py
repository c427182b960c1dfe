"""The one guard between a file and memory: a byte budget, and checks of every number, text and size that a file claims.

Files are not trusted. A reader makes one `Reader` per load and asks it before it believes or allocates anything.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from slipstream.storage.errors import DamagedFileError, SaveError, TooLargeError

MAX_INTEGER = (1 << 63) - 1
MAX_DIMENSIONS = 64
MAX_VALUES = 20_000_000  # of one JSON text, and of one nested state
_MAX_JSON = 256 << 20
_VALUE_BYTES = 80  # memory of one parsed JSON value, at most
_BLOCK = 4 << 20
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
        """Raise the error of this reader, with the name of the file."""
        raise self.error(f"{self.name}: {text}")

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
        if math.prod(size for size in sizes if size) > MAX_INTEGER:
            self.fail(f"{what} is {shorten(list(sizes))}, which is too large")
        return math.prod(sizes)

    def text(self, value: Any, what: str, max_length: int = 4096) -> str:
        """Check a string: bounded, and without half characters (surrogates), which no file or page can hold."""
        if type(value) is not str or len(value) > max_length or not (value.isascii() or is_unicode(value)):
            self.fail(f"{what} is {shorten(value)}, which is not a text of at most {max_length} letters")
        return value

    def dtype(self, value: Any, what: str) -> np.dtype[Any]:
        """Check the name of a NumPy dtype: numbers, dates or texts of a fixed size, never objects or fields."""
        name = self.text(value, what, 32)
        try:
            dtype = np.dtype(name)
        except (TypeError, ValueError, SyntaxError):
            dtype = np.dtype(object)
        if dtype.hasobject or dtype.names is not None or dtype.shape or dtype.itemsize > 1 << 20:
            self.fail(f"{what} is {name!r}, which is not a dtype of plain numbers")
        return dtype

    def torch_dtype(self, value: Any, what: str) -> Any:
        """Check the name of a torch dtype."""
        import torch  # here: recordings are read without it

        dtype = getattr(torch, self.text(value, what, 32), None)
        if not isinstance(dtype, torch.dtype):
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

    def lz4(self, file: Any) -> Any:
        """Decompress an LZ4 frame, of a path or an open file; every part is claimed before the next one is read."""
        import io

        import lz4.frame

        out = io.BytesIO()
        try:
            with lz4.frame.open(file) as frame:
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
