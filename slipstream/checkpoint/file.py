"""`.pt.slip` files: a checkpoint in the container of `slipstream.storage`. docs/checkpoint-format.md describes the
bytes.

All tensors of a state lie in a few streams of numbers of one width. A stream is cut into chunks of 1 MiB, each one a
section of the container, compressed on its own; so single tensors can be read, and threads share the work. A difference
stores chunks relative to those of an earlier complete file, its base.
"""

from __future__ import annotations

import contextlib
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
from slipstream.storage.background import BackgroundWorker
from slipstream.storage.codec import (
    CHUNK_BYTES,
    CodecError,
    Scratch,
    decode_chunk,
    dequantise_moments,
    encode_chunk,
    moments_nbytes,
    quantise_moments,
)
from slipstream.storage.codec.registry import DELTA, RAW
from slipstream.storage.container import ALIGN, Container, ContainerWriter, section_checksum
from slipstream.storage.files import DISK, FileSystem, atomic_file
from slipstream.storage.reader import MAX_DIMENSIONS, Reader
from slipstream.storage.serializer import flatten, from_json, select, to_json, torch_dtype, unflatten, walk_leaves
from slipstream.storage.staging import ALIGN as TENSOR_ALIGN
from slipstream.storage.staging import MOMENTS, SIGNED_MOMENTS, Layout, Storage, View

KIND = "ckpt"
IS_DIFFERENCE = 1  # flag of the container
_MIN_LOSSY = 1024  # elements; smaller moments are kept exact
_local = threading.local()
_decoders = BackgroundWorker("checkpoint reader", threads=None, restart_after_fork=True)


@dataclass
class FileStream:
    """Numbers of one width, cut into chunks of CHUNK_BYTES."""

    width: int
    nbytes: int
    first: int  # section of its first chunk; the others follow
    codecs: list[int]  # per chunk


@dataclass
class Index:
    """Everything about a checkpoint except its numbers."""

    tree: Any
    views: Sequence[View]
    storages: list[tuple[Storage, str]]  # with the coding: "" (exact), "bf16" or "int8"
    streams: list[FileStream]
    base: tuple[str, bytes] | None  # (name in the same folder, identity) of the complete file a difference needs
    metrics: dict[str, float]
    step: int | None

    @property
    def raw_bytes(self) -> int:
        """Bytes of the tensors after loading."""
        return sum(_decoded_nbytes(storage.nbytes, coding) for storage, coding in self.storages)


def _decoded_nbytes(stored: int, coding: str) -> int:
    return 2 * stored if coding == "bf16" else 4 * _int8_count(stored) if coding == "int8" else stored


def _int8_count(stored: int) -> int:
    """How many moments `stored` bytes of int8 coding hold."""
    count = stored * 256 // 258
    while moments_nbytes(count) < stored:
        count += 1
    return count


# --- writing


@dataclass
class Image:
    """The uncompressed streams of a file: views of a snapshot, except for moments that were made smaller."""

    streams: list[tuple[int, np.ndarray]]  # (width, uint8 [n])
    storages: list[tuple[Storage, str]]


@dataclass
class Base:
    """A complete file on disk and its image in memory: what differences are taken against."""

    path: Path
    identity: bytes
    layout: Layout
    image: Image


def make_image(layout: Layout, host: np.ndarray, moments: str | None = None) -> Image:
    """Return the streams of a snapshot; with `moments`, optimizer moments become a stream of bf16 or 8-bit numbers."""
    lossy = {p for p, storage in enumerate(layout.storages) if moments and _is_lossy(layout, p, storage)}
    if not lossy:
        return Image(
            [(s.width, host[s.start : s.start + s.nbytes]) for s in layout.streams], [(s, "") for s in layout.storages]
        )
    pieces: list[list[np.ndarray]] = [[] for _ in range(len(layout.streams) + 1)]
    sizes = [0] * len(pieces)
    storages = [(storage, "") for storage in layout.storages]
    for p in sorted(range(len(storages)), key=lambda p: layout.storages[p][:2]):
        storage, coding, stream = layout.storages[p], "", layout.storages[p].stream
        start = layout.streams[stream].start + storage.start
        data = host[start : start + storage.nbytes]
        if p in lossy:
            coding, stream, values = str(moments), len(layout.streams), data.view(np.float32)
            if coding == "int8":
                data = quantise_moments(values, storage.role in SIGNED_MOMENTS)
            else:
                data = torch.from_numpy(values).bfloat16().view(torch.uint8).numpy()
        storages[p] = Storage(stream, sizes[stream], data.size, storage.role), coding
        pieces[stream] += [data, np.zeros(-data.size % TENSOR_ALIGN, np.uint8)]
        sizes[stream] += data.size + -data.size % TENSOR_ALIGN
    widths = [*(s.width for s in layout.streams), 1 if moments == "int8" else 2]
    return Image(
        [(w, np.concatenate([*p, np.empty(0, np.uint8)])) for w, p in zip(widths, pieces, strict=True)], storages
    )


