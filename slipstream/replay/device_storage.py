"""The storage of a replay buffer on a device: a raw ring beside the environments; the host does not wait for it.

Frames are [slots, N, ...], time-major. Frame t of an environment is in slot t % slots, its successor in the next slot.
The slot after the newest frame holds the pending observation. A list gives steps their numbers: step s is the frame in
place s % places, for head <= s < tail, and head and tail are counters on the device. So sampling is one look-up,
whatever was invalid or evicted.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.host_storage import Settings
from slipstream.replay.persistence import KIND
from slipstream.replay.rows import is_shifted_view, make_batch, split_batch
from slipstream.replay.samplers import PrioritizedSampler, Sampler, UniformSampler
from slipstream.sim.random import restore_generator
from slipstream.storage.episodes import END_KEYS, REWARD, VALID, find_ends, same_bits
from slipstream.storage.files import atomic_file, prepare_folder
from slipstream.storage.schema import Key, Schema, show
from slipstream.storage.tensor_file import Reader, TensorFile, TensorFileWriter, shorten
from slipstream.storage.tree import load_state, store_state

RING_FILE = "ring.slip"
_OTHER_RESETS = (
    "storage on a device takes batches whose environments reset on the step after an end (valid=False); "
    "use storage='cpu' for others"
)


class FrameRing:
    """The tensors. Calls must not overlap: see `DeviceStorage._turn`."""

    def __init__(
        self, kept: Mapping[Key, Tensor], number: int, slots: int, device: torch.device, prioritized: bool
    ) -> None:
        self.number, self.slots = number, slots
        self.time = self._begin = 0  # frames ever written of each environment, and at the last load
        self._device = device
        self._places = slots * number
        self.columns = {
            k: torch.zeros(slots, number, *v.shape[2:], dtype=v.dtype, device=device) for k, v in kept.items()
        }
        self.flags = torch.zeros(3, slots, number, dtype=torch.bool, device=device)
        # not valid: a final observation only; terminated: no value follows this step
        self.valid, self.done, self.terminated = self.flags
        self.step = torch.full((slots, number), -1, device=device)  # number of each frame's step; -1: it is not listed
        # t * N + n of each step; one place more, for the unlisted
        self._frames = torch.zeros(self._places + 1, dtype=torch.int64, device=device)
        self.head, self.tail = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))
        self._largest = torch.ones((), dtype=torch.float64, device=device)  # priority, not yet to the power of alpha
        self._priority = torch.zeros(self._places + 1, dtype=torch.float64, device=device) if prioritized else None
        self._least = 0  # steps that are listed at least, as far as the host knows
        # whether an end was lost at a reset, and what the host knows of it, some calls later on a GPU
        self.lost = torch.zeros((), dtype=torch.bool, device=device)
        self._known_lost = self.lost.cpu().pin_memory() if self.lost.is_cuda else self.lost

    @staticmethod
    def slots_for(
        kept: Mapping[Key, Tensor], number: int, steps: int | None, nbytes: int | None, prioritized: bool
    ) -> int:
        """Return slots for at most `steps` steps, or `nbytes` of memory: two more than are drawn, the newest frame and
        the pending one."""
        if steps is not None:
            if steps < number:
                raise ValueError(
                    f"a capacity of {steps} is less than a step of each of {number} environments: give at least {number}"
                )
            return steps // number + 2
        row = sum(v.element_size() * v[:1, :1].numel() for v in kept.values()) + 3 + 8 + 8 + 8 * prioritized
        fixed = 8 * (3 + 1 + prioritized)  # counters, and the places more
        slots = ((nbytes or 0) - fixed) // (row * number)
        if slots < 3:
            needed = 3 * row * number + fixed
            raise ValueError(f"capacity_bytes={nbytes} holds no step of {number} environments: give at least {needed}")
        return slots

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        tensors = {"ring/" + "/".join(key): column for key, column in self.columns.items()}
        tensors |= {"flags": self.flags, "step": self.step, "frames": self._frames}
        tensors |= {"head": self.head, "tail": self.tail, "largest": self._largest}
        return tensors if self._priority is None else tensors | {"priority": self._priority}

    def fill(self, tensors: Mapping[str, Tensor], time: int) -> None:
        """Load what `tensors` returned at `time`."""
        for name, tensor in self.tensors().items():
            saved = tensors.get(name)
            if not isinstance(saved, Tensor) or (tensor.shape, tensor.dtype) != (saved.shape, saved.dtype):
                held = list(saved.shape) if isinstance(saved, Tensor) else None
                raise ValueError(
                    f"{name} of the saved ring is {held}, of this one {list(tensor.shape)}: give it the same capacity, "
                    "keys and sampler"
                )
            tensor.copy_(saved)
        if not 0 <= int(self.head) <= int(self.tail) <= int(self.head) + self._places or not 0 < time < 2**62:
            raise ValueError(f"the saved ring has steps {int(self.head)} to {int(self.tail)}: it is damaged")
        for values in (self._largest, *([] if self._priority is None else [self._priority])):
            if not bool(((values >= 0) & (values < torch.inf)).all()):  # NaN too: a draw by it would end a CUDA process
                raise ValueError("the saved ring has a priority that is negative, NaN or infinite: it is damaged")
        self.time = self._begin = time
        self._least = 0

    # writing

    def write(self, kept: Mapping[Key, Tensor], last: Mapping[Key, Tensor], flags: Tensor, alpha: float) -> None:
        """Add frames [N, T, ...]; the newest one of each environment is listed with the next batch, if it continues.

        Args:
            kept: the frames.
            last: [N, ...] observations after the last frame.
            flags: bool [3, N, T]: valid, done, terminated.
            alpha: exponent of the priorities.
        """
        number, length = flags.shape[1:]
        if number != self.number or length >= self.slots:
            fits = f"[{self.number}, {self.slots - 1}]"
            raise ValueError(
                f"a batch of [{number}, {length}] does not fit a ring of {fits}: take shorter ones, or raise the capacity"
            )
        continued = self._continues(kept, last)
        if self.time > self._begin:  # after a load they may begin anew
            self._refuse_lost_ends(continued)
        self._evict(length)
        for key, value in kept.items():
            self._copy(self.columns[key], value)
        for column, value in zip(self.flags, flags, strict=True):
            self._copy(column, value)
        for key, value in last.items():
            self.columns[key][(self.time + length) % self.slots].copy_(value)
        self._list(length, continued, alpha)
        self.time += length

    def _copy(self, column: Tensor, rows: Tensor) -> None:
        """Write rows [N, T, ...] from the present slot on."""
        rows = rows.transpose(0, 1)
        at = self.time % self.slots
        fits = min(len(rows), self.slots - at)
        column[at : at + fits].copy_(rows[:fits])
        if fits < len(rows):
            column[: len(rows) - fits].copy_(rows[fits:])

    def _continues(self, kept: Mapping[Key, Tensor], last: Mapping[Key, Tensor]) -> Tensor:
        """Return bool [N]: the first frame is the one after the newest step."""
        at = self.time % self.slots
        same = [same_bits(self.columns[key][at], kept[key][:, 0].to(self._device), 1) for key in last]
        return functools.reduce(torch.logical_and, same)

    def _refuse_lost_ends(self, continued: Tensor) -> None:
        """Raise if environments that do not continue lose ends: they reset in the same step. If others lose a step too,
        all began anew.

        A GPU is not waited for: a later call raises, as soon as the host knows.
        """
        done = self.done[(self.time - 1) % self.slots]
        self.lost |= (continued | done).all() > continued.all()
        if self.lost.is_cuda:
            self._known_lost.copy_(self.lost, non_blocking=True)
        self.check()

    def check(self) -> None:
        """Raise if an end was lost, as far as the host knows."""
        if self._known_lost:
            for flag in (self.lost, self._known_lost):
                flag.zero_()
            raise ValueError(f"an environment reset in the same step in which its episode ended: {_OTHER_RESETS}")

    def _oldest(self, time: int) -> int:
        """Return the oldest frame that is held when `time` have been written."""
        return max(0, time - self.slots + 1)

    def _evict(self, length: int) -> None:
        """Remove the frames whose slots are needed from the list."""
        start, stop = self._oldest(self.time), self._oldest(self.time + length)
        self._least -= (stop - start) * self.number
        while start < stop:
            at = start % self.slots
            run = slice(at, min(at + stop - start, self.slots))
            self.head += (self.step[run] >= 0).sum()
            self.step[run] = -1
            start += run.stop - run.start

    def _list(self, length: int, continued: Tensor, alpha: float) -> None:
        """Add to the list the newest frame of the batches before, if it is still held, and all but the newest of this
        one."""
        newest = self.time - 1
        first = max(newest, self._oldest(self.time + length))
        times = torch.arange(first, self.time + length - 1, device=self._device)
        slots = times % self.slots
        listed = self.valid[slots]
        if first == newest:
            listed[0] &= continued
        frames = times.unsqueeze(1) * self.number + torch.arange(self.number, device=self._device)
        count = listed.flatten().cumsum(0)
        if not len(count):
            return
        steps = torch.where(listed.flatten(), self.tail + count - 1, -1)
        self.step[slots] = steps.view_as(listed)
        place = torch.where(listed.flatten(), steps % self._places, self._places)
        self._frames[place] = frames.flatten()
        if self._priority is not None:
            self._priority[place] = self._largest**alpha
        self.tail += count[-1]

    # drawing

    def has_steps(self) -> bool:
        """Return whether any step is listed.

        Waits for the device where all steps that the host knows of may have left: at the first draw, and once for as
        many frames as the ring holds.
        """
        self.check()
        if self._least <= 0:
            self._least = int(self.tail - self.head)
            self.check()
        return self._least > 0

    def draw(self, number: int, rng: torch.Generator, beta: float) -> tuple[Tensor, Tensor | None]:
        """Return (steps int64 [number], weights float32 [number] or None); some must be listed."""
        chance = torch.rand(number, generator=rng, device=self._device, dtype=torch.float64)
        count = self.tail - self.head
        if self._priority is None:
            return self.head + torch.minimum((chance * count).long(), count - 1), None
        # One pass over all priorities per draw: 1e6 of them take a GPU some tens of microseconds, and nothing waits.
        place = torch.arange(self._places, device=self._device)
        live = (place - self.head) % self._places < count
        value = torch.where(live, self._priority[:-1], 0)
        running = value.cumsum(0)
        found = torch.searchsorted(running, chance * running[-1], right=True).clamp_max(self._places - 1)
        # a GPU's running sums are not quite monotone: between two of them a place without a priority may be found
        found = torch.where(value[found] > 0, found, value.argmax())
        least = torch.where(live, value, torch.inf).min()
        weight = (value[found] / least) ** -beta
        return self.head + (found - self.head) % self._places, weight.to(torch.float32)

    def prioritize(self, steps: Tensor, priority: Tensor, alpha: float) -> None:
        """Set priorities > 0; steps that have left, and priorities that are not finite, are ignored."""
        assert self._priority is not None
        there = (steps >= self.head) & (steps < self.tail) & priority.isfinite()
        priority = torch.where(there, priority, 0)
        self._priority[torch.where(there, steps % self._places, self._places)] = priority**alpha
        self._largest.copy_(torch.maximum(self._largest, priority.max()))  # in place: other streams know this memory

    def locate(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Return (times, environments) of steps."""
        frame = self._frames[steps % self._places]
        return frame // self.number, frame % self.number

    def read(self, key: Key, time: Tensor, env: Tensor) -> Tensor:
        """Return rows of one key."""
        return self.columns[key][time % self.slots, env]

    def number_at(self, time: Tensor, env: Tensor) -> Tensor:
        """Return step numbers; -1 where no step is listed."""
        there = (time >= self._oldest(self.time)) & (time < self.time)
        return torch.where(there, self.step[time % self.slots, env], -1)

    def follows(self, time: Tensor, env: Tensor) -> Tensor:
        """Return whether the step after `time` belongs to the same episode and may be sampled."""
        return ~self.done[time % self.slots, env] & (self.number_at(time + 1, env) >= 0)

    def windows(self, time: Tensor, env: Tensor, length: int, burn_in: int = 0) -> tuple[Tensor, ...]:
        """Return (times, environments, step numbers, mask), each [B, burn_in + length]: the steps are in column
        `burn_in`, and the mask is True for steps of their episodes."""
        times = time.unsqueeze(1) + torch.arange(-burn_in, length, device=self._device)
        envs = env.unsqueeze(1).expand_as(times)
        numbers, follows = self.number_at(times, envs), self.follows(times, envs)
        mask = torch.ones_like(follows)
        for k in range(burn_in + 1, burn_in + length):
            mask[:, k] = mask[:, k - 1] & follows[:, k - 1]
        for k in range(burn_in - 1, -1, -1):
            mask[:, k] = mask[:, k + 1] & (numbers[:, k] >= 0) & follows[:, k]
        return times, envs, numbers, mask


