"""`.pt.slip` files: a checkpoint as a safetensors file of ours. docs/checkpoint-format.md describes the bytes.

All tensors of a state are in a few streams of numbers of one width. A stream is cut into chunks of 1 MiB, each one a
piece of the file, compressed on its own; so single tensors can be read, and threads share the work. A difference stores
chunks relative to those of an earlier complete file, its base. Other readers see compressed streams as bytes, and the
tensors themselves if nothing is compressed.
"""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.checkpoint.errors import CorruptCheckpointError
from slipstream.checkpoint.torch_files import Locator, locator
from slipstream.storage.background import BackgroundWorker
from slipstream.storage.codec.chunks import CHUNK_BYTES, Scratch, decode_chunk, encode_chunk
from slipstream.storage.codec.registry import DELTA, RAW, CodecError
from slipstream.storage.container import (
    HASH_BYTES,
    Container,
    ContainerWriter,
    Entry,
    checksum_of,
    entry_type,
    read_identity,
    unique_name,
)
from slipstream.storage.files import DISK, FileSystem, atomic_file
from slipstream.storage.reader import MAX_DIMENSIONS, Reader
from slipstream.storage.serializer import flatten, from_json, select, to_json, torch_dtype, unflatten, walk_leaves
from slipstream.storage.staging import MOMENTS, Buffer, Layout, Storage, View, make_tensor, plain_dtype

KIND = "ckpt"
_INFINITE = 0x7F800000  # the bits of an infinite float32
_local = threading.local()
_decoders = BackgroundWorker("checkpoint reader", threads=None, restart_after_fork=True)


@dataclass
class FileStream:
    """Numbers of one width, cut into chunks of CHUNK_BYTES."""

    width: int
    nbytes: int
    first: int  # piece of the first chunk; the others follow

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.nbytes // CHUNK_BYTES)


@dataclass
class Index:
    """Everything about a checkpoint except its numbers."""

    tree: Any
    views: Sequence[View]
    storages: Sequence[Storage]
    streams: list[FileStream]
    base: tuple[str, bytes] | None  # (name in the same folder, identity) of the complete file a difference needs
    metrics: dict[str, float]
    step: int | None


# --- writing


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


class CheckpointWriter:
    """Writes `.pt.slip` files. Keeps its threads and memory from one file to the next.

    Args:
        threads: how many compress; None for one per core, at most 4.
    """

    def __init__(self, threads: int | None = None, nice: int = 0, fs: FileSystem = DISK) -> None:
        self._fs = fs
        self._encoders = BackgroundWorker("checkpoint encoder", threads=threads, nice=nice)
        # one for every chunk that `map` lets be in flight
        self._scratches = [Scratch() for _ in range(2 * self._encoders.threads + 2)]

    def write(
        self,
        path: Path,
        tree: Any,
        layout: Layout,
        host: np.ndarray,
        *,
        level: int = 1,
        base: Base | None = None,
        metrics: dict[str, float] | None = None,
        step: int | None = None,
    ) -> tuple[bytes, int]:
        """Write the tensors of a snapshot, which are in `host`, uint8 [n]; return (identity, bytes written)."""
        older = None if base is None else base.buffer.host.numpy()
        free: queue.SimpleQueue[Scratch] = queue.SimpleQueue()
        for scratch in self._scratches:
            free.put(scratch)

        def encode(chunk: tuple[int, int, slice]) -> tuple[int, int, list[Any], int, Scratch]:
            s, width, place = chunk
            scratch = free.get()
            codec, payload = encode_chunk(host[place], width, None if older is None else older[place], level, scratch)
            return s, codec, payload, checksum_of(*payload), scratch

        chunks = [
            (s, stream.width, slice(start, min(start + CHUNK_BYTES, stream.start + stream.nbytes)))
            for s, stream in enumerate(layout.streams)
            for start in range(stream.start, stream.start + stream.nbytes, CHUNK_BYTES)
        ]
        head = {
            "structure": to_json(tree),
            "tensors": [list(view) for view in layout.views],
            "storages": [[s.stream, s.start, s.nbytes] for s in layout.storages],
            "streams": [[s.width, s.nbytes] for s in layout.streams],
            "base": [base.path.name, base.identity.hex()] if base else None,
            "metrics": to_json(flatten(metrics or {})[0]),
            "step": step,
        }
        raw = _tensor_entries(tree, layout) if level == 0 else None
        largest = [Entry(_stream_name(s), "U8", [x.nbytes], x.nbytes) for s, x in enumerate(layout.streams)]
        with atomic_file(path, self._fs) as file:
            writer = ContainerWriter(file, KIND)
            writer.reserve(head, raw or largest, len(chunks))
            for s, codec, payload, checksum, scratch in self._encoders.map(encode, chunks):
                writer.add(*payload, name=_stream_name(s), codec=codec, checksum=checksum)
                free.put(scratch)
            nbytes = writer.finish(head, raw)
        return writer.identity, nbytes

    def close(self) -> None:
        """End the threads."""
        self._encoders.close()


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
    position = 0

    def add(name: str, dtype: str, shape: Sequence[int], nbytes: int) -> None:
        nonlocal position
        entries.append(Entry(unique_name(name, names), *entry_type(dtype, shape, nbytes), nbytes))
        position += nbytes

    places = [(layout.streams[s.stream].start + s.start, s.nbytes, p) for p, s in enumerate(layout.storages)]
    for start, nbytes, p in sorted(places):
        if start > position:
            add("padding", "", (), start - position)
        name, view = first.get(p, ("tensor", None))
        add(name, *(("", ()) if view is None else _shown(view, nbytes)), nbytes)
    if layout.nbytes > position:
        add("padding", "", (), layout.nbytes - position)
    return entries


