"""Frames on a device, [slots, N, ...] time-major, and the list of those that may be drawn; nothing here waits for the device.

Frame t of an environment lies in slot t % slots, its successor one slot on. The slot after the newest frame holds the pending
observation. The list gives steps their numbers: step s is the frame in place s % places, for head <= s < tail, and head and tail
are counters on the device. So drawing is one look-up, whatever was invalid or evicted.
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
class Batch:
    """[N, T] frames as a ring takes them."""

    kept: dict[Key, Tensor]
    last: dict[Key, Tensor]  # [N, ...] observations after the last frame
    valid: Tensor  # bool; False: a final observation only
    done: Tensor  # bool
    terminated: Tensor  # bool; where done: no value exists beyond this step


class FrameRing:
    """The tensors. Calls must not overlap: see `Turns`."""

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
        self._census = _Census(device)

    @staticmethod
    def slots_for(
        kept: Mapping[Key, Tensor], number: int, steps: int | None, nbytes: int | None, prioritized: bool
    ) -> int:
        """Slots for at most `steps` steps, or `nbytes` of memory: two more than are drawn, the newest frame and the pending one."""
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
        """All of them by name."""
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
        """Takes over what `tensors` gave at `time`."""
        for name, tensor in self.tensors().items():
            if name not in tensors or tensor.shape != tensors[name].shape:
                saved, mine = list(tensors["valid"].shape), list(self.valid.shape)
                raise ValueError(f"the saved ring is {saved}, this one {mine}: give it the same capacity and sampler")
            tensor.copy_(tensors[name])
        self.time = time
        self._census.ask(self.tail - self.head)

    # writing

    def write(self, batch: Batch, alpha: float) -> None:
        """Adds the frames; the newest of each environment joins the list with the next batch, when it is known that it went on."""
        number, length = batch.valid.shape
        if number != self.number or length >= self.slots:
            fits = f"[{self.number}, {self.slots - 1}]"
            raise ValueError(
                f"a batch of [{number}, {length}] does not fit a ring of {fits}: take shorter ones, or raise the capacity"
            )
        goes_on = self._goes_on(batch)
        self._forget(length)
        for key, value in batch.kept.items():
            self._copy(self.columns[key], value)
        self._copy(self.valid, batch.valid)
        self._copy(self.done, batch.done & batch.valid)
        self._copy(self.terminated, batch.terminated & batch.valid)
        for key, value in batch.last.items():
            self.columns[key][(self.time + length) % self.slots].copy_(value)
        self._list(length, goes_on, alpha)
        self.time += length
        self._census.ask(self.tail - self.head)

    def _copy(self, column: Tensor, rows: Tensor) -> None:
        """Rows [N, T, ...] from the present slot on."""
        rows = rows.transpose(0, 1)
        at = self.time % self.slots
        fits = min(len(rows), self.slots - at)
        column[at : at + fits].copy_(rows[:fits])
        if fits < len(rows):
            column[: len(rows) - fits].copy_(rows[fits:])

    def _goes_on(self, batch: Batch) -> Tensor:
        """bool [N]: the first frame is what followed the newest step."""
        at, before = self.time % self.slots, (self.time - 1) % self.slots
        same = ~(self.done[before] & batch.valid[:, 0])
        for key in batch.last:
            pending, first = self.columns[key][at], batch.kept[key][:, 0].to(self._device)
            bits = BITS[pending.element_size()]
            same &= (pending.contiguous().view(bits) == first.contiguous().view(bits)).reshape(self.number, -1).all(1)
        return same

    def _oldest(self, time: int) -> int:
        """The oldest frame there when `time` have been written."""
        return max(0, time - self.slots + 1)

    def _forget(self, length: int) -> None:
        """Frames whose slots are needed leave the list."""
        start, stop = self._oldest(self.time), self._oldest(self.time + length)
        self._census.evicted((stop - start) * self.number)
        while start < stop:
            at = start % self.slots
            run = slice(at, min(at + stop - start, self.slots))
            self.head += (self.step[run] >= 0).sum()
            self.step[run] = -1
            start += run.stop - run.start

    def _list(self, length: int, goes_on: Tensor, alpha: float) -> None:
        """Adds to the list the newest frame of the batches before, if this one left it, and all but the newest of this one."""
        newest = self.time - 1
        first = max(newest, self._oldest(self.time + length))
        times = torch.arange(first, self.time + length - 1, device=self._device)
        slots = times % self.slots
        listed = self.valid[slots]
        if first == newest:
            listed[0] &= goes_on
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

    def some(self) -> bool:
        """Whether any step is listed. Waits for the device only where none is known to be: at the first draw, say."""
        return self._census.some(self.tail - self.head)

    def draw(self, number: int, rng: torch.Generator, beta: float) -> tuple[Tensor, Tensor | None]:
        """(steps int64 [number], weights float32 [number] or None); some must be listed."""
        chance = torch.rand(number, generator=rng, device=self._device, dtype=torch.float64)
        count = self.tail - self.head
        if self._priority is None:
            return self.head + torch.minimum((chance * count).long(), count - 1), None
        # One pass over all priorities a draw: 1e6 of them take a GPU some tens of microseconds, and nothing waits.
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
        """Sets priorities > 0; steps that have left, and priorities that are not finite, are passed over."""
        assert self._priority is not None
        there = (steps >= self.head) & (steps < self.tail) & priority.isfinite()
        priority = torch.where(there, priority, 0)
        self._priority[torch.where(there, steps % self._places, self._places)] = priority**alpha
        self._largest.copy_(torch.maximum(self._largest, priority.max()))  # in place: other streams know this memory

    def locate(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """(times, environments) of steps."""
        frame = self._frames[steps % self._places]
        return frame // self.number, frame % self.number

    def read(self, key: Key, time: Tensor, env: Tensor) -> Tensor:
        """Rows of one key."""
        return self.columns[key][time % self.slots, env]

    def number_at(self, time: Tensor, env: Tensor) -> Tensor:
        """Step numbers; -1 where no step is listed."""
        there = (time >= self._oldest(self.time)) & (time < self.time)
        return torch.where(there, self.step[time % self.slots, env], -1)

    def follows(self, time: Tensor, env: Tensor) -> Tensor:
        """Whether the step after `time` belongs to the same episode and may be drawn."""
        return ~self.done[time % self.slots, env] & (self.number_at(time + 1, env) >= 0)


class _Census:
    """A lower bound of the number of steps, known on the host.

    On a GPU the count is sent after a write; until it has come, all that may have been evicted meanwhile is taken off the last one.
    """

    def __init__(self, device: torch.device) -> None:
        self._least = 0
        self._lost = 0  # at most, since the count under way was sent
        self._under_way = False
        self._on_gpu = device.type == "cuda"
        self._count = torch.zeros((), dtype=torch.int64, pin_memory=self._on_gpu)
        self._sent = torch.cuda.Event() if self._on_gpu else None

    def evicted(self, most: int) -> None:
        """At most so many steps left."""
        self._least = max(0, self._least - most)
        self._lost += most

    def ask(self, count: Tensor) -> None:
        """The count as it is now, to be known when it comes."""
        if self._sent is None:
            self._least = int(count)
            return
        self._receive(wait=False)
        if not self._under_way:
            self._count.copy_(count, non_blocking=True)
            self._sent.record(torch.cuda.current_stream(count.device))
            self._under_way, self._lost = True, 0

    def some(self, count: Tensor) -> bool:
        """Whether the count is above 0; waits where that is not known."""
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


class Turns:
    """One at a time, of threads and of streams: draws see whole writes. Streams wait for each other; the host does not."""

    def __init__(self, device: torch.device) -> None:
        self._lock = threading.Lock()
        self._device = device
        self._written: dict[int, torch.cuda.Event] = {}  # by stream; the last write's only
        self._drawn: dict[int, torch.cuda.Event] = {}  # by stream; draws since that write

    @contextmanager
    def writing(self) -> Iterator[None]:
        """After the last write and the draws since."""
        with self._lock:
            self._wait(self._written, self._drawn)
            try:
                yield
            finally:  # also after an error: some of it may have been enqueued
                self._written.clear()
                self._drawn.clear()
                self._record(self._written)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """After the last write."""
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
