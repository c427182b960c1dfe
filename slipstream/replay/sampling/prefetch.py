"""Batches drawn ahead of time by a thread, and put on the device on a stream of its own."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from tensordict import TensorDict


class Prefetcher:
    """An endless iterator. An error in the thread is raised by the next `next`; `close` ends the thread, always."""

    def __init__(self, draw: Callable[[], TensorDict], depth: int, device: torch.device) -> None:
        if depth < 1:
            raise ValueError(f"depth is {depth}: prefetch at least one batch")
        self._draw = draw
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._ready: queue.Queue[Any] = queue.Queue(depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="slipstream-prefetch", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """No more batches will come."""
        return self._stop.is_set()

    def __iter__(self) -> Iterator[TensorDict]:
        return self

    def __next__(self) -> TensorDict:
        if self.closed:
            raise StopIteration
        item = self._ready.get()
        if item is None:
            raise StopIteration
        if isinstance(item, BaseException):
            self.close()
            raise item
        batch, copied = item
        if copied is not None:  # the consumer's stream waits for the copy, its thread does not
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(copied)
            for tensor in batch.values(True, True):
                tensor.record_stream(stream)
        return batch

    def close(self) -> None:
        """Ends the thread; idempotent."""
        self._stop.set()
        while self._thread.is_alive() and self._thread is not threading.current_thread():
            try:  # make room for a batch that waits to be put
                self._ready.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)
        with contextlib.suppress(queue.Full):
            self._ready.put_nowait(None)  # whoever waits in `next` leaves

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                self._put(self._next_batch())
        except BaseException as error:
            self._put(error)

    def _next_batch(self) -> Any:
        if self._stream is None:
            return self._draw().to(self._device), None
        with torch.cuda.stream(self._stream):
            batch = self._draw().to(self._device, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(self._stream)
        return batch, copied

    def _put(self, item: Any) -> None:
        while not self._stop.is_set():
            try:
                self._ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue
