"""Batches as TensorDicts, and batches that a thread samples ahead of time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, Self

import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.storage.background import BackgroundWorker
from slipstream.storage.schema import Key

# The checks of TensorDict's constructor take longer than sampling 256 small steps, and the shapes here are known.
_new_tensordict: Any = getattr(TensorDict, "_new_unsafe", TensorDict)


def make_batch(tensors: Mapping[Key, Tensor], batch_size: tuple[int, ...], device: torch.device) -> TensorDict:
    """Return a TensorDict of tensors by tuple keys. "discount" and "weight" get the axis of one that "reward" may have:
    a product of [B, 1] and [B] would be [B, B]."""
    size = torch.Size(batch_size)
    reward = tensors.get(("reward",))
    last_axis = reward is not None and reward.shape == (*size, 1)
    tree: dict[str, Any] = {}
    for key, tensor in tensors.items():
        if last_axis and key in (("discount",), ("weight",)):
            tensor = tensor.unsqueeze(-1)
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
