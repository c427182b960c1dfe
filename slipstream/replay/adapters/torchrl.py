"""TorchRL on our storage: `torchrl.data.ReplayBuffer(storage=SlipstreamStorage(n), sampler=...)`, with TorchRL's own
samplers."""

from __future__ import annotations

import json
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from tensordict import TensorDict, is_leaf_nontensor, is_tensor_collection
from torch import Tensor
from torch.utils._pytree import (
    TreeSpec,
    tree_flatten_with_path,
    tree_map,
    tree_unflatten,
    treespec_dumps,
    treespec_loads,
)
from torchrl.data.replay_buffers.storages import LazyStackStorage, Storage

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.host_storage import HostStorage
from slipstream.replay.rows import OUTCOMES
from slipstream.storage.files import write_file
from slipstream.storage.schema import Key, show

_STRUCTURE_FILE = "structure.json"
_ADDED = (("index",), ("discount",))  # keys that our buffer adds to a batch
_MEANING = {*OUTCOMES, *(("next", *key) for key in OUTCOMES), *_ADDED}  # keys that mean something to our buffer
_MARK = "="  # before names that would mean something: TorchRL's samplers and writers read them, the storage does not


class SlipstreamStorage(
    LazyStackStorage
):  # the kind of storage whose batches TorchRL hands on as they are, without a collate_fn
    """A TorchRL storage of `max_size` transitions whose observations are stored once, compressed.

    It takes what `LazyTensorStorage` takes: tensors, TensorDicts, tensorclasses and pytrees of tensors. ("next", K)
    costs nothing if it is K of the transition written after it. What is read is a copy. Slots must be written in order,
    as TorchRL's round-robin writers do. Keyword arguments go to `ReplayBuffer` (codec, group, device, ...).
    """

    def __init__(
        self,
        max_size: int,
        *,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        compilable: bool = False,
        **settings: Any,
    ) -> None:
        if ndim != 1:
            raise ValueError(f"ndim={ndim}: slots have one axis, write buffer.extend(batch.reshape(-1))")
        if compilable:
            raise ValueError("compilable=True: blocks are compressed outside of torch.compile, use LazyTensorStorage")
        if device == "auto":
            raise ValueError("device='auto': name the device of the batches")
        Storage.__init__(self, max_size)  # none of LazyStackStorage's own memory
        self.device = torch.device(device)
        self._settings = settings
        self._new_buffer()

    def _new_buffer(self) -> None:
        # Slots are overwritten one by one, the buffer evicts complete adds: it keeps what the slots still need.
        self.buffer = ReplayBuffer(capacity_bytes=2**62, device=self.device, **self._settings)
        self._tree: TreeSpec | None = None  # of a pytree
        self._names: list[Key] = []  # of its tensors
        self._row: Any = None  # one transition, if they are nested otherwise than in plain TensorDicts

    # writing

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write transitions [n] (or one) into the slots `cursor`, which must be the next ones."""
        one = _is_number(cursor)
        if isinstance(data, list) and not one:
            data = torch.stack(data) if is_tensor_collection(data[0]) else tree_map(lambda *x: torch.stack(x), *data)
        batch = getattr(data, "batch_size", ())
        if len(batch) > 1 and not one:
            raise ValueError(f"a batch {list(batch)} must be [n]: write buffer.extend(batch.reshape(-1))")
        slots, _ = _positions(cursor, self.max_size)
        expected = (self._written + np.arange(len(slots))) % self.max_size
        if not set_cursor or not np.array_equal(slots, expected):
            raise NotImplementedError(
                f"slots {_summary(slots)} of a {type(self).__name__}: they must be written in order and once "
                f"({self._written % self.max_size} is next): use a round-robin writer, or LazyTensorStorage"
            )
        tensors, tree = _flatten(data)
        rows = {key: tensor[None] if one else tensor for key, tensor in tensors.items()}
        for key, tensor in rows.items():
            if not tensor.ndim or len(tensor) != len(slots):
                raise ValueError(
                    f"{show(key)} has the shape {list(tensor.shape)}: give {len(slots)} transitions, one per slot"
                )
        self.buffer.add({_marked(key): tensor for key, tensor in rows.items()})
        if not self._names:
            self._names, self._tree = list(tensors), tree
            if tree is None:
                self._row = _kept_row(data if one else data[0])
        self._set_last_cursor(cursor)
        super()._bump_mutation_revision()
        self._storage().keep_newest(self.max_size)

    def _bump_mutation_revision(self) -> NoReturn:
        # TorchRL calls it after it has changed what `storage[:]` returned: set_, set_at_, update_
        raise NotImplementedError(
            f"{type(self).__name__} does not change transitions in place, what it returns are copies: use LazyTensorStorage"
        )

    # reading

    def get(self, index: Any) -> Any:
        """Return the transitions of the slots `index`, as `LazyTensorStorage` does: for a number one of them.

        Slices, masks, negative numbers and any axes of integers are taken as a tensor takes them.
        """
        if isinstance(index, str) or (isinstance(index, tuple) and index and all(isinstance(x, str) for x in index)):
            return self.get(slice(None))[index]
        if not self._written:
            raise RuntimeError(
                f"nothing was written to the {type(self).__name__} yet: extend the buffer before reading"
            )
        slots, shape = _positions(index, len(self))
        newest = self._written - 1
        batch = self.buffer.get(newest - (newest - slots) % self.max_size)
        for key in _ADDED:
            del batch[key]
        if self._tree is not None:
            leaves = [batch[_marked(key)] for key in self._names]
            return tree_unflatten([leaf.reshape((*shape, *leaf.shape[1:])) for leaf in leaves], self._tree)
        marked = {key: batch.pop(key) for key in [*batch.keys(True, True)] if _unmarked(key) != key}
        for key, tensor in marked.items():
            batch[_unmarked(key)] = tensor
        if self._row is not None:
            row = self._row.expand(len(slots), *self._row.batch_size)
            batch = row.apply(lambda key, _: batch[key], named=True, nested_keys=True, device=self.device)
        return batch if len(shape) == 1 else batch[0] if not shape else batch.reshape(*shape, *batch.batch_size[1:])

    @property
    def _written(self) -> int:
        return self._storage().memory.index.tail_step

    def _storage(self) -> HostStorage:
        assert isinstance(self.buffer._storage, HostStorage)
        return self.buffer._storage

    def __len__(self) -> int:
        return min(self._written, self.max_size)

    def contains(self, item: Any) -> Any:
        """Return whether slots hold anything yet."""
        inside = (torch.as_tensor(item) >= -len(self)) & (torch.as_tensor(item) < len(self))
        return inside if isinstance(item, Tensor) else bool(inside)

    # saving and loading

    def dumps(self, path: str | Path) -> None:
        """Save everything in a folder, for TorchRL's `buffer.dumps(path)`; a later save adds what is new."""
        self.buffer.save(path)
        write_file(Path(path) / _STRUCTURE_FILE, json.dumps(self._structure()).encode())

    def loads(self, path: str | Path) -> None:
        """Load what `dumps` wrote."""
        structure = json.loads((Path(path) / _STRUCTURE_FILE).read_text())
        self.buffer.load(path)
        self._restructure(structure)

    def state_dict(self) -> dict[str, Any]:
        """Return everything."""
        return {"buffer": self.buffer.state_dict(), "structure": self._structure()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.buffer.load_state_dict(state_dict["buffer"])
        self._restructure(state_dict["structure"])

    def _structure(self) -> dict[str, Any]:
        """Return JSON; without the classes of tensorclasses, which are then loaded as TensorDicts."""
        tree = None if self._tree is None else treespec_dumps(self._tree)
        return {"tree": tree, "names": [list(key) for key in self._names]}

    def _restructure(self, structure: dict[str, Any]) -> None:
        names = [tuple(key) for key in structure["names"]]
        if names != self._names:  # else a tensorclass stays one
            self._names, self._row = names, None
            self._tree = None if structure["tree"] is None else treespec_loads(structure["tree"])
        super()._bump_mutation_revision()

    def _empty(self) -> None:
        self.buffer.close()
        self._new_buffer()
        super()._bump_mutation_revision()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: that of the buffer instead of the buffer."""
        if get_spawning_popen() is not None:
            raise RuntimeError(f"a {type(self).__name__} cannot be shared between processes: use LazyMemmapStorage")
        state = Storage.__getstate__(self)
        return {**{k: v for k, v in state.items() if k != "buffer"}, "buffer_state": self.buffer.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        buffer_state = state.pop("buffer_state")
        Storage.__setstate__(self, dict(state))
        self._new_buffer()
        self.buffer.load_state_dict(buffer_state)
        self._tree, self._names, self._row = state["_tree"], state["_names"], state["_row"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_size={self.max_size}, len={len(self)}, nbytes={self.buffer.nbytes})"


def _flatten(data: Any) -> tuple[dict[Key, Tensor], TreeSpec | None]:
    """Return the tensors of a batch by their keys, and the structure of a pytree."""
    tree = None
    if is_tensor_collection(data):
        items = data.items(True, True, is_leaf=is_leaf_nontensor)
        leaves = [(key if isinstance(key, tuple) else (key,), x) for key, x in items]
    else:
        found, tree = tree_flatten_with_path(data)
        leaves = [
            (tuple(str(getattr(k, "key", getattr(k, "idx", k))) for k in path) or ("tensor",), x) for path, x in found
        ]
    tensors = dict(leaves)
    for key, leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise TypeError(f"{show(key)} is a {type(leaf).__name__}: SlipstreamStorage stores tensors")
    if not tensors or len(tensors) != len(leaves):
        raise ValueError(
            "there are no tensors in it" if not tensors else "two keys have the same name as text: rename one"
        )
    return tensors, tree


def _kept_row(row: Any) -> Any:
    """Return one transition, to make others like it; None if plain TensorDicts with its keys are."""
    nested = [row, *(x for x in row.values(True) if is_tensor_collection(x))]
    plain = all(isinstance(x, TensorDict) and not x.batch_size and not any(x.names or ()) for x in nested)
    return None if plain else row.detach().clone()


def _marked(key: Key) -> Key:
    return (*key[:-1], _MARK + key[-1]) if _unmarked(key) in _MEANING else key


def _unmarked(key: Any) -> Any:
    names = key if isinstance(key, tuple) else (key,)
    plain = (*names[:-1], names[-1].lstrip(_MARK))
    if plain not in _MEANING or plain == names:
        return key
    return (*names[:-1], names[-1].removeprefix(_MARK))


def _is_number(index: Any) -> bool:
    if isinstance(index, Tensor | np.ndarray):
        return index.ndim == 0 and index.dtype not in (torch.bool, np.bool_)
    return isinstance(index, int | np.integer) and not isinstance(index, bool)


def _positions(index: Any, length: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return (numbers below `length`, the shape of the result) of an index, as of a tensor [length]."""
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    if isinstance(index, slice | range):
        numbers = np.arange(length)[index] if isinstance(index, slice) else np.asarray(index, np.int64)
    else:
        if not isinstance(index, Tensor | tuple) and index is not None and index is not Ellipsis:
            index = np.asarray(index, None if np.size(index) else np.int64)
            index = torch.as_tensor(index.astype(np.int64) if index.dtype.kind in "iu" else index)
        if isinstance(index, Tensor):
            index = index.detach().cpu()
        if isinstance(index, Tensor) and not index.is_floating_point() and index.dtype not in (torch.bool, torch.uint8):
            numbers = index.numpy().astype(np.int64)
        else:  # masks, new axes
            numbers = torch.arange(length)[index].numpy()
    if numbers.size and (numbers.min() < -length or numbers.max() >= length):
        raise IndexError(f"slots {_summary(numbers.ravel())} of {length}")
    flat = numbers.ravel()
    return np.where(flat < 0, flat + length, flat), numbers.shape


def _summary(slots: np.ndarray) -> str:
    return f"{slots[:5].tolist()}{' ...' if len(slots) > 5 else ''}"
