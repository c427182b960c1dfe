"""Copy the metrics of an iteration to the host: one small copy, read while the device already works on the next
iteration."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class ReadBack:
    """Metrics of each iteration: sent when its work is queued, taken when it is done, on a GPU one iteration later."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._sent: deque[tuple[Any, dict[str, int], Tensor, torch.cuda.Event | None]] = deque()
        self._free: list[Tensor] = []  # pinned memory to use again

    def send(self, label: Any, metrics: Mapping[str, Tensor]) -> None:
        """Queue the copy of metrics by name, scalars or vectors [k], to the host; nothing waits."""
        in_order = sorted(metrics.items(), key=lambda item: item[1].ndim)
        sizes = {name: x.numel() if x.ndim else 0 for name, x in in_order}  # scalars, marked by 0, come first
        scalars = [x for x in metrics.values() if not x.ndim]
        vectors = [x.double() for x in metrics.values() if x.ndim]
        numbers = torch.cat((torch.stack(scalars).double(), *vectors)) if scalars else torch.cat(vectors)
        if not self._cuda:
            self._sent.append((label, sizes, numbers.detach(), None))
            return
        fits = [i for i, memory in enumerate(self._free) if memory.shape == numbers.shape]
        host = self._free.pop(fits[0]) if fits else torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        host.copy_(numbers.detach(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self._sent.append((label, sizes, host, arrived))

    def take(self, wait: bool) -> list[tuple[Any, dict[str, Any]]]:
        """Return (label, metrics) of what was sent and not taken; without `wait` a GPU keeps the last one back."""
        taken = []
        while len(self._sent) > (1 if self._cuda and not wait else 0):
            label, sizes, host, arrived = self._sent.popleft()
            if arrived is not None:
                arrived.synchronize()
                self._free.append(host)
            numbers = iter(host.tolist())
            values = {
                name: [next(numbers) for _ in range(size)] if size else next(numbers) for name, size in sizes.items()
            }
            taken.append((label, values))
        return taken
