"""What a replay buffer holds: columns, index, sampler, pending observations, and the locks that keep them one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from slipstream.store.columns import Column, RawColumn
from slipstream.store.gate import Gate
from slipstream.store.index import StepIndex
from slipstream.store.samplers import Sampler
from slipstream.store.schema import Key, KeySpec, Schema
from slipstream.store.streams import Streams
from slipstream.store.whole import WholeEpisodes


class Memory:
    """Rows of all keys under one numbering.

    Whoever adds or removes holds `writing`. `lock` guards the index, the sampler and the pending observations, for microseconds.
    Whoever draws enters `gate` before the lock and leaves it when the rows are read, so that drawn rows stay until then.
    The order is writing, gate, lock.
    """

    def __init__(self, schema: Schema, sampler: Sampler, new_column: Callable[[KeySpec], Column]) -> None:
        self.schema = schema
        self.sampler = sampler
        self.new_column = new_column
        self.columns: dict[Key, Column] = {}
        self.ends = RawColumn((), np.uint8)  # end flags by row
        self.index = StepIndex()
        self.whole = WholeEpisodes()
        self.writers: dict[Any, Streams] = {}
        self.pending: dict[Key, np.ndarray] = {}  # [streams, ...]; replaced, never written to
        self.writing = threading.RLock()
        self.lock = threading.Lock()
        self.gate = Gate()

    @property
    def nbytes(self) -> int:
        """Bytes of memory, all of it."""
        columns = sum(column.nbytes for column in self.columns.values())
        return columns + self.ends.nbytes + self.index.nbytes + self.sampler.nbytes + sum(a.nbytes for a in self.pending.values())

    def append(self, parts: Mapping[Key, list[np.ndarray]], ends: np.ndarray) -> None:
        """Rows for all columns; nobody sees them before the index counts them."""
        if any(column.tail != self.index.tail_row for column in (*self.columns.values(), self.ends)):
            raise RuntimeError("an earlier add failed half-way: the buffer can be drawn from and saved, not added to")
        for key, runs in parts.items():
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = self.new_column(self.schema.specs[key])
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
        """The streams of a writer, made when it first writes."""
        known = self.writers.get(writer)
        if known is None:
            known = self.writers[writer] = Streams.begin(sum(len(s.done) for s in self.writers.values()), number)
        if len(known.done) != number:
            raise ValueError(f"stream {writer!r} had {len(known.done)} environments and now has {number}: give another stream")
        return known
