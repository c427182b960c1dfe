"""The storage of a replay buffer in host memory: a column per key, the index, and the locks over them."""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay import persistence
from slipstream.replay.index import StepIndex
from slipstream.replay.rows import Rows, StreamBatch, StreamState, make_batch, read_episode
from slipstream.replay.samplers import HindsightSampler, Sampler
from slipstream.storage.background import BackgroundWorker
from slipstream.storage.blocks import BlockColumn, RawColumn, take
from slipstream.storage.episodes import END_KEYS, OUTCOMES, REWARD
from slipstream.storage.schema import Key, KeySpec, Schema, as_bits, as_key, as_tensor, mask_key, mask_of, sizes_key
from slipstream.storage.tensor_file import Reader, TensorFile

_MOST_WAITING = 1 << 24  # raw bytes, in a full buffer with a limit in bytes: to be sealed, and of a part of a batch
_MIN_SPILL = 1 << 20  # bytes: smaller files are not worth their names
_SMALL_ROW = 64  # bytes: below it the bookkeeping of a row costs more than compression could save

Arrays = dict[Key, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """The arguments of a `ReplayBuffer`. `codec` and `group` are for all keys, or dicts by key or its last names."""

    codec: str | Mapping[Any, str]
    group: int | Mapping[Any, int]
    capacity: int | None  # steps; None: the limit is in bytes
    capacity_bytes: int | None
    keys: set[str] | None  # top-level names to keep; None for the default ones
    ragged: Mapping[Any, tuple[int | None, ...]]
    spill_dir: Path | None  # folder for blocks past `memory_budget`
    memory_budget: int | None

    def schema(self) -> Schema:
        """Return that of an empty buffer."""
        return Schema(ragged={as_key(key): tuple(largest) for key, largest in self.ragged.items()})

    def new(self, spec: KeySpec) -> BlockColumn | RawColumn:
        """Return a column for this key: blocks, or plain rows if compression is not wanted or cannot save anything."""
        codec = self.codec_of(spec.key)
        if (
            spec.row_bytes >= _SMALL_ROW
            and spec.key not in OUTCOMES
            and (codec != "raw" or self.memory_budget is not None)
        ):
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
    settings: Settings
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
            first = sum(len(s.done) for s in self.streams.values())
            return StreamState(first, np.full(number, -1), np.zeros(number, bool))
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

    def gather(self, arrays: Arrays, rows: np.ndarray, following: np.ndarray) -> Callable[[], None]:
        """Fill the arrays with `rows` [B], those of observations also with `following` [B]; one below 0 is the pending
        observation of environment -1 - row.

        Plain columns are read at once. The function that is returned decodes the blocks; it needs no lock.
        """
        number, waiting = len(rows), np.flatnonzero(following < 0)
        both = np.concatenate([rows, following])
        if len(waiting):
            both[number + waiting] = rows[waiting]  # read there, and overwritten afterwards
        coded: list[tuple[Any, ...]] = []
        followed: list[tuple[np.ndarray, np.ndarray]] = []  # next observations, and what waits of them
        slots: dict[int, np.ndarray] = {}  # by the size of a ring: plain columns mostly have the same
        for key, spec in self.schema.specs.items():
            column, wanted = self.columns[key], number if spec.next_key is None else 2 * number
            out = arrays[key].reshape(wanted, *spec.shape)
            if isinstance(column, RawColumn):  # the index only names rows that are there: no need to check again
                ring = column.ring  # a writer may replace it by a larger one
                if len(ring) not in slots:
                    slots[len(ring)] = both % len(ring)
                take(ring, slots[len(ring)][:wanted], out)
            else:
                coded.append((column, both[:wanted], out, column.view()))
            if wanted > number and len(waiting):
                followed.append((out[number:], self.pending[key][-1 - following[waiting]]))

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
        whole: dict[Key, Tensor] = {}
        arrays: Arrays = {}
        for key, spec in self.schema.specs.items():
            size = ((2,) if spec.next_key else ()) + shape + spec.shape
            if device.type == "cuda":
                whole[key] = torch.empty(size, dtype=spec.torch_dtype, pin_memory=True)
                arrays[key] = as_bits(whole[key])
            else:  # in half the time
                arrays[key] = np.empty(size, spec.dtype)
                whole[key] = as_tensor(arrays[key], spec)
        return whole, arrays

    def tensors(self, whole: dict[Key, Tensor], device: torch.device) -> dict[Key, Tensor]:
        """Return the tensors of a batch on a device, by their keys, with masks for ragged ones."""
        tensors: dict[Key, Tensor] = {}
        for key, spec in self.schema.specs.items():
            value = whole[key]
            if device.type != "cpu":  # torch's own tensor: it knows that the copy reads it
                value = value.to(device, non_blocking=True)
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


class HostStorage:
    """Compressed blocks in memory, for any sampler; any number of threads may add and sample.

    Whoever adds or removes rows holds `writing`. `lock` guards the index, the sampler, the pending observations and the
    plain rows, for microseconds. A draw finds and reads these with the lock held, and decodes blocks without it: those
    it has found stay as long as it holds their view.
    """

    def __init__(self, settings: Settings, sampler: Sampler, device: torch.device) -> None:
        self.sampler, self.device = sampler, device
        self.capacity, self._budget = settings.capacity, settings.memory_budget
        self.memory = Memory(settings.schema(), settings)
        self.writing = threading.RLock()
        self.lock = threading.Lock()
        self._closed = False
        self._folders: dict[Path, persistence.Files] = {}
        self._after_spill = 0  # memory that the last spill could not free
        self._spilled_files = 0
        self._spiller = BackgroundWorker("spilling to disk", restart_after_fork=True)

    # adding

    def extend(self, batch: Any, stream: int | str, keys: set[str] | None = None) -> None:
        """See `ReplayBuffer.extend`; `keys` are those to keep, if not the buffer's."""
        with self.writing:
            memory, schema = self.memory, dataclasses.replace(self.memory.schema)  # refused data do not fix the keys
            most = None if memory.settings.capacity_bytes is None else _MOST_WAITING
            parts = StreamBatch.read(batch, schema, keys or memory.settings.keys, most)
            steps = sum(part.steps for part in parts)
            if self.capacity is not None and steps > self.capacity:
                raise ValueError(
                    f"a batch of {steps} steps does not fit capacity={self.capacity}: raise it, or collect fewer"
                )
            state = memory.stream(stream, len(parts[0].valid))
            self._make_room(steps)
            for part in parts:
                rows = part.rows(state, memory.pending, memory.index.head)
                first = self._append(rows, memory.pending_after(state, part.last), schema)
                part.advance(state, rows.pieces, first)
                memory.streams[stream] = state
                self._fit_bytes()
        self._spill_if_needed()

    def add(self, episode: Mapping[Any, Any]) -> None:
        """See `ReplayBuffer.add`."""
        with self.writing:
            memory, schema = self.memory, dataclasses.replace(self.memory.schema)
            rows = read_episode(episode, schema, memory.settings.keys, self.capacity, memory.index.tail)
            self._make_room(rows.steps)
            self._append(rows, memory.pending, schema)
            self._fit_bytes()
        self._spill_if_needed()

    def _append(self, rows: Rows, pending: dict[Key, np.ndarray], schema: Schema) -> int:
        """Make new rows and pending observations part of the buffer, all at once; return the number of the first
        piece."""
        memory, index = self.memory, self.memory.index
        memory.schema = schema
        memory.append(rows, _MOST_WAITING // 2, self._fit_bytes)
        with self.lock:
            first_step = index.tail_step
            first_piece = index.append(rows.pieces)
            memory.pending = pending
            self.sampler.added(index.head_step, index.tail_step, first_step)
        return first_piece

    def _make_room(self, steps: int) -> None:
        """Evict complete units until `steps` more fit."""
        index = self.memory.index
        if self.capacity is not None and len(index) + steps > self.capacity:
            self._evict(index.head_for(self.capacity - steps))

    def keep_newest(self, steps: int) -> None:
        """Evict what is not needed for the newest `steps` steps."""
        with self.writing:
            self._evict(self.memory.index.head_keeping(steps))

    def _evict(self, piece: int) -> None:
        """Remove everything before `piece`. Hold `writing`."""
        index = self.memory.index
        with self.lock:
            before = index.head_step
            index.evict(piece)
            self.sampler.evicted(before, index.head_step)
        for column in self.memory.all_columns():
            column.evict(index.head_row)

    def _fit_bytes(self) -> None:
        """Evict until the rows need at most `capacity_bytes`; the newest unit stays.

        Data that arrive faster than the background seals wait for it: raw blocks must not evict others. The less room
        there is, the fewer may wait.
        """
        limit, index = self.memory.settings.capacity_bytes, self.memory.index
        if limit is None:
            return
        blocks = [column for column in self.memory.columns.values() if isinstance(column, BlockColumn)]
        most = max(min(limit // 16, _MOST_WAITING), (limit - self.nbytes) // 2)
        while sum(column.waiting_bytes for column in blocks) > most:
            max(blocks, key=lambda column: column.waiting_bytes).seal_next()
        while (
            sum(column.settled_bytes for column in self.memory.all_columns()) + self._other_bytes > limit
            and (piece := index.next_unit(index.head + 1)) < index.tail
        ):
            self._evict(piece)

    # sampling

    def sample(self, number: int, n_step: int, gamma: float, index: Tensor | np.ndarray | None = None) -> TensorDict:
        """See `ReplayBuffer.sample` and, with `index`, `ReplayBuffer.get`."""
        steps = np.empty(0, np.int64) if index is None else _as_numpy(index).astype(np.int64)
        with self.lock:
            memory, weights = self._open_memory(), None
            pieces = memory.index
            outcomes: dict[Key, Tensor] = {}
            if index is None:
                steps, weights = self._draw(pieces, number)
            elif number and (steps.min() < pieces.head_step or steps.max() >= pieces.tail_step):
                held = f"[{pieces.head_step}, {pieces.tail_step})"
                raise IndexError(f"steps outside {held}, which are in the buffer, were asked for")
            hindsight = self.sampler if index is None and isinstance(self.sampler, HindsightSampler) else None
            if hindsight is not None:
                if n_step > 1:
                    raise ValueError("hindsight changes single rewards: sample with n_step=1")
                hindsight.check(memory.schema.specs)
                chosen, goal_rows = hindsight.goals(pieces, steps)
                goals = memory.read(hindsight.achieved, goal_rows)
            rows, following, discount = pieces.transitions(steps, n_step, gamma, memory.ends.ring)
            whole, arrays = memory.empty_batch((number,), self.device)
            decode = memory.gather(arrays, rows[:, 0], following)
            if n_step > 1:
                outcomes = memory.outcomes(rows, gamma)
        decode()
        if hindsight is not None:
            hindsight.relabel(arrays, memory.schema.specs, chosen, goals)
            if ("terminated",) in arrays:  # may have been relabeled
                ended = arrays["terminated",].reshape(number) != 0
                discount = np.where(ended, 0.0, gamma).astype(np.float32)
        tensors = {**memory.tensors(whole, self.device), **outcomes}
        tensors["index",], tensors["discount",] = torch.from_numpy(steps), torch.from_numpy(discount)
        return self._make_batch(tensors, (number,), weights)

    def sample_slices(self, number: int, length: int, burn_in: int) -> TensorDict:
        """See `ReplayBuffer.sample_slices`."""
        if isinstance(self.sampler, HindsightSampler):
            raise ValueError("hindsight changes single goals and rewards: sample slices with another sampler")
        with self.lock:
            memory = self._open_memory()
            steps, weights = self._draw(memory.index, number)
            windows = memory.index.windows(steps, burn_in + length, memory.ends.ring, burn_in)
            finish = self._read_windows(memory, windows, weights)
        return finish()

    def sample_episodes(self, number: int) -> TensorDict:
        """See `ReplayBuffer.sample_episodes`."""
        with self.lock:
            memory = self._open_memory()
            complete = memory.index.complete_episodes(memory.ends.ring)
            if not len(complete):
                raise ValueError("there is no complete episode in the buffer yet")
            steps, lengths = memory.index.rest_of_episode(complete[self.sampler.rng.integers(0, len(complete), number)])
            finish = self._read_windows(memory, memory.index.windows(steps, int(lengths.max())), None)
        return finish()

    def update_priority(self, steps: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """See `ReplayBuffer.update_priority`."""
        numbers, values = _as_numpy(steps), _as_numpy(priority)
        with self.lock:
            self.sampler.update_priority(numbers.astype(np.int64).ravel(), values.ravel())

    def _open_memory(self) -> Memory:
        if self._closed:
            raise RuntimeError("the replay buffer is closed")
        return self.memory

    def _draw(self, index: StepIndex, number: int) -> tuple[np.ndarray, np.ndarray | None]:
        if not len(index):
            raise ValueError("the replay buffer is empty: add to it before sampling")
        return self.sampler.draw(number, index.head_step, index.tail_step)

    def _read_windows(
        self, memory: Memory, windows: tuple[np.ndarray, ...], weights: np.ndarray | None
    ) -> Callable[[], TensorDict]:
        """Read the plain rows of what `StepIndex.windows` returned; return the function that makes the batch
        [B, width], with zeros where there is no step."""
        numbers, rows, following, _ = windows
        mask = rows >= 0
        anywhere = rows[mask][0]  # read where there is no step, and zeroed afterwards
        whole, arrays = memory.empty_batch(mask.shape, self.device)
        decode = memory.gather(arrays, *(np.where(mask, x, anywhere).ravel() for x in (rows, following)))

        def finish() -> TensorDict:
            decode()
            for key, array in arrays.items():
                array[~mask if memory.schema.specs[key].next_key is None else (slice(None), ~mask)] = 0
            tensors = memory.tensors(whole, self.device)
            tensors["index",], tensors["mask",] = torch.from_numpy(numbers), torch.from_numpy(mask)
            each = None if weights is None else np.broadcast_to(weights[:, None], mask.shape).copy()
            return self._make_batch(tensors, mask.shape, each)

        return finish

    def _make_batch(self, tensors: dict[Key, Tensor], shape: tuple[int, ...], weights: np.ndarray | None) -> TensorDict:
        if weights is not None:
            tensors["weight",] = torch.from_numpy(weights)
        if self.device.type != "cpu":
            tensors = {key: tensor.to(self.device, non_blocking=True) for key, tensor in tensors.items()}
        return make_batch(tensors, shape, self.device)

    # saving and loading

    def save(self, folder: Path) -> None:
        """See `ReplayBuffer.save`."""
        self._spiller.raise_errors()
        with self.writing:
            self._save(folder.absolute())

    def _save(self, path: Path) -> tuple[Path | None, list[persistence.FullBlock]]:
        """Write a save; return the new file of rows, if there is one, and its full blocks. Hold `writing`."""
        before = self._folders.get(path, [])
        self._folders[path], rows, full = persistence.write_save(path, before, self.memory, self.sampler, self.lock)
        return rows, full

    def load(self, folder: Path, max_bytes: int | None = None, draws: bool = True) -> None:
        """See `ReplayBuffer.load`. If it cannot be read, nothing changes. Without `draws` the sampler begins anew, and
        may be another one."""
        path = folder.absolute()
        reader = Reader(path, max_bytes=max_bytes)
        with self.writing:
            files, saved, state = persistence.open_save(path, reader)
            reader.name = str(path)
            self._replace(files, state, reader, draws)
            self._folders = {path: saved}
            self._after_spill = self.nbytes

    def state_dict(self) -> dict[str, Tensor]:
        """See `ReplayBuffer.state_dict`: one tensor of bytes."""
        with self.writing:
            return {"replay": torch.from_numpy(persistence.write_bytes(self.memory, self.sampler, self.lock))}

    def load_state_dict(self, state: Mapping[str, Any], draws: bool = True) -> None:
        """See `ReplayBuffer.load_state_dict`, and `load`."""
        reader = Reader("the state of the replay buffer")
        with reader.parsing("the state dict"):
            data = state["replay"].detach().cpu().contiguous().numpy()
        with self.writing:
            self._replace(*persistence.open_bytes(data, reader), reader, draws)
            self._folders.clear()

    def _replace(self, files: list[persistence.RowsFile], state: Any, reader: Reader, draws: bool) -> None:
        """Use the contents of these files from now on, and with `draws` their sampler's state. Hold `writing`."""
        memory = Memory(self.memory.settings.schema(), self.memory.settings)
        sampler = copy.deepcopy(self.sampler)
        sampler.restart()
        with reader.parsing("the saved buffer"):
            persistence.restore(memory, files, reader)
        with reader.parsing("the state"):
            state = state if draws else {**state, "sampler": sampler.state_dict()}
        persistence.restore_state(memory, sampler, state, reader)
        index = memory.index
        if self.capacity is not None and len(index) and index.head_for(self.capacity) == index.tail:
            raise ValueError(
                f"no episode of the {len(index)} saved steps fits capacity={self.capacity}: give the buffer a larger one"
            )
        with self.lock:
            old, self.memory = self.memory, memory
            self.sampler.__dict__.update(sampler.__dict__)  # the object stays: it may be the user's
        for column in old.all_columns():
            column.close()
        self._make_room(0)
        self._fit_bytes()

    # spilling: a save into `spill_dir`, after which full blocks are read from the file

    def _spill_if_needed(self) -> None:
        """Start a spill if the memory is past the budget; wait for it if the memory is past twice the budget."""
        if self._budget is None:
            return
        self._spiller.raise_errors()
        if self._is_over(1):
            if not len(self._spiller):
                self._spiller.submit(self._spill)
            if self._is_over(2):
                self._spiller.wait()

    def _is_over(self, times: int) -> bool:
        """Return whether memory that a spill could free is past so many budgets."""
        assert self._budget is not None
        least = min(max(_MIN_SPILL, self._budget // 8), self._budget)
        return self.nbytes > max(times * self._budget, self._after_spill + times * least)

    def _spill(self) -> None:
        columns = [c for c in self.memory.columns.values() if isinstance(c, BlockColumn)]
        while any(c.waiting_bytes for c in columns) and not self._is_over(2) and not self._closed:
            threading.Event().wait(0.01)  # blocks are being sealed: nobody waits for this
        with self.writing:
            assert self.memory.settings.spill_dir is not None
            path, full = self._save(self.memory.settings.spill_dir)
            if path is not None:
                container = TensorFile.open(path, persistence.KIND)
                for key, first_row, section in full:
                    column: Any = self.memory.columns[key]
                    column.relocate(first_row, container, section)
                self._spilled_files += 1
            self._after_spill = self.nbytes

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
            return {
                "steps": len(index),
                "steps_ever": index.tail_step,
                "rows": index.tail_row - index.head_row,
                "pieces": index.tail - index.head,
                "nbytes": self.nbytes,
                "spilled_files": self._spilled_files,
                "columns": {".".join(key): column.stats() for key, column in memory.columns.items()},
            }

    def close(self) -> None:
        """End the background work and free the memory, once nobody writes."""
        self._closed = True
        try:
            self._spiller.close()
            self._spiller.raise_errors()
        finally:
            with self.writing, self.lock:
                for column in self.memory.all_columns():
                    column.close()


def _as_numpy(values: Tensor | np.ndarray) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
