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
from typing import Any, NamedTuple

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
from slipstream.storage.serializer import MISSING, check_tree, flatten, select, torch_dtype, unflatten, walk_leaves
from slipstream.storage.staging import MOMENTS, Buffer, Layout, View, make_tensor, plain_dtype

KIND = "ckpt"
_INFINITE = 0x7F800000  # the bits of an infinite float32
_local = threading.local()
_decoders = BackgroundWorker("checkpoint reader", threads=None, restart_after_fork=True)


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
        compress: bool = True,
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
            codec, payload = RAW, [host[place]]
            if compress:
                codec, payload = encode_chunk(host[place], width, None if older is None else older[place], scratch)
            return s, codec, payload, checksum_of(*payload), scratch

        chunks = [
            (s, stream.width, slice(start, min(start + CHUNK_BYTES, stream.start + stream.nbytes)))
            for s, stream in enumerate(layout.streams)
            for start in range(stream.start, stream.start + stream.nbytes, CHUNK_BYTES)
        ]
        places = [[s.stream, s.start, s.nbytes] for s in layout.storages]
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
        with atomic_file(path, self._fs) as file:
            writer = ContainerWriter(file, KIND)
            writer.reserve(head, raw or largest, len(chunks))
            for s, codec, payload, checksum, scratch in self._encoders.map(encode, chunks):
                writer.add(*payload, name=_stream_name(s), codec=codec, checksum=checksum)
                free.put(scratch)
            nbytes = writer.finish(entries=raw)
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


# --- reading


class Stream(NamedTuple):
    """Numbers of one width, cut into chunks of CHUNK_BYTES."""

    width: int
    nbytes: int
    first: int  # piece of the first chunk; the others follow


Place = tuple[int, int, int]  # of a tensor's bytes: number of the stream, where in it, how many
Chunk = tuple[int, int]  # number of the stream, number in the stream
Target = tuple[int, np.ndarray]  # where in the chunk, and the bytes to fill from there


def open_container(path: Path, max_bytes: int | None = None, data: bytes | None = None) -> Container:
    """Open a `.slip` file, or its bytes in memory; `head` is not checked yet."""
    reader = Reader(path, max_bytes=max_bytes, error=CorruptCheckpointError)
    if data is not None:
        return Container.from_bytes(data, KIND, str(path), reader=reader)
    return Container.open(path, KIND, reader=reader)


def read_base(container: Container) -> tuple[str, bytes] | None:
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
        self.metrics = unflatten(head["metrics"], lambda i: MISSING, reader)
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
                itemsizes[dtype] = _read_itemsize(dtype, reader)
            torch.device(reader.text(device, "a device", 64))
            if not dtype.startswith("numpy:"):
                reader.check_view(shape, stride, offset, itemsizes[dtype], nbytes, "a tensor")
            elif reader.product([*shape, itemsizes[dtype]], "an array") != nbytes:
                reader.fail(f"an array of {dtype} {list(shape)} in {nbytes} bytes")
            self.places.append((stream, start, nbytes))
            self.views.append(View(i, dtype, tuple(shape), tuple(stride), offset, device))
        self.tree = check_tree(head["structure"], len(self.views), reader)

    def load(self, keys: Iterable[str] | None = None, map_location: Any = "cpu") -> Any:
        """Return the state, or its part below the dotted `keys`."""
        tree = self.tree if keys is None else select(self.tree, list(keys))
        wanted = range(len(self.views)) if keys is None else [leaf for _, leaf in walk_leaves(tree)]
        tensors = self._tensors(wanted, locator(map_location))
        return unflatten(tree, tensors.__getitem__, self._container.reader)

    def _tensors(self, wanted: Iterable[int], place: Locator) -> dict[int, Any]:
        """Read some tensors and arrays. Those of one place share their memory."""
        opened = self._read_places({self.places[i] for i in wanted})
        moved: dict[Place, Tensor] = {}
        made: dict[int, Any] = {}
        for i in wanted:
            at, view = self.places[i], self.views[i]
            data = opened[at]
            if not view.dtype.startswith("numpy:"):
                if at not in moved:
                    storage = place(data.untyped_storage(), view.device)
                    moved[at] = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
                data = moved[at]
            made[i] = make_tensor(view, data)
        return made

    def _read_places(self, wanted: set[Place]) -> dict[Place, Tensor]:
        """Read some ranges of streams, uint8 [n] each in memory of its own."""
        self._container.reader.claim(sum(nbytes for _, _, nbytes in wanted), "the state")
        found = {place: torch.empty(place[2], dtype=torch.uint8) for place in wanted}
        targets: dict[Chunk, list[Target]] = {}
        for (stream, position, _), tensor in found.items():
            left = tensor.numpy()
            while left.size:
                chunk, start = divmod(position, CHUNK_BYTES)
                target, left = left[: CHUNK_BYTES - start], left[CHUNK_BYTES - start :]
                targets.setdefault((stream, chunk), []).append((start, target))
                position += target.size
        self._read_all(sorted(targets.items(), key=lambda job: job[0]))
        return found

    def check(self) -> None:
        """Read and decode every chunk; raise CorruptCheckpointError at the first one that is damaged."""
        self._read_all([((s, i), []) for s, stream in enumerate(self.streams) for i in range(_chunks(stream.nbytes))])
        if self._base is not None:
            self._base.check()

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
        """Decode chunks and copy them to their targets; one that is all of a chunk is decoded in place."""
        if not hasattr(_local, "memory"):  # kept: fresh memory costs as much as decoding
            _local.memory = Scratch(), Scratch(), np.empty(CHUNK_BYTES, np.uint8)
        scratch, base_scratch, chunk = _local.memory
        for (s, i), targets in jobs:
            size = min(CHUNK_BYTES, self.streams[s].nbytes - i * CHUNK_BYTES)
            if len(targets) == 1 and targets[0][1].size == size:
                self._decode(s, i, targets[0][1], scratch, base_scratch)
                continue
            self._decode(s, i, chunk[:size], scratch, base_scratch)
            for start, target in targets:
                target[:] = chunk[start : start + target.size]

    def _decode(self, s: int, i: int, out: np.ndarray, scratch: Scratch, base_scratch: Scratch) -> None:
        """Chunk i of stream s into `out`, checked."""
        stream, reader = self.streams[s], self._container.reader
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
            decode_chunk(data, codec, stream.width, out, older, scratch)
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
        if base.streams != self.streams:
            base.close()
            reader.fail(f"{reason}it does not hold the same tensors")
        return base


def _chunks(nbytes: int) -> int:
    return -(-nbytes // CHUNK_BYTES)


def _read_itemsize(dtype: Any, reader: Reader) -> int:
    """Check the name of a dtype; return the bytes of a number."""
    if reader.text(dtype, "a dtype", 64).startswith("numpy:"):
        return reader.dtype(dtype.removeprefix("numpy:"), "a dtype").itemsize
    return torch_dtype(dtype, reader).itemsize
