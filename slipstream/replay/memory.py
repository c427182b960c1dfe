"""The contents of a replay buffer in host memory: one column per key, the index, and how batches are read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.replay.index import StepIndex
from slipstream.replay.rows import END_KEYS, OUTCOMES, REWARD, Rows, StreamState
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.columns import RawColumn, take
from slipstream.storage.schema import Key, KeySpec, Schema, as_bits, as_key, as_tensor, mask_key, mask_of, sizes_key

_SMALL_ROW = 64  # bytes: below it the bookkeeping of a row costs more than compression could save

Arrays = dict[Key, np.ndarray]


@dataclass
class ColumnSettings:
    """How the columns of a buffer are made. `codec` and `group` are for all keys, or dicts by key or its last names."""

    codec: str | Mapping[Any, str] = "auto"
    group: int | Mapping[Any, int] = 1
    capacity: int | None = None  # steps; None: the limit is in bytes
    spills: bool = False

    def new(self, spec: KeySpec) -> BlockColumn | RawColumn:
        """Return a column for this key: blocks, or plain rows if compression is not wanted or cannot save anything."""
        codec = self.codec_of(spec.key)
        if spec.row_bytes >= _SMALL_ROW and spec.key not in OUTCOMES and (codec != "raw" or self.spills):
            return BlockColumn(spec.shape, spec.dtype, codec, _choose(self.group, spec.key, 1))
        return self.plain(spec)

    def plain(self, spec: KeySpec) -> RawColumn:
        """Return a column of plain rows. If the limit is in bytes, it grows in small steps."""
        if self.capacity is None:
            return RawColumn(spec.shape, spec.dtype, 64, slack=1 / 8)
        return RawColumn(spec.shape, spec.dtype, self.capacity + self.capacity // 64 + 64)

    def codec_of(self, key: Key) -> str:
        """Return the codec of a key."""
        return _choose(self.codec, key, "auto")


def _choose(setting: Any, key: Key, default: Any) -> Any:
    if not isinstance(setting, Mapping):
        return setting
    names = [name for name in setting if key[-len(as_key(name)) :] == as_key(name)]
    return setting[max(names, key=lambda name: len(as_key(name)))] if names else default


@dataclass
class Memory:
    """The contents of a buffer: rows of all keys with one numbering. A load replaces all of it at once."""

    schema: Schema
    settings: ColumnSettings
    columns: dict[Key, BlockColumn | RawColumn] = field(default_factory=dict)
    ends: RawColumn = field(default_factory=lambda: RawColumn((), np.uint8))  # end flags by row
    index: StepIndex = field(default_factory=StepIndex)
    streams: dict[Any, StreamState] = field(default_factory=dict)  # by name
    pending: dict[Key, np.ndarray] = field(default_factory=dict)  # [environments, ...]; never written to

    def all_columns(self) -> list[Any]:
        """Return the columns of the keys and of the end flags."""
        return [*self.columns.values(), self.ends]

    def append(self, rows: Rows, most: int, fit: Callable[[], None]) -> None:
        """Append rows to all columns; nobody sees them before the index counts them. Calls `fit` after at most `most`
        bytes."""
        if any(column.tail != self.index.tail_row for column in self.all_columns()):
            raise RuntimeError("an earlier add failed: the buffer can be sampled and saved, but nothing can be added")
        for key, runs in rows.parts.items():
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = self.settings.new(self.schema.specs[key])
            length = max(1, most // self.schema.specs[key].row_bytes)
            for run in runs:
                for start in range(0, len(run), length):
                    column.append(run[start : start + length])
                    if len(run) > length:
                        fit()
        self.ends.append(rows.ends)

    def stream(self, name: Any, number: int) -> StreamState:
        """Return a stream of `number` environments; a new one is kept once a batch of it is written."""
        stream = self.streams.get(name)
        if stream is None:
            return StreamState.begin(sum(len(s.done) for s in self.streams.values()), number)
        if len(stream.done) != number:
            raise ValueError(
                f"stream {name!r} had {len(stream.done)} environments and now has {number}: use another stream"
            )
        return stream

    def pending_after(self, stream: StreamState, last: Mapping[Key, np.ndarray]) -> dict[Key, np.ndarray]:
        """Return the pending observations after a batch of `stream`, whose last observations are `last`."""
        pending = {}
        for key, rows in last.items():
            old = self.pending.get(key, rows[:0])
            pending[key] = np.concatenate([old[: stream.first], rows, old[stream.first + len(rows) :]])
        return pending

    # reading: with the buffer's lock held, but for what `gather` returns

    def gather(self, arrays: Arrays, both: np.ndarray, waiting: np.ndarray, envs: np.ndarray) -> Callable[[], None]:
        """Fill the arrays: rows both[:B], of observations also both[B:], and for `waiting` of those the pending ones of
        `envs`.

        Plain columns are read at once. The function that is returned decodes the blocks; it needs no lock.
        """
        number = len(both) // 2
        coded: list[tuple[Any, ...]] = []
        followed: list[tuple[np.ndarray, np.ndarray]] = []  # next observations, and what waits of them
        slots: dict[int, np.ndarray] = {}  # by the size of a ring: plain columns mostly have the same
        for key, spec in self.schema.specs.items():
            column, wanted = self.columns[key], number if spec.next_key is None else 2 * number
            out = arrays[key].reshape(wanted, *spec.shape)
            if isinstance(column, RawColumn):  # the index only names rows that are there: no need to check again
                size = len(column.ring)
                if size not in slots:
                    slots[size] = both % size
                take(column.ring, slots[size][:wanted], out)
            else:
                coded.append((column, both[:wanted], out, column.view()))
            if wanted > number and len(waiting):
                followed.append((out[number:], self.pending[key][envs]))

        def decode() -> None:
            for column, rows, out, view in coded:
                column.gather(rows, out, view)
            for out, pending in followed:
                out[waiting] = pending

        return decode

    def outcomes(self, rows: np.ndarray, gamma: float) -> dict[Key, Tensor]:
        """Return the sums of the rewards of `rows`, int64 [B, n_step], and the end flags of the last ones."""
        specs, inside = self.schema.specs, rows >= 0
        if REWARD not in specs:
            raise KeyError("n_step > 1 sums the key 'reward', which this buffer does not have")
        last = rows[np.arange(len(rows)), inside.sum(1) - 1]
        tensors: dict[Key, Tensor] = {}
        for key in (key for key in END_KEYS if key in specs):
            tensors[key] = as_tensor(self.read(key, last), specs[key])
        reward = as_tensor(self.read(REWARD, np.where(inside, rows, rows[:, :1]).ravel()), specs[REWARD])
        each = reward.to(torch.float64).reshape(*rows.shape, -1).numpy()
        weights = np.where(inside, gamma ** np.arange(rows.shape[1]), 0.0)[:, :, None]
        total = np.where(inside[:, :, None], each, 0) * weights  # values outside, even NaN, do not count
        summed = torch.from_numpy(total.sum(1)).reshape(len(rows), *reward.shape[1:])
        tensors[REWARD] = summed.to(reward.dtype if reward.is_floating_point() else torch.float32)
        return tensors

    def read(self, key: Key, rows: np.ndarray) -> np.ndarray:
        """Return rows of one key; below 0 the pending observation of environment -1 - row."""
        spec, waiting = self.schema.specs[key], np.flatnonzero(rows < 0)
        out = np.empty((len(rows), *spec.shape), spec.dtype)
        self.columns[key].gather(np.where(rows < 0, self.index.head_row, rows), out)
        if len(waiting):
            out[waiting] = self.pending[key][-1 - rows[waiting]]
        return out

    def empty_batch(self, shape: tuple[int, ...], device: torch.device) -> tuple[dict[Key, Tensor], Arrays]:
        """Return (tensors for a batch of this shape, [2, ...] for an observation and the next one; their arrays).

        They are fresh memory; pinned for a GPU, where torch uses it again once copies have read it.
        """
        pinned, whole = device.type == "cuda", {}
        for key, spec in self.schema.specs.items():
            pair = (2,) if spec.next_key else ()
            whole[key] = torch.empty((*pair, *shape, *spec.shape), dtype=spec.torch_dtype, pin_memory=pinned)
        return whole, {key: as_bits(tensor) for key, tensor in whole.items()}

    def tensors(self, whole: dict[Key, Tensor], device: torch.device) -> dict[Key, Tensor]:
        """Return the tensors of a batch on a device, by their keys, with masks for ragged ones."""
        tensors: dict[Key, Tensor] = {}
        for key, spec in self.schema.specs.items():
            value = whole[key].to(device, non_blocking=True)  # torch's own tensor: it knows that the copy reads it
            if spec.next_key is None:
                tensors[key] = value
            else:
                tensors[key], tensors[spec.next_key] = value[0], value[1]
        for ragged, largest in self.schema.ragged.items():
            sizes = self.schema.specs.get(sizes_key(ragged))
            for name in () if sizes is None else (sizes.key, sizes.next_key):
                if name is not None:
                    tensors[mask_key(name)] = mask_of(tensors.pop(name), largest)
        return tensors
