"""Opening checkpoints of any form, and finding the newest good one of a run. Also the torch forms: `.pt` and
`.pt.lz4`."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError, UnsafeCheckpointError
from slipstream.checkpoint.file import CheckpointFile, locator
from slipstream.storage.container import is_container
from slipstream.storage.errors import SaveError
from slipstream.storage.files import FileSystem, atomic_file, refuse_outside_links, regular_files
from slipstream.storage.pickle_check import check_pickle
from slipstream.storage.reader import Reader, open_regular
from slipstream.storage.serializer import MAX_DEPTH, flatten, select, unflatten

FORMS = (".slip", ".lz4", "")
_NAME = re.compile(r"^(?P<stem>.*?)(?P<step>\d{1,18})(?P<rest>\.pt(?:\.slip|\.lz4)?)$")
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
HASH_TRIES = 5  # to load a file that is replaced meanwhile
_MAX_VALUES = 10_000_000  # in a state that torch loaded
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))
_BUILT_IN = frozenset((dict, list, tuple, set, *_PLAIN))  # they have no attributes of their own


def load_checkpoint(
    path: str | Path, keys: Iterable[str] | None = None, map_location: Any = "cpu", max_bytes: int | None = None
) -> Any:
    """Load the state saved at `path`. No code from the file is ever run.

    Args:
        path: the file, its plain name (`c.pt` for `c.pt.slip`), or a folder, which means its `latest`. If `c.pt.lz4`
            does not exist, another form such as `c.pt.slip` is opened with a warning.
        keys: only these parts, as dotted paths (`["model", "optimizer.state"]`); nothing else of a `.slip` file is
            read.
        map_location: where to put the tensors, as `torch.load` takes it: a device or its name; a dict or a function
            (storage, name) from where each was saved; None puts each where it was saved.
        max_bytes: memory that loading may take; by default nine tenths of what is available.

    Raises:
        CorruptCheckpointError: if the file is damaged.
        UnsafeCheckpointError: if loading it would run code.
        TooLargeError: if it would take more than `max_bytes`.
    """
    file = find_file(path)
    if is_slip(file):
        with CheckpointFile(file, max_bytes) as slip:
            return slip.load(keys, map_location)
    state = read_torch(file, map_location, max_bytes)
    if keys is None:
        return state
    try:
        tree, leaves = flatten(state, error=CheckpointError)
    except TypeError as error:
        raise CheckpointError(f"{file}: {error}") from error
    return unflatten(select(tree, list(keys)), leaves.data.__getitem__)


def is_slip(path: Path) -> bool:
    """Whether the file begins as `.slip` files do, or is called so."""
    return is_container(path) or path.suffix == ".slip"


def find_file(path: str | Path) -> Path:
    """Return the file that `path` names: itself, or the newest of its forms, with a warning when there are several or
    another form was named."""
    path = Path(path)
    if path.is_dir():
        path = _latest_in(path)
    named_form = path.suffix in (".slip", ".lz4")
    if named_form and path.is_file():
        return path
    plain = path.with_suffix("") if named_form else path
    forms = [plain.with_name(plain.name + form) for form in FORMS]
    found = [p for p in forms if p.is_file()]
    if not found:
        raise FileNotFoundError(f"no checkpoint at {path} (looked for {', '.join(p.name for p in forms)})")
    newest = max(found, key=lambda p: p.stat().st_mtime_ns)
    if named_form:
        warnings.warn(f"there is no {path}: opening {newest.name} beside it", stacklevel=3)
    elif len(found) > 1:
        warnings.warn(f"there are several forms of {path}: taking the newest, {newest.name}", stacklevel=3)
    return newest


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a checkpoint's file, as `sha256sum` prints it."""
    file = find_file(path)
    with os.fdopen(open_regular(file), "rb") as opened:
        Reader(file).claim(os.fstat(opened.fileno()).st_size, "the file")  # a sparse file of terabytes takes hours
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check_listed(path: Path, sha256: str) -> None:
    """Raise CorruptCheckpointError if a file beside a SHA256SUMS, as the policies of the package are, is not the listed
    one.

    Args:
        sha256: of the bytes that were loaded.
    """
    sums = path.parent / "SHA256SUMS"
    listed = Reader(sums, max_bytes=1 << 20).read(sums).splitlines() if sums.is_file() else []
    wanted = {line.split()[0] for line in listed if line.split()[1:] == [os.fsencode(path.name)]}
    if wanted and wanted != {sha256.encode()}:
        raise CorruptCheckpointError(f"{path} is not the file that {sums} lists: install the package again")


def number_of(path: Path) -> int | None:
    """Return the number at the end of a checkpoint's name; None if it has none."""
    match = _NAME.match(path.name)
    return int(match["step"]) if match else None


def series_of(path: Path) -> str | None:
    """Return the part of a checkpoint's name before its number: what the files of one series share."""
    match = _NAME.match(path.name)
    return match["stem"] if match else None


def _latest_in(folder: Path) -> Path:
    """The `latest` link of a folder or of its checkpoints/, else the file with the highest number. A file that was
    saved after that of the link counts as latest: the process was killed before it changed the link."""
    for place in (folder, folder / "checkpoints"):
        numbered = regular_files(
            place, lambda name: fnmatchcase(name, "*_[0-9]*.pt*") and _NAME.match(name) is not None
        )
        links = [Path(os.path.realpath(link)) for link in place.glob("latest.pt*")]
        linked = next((link for link in links if link.is_file()), links[0] if links else None)
        if linked is not None and linked.is_file():
            number, saved = _number_and_time(linked)
            series = [p for p in numbered if series_of(p) == series_of(linked)]
            numbered = [p for p in series if number_of(p) > number and p.stat().st_mtime_ns > saved]  # type: ignore[operator]
        if numbered:
            return max(numbered, key=_number_and_time)  # by number: c_1000 is after c_999
        if linked is not None:
            return place / "latest.pt"
    return folder / "latest.pt"


def _number_and_time(path: Path) -> tuple[int, int]:
    return number_of(path) or 0, path.stat().st_mtime_ns


# --- the checkpoints of a run


def find_run(path: str | PathLike[str]) -> Path:
    """Return the run folder at `path`: the folder itself, or that of a file or folder inside it, such as a
    checkpoint."""
    path = Path(path).absolute()
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give a run folder, or a file inside one")
    folder = path if path.is_dir() else path.parent
    for candidate in (folder, folder.parent):  # checkpoints are one folder below
        if (candidate / "config.yaml").is_file():
            refuse_outside_links(candidate)
            return candidate
    runs = sorted(inner.parent.name for inner in folder.glob("*/config.yaml"))
    if runs:
        raise FileNotFoundError(f"{folder} holds {len(runs)} runs: name one of them, such as {folder / runs[0]}")
    raise FileNotFoundError(f"{folder} is not a run folder: config.yaml is missing there and in the folder above")


def checkpoints_of(folder: Path) -> list[Path]:
    """The checkpoints ckpt_000123.pt… of a run, the highest iteration first; of several forms of one, the last
    written."""
    found = regular_files(folder, lambda name: name.startswith("ckpt_") and _NAME.match(name) is not None)
    if not found:
        raise FileNotFoundError(f"no checkpoint in {folder}: the run has not reached its first save_interval")
    return sorted(found, key=lambda path: (number_of(path) or 0, path.stat().st_mtime_ns), reverse=True)


def is_damage(error: Exception) -> bool:
    """Whether an error means a broken file: a bad sector is damage; a missing permission or file is not."""
    return not isinstance(error, OSError) or error.errno == errno.EIO


def load_checked(path: Path) -> Any:
    """Load the state at `path` after every byte of it was checked."""
    if not is_slip(path):  # torch itself takes flipped bytes for data
        check_torch(path)
    return load_checkpoint(path)


def load_hashed(path: Path) -> tuple[Any, str]:
    """Return the state at `path`, as `load_checked` does, and the SHA-256 of the bytes that were loaded: a training may
    replace or remove the file meanwhile."""
    for _ in range(HASH_TRIES):
        with os.fdopen(open_regular(path), "rb") as file:
            before = os.fstat(file.fileno())
            Reader(path).claim(before.st_size, "the file")  # a sparse file of terabytes takes hours
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        state = load_checked(path)
        try:
            after = os.stat(path)
        except FileNotFoundError:  # removed after it was loaded
            return state, sha256
        if all(
            getattr(before, name) == getattr(after, name) for name in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
        ):
            return state, sha256
    raise CheckpointError(f"{path} changes while it is read: wait until its writer has finished, or copy it")


def newest_good(
    folder: Path, read: Callable[[Path], Any] = load_checked, log: Callable[[str], None] = lambda text: None
) -> tuple[Path, Any]:
    """Return the newest checkpoint in a run's `folder` that `read` can read, and its result.

    Args:
        read: a difference counts with the file it needs.
        log: gets one line if newer ones are broken: why, what is used instead, and what to do.
    """
    broken: list[str] = []
    for path in checkpoints_of(folder):
        try:
            content = read(path)
        except FileNotFoundError:  # removed meanwhile by a training that is running
            continue
        except (CheckpointError, OSError) as error:
            if not is_damage(error):
                raise
            broken.append(f"{path.name} is broken ({str(error).removeprefix(f'{path}: ')})")
            continue
        if broken:
            used = f"continuing from iteration {number_of(path)}, {path.name}"
            log(f"{', '.join(broken)}: {used}; delete broken files, or rename them to keep them")
        return path, content
    why = ", ".join(broken[:3]) + (" ..." if len(broken) > 3 else "")
    raise CorruptCheckpointError(
        f"no checkpoint in {folder} is complete: {why}. Copy one back from elsewhere, or start a new run with init= and a good policy"
    )


# --- the torch forms


def write_pt(path: Path, state: Any, fs: FileSystem) -> int:
    """Write a plain `.pt`; return the bytes written."""
    with atomic_file(path, fs) as file:
        torch.save(state, cast(IO[bytes], file))
    return file.position


def write_lz4(path: Path, state: Any, level: int, fs: FileSystem) -> int:
    """Write a `.pt.lz4`, an LZ4 frame around a torch file; return the bytes written."""
    import lz4.frame

    options = {"compression_level": level, "content_checksum": True, "block_size": lz4.frame.BLOCKSIZE_MAX4MB}
    with atomic_file(path, fs) as file, lz4.frame.open(file, "wb", **options) as frame:
        torch.save(state, frame)
    return file.position


def read_torch(path: Path, map_location: Any = "cpu", max_bytes: int | None = None) -> Any:
    """Read a `.pt` or `.pt.lz4` within the budget and without running anything that is in it."""
    reader = Reader(path, max_bytes=max_bytes, error=CorruptCheckpointError)
    with os.fdopen(open_regular(path), "rb") as file:
        magic = file.read(4)
    source: Any = path
    if magic == _LZ4_MAGIC:
        source = reader.lz4(path)
        magic = bytes(source.getbuffer()[:4])
    if magic[:2] == b"PK":
        held = _claim_archive(source, reader)
    elif magic[:1] == b"\x80":
        reader.fail(
            "is a torch file as torch wrote it before version 1.6, whose sizes cannot be checked before it is read: if you "
            "trust it, open it with torch.load and save it again with torch.save"
        )
    else:
        reader.fail("is not a checkpoint, neither ours nor torch's")
    place: Any = locator(map_location)
    try:
        with torch.serialization.safe_globals(_numpy_globals()):
            state = torch.load(source, map_location=place, weights_only=True)
    except CheckpointError as error:  # of `place`
        raise CheckpointError(f"{path}: {error}") from error
    except pickle.UnpicklingError as error:
        if "Unsupported" in str(error) or "GLOBAL" in str(error) or "global" in str(error):
            raise UnsafeCheckpointError(
                f"{path}: holds more than tensors and plain values, and loading it would run code from the file: {_first_line(error)}"
            ) from error
        raise CorruptCheckpointError(f"{path}: not a readable torch file: {_first_line(error)}") from error
    except (OSError, torch.OutOfMemoryError):  # of the disk or the device, which is not damage
        raise
    except Exception as error:  # torch takes the pickle apart with plain Python: any error is possible
        raise CorruptCheckpointError(f"{path}: not a readable torch file: {_first_line(error)}") from error
    _check_loaded(state, held, reader)
    return state


def check_torch(path: Path) -> None:
    """Check the checksums of a torch file, where its form has some; raise CorruptCheckpointError."""
    with os.fdopen(open_regular(path), "rb") as file:
        if file.read(2) != b"PK":
            return
    _claim_archive(path, Reader(path, error=CorruptCheckpointError))
    with _reading_zip(path), zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise CorruptCheckpointError(f"{path}: the checksum of {broken!r} is wrong")


_ZIP_ERRORS = (RuntimeError, EOFError, ValueError, OverflowError, OSError)


@contextlib.contextmanager
def _reading_zip(name: object) -> Iterator[None]:
    """Turn the errors of a damaged archive into ours."""
    try:
        yield
    except SaveError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, *_ZIP_ERRORS) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # EINVAL: a place before the file's beginning
            raise
        raise CorruptCheckpointError(f"{name}: not a readable torch file: {_first_line(error)}") from error


def _claim_archive(source: Path | io.BytesIO, reader: Reader) -> int:
    """Count what the entries of a torch file take once they are decompressed; return it."""
    with _reading_zip(reader.name), zipfile.ZipFile(source) as archive:
        if archive.start_dir != _directory_offset(cast(IO[bytes], archive.fp)):
            reader.fail("its zip directory is not where torch would read it")
        entries = archive.infolist()
        held = reader.claim(sum(entry.file_size for entry in entries), "the archive")
        for entry in entries:
            if entry.filename.lower().endswith("data.pkl"):  # torch ignores the case
                check_pickle(archive.read(entry), reader)
    if isinstance(source, io.BytesIO):
        source.seek(0)
    return held