def _is_lossy(layout: Layout, p: int, storage: Storage) -> bool:
    dtypes = {v.dtype for v in layout.views if v.storage == p}
    return storage.role in MOMENTS and dtypes == {"float32"} and storage.nbytes >= 4 * _MIN_LOSSY


class CheckpointWriter:
    """Writes `.pt.slip` files. Keeps its threads and memory from one file to the next.

    Args:
        threads: how many compress; None for one per core, at most 4.
    """

    def __init__(self, threads: int | None = None, nice: int = 0, fs: FileSystem = DISK) -> None:
        self._fs = fs
        self._encoders = BackgroundWorker("checkpoint encoder", threads=threads, nice=nice)
        self._scratches: queue.SimpleQueue[Scratch] | None = None

    def write(
        self,
        path: Path,
        tree: Any,
        views: Sequence[View],
        image: Image,
        *,
        level: int = 1,
        base: Base | None = None,
        metrics: dict[str, float] | None = None,
        step: int | None = None,
    ) -> tuple[bytes, int]:
        """Write the file; return (identity, bytes written)."""
        streams = [FileStream(width, data.size, 0, []) for width, data in image.streams]
        reference = (base.path.name, base.identity) if base else None
        # taken, not shared: after an error chunks may still be in flight, and the next file gets new memory
        scratches, self._scratches = self._scratches or self._new_scratches(), None

        def encode(job: tuple[int, int]) -> tuple[FileStream, int, list[Any], int, Scratch]:
            s, start = job
            width, data = image.streams[s]
            older = base.image.streams[s][1][start : start + CHUNK_BYTES] if base else None
            scratch = scratches.get()
            codec, payload = encode_chunk(data[start : start + CHUNK_BYTES], width, older, level, scratch)
            return streams[s], codec, payload, section_checksum(*payload), scratch

        jobs = ((s, start) for s, stream in enumerate(streams) for start in range(0, stream.nbytes, CHUNK_BYTES))
        with atomic_file(path, self._fs) as file:
            writer = ContainerWriter(file, KIND, IS_DIFFERENCE if base else 0)
            for stream, codec, payload, checksum, scratch in self._encoders.map(encode, jobs):
                section = writer.add(*payload, checksum=checksum)
                stream.first = stream.first if stream.codecs else section
                stream.codecs.append(codec)
                scratches.put(scratch)
            nbytes = writer.finish(_pack(Index(tree, views, image.storages, streams, reference, metrics or {}, step)))
        self._scratches = scratches
        return writer.identity, nbytes

    def close(self) -> None:
        """End the threads."""
        self._encoders.close()

    def _new_scratches(self) -> queue.SimpleQueue[Scratch]:
        out: queue.SimpleQueue[Scratch] = queue.SimpleQueue()
        for _ in range(2 * self._encoders.threads + 2):  # one for every chunk that `map` lets be in flight
            out.put(Scratch())
        return out


def _pack(index: Index) -> dict[str, Any]:
    """The index as the head of a container."""
    return {
        "structure": to_json(index.tree),
        "tensors": [list(v) for v in index.views],
        "storages": [[*s, coding] for s, coding in index.storages],
        "streams": [[s.width, s.nbytes, s.first, s.codecs] for s in index.streams],
        "base": [index.base[0], index.base[1].hex()] if index.base else None,
        "metrics": to_json(flatten(dict(index.metrics))[0]),
        "step": index.step,
    }


# --- reading the index


def open_container(path: Path, max_bytes: int | None = None) -> Container:
    """Open a `.slip` file and check its header and index; `head` is not checked yet."""
    return Container.open(
        path, KIND, reader=Reader(path, max_bytes=max_bytes, error=CorruptCheckpointError), mapped=False
    )


