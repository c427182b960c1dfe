"""AsyncCheckpointSaver: snapshot at once, write later."""

from __future__ import annotations

import io
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from slipstream.checkpoint.signals import StopFlag


class CheckpointError(RuntimeError):
    """A background save failed; the cause is chained."""


class AsyncCheckpointSaver:
    """Saves checkpoints from a background thread; use it in a `with` block or call `shutdown`."""

    def __init__(
        self,
        max_queue_size: int = 3,
        verbose: bool = False,
        *,
        compression_level: int = 9,
        queue_policy: str = "block",
        full_every: int = 1,
        moments: str | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        best_metric: str | None = None,
        best_mode: str = "max",
        links: bool = False,
    ) -> None:
        self.compression_level = compression_level
        self._queue: queue.Queue[Any] = queue.Queue(max_queue_size)
        self._error: BaseException | None = None
        self._stop = StopFlag()
        self._stats = {"saved": 0, "bytes_in": 0, "bytes_out": 0}
        self._blocking_ms: list[float] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def save_async(
        self,
        checkpoint: Any,
        path: str | Path,
        compress: bool | str = True,
        *,
        metrics: dict[str, float] | None = None,
        step: int | None = None,
    ) -> None:
        """Keep the state as it is now and write it in the background."""
        self._raise_error()
        start = time.perf_counter()
        self._queue.put((_copy(checkpoint), Path(path), compress))
        self._blocking_ms.append(1e3 * (time.perf_counter() - start))

    def get_stats(self) -> dict[str, Any]:
        """Counts, bytes, ratio and blocking time so far."""
        out = self._stats["bytes_out"]
        return {
            "total_saved": self._stats["saved"],
            **self._stats,
            "compression_ratio": self._stats["bytes_in"] / out if out else 1.0,
            "queue_size": self._queue.qsize(),
        }

    def wait(self) -> None:
        """Block until everything queued is on disk."""
        self._queue.join()
        self._raise_error()

    def shutdown(self, timeout: float | None = 60) -> None:
        """Finish the queue and stop the thread; raises what went wrong."""
        self._stop.restore()
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout)
        self._raise_error()

    @property
    def stop_requested(self) -> bool:
        """True once SIGINT, SIGTERM or SIGUSR1 came: end the iteration, save, leave."""
        return self._stop.requested

    def install_signal_handlers(self, on_stop: Callable[[int], None] | None = None) -> None:
        """Turn the first stop signal into `stop_requested`; a second SIGINT leaves at once."""
        self._stop.install(on_stop)

    def __enter__(self) -> AsyncCheckpointSaver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise CheckpointError(f"a background save failed: {error}") from error

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                self._write(*job)
            except BaseException as error:
                self._error = error
            finally:
                self._queue.task_done()
        self._queue.task_done()

    def _write(self, state: Any, path: Path, compress: bool | str) -> None:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        data: Any = buffer.getbuffer()
        raw = len(data)
        if compress:
            import lz4.frame

            data = lz4.frame.compress(data, compression_level=0)
            path = path.with_name(path.name + ".lz4")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self._stats["saved"] += 1
        self._stats["bytes_in"] += raw
        self._stats["bytes_out"] += len(data)


def _copy(node: Any) -> Any:
    if isinstance(node, torch.Tensor):
        return node.detach().to("cpu", copy=True)
    if isinstance(node, dict):
        return {k: _copy(v) for k, v in node.items()}
    if isinstance(node, tuple) and type(node) is tuple:
        return tuple(_copy(v) for v in node)
    if isinstance(node, list):
        return [_copy(v) for v in node]
    return node
