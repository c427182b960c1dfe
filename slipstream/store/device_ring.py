"""Storage on a device: a raw ring beside the environments, added to and drawn from without the host waiting for the device.

Frames lie time-major, [slots, N, ...]; the frame one slot on is the next observation. Which frames may be drawn is a list of
frame numbers on the device, whose ends are counters on the device: drawing is one look-up, whatever was invalid or evicted.
The newest step of each environment joins the list with the next batch, when it is known that its episode went on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.atomic import write_whole
from slipstream.store.episodes import read_episode
from slipstream.store.files import RecordWriter, array_of, json_of, read_records
from slipstream.store.prefetch import Prefetcher
from slipstream.store.prioritized import PrioritizedSampler
from slipstream.store.replay import ReplayBuffer
from slipstream.store.samplers import Sampler, UniformSampler, sampler_from
from slipstream.store.schema import Key, Schema, as_array, flatten, show
from slipstream.store.streams import NOT_KEPT

_ENDS = (("terminated",), ("truncated",), ("done",))
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class DeviceReplayBuffer(ReplayBuffer):
    """`ReplayBuffer(..., storage="cuda")`. Draws uniformly or by priority; episodes cannot be drawn whole.

    It takes the batches of one collector (N fixed), whose `next` is a view one row on, or whole episodes (N = 1), not both.
    `len()` and `stats()` ask the device and so wait for it.
    """

    def __init__(
        self,
        capacity: int | None = None,
        *,
        capacity_bytes: int | None = None,
        device: torch.device | str | None = None,
        storage: str = "cuda",
        sampler: str | Sampler = "uniform",
        seed: int = 0,
        keys: Iterable[str] | None = None,
        ragged: Mapping[Any, tuple[int | None, ...]] | None = None,
        **refused: Any,
    ) -> None:
        for name, value in refused.items():
            if name not in ("codec", "group") or value not in ("auto", "raw", 1):
                raise ValueError(f"{name}={value!r} is for storage='cpu': a ring on {storage} is raw and stays there")
        if (capacity is None) == (capacity_bytes is None):
            raise ValueError("give capacity (steps) or capacity_bytes, one of them")
        if ragged:
            raise ValueError("storage on a device takes padded arrays only: pad them, or use storage='cpu'")
        self._capacity, self._capacity_bytes = capacity, capacity_bytes
        self.storage = torch.device(storage)
        self.device = self.storage if device is None or torch.device(device).type == self.storage.type else torch.device(device)
        self.sampler = sampler_from(sampler)
        if type(self.sampler) not in (UniformSampler, PrioritizedSampler):
            raise ValueError(f"storage on a device draws uniformly or by priority; for {type(self.sampler).__name__} use storage='cpu'")
        self._rng = torch.Generator(self.storage).manual_seed(seed)
        self._keys = None if keys is None else set(keys)
        self._schema = Schema()
        self._ring: dict[Key, Tensor] = {}  # [slots, N, ...]
        self._number = self._slots = 0
        self._time = 0  # frames ever written of each environment; frame t lies in slot t % slots
        self._prefetchers: list[Prefetcher] = []
        self._closed = False

    @property
    def capacity(self) -> int | None:
        """Steps it may hold."""
        return self._capacity

    # adding

    def extend(self, batch: Any, stream: int | str = 0) -> None:
        """See `ReplayBuffer`; a stream that does not go on loses its last step, which has no known successor."""
        self._check_open()
        if stream != 0:
            raise ValueError("storage on a device has one writer: use storage='cpu' for several streams")
        flat = flatten(batch)
        kept = {k: v for k, v in flat.items() if k[0] != "next" and (k[0] in self._keys if self._keys else k[0] not in NOT_KEPT)}
        nexts = {k: flat["next", *k] for k in kept if ("next", *k) in flat}
        if not nexts:
            raise KeyError('the batch has no ("next", "observation", name): extend needs the observation that followed each step')
        shape = next(iter(kept.values())).shape[:2]
        valid = flat["valid",] if ("valid",) in flat else torch.ones(shape, dtype=torch.bool, device=self.storage)
        for key, after in nexts.items():
            _check_view(key, kept[key], after, valid)
        done = torch.zeros(shape, dtype=torch.bool, device=self.storage)
        for name in ("terminated", "truncated", "done"):
            if (name,) in flat:
                done |= flat[name,].to(self.storage).reshape(shape) != 0
        last = {key: after[:, -1] for key, after in nexts.items()}
        self._write(kept, last, valid.to(self.storage), done, {key: ("next", *key) for key in nexts})

    def add(self, episode: Mapping[Any, Any]) -> None:
        """See `ReplayBuffer`."""
        self._check_open()
        rows = read_episode(episode, self._schema if self._ring else (schema := Schema()), self._keys)
        if not self._ring:
            self._schema = schema
        arrays = {key: np.concatenate(parts) for key, parts in rows.parts.items()}
        total = int(rows.rows.sum())
        valid = np.ones(total, bool)
        finals = np.cumsum(rows.rows)[rows.rows > rows.steps] - 1
        valid[finals] = False
        observed = [k for k, s in self._schema.specs.items() if s.next_key is not None]
        if self._capacity is not None and total > self._capacity:
            raise ValueError(f"an episode of {total} frames does not fit a capacity of {self._capacity}: raise it")
        kept = {k: torch.from_numpy(a).view(self._schema.specs[k].torch_dtype).to(self.storage).unsqueeze(0) for k, a in arrays.items()}
        ends = torch.from_numpy((rows.ends & 1) != 0).to(self.storage).unsqueeze(0)
        last = {k: kept[k][:, -1] for k in observed}
        self._write(kept, last, torch.from_numpy(valid).to(self.storage).unsqueeze(0), ends, None)

    def _write(self, kept: dict[Key, Tensor], last: dict[Key, Tensor], valid: Tensor, done: Tensor, nexts: dict[Key, Key] | None) -> None:
        number, length = valid.shape
        if not self._ring:
            self._allocate(kept, last, number, nexts)
        self._schema.check(*_shapes(kept))
        if number != self._number or length >= self._slots:
            raise ValueError(f"a batch of [{number}, {length}] does not fit a ring of [{self._number}, {self._slots - 1}]: see capacity")
        same = self._goes_on(kept, last, valid, done)
        self._forget(length)
        for key, value in kept.items():
            self._copy(self._ring[key], value.transpose(0, 1))
        self._copy(self._done, (done & valid).transpose(0, 1))
        self._copy(self._valid, valid.transpose(0, 1))
        for key, value in last.items():
            self._ring[key][(self._time + length) % self._slots].copy_(value)
        self._list(length, same)
        self._time += length

    def _allocate(self, kept: dict[Key, Tensor], last: Mapping[Key, Any], number: int, nexts: dict[Key, Key] | None) -> None:
        if nexts is not None:
            self._schema.fix(*_shapes(kept), nexts)
        row_bytes = sum(s.row_bytes for s in self._schema.specs.values()) + 10
        steps = self._capacity if self._capacity is not None else (self._capacity_bytes or 0) // row_bytes
        self._number, self._slots = number, max(2, -(-steps // number)) + 1
        make: dict[str, Any] = {"device": self.storage}
        for key, value in kept.items():
            self._ring[key] = torch.zeros(self._slots, number, *value.shape[2:], dtype=value.dtype, **make)
        self._done, self._valid, self._listed = (torch.zeros(self._slots, number, dtype=torch.bool, **make) for _ in range(3))
        self._places = self._slots * number
        self._frames = torch.zeros(self._places + 1, dtype=torch.int64, **make)  # the list; one place more, for what is not listed
        self._head, self._tail = (torch.zeros((), dtype=torch.int64, **make) for _ in range(2))
        prioritized = isinstance(self.sampler, PrioritizedSampler)
        self._priority = torch.zeros(self._places + 1, dtype=torch.float64, **make) if prioritized else None
        self._largest = torch.ones((), dtype=torch.float64, **make)

    def _copy(self, ring: Tensor, rows: Tensor) -> None:
        """Rows [T, N, ...] from the present slot on."""
        at = self._time % self._slots
        fits = min(len(rows), self._slots - at)
        ring[at : at + fits].copy_(rows[:fits])
        if fits < len(rows):
            ring[: len(rows) - fits].copy_(rows[fits:])

    def _goes_on(self, kept: dict[Key, Tensor], last: Mapping[Key, Any], valid: Tensor, done: Tensor) -> Tensor:
        """bool [N]: the first frame is what followed the newest step."""
        at, before = self._time % self._slots, (self._time - 1) % self._slots
        same = ~(self._done[before] & valid[:, 0])
        for key in last:
            pending, first = self._ring[key][at], kept[key][:, 0].to(self.storage)
            bits = _BITS[pending.element_size()]
            same &= (pending.contiguous().view(bits) == first.contiguous().view(bits)).reshape(self._number, -1).all(1)
        return same

    def _forget(self, length: int) -> None:
        """Frames whose slots are needed leave the list."""
        oldest = max(0, self._time - self._slots + 1)  # the slot after the newest holds the pending observation
        gone = max(0, self._time + length - self._slots + 1)
        for time in _runs(oldest, gone, self._slots):
            self._head += self._listed[time].sum()
            self._listed[time] = False

    def _list(self, length: int, same: Tensor) -> None:
        """Adds to the list the newest step of the batches before and all but the newest of this one."""
        first = max(self._time - 1, 0)
        times = torch.arange(first, self._time + length - 1, device=self.storage)
        slots = times % self._slots
        drawable = self._valid[slots]
        if self._time:
            drawable[0] &= same
        self._listed[slots] = drawable
        frames = times.unsqueeze(1) * self._number + torch.arange(self._number, device=self.storage)
        drawable, frames = drawable.flatten(), frames.flatten()
        count = drawable.cumsum(0)
        place = torch.where(drawable, (self._tail + count - 1) % self._places, self._places)
        self._frames[place] = frames
        if self._priority is not None:
            self._priority[place] = self._largest ** self.sampler.alpha  # type: ignore[attr-defined]
        if len(count):
            self._tail += count[-1]

    # drawing

    def sample(self, batch_size: int, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """See `ReplayBuffer`."""
        drawn, weight = self._draw(batch_size)
        return self._transitions(drawn, n_step, gamma, weight)

    def get(self, index: Tensor | np.ndarray, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """See `ReplayBuffer`; numbers that have left are not noticed."""
        self._check_ready()
        return self._transitions(torch.as_tensor(index).to(self.storage), n_step, gamma, None)

    def _transitions(self, drawn: Tensor, n_step: int, gamma: float, weight: Tensor | None) -> TensorDict:
        if n_step < 1:
            raise ValueError(f"n_step is {n_step}: take 1 or more")
        time, env = self._locate(drawn)
        tensors = {key: ring[time % self._slots, env] for key, ring in self._ring.items()}
        last, alive = time, torch.ones_like(time, dtype=torch.bool)
        for k in range(1, n_step):
            alive = alive & self._follows(last, env)
            last = last + alive
            reward = self._ring["reward",][last % self._slots, env]
            more = alive.view(-1, *[1] * (reward.ndim - 1))
            tensors["reward",] = tensors["reward",] + torch.where(more, reward * gamma**k, 0)
        slot = last % self._slots
        for key in _ENDS:
            if key in self._ring and n_step > 1:
                tensors[key] = self._ring[key][slot, env]
        for name, spec in self._schema.specs.items():
            if spec.next_key is not None:
                tensors[spec.next_key] = self._ring[name][(last + 1) % self._slots, env]
        ended = self._ring.get(("terminated",), self._done)[slot, env].reshape(-1) != 0
        tensors["discount",] = torch.where(ended, 0.0, gamma ** (last - time + 1).to(torch.float32))
        tensors["index",] = drawn
        if weight is not None:
            tensors["weight",] = weight
        return self._batch(tensors, drawn.shape)

    def sample_slices(self, batch_size: int, length: int, burn_in: int = 0) -> TensorDict:
        """See `ReplayBuffer`."""
        if length < 1 or burn_in < 0:
            raise ValueError(f"length is {length} and burn_in {burn_in}: take at least 1 and 0")
        drawn, weight = self._draw(batch_size)
        time, env = self._locate(drawn)
        width = burn_in + length
        times = time.unsqueeze(1) + torch.arange(-burn_in, length, device=self.storage)
        mask = torch.zeros(batch_size, width, dtype=torch.bool, device=self.storage)
        mask[:, burn_in] = True
        for k in range(burn_in + 1, width):
            mask[:, k] = mask[:, k - 1] & self._follows(times[:, k - 1], env)
        for k in range(burn_in - 1, -1, -1):
            there = times[:, k] >= max(0, self._time - self._slots + 1)
            mask[:, k] = mask[:, k + 1] & there & self._listed[times[:, k] % self._slots, env] & self._follows(times[:, k], env)
        envs = env.unsqueeze(1).expand_as(times)
        tensors = {}
        for key, spec in self._schema.specs.items():
            for name, at in ((key, times), (spec.next_key, times + 1)):
                if name is not None:
                    value = self._ring[key][at % self._slots, envs]
                    tensors[name] = torch.where(mask.view(*mask.shape, *[1] * (value.ndim - 2)), value, torch.zeros_like(value[:1, :1]))
        tensors["mask",] = mask
        if weight is not None:
            tensors["weight",] = weight.unsqueeze(1).expand_as(mask)
        return self._batch(tensors, times.shape)

    def sample_episodes(self, k: int) -> TensorDict:
        """Not on a device: how long they are is not known without waiting for it."""
        raise NotImplementedError("whole episodes are drawn from storage='cpu'; a ring on a device gives sample and sample_slices")

    def update_priority(self, index: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """See `ReplayBuffer`."""
        if self._priority is None or not isinstance(self.sampler, PrioritizedSampler):
            raise TypeError("this buffer has no priorities: build it with sampler='prioritized'")
        index = torch.as_tensor(index).to(self.storage).flatten()
        value = torch.as_tensor(priority).to(self.storage).flatten().to(torch.float64).abs().nan_to_num() + self.sampler.eps
        there = (index >= self._head) & (index < self._tail)
        self._priority[torch.where(there, index % self._places, self._places)] = value**self.sampler.alpha
        self._largest = torch.maximum(self._largest, torch.where(there, value, 0).max())

    def _draw(self, number: int) -> tuple[Tensor, Tensor | None]:
        self._check_ready()
        if number < 1:
            raise ValueError(f"a batch of {number}: take at least 1")
        chance = torch.rand(number, generator=self._rng, device=self.storage, dtype=torch.float64)
        count = self._tail - self._head
        if self._priority is None or not isinstance(self.sampler, PrioritizedSampler):
            return self._head + torch.minimum((chance * count).long(), (count - 1).clamp_min(0)), None
        # One pass over all priorities a draw: 1e6 of them take a GPU some tens of microseconds, and nothing waits.
        place = torch.arange(self._places, device=self.storage)
        live = (place - self._head) % self._places < count
        value = torch.where(live, self._priority[:-1], 0)
        running = value.cumsum(0)
        total = running[-1]
        found = torch.searchsorted(running, chance * total, right=True).clamp_max(self._places - 1)
        least = torch.where(live, value, torch.inf).min()
        weight = (value[found] / least) ** -self.sampler.beta
        return self._head + (found - self._head) % self._places, weight.to(torch.float32)

    def _locate(self, drawn: Tensor) -> tuple[Tensor, Tensor]:
        frame = self._frames[drawn % self._places]
        return frame // self._number, frame % self._number

    def _follows(self, time: Tensor, env: Tensor) -> Tensor:
        """Whether the step after `time` belongs to the same episode and may be drawn."""
        return ~self._done[time % self._slots, env] & self._listed[(time + 1) % self._slots, env] & (time + 1 < self._time)

    def _batch(self, tensors: dict[Key, Tensor], batch_size: torch.Size) -> TensorDict:
        batch = TensorDict({}, batch_size=batch_size, device=self.storage)
        for key, tensor in tensors.items():
            batch.set(key, tensor)
        return batch if self.device == self.storage else batch.to(self.device)

    # facts and keeping

    def __len__(self) -> int:
        return int(self._tail - self._head) if self._ring else 0

    @property
    def nbytes(self) -> int:
        """Memory of the ring on the device."""
        return sum(t.nbytes for t in self._tensors().values())

    def stats(self) -> dict[str, Any]:
        """Steps, frames and bytes."""
        frames = min(self._time, max(0, self._slots - 1)) * self._number
        ever = int(self._tail) if self._ring else 0
        return {"steps": len(self), "steps_ever": ever, "rows": frames, "nbytes": self.nbytes, "columns": {}}

    def state_dict(self) -> dict[str, Any]:
        """Everything, as copies of the tensors."""
        state: dict[str, Any] = {name: tensor.clone() for name, tensor in self._tensors().items()}
        return state | {"time": self._time, "schema": self._schema.describe(), "rng": self._rng.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        self._schema.specs = {}
        self._schema.restore(state["schema"])
        self._ring, self._time = {}, int(state["time"])
        if self._time:
            valid = state["valid"]
            number = valid.shape[1]
            kept = {k: torch.empty(number, 1, *s.shape, dtype=s.torch_dtype) for k, s in self._schema.specs.items()}
            self._allocate(kept, {}, number, None)
            for name, tensor in self._tensors().items():
                if tensor.shape != state[name].shape:
                    saved, mine = list(valid.shape), list(self._valid.shape)
                    raise ValueError(f"the saved ring is {saved}, this one {mine}: give it the same capacity and sampler")
                tensor.copy_(state[name])
        self._rng.set_state(state["rng"].cpu())

    def save(self, folder: str | Path) -> None:
        """Saves the ring in one file, whole or not at all; unlike storage="cpu", all of it each time."""
        state = self.state_dict()
        writer = RecordWriter()
        writer.add_json("head", {"time": state["time"], "schema": state["schema"]})
        for name, value in state.items():
            if isinstance(value, Tensor):
                writer.add_array(name, as_array((name,), value)[0])
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_whole(Path(folder) / "ring.slip", writer.end())

    def load(self, folder: str | Path, recover: bool = False) -> Self:
        """Takes over what `save` wrote."""
        path = Path(folder) / "ring.slip"
        state: dict[str, Any] = {}
        for record in read_records(np.fromfile(path, np.uint8), str(path)):
            named = array_of(record)
            state |= {named[0]: torch.from_numpy(named[1])} if named is not None else json_of(record)
        for described in state["schema"]:  # dtypes NumPy does not have were written as their bits
            name = "ring/" + "/".join(described["key"])
            state[name] = state[name].view(getattr(torch, described["torch_dtype"]))
        self.load_state_dict(state)
        return self

    def close(self) -> None:
        """Lets the memory go."""
        self._closed = True
        for prefetcher in self._prefetchers:
            prefetcher.close()
        self._ring = {}

    def _tensors(self) -> dict[str, Tensor]:
        if not self._ring:
            return {}
        own = {"done": self._done, "valid": self._valid, "listed": self._listed, "frames": self._frames, "head": self._head}
        own |= {"tail": self._tail, "largest": self._largest} | ({} if self._priority is None else {"priority": self._priority})
        return {"ring/" + "/".join(key): ring for key, ring in self._ring.items()} | own

    def _check_ready(self) -> None:
        self._check_open()
        if self._time < 2:
            raise ValueError("the replay buffer is empty: add to it before drawing")


def _shapes(kept: Mapping[Key, Tensor]) -> tuple[dict[Key, np.ndarray], dict[Key, torch.dtype]]:
    """One empty row of each key, for the schema: nothing is read from the device."""
    rows = {key: as_array(key, torch.empty(1, *value.shape[2:], dtype=value.dtype)) for key, value in kept.items()}
    return {key: array for key, (array, _) in rows.items()}, {key: dtype for key, (_, dtype) in rows.items()}


def _check_view(key: Key, now: Tensor, after: Tensor, valid: Tensor) -> None:
    """The successor must be the frame one row on. A view of the same memory is; a copy is compared, for which the host waits."""
    step = now.stride(1) * now.element_size()
    if now.shape[1] == 1 or (after.data_ptr() == now.data_ptr() + step and after.stride() == now.stride()):
        return
    bits = _BITS[now.element_size()]
    other = after[:, :-1].contiguous().view(bits) != now[:, 1:].contiguous().view(bits)
    if bool((other.reshape(*other.shape[:2], -1).any(2) & valid[:, :-1].to(other.device)).any()):
        raise ValueError(
            f"{show(('next', *key))} is not {show(key)} one step on: storage on a device takes batches whose environments reset on the "
            "step after an end (valid=False); use storage='cpu' for others"
        )


def _runs(start: int, stop: int, slots: int) -> Iterable[slice]:
    """Times [start, stop) as slices of slots."""
    while start < stop:
        at = start % slots
        n = min(stop - start, slots - at)
        yield slice(at, at + n)
        start += n