def read_summary(container: Container) -> tuple[tuple[str, bytes] | None, dict[str, float], int | None]:
    """Check the parts of the head that are not about tensors; return (base, metrics, step)."""
    reader, head, base = container.reader, container.head, None
    with reader.parsing("the index"):
        if head["base"] is not None:
            name, identity = reader.text(head["base"][0], "the base", 255), bytes.fromhex(head["base"][1])
            if name in ("", ".", "..") or any(c in name for c in "/\\\0"):
                reader.fail(f"the base {name!r} is not a plain file name")
            base = name, identity
        step = None if head["step"] is None else reader.integer(head["step"], "the step", -(1 << 63))
        metrics = unflatten(from_json(head["metrics"], 0, reader), lambda i: None)
        if type(metrics) is not dict or not all(type(k) is str and type(v) in (int, float) for k, v in metrics.items()):
            reader.fail("the metrics are malformed")
        if bool(container.flags & IS_DIFFERENCE) != (base is not None):
            reader.fail("header and index disagree on whether this is a difference")
    return base, metrics, step


def read_index(container: Container) -> Index:
    """Check every number of the head: chunks fill the file, storages are within streams, tensors within storages."""
    reader, head, summary = container.reader, container.head, read_summary(container)
    with reader.parsing("the index"):
        streams = [FileStream(*entry) for entry in head["streams"]]
        storages = [
            (Storage(a, b, n, reader.text(role, "a role", 64)), coding) for a, b, n, role, coding in head["storages"]
        ]
        views = [
            View(s, d, tuple(shape), tuple(stride), o, device) for s, d, shape, stride, o, device in head["tensors"]
        ]
        _check_streams(streams, container)
        reader.integers([n for storage, _ in storages for n in storage[:3]], "the place of a storage")
        held = [_check_storage(storage, coding, streams, reader) for storage, coding in storages]
        reader.integers([n for v in views for n in (v.storage, v.offset, *v.shape, *v.stride)], "a size of a tensor")
        dtypes = {name: _check_dtype(name, reader) for name in {v.dtype for v in views}}
        for device in {v.device for v in views}:
            torch.device(reader.text(device, "a device", 64))
        for view in views:
            _check_view(view, dtypes[view.dtype], held[view.storage], storages[view.storage][1], reader)
        tree = from_json(head["structure"], len(views), reader)
    return Index(tree, views, storages, streams, *summary)


