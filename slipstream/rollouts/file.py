"""One batch in one file: the records of a file of rows, with the head behind them, where a reader finds it at once.

    column/I   a block of column I, as in replay; one record a block
    array/...  which steps of a successor are stored (see below)
    head       JSON: the batch's keys, dtypes and shapes, where each block lies
    tail       64 bytes: where the head begins
    end

An observation's successor is the observation one step on, except where an episode or the batch ends. So ("next", key) is
stored for those steps alone, whether it came as a view of the same memory or as a copy; which they are is a bit a step.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.rollouts.columns import ColumnCoder, Geometry, frames_of, part_of
from slipstream.storage.codec import Workers
from slipstream.storage.files import FileSystem, atomic_file
from slipstream.storage.records import MAGIC, RecordWriter
from slipstream.storage.schema import Key
from slipstream.storage.staging import Layout, View

FORMAT = 1
TAIL = struct.Struct("<8sQQ")  # magic, where the head's record begins, bytes of its payload
TAIL_BYTES = 64
ENDING = 3 * 64  # record tail, its payload, record end
_MOST_STORED = 0.5  # a successor with more steps of its own than this is no successor


@dataclass
class Batch:
    """What is to be written: plain data about it, and its tensors in host memory."""

    iteration: int
    tree: dict[str, Any]
    keys: list[Key]
    lead: tuple[int, ...]  # [envs, steps], [steps] or []
    layout: Layout
    note: dict[str, Any]


@dataclass
class Column:
    """One tensor of a batch, as the head describes it."""

    key: Key
    dtype: str  # torch's name, or NumPy's with the prefix `numpy:`
    shape: tuple[int, ...]
    steps: bool  # it has the batch's leading dimensions
    geometry: Geometry
    follows: int | None = None  # the column of which this is the successor; its own frames are the exceptions
    places: list[list[int]] = field(default_factory=list)  # offset and bytes of each block
    stored: int | None = None  # of a successor: where the record begins that says which steps are stored

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * itemsize_of(self.dtype)

    def describe(self) -> dict[str, Any]:
        """Plain data for the head."""
        return {
            "key": list(self.key), "dtype": self.dtype, "shape": list(self.shape), "steps": self.steps, "follows": self.follows,
            "geometry": list(vars(self.geometry).values()), "places": self.places, "stored": self.stored,
        }  # fmt: skip

    @classmethod
    def restore(cls, d: dict[str, Any]) -> Column:
        """What `describe` gave."""
        geometry = Geometry(*(int(n) for n in d["geometry"]))
        return cls(
            tuple(d["key"]),
            d["dtype"],
            tuple(d["shape"]),
            bool(d["steps"]),
            geometry,
            d["follows"],
            d["places"],
            d["stored"],
        )


class RolloutWriter:
    """Writes batches; remembers for each key which codec suits it."""

    def __init__(self, level: int, workers: Workers, fs: FileSystem) -> None:
        self._level, self._workers, self._fs = level, workers, fs
        self._coders: dict[tuple[Key, Geometry], ColumnCoder] = {}

    def write(self, path: Path, batch: Batch, host: np.ndarray) -> int:
        """The batch as a file that appears whole or not at all; the bytes written."""
        tensors = [_tensor(batch.layout, view, host) for view in batch.layout.views]
        columns, bits, masks = self._plan(batch, tensors)
        with atomic_file(path, self._fs) as file:
            writer = RecordWriter(file.write)
            for i, block in self._blocks(columns, bits):
                columns[i].places.append([writer.add(f"column/{i}", block), block.nbytes])
            for i, mask in masks.items():
                columns[i].stored = writer.nbytes
                writer.add_array(f"stored/{i}", np.packbits(mask))
            head = {
                "format": FORMAT, "iteration": batch.iteration, "saved": time.time(), "lead": list(batch.lead), "note": batch.note,
                "tree": batch.tree, "columns": [column.describe() for column in columns],
            }  # fmt: skip
            text = json.dumps(head).encode()
            text += b" " * (-len(text) % 64)  # so that what follows has one size
            at = writer.nbytes
            writer.add("head", text)
            writer.add("tail", TAIL.pack(MAGIC, at, len(text)).ljust(TAIL_BYTES, b"\0"))
            writer.end()
        return file.position

    def _plan(self, batch: Batch, tensors: list[Any]) -> tuple[list[Column], list[np.ndarray], dict[int, np.ndarray]]:
        """(columns, the bits they are filled from, for successors the steps that are stored)."""
        lead = batch.lead
        envs, steps = envs_and_steps(lead)
        columns: list[Column] = []
        bits: list[np.ndarray] = []
        for key, tensor, view in zip(batch.keys, tensors, batch.layout.views, strict=True):
            shape, itemsize = tuple(tensor.shape), itemsize_of(view.dtype)
            is_steps = bool(lead) and shape[: len(lead)] == lead
            words = frames_of(tensor, lead if is_steps else ())
            frames = envs * steps if is_steps else math.prod(shape)
            frame_bytes = math.prod(shape[len(lead) :]) * itemsize if is_steps else itemsize
            width = words.dtype.itemsize if isinstance(tensor, Tensor) else itemsize
            geometry = Geometry.plan(frames, frame_bytes, width, steps if is_steps else 1)
            columns.append(Column(key, view.dtype, shape, is_steps, geometry))
            bits.append(words)
        return columns, bits, self._successors(batch, columns, bits)

    def _successors(self, batch: Batch, columns: list[Column], bits: list[np.ndarray]) -> dict[int, np.ndarray]:
        """Leaves of each ("next", key) the steps that are not the key's one step on; which they are, bool [envs, steps]."""
        place = {key: i for i, key in enumerate(batch.keys)}
        masks = {}
        for i, column in enumerate(columns):
            base = place.get(column.key[1:]) if len(column.key) > 1 and column.key[0] == "next" else None
            if base is None or not column.steps or not column.geometry.rows or columns[base].follows is not None:
                continue
            if (columns[base].shape, columns[base].dtype) != (column.shape, column.dtype):
                continue
            views = batch.layout.views
            mask = _differing(bits[base], bits[i], views[base], views[i], len(batch.lead) - 1)
            if mask.mean() <= _MOST_STORED:
                bits[i], g = bits[i][mask][None], column.geometry
                column.geometry = Geometry.plan(bits[i].shape[1], g.frame_bytes, g.itemsize, 1)
                column.follows, masks[i] = base, mask
        return masks

    def _blocks(self, columns: list[Column], bits: list[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """(column, bytes) of every block, coded by all threads, in order."""

        def encode(task: tuple[int, int]) -> tuple[int, np.ndarray]:
            i, number = task
            return i, self._coder(columns[i]).encode(number, lambda a, b: part_of(bits[i], a, b))

        return self._workers.map(
            encode, ((i, number) for i, c in enumerate(columns) for number in range(c.geometry.blocks))
        )

    def _coder(self, column: Column) -> ColumnCoder:
        name = column.key, column.geometry
        if name not in self._coders:
            while len(self._coders) >= 1000:  # of batches that change their shape all the time
                self._coders.pop(next(iter(self._coders)), None)
            self._coders[name] = ColumnCoder(column.geometry, self._level)
        return self._coders[name]


def envs_and_steps(lead: tuple[int, ...]) -> tuple[int, int]:
    """A batch [steps] is one environment's."""
    return (1, *lead)[-2:] if lead else (1, 1)  # type: ignore[return-value]


def itemsize_of(dtype: str) -> int:
    """Bytes of a number of that dtype; raises ValueError where it is none."""
    plain = np.dtype(dtype.removeprefix("numpy:")) if dtype.startswith("numpy:") else getattr(torch, dtype, None)
    if isinstance(plain, torch.dtype) or (isinstance(plain, np.dtype) and not plain.hasobject):
        return plain.itemsize
    raise ValueError(f"{dtype!r} is no dtype of plain numbers")


def _tensor(layout: Layout, view: View, host: np.ndarray) -> Any:
    """The tensor or array of a snapshot, in its memory."""
    storage = layout.storages[view.storage]
    start = layout.streams[storage.stream].start + storage.start if layout.streams else 0
    data = host[start : start + storage.nbytes]
    if view.dtype.startswith("numpy:"):
        return data.view(np.dtype(view.dtype.removeprefix("numpy:"))).reshape(view.shape)
    dtype = getattr(torch, view.dtype)
    if not data.nbytes:
        return torch.empty(view.shape, dtype=dtype)
    return torch.empty(0, dtype=dtype).set_(
        torch.from_numpy(data).untyped_storage(), view.offset, view.shape, view.stride
    )


def _differing(base: np.ndarray, words: np.ndarray, base_view: View, view: View, axis: int) -> np.ndarray:
    """bool [envs, steps]: where the frame is not, bit for bit, the base's one step on; steps are the views' dimension `axis`."""
    mask = np.ones(words.shape[:2], bool)
    shared = base_view.storage == view.storage and base_view.stride == view.stride and bool(view.stride)
    if shared and 0 < view.stride[axis] == view.offset - base_view.offset:
        mask[:, :-1] = False  # the same memory one row on, as our collectors give it
    elif words.shape[1] > 1:
        different = words[:, :-1] != base[:, 1:]
        mask[:, :-1] = different.reshape(*different.shape[:2], -1).any(-1)
    return mask
