"""TorchRL on our storage: `torchrl.data.ReplayBuffer(storage=SlipstreamStorage(n), sampler=...)`, with TorchRL's own
samplers."""

from __future__ import annotations

from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from tensordict import TensorDictBase, is_leaf_nontensor
from torch import Tensor
from torchrl.data.replay_buffers.storages import LazyStackStorage, Storage

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.host_storage import HostStorage
from slipstream.storage.schema import Key, show

_DATA = "data"  # all keys are below this name: TorchRL's own, such as "done", mean something else to our buffer


class SlipstreamStorage(
    LazyStackStorage
):  # the kind of storage whose batches TorchRL hands on as they are, without a collate_fn
    """A TorchRL storage of `max_size` transitions whose observations are stored once, compressed.

    It takes TensorDicts of tensors. ("next", K) costs nothing if it is K of the transition written after it. What is
    read is a copy. Slots must be written in order, as TorchRL's round-robin writers do. Keyword arguments go to
    `ReplayBuffer` (codec, group, device, ...).
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
        if not isinstance(max_size, int) or max_size < 1:
            raise ValueError(f"max_size={max_size} must be at least 1, and a whole number")
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

    # writing

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write transitions [n] (or one) into the slots `cursor`, which must be the next ones."""
        slots, shape = _positions(cursor, self.max_size)
        if isinstance(data, list):
            data = torch.stack(data)
        if not isinstance(data, TensorDictBase):
            raise TypeError(
                f"a {type(data).__name__}: a {type(self).__name__} takes TensorDicts, use LazyTensorStorage"
            )
        if len(data.batch_size) > 1 and shape:
            raise ValueError(f"a batch {list(data.batch_size)} must be [n]: write buffer.extend(batch.reshape(-1))")
        expected = (self._written + np.arange(len(slots))) % self.max_size
        if not set_cursor or not np.array_equal(slots, expected):
            raise NotImplementedError(
                f"slots {_summary(slots)} of a {type(self).__name__}: they must be written in order and once "
                f"({self._written % self.max_size} is next): use a round-robin writer, or LazyTensorStorage"
            )
        rows: dict[Key, Tensor] = {}
        for name, value in data.items(True, True, is_leaf=is_leaf_nontensor):
            key = name if isinstance(name, tuple) else (name,)
            if not isinstance(value, Tensor):
                raise TypeError(f"{show(key)} is a {type(value).__name__}: a {type(self).__name__} stores tensors")
            stored = ("next", _DATA, *key[1:]) if key[0] == "next" else (_DATA, *key)
            rows[stored] = value if shape else value[None]
        self.buffer.add(rows)
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
        """Return the transitions of the slots `index`, which may be whatever a tensor takes: for a number one of
        them."""
        if isinstance(index, str) or (isinstance(index, tuple) and index and all(isinstance(x, str) for x in index)):
            return self.get(slice(None))[index]
        if not self._written:
            raise RuntimeError(
                f"nothing was written to the {type(self).__name__} yet: extend the buffer before reading"
            )
        slots, shape = _positions(index, len(self))
        newest = self._written - 1
        drawn = self.buffer.get(newest - (newest - slots) % self.max_size)
        batch = drawn[_DATA]
        if "next" in drawn.keys():  # noqa: SIM118
            batch["next"] = drawn["next", _DATA]
        return batch if len(shape) == 1 else batch[0] if not shape else batch.reshape(shape)

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

    def loads(self, path: str | Path) -> None:
        """Load what `dumps` wrote."""
        self.buffer.load(path)
        super()._bump_mutation_revision()

    def state_dict(self) -> dict[str, Any]:
        """Return everything."""
        return self.buffer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.buffer.load_state_dict(state_dict)
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_size={self.max_size}, len={len(self)}, nbytes={self.buffer.nbytes})"


def _positions(index: Any, length: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return (numbers below `length`, the shape of the result) of an index, as of a tensor [length]."""
    if isinstance(index, range):
        index = np.asarray(index, np.int64)
    if isinstance(index, int | np.ndarray) and not isinstance(index, bool):
        index = torch.as_tensor(index)
    if isinstance(index, Tensor) and index.dtype not in (torch.bool, torch.uint8) and not index.is_floating_point():
        numbers = index.detach().cpu().numpy().astype(np.int64)
    else:  # slices, lists, masks
        numbers = torch.arange(length)[index].numpy()
    if numbers.size and (numbers.min() < -length or numbers.max() >= length):
        raise IndexError(f"slots {_summary(numbers.ravel())} of {length}")
    return numbers.ravel() % length, numbers.shape


def _summary(slots: np.ndarray) -> str:
    return f"{slots[:5].tolist()}{' ...' if len(slots) > 5 else ''}"
