"""Opening checkpoints of any form, and finding the newest good one of a run."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.checkpoint.file import CheckpointFile
from slipstream.checkpoint.torch_files import read_torch
from slipstream.storage.container import START, is_container
from slipstream.storage.files import refuse_outside_links, regular_files
from slipstream.storage.reader import Reader
from slipstream.storage.serializer import flatten, select, unflatten

FORMS = (".slip", ".lz4", "")
_NAME = re.compile(r"^(?P<stem>.*?)(?P<step>\d{1,18})\.pt(?:\.slip|\.lz4)?$")


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
    reader = Reader(file, max_bytes=max_bytes, error=CorruptCheckpointError)
    state = read_torch(reader.read(file), reader, map_location)
    if keys is None:
        return state
    try:
        tree, leaves = flatten(state, error=CheckpointError)
    except TypeError as error:
        raise CheckpointError(f"{file}: {error}") from error
    return unflatten(select(tree, list(keys)), leaves.data.__getitem__)


def load_hashed(path: Path) -> tuple[Any, str]:
    """Return the state at `path` and the SHA-256 of the bytes that were loaded: a run may replace or remove the file
    meanwhile."""
    reader = Reader(path, error=CorruptCheckpointError)
    data = reader.read(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if path.suffix != ".slip" and data[8 : 8 + len(START)] != START:
        return read_torch(data, reader), sha256
    with CheckpointFile(path, data=data) as slip:
        return slip.load(), sha256


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
    return hashlib.sha256(Reader(file).read(file)).hexdigest()


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


def newest_good(
    folder: Path, read: Callable[[Path], Any] = load_checkpoint, log: Callable[[str], None] = lambda text: None
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
