"""From step numbers to batches: the rows are found under the lock, read without it, and handed out as a TensorDict."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.index.episodes import TERMINATED
from slipstream.replay.index.step_index import StepIndex
from slipstream.replay.memory import Memory
from slipstream.replay.sampling.batches import BatchPool, Slot
from slipstream.storage.columns import RawColumn, take
from slipstream.storage.schema import Key, as_tensor, mask_key, mask_of, sizes_key

_OF_THE_END = (("terminated",), ("truncated",), ("done",))  # of an n-step transition, these are its last step's


class Drawing:
    """Batches of one replay buffer."""

    def __init__(self, memory: Memory, pool: BatchPool, device: torch.device) -> None:
        self._memory = memory
        self._pool = pool
        self._device = device

    def transitions(self, number: int, n_step: int, gamma: float, steps: np.ndarray | None = None) -> TensorDict:
        """[B]; see `ReplayBuffer.sample`."""
        memory = self._memory
        if n_step < 1:
            raise ValueError(f"n_step is {n_step}: take 1 or more")
        with memory.gate.reading:
            with memory.lock:
                self._check_open()
                index, weights = memory.index, None
                if steps is None:
                    self._check(number)
                    steps, weights = memory.sampler.draw(number, index.head_step, index.tail_step)
                elif len(steps) and (steps.min() < index.head_step or steps.max() >= index.tail_step):
                    raise IndexError(
                        f"steps outside [{index.head_step}, {index.tail_step}), which are in the buffer, were asked for"
                    )
                ends, pending = memory.ends.ring, memory.pending
                goals = memory.sampler.goals(index, steps)
                if n_step == 1:
                    both, discount, waiting, streams = index.single(steps, ends, gamma)
                else:
                    if goals is not None:
                        raise ValueError("hindsight changes single rewards: draw with n_step=1")
                    rows, both, discount, waiting, streams = self._n_steps(index, steps, n_step, gamma, ends)
            slot = self._take((number,))
            try:
                self._read(slot, both, waiting, streams, pending)
                total = self._read_n_step(slot, rows, gamma) if n_step > 1 else None
                if goals is not None:
                    memory.sampler.relabel(slot.arrays, goals, lambda key, r: self._rows_of(key, r, pending))
                tensors = self._tensors(slot)
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
        return self._batch(tensors, (number,), slot)

    def _n_steps(
        self, index: StepIndex, steps: np.ndarray, n_step: int, gamma: float, ends: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """(rows [B, n], -1 past an end; then as `StepIndex.single`, of the first and the last of them)."""
        number = len(steps)
        counts = np.full(number, n_step)
        _, rows, following = index.follow(steps, counts, np.zeros(number, np.int64), n_step, ends)
        last = (np.arange(number), counts - 1)
        after = following[last]
        waiting = np.flatnonzero(after < 0)
        streams = -1 - after[waiting]
        after[waiting] = rows[waiting, 0]
        terminated = (ends[rows[last] % len(ends)] & TERMINATED) != 0
        discount = np.where(terminated, 0.0, gamma**counts).astype(np.float32)
        return rows, np.concatenate([rows[:, 0], after]), discount, waiting, streams

    def slices(self, number: int, length: int, burn_in: int) -> TensorDict:
        """[B, burn_in + length]; see `ReplayBuffer.sample_slices`."""
        memory = self._memory
        if length < 1 or burn_in < 0:
            raise ValueError(f"length is {length} and burn_in {burn_in}: take at least 1 and 0")
        with memory.gate.reading:
            with memory.lock:
                self._check_open()
                self._check(number)
                index, ring = memory.index, memory.ends.ring
                steps, weights = memory.sampler.draw(number, index.head_step, index.tail_step)
                starts, before = index.behind(steps, burn_in, ring)
                numbers, rows, following = index.follow(
                    starts, before + length, burn_in - before, burn_in + length, ring
                )
                pending = memory.pending
            return self._padded(numbers, rows, following, pending, weights)

    def episodes(self, number: int) -> TensorDict:
        """[k, longest]; see `ReplayBuffer.sample_episodes`."""
        memory = self._memory
        with memory.gate.reading:
            with memory.lock:
                self._check_open()
                self._check(number)
                index = memory.index
                firsts = index.first_steps(memory.whole.draw(number, index.head, memory.sampler.rng))
                limits = index.remaining(firsts)
                nothing = np.zeros(number, np.int64)
                found = index.follow(firsts, limits, nothing, int(limits.max()), memory.ends.ring, through=True)
                pending = memory.pending
            return self._padded(*found, pending, None)

    def forget_batches(self) -> None:
        """What is held may have other shapes from now on."""
        self._pool.clear()

    def _check_open(self) -> None:
        if self._memory.closed:
            raise RuntimeError("the replay buffer is closed")

    def _check(self, number: int) -> None:
        if number < 1:
            raise ValueError(f"a batch of {number}: take at least 1")
        if not len(self._memory.index):
            raise ValueError("the replay buffer is empty: add to it before drawing")

    def _padded(
        self, numbers: np.ndarray, rows: np.ndarray, following: np.ndarray, pending: Any, weights: Any
    ) -> TensorDict:
        mask = rows >= 0
        anywhere = rows[mask][0]  # rows to read where there is no step; zeroed afterwards
        rows, following = np.where(mask, rows, anywhere).ravel(), np.where(mask, following, anywhere).ravel()
        waiting = np.flatnonzero(following < 0)
        streams = -1 - following[waiting]
        following[waiting] = rows[waiting]
        slot = self._take(mask.shape)
        try:
            self._read(slot, np.concatenate([rows, following]), waiting, streams, pending)
            for array in slot.arrays.values():
                array[~mask if array.shape[:2] == mask.shape else (slice(None), ~mask)] = 0
            tensors = self._tensors(slot)
        finally:
            self._pool.give_back(slot)
        tensors["index",], tensors["mask",] = torch.from_numpy(numbers), torch.from_numpy(mask)
        if weights is not None:
            tensors["weight",] = torch.from_numpy(np.broadcast_to(weights[:, None], mask.shape).copy())
        return self._batch(tensors, mask.shape, slot)

    def _take(self, shape: tuple[int, ...]) -> Slot:
        return self._pool.take(shape, lambda: self._form(shape))

    def _form(self, shape: tuple[int, ...]) -> dict[Hashable, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes and dtypes of a batch's arrays: [2, ...] for an observation and its successor."""
        specs = self._memory.schema.specs
        return {
            key: ((*((2,) if s.next_key is not None else ()), *shape, *s.shape), s.dtype) for key, s in specs.items()
        }

    def _read(
        self, slot: Slot, both: np.ndarray, waiting: np.ndarray, streams: np.ndarray, pending: dict[Key, np.ndarray]
    ) -> None:
        """Fills the slot: rows both[:B], of observations also both[B:], and for `waiting` of those the pending ones of `streams`."""
        number = len(both) // 2
        slots: dict[int, np.ndarray] = {}  # by the size of a ring: plain columns mostly have the same
        for key, spec in self._memory.schema.specs.items():
            column, out = self._memory.columns[key], slot.arrays[key]
            wanted = number if spec.next_key is None else 2 * number
            if out.ndim != 1 + len(spec.shape):
                out = out.reshape(wanted, *spec.shape)
            if isinstance(column, RawColumn):  # rows from the index are there: no need to look again
                ring = column.ring
                places = slots.get(len(ring))
                if places is None:
                    places = slots[len(ring)] = both % len(ring)
                take(ring, places[:wanted], out)
            else:
                column.gather(both[:wanted], out)
            if wanted > number and len(waiting):
                out[number + waiting] = pending[key][streams]

    def _read_n_step(self, slot: Slot, rows: np.ndarray, gamma: float) -> np.ndarray | None:
        """Sums the rewards and puts what ends an episode in place; gives back the sums where the key holds whole numbers: they are none."""
        columns = self._memory.columns
        inside = rows >= 0
        last = rows[np.arange(len(rows)), inside.sum(1) - 1]
        for key in _OF_THE_END:
            if key in columns:
                columns[key].gather(last, slot.arrays[key])
        reward = slot.arrays.get(("reward",))
        if reward is None:
            raise KeyError("n_step > 1 sums the key 'reward', which this buffer does not have")
        each = np.empty((rows.size, *reward.shape[1:]), reward.dtype)
        columns["reward",].gather(np.where(inside, rows, rows[:, :1]).ravel(), each)
        each = each.reshape(*rows.shape, -1)
        weights = np.where(inside, gamma ** np.arange(rows.shape[1]), 0.0)[:, :, None]
        total = np.where(inside[:, :, None], each, 0) * weights  # what lies outside, NaN even, does not matter
        summed = total.sum(1).reshape(reward.shape)
        if reward.dtype.kind != "f":
            return summed.astype(np.float32)
        reward[...] = summed
        return None

    def _rows_of(self, key: Key, rows: np.ndarray, pending: dict[Key, np.ndarray]) -> np.ndarray:
        """Rows of one observation, also pending ones."""
        spec = self._memory.schema.specs[key]
        out = np.empty((len(rows), *spec.shape), spec.dtype)
        there = np.flatnonzero(rows >= 0)
        part = np.empty((len(there), *spec.shape), spec.dtype)
        self._memory.columns[key].gather(rows[there], part)
        out[there] = part
        waiting = np.flatnonzero(rows < 0)
        if len(waiting):
            out[waiting] = pending[key][-1 - rows[waiting]]
        return out

    def _tensors(self, slot: Slot) -> dict[Key, Tensor]:
        schema = self._memory.schema
        tensors: dict[Key, Tensor] = {}
        for key, spec in schema.specs.items():
            array = slot.arrays[key]
            if spec.next_key is None:
                tensors[key] = as_tensor(array, spec)
            else:
                tensors[key], tensors[spec.next_key] = as_tensor(array[0], spec), as_tensor(array[1], spec)
        for ragged, largest in schema.ragged.items():
            sizes = schema.specs.get(sizes_key(ragged))
            for name in () if sizes is None else (sizes.key, sizes.next_key):
                if name is not None:
                    tensors[mask_key(name)] = mask_of(tensors.pop(name), largest)
        return tensors

    def _batch(self, tensors: dict[Key, Tensor], batch_size: tuple[int, ...], slot: Slot) -> TensorDict:
        device = self._device
        if device.type == "cuda":
            moved = {key: tensor.to(device, non_blocking=True) for key, tensor in tensors.items()}
            copied = torch.cuda.Event()
            copied.record(torch.cuda.current_stream(device))
            slot.copied = copied  # before `tensors` goes, which until then keeps the slot from being taken
            tensors = moved
            if not slot.kept:
                copied.synchronize()
        tree: dict[str, Any] = {}
        for key, tensor in tensors.items():
            node = tree
            for name in key[:-1]:
                node = node.setdefault(name, {})
            node[key[-1]] = tensor
        return _nested(tree, torch.Size(batch_size), device)


# The checks of TensorDict's constructor take longer than drawing 256 small steps, and the shapes here are known.
_make: Any = getattr(TensorDict, "_new_unsafe", TensorDict)


def _nested(tree: dict[str, Any], batch_size: torch.Size, device: torch.device) -> TensorDict:
    inner = {
        name: _nested(value, batch_size, device) if isinstance(value, dict) else value for name, value in tree.items()
    }
    return _make(inner, batch_size=batch_size, device=device)
