"""The storage of a replay buffer on a device: a raw ring beside the environments; the host does not wait for the
device."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.batches import make_batch
from slipstream.replay.device_ring import BITS, FrameRing, Frames, StreamLock
from slipstream.replay.persistence import KIND
from slipstream.replay.rows import DONE, END_KEYS, TERMINATED, end_bits, is_shifted_view, read_episode, split_batch
from slipstream.replay.samplers import PrioritizedSampler, Sampler, UniformSampler
from slipstream.storage.container import Container, ContainerWriter
from slipstream.storage.files import atomic_file, prepare_folder
from slipstream.storage.reader import Reader
from slipstream.storage.schema import Key, Schema, show
from slipstream.storage.serializer import load_state, store_state

_FILE = "ring.slip"
_STATE_BYTES = (16, 5056)  # of torch's generators on CUDA and on a CPU


class DeviceStorage:
    """A ring of frames on `place`, for uniform and prioritised sampling; episodes cannot be sampled complete.

    It takes the batches of one collector (N fixed), whose `next` is a view one step later, or complete episodes (N =
    1), not both. `len()` and `stats()` wait for the device. A draw waits only if no step is known to be there: at the
    first one, and if the device is most of a ring behind the host. Threads may add and sample at once, each on its
    stream.
    """

    def __init__(
        self,
        place: torch.device,
        device: torch.device,
        sampler: Sampler,
        capacity: int | None,
        capacity_bytes: int | None,
        keys: set[str] | None,
        seed: int,
    ) -> None:
        if type(sampler) not in (UniformSampler, PrioritizedSampler):
            raise ValueError(
                f"storage on a device samples uniformly or by priority: use storage='cpu' for {type(sampler).__name__}"
            )
        self.place, self.device, self.sampler = place, device, sampler
        self.capacity, self.capacity_bytes = capacity, capacity_bytes
        self.ring: FrameRing | None = None  # made for the first data
        self._keys = keys
        self._rng = torch.Generator(place).manual_seed(seed)
        self._schema = Schema()
        self._lock = StreamLock(place)

    # adding

    def extend(self, batch: Any, stream: int | str) -> None:
        """See `ReplayBuffer.extend`; a stream that does not continue loses its last step, whose next observation is
        unknown."""
        if stream != 0:
            raise ValueError("storage on a device has one writer: use storage='cpu' for several streams")
        with self._lock.writing():
            schema = self._schema if self.ring is not None else Schema()
            flat, kept, nexts = split_batch(batch, schema, self._keys)
            shape = next(iter(kept.values())).shape[:2]
            valid = flat["valid",] if ("valid",) in flat else torch.ones(shape, dtype=torch.bool, device=self.place)
            for key, after in nexts.items():
                _check_view(key, kept[key], after, valid)
            ends = torch.zeros(shape, dtype=torch.uint8, device=self.place)
            for key, bits in end_bits(flat):
                ends |= (flat[key].to(self.place).reshape(shape) != 0).to(torch.uint8) * bits
            last = {key: after[:, -1] for key, after in nexts.items()}
            self._write(schema, kept, last, valid.to(self.place), ends)

    def add(self, episode: Mapping[Any, Any]) -> None:
        """See `ReplayBuffer.add`."""
        with self._lock.writing():
            schema = self._schema if self.ring is not None else Schema()
            rows = read_episode(episode, schema, self._keys)
            total = int(rows.rows.sum())
            if self.capacity is not None and total > self.capacity:
                raise ValueError(f"an episode of {total} frames does not fit capacity={self.capacity}: raise it")
            valid = np.ones(total, bool)
            valid[np.cumsum(rows.rows)[rows.rows > rows.steps] - 1] = False  # final observations
            kept = {}
            for key, parts in rows.parts.items():
                kept[key] = self._one(np.concatenate(parts)).view(schema.specs[key].torch_dtype)
            last = {key: kept[key][:, -1] for key, spec in schema.specs.items() if spec.next_key is not None}
            self._write(schema, kept, last, self._one(valid), self._one(rows.ends))

    def _one(self, rows: np.ndarray) -> Tensor:
        """Return the rows of a single environment, [1, T, ...]."""
        return torch.from_numpy(rows).to(self.place).unsqueeze(0)

    def _write(
        self, schema: Schema, kept: dict[Key, Tensor], last: dict[Key, Tensor], valid: Tensor, ends: Tensor
    ) -> None:
        ring = self.ring if self.ring is not None else self._new_ring(kept, len(valid))
        ring.write(Frames(kept, last, valid, ends & DONE != 0, ends & TERMINATED != 0), self._alpha)
        self.ring, self._schema = ring, schema

    def _new_ring(self, kept: Mapping[Key, Tensor], number: int, saved: int | None = None) -> FrameRing:
        """Make a ring for [number, ...] frames; `saved` is the number of slots it must have."""
        prioritized = isinstance(self.sampler, PrioritizedSampler)
        slots = FrameRing.slots_for(kept, number, self.capacity, self.capacity_bytes, prioritized)
        if saved is not None and saved != slots:
            raise ValueError(
                f"the saved ring is {[saved, number]}, this one {[slots, number]}: give it the same capacity, keys and sampler"
            )
        return FrameRing(kept, number, slots, self.place, prioritized)

    @property
    def _alpha(self) -> float:
        return self.sampler.alpha if isinstance(self.sampler, PrioritizedSampler) else 0.0

    # sampling

    def sample(self, number: int, n_step: int, gamma: float) -> TensorDict:
        """See `ReplayBuffer.sample`."""
        with self._lock.reading():
            ring, steps, weight = self._draw(number)
            tensors = self._transitions(ring, steps, n_step, gamma)
        return self._make_batch(tensors, steps.shape, weight)

    def get(self, index: Tensor | np.ndarray, n_step: int, gamma: float) -> TensorDict:
        """See `ReplayBuffer.get`; numbers that have left are not noticed."""
        with self._lock.reading():
            steps = torch.as_tensor(index).to(self.place)
            tensors = self._transitions(self._filled(), steps, n_step, gamma)
        return self._make_batch(tensors, steps.shape, None)

    def _transitions(self, ring: FrameRing, steps: Tensor, n_step: int, gamma: float) -> dict[Key, Tensor]:
        time, env = ring.locate(steps)
        tensors = {key: ring.read(key, time, env) for key in ring.columns}
        last = time
        if n_step > 1:
            tensors["reward",], last = _sum_rewards(ring, time, env, n_step, gamma)
            tensors |= {key: ring.read(key, last, env) for key in END_KEYS if key in ring.columns}
        for key, spec in self._schema.specs.items():
            if spec.next_key is not None:
                tensors[spec.next_key] = ring.read(key, last + 1, env)
        ended = ring.terminated[last % ring.slots, env]
        tensors["discount",] = torch.where(ended, 0.0, gamma ** (last - time + 1).to(torch.float32))
        tensors["index",] = steps
        return tensors

    def sample_slices(self, number: int, length: int, burn_in: int) -> TensorDict:
        """See `ReplayBuffer.sample_slices`."""
        with self._lock.reading():
            ring, steps, weight = self._draw(number)
            time, env = ring.locate(steps)
            times = time.unsqueeze(1) + torch.arange(-burn_in, length, device=self.place)
            envs = env.unsqueeze(1).expand_as(times)
            numbers, follows = ring.number_at(times, envs), ring.follows(times, envs)
            mask = torch.ones_like(follows)
            for k in range(burn_in + 1, burn_in + length):
                mask[:, k] = mask[:, k - 1] & follows[:, k - 1]
            for k in range(burn_in - 1, -1, -1):
                mask[:, k] = mask[:, k + 1] & (numbers[:, k] >= 0) & follows[:, k]
            tensors = {}
            for key, spec in self._schema.specs.items():
                for name, at in ((key, times), (spec.next_key, times + 1)):
                    if name is not None:
                        value = ring.read(key, at, envs)
                        inside = mask.view(*mask.shape, *[1] * (value.ndim - 2))
                        tensors[name] = torch.where(inside, value, torch.zeros_like(value[:1, :1]))
            tensors["index",], tensors["mask",] = torch.where(mask, numbers, -1), mask
        return self._make_batch(tensors, times.shape, None if weight is None else weight.unsqueeze(1).expand_as(mask))

    def sample_episodes(self, number: int) -> TensorDict:
        """Refuse: how long episodes are is not known without waiting for the device."""
        raise NotImplementedError(
            "complete episodes need storage='cpu'; storage on a device has sample and sample_slices"
        )

    def update_priority(self, index: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """See `ReplayBuffer.update_priority`; priorities that are not finite are ignored."""
        if not isinstance(self.sampler, PrioritizedSampler):
            raise TypeError("this buffer has no priorities: build it with sampler='prioritized'")
        with self._lock.writing():
            steps, values = (torch.as_tensor(x).detach().to(self.place).flatten() for x in (index, priority))
            if steps.shape != values.shape:
                raise ValueError(f"{list(steps.shape)} steps and {list(values.shape)} priorities: give one for each")
            if len(steps):
                self._filled().prioritize(steps, values.to(torch.float64).abs() + self.sampler.eps, self._alpha)

    def _draw(self, number: int) -> tuple[FrameRing, Tensor, Tensor | None]:
        ring = self._filled()
        beta = self.sampler.beta if isinstance(self.sampler, PrioritizedSampler) else 0.0
        return ring, *ring.draw(number, self._rng, beta)

    def _filled(self) -> FrameRing:
        if self.ring is None or not self.ring.has_steps():
            raise ValueError("the replay buffer is empty: add to it before sampling")
        return self.ring

    def _make_batch(self, tensors: dict[Key, Tensor], batch_size: torch.Size, weight: Tensor | None) -> TensorDict:
        if weight is not None:
            tensors["weight",] = weight
        batch = make_batch(tensors, batch_size, self.place)
        return batch if self.device == self.place else batch.to(self.device)

    # facts

    def __len__(self) -> int:
        return self.stats()["steps"]

    @property
    def nbytes(self) -> int:
        """See `ReplayBuffer.nbytes`: memory of the ring on the device."""
        return 0 if self.ring is None else sum(tensor.nbytes for tensor in self.ring.tensors().values())

    @property
    def host_bytes(self) -> int:
        """See `ReplayBuffer.host_bytes`: nothing, the ring is on the device."""
        return 0

    def stats(self) -> dict[str, Any]:
        """See `ReplayBuffer.stats`: steps, frames and bytes."""
        with self._lock.reading():
            ring, head, tail, rows = self.ring, 0, 0, 0
            if ring is not None:
                head, tail, rows = int(ring.head), int(ring.tail), min(ring.time, ring.slots - 1) * ring.number
        return {"steps": tail - head, "steps_ever": tail, "rows": rows, "nbytes": self.nbytes, "columns": {}}

    # saving and loading

    def state_dict(self) -> dict[str, Any]:
        """Return everything, as copies of the tensors."""
        with self._lock.reading():
            ring = self.ring
            state: dict[str, Any] = {} if ring is None else {name: x.clone() for name, x in ring.tensors().items()}
            state |= {"time": 0 if ring is None else ring.time, "schema": self._schema.describe()}
            state["rng"] = self._rng.get_state()
        own = ("alpha", "beta", "eps") if isinstance(self.sampler, PrioritizedSampler) else ()
        state["sampler"] = {"kind": type(self.sampler).__name__} | {name: getattr(self.sampler, name) for name in own}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the contents by those of a state dict; if it does not fit, nothing changes."""
        reader, kind = Reader("the state of the replay buffer"), type(self.sampler).__name__
        schema, ring = Schema(), None
        with reader.parsing("the state dict"):
            saved = dict(state["sampler"])
            kind_saved = saved.pop("kind")
            time, valid = reader.integer(state["time"], "the time"), state.get("valid")
            schema.restore(state["schema"], reader)
            if not all(type(x) in (int, float) and 0 <= x < 1e30 for x in saved.values()):
                reader.fail(f"the state of the sampler is {saved}")
        if kind_saved != kind or saved.keys() > {"alpha", "beta", "eps"}:
            raise ValueError(f"the state is of a {kind_saved}, this buffer has a {kind}: build it with that sampler")
        with self._lock.writing():
            if time:
                if not isinstance(valid, Tensor) or valid.ndim != 2:
                    reader.fail("the ring has no frames")
                number = valid.shape[1]
                rows = {k: torch.empty(number, 0, *s.shape, dtype=s.torch_dtype) for k, s in schema.specs.items()}
                with reader.parsing("the ring"):  # before memory is taken: as much as the state itself has
                    for key, spec in schema.specs.items():
                        if state["ring/" + "/".join(key)].shape != (len(valid), number, *spec.shape):
                            reader.fail(f"the frames of {show(key)} have another shape than its steps")
                ring = self._new_ring(rows, number, len(valid))
                ring.fill(state, time)
            rng = state["rng"].cpu()
            if rng.numel() == self._rng.get_state().numel() or rng.numel() not in _STATE_BYTES:
                self._rng.set_state(rng)
            else:  # a state of another kind of device cannot continue: it is a new seed
                self._rng.manual_seed(zlib.crc32(rng.numpy()))
                print("draws from the replay buffer continue with a new seed: another kind of device", file=sys.stderr)
            self._free()
            self._schema, self.ring = schema, ring
        for name, value in saved.items():
            setattr(self.sampler, name, value)

    def save(self, folder: Path) -> None:
        """Save the ring in one file; unlike storage="cpu", all of it every time."""
        state = self.state_dict()
        prepare_folder(folder)
        with atomic_file(folder / _FILE) as file:
            writer = ContainerWriter(file, KIND)
            writer.finish(store_state(writer, state))

    def load(self, folder: Path, recover: bool) -> None:
        """Load what `save` wrote."""
        with Container.open(folder / _FILE, KIND) as container:
            self.load_state_dict(load_state(container, container.head))

    def close(self) -> None:
        """Free the memory."""
        with self._lock.writing():
            self._free()

    def _free(self) -> None:
        """Drop the ring, as a writer: this stream has waited for all others, so memory that is free after it is free
        for all."""
        if self.ring is not None and self.place.type == "cuda":
            for tensor in self.ring.tensors().values():
                tensor.record_stream(torch.cuda.current_stream(self.place))
        self.ring = None


