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
from typing import Any, NamedTuple

import numpy as np
import torch

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.checkpoint.torch_files import Locator, locator, read_torch
from slipstream.storage.background import run_in_threads
from slipstream.storage.codec.chunks import CHUNK_BYTES, decode_chunk, free_scratch, take_scratch
from slipstream.storage.codec.registry import DELTA, RAW, CodecError
from slipstream.storage.files import refuse_outside_links, regular_files
from slipstream.storage.staging import View, make_tensor
from slipstream.storage.tensor_file import HASH_BYTES, MAX_DIMENSIONS, START, Reader, TensorFile, read_identity
from slipstream.storage.tree import check_tree, flatten, select, unflatten, walk_leaves

KIND = "ckpt"
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
        tree, leaves = flatten(state)
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
    return path.suffix == ".slip" or read_identity(path) != b""


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


# --- the file


class Stream(NamedTuple):
    """Numbers of one width, cut into chunks of CHUNK_BYTES."""

    width: int
    nbytes: int
    first: int  # piece of the first chunk; the others follow


Place = tuple[int, int, int]  # of a tensor's bytes: number of the stream, where in it, how many
Chunk = tuple[int, int]  # number of the stream, number in the stream
Target = tuple[int, np.ndarray]  # where in the chunk, and the bytes to fill from there


def read_base(container: TensorFile) -> tuple[str, bytes] | None:
    """Return name and identity of the complete file that a difference needs; None for a complete one."""
    reader, given = container.reader, container.head["base"]
    if given is None:
        return None
    name, identity = reader.text(given[0], "the base", 255), bytes.fromhex(given[1])
    if len(identity) != HASH_BYTES or name in ("", ".", "..") or any(c in name for c in "/\\\0"):
        reader.fail(f"the base {name!r} is not a plain file name")
    return name, identity


