"""What the host reads of an iteration: one small copy, looked at while the device already works on the next iteration."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor


class ReadBack:
    """Numbers of each iteration, sent when its work is queued and taken when it is done: on a GPU one iteration later."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._sent: deque[tuple[Any, Tensor, torch.cuda.Event | None]] = deque()
        self._free: list[Tensor] = []  # pinned memory to use again

    def send(self, label: Any, numbers: Tensor) -> None:
        """Queues the copy of `numbers` [k] to the host, `label` with it; nothing waits."""
        if not self._cuda:
            self._sent.append((label, numbers.detach().clone(), None))
            return
        fits = [
            i for i, memory in enumerate(self._free) if memory.shape == numbers.shape and memory.dtype == numbers.dtype
        ]
        host = self._free.pop(fits[0]) if fits else torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        host.copy_(numbers.detach(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self._sent.append((label, host, arrived))

    def take(self, wait: bool) -> list[tuple[Any, list[float]]]:
        """(label, numbers) of what was sent and not taken; without `wait` a GPU keeps the last one back and works on."""
        taken = []
        while len(self._sent) > (1 if self._cuda and not wait else 0):
            label, host, arrived = self._sent.popleft()
            if arrived is not None:
                arrived.synchronize()
                self._free.append(host)
            taken.append((label, host.tolist()))
        return taken
