"""Adding to a buffer: room is made, rows are appended, and then counted all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream.replay.index import streams as streams_
from slipstream.replay.index.episodes import Rows, read_episode
from slipstream.replay.index.step_index import FINAL, NO_LINK, STARTS, WITH_PREVIOUS
from slipstream.replay.memory import Memory
from slipstream.storage.schema import Key

_LONGEST_PIECE = (
    4096  # steps that one stream gathers in a piece before it begins another, so that eviction stays gradual
)


class Writing:
    """The writer's side of one buffer. Its methods hold `memory.writing`."""

    def __init__(self, memory: Memory, capacity: int | None, capacity_bytes: int | None, keys: set[str] | None) -> None:
        self._memory = memory
        self.capacity, self.capacity_bytes = capacity, capacity_bytes
        self._keys = keys
        self.sealed_piece = 0  # pieces below it are in a file, and grow no more

    def extend(self, batch: Any, stream: Any = 0) -> None:
        """See `ReplayBuffer.extend`."""
        with self._memory.writing:
            read = streams_.read_batch(batch, self._memory.schema, self._keys)
            number = len(read.valid)
            streams = self._memory.streams(stream, number)
            goes_on = streams_.continuing(read, streams, self._memory.pending)
            steps = int(np.count_nonzero(read.valid))
            if self.capacity is not None and steps > self.capacity:
                raise ValueError(
                    f"a batch of {steps} steps does not fit a capacity of {self.capacity}: raise it, or collect fewer"
                )
            self.make_room(steps)
            plan = streams_.plan(read, streams, goes_on)
            # streams that do not go on: their pending observation was their final one
            stopped = np.flatnonzero(~goes_on & (streams.last_piece >= self._memory.index.head))
            parts = {key: [array] for key, array in streams_.lay_out(read).items()}
            ends = streams_.row_ends(read)
            if len(stopped):
                for key, runs in parts.items():
                    runs.insert(0, self._pending_rows(key, streams.first + stopped))
                ends = np.concatenate([np.zeros(len(stopped), np.uint8), ends])
            self._memory.append(parts, ends)
            with self._memory.lock:
                self._memory.writers[stream] = streams
                self._publish(plan, streams, stopped, read)
            self.fit_bytes()

    def add(self, episode: Mapping[Any, Any]) -> None:
        """See `ReplayBuffer.add`."""
        with self._memory.writing:
            rows = read_episode(episode, self._memory.schema, self._keys)
            whole = True
            if self.capacity is not None and int(rows.steps.sum()) > self.capacity:
                rows, whole = _last_steps(rows, self.capacity), False
            self.make_room(int(rows.steps.sum()))
            self._memory.append(rows.parts, rows.ends)
            pieces = len(rows.steps)
            back, flags = np.full(pieces, NO_LINK), np.where(rows.rows > rows.steps, FINAL, 0).astype(np.uint8)
            flags[0] |= STARTS if whole else 0
            flags[1:] |= WITH_PREVIOUS
            with self._memory.lock:
                first_step, first = self._memory.index.tail_step, self._memory.index.tail
                back[1:] = first + np.arange(pieces - 1)
                self._memory.index.append(rows.steps, rows.rows, back, np.full(pieces, NO_LINK), flags)
                if whole:
                    self._memory.whole.add([first], self._memory.index.head)
                self._memory.sampler.added(self._memory.index.head_step, self._memory.index.tail_step, first_step)
            self.fit_bytes()

    def _pending_rows(self, key: Key, slots: np.ndarray) -> np.ndarray:
        """Pending observations that become final ones; zeros for what is no observation."""
        if key in self._memory.pending:
            return self._memory.pending[key][slots]
        spec = self._memory.schema.specs[key]
        return np.zeros((len(slots), *spec.shape), spec.dtype)

    def _publish(
        self, plan: streams_.Plan, streams: streams_.Streams, stopped: np.ndarray, batch: streams_.StreamBatch
    ) -> None:
        """The new rows become part of the buffer, all at once."""
        index = self._memory.index
        first_step = index.tail_step
        if len(stopped):
            n, ones = len(stopped), np.ones(len(stopped), np.int64)
            flags = np.full(n, FINAL, np.uint8)
            index.append(0 * ones, ones, streams.last_piece[stopped], np.full(n, NO_LINK), flags)
            self._memory.whole.add(streams.first_piece[stopped[~streams.done[stopped]]], index.head)
        merged = self._merged(plan, streams)
        if merged:
            index.lengthen(int(plan.steps[0]), int(plan.rows[0]), int(plan.flags[0] & FINAL))
            index.set_link(index.tail - 1, int(plan.link[0]))
        rest = slice(1 if merged else 0, None)
        first = index.tail - merged  # the number of piece 0 of the plan
        if len(plan.steps) > merged:
            index.append(plan.steps[rest], plan.rows[rest], plan.back[rest], plan.link[rest], plan.flags[rest])
        self._memory.whole.add([older if older >= 0 else first + piece for older, piece in plan.whole], index.head)
        self._move_on(plan, streams, batch, first)
        self._memory.sampler.added(index.head_step, index.tail_step, first_step)

    def _merged(self, plan: streams_.Plan, streams: streams_.Streams) -> bool:
        """Whether the first piece is the direct continuation of the newest one: a single stream's rows follow each other."""
        index = self._memory.index
        if (
            len(streams.done) != 1
            or plan.back[0] < max(self.sealed_piece, index.head)
            or plan.back[0] != index.tail - 1
        ):
            return False
        length = index.piece_steps(index.tail - 1) + int(plan.steps[0])
        return length <= min(_LONGEST_PIECE, max(1, (self.capacity or _LONGEST_PIECE * 16) // 16))

    def _move_on(self, plan: streams_.Plan, streams: streams_.Streams, batch: streams_.StreamBatch, first: int) -> None:
        """Where each stream stands after the batch."""
        number = len(streams.done)
        starts = (plan.flags & STARTS) != 0
        open_ = plan.link < NO_LINK
        env = -2 - plan.link[open_] - streams.first
        pieces = np.flatnonzero(open_)
        begun = np.where(starts[pieces], first + pieces, streams.first_piece[env])
        streams.last_piece = np.full(number, -1)
        streams.last_piece[env] = first + pieces
        streams.first_piece = np.full(number, -1)
        streams.first_piece[env] = begun
        streams.done = (batch.ends[:, -1] & 1) != 0
        pending = {}
        for key, last in batch.last.items():
            size = sum(len(s.done) for s in self._memory.writers.values())
            old = self._memory.pending.get(key)
            pending[key] = np.zeros((size, *last.shape[1:]), last.dtype)
            if old is not None:
                pending[key][: len(old)] = old
            pending[key][streams.first : streams.first + number] = last
        self._memory.pending = pending

    def make_room(self, steps: int) -> None:
        """Whole episodes leave until `steps` more fit."""
        if self.capacity is not None and len(self._memory.index) + steps > self.capacity:
            self._memory.evict(self._memory.index.piece_for(self.capacity - steps))

    def fit_bytes(self) -> None:
        """Whole episodes leave until what is held needs at most `capacity_bytes`; the newest stays."""
        if self.capacity_bytes is None:
            return
        index = self._memory.index
        while (
            self._memory.settled_bytes > self.capacity_bytes and (piece := index.unit_from(index.head + 1)) < index.tail
        ):
            self._memory.evict(piece)


def _last_steps(rows: Rows, steps: int) -> Rows:
    """The end of an episode that is too long, from a row on."""
    drop = int(rows.steps.sum()) - steps
    ends_at = np.cumsum(rows.steps)
    piece = int(np.searchsorted(ends_at, drop, side="right"))
    within = drop - (int(ends_at[piece - 1]) if piece else 0)
    skip = int(rows.rows[:piece].sum()) + within
    parts = {}
    for key, runs in rows.parts.items():
        whole = np.concatenate(runs)
        parts[key] = [whole[skip:]]
    kept_steps, kept_rows = rows.steps[piece:].copy(), rows.rows[piece:].copy()
    kept_steps[0] -= within
    kept_rows[0] -= within
    return Rows(parts, rows.ends[skip:], kept_steps, kept_rows)
