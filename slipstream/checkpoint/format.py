"""The bytes of a `.pt.slip` file: header, chunks, index. docs/checkpoint-format.md describes it for other readers.

    header  64 bytes: magic, version, identity, where the index lies, checksums
    chunks  each padded with zeros to 64 bytes; stream after stream, without gaps
    index   JSON: structure, tensors, storages, streams with their chunks' offsets and checksums

Every byte of the file is under a checksum: the header's, the index's or a chunk's, padding included.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.checkpoint import tree
from slipstream.checkpoint.errors import CorruptCheckpointError
from slipstream.storage.codec import CHUNK_BYTES, moments_nbytes
from slipstream.storage.staging import SIGNED_MOMENTS, Storage, View

MAGIC = b"\x89SLIPCKP"
VERSION = 1
HEADER = struct.Struct(
    "<8sHHI16sQQI8xI"
)  # magic, version, flags, 0, identity, index offset, index length, index crc, 8 zeros, header crc
PAD = 64
IS_DIFFERENCE = 1
CODINGS = ("", "bf16", "int8")


@dataclass
class Chunk:
    """Where the bytes of one chunk lie and how they are coded."""

    offset: int
    stored: int  # bytes in the file, padding included
    method: int
    crc: int


@dataclass
class FileStream:
    """Numbers of one width, cut into chunks of CHUNK_BYTES."""

    width: int
    nbytes: int
    chunks: list[Chunk] = field(default_factory=list)

    def extent(self, i: int) -> tuple[int, int]:
        """First and last + 1 byte of chunk i within the stream."""
        return i * CHUNK_BYTES, min((i + 1) * CHUNK_BYTES, self.nbytes)


@dataclass
class Index:
    """Everything about a file but its numbers."""

    identity: bytes
    structure: Any  # frozen tree
    views: list[View]
    storages: list[tuple[Storage, str]]  # with the coding: "", "bf16" or "int8"
    streams: list[FileStream]
    base: tuple[str, bytes] | None = None  # (name in the same folder, identity) of the full file a difference needs
    metrics: dict[str, float] = field(default_factory=dict)
    step: int | None = None

    @property
    def raw_bytes(self) -> int:
        """Bytes of the tensors once they are open."""
        return sum(opened_nbytes(storage.nbytes, coding) for storage, coding in self.storages)


def opened_nbytes(stored: int, coding: str) -> int:
    """Bytes of a storage once decoded from its lossy coding."""
    if coding == "bf16":
        return 2 * stored
    if coding == "int8":
        return 4 * int8_count(stored)
    return stored


def int8_count(stored: int) -> int:
    """How many moments lie in `stored` bytes of int8 coding."""
    count = stored * 256 // 258
    while moments_nbytes(count) < stored:
        count += 1
    return count


def is_signed(role: str) -> bool:
    """Whether a moment of that name can be negative."""
    return role in SIGNED_MOMENTS


def pack_index(index: Index) -> bytes:
    """The index as it lies in the file."""
    data = {
        "structure": tree.to_json(index.structure),
        "tensors": [list(v) for v in index.views],
        "storages": [[*s, coding] for s, coding in index.storages],
        "streams": [
            [s.width, s.nbytes, [[c.offset, c.stored, c.method, c.crc] for c in s.chunks]] for s in index.streams
        ],
        "base": [index.base[0], index.base[1].hex()] if index.base else None,
        "metrics": tree.to_json(tree.freeze(dict(index.metrics))[0]),
        "step": index.step,
    }
    return json.dumps(data, separators=(",", ":")).encode()


def pack_header(index: Index, offset: int, body: bytes) -> bytes:
    """The header of a file whose index `body` lies at `offset`."""
    flags = IS_DIFFERENCE if index.base else 0
    head = HEADER.pack(MAGIC, VERSION, flags, 0, index.identity, offset, len(body), zlib.crc32(body), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head))


def read_index(fd: int, path: Path) -> Index:
    """Read and check header and index; nothing in them is believed before it was checked against the file's size."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, HEADER.size, 0)
    if len(head) < HEADER.size:
        raise CorruptCheckpointError(f"{path}: {size} bytes are too few for a checkpoint: the file is cut short")
    magic, version, flags, zero, identity, offset, length, crc, head_crc = HEADER.unpack(head)
    if magic != MAGIC:
        raise CorruptCheckpointError(f"{path}: this is not a .slip checkpoint (wrong first bytes)")
    if zlib.crc32(head[:-4]) != head_crc:
        raise CorruptCheckpointError(f"{path}: the header's checksum is wrong")
    if version != VERSION:
        raise CorruptCheckpointError(
            f"{path}: format version {version}; this Slipstream reads version {VERSION}: update it"
        )
    if offset < HEADER.size or offset + length != size or zero:
        raise CorruptCheckpointError(
            f"{path}: the index should end at byte {offset + length}, the file at {size}: cut short or added to"
        )
    body = os.pread(fd, length, offset)
    if len(body) != length or zlib.crc32(body) != crc:
        raise CorruptCheckpointError(f"{path}: the index's checksum is wrong")
    try:
        index = _parse(json.loads(body), identity)
        _check(index, offset, bool(flags & IS_DIFFERENCE))
    except CorruptCheckpointError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, AttributeError) as error:
        raise CorruptCheckpointError(f"{path}: the index is malformed: {type(error).__name__}: {error}") from error
    return index


