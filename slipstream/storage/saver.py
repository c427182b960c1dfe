"""The base of the checkpoint saver and of the rollout storage: copy the state now, write it in the background."""

from __future__ import annotations

import functools
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from slipstream.storage.background import SAVER_NICE, BackgroundWorker, close_after
from slipstream.storage.errors import SaveError
from slipstream.storage.staging import Buffer, Staging

QUEUE_POLICIES = ("block", "drop_oldest", "raise")


class SnapshotSaver:
    """Writes snapshots in a thread; counts and times the saves.

    A subclass calls `_queue` in its save method, and `_count` in the function that writes.

    Args:
        name: what messages call it, such as "checkpoint saver".
        error: the class of its errors.
        max_queue_size: snapshots that may wait, besides the one being written.
        queue_policy: what a save does when that many wait: "block", "drop_oldest" or "raise".
        verbose: print a line per save.
        announce: gets a line when the queue is first full; stderr if None.
    """

    full_hint: ClassVar[str] = ""  # names the settings, after the advice for a full queue

    def __init__(
        self,
        name: str,
        error: type[SaveError],
        max_queue_size: int,
        queue_policy: str,
        verbose: bool,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        if type(max_queue_size) is not int or max_queue_size < 1:
            raise ValueError(f"max_queue_size={max_queue_size!r} must be a whole number from 1 on")
        if queue_policy not in QUEUE_POLICIES:
            raise ValueError(f"queue_policy={queue_policy!r} is unknown: use one of {', '.join(QUEUE_POLICIES)}")
        self.max_queue_size, self.queue_policy, self.verbose = max_queue_size, queue_policy, verbose
        self._error = error
        self._announce = announce or functools.partial(print, file=sys.stderr, flush=True)
        self._staging = Staging()
        self._counts = dict.fromkeys(("saved", "bytes_in", "bytes_out", "packed_in", "packed_out", "queue_full"), 0)
        self._blocking_ms: deque[float] = deque(maxlen=1000)
        self._worker = BackgroundWorker(name, nice=SAVER_NICE, error=error, on_exit=self.shutdown)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything saved is on the disk; raise the errors of saves that failed."""
        self._worker.wait(timeout)

    def shutdown(self, timeout: float | None = 60) -> None:
        """Finish the queue and release everything; raise errors that were not raised before. May be called twice."""
        if self._worker.close(timeout):  # a forked child owns neither the thread nor the files
            self._release_all()
            self._worker.raise_errors()

    def get_stats(self) -> dict[str, Any]:
        """Return counts, sizes and times of the saves: in milliseconds, over the last 1,000.

        `bytes_in` and `bytes_out` count all files; `packed_*` and `compression_ratio` those that were compressed.
        """
        packed = self._counts["packed_out"]
        stats = {
            "total_saved": self._counts["saved"],
            **self._counts,
            "dropped": self._worker.dropped,
            "failed": self._worker.failed,
            "compression_ratio": self._counts["packed_in"] / packed if packed else 1.0,
            "queue_size": len(self._worker),
        }
        for name, times in (("blocking", list(self._blocking_ms)), ("background", list(self._worker.durations_ms))):
            stats[f"{name}_ms_median"] = float(np.median(times)) if times else 0.0
            stats[f"{name}_ms_p99"] = float(np.percentile(times, 99)) if times else 0.0
        return stats

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        close_after(self.shutdown, self._error, error)

    def _make_room(self) -> None:
        """Return when one more snapshot may be queued, after doing what `queue_policy` says; before one is taken."""
        if self._worker.waiting < self.max_queue_size:
            return
        if self.queue_policy == "raise":
            raise self._error(
                f"{self._worker.waiting} tasks wait for the {self._worker.name}: save less often, or choose another "
                "queue_policy"
            )
        self._counts["queue_full"] += 1
        if self._counts["queue_full"] == 1:
            effect = "this save waits" if self.queue_policy == "block" else "saves that wait are dropped"
            self._announce(
                f"[Warning] the queue of the {self._worker.name} is full ({self.max_queue_size} wait), so {effect}: "
                f"save less often, lower the compression level, or allow a longer queue{self.full_hint}"
            )
        self._worker.make_room(self.max_queue_size, drop=self.queue_policy == "drop_oldest")

    def _queue(self, started: float, path: Path, buffer: Buffer, write: Callable[..., None], *args: Any) -> None:
        """Let the thread call `write(*args)`; the save of `path` began at `started`, in seconds of perf_counter."""
        future = self._worker.submit(write, *args, label=str(path))
        future.add_done_callback(lambda _: self._release(buffer))  # also of one that is dropped
        self._blocking_ms.append(1e3 * (time.perf_counter() - started))

    def _count(self, path: Path, nbytes: int, written: int, packed: bool = True, verbose: bool = False) -> None:
        """Count a file of `written` bytes for a state of `nbytes`; print a line if `verbose`, here or for all saves."""
        self._counts["saved"] += 1
        for kind in ("bytes", "packed") if packed else ("bytes",):
            self._counts[f"{kind}_in"] += nbytes
            self._counts[f"{kind}_out"] += written
        if verbose or self.verbose:
            name, ratio = self._worker.name.split()[0], nbytes / written
            print(f"[{name}] {path}: {nbytes / 1e6:.2f} MB as {written / 1e6:.2f} MB, {ratio:.1f}x smaller", flush=True)

    def _release(self, buffer: Buffer) -> None:
        """Let the memory of a snapshot that was written, or dropped, be used again."""
        self._staging.release(buffer)

    def _release_all(self) -> None:
        """Release what the subclass holds, after the last save."""
