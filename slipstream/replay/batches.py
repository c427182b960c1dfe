"""The memory of batches, which is used again as soon as nobody holds a tensor of it; and batches sampled ahead of
time."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, Self

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.storage.background import BackgroundWorker
from slipstream.storage.schema import Key

Form = Mapping[Key, tuple[tuple[int, ...], np.dtype[Any]]]


class Slot:
    """The arrays of one batch; with `pinned`, in page-locked memory."""

    def __init__(self, form: Form, pinned: bool) -> None:
        self.copied: Any = None  # the event after which a copy to the device has read the arrays
        self.pooled = False  # a pool keeps it; otherwise the memory is freed with its last holder
        self.arrays: dict[Key, np.ndarray] = {}
        self._roots: list[np.ndarray] = []
        for key, (shape, dtype) in form.items():
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            root = torch.empty(size, dtype=torch.uint8, pin_memory=pinned).numpy()
            self._roots.append(root)
            self.arrays[key] = root.view(dtype).reshape(shape)
            del root  # its reference would be counted below
        # A tensor made by torch.from_numpy holds its array; a view of an array holds the root. So the reference counts
        # show whether anything made of this memory is alive, also a single tensor of a batch that is gone.
        self._unused = self._references()

    def is_free(self) -> bool:
        """Return whether nobody else holds anything of it."""
        if self._references() != self._unused:
            return False
        return self.copied is None or self.copied.query()

    def _references(self) -> list[int]:
        return [sys.getrefcount(array) for array in (*self._roots, *self.arrays.values())]


class BatchPool:
    """Slots by batch shape. A batch belongs to its holder while any tensor of it lives; then its memory is used
    again."""

    def __init__(self, pinned: bool = False, max_slots: int = 16) -> None:
        self._pinned = pinned
        self._max_slots = max_slots  # kept for one shape
        self._slots: dict[Hashable, list[Slot]] = {}
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, name: Hashable, form: Callable[[], Form]) -> Slot:
        """Return a free slot for batches called `name`, of `form()`; nobody else gets it until `give_back`."""
        with self._lock:
            slots = self._slots.setdefault(name, [])
            for slot in slots:
                if id(slot) not in self._taken and slot.is_free():
                    self._taken.add(id(slot))
                    return slot
            slot = Slot(form(), self._pinned)
            if len(slots) < self._max_slots:
                slot.pooled = True
                slots.append(slot)
                self._taken.add(id(slot))
            return slot

    def give_back(self, slot: Slot) -> None:
        """Say that the tensors were made: from now on their references count."""
        with self._lock:
            self._taken.discard(id(slot))

    def clear(self) -> None:
        """Forget all slots; batches that are held stay valid."""
        with self._lock:
            self._slots.clear()
            self._taken.clear()


# The checks of TensorDict's constructor take longer than sampling 256 small steps, and the shapes here are known.
_new_tensordict: Any = getattr(TensorDict, "_new_unsafe", TensorDict)


def make_batch(tensors: Mapping[Key, Tensor], batch_size: tuple[int, ...], device: torch.device) -> TensorDict:
    """Return a TensorDict of tensors by tuple keys."""
    size = torch.Size(batch_size)
    tree: dict[str, Any] = {}
    for key, tensor in tensors.items():
        node = tree
        for name in key[:-1]:
            node = node.setdefault(name, {})
        node[key[-1]] = tensor

    def nested(node: dict[str, Any]) -> TensorDict:
        inner = {name: nested(value) if isinstance(value, dict) else value for name, value in node.items()}
        return _new_tensordict(inner, batch_size=size, device=device)

    return nested(tree)


class Prefetcher:
    """An endless iterator of batches that a thread samples ahead of time, on a CUDA stream of its own.

    An error in the thread is raised by the next `next`. Use it in a `with` block, or close it.
    """

    def __init__(self, draw: Callable[[], TensorDict], depth: int, device: torch.device) -> None:
        if depth < 1:
            raise ValueError(f"depth={depth}: prefetch at least one batch")
        self.closed = False
        self._draw, self._device = draw, device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._worker = BackgroundWorker("replay prefetcher")
        self._lock = threading.Lock()
        self._futures: deque[Future[Any]] = deque(self._worker.submit(self._next_batch) for _ in range(depth))

    def __iter__(self) -> Iterator[TensorDict]:
        return self

    def __next__(self) -> TensorDict:
        with self._lock:
            if self.closed:
                raise StopIteration
            future = self._futures.popleft()
            self._futures.append(self._worker.submit(self._next_batch))
        try:
            batch, copied = future.result()
        except CancelledError:
            raise StopIteration from None
        except BaseException:
            if self.closed:  # the buffer was closed while this batch was sampled
                raise StopIteration from None
            self.close()
            raise
        if copied is not None:  # the caller's stream waits for the copy, its thread does not
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(copied)
            for tensor in batch.values(True, True):
                tensor.record_stream(stream)
        return batch

    def close(self) -> None:
        """End the thread. May be called twice."""
        with self._lock:
            self.closed = True
            for future in self._futures:
                future.cancel()
            self._futures.clear()
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _next_batch(self) -> Any:
        if self._stream is None:
            return self._draw().to(self._device), None
        with torch.cuda.stream(self._stream):
            batch = self._draw().to(self._device, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(self._stream)
        return batch, copied