def _parse(data: Any, identity: bytes) -> Index:
    views = [
        View(s, str(d), _sizes(shape), _sizes(stride), o, str(dev)) for s, d, shape, stride, o, dev in data["tensors"]
    ]
    storages = [(Storage(a, b, n, str(role)), str(coding)) for a, b, n, role, coding in data["storages"]]
    streams = [FileStream(w, n, [Chunk(*c) for c in chunks]) for w, n, chunks in data["streams"]]
    base = None
    if data["base"] is not None:
        name = str(data["base"][0])
        if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise CorruptCheckpointError(f"the base {name!r} is not a plain file name")
        base = (name, bytes.fromhex(data["base"][1]))
    structure = tree.from_json(data["structure"], len(views))
    metrics = tree.thaw(tree.from_json(data["metrics"], 0), lambda i: None)
    step = data["step"]
    if type(metrics) is not dict or not (step is None or type(step) is int):
        raise CorruptCheckpointError("metrics or step are malformed")
    return Index(identity, structure, views, storages, streams, base, metrics, step)


def _sizes(values: Any) -> tuple[int, ...]:
    if any(type(v) is not int or v < 0 for v in values):
        raise CorruptCheckpointError(f"{values!r} are not sizes")
    return tuple(values)


def _check(index: Index, end: int, flag: bool) -> None:
    """Every number in the index lies where it can: chunks tile the file, storages lie in streams, tensors in storages."""
    if flag != (index.base is not None):
        raise CorruptCheckpointError("header and index disagree on whether this is a difference")
    position = HEADER.size
    for stream in index.streams:
        if stream.width not in (1, 2, 4, 8) or type(stream.nbytes) is not int or stream.nbytes < 0:
            raise CorruptCheckpointError(f"a stream of {stream.nbytes} bytes in words of {stream.width}")
        if len(stream.chunks) != -(-stream.nbytes // CHUNK_BYTES):
            raise CorruptCheckpointError(f"a stream of {stream.nbytes} bytes lists {len(stream.chunks)} chunks")
        for chunk in stream.chunks:
            _sizes([chunk.offset, chunk.stored, chunk.method, chunk.crc])
            if chunk.offset != position or chunk.stored % PAD or not 0 < chunk.stored <= CHUNK_BYTES + 2 * PAD:
                raise CorruptCheckpointError(f"a chunk at byte {chunk.offset} where {position} was due")
            position += chunk.stored
    if position != end:
        raise CorruptCheckpointError(f"the chunks end at byte {position}, the index begins at {end}")
    for storage, coding in index.storages:
        _sizes(storage[:3])
        if storage.stream >= len(index.streams) and storage.nbytes or coding not in CODINGS:
            raise CorruptCheckpointError(f"a storage in stream {storage.stream} with coding {coding!r}")
        if storage.nbytes and storage.start + storage.nbytes > index.streams[storage.stream].nbytes:
            raise CorruptCheckpointError("a storage runs past the end of its stream")
        if (
            coding == "bf16"
            and storage.nbytes % 2
            or coding == "int8"
            and moments_nbytes(int8_count(storage.nbytes)) != storage.nbytes
        ):
            raise CorruptCheckpointError(f"{storage.nbytes} bytes cannot be {coding} moments")
    for view in index.views:
        _check_view(view, index)


def _check_view(view: View, index: Index) -> None:
    _sizes([view.storage, view.offset])
    if view.storage >= len(index.storages) or len(view.shape) > 64:
        raise CorruptCheckpointError(f"a tensor in storage {view.storage} of {len(index.storages)}")
    storage, coding = index.storages[view.storage]
    held = opened_nbytes(storage.nbytes, coding)
    if view.dtype.startswith("numpy:"):
        dtype = np.dtype(view.dtype.removeprefix("numpy:"))
        if dtype.hasobject or dtype.names or dtype.itemsize * _product(view.shape) != held:
            raise CorruptCheckpointError(f"an array of {view.dtype} {view.shape} in {held} bytes")
        return
    dtype_ = getattr(torch, view.dtype, None)
    if not isinstance(dtype_, torch.dtype) or len(view.stride) != len(view.shape):
        raise CorruptCheckpointError(f"a tensor of dtype {view.dtype!r}")
    if coding and (view.dtype != "float32" or 4 * _product(view.shape) != held):
        raise CorruptCheckpointError(f"{held} bytes of {coding} moments as {view.dtype} {view.shape}")
    last = view.offset + sum((s - 1) * t for s, t in zip(view.shape, view.stride, strict=True))
    if 0 not in view.shape and (last + 1) * dtype_.itemsize > held or _product(view.shape) >= 1 << 62:
        raise CorruptCheckpointError(f"a tensor of {view.dtype} {view.shape} runs past the end of its {held} bytes")


def _product(shape: tuple[int, ...]) -> int:
    out = 1
    for size in shape:
        out *= size
    return out