def _directory_offset(file: IO[bytes]) -> int:
    """Return where an archive says that its directory begins; -1 if its end is not as torch writes it.

    Python computes the place from the end of the file, torch takes this number: a file with two directories would be
    checked by one and loaded by the other.
    """
    record, locator, end = 56, 20, 22  # bytes of the last parts; the first two only in ZIP64 archives
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - record - locator - end))
    tail = file.read()
    last, before, first = tail[-end:], tail[-end - locator : -end], tail[: -end - locator]
    if last[:4] != b"PK\5\6" or last[-2:] != b"\0\0":
        return -1
    if before[:4] != b"PK\6\7":
        return int.from_bytes(last[16:20], "little")
    if int.from_bytes(before[8:16], "little") != size - record - locator - end or first[:4] != b"PK\6\6":
        return -1
    return int.from_bytes(first[48:56], "little")


def _check_loaded(state: Any, held: int, reader: Reader) -> None:
    """Bound what torch loaded: the number of values and levels, what strides of 0 repeat, and tensors that torch made
    larger than the `held` bytes of the file."""
    sizes: dict[int, int] = {}  # values in a list or dict by its id; a file may name one many times
    storages: dict[int, int] = {}

    def count(node: Any, depth: int) -> int:
        if depth > MAX_DEPTH:
            reader.fail(f"it is nested deeper than {MAX_DEPTH} levels, or contains itself")
        if type(node) not in _BUILT_IN and any(hasattr(type(node), name) for name in getattr(node, "__dict__", ())):
            reader.fail("a value in it replaces its own methods")
        if isinstance(node, (dict, list, tuple, set, frozenset)):
            if id(node) not in sizes:
                sizes[id(node)] = _MAX_VALUES  # until it is counted
                children = node.values() if isinstance(node, dict) else node
                nested = [child for child in children if type(child) not in _PLAIN]
                sizes[id(node)] = 1 + len(node) - len(nested) + sum(count(child, depth + 1) for child in nested)
            if sizes[id(node)] >= _MAX_VALUES:
                reader.fail(f"it holds more than {_MAX_VALUES} values, or contains itself")
            return sizes[id(node)]
        if isinstance(node, torch.Tensor) and node.layout is torch.strided and node.device.type != "meta":
            storage, shown = node.untyped_storage(), node.numel() * node.element_size()
            storages[storage.data_ptr()] = storage.nbytes()
            if shown > storage.nbytes():
                reader.claim(shown - storage.nbytes(), "a tensor that repeats its numbers")
            if node._backward_hooks:
                reader.fail("a tensor in it has hooks")
        elif isinstance(node, torch.storage.TypedStorage | torch.UntypedStorage | torch.serialization.StorageType):
            reader.fail(f"it holds a {type(node).__name__} where a tensor belongs")
        elif callable(node):
            reader.fail("it holds a function or a class where a value belongs")
        return 1

    count(state, 0)
    if sum(storages.values()) > held:
        reader.fail("a tensor is larger than the numbers that the file holds for it")


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    line = text.splitlines()[0][:300] if text else type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in line)


def _numpy_globals() -> list[Any]:
    """What a pickled array of plain numbers names; making one runs no code of the file, and takes no memory of a size
    that the file chooses."""
    try:
        from numpy._core import multiarray
    except ImportError:  # NumPy 1
        from numpy.core import multiarray  # type: ignore[no-redef]
    dtypes = {type(np.dtype(code)) for code in "?bBhHiIlLqQefdFDSUMm"}
    # torch may set the state of an np.ndarray, but no file can name it so and make one of any size: names end at \n
    own = [(_no_bytes, "builtins.bytes"), (_ArrayType, "numpy.ndarray"), (np.ndarray, "numpy.ndarray\n")]
    core = [(_empty_array, f"numpy.{name}.multiarray._reconstruct") for name in ("_core", "core")]
    return [multiarray.scalar, np.dtype, *dtypes, *own, *core]


class _ArrayType:
    """Stands for np.ndarray in a pickle."""

    def __new__(cls, *_: Any) -> Any:
        """Refuse to make one."""
        raise ValueError("an array that is not made as NumPy makes it")


def _no_bytes(*size: Any) -> bytes:
    """`bytes` as a pickle of empty bytes calls it."""
    if size:
        raise ValueError("bytes of a size that the file chooses")
    return b""


def _empty_array(kind: Any, shape: Any, code: Any) -> np.ndarray:
    """`_reconstruct` as a pickled array calls it: its shape and numbers are set afterwards."""
    if kind is not _ArrayType or shape != (0,):
        raise ValueError("an array that is not made as NumPy makes it")
    return np.empty(0, np.int8)
