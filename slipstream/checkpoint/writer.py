"""Writing a snapshot as a `.pt.slip` file, whole or as the difference to an earlier whole one."""

from __future__ import annotations

import os
import queue
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.checkpoint.format import HEADER, PAD, Chunk, FileStream, Index, is_signed, pack_header, pack_index
from slipstream.storage.codec import CHUNK_BYTES, Scratch, Workers, encode_chunk, quantise_moments
from slipstream.storage.files import FileSystem, atomic_file
from slipstream.storage.staging import ALIGN, MOMENTS, Layout, Storage, View

MIN_LOSSY = 1024  # elements; smaller moments are not worth an approximation


@dataclass
class Image:
    """The streams of a file, uncompressed: views of a snapshot, except where moments were made smaller."""

    streams: list[tuple[int, np.ndarray]]  # (width, uint8 [n])
    storages: list[tuple[Storage, str]]


@dataclass
class Base:
    """A whole file on disk, with its image kept in memory: what differences are taken against."""

    path: Path
    identity: bytes
    layout: Layout
    image: Image


def make_image(layout: Layout, host: np.ndarray, moments: str | None = None) -> Image:
    """The streams of a snapshot; with `moments`, optimizer moments become bf16 or 8-bit numbers in streams of their own."""
    streams = [(s.width, host[s.start : s.start + s.nbytes]) for s in layout.streams]
    storages = [(storage, "") for storage in layout.storages]
    lossy = [p for p, storage in enumerate(layout.storages) if moments and _is_moment(layout, p, storage)]
    if not lossy:
        return Image(streams, storages)
    pieces: list[np.ndarray] = []
    position = 0
    width = 1 if moments == "int8" else 2
    for p in lossy:
        storage = layout.storages[p]
        start = layout.streams[storage.stream].start + storage.start
        values = host[start : start + storage.nbytes].view(np.float32)
        if moments == "int8":
            piece = quantise_moments(values, is_signed(storage.role))
        else:
            piece = torch.from_numpy(values).bfloat16().view(torch.uint8).numpy()
        pad = -piece.size % ALIGN
        pieces += [piece, np.zeros(pad, np.uint8)]
        storages[p] = (Storage(len(streams), position, piece.size, storage.role), str(moments))
        position += piece.size + pad
    streams.append((width, np.concatenate(pieces)))
    return _without(streams, storages, {p for p, (_, coding) in enumerate(storages) if coding})


def _is_moment(layout: Layout, p: int, storage: Storage) -> bool:
    dtypes = {v.dtype for v in layout.views if v.storage == p}
    return storage.role in MOMENTS and dtypes == {"float32"} and storage.nbytes >= 4 * MIN_LOSSY


def _without(streams: list[tuple[int, np.ndarray]], storages: list[tuple[Storage, str]], lossy: set[int]) -> Image:
    """Close the gaps that the moments left in their old streams."""
    kept: dict[int, list[np.ndarray]] = {}
    sizes: dict[int, int] = {}
    touched = {i for i, (width, _) in enumerate(streams[:-1]) if width == 4}
    out = list(storages)
    for p, (storage, _) in enumerate(storages):
        if p in lossy or storage.stream not in touched:
            continue
        data = streams[storage.stream][1][storage.start : storage.start + storage.nbytes]
        start = sizes.get(storage.stream, 0)
        pad = -data.size % ALIGN
        kept.setdefault(storage.stream, []).extend((data, np.zeros(pad, np.uint8)))
        sizes[storage.stream] = start + data.size + pad
        out[p] = (storage._replace(start=start), "")
    closed = [
        (w, np.concatenate(kept[i]) if i in kept else data[:0]) if i in touched else (w, data)
        for i, (w, data) in enumerate(streams)
    ]
    return Image(closed, out)


class SlipWriter:
    """Writes `.pt.slip` files with threads and memory that it keeps from one to the next."""

    def __init__(self, workers: Workers, fs: FileSystem) -> None:
        self._workers, self._fs = workers, fs
        self._scratches: queue.SimpleQueue[Scratch] | None = None

    def write(
        self,
        path: Path,
        structure: Any,
        views: Sequence[View],
        image: Image,
        *,
        level: int = 1,
        base: Base | None = None,
        metrics: dict[str, float] | None = None,
        step: int | None = None,
    ) -> tuple[bytes, int]:
        """Write the file; (identity, bytes written)."""
        streams = [FileStream(width, data.size) for width, data in image.streams]
        reference = (base.path.name, base.identity) if base else None
        index = Index(os.urandom(16), structure, list(views), image.storages, streams, reference, metrics or {}, step)
        # taken, not shared: after an error chunks may still be in flight, and the next file gets new memory
        scratches, self._scratches = self._scratches or self._new_scratches(), None

        def encode(job: tuple[int, int]) -> tuple[FileStream, int, list[Any], int, Scratch]:
            s, start = job
            width, data = image.streams[s]
            older = base.image.streams[s][1][start : start + CHUNK_BYTES] if base else None
            scratch = scratches.get()
            method, payload = encode_chunk(data[start : start + CHUNK_BYTES], width, older, level, scratch)
            payload.append(bytes(-sum(map(len, payload)) % PAD))
            crc = 0
            for part in payload:
                crc = zlib.crc32(part, crc)
            return streams[s], method, payload, crc, scratch

        jobs = ((s, start) for s, stream in enumerate(streams) for start in range(0, stream.nbytes, CHUNK_BYTES))
        with atomic_file(path, self._fs) as file:
            file.write(bytes(HEADER.size))
            for stream, method, payload, crc, scratch in self._workers.map(encode, jobs):
                stream.chunks.append(Chunk(file.position, sum(map(len, payload)), method, crc))
                for part in payload:
                    file.write(part)
                scratches.put(scratch)
            body = pack_index(index)
            offset = file.position
            file.write(body)
            file.write_at(0, pack_header(index, offset, body))
        self._scratches = scratches
        return index.identity, offset + len(body)

    def _new_scratches(self) -> queue.SimpleQueue[Scratch]:
        out: queue.SimpleQueue[Scratch] = queue.SimpleQueue()
        for _ in range(2 * self._workers.count + 2):  # one for every chunk that `map` lets be in flight
            out.put(Scratch())
        return out
