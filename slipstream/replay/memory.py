"""The contents of a replay buffer in host memory: one column per key, the index, and how batches are read from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from slipstream.replay.batches import BatchPool
from slipstream.replay.index import StepIndex
from slipstream.replay.rows import END_KEYS, Rows, StreamState
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.columns import RawColumn, take
from slipstream.storage.schema import Key, KeySpec, Schema, as_key, as_tensor, mask_key, mask_of, sizes_key

_SMALL_ROW = 64  # bytes: below it the bookkeeping of a row costs more than compression could save
_MAX_LAYOUTS = 100

Arrays = dict[Key, np.ndarray]


@dataclass
class ColumnSettings:
    """How the columns of a buffer are made. `codec` and `group` are for all keys, or dicts by key or its last name."""

    codec: str | Mapping[Any, str] = "auto"
    group: int | Mapping[Any, int] = 1
    capacity: int | None = None  # steps; None: the limit is in bytes
    spills: bool = False
    backlog_bytes: int | None = None  # raw blocks of a column that may wait to be sealed

    def new(self, spec: KeySpec) -> BlockColumn | RawColumn:
        """Return a column for this key: blocks, or plain rows if compression is not wanted or cannot save anything."""
        codec = self.codec_of(spec.key)
        if spec.row_bytes >= _SMALL_ROW and (codec != "raw" or self.spills):
            return BlockColumn(
                spec.shape, spec.dtype, codec, _choose(self.group, spec.key, 1), backlog_bytes=self.backlog_bytes
            )
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
    by_key = {as_key(k): v for k, v in setting.items()}
    return by_key.get(key, by_key.get(key[-1:], default))


@dataclass
class Memory:
    """The contents of a buffer: rows of all keys with one numbering. A load replaces all of it at once."""

    schema: Schema
    settings: ColumnSettings
    columns: dict[Key, BlockColumn | RawColumn] = field(default_factory=dict)
    ends: RawColumn = field(default_factory=lambda: RawColumn((), np.uint8))  # end flags by row
    index: StepIndex = field(default_factory=StepIndex)
    streams: dict[Any, StreamState] = field(default_factory=dict)  # by name
    pending: dict[Key, np.ndarray] = field(default_factory=dict)  # [environments, ...]; replaced, never written to
    _layouts: dict[tuple[int, ...], tuple[int, list[Any]]] = field(default_factory=dict)

    def all_columns(self) -> list[Any]:
        """Return the columns of the keys and of the end flags."""
        return [*self.columns.values(), self.ends]

    # writing

    def append(self, rows: Rows) -> None:
        """Append rows to all columns; nobody sees them before the index counts them."""
        if any(column.tail != self.index.tail_row for column in self.all_columns()):
            raise RuntimeError("an earlier add failed: the buffer can be sampled and saved, but nothing can be added")
        for key, runs in rows.parts.items():
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = self.settings.new(self.schema.specs[key])
            for run in runs:
                if len(run):
                    column.append(run)
        self.ends.append(rows.ends)

    def stream(self, name: Any, number: int) -> StreamState:
        """Return a stream of `number` environments; a new one is kept once a batch of it is written."""
        known = self.streams.get(name)
        if known is None:
            return StreamState.begin(sum(len(s.done) for s in self.streams.values()), number)
        if len(known.done) != number:
            raise ValueError(
                f"stream {name!r} had {len(known.done)} environments and now has {number}: use another stream"
            )
        return known

    def replace_pending(self, stream: StreamState, last: Mapping[Key, np.ndarray]) -> dict[Key, np.ndarray]:
        """Return the pending observations after a batch of `stream`, whose last observations are `last`."""
        pending = {}
        for key, rows in last.items():
            old = self.pending.get(key, rows[:0])
            end = stream.first + len(rows)
            pending[key] = np.concatenate([old[: stream.first], rows, old[end:]])
        return pending

    # reading

    def allocate(self, pool: BatchPool, shape: tuple[int, ...]) -> tuple[np.ndarray, Arrays]:
        """Return (memory, arrays in it) for a batch of this shape: [2, ...] for an observation and the next one."""
        found = self._layouts.get(shape)
        if found is None:
            nbytes, layout = 0, []
            for key, spec in self.schema.specs.items():
                full_shape = (*((2,) if spec.next_key else ()), *shape, *spec.shape)
                layout.append((key, full_shape, spec.dtype, nbytes))
                size = int(np.prod(full_shape, dtype=np.int64)) * spec.dtype.itemsize
                nbytes += -(-size // 64) * 64
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()  # another thread may have looked there just now
            found = self._layouts[shape] = (max(nbytes, 64), layout)
        nbytes, layout = found
        memory = pool.take(nbytes)
        return memory, {key: np.ndarray(shape, dtype, memory, at) for key, shape, dtype, at in layout}

    def gather(self, arrays: Arrays, both: np.ndarray, waiting: np.ndarray, envs: np.ndarray, pending: Any) -> None:
        """Fill the arrays: rows both[:B], of observations also both[B:], and for `waiting` of those the pending ones of
        `envs`."""
        number = len(both) // 2
        places: dict[int, np.ndarray] = {}  # by the size of a ring: plain columns mostly have the same
        for key, spec in self.schema.specs.items():
            column, out = self.columns[key], arrays[key]
            wanted = number if spec.next_key is None else 2 * number
            if out.ndim != 1 + len(spec.shape):
                out = out.reshape(wanted, *spec.shape)
            if isinstance(column, RawColumn):  # the index only names rows that are there: no need to check again
                ring = column.ring
                slots = places.get(len(ring))
                if slots is None:
                    slots = places[len(ring)] = both % len(ring)
                take(ring, slots[:wanted], out)
            else:
                column.gather(both[:wanted], out)
            if wanted > number and len(waiting):
                out[number + waiting] = pending[key][envs]

    def sum_rewards(self, arrays: Arrays, rows: np.ndarray, gamma: float) -> np.ndarray | None:
        """Sum the rewards of n steps and copy the end of the last one; return the sums if the key holds integers."""
        columns = self.columns
        inside = rows >= 0
        last = rows[np.arange(len(rows)), inside.sum(1) - 1]
        for key in END_KEYS:
            if key in columns:
                columns[key].gather(last, arrays[key])
        reward = arrays.get(("reward",))
        if reward is None:
            raise KeyError("n_step > 1 sums the key 'reward', which this buffer does not have")
        each = np.empty((rows.size, *reward.shape[1:]), reward.dtype)
        columns["reward",].gather(np.where(inside, rows, rows[:, :1]).ravel(), each)
        each = each.reshape(*rows.shape, -1)
        weights = np.where(inside, gamma ** np.arange(rows.shape[1]), 0.0)[:, :, None]
        total = np.where(inside[:, :, None], each, 0) * weights  # values outside, even NaN, do not count
        summed = total.sum(1).reshape(reward.shape)
        if reward.dtype.kind != "f":
            return summed.astype(np.float32)
        reward[...] = summed
        return None

    def observations(self, key: Key, rows: np.ndarray, pending: Mapping[Key, np.ndarray]) -> np.ndarray:
        """Return rows of one observation; below 0 the pending one of environment -1 - row."""
        spec = self.schema.specs[key]
        out = np.empty((len(rows), *spec.shape), spec.dtype)
        held, waiting = rows >= 0, np.flatnonzero(rows < 0)
        stored = np.empty((len(rows) - len(waiting), *spec.shape), spec.dtype)
        self.columns[key].gather(rows[held], stored)
        out[held] = stored
        if len(waiting):
            out[waiting] = pending[key][-1 - rows[waiting]]
        return out

    def tensors(self, arrays: Arrays) -> dict[Key, Tensor]:
        """Return the tensors of a batch by their keys, with masks for ragged ones."""
        tensors: dict[Key, Tensor] = {}
        for key, spec in self.schema.specs.items():
            array = arrays[key]
            if spec.next_key is None:
                tensors[key] = as_tensor(array, spec)
            else:
                tensors[key], tensors[spec.next_key] = as_tensor(array[0], spec), as_tensor(array[1], spec)
        for ragged, largest in self.schema.ragged.items():
            sizes = self.schema.specs.get(sizes_key(ragged))
            for name in () if sizes is None else (sizes.key, sizes.next_key):
                if name is not None:
                    tensors[mask_key(name)] = mask_of(tensors.pop(name), largest)
        return tensors