def _shown(view: View, nbytes: int) -> tuple[str, Sequence[int]]:
    """Return NumPy's or torch's name of the dtype, and the shape that other readers see: flat if the tensor has its
    numbers in another order; "" and () if it does not show all bytes of the storage."""
    dtype = plain_dtype(view.dtype)
    if isinstance(dtype, np.dtype):
        return (dtype.name if dtype.isnative else ""), view.shape
    if view.offset == 0 and math.prod(view.shape) * dtype.itemsize == nbytes:
        is_ordered = view.stride == torch.empty(view.shape, device="meta").stride()
        return view.dtype, view.shape if is_ordered else [nbytes // dtype.itemsize]
    return "", ()


# --- reading the index


def open_container(path: Path, max_bytes: int | None = None, data: bytes | None = None) -> Container:
    """Open a `.slip` file, or its bytes in memory; `head` is not checked yet."""
    reader = Reader(path, max_bytes=max_bytes, error=CorruptCheckpointError)
    if data is not None:
        return Container.from_bytes(data, KIND, str(path), reader=reader)
    return Container.open(path, KIND, reader=reader)


def read_summary(container: Container) -> tuple[tuple[str, bytes] | None, dict[str, float], int | None]:
    """Check the parts of the head that are not about tensors; return (base, metrics, step)."""
    reader, head, base = container.reader, container.head, None
    with reader.parsing("the index"):
        if head["base"] is not None:
            name, identity = reader.text(head["base"][0], "the base", 255), bytes.fromhex(head["base"][1])
            if len(identity) != HASH_BYTES or name in ("", ".", "..") or any(c in name for c in "/\\\0"):
                reader.fail(f"the base {name!r} is not a plain file name")
            base = name, identity
        step = None if head["step"] is None else reader.integer(head["step"], "the step", -(1 << 63))
        metrics = unflatten(from_json(head["metrics"], 0, reader), lambda i: None)
        if type(metrics) is not dict or not all(type(k) is str and type(v) in (int, float) for k, v in metrics.items()):
            reader.fail("the metrics are malformed")
    return base, metrics, step


def read_index(container: Container) -> Index:
    """Check every number of the head: chunks fill the file, storages are within streams, tensors within storages."""
    reader, head, summary = container.reader, container.head, read_summary(container)
    with reader.parsing("the index"):
        streams = _read_streams(container)
        reader.integers([n for place in head["storages"] for n in place], "the place of a storage")
        storages = [Storage(stream, start, nbytes, "") for stream, start, nbytes in head["storages"]]
        for storage in storages:
            if storage.start + storage.nbytes > streams[storage.stream].nbytes:
                reader.fail("a storage runs past the end of its stream")
        views = [
            View(s, d, tuple(shape), tuple(stride), o, device) for s, d, shape, stride, o, device in head["tensors"]
        ]
        reader.integers([n for v in views for n in (v.storage, v.offset, *v.shape, *v.stride)], "a size of a tensor")
        itemsizes = {name: _read_itemsize(name, reader) for name in {v.dtype for v in views}}
        for device in {v.device for v in views}:
            torch.device(reader.text(device, "a device", 64))
        for view in views:
            _check_view(view, itemsizes[view.dtype], storages[view.storage].nbytes, reader)
        tree = from_json(head["structure"], len(views), reader)
    return Index(tree, views, storages, streams, *summary)


def _read_streams(container: Container) -> list[FileStream]:
    reader, streams, piece = container.reader, [], 0
    for width, nbytes in container.head["streams"]:
        if reader.integer(width, "the width of numbers") not in (1, 2, 4, 8):
            reader.fail(f"numbers of {width} bytes")
        streams.append(FileStream(width, reader.integer(nbytes, "the size of a stream"), piece))
        piece += streams[-1].chunks
    if piece != len(container) or (container.sizes > CHUNK_BYTES).any():
        reader.fail(f"the streams have {piece} chunks, the file {len(container)}")
    return streams


def _read_itemsize(dtype: Any, reader: Reader) -> int:
    """Check the name of a dtype; return the bytes of a number."""
    if reader.text(dtype, "a dtype", 64).startswith("numpy:"):
        return reader.dtype(dtype.removeprefix("numpy:"), "a dtype").itemsize
    return torch_dtype(dtype, reader).itemsize


def _check_view(view: View, itemsize: int, held: int, reader: Reader) -> None:
    """Check a tensor against the `held` bytes of its storage."""
    if len(view.shape) > MAX_DIMENSIONS:
        reader.fail(f"a tensor of {len(view.shape)} dimensions")
    if not view.dtype.startswith("numpy:"):
        reader.check_view(view.shape, view.stride, view.offset, itemsize, held, "a tensor")
    elif reader.product([*view.shape, itemsize], "an array") != held:
        reader.fail(f"an array of {view.dtype} {list(view.shape)} in {held} bytes")


# --- reading the numbers

Chunk = tuple[int, int]  # number of the stream, number in the stream
Target = tuple[int, np.ndarray]  # where in the chunk, and the bytes to fill from there


class CheckpointFile:
    """An open `.slip` file. `index` says what it holds; `load` returns it, or the part below some keys.

    Args:
        max_bytes: memory that loading may take; None for the default of `slipstream.storage.reader`.
        data: the bytes of the file, if they were read before.
        as_base: the file must be complete: it is opened for a difference, and a base may not need a base itself.
    """

    def __init__(
        self, path: str | Path, max_bytes: int | None = None, *, data: bytes | None = None, as_base: bool = False
    ) -> None:
        self.path = Path(path)
        self._base: CheckpointFile | None = None
        self._container = open_container(self.path, max_bytes, data)
        try:
            self.index = read_index(self._container)
            if as_base and self.index.base is not None:
                self._container.reader.fail("is a difference itself, and cannot be the base of another one")
            if self.index.base is not None:
                self._base = self._open_base(*self.index.base)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> bytes:
        """The SHA-256 of its header, which has the checksums of everything else."""
        return self._container.identity

    def load(self, keys: Iterable[str] | None = None, map_location: Any = "cpu") -> Any:
        """Return the state, or its part below the dotted `keys`."""
        tree = self.index.tree if keys is None else select(self.index.tree, list(keys))
        views = self.index.views
        wanted = range(len(views)) if keys is None else {leaf for _, leaf in walk_leaves(tree)}
        place = locator(map_location)
        tensors = self.tensors(self.storages(sorted({views[i].storage for i in wanted})), place)
        with self._container.reader.parsing("the structure"):
            return unflatten(tree, tensors.__getitem__)

    def tensors(self, opened: dict[int, Tensor], place: Locator | None = None) -> dict[int, Any]:
        """Every tensor and array whose storage is among `opened`, by its number; `place` puts storages on devices."""
        made: dict[int, Any] = {}
        moved: dict[int, Any] = {}
        for i, view in enumerate(self.index.views):
            if view.storage in opened:
                data = opened[view.storage]
                if place is not None and not view.dtype.startswith("numpy:"):
                    if view.storage not in moved:
                        moved[view.storage] = place(data.untyped_storage(), view.device)
                    data = torch.empty(0, dtype=torch.uint8, device=moved[view.storage].device).set_(
                        moved[view.storage]
                    )
                made[i] = make_tensor(view, data)
        return made

    def storages(self, wanted: list[int]) -> dict[int, Tensor]:
        """Read some storages, uint8 [n] each in memory of its own."""
        self._container.reader.claim(sum(self.index.storages[p].nbytes for p in wanted), "the state")
        found = {p: torch.empty(self.index.storages[p].nbytes, dtype=torch.uint8) for p in wanted}
        targets: dict[Chunk, list[Target]] = {}
        for p, tensor in found.items():
            storage, left = self.index.storages[p], tensor.numpy()
            position = storage.start
            while left.size:
                chunk, start = divmod(position, CHUNK_BYTES)
                target, left = left[: CHUNK_BYTES - start], left[CHUNK_BYTES - start :]
                targets.setdefault((storage.stream, chunk), []).append((start, target))
                position += target.size
        self._read_all(sorted(targets.items(), key=lambda job: job[0]))
        return found

    def check(self) -> None:
        """Read and decode every chunk; raise CorruptCheckpointError at the first one that is damaged."""
        self._read_all([(chunk, []) for chunk in self._chunks()])
        if self._base is not None:
            self._base.check()

    def _chunks(self) -> list[Chunk]:
        return [(s, i) for s, stream in enumerate(self.index.streams) for i in range(stream.chunks)]

    def _read_all(self, jobs: list[tuple[Chunk, list[Target]]]) -> None:
        step = max(1, len(jobs) // (4 * _decoders.threads))  # several chunks per task: handing one over takes 30 us
        batches = [jobs[k : k + step] for k in range(0, len(jobs), step)]
        for _ in _decoders.map(self._read_some, batches) if len(batches) > 1 else map(self._read_some, batches):
            pass

    def close(self) -> None:
        """Close the file."""
        self._container.close()
        if self._base is not None:
            self._base.close()

    def __enter__(self) -> CheckpointFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read_some(self, jobs: list[tuple[Chunk, list[Target]]]) -> None:
        for job in jobs:
            self._read(job)

    def _read(self, job: tuple[Chunk, list[Target]]) -> None:
        """Decode a chunk and copy it to its targets; one that is all of the chunk is decoded in place."""
        (s, i), targets = job
        size = min(CHUNK_BYTES, self.index.streams[s].nbytes - i * CHUNK_BYTES)
        if not hasattr(_local, "memory"):  # kept: fresh memory costs as much as decoding
            _local.memory = Scratch(), Scratch(), np.empty(CHUNK_BYTES, np.uint8)
        scratch, base_scratch, chunk = _local.memory
        if len(targets) == 1 and targets[0][1].size == size:
            self._decode(s, i, targets[0][1], scratch, base_scratch)
            return
        self._decode(s, i, chunk[:size], scratch, base_scratch)
        for start, target in targets:
            target[:] = chunk[start : start + target.size]

    def _decode(self, s: int, i: int, out: np.ndarray, scratch: Scratch, base_scratch: Scratch) -> None:
        """Chunk i of stream s into `out`, checked."""
        stream, reader = self.index.streams[s], self._container.reader
        piece = stream.first + i
        size, codec = int(self._container.sizes[piece]), self._container.codecs[piece]
        if codec == RAW and size == out.size:  # read to where it belongs
            self._container.read_into(piece, out.data)
            return
        data = scratch.planes.data[:size]
        self._container.read_into(piece, data)
        older = None
        if codec & DELTA:
            if self._base is None:
                reader.fail("a difference in a file without a base")
            older = scratch.other[: out.size]
            self._base._decode(s, i, older, base_scratch, base_scratch)
        try:
            used = decode_chunk(data, codec, stream.width, out, older, scratch)
        except CodecError as error:
            raise CorruptCheckpointError(f"{self.path}: chunk {i} of stream {s}: {error}") from error
        if used != size:
            reader.fail(f"chunk {i} of stream {s} is followed by other bytes")

    def _open_base(self, name: str, identity: bytes) -> CheckpointFile:
        """Open the complete file that a difference needs."""
        path = Path(os.path.realpath(self.path)).parent / name  # of a `latest` link: beside the file itself
        reader, reason = self._container.reader, f"this difference needs {name}: "
        if not path.exists():
            reader.fail(f"{reason}it is not there")
        if read_identity(path) != identity:
            reader.fail(f"{reason}it is damaged, or another checkpoint than the one this was taken against")
        base = CheckpointFile(path, reader.max_bytes, as_base=True)
        if [(s.width, s.nbytes) for s in base.index.streams] != [(s.width, s.nbytes) for s in self.index.streams]:
            base.close()
            reader.fail(f"{reason}it does not hold the same tensors")
        return base
