"""The two forms that are not ours: a plain torch file, and the documents' LZ4 frame around one."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch

from slipstream.checkpoint import tree
from slipstream.checkpoint.errors import CorruptCheckpointError, UnsafeCheckpointError
from slipstream.checkpoint.reader import make_tensor
from slipstream.storage.files import AtomicFile, FileSystem, atomic_file
from slipstream.storage.staging import Layout

LZ4_MAGIC = b"\x04\x22\x4d\x18"
_BLOCK = 1 << 20


def snapshot_state(structure: Any, layout: Layout, host: np.ndarray) -> Any:
    """The state of a snapshot; its tensors share the snapshot's memory, each through a storage of its own."""
    parts = []
    for storage in layout.storages:
        start = layout.streams[storage.stream].start + storage.start if layout.streams else 0
        parts.append(
            torch.from_numpy(host[start : start + storage.nbytes])
            if storage.nbytes
            else torch.empty(0, dtype=torch.uint8)
        )
    return tree.thaw(structure, lambda i: make_tensor(layout.views[i], parts[layout.views[i].storage]))


def write_pt(path: Path, state: Any, fs: FileSystem) -> int:
    """A plain `.pt`; the bytes written."""
    with atomic_file(path, fs) as file:
        torch.save(state, cast(IO[bytes], file))
    return file.position


class _Lz4Stream:
    """What `torch.save` writes to: compresses a megabyte at a time."""

    def __init__(self, file: AtomicFile, level: int) -> None:
        import lz4.frame

        self._file = file
        self._frame = lz4.frame.LZ4FrameCompressor(
            compression_level=level, content_checksum=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB
        )
        file.write(self._frame.begin())

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _BLOCK):
            self._file.write(self._frame.compress(view[start : start + _BLOCK]))
        return len(view)

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        self._file.write(self._frame.flush())


def write_lz4(path: Path, state: Any, level: int, fs: FileSystem) -> int:
    """A `.pt.lz4`: an LZ4 frame around a normal torch file; the bytes written."""
    with atomic_file(path, fs) as file:
        stream = _Lz4Stream(file, level)
        torch.save(state, cast(IO[bytes], stream))
        stream.finish()
    return file.position


def read_torch(path: Path, map_location: Any, mmap: bool) -> Any:
    """A `.pt` or `.pt.lz4`, old or new, without running anything that is in it."""
    with open(path, "rb") as file:
        magic = file.read(4)
    source: Any = path
    if magic == LZ4_MAGIC:
        source = io.BytesIO(_decompress(path))
    zipped = magic[:2] == b"PK"
    if magic and not (zipped or magic == LZ4_MAGIC or magic[0] == 0x80):  # 0x80 begins the torch files of old
        raise CorruptCheckpointError(f"{path}: is not a checkpoint, neither ours nor torch's")
    try:
        with torch.serialization.safe_globals(_numpy_globals()):
            return torch.load(
                source, map_location=map_location, weights_only=True, mmap=True if mmap and zipped else None
            )
    except pickle.UnpicklingError as error:
        if "Unsupported" in str(error) or "GLOBAL" in str(error) or "global" in str(error):
            raise UnsafeCheckpointError(
                f"{path}: holds more than tensors and plain values, and loading those would run code from the file: {_first_line(error)}"
            ) from error
        raise CorruptCheckpointError(f"{path}: not a readable torch file: {_first_line(error)}") from error
    except (RuntimeError, EOFError, ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise CorruptCheckpointError(f"{path}: not a readable torch file: {_first_line(error)}") from error


def _decompress(path: Path) -> bytes:
    import lz4.frame

    try:
        with lz4.frame.open(path) as file:
            return file.read()
    except (RuntimeError, EOFError) as error:
        raise CorruptCheckpointError(f"{path}: the LZ4 frame is damaged or cut short: {error}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__


def _numpy_globals() -> list[Any]:
    """What a pickled array of plain numbers names; making one runs no code of the file's."""
    try:
        from numpy._core import multiarray
    except ImportError:  # NumPy 1
        from numpy.core import multiarray  # type: ignore[no-redef]
    dtypes = {type(np.dtype(code)) for code in "?bBhHiIlLqQefdFDSUMm"}
    return [bytes, multiarray._reconstruct, multiarray.scalar, np.ndarray, np.dtype, *dtypes]
