"""AsyncCheckpointSaver: snapshot at once, write later."""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.checkpoint import tree
from slipstream.checkpoint.errors import CheckpointError
from slipstream.checkpoint.forms import snapshot_state, write_lz4, write_pt
from slipstream.checkpoint.reader import aside_name
from slipstream.checkpoint.retention import Entry, Retention, needed_bases, read_entry
from slipstream.checkpoint.signals import StopFlag
from slipstream.checkpoint.writer import Base, SlipWriter, make_image
from slipstream.storage.codec import Workers
from slipstream.storage.codec.registry import zstandard_module
from slipstream.storage.files import FileSystem, prepare_folder
from slipstream.storage.queue import NICE, SaveQueue, close_after, timings
from slipstream.storage.staging import Buffer, Staging

_SUFFIX = {"slip": ".slip", "lz4": ".lz4", "pt": ""}


@dataclass
class _Job:
    structure: Any
    buffer: Buffer
    path: Path
    form: str
    metrics: dict[str, float]
    step: int | None


class AsyncCheckpointSaver:
    """Saves checkpoints beside the training. `save_async` returns once the state is copied; a thread compresses and writes it.

        with AsyncCheckpointSaver(full_every=10, keep_last=5) as saver:
            saver.install_signal_handlers()
            for it in range(iterations):
                ...
                if it % 100 == 0 or saver.stop_requested:
                    saver.save_async(state(), f"runs/checkpoint_{it}.pt", metrics={"return": mean_return})
                if saver.stop_requested:
                    break

    max_queue_size: snapshots that may wait, besides the one being written.
    queue_policy: what `save_async` does when that many wait: "block"; "drop_oldest" of those waiting; "keep_newest" (drop all
        that wait); "raise". What is dropped is counted in `get_stats()`.
    compression_level: 0-16, the documents' scale; LZ4's own for "lz4"; for ours 0 stores raw and 1-9 is the fast setting.
    full_every: write a whole file every n-th time and differences to it in between; needs one snapshot's memory more.
    moments: "int8" or "bf16" stores optimizer moments approximately (lossy, much smaller); None keeps every bit.
    keep_last, keep_every, best_metric, best_mode, links: see `Retention`.
    threads: how many compress; by default as many as there are cores, at most 4.

    An error of the thread is raised, as CheckpointError, by the next `save_async`, `wait` or `shutdown`; that call saves
    nothing, and later ones work again once the cause is gone.
    """

    def __init__(
        self,
        max_queue_size: int = 3,
        verbose: bool = False,
        *,
        queue_policy: str = "block",
        compression_level: int = 9,
        full_every: int = 1,
        moments: str | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        best_metric: str | None = None,
        best_mode: str = "max",
        links: bool = False,
        threads: int | None = None,
        fs: FileSystem | None = None,
    ) -> None:
        if full_every < 1:
            raise ValueError(f"full_every ({full_every}) must be at least 1")
        if moments not in (None, "int8", "bf16"):
            raise ValueError(f"moments is {moments!r}: use None (exact), 'bf16' or 'int8'")
        if not 0 <= compression_level <= 16:
            raise ValueError(f"compression_level is {compression_level}: use 0 (none) to 16")
        self.max_queue_size, self.queue_policy, self.verbose = max_queue_size, queue_policy, verbose
        self.compression_level, self.full_every, self.moments = compression_level, full_every, moments
        self.retention = Retention(keep_last, keep_every, best_metric, best_mode, links)
        self._fs = fs or FileSystem()
        self._workers = Workers(threads, nice=NICE)
        self._writer = SlipWriter(self._workers, self._fs)
        self._staging = Staging()
        self._stop = StopFlag()
        self._base: Base | None = None
        self._base_buffer: Buffer | None = None
        self._since_full = 0
        self._known: dict[Path, Entry] = {}
        self._folders: set[str] = set()
        self._counts = dict.fromkeys(
            ("saved", "full", "differences", "bytes_in", "bytes_out", "packed_in", "packed_out"), 0
        )
        self._blocking_ms: deque[float] = deque(maxlen=1000)
        self._queue: SaveQueue[_Job] = SaveQueue(
            self._write,
            self._release,
            name_of=lambda job: str(job.path),
            size=max_queue_size,
            policy=queue_policy,
            error=CheckpointError,
            owner="saver",
            say=self._say,
            on_exit=self.shutdown,
        )

    def save_async(
        self,
        checkpoint: Any,
        path: str | Path,
        compress: bool | str = True,
        *,
        metrics: dict[str, float] | None = None,
        step: int | None = None,
    ) -> Path:
        """Keep the state as it is now and write it in the background; the path it will have.

        compress: True writes `path`.slip, our format; "lz4" `path`.lz4; False `path` itself, a plain torch file.
        metrics: numbers stored with the checkpoint, among them the one `best_metric` names. step: the iteration; else taken
        from the file's name.
        """
        start = time.perf_counter()
        form = _form(compress)
        name = os.fspath(path)
        target = Path(name if name.endswith(_SUFFIX[form]) else name + _SUFFIX[form])
        self._queue.check()
        folder = os.path.dirname(name)
        if folder not in self._folders:
            prepare_folder(target.parent)
            self._folders.add(folder)
        self._queue.make_room()
        structure, leaves = tree.freeze(checkpoint)
        buffer = self._staging.snapshot(leaves)
        job = _Job(structure, buffer, target, form, {k: float(v) for k, v in (metrics or {}).items()}, step)
        self._queue.put(job)
        self._blocking_ms.append(1e3 * (time.perf_counter() - start))
        return target

    def get_stats(self) -> dict[str, Any]:
        """What was saved and what it cost. Times in milliseconds, over the last 1,000 saves.

        `bytes_in` and `bytes_out` are of all files, `compression_ratio` and the `packed_*` it is made of those that were compressed.
        """
        out = self._counts["packed_out"]
        return {
            "total_saved": self._counts["saved"],
            **self._counts,
            "dropped": self._queue.dropped,
            "failed": self._queue.failed,
            "compression_ratio": self._counts["packed_in"] / out if out else 1.0,
            "queue_size": len(self._queue),
            **timings(self._blocking_ms, self._queue.background_ms),
        }

    def wait(self, timeout: float | None = None) -> None:
        """Block until everything queued is on the disk; raises what went wrong."""
        self._queue.wait(timeout)

    def shutdown(self, timeout: float | None = 60) -> None:
        """Finish the queue and end the threads; raises what went wrong and was not raised before. Safe to call twice."""
        self._stop.restore()
        if self._queue.close(timeout):  # a forked child owns neither the thread nor the files
            self._workers.close()
            self._queue.raise_errors()

    @property
    def stop_requested(self) -> bool:
        """True once SIGINT, SIGTERM or SIGUSR1 came: end the iteration, save a last checkpoint, leave."""
        return self._stop.requested

    def install_signal_handlers(self, on_stop: Callable[[int], None] | None = None) -> None:
        """Turn the first SIGINT, SIGTERM or SIGUSR1 into `stop_requested`; a second SIGINT ends the process at once.

        The handler saves nothing itself: in the middle of an update the state is neither the old nor the new one. The loop
        asks `stop_requested` after each iteration, saves and leaves; `shutdown` finishes the queue and gives the signals
        back. `on_stop(signum)` is called when the first signal comes, to tell the user. Call this from the main thread.
        """
        self._stop.install(on_stop)

    def __enter__(self) -> AsyncCheckpointSaver:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        close_after(self.shutdown, CheckpointError, error)

    def _release(self, job: _Job) -> None:
        if job.buffer is not self._base_buffer:
            self._staging.release(job.buffer)

    def _write(self, job: _Job) -> None:
        host = job.buffer.fetch()
        layout = job.buffer.layout
        self._put_aside(job.path)
        if job.form == "slip":
            written, identity, base = self._write_slip(job, host)
        else:
            state = snapshot_state(job.structure, layout, host)
            identity, base = b"", b""
            if job.form == "lz4":
                written = write_lz4(job.path, state, self.compression_level, self._fs)
            else:
                written = write_pt(job.path, state, self._fs)
        self._counts["saved"] += 1
        self._counts["bytes_in"] += layout.nbytes
        self._counts["bytes_out"] += written
        if job.form != "pt":
            self._counts["packed_in"] += layout.nbytes
            self._counts["packed_out"] += written
        step = job.step if job.step is not None else read_step(job.path)
        self._known[job.path] = Entry(job.path, step, identity, base, job.metrics)
        self._say(f"{job.path}: {layout.nbytes / 1e6:.1f} MB as {written / 1e6:.1f} MB")
        removed = self.retention.apply(job.path, self._known, self._fs)
        if self._base is not None and self._base.path in removed:
            self._forget_base()

    def _write_slip(self, job: _Job, host: np.ndarray) -> tuple[int, bytes, bytes]:
        layout = job.buffer.layout
        image = make_image(layout, host, self.moments)
        base = self._base if self._can_differ(job) else None
        identity, written = self._writer.write(
            job.path,
            job.structure,
            layout.views,
            image,
            level=_zstd_level(self.compression_level),
            base=base,
            metrics=job.metrics,
            step=job.step,
        )
        self._counts["differences" if base else "full"] += 1
        if base is not None:
            self._since_full += 1
        elif self.full_every > 1:
            self._forget_base()
            self._base, self._base_buffer, self._since_full = Base(job.path, identity, layout, image), job.buffer, 0
        return written, identity, base.identity if base else b""

    def _can_differ(self, job: _Job) -> bool:
        """A difference needs its whole file on disk, beside it, untouched, and the same tensors."""
        base = self._base
        if base is None or self._since_full + 1 >= self.full_every or base.layout != job.buffer.layout:
            return False
        if base.path.parent != job.path.parent or base.path == job.path:
            return False
        return read_entry(base.path, 0).identity == base.identity

    def _forget_base(self) -> None:
        if self._base_buffer is not None:
            self._staging.release(self._base_buffer)
        self._base = self._base_buffer = None

    def _put_aside(self, path: Path) -> None:
        """Before a whole file is written over: keep it under another name while differences need it."""
        if path.suffix != ".slip" or not path.exists():
            return
        identity = read_entry(path, 0).identity
        aside = path.with_name(aside_name(identity))
        if identity in needed_bases(path.parent) and not aside.exists():
            self._fs.link(path, aside)

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"[checkpoint] {text}", flush=True)


def read_step(path: Path) -> int:
    """The last number in a file's name, or 0."""
    digits = "".join(c if c.isdigit() else " " for c in path.name.split(".pt")[0]).split()
    return int(digits[-1]) if digits else 0


@functools.cache
def _form(compress: bool | str) -> str:
    if compress is True or compress == "slip":
        zstandard_module()  # asked for here, so that its absence is told to the caller
        return "slip"
    if compress is False:
        return "pt"
    if compress == "lz4":
        if find_spec("lz4") is None:
            raise ImportError(
                "compress='lz4' needs the lz4 package: pip install lz4, or save with compress=True or False"
            )
        return "lz4"
    raise ValueError(f"compress is {compress!r}: use True (our format), 'lz4' or False (a plain .pt)")


def _zstd_level(level: int) -> int:
    """The documents' 0-16 as the nearest effort of ours. Beyond 9 it buys less than a percent on weights."""
    return 0 if level == 0 else 1 if level <= 9 else 3 if level <= 12 else 6