class CheckpointFile:
    """An open `.slip` file. `load` returns its state, or the part below some keys.

    Args:
        max_bytes: memory that loading may take; None for the default of `slipstream.storage.tensor_file`.
        data: the bytes of the file, if they were read before.
        as_base: the file must be complete: it is opened for a difference, and a base may not need a base itself.
    """

    def __init__(
        self, path: str | Path, max_bytes: int | None = None, *, data: bytes | None = None, as_base: bool = False
    ) -> None:
        self.path = Path(path)
        self._base: CheckpointFile | None = None
        reader = Reader(self.path, max_bytes=max_bytes, error=CorruptCheckpointError)
        self._container = TensorFile.open(path, KIND, reader=reader, data=data)
        try:
            with self._container.reader.parsing("the index"):
                self._read_head(self._container.reader, self._container.head)
            if as_base and self.base is not None:
                self._container.reader.fail("is a difference itself, and cannot be the base of another one")
            if self.base is not None:
                self._base = self._open_base(*self.base)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> bytes:
        """The SHA-256 of its header, which has the checksums of everything else."""
        return self._container.identity

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        return sum(nbytes for _, _, nbytes in set(self.places))

    def _read_head(self, reader: Reader, head: Any) -> None:
        """Check every number of the head: chunks fill the file, tensors are within streams."""
        self.base = read_base(self._container)
        self.step = None if head["step"] is None else reader.integer(head["step"], "the step", -(1 << 63))
        self.metrics = unflatten(head["metrics"], float, reader)
        if type(self.metrics) is not dict or not all(type(v) in (int, float) for v in self.metrics.values()):
            reader.fail("the metrics are malformed")
        self.streams: list[Stream] = []
        pieces = 0
        for width, nbytes in head["streams"]:
            if reader.integer(width, "the width of numbers") not in (1, 2, 4, 8):
                reader.fail(f"numbers of {width} bytes")
            self.streams.append(Stream(width, reader.integer(nbytes, "the size of a stream"), pieces))
            pieces += _chunks(nbytes)
        if pieces != len(self._container) or (self._container.sizes > CHUNK_BYTES).any():
            reader.fail(f"the streams have {pieces} chunks, the file {len(self._container)}")
        self.places: list[Place] = []
        self.views: list[View] = []
        itemsizes: dict[str, int] = {}
        for i, (stream, start, nbytes, dtype, shape, stride, offset, device) in enumerate(head["tensors"]):
            reader.integers([stream, start, nbytes, offset, *shape, *stride], "a number of a tensor")
            if start + nbytes > self.streams[stream].nbytes or len(shape) > MAX_DIMENSIONS:
                reader.fail("a tensor runs past the end of its stream, or has too many dimensions")
            if dtype not in itemsizes:
                itemsizes[dtype] = reader.torch_dtype(dtype, "a dtype").itemsize
            torch.device(reader.text(device, "a device", 64))
            itemsize = itemsizes[dtype]
            shown = reader.product([*shape, itemsize], "a tensor")
            if stride:
                reader.check_view(shape, stride, offset, itemsize, nbytes, "a tensor")
            elif shown + offset * itemsize > nbytes:
                reader.fail(f"a tensor of {dtype} {list(shape)} in {nbytes} bytes")
            self.places.append((stream, start, nbytes))
            self.views.append(View(i, dtype, tuple(shape), tuple(stride), offset, device))
        self.tree = head["structure"]
        reader.integers([i for _, i in walk_leaves(self.tree)], "the numbers of tensors", 0, len(self.views) - 1)

    def load(self, keys: Iterable[str] | None = None, map_location: Any = "cpu") -> Any:
        """Return the state, or its part below the dotted `keys`."""
        tree = self.tree if keys is None else select(self.tree, list(keys))
        wanted = range(len(self.views)) if keys is None else [leaf for _, leaf in walk_leaves(tree)]
        tensors = self._tensors(wanted, locator(map_location))
        return unflatten(tree, tensors.__getitem__, self._container.reader)

    def _tensors(self, wanted: Iterable[int], place: Locator) -> dict[int, Any]:
        """Read some tensors. Those of one place share their memory, which no others share."""
        devices = {self.places[i]: self.views[i].device for i in wanted}
        self._container.reader.claim(sum(nbytes for _, _, nbytes in devices), "the state")
        opened = {at: torch.empty(at[2], dtype=torch.uint8) for at in devices}
        targets: dict[Chunk, list[Target]] = {}
        for (stream, position, _), tensor in opened.items():
            left = tensor.numpy()
            while left.size:
                chunk, start = divmod(position, CHUNK_BYTES)
                target, left = left[: CHUNK_BYTES - start], left[CHUNK_BYTES - start :]
                targets.setdefault((stream, chunk), []).append((start, target))
                position += target.size
        run_in_threads(self._read_chunk, sorted(targets.items(), key=lambda job: job[0]))
        for at, device in devices.items():
            storage = place(opened[at].untyped_storage(), device)
            opened[at] = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        return {i: make_tensor(self.views[i], opened[self.places[i]]) for i in wanted}

    def check(self) -> None:
        """Read and decode every chunk; raise CorruptCheckpointError at the first one that is damaged."""
        check_tree(self.tree, len(self.views), self._container.reader)
        chunks = [(s, i) for s, stream in enumerate(self.streams) for i in range(_chunks(stream.nbytes))]
        run_in_threads(self._read_chunk, [(chunk, []) for chunk in chunks])
        if self._base is not None:
            self._base.check()

    def close(self) -> None:
        """Close the file."""
        self._container.close()
        if self._base is not None:
            self._base.close()

    def __enter__(self) -> CheckpointFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read_chunk(self, job: tuple[Chunk, list[Target]]) -> None:
        """Decode a chunk and copy it to its targets; one that is all of the chunk is decoded in place."""
        (s, i), targets = job
        scratch = take_scratch()
        size = min(CHUNK_BYTES, self.streams[s].nbytes - i * CHUNK_BYTES)
        if len(targets) == 1 and targets[0][1].size == size:
            self._decode(s, i, targets[0][1], scratch)
        else:
            chunk = scratch[0, :size]
            self._decode(s, i, chunk, scratch)
            for start, target in targets:
                target[:] = chunk[start : start + target.size]
        free_scratch(scratch)

    def _decode(self, s: int, i: int, out: np.ndarray, scratch: np.ndarray) -> None:
        """Chunk i of stream s into `out`, checked."""
        stream, reader = self.streams[s], self._container.reader
        piece = stream.first + i
        size, codec = int(self._container.sizes[piece]), self._container.codecs[piece]
        if codec == RAW and size == out.size:  # read to where it belongs
            self._container.read_into(piece, out.data)
            return
        older = None
        if codec & DELTA:
            if self._base is None:
                reader.fail("a difference in a file without a base")
            older = scratch[1, : out.size]
            self._base._decode(s, i, older, scratch)
        data = scratch[2, :size].data
        self._container.read_into(piece, data)
        try:
            decode_chunk(data, codec, stream.width, out, scratch[3], older)
        except CodecError as error:
            reader.fail(f"chunk {i} of stream {s}: {error}")

    def _open_base(self, name: str, identity: bytes) -> CheckpointFile:
        """Open the complete file that a difference needs."""
        path = Path(os.path.realpath(self.path)).parent / name  # of a `latest` link: beside the file itself
        reader, reason = self._container.reader, f"this difference needs {name}: "
        if not path.exists():
            reader.fail(f"{reason}it is not there")
        if read_identity(path) != identity:
            reader.fail(f"{reason}it is damaged, or another checkpoint than the one this was taken against")
        base = CheckpointFile(path, reader.max_bytes, as_base=True)
        if base.identity != identity or base.streams != self.streams:  # replaced just now, or forged
            base.close()
            reader.fail(f"{reason}it is another checkpoint, or does not hold the same tensors")
        return base


def _chunks(nbytes: int) -> int:
    return -(-nbytes // CHUNK_BYTES)
