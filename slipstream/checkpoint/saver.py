"""AsyncCheckpointSaver: copy the state now, write it in the background.

A `.pt.slip` file is a safetensors file of ours; docs/checkpoint-format.md describes the bytes. All tensors of a state
are in a few streams of numbers of one width. A stream is cut into chunks of 1 MiB, each one a piece of the file,
compressed on its own; so single tensors can be read, and threads share the work. A difference stores chunks relative to
those of an earlier complete file, its base. Other readers see compressed streams as bytes, and the tensors themselves
if nothing is compressed.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.checkpoint.load import FORMS, KIND, number_of, read_base, series_of
from slipstream.checkpoint.signals import StopFlag
from slipstream.checkpoint.torch_files import write_lz4, write_pt
from slipstream.storage.background import map_in_threads
from slipstream.storage.codec.chunks import CHUNK_BYTES, encode_chunk, free_scratch, take_scratch
from slipstream.storage.errors import UnsafeFolderError
from slipstream.storage.files import atomic_file, point_link, prepare_folder, remove_file, sync_folder
from slipstream.storage.staging import MOMENTS, Buffer, Layout, SnapshotSaver, View, make_tensor
from slipstream.storage.tensor_file import (
    Entry,
    Reader,
    TensorFile,
    TensorFileWriter,
    checksum_of,
    entry_type,
    read_identity,
    unique_name,
)
from slipstream.storage.tree import flatten, unflatten, walk_leaves

SLIP_HINT = (
    "checkpoints are .slip files: slipstream.load_checkpoint(path) opens them, `slipstream ckpt export PATH --to pt` writes a "
    ".pt; compress='lz4' or False (slipstream train: compress_checkpoint=lz4|false) saves .pt.lz4 or .pt"
)
_FORMS = {True: "slip", "slip": "slip", "lz4": "lz4", False: "pt"}
_SUFFIX = {"slip": ".slip", "lz4": ".lz4", "pt": ""}
_INFINITE = 0x7F800000  # the bits of an infinite float32
_MANTISSA_BITS = {"int8": 3, "bf16": 7}  # with sign and exponent about 8 and 16 bits, before they are compressed


class AsyncCheckpointSaver(SnapshotSaver):
    """Saves checkpoints beside the training. `save_async` returns once the state is copied; a thread compresses and
    writes it.

        with AsyncCheckpointSaver(full_every=10, keep_last=5) as saver:
            saver.install_signal_handlers()
            for it in range(iterations):
                ...
                if it % 100 == 0 or saver.stop_requested:
                    saver.save_async(state(), f"runs/checkpoint_{it}.pt", metrics={"return": mean_return})
                if saver.stop_requested:
                    break

    An error of the thread is raised, as CheckpointError, by the next `save_async`, `wait` or `shutdown`. That call
    saves nothing; later ones work again once the cause is gone.

    Args:
        max_queue_size: snapshots that may wait, besides the one being written.
        queue_policy: what `save_async` does when that many wait: "block", "drop_oldest" or "raise".
        compression_level: 0 to 16. LZ4's own scale for "lz4"; for `.slip` 0 stores raw, the others are one.
        full_every: of files that differ by their number alone, such as c_100.pt and c_200.pt, write a complete one
            every n-th time and differences to it in between. Needs the memory of one more snapshot.
        moments: "int8" or "bf16" rounds optimizer moments to 3 or 7 bits of mantissa, which makes files much smaller;
            None keeps every bit.
        keep_last: how many numbered files of one series stay, besides the complete ones that they need; None for all.
        links: keep a link `latest.pt` (with the suffix of the form) to the last numbered file.
        announce: gets lines for the user: how to open `.slip` files (once per process), and that the queue
            is full; stderr by default.
    """

    full_hint = " (slipstream train: save_interval, save_compression_level, async_checkpoint_queue_size)"
    _slip_explained: ClassVar[bool] = False  # of this process

    def __init__(
        self,
        max_queue_size: int = 3,
        verbose: bool = False,
        *,
        queue_policy: str = "block",
        compression_level: int = 9,
        full_every: int = 1,
        moments: str | None = None,
        keep_last: int | None = None,
        links: bool = False,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        for name, value in {"full_every": full_every, "keep_last": keep_last}.items():
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name}={value!r} must be a whole number from 1 on")
        if moments is not None and moments not in _MANTISSA_BITS:
            raise ValueError(f"moments={moments!r} is unknown: use None (exact), 'bf16' or 'int8'")
        if not 0 <= compression_level <= 16:
            raise ValueError(f"compression_level={compression_level} must be from 0 (none) to 16")
        super().__init__("checkpoint saver", CheckpointError, max_queue_size, queue_policy, verbose, announce)
        self.compression_level, self.full_every, self.moments = compression_level, full_every, moments
        self.keep_last, self.links = keep_last, links
        self._stop = StopFlag()
        self._base: Base | None = None
        self._since_full = 0
        self._bases: dict[Path, str] = {}  # of each file that was written, the name of the one that it needs
        self._folders: set[str] = set()
        self._counts |= {"full": 0, "differences": 0}

    def save_async(
        self,
        checkpoint: Any,
        path: str | Path,
        compress: bool | str = True,
        *,
        metrics: dict[str, float] | None = None,
        step: int | None = None,
    ) -> Path:
        """Copy the state as it is now and write it in the background.

        Args:
            compress: True writes `path`.slip, our format; "lz4" `path`.lz4; False `path` itself, a plain torch file.
            metrics: numbers stored with the checkpoint, shown by `slipstream ckpt info`.
            step: the iteration; by default the number in the file's name.

        Returns:
            The path that the file will have.
        """
        start = time.perf_counter()
        if compress not in _FORMS:
            raise ValueError(f"compress={compress!r} is unknown: use True (our format), 'lz4' or False (a plain .pt)")
        form = _FORMS[compress]
        name = _file_name(path)
        if form == "slip" and not AsyncCheckpointSaver._slip_explained:
            AsyncCheckpointSaver._slip_explained = True
            self._announce(SLIP_HINT)
        target = Path(name if name.endswith(_SUFFIX[form]) else name + _SUFFIX[form])
        numbers = _checked_metrics(metrics or {})
        step = None if step is None else operator.index(step)
        self._worker.check()
        folder = os.path.dirname(name)
        if folder not in self._folders:
            try:
                prepare_folder(target.parent)
            except UnsafeFolderError:
                raise
            except OSError as error:
                raise CheckpointError(f"cannot save into {target.parent}: {type(error).__name__}: {error}") from error
            self._folders.add(folder)
        self._make_room()
        tree, leaves = flatten(checkpoint, for_torch=form != "slip")
        buffer = self._staging.snapshot(leaves)
        self._queue(start, target, buffer, self._write, target, form, tree, buffer, numbers, step)
        return target

    def shutdown(self, timeout: float | None = 60) -> None:
        """Finish the queue and end the threads; raise errors that were not raised before. May be called twice."""
        self._stop.restore()
        super().shutdown(timeout)

    @property
    def stop_requested(self) -> bool:
        """True after SIGINT, SIGTERM, SIGUSR1, SIGHUP or SIGQUIT: end the iteration, save a last checkpoint, leave."""
        return self._stop.requested

    def install_signal_handlers(self, on_stop: Callable[[int], None] | None = None) -> None:
        """Turn the first of `STOP_SIGNALS` into `stop_requested`; a second SIGINT ends the process at once.

        The handler saves nothing itself: in the middle of an update the state is neither the old nor the new one. The
        loop reads `stop_requested` after each iteration, saves and leaves; `shutdown` finishes the queue and restores
        the signals. `on_stop(signum)` is called at the first signal. Call this from the main thread.
        """
        self._stop.install(on_stop)

    def _release(self, buffer: Buffer) -> None:
        if self._base is None or buffer is not self._base.buffer:
            super()._release(buffer)

    def _write(
        self, path: Path, form: str, tree: Any, buffer: Buffer, metrics: dict[str, float], step: int | None
    ) -> None:
        """Write one snapshot, in the background."""
        layout, host, base = buffer.layout, buffer.fetch(), None
        if form == "slip":
            if self.moments is not None:
                round_moments(layout, host, _MANTISSA_BITS[self.moments])
            base, compress = self._base_of(path, buffer), self.compression_level > 0
            identity, written = write_slip(
                path, tree, layout, host, compress=compress, base=base, metrics=metrics, step=step
            )
            self._counts["differences" if base else "full"] += 1
            if base is not None:
                self._since_full += 1
            elif self.full_every > 1 and number_of(path) is not None:
                self._forget_base()
                self._base, self._since_full = Base(path, identity, buffer), 0
        elif form == "lz4":
            written = write_lz4(path, _state_of(tree, layout, host), self.compression_level)
        else:
            written = write_pt(path, _state_of(tree, layout, host))
        self._count(path, layout.nbytes, written, packed=form != "pt")
        if number_of(path) is None:
            return
        self._bases[path] = base.path.name if base else ""
        if self.links:
            link_latest(path)
        if self.keep_last is not None:
            self._remove_older(path, self.keep_last)

    def _remove_older(self, saved: Path, count: int) -> None:
        """Remove all but the last `count` files of a series, and what these need.

        A series are the files beside `saved` that differ by their number alone. The folder itself is the only record.
        """
        series = [p for p in saved.parent.iterdir() if series_of(p) == series_of(saved)]
        found = [path for path in series if not path.is_symlink() and path.is_file()]
        found.sort(key=lambda path: (path in self._bases, number_of(path)))  # another run's leave first, at any number
        keep = {saved, *found[-count:]}
        needs = {path: self._bases[path] if path in self._bases else base_of(path) for path in {saved, *found}}
        needed = {needs[path] for path in keep}
        removed = [path for path in found if path not in keep and path.name not in needed]
        for path in sorted(removed, key=lambda path: not needs[path]):  # differences first: none ever loses its base
            with contextlib.suppress(FileNotFoundError):
                remove_file(path)
            self._bases.pop(path, None)
        if removed:
            sync_folder(saved.parent)
        if self._base is not None and self._base.path in removed:
            self._forget_base()

    def _base_of(self, path: Path, buffer: Buffer) -> Base | None:
        """Return the base for a difference: a file of the same series, unchanged, with the same tensors; None if there
        is none."""
        base = self._base
        if base is None or self._since_full + 1 >= self.full_every or base.buffer.layout != buffer.layout:
            return None
        is_next = base.path != path and base.path.parent == path.parent and series_of(base.path) == series_of(path)
        return base if is_next and read_identity(base.path) == base.identity else None

    def _forget_base(self) -> None:
        if self._base is not None:
            self._staging.release(self._base.buffer)
        self._base = None


def _state_of(tree: Any, layout: Layout, host: np.ndarray) -> Any:
    """The state of a snapshot; its tensors share the snapshot's memory, each through a storage of its own."""
    parts = []
    for storage in layout.storages:
        data = layout.storage_bytes(storage, host)
        parts.append(torch.from_numpy(data) if storage.nbytes else torch.empty(0, dtype=torch.uint8))
    return unflatten(tree, lambda i: make_tensor(layout.views[i], parts[layout.views[i].storage]))


