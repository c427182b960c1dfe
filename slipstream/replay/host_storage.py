"""The storage of a replay buffer in host memory: one column per key, the index, and the locks that keep them
consistent."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.batches import BatchPool, Slot, make_batch
from slipstream.replay.index import FINAL, NO_LINK, STARTS, WITH_PREVIOUS, StepIndex
from slipstream.replay.memory import ColumnSettings, Memory, follow_n_steps
from slipstream.replay.persistence import Saves
from slipstream.replay.rows import Plan, StreamBatch, Streams, plan_pieces, read_episode
from slipstream.replay.samplers import Sampler
from slipstream.storage.block_table import Readers
from slipstream.storage.schema import Key, Schema

_LONGEST_PIECE = 4096  # steps of one stream in a piece, so that eviction stays gradual


class HostStorage:
    """Compressed blocks in memory, for any sampler; any number of threads may add and sample.

    Whoever adds or removes rows holds `writing`. `lock` guards the index, the sampler and the pending observations, for
    microseconds. A draw finds its rows with the lock held and reads them without it, as one of `readers`; whoever
    removes rows takes them out of the index first and then waits for the readers.

    Args:
        schema: the keys, fixed by the first data.
        sampler: draws the steps.
        settings: how columns are made.
        device: of the batches.
        capacity_bytes: limit of the memory, if `settings.capacity` is None.
        keys: top-level names to keep; None for the default ones.
        spill_dir: folder for blocks past `memory_budget`.
        memory_budget: bytes of memory after which blocks move to `spill_dir`.
    """

    def __init__(
        self,
        schema: Schema,
        sampler: Sampler,
        settings: ColumnSettings,
        device: torch.device,
        capacity_bytes: int | None,
        keys: set[str] | None,
        spill_dir: str | Path | None,
        memory_budget: int | None,
    ) -> None:
        self.sampler, self.settings, self.device = sampler, settings, device
        self.capacity, self.capacity_bytes = settings.capacity, capacity_bytes
        self.memory = Memory(schema)
        self.writing = threading.RLock()
        self.lock = threading.Lock()
        self.readers = Readers(self.lock)
        self.saved_piece = 0  # pieces below it are in a file and must not grow
        self._keys = keys
        self._pool = BatchPool(pinned=device.type == "cuda")
        self._closed = False
        self.saves = Saves(self, spill_dir, memory_budget)

    # adding

    def extend(self, batch: Any, stream: int | str) -> None:
        """See `ReplayBuffer.extend`."""
        with self.writing:
            memory = self.memory
            read = StreamBatch(batch, memory.schema, self._keys)
            streams = self._streams(stream, len(read.valid))
            continued = read.continues(streams, memory.pending)
            steps = int(np.count_nonzero(read.valid))
            if self.capacity is not None and steps > self.capacity:
                raise ValueError(
                    f"a batch of {steps} steps does not fit capacity={self.capacity}: raise it, or collect fewer"
                )
            self.make_room(steps)
            plan = plan_pieces(read, streams, continued)
            # the pending observation of a stream that does not continue was its final one
            stopped = np.flatnonzero(~continued & (streams.last_piece >= memory.index.head))
            rows, ends = read.rows()
            parts = {key: [array] for key, array in rows.items()}
            if len(stopped):
                for key, runs in parts.items():
                    runs.insert(0, self._pending_rows(key, streams.first + stopped))
                ends = np.concatenate([np.zeros(len(stopped), np.uint8), ends])
            self._append(parts, ends)
            with self.lock:
                memory.writers[stream] = streams
                self._publish(plan, streams, stopped, read)
            self._fit_bytes()
        self.saves.spill_if_needed()

    def add(self, episode: Mapping[Any, Any]) -> None:
        """See `ReplayBuffer.add`."""
        with self.writing:
            memory = self.memory
            rows = read_episode(episode, memory.schema, self._keys)
            complete = self.capacity is None or int(rows.steps.sum()) <= self.capacity
            if self.capacity is not None and not complete:
                rows = rows.keep_last(self.capacity)
            self.make_room(int(rows.steps.sum()))
            self._append(rows.parts, rows.ends)
            pieces = len(rows.steps)
            back, flags = np.full(pieces, NO_LINK), np.where(rows.rows > rows.steps, FINAL, 0).astype(np.uint8)
            flags[0] |= STARTS if complete else 0
            flags[1:] |= WITH_PREVIOUS
            with self.lock:
                index = memory.index
                first_step, first = index.tail_step, index.tail
                back[1:] = first + np.arange(pieces - 1)
                index.append(rows.steps, rows.rows, back, np.full(pieces, NO_LINK), flags)
                if complete:
                    memory.complete.add([first], index.head)
                self.sampler.added(index.head_step, index.tail_step, first_step)
            self._fit_bytes()
        self.saves.spill_if_needed()

    def make_room(self, steps: int) -> None:
        """Evict complete units until `steps` more fit."""
        index = self.memory.index
        if self.capacity is not None and len(index) + steps > self.capacity:
            self.evict(index.piece_for(self.capacity - steps))

    def keep_newest(self, steps: int) -> None:
        """Evict what is not needed for the newest `steps` steps."""
        with self.writing:
            self.evict(self.memory.index.piece_keeping(steps))

    def evict(self, piece: int) -> None:
        """Remove everything before `piece`, once the draws that may read it have ended. Hold `writing`."""
        memory = self.memory
        with self.lock:
            before = memory.index.head_step
            memory.index.evict(piece)
            self.sampler.evicted(before, memory.index.head_step)
            row = memory.index.head_row
            self.readers.wait()
        for column in memory.all_columns():
            column.evict(row)

    def _fit_bytes(self) -> None:
        """Evict until the rows need at most `capacity_bytes`; the newest unit stays."""
        if self.capacity_bytes is None:
            return
        index = self.memory.index
        while (
            sum(column.settled_bytes for column in self.memory.all_columns()) + self._other_bytes > self.capacity_bytes
            and (piece := index.unit_from(index.head + 1)) < index.tail
        ):
            self.evict(piece)

    def _append(self, parts: Mapping[Key, list[np.ndarray]], ends: np.ndarray) -> None:
        """Append rows to all columns; nobody sees them before the index counts them."""
        memory = self.memory
        if any(column.tail != memory.index.tail_row for column in memory.all_columns()):
            raise RuntimeError("an earlier add failed: the buffer can be sampled and saved, but nothing can be added")
        for key, runs in parts.items():
            column = memory.columns.get(key)
            if column is None:
                column = memory.columns[key] = self.settings.new(memory.schema.specs[key])
            for run in runs:
                if len(run):
                    column.append(run)
        memory.ends.append(ends)

    def _streams(self, writer: Any, number: int) -> Streams:
        """Return the streams of a writer; those of a new one are kept once it has written."""
        writers = self.memory.writers
        known = writers.get(writer)
        if known is None:
            return Streams.begin(sum(len(s.done) for s in writers.values()), number)
        if len(known.done) != number:
            raise ValueError(
                f"stream {writer!r} had {len(known.done)} environments and now has {number}: use another stream"
            )
        return known

    def _pending_rows(self, key: Key, slots: np.ndarray) -> np.ndarray:
        """Return pending observations that become final ones; zeros for keys that are not observations."""
        if key in self.memory.pending:
            return self.memory.pending[key][slots]
        spec = self.memory.schema.specs[key]
        return np.zeros((len(slots), *spec.shape), spec.dtype)

    def _publish(self, plan: Plan, streams: Streams, stopped: np.ndarray, batch: StreamBatch) -> None:
        """Make the new rows part of the buffer, all at once."""
        memory, index = self.memory, self.memory.index
        first_step = index.tail_step
        if len(stopped):
            n, ones = len(stopped), np.ones(len(stopped), np.int64)
            flags = np.full(n, FINAL, np.uint8)
            index.append(0 * ones, ones, streams.last_piece[stopped], np.full(n, NO_LINK), flags)
            memory.complete.add(streams.first_piece[stopped[~streams.done[stopped]]], index.head)
        merged = self._extends_newest(plan, streams)
        if merged:
            index.lengthen(int(plan.steps[0]), int(plan.rows[0]), int(plan.flags[0] & FINAL), int(plan.link[0]))
        rest = slice(1 if merged else 0, None)
        first = index.tail - merged  # the number of piece 0 of the plan
        if len(plan.steps) > merged:
            index.append(plan.steps[rest], plan.rows[rest], plan.back[rest], plan.link[rest], plan.flags[rest])
        memory.complete.add([older if older >= 0 else first + piece for older, piece in plan.complete], index.head)
        self._advance(plan, streams, batch, first)
        self.sampler.added(index.head_step, index.tail_step, first_step)

    def _extends_newest(self, plan: Plan, streams: Streams) -> bool:
        """Return whether the first piece directly continues the newest one: the rows of a single stream follow each
        other."""
        index = self.memory.index
        back = plan.back[0]
        if len(streams.done) != 1 or back < max(self.saved_piece, index.head) or back != index.tail - 1:
            return False
        length = index.piece_steps(index.tail - 1) + int(plan.steps[0])
        return length <= min(_LONGEST_PIECE, max(1, (self.capacity or _LONGEST_PIECE * 16) // 16))

    def _advance(self, plan: Plan, streams: Streams, batch: StreamBatch, first: int) -> None:
        """Write down where each stream is after the batch."""
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
        size = sum(len(s.done) for s in self.memory.writers.values())
        for key, last in batch.last.items():
            old = self.memory.pending.get(key)
            pending[key] = np.zeros((size, *last.shape[1:]), last.dtype)
            if old is not None:
                pending[key][: len(old)] = old
            pending[key][streams.first : streams.first + number] = last
        self.memory.pending = pending

    # sampling

    def sample(self, number: int, n_step: int, gamma: float, steps: np.ndarray | None = None) -> TensorDict:
        """See `ReplayBuffer.sample` and, with `steps`, `ReplayBuffer.get`."""
        with self.readers.reading():
            with self.lock:
                memory, weights = self._open_memory(), None
                index = memory.index
                if steps is None:
                    steps, weights = self.sampler.draw(number, *self._held(index))
                elif len(steps) and (steps.min() < index.head_step or steps.max() >= index.tail_step):
                    held = f"[{index.head_step}, {index.tail_step})"
                    raise IndexError(f"steps outside {held}, which are in the buffer, were asked for")
                ends, pending = memory.ends.ring, memory.pending
                goals = self.sampler.goals(index, steps)
                if n_step == 1:
                    both, discount, waiting, streams = index.single(steps, ends, gamma)
                else:
                    if goals is not None:
                        raise ValueError("hindsight changes single rewards: sample with n_step=1")
                    rows, both, discount, waiting, streams = follow_n_steps(index, steps, n_step, gamma, ends)
            slot = self._take_slot(memory, (number,))
            try:
                memory.gather(slot, both, waiting, streams, pending)
                total = memory.sum_rewards(slot, rows, gamma) if n_step > 1 else None
                if goals is not None:
                    self.sampler.relabel(slot.arrays, goals, lambda key, r: memory.observations(key, r, pending))
                tensors = memory.tensors(slot)
                if total is not None:
                    tensors["reward",] = torch.from_numpy(total)
            finally:
                self._pool.give_back(slot)
        if goals is not None and ("terminated",) in slot.arrays:  # may have been relabelled
            ended = tensors["terminated",].numpy().reshape(number) != 0
            discount = np.where(ended, 0.0, gamma).astype(np.float32)
        tensors["index",], tensors["discount",] = torch.from_numpy(steps), torch.from_numpy(discount)
        if weights is not None:
            tensors["weight",] = torch.from_numpy(weights)
        return self._make_batch(tensors, (number,), slot)

    def sample_slices(self, number: int, length: int, burn_in: int) -> TensorDict:
        """See `ReplayBuffer.sample_slices`."""
        with self.readers.reading():
            with self.lock:
                memory = self._open_memory()
                index, ends, pending = memory.index, memory.ends.ring, memory.pending
                steps, weights = self.sampler.draw(number, *self._held(index))
                starts, before = index.behind(steps, burn_in, ends)
                found = index.follow(starts, before + length, burn_in - before, burn_in + length, ends)
            return self._padded(memory, found, pending, weights)

    def sample_episodes(self, number: int) -> TensorDict:
        """See `ReplayBuffer.sample_episodes`."""
        with self.readers.reading():
            with self.lock:
                memory = self._open_memory()
                index, pending = memory.index, memory.pending
                self._held(index)
                firsts = index.first_steps(memory.complete.draw(number, index.head, self.sampler.rng))
                limits = index.remaining(firsts)
                nothing = np.zeros(number, np.int64)
                found = index.follow(firsts, limits, nothing, int(limits.max()), memory.ends.ring, through=True)
            return self._padded(memory, found, pending, None)

    def update_priority(self, steps: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """See `ReplayBuffer.update_priority`."""
        numbers, values = (
            x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (steps, priority)
        )
        with self.lock:
            self.sampler.update_priority(numbers.astype(np.int64).ravel(), values.ravel())

    def get(self, index: Tensor | np.ndarray, n_step: int, gamma: float) -> TensorDict:
        """See `ReplayBuffer.get`."""
        steps = index.detach().cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
        return self.sample(len(steps), n_step, gamma, steps.astype(np.int64))

    def _open_memory(self) -> Memory:
        if self._closed:
            raise RuntimeError("the replay buffer is closed")
        return self.memory

    def _held(self, index: StepIndex) -> tuple[int, int]:
        """Return (first step, one past the last step) of those that are held."""
        if not len(index):
            raise ValueError("the replay buffer is empty: add to it before sampling")
        return index.head_step, index.tail_step

    def _padded(self, memory: Memory, found: tuple[np.ndarray, ...], pending: Any, weights: Any) -> TensorDict:
        """Return the batch [B, T] of the steps that `StepIndex.follow` found, with zeros where there is none."""
        numbers, rows, following = found
        mask = rows >= 0
        anywhere = rows[mask][0]  # read where there is no step, and zeroed afterwards
        rows, following = np.where(mask, rows, anywhere).ravel(), np.where(mask, following, anywhere).ravel()
        waiting = np.flatnonzero(following < 0)
        streams = -1 - following[waiting]
        following[waiting] = rows[waiting]
        slot = self._take_slot(memory, mask.shape)
        try:
            memory.gather(slot, np.concatenate([rows, following]), waiting, streams, pending)
            for array in slot.arrays.values():
                array[~mask if array.shape[:2] == mask.shape else (slice(None), ~mask)] = 0
            tensors = memory.tensors(slot)
        finally:
            self._pool.give_back(slot)
        tensors["index",], tensors["mask",] = torch.from_numpy(numbers), torch.from_numpy(mask)
        if weights is not None:
            tensors["weight",] = torch.from_numpy(np.broadcast_to(weights[:, None], mask.shape).copy())
        return self._make_batch(tensors, mask.shape, slot)

    def _take_slot(self, memory: Memory, shape: tuple[int, ...]) -> Slot:
        """Return the arrays of a batch: [2, ...] for an observation and the next one."""
        specs = memory.schema.specs.items()
        return self._pool.take(
            (id(memory), shape),
            lambda: {k: ((*((2,) if s.next_key else ()), *shape, *s.shape), s.dtype) for k, s in specs},
        )

    def _make_batch(self, tensors: dict[Key, Tensor], batch_size: tuple[int, ...], slot: Slot) -> TensorDict:
        if self.device.type == "cuda":
            moved = {key: tensor.to(self.device, non_blocking=True) for key, tensor in tensors.items()}
            copied = torch.cuda.Event()
            copied.record(torch.cuda.current_stream(self.device))
            slot.copied = copied  # before `tensors` goes, which until then keeps the slot from being taken
            tensors = moved
            if not slot.pooled:
                copied.synchronize()
        return make_batch(tensors, batch_size, self.device)

    # saving and loading

    def new_memory(self) -> tuple[Memory, Sampler]:
        """Return empty contents to load into, and a copy of the sampler for them."""
        sampler = copy.deepcopy(self.sampler)
        sampler.restart()
        return Memory(Schema(ragged=self.memory.schema.ragged)), sampler

    def replace(self, memory: Memory, sampler: Sampler) -> None:
        """Use other contents from now on; the old ones are freed once nobody reads them. Hold `writing`."""
        index = memory.index
        if self.capacity is not None and len(index) and index.piece_for(self.capacity) == index.tail:
            raise ValueError(
                f"no episode of the {len(index)} saved steps fits capacity={self.capacity}: give the buffer a larger one"
            )
        with self.lock:
            old, self.memory = self.memory, memory
            self.sampler.__dict__.update(sampler.__dict__)  # the object stays: it may be the user's
            self.readers.wait()
        for column in old.all_columns():
            column.close()
        self._pool.clear()
        self.make_room(0)

    def save(self, folder: Path) -> None:
        """See `ReplayBuffer.save`."""
        self.saves.save(folder)

    def load(self, folder: Path, recover: bool) -> None:
        """See `ReplayBuffer.load`."""
        self.saves.load(folder, recover)

    def state_dict(self) -> dict[str, Tensor]:
        """See `ReplayBuffer.state_dict`."""
        return self.saves.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `ReplayBuffer.load_state_dict`."""
        self.saves.load_state_dict(state)

    # facts

    def __len__(self) -> int:
        with self.lock:  # the index may be moving its arrays
            return len(self.memory.index)

    @property
    def nbytes(self) -> int:
        """See `ReplayBuffer.nbytes`."""
        return sum(column.nbytes for column in self.memory.all_columns()) + self._other_bytes

    @property
    def host_bytes(self) -> int:
        """See `ReplayBuffer.host_bytes`."""
        return sum(column.written_bytes for column in self.memory.all_columns()) + self._other_bytes

    @property
    def _other_bytes(self) -> int:
        memory = self.memory
        return memory.index.nbytes + self.sampler.nbytes + sum(a.nbytes for a in memory.pending.values())

    def stats(self) -> dict[str, Any]:
        """See `ReplayBuffer.stats`."""
        with self.writing:
            memory, index = self.memory, self.memory.index
            with self.lock:
                complete = len(memory.complete.export(index.head))
            return {
                "steps": len(index),
                "steps_ever": index.tail_step,
                "rows": index.tail_row - index.head_row,
                "pieces": index.tail - index.head,
                "complete_episodes": complete,
                "nbytes": self.nbytes,
                "spilled_files": self.saves.spilled_files,
                "columns": {".".join(key): column.stats() for key, column in memory.columns.items()},
            }

    def close(self) -> None:
        """End the background work and free the memory, once nobody reads or writes."""
        try:
            self.saves.close()
        finally:
            with self.writing:
                with self.lock:
                    self._closed = True
                    self.readers.wait()
                for column in self.memory.columns.values():
                    column.close()
