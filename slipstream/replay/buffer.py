"""ReplayBuffer: steps of any keys, kept once, compressed, and drawn in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.drawing import Drawing
from slipstream.replay.keeping import Keeping
from slipstream.replay.memory import ColumnSettings, Memory
from slipstream.replay.sampling.batches import BatchPool
from slipstream.replay.sampling.prefetch import Prefetcher
from slipstream.replay.sampling.samplers import Sampler, sampler_from
from slipstream.replay.writing import Writing
from slipstream.storage.codec.registry import parse_codec
from slipstream.storage.schema import Schema, as_key


class ReplayBuffer:
    """Steps of episodes, `capacity` of them or `capacity_bytes` of memory; the oldest episodes leave first.

    `extend(batch)` takes a collector's [N, T] batches, `add(episode)` whole episodes; `sample` gives batches on `device`.
    A batch's memory is yours for as long as you hold any tensor of it, and is used again afterwards.

    - `codec`, `group`: for all keys, or a dict by key (a name, or a tuple for nested ones): see docs/replay.md.
    - `storage`: "cpu": compressed blocks in memory; "cuda": a raw ring on the GPU, for environments that live there.
    - `sampler`: "uniform", "without_replacement", "prioritized", or a `Sampler`.
    - `keys`: the top-level names to keep; None keeps what a learner needs (all of an episode's).
    - `ragged`: {key: largest size a step, None for an axis that does not vary} for arrays of varying size.
    - `spill_dir`, `memory_budget` (bytes): past the budget the oldest blocks move to files there.

    Any number of threads may add and draw at once.
    """

    def __new__(cls, *args: Any, storage: str = "cpu", **kwargs: Any) -> Self:
        """`storage` other than "cpu" gives a buffer of the same methods that lives on that device."""
        if cls is ReplayBuffer and storage != "cpu":
            from slipstream.replay.device.ring import DeviceReplayBuffer

            return object.__new__(DeviceReplayBuffer)  # type: ignore[return-value]
        return object.__new__(cls)

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
        spill_dir: str | Path | None = None,
        memory_budget: int | None = None,
    ) -> None:
        if (capacity is None) == (capacity_bytes is None):
            raise ValueError("give capacity (steps) or capacity_bytes, one of them")
        if (capacity if capacity is not None else capacity_bytes or 0) < 1:
            raise ValueError("the capacity must be at least 1")
        if (spill_dir is None) != (memory_budget is None):
            raise ValueError("give spill_dir and memory_budget together: where to spill, and past how many bytes")
        for name in codec.values() if isinstance(codec, Mapping) else (codec,):
            if name != "auto":
                parse_codec(name)  # a wrong name is told now, not when the first large frame comes
        self.device = torch.device(device)
        self.sampler = sampler_from(sampler)
        self.sampler.start(seed)
        schema = Schema(ragged={as_key(k): tuple(v) for k, v in (ragged or {}).items()})
        settings = ColumnSettings(codec, group, capacity, spills=memory_budget is not None)
        self._memory = Memory(schema, self.sampler, settings)
        self._writing = Writing(self._memory, capacity, capacity_bytes, None if keys is None else set(keys))
        self._drawing = Drawing(self._memory, BatchPool(pinned=self.device.type == "cuda"), self.device)
        self._keeping = Keeping(self._memory, self._writing, spill_dir, memory_budget)
        self._prefetchers: list[Prefetcher] = []
        self._closed = False

    @property
    def capacity(self) -> int | None:
        """Steps it may hold; None where bytes are the limit."""
        return self._writing.capacity

    # adding

    def extend(self, batch: Any, stream: int | str = 0) -> None:
        """Adds a [N, T] batch: ("observation", name), action, reward, terminated, truncated, valid, ("next", "observation", name).

        Environment n of this batch goes on where environment n of the last one stopped, if its observation says so. Several
        writers at once give each its own `stream`. Frames that are not `valid` are kept as final observations only.
        """
        self._check_open()
        self._writing.extend(batch, stream)
        self._keeping.spill_if_needed()

    def add(self, episode: Mapping[Any, Any]) -> None:
        """Adds a whole episode: every key [L, ...], and the successors of observations as `next_K`, ("next", K) or row L + 1 of K.

        Where `next_K` is K shifted by one, only its last row is kept. One longer than the capacity loses its beginning.
        """
        self._check_open()
        self._writing.add(episode)
        self._keeping.spill_if_needed()

    # drawing

    def sample(self, batch_size: int, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """[B] steps: their keys, ("next", ...) observations, "index" (step numbers), "discount", and "weight" where prioritised.

        With n_step > 1 "reward" is the discounted sum of up to n rewards, and the next observations, `terminated` and `truncated`
        are those n steps on, fewer where the episode ends. "discount" is gamma to the number of steps, 0 after a termination: the
        target is reward + discount * value(next).
        """
        self._check_open()
        return self._drawing.transitions(batch_size, n_step, gamma)

    def sample_slices(self, batch_size: int, length: int, burn_in: int = 0) -> TensorDict:
        """[B, burn_in + length] consecutive steps of one episode each, "mask" False (and zeros) where there is none.

        Step `burn_in` of a slice is drawn as in `sample`; the `burn_in` steps before it, and those after it, come with it.
        """
        self._check_open()
        return self._drawing.slices(batch_size, length, burn_in)

    def sample_episodes(self, k: int) -> TensorDict:
        """[k, longest] whole episodes, each with the same probability, "mask" False (and zeros) past their ends."""
        self._check_open()
        return self._drawing.episodes(k)

    def get(self, index: Tensor | np.ndarray, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """The batch that `sample` would give for these step numbers; IndexError where one has left."""
        self._check_open()
        steps = index.detach().cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
        return self._drawing.transitions(len(steps), n_step, gamma, steps.astype(np.int64))

    def update_priority(self, index: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """Priorities for the steps in `index`, as `sample` gave them; steps that have left are passed over."""
        steps, values = (
            x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (index, priority)
        )
        with self._memory.lock:
            self.sampler.update_priority(steps.astype(np.int64).ravel(), values.ravel())

    def prefetch(
        self, batch_size: int, depth: int = 2, device: torch.device | str | None = None, **how: Any
    ) -> Prefetcher:
        """An endless iterator of `sample(batch_size, **how)` on `device`, drawn up to `depth` batches ahead by a thread of its own.

        Use it in a `with` block, or close it; closing the buffer closes it too.
        """
        self._check_open()
        prefetcher = Prefetcher(
            lambda: self.sample(batch_size, **how), depth, torch.device(device) if device is not None else self.device
        )
        self._prefetchers = [*(p for p in self._prefetchers if not p.closed), prefetcher]
        return prefetcher

    # keeping

    def save(self, folder: str | Path) -> None:
        """Saves the buffer in `folder`; what an earlier save there holds already is not written again."""
        self._check_open()
        self._keeping.save(Path(folder))

    def load(self, folder: str | Path, recover: bool = False) -> Self:
        """Takes over what `save` (or spilling) wrote, in place of what is here.

        `recover` looks for whole files instead of trusting the list of the last save: for folders a crash or a bad disk left.
        """
        self._check_open()
        self._keeping.load(Path(folder), recover)
        self._drawing.forget_batches()
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, data included, as two tensors of bytes; blocks are not coded again."""
        self._check_open()
        return self._keeping.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes over what `state_dict` gave, in place of what is here."""
        self._check_open()
        self._keeping.load_state_dict(state)
        self._drawing.forget_batches()

    # facts

    def __len__(self) -> int:
        with self._memory.lock:  # the index may be moving its arrays
            return len(self._memory.index)

    @property
    def nbytes(self) -> int:
        """Memory taken, all of it: columns, index, sampler, pending observations; not what lies in files, nor batches handed out."""
        return self._memory.nbytes

    @property
    def host_bytes(self) -> int:
        """What of it the process holds by now: `nbytes` without what is reserved and not written yet. It grows until the buffer is full."""
        return self._memory.written_bytes

    def stats(self) -> dict[str, Any]:
        """Steps, episodes, rows, bytes, and what each column says of itself."""
        memory = self._memory
        with memory.writing:
            with memory.lock:
                whole = memory.whole.count(memory.index.head)
            return {
                "steps": len(self),
                "steps_ever": memory.index.tail_step,
                "rows": memory.index.tail_row - memory.index.head_row,
                "pieces": memory.index.tail - memory.index.head,
                "whole_episodes": whole,
                "nbytes": memory.nbytes,
                "spilled_files": self._keeping.spilled_files,
                "columns": {".".join(key): column.stats() for key, column in memory.columns.items()},
            }

    def close(self) -> None:
        """Ends background work and lets the memory go; raises what went wrong in the background. Batches already drawn stay."""
        if self._closed:
            return
        self._closed = True
        for prefetcher in self._prefetchers:
            prefetcher.close()
        try:
            self._keeping.close()
        finally:
            self._memory.close()

    def __repr__(self) -> str:
        if self._closed:
            return "ReplayBuffer(closed)"
        limit = f"of {self.capacity:,}" if self.capacity is not None else "limited in bytes"
        return f"ReplayBuffer({len(self):,} steps {limit}, {self.nbytes / 1e6:.1f} MB, {type(self.sampler).__name__})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "a replay buffer is drawn from, not iterated over: use sample(batch_size) or prefetch(batch_size)"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the replay buffer is closed")