def _sum_rewards(ring: FrameRing, time: Tensor, env: Tensor, n_step: int, gamma: float) -> tuple[Tensor, Tensor]:
    """Return (discounted sums of rewards, times of the last steps summed)."""
    if ("reward",) not in ring.columns:
        raise KeyError("n_step > 1 sums the key 'reward', which this buffer does not have")
    total = ring.read(("reward",), time, env)
    if not total.is_floating_point():
        total = total.to(torch.float32)
    last, alive = time, torch.ones_like(time, dtype=torch.bool)
    for k in range(1, n_step):
        alive = alive & ring.follows(last, env)
        last = last + alive
        more = ring.read(("reward",), last, env).to(total.dtype) * gamma**k
        total = total + torch.where(alive.view(-1, *[1] * (more.ndim - 1)), more, 0)
    return total, last


def _check_view(key: Key, now: Tensor, after: Tensor, valid: Tensor) -> None:
    """Check that the next observation is the frame one step later. A view is; a copy is compared, and the host waits
    for that."""
    if now.shape[1] == 1 or is_shifted_view(now, after):
        return
    bits = BITS[now.element_size()]
    other = after[:, :-1].contiguous().view(bits) != now[:, 1:].contiguous().view(bits)
    if bool((other.reshape(*other.shape[:2], -1).any(2) & valid[:, :-1].to(other.device)).any()):
        raise ValueError(
            f"{show(('next', *key))} is not {show(key)} one step later: storage on a device takes batches whose environments "
            "reset on the step after an end (valid=False); use storage='cpu' for others"
        )
