"""What a replay buffer holds: columns, index, sampler, pending observations, and the locks that keep them one."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.replay.gate import Gate
from slipstream.replay.index.step_index import StepIndex
from slipstream.replay.index.streams import Streams
from slipstream.replay.index.whole import WholeEpisodes
from slipstream.replay.sampling.samplers import Sampler
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.columns import Column, RawColumn
from slipstream.storage.schema import Key, KeySpec, Schema, as_key

_SMALL_ROW = 64  # bytes: below it a row's own bookkeeping costs more than compression could save


@dataclass
class ColumnSettings:
    """How the columns of a buffer are made. `codec` and `group` hold for all keys, or are dicts by key or its last name."""

    codec: str | Mapping[Any, str] = "auto"
    group: int | Mapping[Any, int] = 1
    capacity: int | None = None  # steps; None: bytes are the limit
    spills: bool = False

    def new(self, spec: KeySpec) -> Column:
        """A column for this key: blocks, or plain where compression is not wanted or cannot pay."""
        codec = self.codec_of(spec.key)
        if spec.row_bytes >= _SMALL_ROW and (codec != "raw" or self.spills):
            return BlockColumn(spec.shape, spec.dtype, codec, _choice(self.group, spec.key, 1))
        return self.plain(spec)

    def plain(self, spec: KeySpec) -> RawColumn:
        """A column of rows as they are. Where bytes count, it grows in small steps: little lies idle."""
        if self.capacity is None:
            return RawColumn(spec.shape, spec.dtype, 64, slack=1 / 8)
        return RawColumn(spec.shape, spec.dtype, self.capacity + self.capacity // 64 + 64)

    def codec_of(self, key: Key) -> str:
        """The codec asked for."""
        return _choice(self.codec, key, "auto")


def _choice(setting: Any, key: Key, default: Any) -> Any:
    if not isinstance(setting, Mapping):
        return setting
    by_key = {as_key(k): v for k, v in setting.items()}
    return by_key.get(key, by_key.get(key[-1:], default))


class Memory:
    """Rows of all keys under one numbering.

    Whoever adds or removes holds `writing`. `lock` guards the index, the sampler and the pending observations, for microseconds.
    Whoever draws enters `gate` before the lock and leaves it when the rows are read, so that drawn rows stay until then.
    The order is writing, gate, lock.
    """

    def __init__(self, schema: Schema, sampler: Sampler, settings: ColumnSettings) -> None:
        self.schema = schema
        self.sampler = sampler
        self.settings = settings
        self.columns: dict[Key, Column] = {}
        self.ends = RawColumn((), np.uint8)  # end flags by row
        self.index = StepIndex()
        self.whole = WholeEpisodes()
        self.writers: dict[Any, Streams] = {}
        self.pending: dict[Key, np.ndarray] = {}  # [streams, ...]; replaced, never written to
        self.writing = threading.RLock()
        self.lock = threading.Lock()
        self.gate = Gate()
        self.closed = False

    @property
    def settled_bytes(self) -> int:
        """Bytes that what is held needs: without rows that have left and blocks that the background will make smaller."""
        return sum(column.settled_bytes for column in (*self.columns.values(), self.ends)) + self._rest

    @property
    def nbytes(self) -> int:
        """Bytes of memory, all of it."""
        return sum(column.nbytes for column in list(self.columns.values())) + self.ends.nbytes + self._rest

    @property
    def written_bytes(self) -> int:
        """Bytes of memory that were written to: what the system has given so far."""
        return (
            sum(column.written_bytes for column in list(self.columns.values())) + self.ends.written_bytes + self._rest
        )

    @property
    def _rest(self) -> int:
        """Bytes of all but the columns."""
        return self.index.nbytes + self.sampler.nbytes + sum(a.nbytes for a in self.pending.values())

    def append(self, parts: Mapping[Key, list[np.ndarray]], ends: np.ndarray) -> None:
        """Rows for all columns; nobody sees them before the index counts them."""
        if any(column.tail != self.index.tail_row for column in (*self.columns.values(), self.ends)):
            raise RuntimeError("an earlier add failed half-way: the buffer can be drawn from and saved, not added to")
        for key, runs in parts.items():
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = self.settings.new(self.schema.specs[key])
            for run in runs:
                if len(run):
                    column.append(run)
        self.ends.append(ends)

    def evict(self, piece: int) -> None:
        """Everything before `piece` leaves, once nobody reads any more."""
        with self.gate.removing():
            with self.lock:
                before = self.index.head_step
                self.index.evict(piece)
                self.sampler.evicted(before, self.index.head_step)
                row = self.index.head_row
            for column in (*self.columns.values(), self.ends):
                column.evict(row)

    def streams(self, writer: Any, number: int) -> Streams:
        """The streams of a writer; those of a new one are kept once it has written (`register`)."""
        known = self.writers.get(writer)
        if known is None:
            return Streams.begin(sum(len(s.done) for s in self.writers.values()), number)
        if len(known.done) != number:
            raise ValueError(
                f"stream {writer!r} had {len(known.done)} environments and now has {number}: give another stream"
            )
        return known

    def empty_twin(self) -> Memory:
        """One to load into: the same settings and sampler, nothing in it."""
        sampler = copy.deepcopy(self.sampler)
        sampler.restart()
        return Memory(Schema(ragged=self.schema.ragged), sampler, self.settings)

    def take_over(self, twin: Memory) -> None:
        """Holds what `twin` holds from now on, once nobody reads any more; what was here goes."""
        with self.gate.removing(), self.lock:
            for column in self.columns.values():
                column.close()
            self.columns, self.pending, self.writers = twin.columns, twin.pending, twin.writers
            self.ends, self.index, self.whole = twin.ends, twin.index, twin.whole
            self.schema.specs = twin.schema.specs
            self.sampler.__dict__.update(twin.sampler.__dict__)  # the object stays: it may be the user's

    def close(self) -> None:
        """Lets the columns go, once nobody reads or writes."""
        with self.writing, self.gate.removing():
            self.closed = True
            for column in self.columns.values():
                column.close()
