"""Storage on a device: a raw ring beside the environments, added to and drawn from without the host waiting for the device.

The frames, and which of them may be drawn, are in device_frames.py; here they become what `ReplayBuffer` promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.device.frames import BITS, Batch, FrameRing, Turns
from slipstream.replay.index.episodes import DONE, TERMINATED, read_episode
from slipstream.replay.index.streams import NOT_KEPT
from slipstream.replay.sampling.prefetch import Prefetcher
from slipstream.replay.sampling.prioritized import PrioritizedSampler
from slipstream.replay.sampling.samplers import Sampler, UniformSampler, sampler_from
from slipstream.storage.files import write_file
from slipstream.storage.records import RecordWriter, array_of, json_of, read_records
from slipstream.storage.schema import Key, Schema, as_array, flatten, show

_ENDS = (("terminated",), ("truncated",), ("done",))


class DeviceReplayBuffer(ReplayBuffer):
    """`ReplayBuffer(..., storage="cuda")`. Draws uniformly or by priority; episodes cannot be drawn whole.

    It takes the batches of one collector (N fixed), whose `next` is a view one row on, or whole episodes (N = 1), not both.
    `len()` and `stats()` ask the device and so wait for it. A draw waits only where no step is known to be there, to raise if none
    is: at the first one, and where the device is most of a ring behind the host. Threads may add and draw at once, each on its stream.
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
        if (capacity if capacity is not None else capacity_bytes or 0) < 1:
            raise ValueError("the capacity must be at least 1")
        if ragged:
            raise ValueError("storage on a device takes padded arrays only: pad them, or use storage='cpu'")
        self._capacity, self._capacity_bytes = capacity, capacity_bytes
        self.storage = torch.device(storage)
        self.device = (
            self.storage if device is None or torch.device(device).type == self.storage.type else torch.device(device)
        )
        self.sampler = sampler_from(sampler)
        if type(self.sampler) not in (UniformSampler, PrioritizedSampler):
            raise ValueError(
                f"storage on a device draws uniformly or by priority; for {type(self.sampler).__name__} use storage='cpu'"
            )
        self._rng = torch.Generator(self.storage).manual_seed(seed)
        self._keys = None if keys is None else set(keys)
        self._schema = Schema()
        self._frames: FrameRing | None = None  # from the first data on
        self._turns = Turns(self.storage)
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
        keys = self._keys
        kept = {
            k: v
            for k, v in flat.items()
            if k[0] != "next" and (k[0] in keys if keys is not None else k[0] not in NOT_KEPT)
        }
        nexts = {k: flat["next", *k] for k in kept if ("next", *k) in flat}
        if not nexts:
            raise KeyError(
                'the batch has no ("next", "observation", name): extend needs the observation that followed each step'
            )
        shape = next(iter(kept.values())).shape[:2]
        valid = flat["valid",] if ("valid",) in flat else torch.ones(shape, dtype=torch.bool, device=self.storage)
        for key, after in nexts.items():
            _check_view(key, kept[key], after, valid)
        done, terminated = self._ends(flat, shape)
        rows = Batch(
            kept, {key: after[:, -1] for key, after in nexts.items()}, valid.to(self.storage), done, terminated
        )
        with self._turns.writing():
            schema = self._schema if self._frames is not None else Schema()
            if not schema.specs:
                schema.fix(*_shapes(kept), {key: ("next", *key) for key in nexts})
            self._write(rows, schema)

    def _ends(self, flat: Mapping[Key, Any], shape: torch.Size) -> tuple[Tensor, Tensor]:
        """(done, terminated), bool [N, T]; `done` alone counts as terminated."""
        done, terminated = (torch.zeros(shape, dtype=torch.bool, device=self.storage) for _ in range(2))
        given = [name for (name,) in _ENDS if (name,) in flat]
        for name in given:
            over = flat[name,].to(self.storage).reshape(shape) != 0
            done |= over
            if name == "terminated" or given == ["done"]:
                terminated |= over
        return done, terminated

    def add(self, episode: Mapping[Any, Any]) -> None:
        """See `ReplayBuffer`."""
        self._check_open()
        with self._turns.writing():
            schema = self._schema if self._frames is not None else Schema()
            rows = read_episode(episode, schema, self._keys)
            total = int(rows.rows.sum())
            if self._capacity is not None and total > self._capacity:
                raise ValueError(f"an episode of {total} frames does not fit a capacity of {self._capacity}: raise it")
            valid = np.ones(total, bool)
            valid[np.cumsum(rows.rows)[rows.rows > rows.steps] - 1] = False  # final observations
            kept = {}
            for key, parts in rows.parts.items():
                kept[key] = self._one(np.concatenate(parts)).view(schema.specs[key].torch_dtype)
            last = {key: kept[key][:, -1] for key, spec in schema.specs.items() if spec.next_key is not None}
            done, terminated = (self._one((rows.ends & flag) != 0) for flag in (DONE, TERMINATED))
            self._write(Batch(kept, last, self._one(valid), done, terminated), schema)

    def _one(self, rows: np.ndarray) -> Tensor:
        """Rows of a single environment, [1, T, ...]."""
        return torch.from_numpy(rows).to(self.storage).unsqueeze(0)

    def _write(self, rows: Batch, schema: Schema) -> None:
        schema.check(*_shapes(rows.kept))
        for key, spec in schema.specs.items():
            if spec.next_key is not None and key not in rows.last:
                raise KeyError(
                    f"{show(spec.next_key)} is missing: the first data gave the observation that follows each {show(key)}"
                )
        frames = self._frames if self._frames is not None else self._ring_for(rows.kept, len(rows.valid))
        rows.last = {key: value for key, value in rows.last.items() if schema.specs[key].next_key is not None}
        frames.write(rows, self._alpha)
        self._frames, self._schema = frames, schema

    def _ring_for(self, kept: Mapping[Key, Tensor], number: int) -> FrameRing:
        prioritized = isinstance(self.sampler, PrioritizedSampler)
        slots = FrameRing.slots_for(kept, number, self._capacity, self._capacity_bytes, prioritized)
        return FrameRing(kept, number, slots, self.storage, prioritized)

    @property
    def _alpha(self) -> float:
        return self.sampler.alpha if isinstance(self.sampler, PrioritizedSampler) else 0.0

    # drawing

    def sample(self, batch_size: int, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """See `ReplayBuffer`."""
        with self._turns.drawing():
            frames, drawn, weight = self._draw(batch_size)
            tensors = self._transitions(frames, drawn, n_step, gamma)
        return self._batch(tensors, drawn.shape, weight)

    def get(self, index: Tensor | np.ndarray, n_step: int = 1, gamma: float = 0.99) -> TensorDict:
        """See `ReplayBuffer`; numbers that have left are not noticed."""
        with self._turns.drawing():
            drawn = torch.as_tensor(index).to(self.storage)
            tensors = self._transitions(self._filled(), drawn, n_step, gamma)
        return self._batch(tensors, drawn.shape, None)

    def _transitions(self, frames: FrameRing, drawn: Tensor, n_step: int, gamma: float) -> dict[Key, Tensor]:
        if n_step < 1:
            raise ValueError(f"n_step is {n_step}: take 1 or more")
        time, env = frames.locate(drawn)
        tensors = {key: frames.read(key, time, env) for key in frames.columns}
        last = time
        if n_step > 1:
            tensors["reward",], last = self._n_steps(frames, time, env, n_step, gamma)
            tensors |= {key: frames.read(key, last, env) for key in _ENDS if key in frames.columns}
        for key, spec in self._schema.specs.items():
            if spec.next_key is not None:
                tensors[spec.next_key] = frames.read(key, last + 1, env)
        ended = frames.terminated[last % frames.slots, env]
        tensors["discount",] = torch.where(ended, 0.0, gamma ** (last - time + 1).to(torch.float32))
        tensors["index",] = drawn
        return tensors

    def _n_steps(
        self, frames: FrameRing, time: Tensor, env: Tensor, n_step: int, gamma: float
    ) -> tuple[Tensor, Tensor]:
        """(discounted sums of rewards, times of the last steps summed)."""
        if ("reward",) not in frames.columns:
            raise KeyError("n_step > 1 sums the key 'reward', which this buffer does not have")
        total = frames.read(("reward",), time, env)
        if not total.is_floating_point():
            total = total.to(torch.float32)
        last, alive = time, torch.ones_like(time, dtype=torch.bool)
        for k in range(1, n_step):
            alive = alive & frames.follows(last, env)
            last = last + alive
            more = frames.read(("reward",), last, env).to(total.dtype) * gamma**k
            total = total + torch.where(alive.view(-1, *[1] * (more.ndim - 1)), more, 0)
        return total, last

    def sample_slices(self, batch_size: int, length: int, burn_in: int = 0) -> TensorDict:
        """See `ReplayBuffer`."""
        if length < 1 or burn_in < 0:
            raise ValueError(f"length is {length} and burn_in {burn_in}: take at least 1 and 0")
        with self._turns.drawing():
            frames, drawn, weight = self._draw(batch_size)
            time, env = frames.locate(drawn)
            times = time.unsqueeze(1) + torch.arange(-burn_in, length, device=self.storage)
            envs = env.unsqueeze(1).expand_as(times)
            numbers, follows = frames.number_at(times, envs), frames.follows(times, envs)
            mask = torch.ones_like(follows)
            for k in range(burn_in + 1, burn_in + length):
                mask[:, k] = mask[:, k - 1] & follows[:, k - 1]
            for k in range(burn_in - 1, -1, -1):
                mask[:, k] = mask[:, k + 1] & (numbers[:, k] >= 0) & follows[:, k]
            tensors = {}
            for key, spec in self._schema.specs.items():
                for name, at in ((key, times), (spec.next_key, times + 1)):
                    if name is not None:
                        value = frames.read(key, at, envs)
                        tensors[name] = torch.where(
                            mask.view(*mask.shape, *[1] * (value.ndim - 2)), value, torch.zeros_like(value[:1, :1])
                        )
            tensors["index",], tensors["mask",] = torch.where(mask, numbers, -1), mask
        return self._batch(tensors, times.shape, None if weight is None else weight.unsqueeze(1).expand_as(mask))

    def sample_episodes(self, k: int) -> TensorDict:
        """Not on a device: how long they are is not known without waiting for it."""
        raise NotImplementedError(
            "whole episodes are drawn from storage='cpu'; a ring on a device gives sample and sample_slices"
        )

    def update_priority(self, index: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """See `ReplayBuffer`; priorities that are not finite are passed over."""
        if not isinstance(self.sampler, PrioritizedSampler):
            raise TypeError("this buffer has no priorities: build it with sampler='prioritized'")
        with self._turns.writing():
            steps, values = (torch.as_tensor(x).detach().to(self.storage).flatten() for x in (index, priority))
            if steps.shape != values.shape:
                raise ValueError(f"{list(steps.shape)} steps and {list(values.shape)} priorities: give one for each")
            if len(steps):
                self._filled().prioritize(steps, values.to(torch.float64).abs() + self.sampler.eps, self.sampler.alpha)

    def _draw(self, number: int) -> tuple[FrameRing, Tensor, Tensor | None]:
        if number < 1:
            raise ValueError(f"a batch of {number}: take at least 1")
        frames = self._filled()
        beta = self.sampler.beta if isinstance(self.sampler, PrioritizedSampler) else 0.0
        return frames, *frames.draw(number, self._rng, beta)

    def _filled(self) -> FrameRing:
        self._check_open()
        if self._frames is None or not self._frames.some():
            raise ValueError("the replay buffer is empty: add to it before drawing")
        return self._frames

    def _batch(self, tensors: dict[Key, Tensor], batch_size: torch.Size, weight: Tensor | None) -> TensorDict:
        batch = TensorDict({}, batch_size=batch_size, device=self.storage)
        for key, tensor in tensors.items():
            batch.set(key, tensor)
        if weight is not None:
            batch.set("weight", weight)
        return batch if self.device == self.storage else batch.to(self.device)

    # facts and keeping

    def __len__(self) -> int:
        with self._turns.drawing():
            return int(self._frames.tail - self._frames.head) if self._frames is not None else 0

    @property
    def nbytes(self) -> int:
        """Memory of the ring on the device."""
        return 0 if self._frames is None else sum(tensor.nbytes for tensor in self._frames.tensors().values())

    @property
    def host_bytes(self) -> int:
        """None: the ring lies on the device, taken at once."""
        return 0

    def stats(self) -> dict[str, Any]:
        """Steps, frames and bytes."""
        with self._turns.drawing():
            frames = self._frames
            head, tail, rows = 0, 0, 0
            if frames is not None:
                head, tail, rows = (
                    int(frames.head),
                    int(frames.tail),
                    min(frames.time, frames.slots - 1) * frames.number,
                )
        return {"steps": tail - head, "steps_ever": tail, "rows": rows, "nbytes": self.nbytes, "columns": {}}

    def state_dict(self) -> dict[str, Any]:
        """Everything, as copies of the tensors."""
        with self._turns.drawing():
            frames = self._frames
            state: dict[str, Any] = (
                {} if frames is None else {name: tensor.clone() for name, tensor in frames.tensors().items()}
            )
            state |= {
                "time": 0 if frames is None else frames.time,
                "schema": self._schema.describe(),
                "rng": self._rng.get_state(),
            }
        state["sampler"] = {"kind": type(self.sampler).__name__}
        if isinstance(self.sampler, PrioritizedSampler):
            state["sampler"] |= {"alpha": self.sampler.alpha, "beta": self.sampler.beta, "eps": self.sampler.eps}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state_dict` gave, in place of what is here."""
        self._check_open()
        kind = type(self.sampler).__name__
        if state["sampler"]["kind"] != kind:
            raise ValueError(
                f"the state is of a {state['sampler']['kind']}, this buffer has a {kind}: build it with that sampler"
            )
        schema, frames = Schema(), None
        schema.restore(state["schema"])
        with self._turns.writing():
            if state["time"]:
                number = state["valid"].shape[1]
                frames = self._ring_for(
                    {k: torch.empty(number, 1, *s.shape, dtype=s.torch_dtype) for k, s in schema.specs.items()}, number
                )
                frames.fill(state, int(state["time"]))
            self._let_go()
            self._schema, self._frames = schema, frames
            self._rng.set_state(state["rng"].cpu())
        for name in state["sampler"].keys() - {"kind"}:
            setattr(self.sampler, name, state["sampler"][name])

    def save(self, folder: str | Path) -> None:
        """Saves the ring in one file, whole or not at all; unlike storage="cpu", all of it each time."""
        state = self.state_dict()
        writer = RecordWriter()
        writer.add_json("head", {name: value for name, value in state.items() if not isinstance(value, Tensor)})
        for name, value in state.items():
            if isinstance(value, Tensor):
                writer.add_array(name, as_array((name,), value)[0])
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_file(Path(folder) / "ring.slip", writer.end())

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
        with self._turns.writing():
            self._let_go()

    def _let_go(self) -> None:
        """In a writing turn: this stream has waited for all others, so memory that is free after it is free for all."""
        if self._frames is not None and self.storage.type == "cuda":
            for tensor in self._frames.tensors().values():
                tensor.record_stream(torch.cuda.current_stream(self.storage))
        self._frames = None


def _shapes(kept: Mapping[Key, Tensor]) -> tuple[dict[Key, np.ndarray], dict[Key, torch.dtype]]:
    """One empty row of each key, for the schema: nothing is read from the device."""
    rows = {key: as_array(key, torch.empty(1, *value.shape[2:], dtype=value.dtype)) for key, value in kept.items()}
    return {key: array for key, (array, _) in rows.items()}, {key: dtype for key, (_, dtype) in rows.items()}


def _check_view(key: Key, now: Tensor, after: Tensor, valid: Tensor) -> None:
    """The successor must be the frame one row on. A view of the same memory is; a copy is compared, for which the host waits."""
    step = now.stride(1) * now.element_size()
    if now.shape[1] == 1 or (after.data_ptr() == now.data_ptr() + step and after.stride() == now.stride()):
        return
    bits = BITS[now.element_size()]
    other = after[:, :-1].contiguous().view(bits) != now[:, 1:].contiguous().view(bits)
    if bool((other.reshape(*other.shape[:2], -1).any(2) & valid[:, :-1].to(other.device)).any()):
        raise ValueError(
            f"{show(('next', *key))} is not {show(key)} one step on: storage on a device takes batches whose environments reset on the "
            "step after an end (valid=False); use storage='cpu' for others"
        )