class DeviceStorage:
    """A ring of frames on `device`, for uniform and prioritised sampling; episodes cannot be sampled complete.

    It takes the batches of one collector (N fixed), whose `next` is a view one step later. `len()`, `stats()` and
    `get` wait for the device; so does the first draw, and one per turn of the ring. Threads may add and sample at once,
    each on its stream.
    """

    def __init__(self, settings: Settings, sampler: Sampler, device: torch.device, seed: int) -> None:
        if type(sampler) not in (UniformSampler, PrioritizedSampler):
            raise ValueError(
                f"storage on a device samples uniformly or by priority: use storage='cpu' for {type(sampler).__name__}"
            )
        self.device, self.sampler = device, sampler
        self.settings, self.capacity = settings, settings.capacity
        self.ring: FrameRing | None = None  # made for the first data
        self._rng = torch.Generator(device).manual_seed(seed)
        self._schema = Schema()
        self._lock = threading.Lock()
        self._last_call = torch.cuda.Event() if device.type == "cuda" else None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One call at a time, of threads and of CUDA streams: a draw sees complete writes, a write waits for draws.

        A stream waits for the call before, whichever stream that was on; the host does not.
        """
        with self._lock:
            if self._last_call is not None:
                torch.cuda.current_stream(self.device).wait_event(self._last_call)
            try:
                yield
            finally:  # also after an error: some of it may have been enqueued
                if self._last_call is not None:
                    self._last_call.record(torch.cuda.current_stream(self.device))

    # adding

    def extend(self, batch: Any, stream: int | str) -> None:
        """See `ReplayBuffer.extend`; an environment that does not continue loses its last step, whose next observation
        is unknown. If these are ends alone, they are refused."""
        if stream != 0:
            raise ValueError("storage on a device has one writer: use storage='cpu' for several streams")
        with self._turn():
            schema = self._schema if self.ring is not None else Schema()
            kept, nexts, given = split_batch(batch, schema, self.settings.keys)
            for key, after in nexts.items():
                _check_view(key, kept[key], after, given[VALID])
            given = {key: flag.to(self.device) for key, flag in given.items()}
            flags = torch.zeros(3, *given[VALID].shape, dtype=torch.bool, device=self.device)
            flags[0] = given[VALID]
            # on a GPU the flags of the first batch are checked: the host would wait for each
            found = find_ends(given, check=self.device.type == "cpu" or self.ring is None)
            if found is not None:
                flags[1], flags[2] = found
            last = {key: after[:, -1] for key, after in nexts.items()}
            ring = self.ring if self.ring is not None else self._new_ring(kept, flags.shape[1])
            ring.write(kept, last, flags, self._alpha)
            self.ring, self._schema = ring, schema

    def _new_ring(self, kept: Mapping[Key, Tensor], number: int) -> FrameRing:
        """Make a ring for frames like `kept`, [number, T, ...]."""
        prioritized = isinstance(self.sampler, PrioritizedSampler)
        slots = FrameRing.slots_for(kept, number, self.capacity, self.settings.capacity_bytes, prioritized)
        return FrameRing(kept, number, slots, self.device, prioritized)

    @property
    def _alpha(self) -> float:
        return self.sampler.alpha if isinstance(self.sampler, PrioritizedSampler) else 0.0

    # sampling

    def sample(self, number: int, n_step: int, gamma: float, index: Tensor | np.ndarray | None = None) -> TensorDict:
        """See `ReplayBuffer.sample`, and with `index` `ReplayBuffer.get`, which waits for the device."""
        with self._turn():
            ring = self._filled()
            if index is None:
                steps, weight = self._draw(ring, number)
            else:
                steps, weight = torch.as_tensor(index).to(self.device), None
                if bool(((steps < ring.head) | (steps >= ring.tail)).any()):
                    held = f"[{int(ring.head)}, {int(ring.tail)})"
                    raise IndexError(f"steps outside {held}, which are in the buffer, were asked for")
            tensors = self._transitions(ring, steps, n_step, gamma)
        return self._make_batch(tensors, steps.shape, weight)

    def sample_slices(self, number: int, length: int, burn_in: int) -> TensorDict:
        """See `ReplayBuffer.sample_slices`."""
        with self._turn():
            ring = self._filled()
            steps, weight = self._draw(ring, number)
            times, envs, numbers, mask = ring.windows(*ring.locate(steps), length, burn_in)
            tensors = {}
            for key, spec in self._schema.specs.items():
                for name, at in ((key, times), (spec.next_key, times + 1)):
                    if name is not None:
                        value = ring.read(key, at, envs)
                        inside = mask.view(*mask.shape, *[1] * (value.ndim - 2))
                        tensors[name] = torch.where(inside, value, torch.zeros_like(value[:1, :1]))
            tensors["index",], tensors["mask",] = torch.where(mask, numbers, -1), mask
        return self._make_batch(tensors, times.shape, None if weight is None else weight.unsqueeze(1).expand_as(mask))

    def _draw(self, ring: FrameRing, number: int) -> tuple[Tensor, Tensor | None]:
        beta = self.sampler.beta if isinstance(self.sampler, PrioritizedSampler) else 0.0
        return ring.draw(number, self._rng, beta)

    def _make_batch(self, tensors: dict[Key, Tensor], batch_size: torch.Size, weight: Tensor | None) -> TensorDict:
        if weight is not None:
            tensors["weight",] = weight
        return make_batch(tensors, batch_size, self.device)

    def _transitions(self, ring: FrameRing, steps: Tensor, n_step: int, gamma: float) -> dict[Key, Tensor]:
        time, env = ring.locate(steps)
        tensors = {key: ring.read(key, time, env) for key in ring.columns}
        last = time
        if n_step > 1:
            if REWARD not in tensors:
                raise KeyError("n_step > 1 sums the key 'reward', which this buffer does not have")
            total = tensors[REWARD] if tensors[REWARD].is_floating_point() else tensors[REWARD].to(torch.float32)
            times, _, _, mask = ring.windows(time, env, n_step)
            for k in range(1, n_step):
                more = ring.read(REWARD, times[:, k], env).to(total.dtype) * gamma**k
                total = total + torch.where(mask[:, k].view(-1, *[1] * (more.ndim - 1)), more, 0)
            last = time + mask.sum(1) - 1
            tensors |= {key: ring.read(key, last, env) for key in END_KEYS if key in ring.columns}
            tensors[REWARD] = total
        for key, spec in self._schema.specs.items():
            if spec.next_key is not None:
                tensors[spec.next_key] = ring.read(key, last + 1, env)
        ended = ring.terminated[last % ring.slots, env]
        tensors["discount",] = torch.where(ended, 0.0, gamma ** (last - time + 1).to(torch.float32))
        tensors["index",] = steps
        return tensors

    def update_priority(self, index: Tensor | np.ndarray, priority: Tensor | np.ndarray) -> None:
        """See `ReplayBuffer.update_priority`; priorities that are not finite are ignored."""
        if not isinstance(self.sampler, PrioritizedSampler):
            raise TypeError("this buffer has no priorities: build it with sampler='prioritized'")
        with self._turn():
            steps, values = (torch.as_tensor(x).detach().to(self.device).flatten() for x in (index, priority))
            if steps.shape != values.shape:
                raise ValueError(f"{list(steps.shape)} steps and {list(values.shape)} priorities: give one for each")
            if len(steps):
                self._filled().prioritize(steps, values.to(torch.float64).abs() + self.sampler.eps, self._alpha)

    def _filled(self) -> FrameRing:
        if self.ring is None or not self.ring.has_steps():
            raise ValueError("the replay buffer is empty: add to it before sampling")
        return self.ring

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
        with self._turn():
            ring, head, tail, rows = self.ring, 0, 0, 0
            if ring is not None:
                head, tail, rows = int(ring.head), int(ring.tail), min(ring.time, ring.slots - 1) * ring.number
                ring.check()
        return {"steps": tail - head, "steps_ever": tail, "rows": rows, "nbytes": self.nbytes, "columns": {}}

    # saving and loading

    def state_dict(self) -> dict[str, Any]:
        """Return everything, as copies of the tensors."""
        with self._turn():
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
        kept: dict[Key, Tensor] = {}
        with reader.parsing("the state dict"):
            settings, rng = dict(state["sampler"]), state["rng"]
            saved_kind, time = settings.pop("kind"), reader.integer(state["time"], "the time")
            schema.restore(state["schema"], reader)
            for key, spec in schema.specs.items() if time else ():
                kept[key] = state["ring/" + "/".join(key)].transpose(0, 1)
                if (kept[key].shape[2:], kept[key].dtype) != (spec.shape, spec.torch_dtype):
                    reader.fail(f"the frames of {show(key)} are not those of the list of keys")
            number = len(next(iter(kept.values()), ()))
            if time and not number:
                reader.fail("the ring has no frames")
            if not all(type(x) in (int, float) and 0 <= x < 1e30 for x in settings.values()):
                reader.fail(f"the state of the sampler has {shorten(list(settings.values()))}, which are not numbers")
        if saved_kind != kind or not settings.keys() <= {"alpha", "beta", "eps"}:
            raise ValueError(f"the state is of a {saved_kind}, this buffer has a {kind}: build it with that sampler")
        with self._turn():
            if time:
                ring = self._new_ring(kept, number)
                ring.fill(state, time)
            with reader.parsing("the state of the random generator"):
                restore_generator(self._rng, rng, "draws from the replay buffer")
            self._free()
            self._schema, self.ring = schema, ring
        for name, value in settings.items():
            setattr(self.sampler, name, value)

    def save(self, folder: Path) -> None:
        """Save the ring in one file; unlike storage="cpu", all of it every time."""
        state = self.state_dict()
        prepare_folder(folder)
        with atomic_file(folder / RING_FILE) as file:
            writer = TensorFileWriter(file, KIND)
            writer.finish(store_state(writer, state))

    def load(self, folder: Path, max_bytes: int | None = None) -> None:
        """Load what `save` wrote."""
        path = folder / RING_FILE
        with TensorFile.open(path, KIND, reader=Reader(path, max_bytes=max_bytes)) as container:
            self.load_state_dict(load_state(container, container.head))

    def close(self) -> None:
        """Free the memory."""
        with self._turn():
            self._free()

    def _free(self) -> None:
        """Drop the ring, as a writer: this stream has waited for all others, so memory that is free after it is free
        for all."""
        if self.ring is not None and self.device.type == "cuda":
            for tensor in (*self.ring.tensors().values(), self.ring.lost):
                tensor.record_stream(torch.cuda.current_stream(self.device))
        self.ring = None


def _check_view(key: Key, now: Tensor, after: Tensor, valid: Tensor) -> None:
    """Check that the next observation is the frame one step later. A view is; a copy is compared, and the host waits
    for that."""
    if now.shape[1] == 1 or is_shifted_view(now, after):
        return
    if not bool((same_bits(after[:, :-1], now[:, 1:], 2) | ~valid[:, :-1].to(now.device)).all()):
        raise ValueError(f"{show(('next', *key))} is not {show(key)} one step later: {_OTHER_RESETS}")
