"""Writing one batch as one file: a container with one section per block.

An observation's successor is the observation one step later, except where an episode or the batch ends. So ("next",
key) is stored for those steps only, whether it came as a view of the same memory or as a copy; one bit per step says
which they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import is_tensor_collection
from torch import Tensor

from slipstream.rollouts.columns import ColumnCoder, Geometry, frames_of, part_of
from slipstream.storage.background import BackgroundWorker
from slipstream.storage.container import ContainerWriter, section_checksum
from slipstream.storage.files import FileSystem, atomic_file
from slipstream.storage.serializer import Leaves, Node, flatten, to_json, walk_leaves
from slipstream.storage.staging import Buffer, Layout, View

KIND = "roll"
Key = tuple[Any, ...]  # names, and numbers where a dict has them

_MOST_STORED = 0.5  # a successor with more steps of its own than this is stored completely
_ONE_PER_STEP = ("reward", "done", "terminated")  # their shape is that of the batch


@dataclass
class Column:
    """One tensor of a batch, as the head describes it."""

    key: Key
    dtype: str  # torch's name, or NumPy's with the prefix `numpy:`
    shape: tuple[int, ...]
    steps: bool  # it has the batch's leading dimensions
    geometry: Geometry
    follows: int | None = None  # the column of which this is the successor; its own frames are the exceptions
    first: int = 0  # the section of its first block; the others follow
    stored: Any = None  # of a successor: the array of bits that says which steps are stored

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * itemsize_of(self.dtype)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the head. The key is in the tree."""
        g = self.geometry
        return {
            "dtype": self.dtype, "shape": list(self.shape), "steps": self.steps, "frames": g.frames,
            "layout": [g.span, g.group, g.block_rows], "first": self.first, "follows": self.follows, "stored": self.stored,
        }  # fmt: skip


@dataclass
class Batch:
    """A batch to be written: its structure, and a snapshot of its tensors."""

    iteration: int
    tree: Any
    keys: list[Key]
    lead: tuple[int, ...]  # [envs, steps], [steps] or []
    note: Any  # a tree without tensors
    buffer: Buffer


def split(data: Any) -> tuple[Any, Leaves, list[Key]]:
    """Return (tree, tensors and arrays, their keys) of a TensorDict or a nested dict; nothing is copied.

    Raises:
        TypeError: if it holds something that cannot be saved as data.
    """
    if not (is_tensor_collection(data) or isinstance(data, Mapping)):
        raise TypeError(f"a rollout is a TensorDict or a dict of tensors, not a {type(data).__name__}")
    tree, leaves = flatten(data, detach=True)
    keys: list[Key] = []
    numbers: list[int] = []

    def walk(node: Any, key: Key) -> Any:
        """Number the leaves by their keys: a tensor that is there twice gets two columns."""
        if type(node) is not Node:
            return node
        tag, value = node
        if tag in ("tensor", "ndarray"):
            keys.append(key)
            numbers.append(value)
            return Node(tag, len(keys) - 1)
        if tag in ("dict", "odict", "tensordict"):
            pairs = [(name, walk(child, (*key, name))) for name, child in (value if tag == "dict" else value[0])]
            if any(type(name) not in (str, int) for name, _ in pairs):
                raise TypeError(f"{show(key)} has keys that are neither names nor numbers: rename them")
            return Node(tag, pairs if tag == "dict" else [pairs, value[1]])
        if next(walk_leaves(node), None) is not None:
            raise TypeError(f"{show(key)} is a {tag} of tensors: stack its tensors")
        return node

    tree = walk(tree, ())
    arrays = set(leaves.arrays)
    named = [".".join(map(str, key)) for key in keys]
    columns = Leaves([leaves.data[n] for n in numbers], named, [i for i, n in enumerate(numbers) if n in arrays])
    return tree, columns, keys


