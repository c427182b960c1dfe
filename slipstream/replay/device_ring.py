"""Frames on a device, [slots, N, ...] time-major, and the list of those that may be sampled; nothing here waits for the
device.

Frame t of an environment is in slot t % slots, its successor in the next slot. The slot after the newest frame holds
the pending observation. The list gives steps their numbers: step s is the frame in place s % places, for head <= s <
tail, and head and tail are counters on the device. So sampling is one look-up, whatever was invalid or evicted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.storage.schema import Key

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # dtypes in which NaN equals itself


@dataclass
class Frames:
    """A [N, T] batch of frames for a ring."""

    kept: dict[Key, Tensor]
    last: dict[Key, Tensor]  # [N, ...] observations after the last frame
    valid: Tensor  # bool; False: a final observation only
    done: Tensor  # bool
    terminated: Tensor  # bool; where done: no value follows this step


class FrameRing:
    """The tensors. Calls must not overlap: see `StreamLock`."""

    def __init__(
        self, kept: Mapping[Key, Tensor], number: int, slots: int, device: torch.device, prioritized: bool
    ) -> None:
        self.number, self.slots = number, slots
        self.time = 0  # frames ever written of each environment
        self._device = device
        self._places = slots * number
        self.columns = {
            k: torch.zeros(slots, number, *v.shape[2:], dtype=v.dtype, device=device) for k, v in kept.items()
        }
        self.done, self.terminated, self.valid = (
            torch.zeros(slots, number, dtype=torch.bool, device=device) for _ in range(3)
        )
        self.step = torch.full(
            (slots, number), -1, device=device
        )  # the number of each frame's step; -1: it is not listed
        self._frames = torch.zeros(
            self._places + 1, dtype=torch.int64, device=device
        )  # t * N + n; one place more, for the unlisted
        self.head, self.tail = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))
        self._largest = torch.ones((), dtype=torch.float64, device=device)  # priority, not yet to the power of alpha
        self._priority = torch.zeros(self._places + 1, dtype=torch.float64, device=device) if prioritized else None
        self._count = StepCount(device)

    @staticmethod
    def slots_for(
        kept: Mapping[Key, Tensor], number: int, steps: int | None, nbytes: int | None, prioritized: bool
    ) -> int:
        """Slots for at most `steps` steps, or `nbytes` of memory: two more than are drawn, the newest frame and the
        pending one."""
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
        own = {
            "done": self.done,
            "terminated": self.terminated,
            "valid": self.valid,
            "step": self.step,
            "frames": self._frames,
        }
        own |= {"head": self.head, "tail": self.tail, "largest": self._largest}
        own |= {} if self._priority is None else {"priority": self._priority}
        return {"ring/" + "/".join(key): column for key, column in self.columns.items()} | own

    def fill(self, tensors: Mapping[str, Tensor], time: int) -> None:
        """Load what `tensors` returned at `time`."""
        for name, tensor in self.tensors().items():
            saved = tensors.get(name)
            if saved is None or (tensor.shape, tensor.dtype) != (saved.shape, saved.dtype):
                shapes = f"{list(tensors['valid'].shape)}, this one {list(self.valid.shape)}"
                raise ValueError(f"the saved ring is {shapes}: give it the same capacity, keys and sampler")
            tensor.copy_(saved)
        if not 0 <= int(self.head) <= int(self.tail) <= int(self.head) + self._places or not 0 < time < 2**62:
            raise ValueError(f"the saved ring has steps {int(self.head)} to {int(self.tail)}: it is damaged")
        for values in (self._largest, *([] if self._priority is None else [self._priority])):
            if not bool(((values >= 0) & (values < torch.inf)).all()):  # NaN too: a draw by it would end a CUDA process
                raise ValueError("the saved ring has a priority that is negative, NaN or infinite: it is damaged")
        self.time = time
        self._count.request(self.tail - self.head)

    # writing

    def write(self, batch: Frames, alpha: float) -> None:
        """Add the frames; the newest of each environment joins the list with the next batch, when it is known to
        continue."""
        number, length = batch.valid.shape
        if number != self.number or length >= self.slots:
            fits = f"[{self.number}, {self.slots - 1}]"
            raise ValueError(
                f"a batch of [{number}, {length}] does not fit a ring of {fits}: take shorter ones, or raise the capacity"
            )
        continued = self._continues(batch)
        self._evict(length)
        for key, value in batch.kept.items():
            self._copy(self.columns[key], value)
        self._copy(self.valid, batch.valid)
        self._copy(self.done, batch.done & batch.valid)
        self._copy(self.terminated, batch.terminated & batch.valid)
        for key, value in batch.last.items():
            self.columns[key][(self.time + length) % self.slots].copy_(value)
        self._list(length, continued, alpha)
        self.time += length
        self._count.request(self.tail - self.head)

    def _copy(self, column: Tensor, rows: Tensor) -> None:
        """Write rows [N, T, ...] from the present slot on."""
        rows = rows.transpose(0, 1)
        at = self.time % self.slots
        fits = min(len(rows), self.slots - at)
        column[at : at + fits].copy_(rows[:fits])
        if fits < len(rows):
            column[: len(rows) - fits].copy_(rows[fits:])

    def _continues(self, batch: Frames) -> Tensor:
        """Return bool [N]: the first frame is the one after the newest step."""
        at, before = self.time % self.slots, (self.time - 1) % self.slots
        same = ~(self.done[before] & batch.valid[:, 0])
        for key in batch.last:
            pending, first = self.columns[key][at], batch.kept[key][:, 0].to(self._device)
            bits = BITS[pending.element_size()]
            same &= (pending.contiguous().view(bits) == first.contiguous().view(bits)).reshape(self.number, -1).all(1)
        return same

    def _oldest(self, time: int) -> int:
        """Return the oldest frame that is held when `time` have been written."""
        return max(0, time - self.slots + 1)

    def _evict(self, length: int) -> None:
        """Remove the frames whose slots are needed from the list."""
        start, stop = self._oldest(self.time), self._oldest(self.time + length)
        self._count.evicted((stop - start) * self.number)
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
        """Return whether any step is listed. Waits for the device only if none is known yet, as at the first draw."""
        return self._count.is_positive(self.tail - self.head)

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


class StepCount:
    """A lower bound of the number of steps that the host knows.

    On a GPU the count is sent after a write; until it arrives, all steps that may have been evicted are subtracted from
    the last one.
    """

    def __init__(self, device: torch.device) -> None:
        self._least = 0
        self._lost = 0  # at most, since the count under way was sent
        self._under_way = False
        self._on_gpu = device.type == "cuda"
        self._count = torch.zeros((), dtype=torch.int64, pin_memory=self._on_gpu)
        self._sent = torch.cuda.Event() if self._on_gpu else None

    def evicted(self, most: int) -> None:
        """Note that at most so many steps left."""
        self._least = max(0, self._least - most)
        self._lost += most

    def request(self, count: Tensor) -> None:
        """Ask the device for the count as it is now."""
        if self._sent is None:
            self._least = int(count)
            return
        self._receive(wait=False)
        if not self._under_way:
            self._count.copy_(count, non_blocking=True)
            self._sent.record(torch.cuda.current_stream(count.device))
            self._under_way, self._lost = True, 0

    def is_positive(self, count: Tensor) -> bool:
        """Return whether the count is above 0; waits if that is not known."""
        for wait in (False, True):
            if not self._least:
                self._receive(wait)
        if not self._least:
            self._least = int(count)
        return self._least > 0

    def _receive(self, wait: bool) -> None:
        if self._sent is None or not self._under_way:
            return
        if wait:
            self._sent.synchronize()
        if wait or self._sent.query():
            self._least = max(self._least, int(self._count) - self._lost)
            self._under_way = False


class StreamLock:
    """One call at a time, of threads and of CUDA streams: a draw sees complete writes. Streams wait for each other, the
    host does not."""

    def __init__(self, device: torch.device) -> None:
        self._lock = threading.Lock()
        self._device = device
        self._written: dict[int, torch.cuda.Event] = {}  # by stream; the last write's only
        self._drawn: dict[int, torch.cuda.Event] = {}  # by stream; draws since that write

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run after the last write and the draws since."""
        with self._lock:
            self._wait(self._written, self._drawn)
            try:
                yield
            finally:  # also after an error: some of it may have been enqueued
                self._written.clear()
                self._drawn.clear()
                self._record(self._written)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run after the last write."""
        with self._lock:
            self._wait(self._written)
            try:
                yield
            finally:
                self._record(self._drawn)

    def _wait(self, *events: dict[int, torch.cuda.Event]) -> None:
        if self._device.type != "cuda":
            return
        stream = torch.cuda.current_stream(self._device)
        for of_streams in events:
            for other, event in of_streams.items():
                if other != stream.cuda_stream:
                    stream.wait_event(event)

    def _record(self, events: dict[int, torch.cuda.Event]) -> None:
        if self._device.type != "cuda":
            return
        stream = torch.cuda.current_stream(self._device)
        event = events.setdefault(stream.cuda_stream, torch.cuda.Event())
        event.record(stream)