def base_of(path: Path) -> str:
    """Return the name of the file that a difference needs; "" for a complete, a torch, or a damaged file."""
    with contextlib.suppress(CheckpointError, OSError):
        reader = Reader(path, error=CorruptCheckpointError)
        with TensorFile.open(path, KIND, reader=reader) as container, reader.parsing("the index"):
            base = read_base(container)
            return base[0] if base else ""
    return ""


def link_latest(saved: Path) -> None:
    """Make `latest` a link to a checkpoint, with the suffix of its form; links of other forms are removed."""
    form = saved.suffix if saved.suffix in FORMS else ""
    point_link(saved.with_name(f"latest.pt{form}"), saved)
    for stale in (saved.with_name(f"latest.pt{other}") for other in FORMS if other != form):
        if stale.is_symlink():
            remove_file(stale)


def _file_name(path: Any) -> str:
    """Return a path as text after a check that it can name a file."""
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise TypeError(f"the path of a checkpoint must be a text or a Path, not {path!r}")
    if "\0" in name or os.path.basename(name) in ("", ".", "..") or os.path.isdir(name):
        raise ValueError(f"{name!r} names no file: give one for the checkpoint, such as runs/checkpoint_100.pt")
    return name


def _checked_metrics(metrics: Any) -> dict[str, float]:
    """Return the metrics as a file holds them: numbers by name."""
    if not isinstance(metrics, Mapping) or not all(isinstance(name, str) for name in metrics):
        raise TypeError(f"metrics must be a dict of numbers by name, not {metrics!r}")
    return {str(name): float(value) for name, value in metrics.items()}


