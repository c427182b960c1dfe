"""Writing one batch as one file: the blocks of a column are one entry, and each block is a piece of it.

An observation's successor is the observation one step later, except where an episode or the batch ends. So ("next",
key) is stored for those steps only, whether it came as a view of the same memory or as a copy; one bit per step says
which they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import is_tensor_collection

from slipstream.rollouts.columns import ColumnCoder, Geometry, frames_of
from slipstream.storage.background import BackgroundWorker
from slipstream.storage.container import ContainerWriter, checksum_of
from slipstream.storage.files import FileSystem, atomic_file
from slipstream.storage.serializer import Leaves, flatten, pairs_of, walk_leaves
from slipstream.storage.staging import Buffer, View, make_tensor, plain_dtype

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
        return math.prod(self.shape) * plain_dtype(self.dtype).itemsize

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the head. The key is in the tree."""
        g = self.geometry
        return {
            "dtype": self.dtype, "shape": list(self.shape), "steps": self.steps, "frames": g.frames,
            "layout": [g.span, g.group, g.block_rows], "first": self.first, "follows": self.follows, "stored": self.stored,
        }  # fmt: skip


def split(data: Any) -> tuple[Any, Leaves, list[Key]]:
    """Return (tree, tensors and arrays, their keys) of a TensorDict or a nested dict; nothing is copied.

    Raises:
        TypeError: if it holds something that cannot be saved as data.
    """
    if not (is_tensor_collection(data) or isinstance(data, Mapping)):
        raise TypeError(f"a rollout is a TensorDict or a dict of tensors, not a {type(data).__name__}")
    tree, leaves = flatten(data, detach=True, share=False)
    _check_keys(tree, ())
    keys = [key for key, _ in walk_leaves(tree)]
    return tree, leaves._replace(names=[".".join(map(str, key)) for key in keys]), keys


def _check_keys(node: Any, key: Key) -> None:
    """Refuse tensors in lists, and keys that a reader could not name."""
    if (pairs := pairs_of(node)) is not None:
        for name, child in pairs:
            if type(name) not in (str, int):
                raise TypeError(f"{show(key)} has keys that are neither names nor numbers: rename them")
            _check_keys(child, (*key, name))
    elif any(path for path, _ in walk_leaves(node)):
        raise TypeError(f"{show(key)} holds tensors in a list or a tuple: stack them")


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

    def write(self, path: Path, buffer: Buffer, keys: list[Key], lead: tuple[int, ...], head: dict[str, Any]) -> int:
        """Write a snapshot of tensors as a file that appears complete or not at all; return its bytes.

        Args:
            buffer: the snapshot.
            keys: of its tensors.
            lead: [envs, steps], [steps] or [].
            head: what the file says besides: iteration, tree and note.
        """
        columns, frames = self._plan(buffer, keys, lead)
        masks = self._find_successors(columns, frames, buffer.layout.views, len(lead) - 1)
        with atomic_file(path, self._fs) as file:
            writer = ContainerWriter(file, KIND)
            for i, number, block, checksum in self._encode(columns, frames):
                section = writer.add(block, name=_entry_name(columns[i].key), checksum=checksum)
                columns[i].first = section if number == 0 else columns[i].first
            for i, mask in masks.items():
                columns[i].stored = writer.add_array(np.packbits(mask), f"{_entry_name(columns[i].key)}.stored")
            described = [column.to_json() for column in columns]
            return writer.finish({**head, "saved": time.time(), "lead": list(lead), "columns": described})

    def _plan(self, buffer: Buffer, keys: list[Key], lead: tuple[int, ...]) -> tuple[list[Column], list[np.ndarray]]:
        """Return the columns, and the frames that each is filled with: see `frames_of`."""
        host, layout = buffer.fetch(), buffer.layout
        envs, steps = envs_and_steps(lead)
        columns: list[Column] = []
        frames: list[np.ndarray] = []
        for key, view in zip(keys, layout.views, strict=True):
            is_steps = bool(lead) and view.shape[: len(lead)] == lead
            count = envs * steps if is_steps else math.prod(view.shape)
            numbers = math.prod(view.shape[len(lead) :]) if is_steps else 1
            geometry = Geometry.plan(count, numbers, view.dtype, steps if is_steps else 1)
            columns.append(Column(key, view.dtype, view.shape, is_steps, geometry))
            data = layout.storage_bytes(layout.storages[view.storage], host)
            frames.append(frames_of(make_tensor(view, torch.from_numpy(data)), lead if is_steps else ()))
        return columns, frames

    def _find_successors(
        self, columns: list[Column], frames: list[np.ndarray], views: Sequence[View], axis: int
    ) -> dict[int, np.ndarray]:
        """Reduce each ("next", key) to the steps that are not the key's one step later; return which, bool [envs,
        steps]. `axis` is the step dimension."""
        place = {column.key: i for i, column in enumerate(columns)}
        masks = {}
        for i, column in enumerate(columns):
            base = place.get(column.key[1:]) if len(column.key) > 1 and column.key[0] == "next" else None
            if base is None or not column.steps or not column.geometry.rows or columns[base].follows is not None:
                continue
            if (columns[base].shape, columns[base].dtype) != (column.shape, column.dtype):
                continue
            mask = _differing(frames[base], frames[i], views[base], views[i], axis)
            if mask.mean() <= _MOST_STORED:
                frames[i] = frames[i][mask][None]
                numbers = math.prod(column.shape[axis + 1 :])
                column.geometry = Geometry.plan(frames[i].shape[1], numbers, column.dtype, 1)
                column.follows, masks[i] = base, mask
        return masks

    def _encode(self, columns: list[Column], frames: list[np.ndarray]) -> Iterator[tuple[int, int, np.ndarray, int]]:
        """Yield (column, number, bytes, checksum) of every block, encoded by all threads, in order."""

        def encode(task: tuple[int, int]) -> tuple[int, int, np.ndarray, int]:
            i, number = task
            block = self._coder(columns[i]).encode(number, frames[i])
            return i, number, block, checksum_of(block)

        return self._worker.map(encode, ((i, n) for i, c in enumerate(columns) for n in range(c.geometry.blocks)))

    def _coder(self, column: Column) -> ColumnCoder:
        name = column.key, column.geometry
        if name not in self._coders:
            while len(self._coders) >= 1000:  # of batches that change their shape all the time
                self._coders.pop(next(iter(self._coders)), None)
            self._coders[name] = ColumnCoder(column.geometry, self._level)
        return self._coders[name]


def _entry_name(key: Key) -> str:
    return ".".join(map(str, key)) or "batch"


def show(key: Key) -> str:
    """Return a key as the user wrote it."""
    return "the batch" if not key else repr(key[0]) if len(key) == 1 else repr(key)


def envs_and_steps(lead: tuple[int, ...]) -> tuple[int, int]:
    """Return (envs, steps); a batch [steps] has one environment."""
    return (1, *lead)[-2:] if lead else (1, 1)  # type: ignore[return-value]


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