def leading_dimensions(data: Any, keys: list[Key], leaves: Leaves, batch_dims: int | None) -> tuple[int, ...]:
    """Return the dimensions [envs, steps], or [steps], or none, that the batch's tensors share."""
    shapes = [tuple(leaf.shape) for leaf in leaves.data]
    given = tuple(getattr(data, "batch_size", ()))
    if batch_dims is not None:
        if not 0 <= batch_dims <= 2:
            raise ValueError(
                f"batch_dims={batch_dims}: use 2 for [envs, steps, ...], 1 for [steps, ...], 0 for neither"
            )
        sizes = {shape[:batch_dims] for shape in shapes if len(shape) >= batch_dims}
        if len(given) < batch_dims and len(sizes) != 1:
            raise ValueError(
                f"batch_dims={batch_dims}, but the tensors begin with {sorted(sizes)}: these must be the same"
            )
        return given[:batch_dims] if len(given) >= batch_dims else sizes.pop()
    if given:
        return given[:2]
    one = next((shape for key, shape in zip(keys, shapes, strict=True) if key[-1] in _ONE_PER_STEP and shape), None)
    if one is not None:
        flat = len(one) > 1 and one[1] == 1 and any(s[0] == one[0] and s[1] != 1 for s in shapes if len(s) > 1)
        return one[:1] if flat else one[:2]
    common: list[int] = []
    for sizes_here in zip(*(shape[:2] for shape in shapes if shape), strict=False):
        if len(set(sizes_here)) > 1:
            break
        common.append(sizes_here[0])
    return tuple(common)


class RolloutWriter:
    """Writes batches; remembers the codec of every key."""

    def __init__(self, level: int, worker: BackgroundWorker, fs: FileSystem) -> None:
        self._level, self._worker, self._fs = level, worker, fs
        self._coders: dict[tuple[Key, Geometry], ColumnCoder] = {}

    def write(self, path: Path, batch: Batch) -> int:
        """Write the batch as a file that appears complete or not at all; return its bytes."""
        host = batch.buffer.fetch()
        columns, bits, masks = self._plan(batch, host)
        with atomic_file(path, self._fs) as file:
            writer = ContainerWriter(file, KIND)
            for i, number, block, checksum in self._encode(columns, bits):
                section = writer.add(block, checksum=checksum)
                columns[i].first = section if number == 0 else columns[i].first
            for i, mask in masks.items():
                columns[i].stored = writer.add_array(np.packbits(mask))
            head = {
                "iteration": batch.iteration, "saved": time.time(), "lead": list(batch.lead), "note": to_json(batch.note),
                "tree": to_json(batch.tree), "columns": [column.to_json() for column in columns],
            }  # fmt: skip
            return writer.finish(head)

    def _plan(self, batch: Batch, host: np.ndarray) -> tuple[list[Column], list[np.ndarray], dict[int, np.ndarray]]:
        """Return (columns, the bits they are filled from, the stored steps of each successor)."""
        lead, layout = batch.lead, batch.buffer.layout
        envs, steps = envs_and_steps(lead)
        columns: list[Column] = []
        bits: list[np.ndarray] = []
        for key, view in zip(batch.keys, layout.views, strict=True):
            tensor, shape, itemsize = _tensor(layout, view, host), tuple(view.shape), itemsize_of(view.dtype)
            is_steps = bool(lead) and shape[: len(lead)] == lead
            frames = envs * steps if is_steps else math.prod(shape)
            frame_bytes = math.prod(shape[len(lead) :]) * itemsize if is_steps else itemsize
            geometry = Geometry.plan(frames, frame_bytes, word_size(view.dtype), steps if is_steps else 1)
            columns.append(Column(key, view.dtype, shape, is_steps, geometry))
            bits.append(frames_of(tensor, lead if is_steps else ()))
        return columns, bits, self._find_successors(batch, columns, bits)

    def _find_successors(self, batch: Batch, columns: list[Column], bits: list[np.ndarray]) -> dict[int, np.ndarray]:
        """Reduce each ("next", key) to the steps that are not the key's one step later; return which, bool [envs,
        steps]."""
        place = {key: i for i, key in enumerate(batch.keys)}
        views = batch.buffer.layout.views
        masks = {}
        for i, column in enumerate(columns):
            base = place.get(column.key[1:]) if len(column.key) > 1 and column.key[0] == "next" else None
            if base is None or not column.steps or not column.geometry.rows or columns[base].follows is not None:
                continue
            if (columns[base].shape, columns[base].dtype) != (column.shape, column.dtype):
                continue
            mask = _differing(bits[base], bits[i], views[base], views[i], len(batch.lead) - 1)
            if mask.mean() <= _MOST_STORED:
                bits[i], g = bits[i][mask][None], column.geometry
                column.geometry = Geometry.plan(bits[i].shape[1], g.frame_bytes, g.itemsize, 1)
                column.follows, masks[i] = base, mask
        return masks

    def _encode(self, columns: list[Column], bits: list[np.ndarray]) -> Iterator[tuple[int, int, np.ndarray, int]]:
        """Yield (column, number, bytes, checksum) of every block, encoded by all threads, in order."""

        def encode(task: tuple[int, int]) -> tuple[int, int, np.ndarray, int]:
            i, number = task
            block = self._coder(columns[i]).encode(number, lambda a, b: part_of(bits[i], a, b))
            return i, number, block, section_checksum(block)

        return self._worker.map(encode, ((i, n) for i, c in enumerate(columns) for n in range(c.geometry.blocks)))

    def _coder(self, column: Column) -> ColumnCoder:
        name = column.key, column.geometry
        if name not in self._coders:
            while len(self._coders) >= 1000:  # of batches that change their shape all the time
                self._coders.pop(next(iter(self._coders)), None)
            self._coders[name] = ColumnCoder(column.geometry, self._level)
        return self._coders[name]