# --- the file


@dataclass
class Base:
    """A complete file on disk and its snapshot in memory: what differences are taken against."""

    path: Path
    identity: bytes
    buffer: Buffer


def round_moments(layout: Layout, host: np.ndarray, mantissa_bits: int) -> None:
    """Round the float32 optimizer moments of a snapshot in place; the zeros at their ends compress to almost nothing.

    The relative error is at most 2^-(mantissa_bits + 1). Rounding twice changes nothing more; infinities and NaNs stay.
    """
    dropped = 23 - mantissa_bits
    exact = {view.storage for view in layout.views if view.dtype != "float32"}
    for p, storage in enumerate(layout.storages):
        if storage.role in MOMENTS and p not in exact:
            bits = layout.storage_bytes(storage, host).view(np.uint32)
            finite = (bits & _INFINITE) != _INFINITE
            np.copyto(bits, (bits + np.uint32(1 << (dropped - 1))) >> dropped << dropped, where=finite)


def write_slip(
    path: Path,
    tree: Any,
    layout: Layout,
    host: np.ndarray,
    *,
    compress: bool = True,
    base: Base | None = None,
    metrics: dict[str, float] | None = None,
    step: int | None = None,
) -> tuple[bytes, int]:
    """Write the tensors of a snapshot, which are in `host`, uint8 [n]; return (identity, bytes written)."""
    older = None if base is None else base.buffer.host.numpy()

    def encode(chunk: tuple[int, int, slice]) -> tuple[int, int, Any, int, np.ndarray]:
        s, width, place = chunk
        scratch = take_scratch()
        codec, payload = encode_chunk(host[place], width, scratch, None if older is None else older[place])
        return s, codec, payload, checksum_of(payload), scratch

    chunks = [
        (s, stream.width, slice(start, min(start + CHUNK_BYTES, stream.start + stream.nbytes)))
        for s, stream in enumerate(layout.streams)
        for start in range(stream.start, stream.start + stream.nbytes, CHUNK_BYTES)
    ]
    places = [[s.stream, s.start - layout.streams[s.stream].start, s.nbytes] for s in layout.storages]
    head = {
        "structure": tree,
        "tensors": [[*places[view.storage], *view[1:]] for view in layout.views],
        "streams": [[s.width, s.nbytes] for s in layout.streams],
        "base": [base.path.name, base.identity.hex()] if base else None,
        "metrics": flatten(metrics or {})[0],
        "step": step,
    }
    raw = None if compress else _tensor_entries(tree, layout)
    largest = [Entry(_stream_name(s), "U8", [x.nbytes], x.nbytes) for s, x in enumerate(layout.streams)]
    with atomic_file(path) as file:
        writer = TensorFileWriter(file, KIND)
        writer.reserve(head, raw or largest, len(chunks))
        if not compress:
            for s, _, place in chunks:
                writer.add(host[place], name=_stream_name(s))
        for s, codec, payload, checksum, scratch in map_in_threads(encode, chunks if compress else []):
            writer.add(payload, name=_stream_name(s), codec=codec, checksum=checksum)
            free_scratch(scratch)
        nbytes = writer.finish(entries=raw)
    return writer.identity, nbytes


