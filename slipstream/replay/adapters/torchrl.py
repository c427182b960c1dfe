"""TorchRL on our storage: `torchrl.data.ReplayBuffer(storage=SlipstreamStorage(n), sampler=...)`, with TorchRL's own
samplers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data.replay_buffers.storages import LazyStackStorage, Storage

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.host_storage import HostStorage
from slipstream.storage.files import write_file

_SLOTS_FILE = "slots.json"


class SlipstreamStorage(
    LazyStackStorage
):  # the kind of storage whose batches TorchRL hands on as they are, without a collate_fn
    """A TorchRL storage of `max_size` transitions whose observations are stored once, compressed.

    ("next", K) costs nothing if it is K of the transition written after it. Slots must be written in order, as
    TorchRL's round-robin writers do. Keyword arguments go to `ReplayBuffer` (codec, group, device, ...).
    """

    def __init__(self, max_size: int, *, device: torch.device | str = "cpu", **settings: Any) -> None:
        Storage.__init__(self, max_size)  # none of LazyStackStorage's own memory
        self.device = torch.device(device)
        self._settings = settings
        self._new_buffer()

    def _new_buffer(self) -> None:
        # Slots are overwritten one by one, the buffer evicts complete adds: it keeps what the slots still need.
        self.buffer = ReplayBuffer(capacity_bytes=2**62, device=self.device, **self._settings)
        self._indexed = False  # transitions come with an "index" of their own, which says the slot

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write transitions [n] (or one) into the slots `cursor`, which must be the next ones."""
        if not isinstance(data, TensorDictBase | Mapping):
            raise TypeError(f"{type(self).__name__} stores TensorDicts, not {type(data).__name__}")
        batch = getattr(data, "batch_size", ())
        if len(batch) > 1:
            raise ValueError(f"a batch {list(batch)} must be [n]: write buffer.extend(batch.reshape(-1))")
        slots = self._slots(cursor)
        if isinstance(cursor, int) or (isinstance(cursor, Tensor) and cursor.ndim == 0):
            data = (
                data.unsqueeze(0) if isinstance(data, TensorDictBase) else {k: v.unsqueeze(0) for k, v in data.items()}
            )
        expected = (self._written + np.arange(len(slots))) % self.max_size
        if not set_cursor or not np.array_equal(slots, expected):
            raise NotImplementedError(
                f"slots must be written in order ({int(expected[0])} is next): use a round-robin writer"
            )
        flat = dict(data.items())
        self._indexed |= flat.pop("index", None) is not None
        self._set_last_cursor(cursor)
        self.buffer.add(flat)
        self._bump_mutation_revision()
        self._storage().keep_newest(self.max_size)
        for entity in self._attached_entities_iter():
            entity.mark_update(torch.from_numpy(slots) if len(slots) > 1 else int(slots[0]))

    def get(self, index: Any) -> TensorDict:
        """Return the transitions of the slots `index`, [n], or one for a number."""
        slots = self._slots(index)
        if len(slots) and (slots.min() < 0 or slots.max() >= len(self)):
            raise IndexError(f"slots {index} of {len(self)}")
        newest = self._written - 1
        batch = self.buffer.get(newest - (newest - slots) % self.max_size)
        batch.pop("discount", None)
        if self._indexed:
            batch["index"] = torch.from_numpy(slots).to(self.device)
        else:
            batch.pop("index", None)
        return batch[0] if isinstance(index, int) or (isinstance(index, Tensor) and index.ndim == 0) else batch

    @property
    def _written(self) -> int:
        return self._storage().memory.index.tail_step

    def _storage(self) -> HostStorage:
        assert isinstance(self.buffer._storage, HostStorage)
        return self.buffer._storage

    def _slots(self, index: Any) -> np.ndarray:
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        if isinstance(index, tuple) and len(index) == 1:
            index = index[0]
        if isinstance(index, Tensor):
            index = index.detach().cpu().numpy()
        return np.atleast_1d(np.asarray(index, np.int64)).ravel()

    def __len__(self) -> int:
        return min(self._written, self.max_size)

    def contains(self, item: Any) -> Any:
        """Return whether slots hold anything yet."""
        slots = self._slots(item)
        inside = torch.from_numpy((slots >= -len(self)) & (slots < len(self)))
        return bool(inside[0]) if isinstance(item, int) else inside

    def dumps(self, path: str | Path) -> None:
        """Save everything in a folder, for TorchRL's `buffer.dumps(path)`; a later save adds what is new."""
        self.buffer.save(path)
        write_file(Path(path) / _SLOTS_FILE, json.dumps({"indexed": self._indexed}).encode())

    def loads(self, path: str | Path) -> None:
        """Load what `dumps` wrote."""
        indexed = bool(json.loads((Path(path) / _SLOTS_FILE).read_text())["indexed"])
        self.buffer.load(path)
        self._indexed = indexed
        self._bump_mutation_revision()

    def state_dict(self) -> dict[str, Any]:
        """Return everything."""
        return {"buffer": self.buffer.state_dict(), "indexed": self._indexed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.buffer.load_state_dict(state_dict["buffer"])
        self._indexed = bool(state_dict["indexed"])
        self._bump_mutation_revision()

    def _empty(self) -> None:
        self.buffer.close()
        self._new_buffer()
        self._bump_mutation_revision()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: that of the buffer instead of the buffer."""
        state = Storage.__getstate__(self)
        return {**{k: v for k, v in state.items() if k != "buffer"}, "buffer_state": self.buffer.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept, indexed = state.pop("buffer_state"), state["_indexed"]
        Storage.__setstate__(self, state)
        self._new_buffer()
        self.buffer.load_state_dict(kept)
        self._indexed = indexed

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_size={self.max_size}, len={len(self)}, nbytes={self.buffer.nbytes})"
