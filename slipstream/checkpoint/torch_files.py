"""The torch forms of a checkpoint: `.pt`, and `.pt.lz4` for an LZ4 frame around it.

torch reads them with `weights_only=True`, which runs no code. What it does not bound is checked here: the sizes of the
archive before it is read, and the state afterwards.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import torch

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError, UnsafeCheckpointError
from slipstream.storage.errors import SaveError, printable
from slipstream.storage.files import atomic_file
from slipstream.storage.tensor_file import Reader
from slipstream.storage.tree import MAX_DEPTH

Locator = Callable[[torch.UntypedStorage, str], torch.UntypedStorage]
_MAX_VALUES = 10_000_000
_NO_VALUES = (torch.storage.TypedStorage, torch.UntypedStorage, torch.serialization.StorageType)
_OPCODE_BYTES = 64  # memory that a byte of a pickle makes, such as an empty list, at most


def write_pt(path: Path, state: Any) -> int:
    """Write a plain `.pt`; return the bytes written."""
    with atomic_file(path) as file:
        torch.save(state, cast(IO[bytes], file))
    return file.position


def write_lz4(path: Path, state: Any, level: int) -> int:
    """Write a `.pt.lz4`; return the bytes written."""
    import lz4.frame

    options = {"compression_level": level, "content_checksum": True, "block_size": lz4.frame.BLOCKSIZE_MAX4MB}
    with atomic_file(path) as file, lz4.frame.open(file, "wb", **options) as frame:
        torch.save(state, frame)
    return file.position


def read_torch(data: bytes, reader: Reader, map_location: Any = "cpu") -> Any:
    """Return the state in a torch file, within the reader's budget and without running anything that is in it."""
    file = reader.lz4(data)
    if file.getbuffer()[:2] != b"PK":
        reader.fail(
            "is not a checkpoint, or is a torch file from before version 1.6: if you trust it, open it with torch.load "
            "and save it again with torch.save"
        )
    place: Any = locator(map_location)
    try:
        archive, held = _checked_archive(file, reader)
        state = torch.load(archive, map_location=place, weights_only=True)
        _check_loaded(state, held, reader)
    except (SaveError, torch.OutOfMemoryError):
        raise
    except pickle.UnpicklingError as error:
        if "global" in str(error).lower() or "Unsupported" in str(error):
            raise UnsafeCheckpointError(
                f"{reader.name}: holds more than tensors and plain values, and loading it would run code from the file: "
                f"{first_line(error)}"
            ) from error
        raise CorruptCheckpointError(f"{reader.name}: not a readable torch file: {first_line(error)}") from error
    except Exception as error:  # zipfile and torch take files apart with plain Python: any error is possible
        raise CorruptCheckpointError(f"{reader.name}: not a readable torch file: {first_line(error)}") from error
    return state


def _checked_archive(file: io.BytesIO, reader: Reader) -> tuple[io.BytesIO, int]:
    """Copy an archive entry by entry, so that torch reads what was checked and nothing else; return it and its bytes.

    The sizes are claimed before anything is opened, and zipfile tests the checksums, which torch does not.
    """
    copy = io.BytesIO()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w") as checked:
        held = sum(entry.file_size for entry in archive.infolist())
        reader.claim(2 * held, "the archive")
        for entry in archive.infolist():
            content = archive.read(entry)
            if entry.filename.lower().endswith("data.pkl"):  # torch ignores the case
                _check_pickle(content, reader)
            checked.writestr(entry.filename, content)
    copy.seek(0)
    return copy, held


def _check_pickle(data: bytes, reader: Reader) -> None:
    """Claim what a pickle can make. The size of a bytearray is any number, so torch must not make one."""
    reader.claim(_OPCODE_BYTES * len(data), "the pickle")
    if b"bytearray" in data:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL" and "bytearray" in str(argument):
                reader.fail("it holds a bytearray, whose size cannot be checked")


def _check_loaded(state: Any, held: int, reader: Reader) -> None:
    """Bound what torch loaded: the number of values and levels, what strides of 0 repeat, and tensors that are larger
    than the `held` bytes of the file."""
    sizes: dict[int, int] = {}  # values in a list or dict by its id; a file may name one many times
    storages: dict[int, int] = {}

    def count(node: Any, depth: int) -> int:
        if depth > MAX_DEPTH:
            reader.fail(f"it is nested deeper than {MAX_DEPTH} levels, or contains itself")
        if any(hasattr(type(node), name) for name in getattr(node, "__dict__", ())):
            reader.fail("a value in it replaces its own methods")
        if callable(node) or isinstance(node, _NO_VALUES):
            reader.fail(f"it holds a {type(node).__name__} where a value belongs")
        if isinstance(node, torch.Tensor) and node.layout is torch.strided and node.device.type != "meta":
            storage, shown = node.untyped_storage(), node.numel() * node.element_size()
            storages[storage.data_ptr()] = storage.nbytes()
            if shown > storage.nbytes():
                reader.claim(shown - storage.nbytes(), "a tensor that repeats its numbers")
        if not isinstance(node, (dict, list, tuple, set, frozenset)):
            return 1
        if id(node) not in sizes:
            sizes[id(node)] = _MAX_VALUES  # until it is counted
            children = node.values() if isinstance(node, dict) else node
            sizes[id(node)] = 1 + sum(count(child, depth + 1) for child in children)
        if sizes[id(node)] >= _MAX_VALUES:
            reader.fail(f"it holds more than {_MAX_VALUES} values, or contains itself")
        return sizes[id(node)]

    count(state, 0)
    if sum(storages.values()) > held:
        reader.fail("a tensor is larger than the numbers that the file holds for it")


def locator(map_location: Any) -> Locator:
    """Return a function that puts a storage on the device that `map_location` says, as `torch.load` takes it."""
    restore = torch.serialization._get_restore_location(map_location)

    def place(storage: torch.UntypedStorage, saved: str) -> torch.UntypedStorage:
        try:
            moved = restore(storage, str(torch.device(saved)))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # of the user's function, or of a device that is not here
            device = printable(str(saved)[:99], keep="")
            why = f"map_location={map_location!r}: a tensor of {device} cannot be put there"
            raise CheckpointError(f"{why} ({type(error).__name__}: {first_line(error)})") from error
        return getattr(moved, "_untyped_storage", moved)

    return place


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its kind."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    return "".join(c if c.isprintable() else "?" for c in line)
