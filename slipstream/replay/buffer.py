"""ReplayBuffer: steps with any keys, stored once, compressed, and sampled in any order."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.device_storage import DeviceStorage
from slipstream.replay.host_storage import HostStorage, Settings
from slipstream.replay.rows import WaitingSteps
from slipstream.replay.samplers import Sampler, make_sampler
from slipstream.storage.codec.registry import parse_codec
from slipstream.storage.schema import flatten


class ReplayBuffer:
    """Holds the newest steps, `capacity` of them or `capacity_bytes` of memory; the oldest episodes leave first.

    `extend(batch)` takes a collector's [N, T] batches, `add(episode)` complete episodes; `sample` returns batches on
    `device`, in memory of their own. Any number of threads may add and sample at once.

    Args:
        capacity: steps; give this or `capacity_bytes`.
        capacity_bytes: memory for everything.
        device: of the batches; those of storage="cuda" stay on the GPU.
        codec: for all keys, or a dict by key (a name, or a tuple for nested ones): see docs/replay-blocks.md.
        group: frames that are compressed together, for all keys or by key.
        storage: "cpu": compressed blocks in memory; "cuda": a raw ring on the GPU, for environments that run there;
            "ring": a raw ring on `device`.
        sampler: "uniform", "prioritized", or a `Sampler`.
        seed: of the sampler.
        keys: top-level names to keep; None keeps what a learner needs (of an episode, everything).
        ragged: {key: largest size per step, None for an axis that does not vary} for arrays of varying size.
        spill_dir: folder to which the oldest blocks move past `memory_budget`.
        memory_budget: bytes.
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
        spill_dir: str | Path | None = None,
        memory_budget: int | None = None,
    ) -> None:
        if (capacity is None) == (capacity_bytes is None):
            raise ValueError("give capacity (steps) or capacity_bytes, one of them")
        name, limit = ("capacity", capacity) if capacity is not None else ("capacity_bytes", capacity_bytes or 0)
        if not (1 <= limit < 2**63 and limit == int(limit)):  # NaN would evict nothing
            raise ValueError(f"{name}={limit} must be at least 1, and a whole number")
        for name in codec.values() if isinstance(codec, Mapping) else (codec,):
            if name != "auto":
                parse_codec(name)  # raises for an unknown name now, not when the first large frame comes
        self.sampler = make_sampler(sampler)
        self.sampler.start(seed)
        kept = None if keys is None else set(keys)
        spill = None if spill_dir is None else Path(spill_dir).absolute()
        settings = Settings(codec, group, capacity, capacity_bytes, kept, ragged or {}, spill, memory_budget)
        self._storage: HostStorage | DeviceStorage
        if storage == "cpu":
            if (spill_dir is None) != (memory_budget is None):
                raise ValueError(
                    "give spill_dir and memory_budget together: the folder, and the bytes past which to use it"
                )
            self.device = torch.device(device)
            self._storage = HostStorage(settings, self.sampler, self.device)
        else:
            refused = {"codec": codec not in ("auto", "raw"), "group": group != 1, "ragged": bool(ragged)}
            refused |= {"spill_dir": spill_dir is not None, "memory_budget": memory_budget is not None}
            for name in (name for name, given in refused.items() if given):
                raise ValueError(
                    f"{name} is for storage='cpu': storage={storage!r} is a raw ring that stays on its device"
                )
            self.device = torch.device(device if storage == "ring" else storage)
            self._storage = DeviceStorage(settings, self.sampler, self.device, seed)
        self._keys = kept
        self._steps: WaitingSteps | None = None
        self._stepping = threading.Lock()
        self._closed = False

    @property
    def capacity(self) -> int | None:
        """Steps that it may hold; None if the limit is in bytes."""
        return self._storage.capacity

    # adding

    def extend(self, batch: Any, stream: int | str = 0) -> None:
        """Add a [N, T] batch: ("observation", name), action, reward, terminated, truncated, valid, ("next",
        "observation", name).

        Environment n continues where environment n of the last batch stopped, if its observation is the expected one.
        Frames that are not `valid` are kept as final observations only.

        Args:
            batch: a TensorDict or nested dict of tensors [N, T, ...].
            stream: the name of the collector that the batch is of, if there are several.
        """
        self._open().extend(batch, stream)

    def add(self, episode: Mapping[Any, Any]) -> None:
        """Add a complete episode: every key [L, ...], and the next observations as `next_K`, ("next", K) or row L + 1
        of K.

        If `next_K` is K shifted by one, only its last row is kept. An episode longer than the capacity loses its
        beginning.
        """
        self._on_host("complete episodes").add(episode)

    def add_step(self, **values: Any) -> None:
        """Add one step of one environment: `observation`, `action`, `reward`, `next_observation`, `terminated`,
        `truncated` and keys of your own, each without a leading axis.

        The step continues the one before if its observation is that one's next observation, and no end came between.
        Steps wait in plain arrays and are added together, at the latest when anything else is asked of the buffer. For
        several environments use `extend`.
        """
        storage, step = self._on_host("single steps", waiting=False), flatten(values)
        with self._stepping:
            if self._steps is None:
                steps = WaitingSteps(step, storage.memory.schema, self.capacity)
                steps.add(step)
                self._add_waiting(steps)  # at once: what does not fit the buffer is refused here
                self._steps = steps
            elif self._steps.add(step):
                self._add_waiting(self._steps)

    # sampling

    def sample(self, batch_size: int, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """Return [B] steps: their keys, ("next", ...) observations, "index" (step numbers), "discount", and "weight" if
        prioritised.

        With n_step > 1 "reward" is the discounted sum of up to n rewards, and the next observations, `terminated` and
        `truncated` are those n steps later, fewer if the episode ends. "discount" is gamma to the number of steps, 0
        after a termination: the target is reward + discount * value(next).
        """
        self._check_batch(batch_size, n_step, gamma)
        return self._open().sample(batch_size, n_step, gamma)

    def sample_slices(self, batch_size: int, length: int, burn_in: int = 0) -> TensorDict:
        """Return [B, burn_in + length] consecutive steps of one episode each, "mask" False (and zeros) where there is
        none.

        Step `burn_in` of a slice is drawn as in `sample`; the `burn_in` steps before it, and those after it, come with
        it.
        """
        self._check_batch(batch_size)
        if length < 1 or burn_in < 0:
            raise ValueError(f"length={length} and burn_in={burn_in}: use at least 1 and 0")
        return self._open().sample_slices(batch_size, length, burn_in)

    def sample_episodes(self, k: int) -> TensorDict:
        """Return [k, longest] complete episodes, each with the same probability, "mask" False (and zeros) after their
        ends."""
        self._check_batch(k)
        return self._on_host("complete episodes").sample_episodes(k)

    def get(self, index: Tensor | np.ndarray, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """Return the batch that `sample` would return for these step numbers, goals and rewards as they were added;
        IndexError if one has left."""
        self._check_batch(1, n_step, gamma)
        return self._open().sample(len(index), n_step, gamma, index)

    def __getitem__(self, key: Any) -> Tensor:
        """Return all values [steps, ...] of a key, the oldest first."""
        ever = self.stats()["steps_ever"]
        values: Tensor = self.get(np.arange(ever - len(self), ever))[key]
        return values

    def update_priority(self, index: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """Set the priorities of the steps `index`, as `sample` returned them; steps that have left are ignored."""
        self._open().update_priority(index, priority)

    # saving and loading

    def save(self, folder: str | Path) -> None:
        """Save the buffer in `folder`; data that an earlier save there holds is not written again."""
        self._open().save(Path(folder))

    def load(self, folder: str | Path, max_bytes: int | None = None) -> Self:
        """Replace the contents by what `save` (or spilling) wrote.

        Args:
            folder: of the save.
            max_bytes: memory that loading may take; by default nine tenths of what is available.

        Raises:
            DamagedFileError: if a file is damaged; the message names it. The contents are unchanged then.
            TooLargeError: if it would take more than `max_bytes`. The contents are unchanged then.
        """
        self._open().load(Path(folder), max_bytes)
        self._steps = None  # others may have other dtypes
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return everything, including the data, as tensors; blocks are not compressed again."""
        return self._open().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the contents by what `state_dict` returned."""
        self._open().load_state_dict(state)
        self._steps = None  # others may have other dtypes

    # facts

    def __len__(self) -> int:
        return len(self._with_waiting_steps())

    @property
    def nbytes(self) -> int:
        """All memory: columns, index, sampler, pending observations; without files and batches that were returned."""
        return self._storage.nbytes

    @property
    def host_bytes(self) -> int:
        """The part of `nbytes` that the process has been given by now: it grows until the buffer is full."""
        return self._storage.host_bytes

    def stats(self) -> dict[str, Any]:
        """Return steps, episodes, rows, bytes, and the statistics of each column."""
        return self._with_waiting_steps().stats()

    def close(self) -> None:
        """End the background work and free the memory; raise errors of the background. Batches that you hold stay
        valid."""
        if self._closed:
            return
        self._closed = True
        self._storage.close()

    def __repr__(self) -> str:
        if self._closed:
            return "ReplayBuffer(closed)"
        limit = f"of {self.capacity:,}" if self.capacity is not None else "limited in bytes"
        return f"ReplayBuffer({len(self):,} steps {limit}, {self.nbytes / 1e6:.1f} MB, {type(self.sampler).__name__})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied, its threads cannot: use state_dict(), or save(folder), and load "
            "that into a new buffer"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a replay buffer cannot be iterated over: use sample(batch_size)")

    def _open(self) -> HostStorage | DeviceStorage:
        """Return the storage with all steps so far; raise if the buffer is closed."""
        if self._closed:
            raise RuntimeError("the replay buffer is closed")
        return self._with_waiting_steps()

    def _on_host(self, what: str, waiting: bool = True) -> HostStorage:
        """Return the storage, with all steps so far unless they may wait; raise if it has no `what`."""
        if self._closed or waiting:
            self._open()
        if not isinstance(self._storage, HostStorage):
            raise NotImplementedError(
                f"{what} need storage='cpu': storage on a device takes batches (extend), samples steps and slices"
            )
        return self._storage

    def _with_waiting_steps(self) -> HostStorage | DeviceStorage:
        if self._steps is not None:
            with self._stepping:
                if self._steps is not None and self._steps.count and not self._closed:
                    self._add_waiting(self._steps)
        return self._storage

    def _add_waiting(self, steps: WaitingSteps) -> None:
        batch = steps.take()
        self._on_host("single steps", waiting=False).extend(
            batch, "add_step", self._keys or {key[0] for key in batch} - {"next"}
        )

    def _check_batch(self, number: int, n_step: int = 1, gamma: float = 1.0) -> None:
        if number < 1:
            raise ValueError(f"batch_size={number} must be at least 1")
        if n_step < 1:
            raise ValueError(f"n_step={n_step} must be at least 1")
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma={gamma} must be in [0, 1]")
