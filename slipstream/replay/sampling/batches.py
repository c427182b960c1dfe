"""Memory for batches that is used again as soon as nobody holds a tensor of it any more."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import torch

Form = Mapping[Hashable, tuple[tuple[int, ...], np.dtype[Any]]]


class Slot:
    """The arrays of one batch; with `pinned`, in page-locked memory."""

    def __init__(self, form: Form, pinned: bool) -> None:
        self.copied: Any = None  # the event after which a copy to the device has read the arrays
        self.kept = False  # by a pool; otherwise the memory goes with its last holder
        self.arrays: dict[Hashable, np.ndarray] = {}
        self._roots: list[np.ndarray] = []
        for key, (shape, dtype) in form.items():
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            root = torch.empty(size, dtype=torch.uint8, pin_memory=pinned).numpy()
            self._roots.append(root)
            self.arrays[key] = root.view(dtype).reshape(shape)
            del root  # its reference would be counted below
        # A tensor made by torch.from_numpy holds its array; a view of an array holds the root. So the counts of references
        # tell whether anything made of this memory is alive, also a single tensor taken out of a batch that is gone.
        self._unused = self._references()

    def free(self) -> bool:
        """Nobody else holds anything of it."""
        if self._references() != self._unused:
            return False
        return self.copied is None or self.copied.query()

    def _references(self) -> list[int]:
        return [sys.getrefcount(array) for array in (*self._roots, *self.arrays.values())]


class BatchPool:
    """Slots by form. A batch is its holder's for as long as any tensor of it lives; then the memory serves another."""

    def __init__(self, pinned: bool = False, most: int = 16) -> None:
        self._pinned = pinned
        self._most = most  # slots kept for one form
        self._slots: dict[Hashable, list[Slot]] = {}
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, name: Hashable, form: Callable[[], Form]) -> Slot:
        """A free slot for batches called `name`, of `form()`; it is the caller's alone until `give_back`."""
        with self._lock:
            slots = self._slots.setdefault(name, [])
            for slot in slots:
                if id(slot) not in self._taken and slot.free():
                    self._taken.add(id(slot))
                    return slot
            slot = Slot(form(), self._pinned)
            if len(slots) < self._most:
                slot.kept = True
                slots.append(slot)
                self._taken.add(id(slot))
            return slot

    def give_back(self, slot: Slot) -> None:
        """The tensors have been made: from now on their references count."""
        with self._lock:
            self._taken.discard(id(slot))

    def clear(self) -> None:
        """Forgets all slots; what is lent stays with its holder."""
        with self._lock:
            self._slots.clear()
            self._taken.clear()