def _check_streams(streams: list[FileStream], container: Container) -> None:
    reader, section = container.reader, 0
    for stream in streams:
        if reader.integer(stream.width, "the width of numbers") not in (1, 2, 4, 8):
            reader.fail(f"numbers of {stream.width} bytes")
        chunks = -(-reader.integer(stream.nbytes, "the size of a stream") // CHUNK_BYTES)
        reader.integers(stream.codecs, "a codec", 0, 255)
        first = reader.integer(stream.first, "the first chunk of a stream")
        if len(stream.codecs) != chunks or (chunks and first != section):
            reader.fail(f"a stream of {stream.nbytes} bytes lists {len(stream.codecs)} chunks")
        section += chunks
    if section != len(container) or (container.sizes > CHUNK_BYTES).any():
        reader.fail(f"the streams have {section} chunks, the file {len(container)}")


def _check_storage(storage: Storage, coding: Any, streams: list[FileStream], reader: Reader) -> int:
    """Return the bytes of a storage after loading."""
    if storage.nbytes and storage.start + storage.nbytes > streams[storage.stream].nbytes:
        reader.fail("a storage runs past the end of its stream")
    if coding == "":
        return storage.nbytes
    good = coding == "bf16" and storage.nbytes % 2 == 0
    if not good and not (coding == "int8" and moments_nbytes(_int8_count(storage.nbytes)) == storage.nbytes):
        reader.fail(f"{storage.nbytes} bytes with an unknown coding, or too few for it")
    return _decoded_nbytes(storage.nbytes, coding)


def _check_dtype(name: Any, reader: Reader) -> int:
    """Return the bytes of a number."""
    if reader.text(name, "a dtype", 64).startswith("numpy:"):
        return reader.dtype(name.removeprefix("numpy:"), "a dtype").itemsize
    return torch_dtype(name, reader).itemsize


def _check_view(view: View, itemsize: int, held: int, coding: str, reader: Reader) -> None:
    """Check a tensor against the `held` bytes of its storage."""
    if len(view.shape) > MAX_DIMENSIONS:
        reader.fail(f"a tensor of {len(view.shape)} dimensions")
    if view.dtype.startswith("numpy:"):
        if reader.product([*view.shape, itemsize], "an array") != held:
            reader.fail(f"an array of {view.dtype} {list(view.shape)} in {held} bytes")
        return
    if coding and (view.dtype != "float32" or reader.product([*view.shape, 4], "a tensor") != held):
        reader.fail(f"{held} bytes of {coding} moments as {view.dtype} {list(view.shape)}")
    reader.check_view(view.shape, view.stride, view.offset, itemsize, held, "a tensor")


# --- reading the numbers


class CheckpointFile:
    """An open `.slip` file. `index` says what it holds; `load` returns it, or the part below some keys.

    Args:
        max_bytes: memory that loading may take; None for the default of `slipstream.storage.reader`.
        as_base: the file must be complete: it is opened for a difference, and a base may not need a base itself.
    """

    def __init__(self, path: str | Path, max_bytes: int | None = None, *, as_base: bool = False) -> None:
        self.path = Path(path)
        real = Path(os.path.realpath(path))  # of a `latest` link: the base is beside the file itself
        self._base: CheckpointFile | None = None
        self._container = open_container(real if as_base else self.path, max_bytes)
        try:
            if as_base and self._container.flags & IS_DIFFERENCE:
                self._container.reader.fail("is a difference itself, and cannot be the base of another one")
            self.index = read_index(self._container)
            if self.index.base is not None:
                self._base = self._open_base(real, *self.index.base)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> bytes:
        """16 random bytes that no other file has."""
        return self._container.identity

    def load(self, keys: Iterable[str] | None = None, map_location: Any = "cpu") -> Any:
        """Return the state, or its part below the dotted `keys`."""
        tree = self.index.tree if keys is None else select(self.index.tree, list(keys))
        views = self.index.views
        wanted = range(len(views)) if keys is None else {leaf for _, leaf in walk_leaves(tree)}
        tensors = self.tensors(self.storages(sorted({views[i].storage for i in wanted})), map_location)
        with self._container.reader.parsing("the structure"):
            return unflatten(tree, tensors.__getitem__)

    def tensors(self, opened: dict[int, Tensor], map_location: Any = "cpu") -> dict[int, Any]:
        """Every tensor and array whose storage is among `opened`, by its number."""
        target = None if map_location is None else torch.device(map_location)
        made: dict[int, Any] = {}
        for i, view in enumerate(self.index.views):
            if view.storage in opened:
                made[i] = make_tensor(view, opened[view.storage])
                device = torch.device(view.device) if target is None else target
                if device.type != "cpu" and isinstance(made[i], Tensor):
                    made[i] = made[i].to(device)
        return made

    def storages(self, wanted: list[int]) -> dict[int, Tensor]:
        """Read some storages, uint8 [n] each in memory of its own."""
        chosen = [self.index.storages[p] for p in wanted]
        coded = sum(_decoded_nbytes(storage.nbytes, coding) for storage, coding in chosen if coding)
        self._container.reader.claim(coded + sum(storage.nbytes for storage, _ in chosen), "the state")
        raw: dict[int, Tensor] = {}
        parts: dict[int, list[tuple[int, np.ndarray]]] = {}  # stream -> (start, bytes to fill)
        for p, (storage, _) in zip(wanted, chosen, strict=True):
            raw[p] = torch.empty(storage.nbytes, dtype=torch.uint8)
            if storage.nbytes:
                parts.setdefault(storage.stream, []).append((storage.start, raw[p].numpy()))
        jobs = [(s, i, pieces) for s, ranges in parts.items() for i, pieces in _by_chunk(ranges)]
        for _ in _decoders.map(self._read, jobs) if len(jobs) > 1 else map(self._read, jobs):
            pass
        return {p: self._decode_moments(p, raw[p]) for p in wanted}

    def check(self) -> None:
        """Read and decode every chunk; raise CorruptCheckpointError at the first one that is damaged."""
        chunks = ((s, i) for s, stream in enumerate(self.index.streams) for i in range(len(stream.codecs)))
        for _ in _decoders.map(lambda at: self._read((*at, [])), chunks):
            pass
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

    def _read(self, job: tuple[int, int, list[tuple[int, np.ndarray]]]) -> None:
        """Decode chunk i of stream s and copy it to (start in chunk, bytes) pieces; one that is all of the chunk is
        decoded in place."""
        s, i, pieces = job
        size = min(CHUNK_BYTES, self.index.streams[s].nbytes - i * CHUNK_BYTES)
        in_place = len(pieces) == 1 and pieces[0][1].size == size
        if not hasattr(_local, "memory"):  # kept: fresh memory costs as much as decoding
            _local.memory = Scratch(), Scratch(), np.empty(CHUNK_BYTES, np.uint8)
        own, other, chunk = _local.memory
        out = pieces[0][1] if in_place else chunk[:size]
        self._decode(s, i, out, own, other)
        if not in_place:
            for start, piece in pieces:
                piece[:] = out[start : start + piece.size]

    def _decode(self, s: int, i: int, out: np.ndarray, scratch: Scratch, other: Scratch) -> None:
        """Chunk i of stream s into `out`, checked; `other` is for the chunk of the base."""
        stream, reader = self.index.streams[s], self._container.reader
        section, codec = stream.first + i, stream.codecs[i]
        size = int(self._container.sizes[section])
        if codec == RAW and size == out.size and size % ALIGN == 0:  # raw and without padding: read to where it belongs
            self._container.read_into(section, out.data)
            return
        data = scratch.planes.data[: -(-size // ALIGN) * ALIGN]
        self._container.read_into(section, data)
        older = None
        if codec & DELTA:
            if self._base is None:
                reader.fail("a difference in a file without a base")
            older = scratch.other[: out.size]
            self._base._decode(s, i, older, other, other)
        try:
            used = decode_chunk(data[:size], codec, stream.width, out, older, scratch)
        except CodecError as error:
            raise CorruptCheckpointError(f"{self.path}: chunk {i} of stream {s}: {error}") from error
        if used != size:
            reader.fail(f"chunk {i} of stream {s} is followed by other bytes")

    def _decode_moments(self, p: int, stored: Tensor) -> Tensor:
        storage, coding = self.index.storages[p]
        if coding == "bf16":
            return stored.view(torch.bfloat16).float().view(torch.uint8)
        if coding == "int8":
            values = dequantise_moments(stored.numpy(), _int8_count(storage.nbytes), storage.role in SIGNED_MOMENTS)
            return torch.from_numpy(values).view(torch.uint8)
        return stored

    def _open_base(self, real: Path, name: str, identity: bytes) -> CheckpointFile:
        """Open the complete file that a difference needs: under its name, or where the saver moved it when the name was
        used again."""
        reasons = []
        for candidate in (real.with_name(name), real.with_name(aside_name(identity))):
            with contextlib.ExitStack() as stack:
                try:
                    base = CheckpointFile(candidate, self._container.reader.max_bytes, as_base=True)
                except FileNotFoundError:
                    continue
                except CorruptCheckpointError as error:
                    reasons.append(str(error))
                    continue
                stack.callback(base.close)
                if base.identity != identity:
                    reasons.append(
                        f"{candidate.name} is another checkpoint than the one this difference was taken against"
                    )
                elif [(s.width, s.nbytes) for s in self.index.streams] != [
                    (s.width, s.nbytes) for s in base.index.streams
                ]:
                    reasons.append(f"{candidate.name} does not hold the same tensors")
                else:
                    stack.pop_all()
                    return base
        raise CorruptCheckpointError(f"{real}: this difference needs {name}: {'; '.join(reasons) or 'it is not there'}")


def _by_chunk(ranges: list[tuple[int, np.ndarray]]) -> list[tuple[int, list[tuple[int, np.ndarray]]]]:
    """Cut the pieces to fill at the borders of the chunks."""
    out: dict[int, list[tuple[int, np.ndarray]]] = {}
    for start, piece in ranges:
        done = 0
        while done < piece.size:
            i, inside = divmod(start + done, CHUNK_BYTES)
            step = min(piece.size - done, CHUNK_BYTES - inside)
            out.setdefault(i, []).append((inside, piece[done : done + step]))
            done += step
    return sorted(out.items(), key=lambda item: item[0])


def make_tensor(view: View, data: Tensor) -> Any:
    """Return the tensor or array that `view` describes; it shares the memory of `data`, uint8 [n]."""
    if view.dtype.startswith("numpy:"):
        return data.numpy().view(np.dtype(view.dtype.removeprefix("numpy:"))).reshape(view.shape)
    dtype = getattr(torch, view.dtype)
    # set_: tensors that shared a storage share it again, and one alone has a storage of its own
    return torch.empty(0, dtype=dtype).set_(data.untyped_storage(), view.offset, view.shape, view.stride)


def aside_name(identity: bytes) -> str:
    """Where a complete file is kept that differences need while its name is used again."""
    return f".base-{identity.hex()}.pt.slip"