def show(key: Key) -> str:
    """Return a key as the user wrote it."""
    return "the batch" if not key else repr(key[0]) if len(key) == 1 else repr(key)


def envs_and_steps(lead: tuple[int, ...]) -> tuple[int, int]:
    """Return (envs, steps); a batch [steps] has one environment."""
    return (1, *lead)[-2:] if lead else (1, 1)  # type: ignore[return-value]


def _plain_dtype(dtype: str) -> Any:
    plain = np.dtype(dtype.removeprefix("numpy:")) if dtype.startswith("numpy:") else getattr(torch, dtype, None)
    if isinstance(plain, torch.dtype) or (isinstance(plain, np.dtype) and not plain.hasobject):
        return plain
    raise ValueError(f"{dtype!r} is not a dtype of plain numbers")


def itemsize_of(dtype: str) -> int:
    """Return the bytes of a number of that dtype. Raises ValueError if it is none."""
    return int(_plain_dtype(dtype).itemsize)


def word_size(dtype: str) -> int:
    """Return the bytes of the words that are encoded: of a complex number one part."""
    plain = _plain_dtype(dtype)
    return int(plain.itemsize) // (2 if isinstance(plain, torch.dtype) and plain.is_complex else 1)


def _tensor(layout: Layout, view: View, host: np.ndarray) -> Any:
    """Return the tensor or array of a snapshot, in its memory."""
    storage = layout.storages[view.storage]
    start = layout.streams[storage.stream].start + storage.start if layout.streams else 0
    data = host[start : start + storage.nbytes]
    if view.dtype.startswith("numpy:"):
        return data.view(np.dtype(view.dtype.removeprefix("numpy:"))).reshape(view.shape)
    dtype = getattr(torch, view.dtype)
    if not data.nbytes:
        return torch.empty(view.shape, dtype=dtype)
    memory: Tensor = torch.from_numpy(data)
    return torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), view.offset, view.shape, view.stride)


def _differing(base: np.ndarray, words: np.ndarray, base_view: View, view: View, axis: int) -> np.ndarray:
    """Return bool [envs, steps]: where the frame is not, bit for bit, the base's one step later; `axis` is the views'
    step dimension."""
    mask = np.ones(words.shape[:2], bool)
    shared = base_view.storage == view.storage and base_view.stride == view.stride and bool(view.stride)
    if shared and 0 < view.stride[axis] == view.offset - base_view.offset:
        mask[:, :-1] = False  # the same memory one row on, as our collectors give it
    elif words.shape[1] > 1:
        different = words[:, :-1] != base[:, 1:]
        mask[:, :-1] = different.reshape(*different.shape[:2], -1).any(-1)
    return mask
