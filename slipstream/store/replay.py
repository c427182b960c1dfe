"""ReplayBuffer: steps of any keys, kept once, compressed, and drawn in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.store import streams as streams_
from slipstream.store.batches import BatchPool
from slipstream.store.blocks import BlockColumn
from slipstream.store.columns import Column, RawColumn
from slipstream.store.drawing import Drawing
from slipstream.store.episodes import Rows, read_episode
from slipstream.store.index import FINAL, NO_LINK, STARTS, WITH_PREVIOUS
from slipstream.store.memory import Memory
from slipstream.store.samplers import Sampler, sampler_from
from slipstream.store.schema import Key, KeySpec, Schema

_SMALL_ROW = 64  # bytes: below it a row's own bookkeeping costs more than compression could save
_LONGEST_PIECE = 4096  # steps that one stream gathers in a piece before it begins another, so that eviction stays gradual


class ReplayBuffer:
    """Steps of episodes, `capacity` of them or `capacity_bytes` of memory; the oldest episodes leave first.

    `extend(batch)` takes a collector's [N, T] batches, `add(episode)` whole episodes; `sample` gives batches on `device`.
    A batch's memory is yours for as long as you hold any tensor of it, and is used again afterwards.

    - `codec`, `group`: for all keys, or a dict by key (a name, or a tuple for nested ones): see docs/replay.md.
    - `sampler`: "uniform", "without_replacement", "prioritized", or a `Sampler`.
    - `keys`: the top-level names to keep; None keeps what a learner needs (all of an episode's).
    - `ragged`: {key: largest size a step, None for an axis that does not vary} for arrays of varying size.
    - `spill_dir`, `memory_budget` (bytes): past the budget the oldest blocks move to files there.

    Any number of threads may add and draw at once.
    """

    def __init__(
        self,
        capacity: int | None = None,
        *,
        capacity_bytes: int | None = None,
        device: torch.device | str = "cpu",
        codec: str | Mapping[Any, str] = "auto",
        group: int | Mapping[Any, int] = 1,
        storage: str = "cpu",
        sampler: str | Sampler = "uniform",
        seed: int = 0,
        keys: Iterable[str] | None = None,
        ragged: Mapping[Any, tuple[int | None, ...]] | None = None,
        spill_dir: str | None = None,
        memory_budget: int | None = None,
    ) -> None:
        if (capacity is None) == (capacity_bytes is None):
            raise ValueError("give capacity (steps) or capacity_bytes, one of them")
        if (capacity if capacity is not None else capacity_bytes or 0) < 1:
            raise ValueError("the capacity must be at least 1")
        self.capacity, self.capacity_bytes = capacity, capacity_bytes
        self.device = torch.device(device)
        self.sampler = sampler_from(sampler)
        self.sampler.start(seed)
        self._codec, self._group = codec, group
        self._spills = memory_budget is not None
        self._keys = None if keys is None else set(keys)
        schema = Schema(ragged={_as_key(k): tuple(v) for k, v in (ragged or {}).items()})
        self._memory = Memory(schema, self.sampler, self._new_column)
        self._sealed_piece = 0  # pieces below it are in a file, and grow no more
        self._drawing = Drawing(self._memory, BatchPool(pinned=self.device.type == "cuda"), self.device)
        self._closed = False

    # adding

    def extend(self, batch: Any, stream: Any = 0) -> None:
        """Adds a [N, T] batch: ("observation", name), action, reward, terminated, truncated, valid, ("next", "observation", name).

        Environment n of this batch goes on where environment n of the last one stopped, if its observation says so. Several
        writers at once give each its own `stream`. Frames that are not `valid` are kept as final observations only.
        """
        with self._memory.writing:
            self._check_open()
            read = streams_.read_batch(batch, self._memory.schema, self._keys)
            number = len(read.valid)
            streams = self._memory.streams(stream, number)
            goes_on = streams_.continuing(read, streams, self._memory.pending)
            steps = int(np.count_nonzero(read.valid))
            if self.capacity is not None and steps > self.capacity:
                raise ValueError(f"a batch of {steps} steps does not fit a capacity of {self.capacity}: raise it, or collect fewer")
            self._make_room(steps)
            plan = streams_.plan(read, streams, goes_on)
            # streams that do not go on: their pending observation was their final one
            stopped = np.flatnonzero(~goes_on & (streams.last_piece >= self._memory.index.head))
            slots = streams.first + stopped
            rows = streams_.lay_out(read, self._memory.schema)
            parts = {key: [self._pending_rows(key, slots), array] for key, array in rows.items()}
            self._memory.append(parts, np.concatenate([np.zeros(len(stopped), np.uint8), streams_.row_ends(read)]))
            with self._memory.lock:
                self._publish(plan, streams, stopped, read)
            self._fit_bytes()

    def add(self, episode: Mapping[Any, Any]) -> None:
        """Adds a whole episode: every key [L, ...], and the successors of observations as `next_K`, ("next", K) or row L + 1 of K.

        Where `next_K` is K shifted by one, only its last row is kept. One longer than the capacity loses its beginning.
        """
        with self._memory.writing:
            self._check_open()
            rows = read_episode(episode, self._memory.schema, self._keys)
            whole = True
            if self.capacity is not None and int(rows.steps.sum()) > self.capacity:
                rows, whole = _last_steps(rows, self.capacity), False
            self._make_room(int(rows.steps.sum()))
            self._memory.append(rows.parts, rows.ends)
            pieces = len(rows.steps)
            back, flags = np.full(pieces, NO_LINK), np.where(rows.rows > rows.steps, FINAL, 0).astype(np.uint8)
            flags[0] |= STARTS
            flags[1:] |= WITH_PREVIOUS
            with self._memory.lock:
                first_step, first = self._memory.index.tail_step, self._memory.index.tail
                back[1:] = first + np.arange(pieces - 1)
                self._memory.index.append(rows.steps, rows.rows, back, np.full(pieces, NO_LINK), flags)
                if whole:
                    self._memory.whole.add([first], self._memory.index.head)
                self.sampler.added(self._memory.index.head_step, self._memory.index.tail_step, first_step)
            self._fit_bytes()

    # drawing

    def sample(self, batch_size: int, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """[B] steps: their keys, ("next", ...) observations, "index" (step numbers), "discount", and "weight" where prioritised.

        With n_step > 1 "reward" is the discounted sum of up to n rewards, and the next observations, `terminated` and `truncated`
        are those n steps on, fewer where the episode ends. "discount" is gamma to the number of steps, 0 after a termination: the
        target is reward + discount * value(next).
        """
        return self._drawing.transitions(batch_size, n_step, gamma)

    def sample_slices(self, batch_size: int, length: int, burn_in: int = 0) -> TensorDict:
        """[B, burn_in + length] consecutive steps of one episode each, "mask" False (and zeros) where there is none.

        Step `burn_in` of a slice is drawn as in `sample`; the `burn_in` steps before it, and those after it, come with it.
        """
        return self._drawing.slices(batch_size, length, burn_in)

    def sample_episodes(self, k: int) -> TensorDict:
        """[k, longest] whole episodes, each with the same probability, "mask" False (and zeros) past their ends."""
        return self._drawing.episodes(k)

    def get(self, index: Tensor | np.ndarray, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """The batch that `sample` would give for these step numbers; IndexError where one has left."""
        steps = index.detach().cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
        return self._drawing.transitions(len(steps), n_step, gamma, steps.astype(np.int64))

    def update_priority(self, index: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """Priorities for the steps in `index`, as `sample` gave them; steps that have left are passed over."""
        steps, values = (x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (index, priority))
        with self._memory.lock:
            self.sampler.update_priority(steps.astype(np.int64).ravel(), values.ravel())

    # facts

    def __len__(self) -> int:
        return len(self._memory.index)

    @property
    def nbytes(self) -> int:
        """Memory taken, all of it: columns, index, pending observations; not what lies in files."""
        return self._memory.nbytes

    def stats(self) -> dict[str, Any]:
        """Steps, episodes, rows, bytes, and what each column says of itself."""
        with self._memory.writing:
            return {
                "steps": len(self),
                "rows": self._memory.index.tail_row - self._memory.index.head_row,
                "pieces": self._memory.index.tail - self._memory.index.head,
                "whole_episodes": self._memory.whole.count(self._memory.index.head),
                "steps_ever": self._memory.index.tail_step,
                "nbytes": self.nbytes,
                "columns": {".".join(key): column.stats() for key, column in self._memory.columns.items()},
            }

    def close(self) -> None:
        """Ends background work and lets the memory go. Batches already drawn stay."""
        with self._memory.writing:
            if self._closed:
                return
            self._closed = True
            with self._memory.gate.removing():
                for column in self._memory.columns.values():
                    column.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a replay buffer is drawn from, not iterated over: use sample(batch_size) or prefetch(batch_size)")

    # inside

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the replay buffer is closed")

    def _new_column(self, spec: KeySpec) -> Column:
        codec, group = _choice(self._codec, spec.key, "auto"), _choice(self._group, spec.key, 1)
        if spec.row_bytes >= _SMALL_ROW and (codec != "raw" or self._spills):
            return BlockColumn(spec.shape, spec.dtype, codec, group)
        return RawColumn(spec.shape, spec.dtype, 1024 if self.capacity is None else self.capacity + self.capacity // 64 + 64)

    def _pending_rows(self, key: Key, slots: np.ndarray) -> np.ndarray:
        """Pending observations that become final ones; zeros for what is no observation."""
        if key in self._memory.pending:
            return self._memory.pending[key][slots]
        spec = self._memory.schema.specs[key]
        return np.zeros((len(slots), *spec.shape), spec.dtype)

    def _publish(self, plan: streams_.Plan, streams: streams_.Streams, stopped: np.ndarray, batch: streams_.StreamBatch) -> None:
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
        self.sampler.added(index.head_step, index.tail_step, first_step)

    def _merged(self, plan: streams_.Plan, streams: streams_.Streams) -> bool:
        """Whether the first piece is the direct continuation of the newest one: a single stream's rows follow each other."""
        index = self._memory.index
        if len(streams.done) != 1 or plan.back[0] < max(self._sealed_piece, index.head) or plan.back[0] != index.tail - 1:
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

    def _make_room(self, steps: int) -> None:
        """Whole episodes leave until `steps` more fit."""
        if self.capacity is not None and len(self._memory.index) + steps > self.capacity:
            self._memory.evict(self._memory.index.piece_for(self.capacity - steps))

    def _fit_bytes(self) -> None:
        """Whole episodes leave until the memory is within `capacity_bytes`; the newest stays."""
        if self.capacity_bytes is None:
            return
        index = self._memory.index
        while self.nbytes > self.capacity_bytes and (piece := index.unit_from(index.head + 1)) < index.tail:
            self._memory.evict(piece)


def _as_key(key: Any) -> Key:
    return key if isinstance(key, tuple) else (key,)


def _choice(setting: Any, key: Key, default: Any) -> Any:
    """A setting for all keys, or the one of this key: by its full name, or its last."""
    if not isinstance(setting, Mapping):
        return setting
    by_key = {_as_key(k): v for k, v in setting.items()}
    return by_key.get(key, by_key.get(key[-1:], default))


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