def _stream_name(number: int) -> str:
    return f"slipstream.stream.{number}"


def _tensor_entries(tree: Any, layout: Layout) -> list[Entry]:
    """Return what other readers see of an uncompressed snapshot: every tensor under its keys, in the order of the
    file."""
    first: dict[int, tuple[str, View]] = {}  # of each storage, a tensor that shows it
    for path, i in walk_leaves(tree):
        first.setdefault(layout.views[i].storage, (".".join(map(str, path)), layout.views[i]))
    names: dict[str, int] = {}
    entries: list[Entry] = []

    def pad(start: int, stop: int) -> None:
        if stop > start:
            entries.append(Entry(unique_name("padding", names), "U8", [stop - start], stop - start))

    position = 0
    for p, storage in sorted(enumerate(layout.storages), key=lambda pair: (pair[1].start, pair[1].nbytes)):
        pad(position, storage.start)
        name, view = first.get(p, ("tensor", None))  # one in the _metadata of an OrderedDict has no path
        shown = entry_type(*_shown(view, storage.nbytes), storage.nbytes)
        entries.append(Entry(unique_name(name, names), *shown, storage.nbytes))
        position = storage.start + storage.nbytes
    pad(position, layout.nbytes)
    return entries


def _shown(view: View | None, nbytes: int) -> tuple[str, Sequence[int]]:
    """Return torch's name of the dtype, and the shape that other readers see: flat if the tensor has its
    numbers in another order; "" and () if it does not show all bytes of the storage."""
    if view is None:
        return "", ()
    itemsize = getattr(torch, view.dtype).itemsize
    if view.offset or math.prod(view.shape) * itemsize != nbytes:
        return "", ()
    return view.dtype, [nbytes // itemsize] if view.stride else view.shape
