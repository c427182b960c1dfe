"""AsyncCheckpointSaver: snapshot at once, write later."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
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
from slipstream.checkpoint.files import FileSystem, stale_files
from slipstream.checkpoint.forms import snapshot_state, write_lz4, write_pt
from slipstream.checkpoint.reader import aside_name
from slipstream.checkpoint.retention import Entry, Retention, needed_bases, read_entry
from slipstream.checkpoint.signals import StopFlag
from slipstream.checkpoint.staging import Buffer, Staging
from slipstream.checkpoint.writer import Base, SlipWriter, make_image
from slipstream.codec import Workers
from slipstream.codec.chunk import zstandard_module
from slipstream.codec.workers import lower_priority

POLICIES = ("block", "drop_oldest", "keep_newest", "raise")
_SUFFIX = {"slip": ".slip", "lz4": ".lz4", "pt": ""}
_NICE = 10  # the training comes first: the saver's threads take what it leaves


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
        if max_queue_size < 1 or full_every < 1:
            raise ValueError(f"max_queue_size ({max_queue_size}) and full_every ({full_every}) must be at least 1")
        if queue_policy not in POLICIES:
            raise ValueError(f"queue_policy is {queue_policy!r}: use one of {', '.join(POLICIES)}")
        if moments not in (None, "int8", "bf16"):
            raise ValueError(f"moments is {moments!r}: use None (exact), 'bf16' or 'int8'")
        if not 0 <= compression_level <= 16:
            raise ValueError(f"compression_level is {compression_level}: use 0 (none) to 16")
        self.max_queue_size, self.queue_policy, self.verbose = max_queue_size, queue_policy, verbose
        self.compression_level, self.full_every, self.moments = compression_level, full_every, moments
        self.retention = Retention(keep_last, keep_every, best_metric, best_mode, links)
        self._fs = fs or FileSystem()
        self._workers = Workers(threads, nice=_NICE)
        self._writer = SlipWriter(self._workers, self._fs)
        self._staging = Staging()
        self._stop = StopFlag()
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._writing = self._closing = False
        self._errors: list[tuple[Path, BaseException]] = []
        self._base: Base | None = None
        self._base_buffer: Buffer | None = None
        self._since_full = 0
        self._known: dict[Path, Entry] = {}
        self._folders: set[str] = set()
        self._counts = dict.fromkeys(("saved", "full", "differences", "dropped", "failed", "bytes_in", "bytes_out"), 0)
        self._blocking_ms: deque[float] = deque(maxlen=1000)
        self._background_ms: deque[float] = deque(maxlen=1000)
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="slipstream-saver", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

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
        self._check_open()
        self._raise_errors()
        folder = os.path.dirname(name)
        if folder not in self._folders:
            self._enter_folder(target.parent)
            self._folders.add(folder)
        self._make_room()
        structure, leaves = tree.freeze(checkpoint)
        buffer = self._staging.snapshot(leaves)
        job = _Job(structure, buffer, target, form, {k: float(v) for k, v in (metrics or {}).items()}, step)
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()
        self._blocking_ms.append(1e3 * (time.perf_counter() - start))
        return target

    def get_stats(self) -> dict[str, Any]:
        """What was saved and what it cost. Times in milliseconds, over the last 1,000 saves."""
        blocking, background = list(self._blocking_ms), list(self._background_ms)
        out = self._counts["bytes_out"]
        return {
            "total_saved": self._counts["saved"],
            **self._counts,
            "compression_ratio": self._counts["bytes_in"] / out if out else 1.0,
            "queue_size": len(self._jobs) + self._writing,
            "blocking_ms_median": float(np.median(blocking)) if blocking else 0.0,
            "blocking_ms_p99": float(np.percentile(blocking, 99)) if blocking else 0.0,
            "background_ms_median": float(np.median(background)) if background else 0.0,
            "background_ms_p99": float(np.percentile(background, 99)) if background else 0.0,
        }

    def wait(self, timeout: float | None = None) -> None:
        """Block until everything queued is on the disk; raises what went wrong."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._jobs and not self._writing, timeout):
                raise CheckpointError(f"{len(self._jobs) + self._writing} saves are still unfinished after {timeout} s")
        self._raise_errors()

    def shutdown(self, timeout: float | None = 60) -> None:
        """Finish the queue and end the threads; raises what went wrong and was not raised before. Safe to call twice."""
        self._stop.restore()
        if os.getpid() != self._pid:  # a forked child owns neither the thread nor the files
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise CheckpointError(f"{len(self._jobs) + self._writing} saves are unfinished after {timeout} s: give shutdown more time")
        self._workers.close()
        atexit.unregister(self._at_exit)
        self._raise_errors()

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
        try:
            self.shutdown()
        except CheckpointError as failure:
            if error is None:
                raise
            error.add_note(f"and: {failure}")  # the block's own error comes first

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise CheckpointError("this saver belongs to the parent process: make one after the fork")
        if self._closing or not self._thread.is_alive():
            raise CheckpointError("this saver is shut down: make a new one")

    def _raise_errors(self) -> None:
        with self._changed:
            errors, self._errors = self._errors, []
        if errors:
            path, error = errors[0]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise CheckpointError(f"saving {path} failed{more}: {type(error).__name__}: {error}") from error

    def _enter_folder(self, folder: Path) -> None:
        """Make the folder at the first save into it, and clear away what a killed process left half written."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in stale_files(folder):
            with contextlib.suppress(OSError):
                path.unlink()

    def _make_room(self) -> None:
        with self._changed:
            if len(self._jobs) < self.max_queue_size:
                return
            if self.queue_policy == "raise":
                raise CheckpointError(f"{len(self._jobs)} snapshots wait to be written: save less often, or choose another queue_policy")
            if self.queue_policy == "block":
                self._say("the queue is full: waiting")
                self._changed.wait_for(lambda: len(self._jobs) < self.max_queue_size)
                return
            while len(self._jobs) >= (self.max_queue_size if self.queue_policy == "drop_oldest" else 1):
                dropped = self._jobs.popleft()
                self._staging.release(dropped.buffer)
                self._counts["dropped"] += 1
                self._say(f"the queue is full: {dropped.path} is not written")

    def _work(self) -> None:
        lower_priority(_NICE)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                job = self._jobs.popleft()
                self._writing = True
                self._changed.notify_all()
            start = time.perf_counter()
            error: BaseException | None = None
            try:
                self._write(job)
            except BaseException as caught:
                error = caught
            with self._changed:
                if error is not None:
                    self._errors.append((job.path, error))
                    self._counts["failed"] += 1
                    self._say(f"saving {job.path} failed: {error}")
                if job.buffer is not self._base_buffer:
                    self._staging.release(job.buffer)
                self._background_ms.append(1e3 * (time.perf_counter() - start))
                self._writing = False
                self._changed.notify_all()
            del job

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

    def _at_exit(self) -> None:
        """The interpreter leaves without `shutdown`: write what is queued all the same."""
        with contextlib.suppress(CheckpointError):
            self.shutdown()


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
            raise ImportError("compress='lz4' needs the lz4 package: pip install lz4, or save with compress=True or False")
        return "lz4"
    raise ValueError(f"compress is {compress!r}: use True (our format), 'lz4' or False (a plain .pt)")


def _zstd_level(level: int) -> int:
    """The documents' 0-16 as the nearest effort of ours. Beyond 9 it buys less than a percent on weights."""
    return 0 if level == 0 else 1 if level <= 9 else 3 if level <= 12 else 6
