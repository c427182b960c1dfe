"""RolloutStorage: batches of experience in a folder, one compressed and checked file each, any part read on its own."""

from __future__ import annotations

import operator
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from slipstream.rollouts.broken import BrokenFiles, OnBroken
from slipstream.rollouts.columns import effort
from slipstream.rollouts.file import Batch, RolloutWriter
from slipstream.rollouts.reader import RolloutFile
from slipstream.rollouts.sampling import SliceSampler
from slipstream.rollouts.tree import lead_of, take_apart
from slipstream.storage.codec import Workers
from slipstream.storage.errors import DamagedFileError, SaveError
from slipstream.storage.files import FileSystem, WriterLock, prepare_folder
from slipstream.storage.queue import NICE, SaveQueue, close_after, timings
from slipstream.storage.staging import Buffer, Staging

_NAME = re.compile(r"rollout_(\d{6,})\.slip")
OPEN_FILES = 256  # maps kept for the next read; each holds a file handle


class RolloutError(SaveError):
    """A rollout could not be saved; the message says what to do, the cause is chained."""


@dataclass
class _Job:
    path: Path
    batch: Batch
    buffer: Buffer


class RolloutStorage:
    """Saves batches beside the training and reads them back, whole or in part.

        with RolloutStorage("runs/NAME/rollouts") as storage:
            for i, batch in enumerate(collector):
                algo.update(batch)
                if i % 100 == 0:
                    storage.save(batch, iteration=i)            # returns once the batch is copied

        batch = storage.load(100, device="cuda")                # as it was saved
        part = storage.load_slice(100, envs=[3, 7], steps=slice(0, 8), keys=["observation", "action"])

    A batch is a TensorDict or a nested dict of tensors, [envs, steps, ...] (or [steps, ...]); strings, numbers and lists among
    them are kept too. Reading needs no lock and sees whole files only; one process at a time writes into a folder.

    compression_level: 0-16, the documents' scale: 0 stores raw; to 9, LZ4, fast; 10 and more, zstd: a fifth smaller, slower.
    asynchronous: False lets `save` return when the file is on the disk.
    max_queue_size, queue_policy: how many batches may wait, and what `save` does then: "block", "drop_oldest", "keep_newest"
        or "raise". What is dropped is counted in `get_stats()`.
    on_broken: what iterating, `iterations`, `slices`, `find_episodes` and `export` do with a file that is cut off or damaged: "raise"
        names those that are whole, "skip" warns and goes on, a function (path, error) is told. `load` of a broken one always raises.
    An error of the background thread is raised, as RolloutError, by the next `save`, `wait`, `load` or `close`; that call does
    nothing else, and later ones work again once the cause is gone.
    """

    def __init__(
        self,
        save_dir: str | Path,
        compression_level: int = 9,
        *,
        asynchronous: bool = True,
        max_queue_size: int = 3,
        queue_policy: str = "block",
        threads: int | None = None,
        verbose: bool = False,
        on_broken: OnBroken = "raise",
        fs: FileSystem | None = None,
    ) -> None:
        effort(compression_level)  # refuses what it does not know
        self.save_dir = Path(save_dir)
        self.compression_level, self.asynchronous, self.verbose = compression_level, asynchronous, verbose
        self._broken = BrokenFiles(on_broken)
        self._settings = (max_queue_size, queue_policy)
        self._fs = fs or FileSystem()
        self._workers = Workers(threads, nice=NICE)
        self._writer = RolloutWriter(compression_level, self._workers, self._fs)
        self._staging = Staging()
        self._lock = WriterLock(self.save_dir)
        self._queue: SaveQueue[_Job] | None = None  # whoever only reads starts no thread and takes no lock
        self._closed = False
        self._counts = dict.fromkeys(("saved", "bytes_in", "bytes_out"), 0)
        self._blocking_ms: deque[float] = deque(maxlen=1000)
        self._files: OrderedDict[Path, RolloutFile] = OrderedDict()
        self._files_lock = threading.Lock()

    # --- writing

    def save(
        self, data: Any, iteration: int, *, batch_dims: int | None = None, note: dict[str, Any] | None = None
    ) -> Path:
        """Keep the batch as it is now and write it in the background; the path it will have. An iteration saved before is replaced.

        batch_dims: how many leading dimensions are the batch's: 2 for [envs, steps], 1 for [steps]; found out by default.
        note: plain data stored with it, and shown by `slipstream rollouts show`.
        """
        start = time.perf_counter()
        path = self.path_of(iteration)
        queue = self._writing()
        queue.make_room()
        tree, leaves, keys = take_apart(data)
        lead = lead_of(data, keys, [tuple(leaf.shape) for leaf in leaves.data], batch_dims)
        buffer = self._staging.snapshot(leaves)
        queue.put(
            _Job(path, Batch(operator.index(iteration), tree, keys, lead, buffer.layout, dict(note or {})), buffer)
        )
        self._blocking_ms.append(1e3 * (time.perf_counter() - start))
        if not self.asynchronous:
            queue.wait()
        return path

    def wait(self, timeout: float | None = None) -> None:
        """Block until everything saved is on the disk; raises what went wrong."""
        if self._queue is not None:
            self._queue.wait(timeout)

    def close(self, timeout: float | None = 60) -> None:
        """Finish what is queued and let everything go; raises what went wrong and was not raised before. Safe to call twice."""
        self._closed = True
        with self._files_lock:
            self._files.clear()
        if self._queue is not None and self._queue.close(timeout):
            self._workers.close()
            self._lock.release()
            self._queue.raise_errors()

    shutdown = close

    def __enter__(self) -> RolloutStorage:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        close_after(self.close, RolloutError, error)

    def get_stats(self) -> dict[str, Any]:
        """What was saved and what it cost. Times in milliseconds, over the last 1,000 saves."""
        out, queue = self._counts["bytes_out"], self._queue
        return {
            "total_saved": self._counts["saved"],
            **self._counts,
            "dropped": 0 if queue is None else queue.dropped,
            "failed": 0 if queue is None else queue.failed,
            "compression_ratio": self._counts["bytes_in"] / out if out else 1.0,
            "queue_size": 0 if queue is None else len(queue),
            **timings(self._blocking_ms, deque() if queue is None else queue.background_ms),
        }

    # --- reading

    def path_of(self, iteration: int) -> Path:
        """The file of an iteration, whether it is there or not."""
        number = operator.index(iteration)
        if number < 0:
            raise ValueError(f"iteration is {number}: use 0 or more")
        return self.save_dir / f"rollout_{number:06d}.slip"

    def iterations(self) -> list[int]:
        """The iterations that are there, in order; where broken files are skipped, those that can be opened."""
        return self.readable() if self.skips_broken else self._there()

    def readable(self, iterations: Iterable[int] | None = None) -> list[int]:
        """Those iterations (all by default) whose files can be opened; a broken one is raised or skipped, as `on_broken` says.

        Opening a file checks its head and its end; its data are checked as they are read.
        """
        good = []
        for iteration in self._there() if iterations is None else iterations:
            try:
                self.file(iteration)
            except DamagedFileError as error:
                self.met_broken(iteration, error)
            else:
                good.append(iteration)
        return good

    @property
    def skips_broken(self) -> bool:
        """Whether reading goes on without broken files."""
        return self._broken.skips

    def met_broken(self, iteration: int, error: DamagedFileError) -> None:
        """What `on_broken` says about a file that could not be read."""
        self._broken.met(
            self.path_of(iteration), error, lambda: [i for i in self._there() if i != iteration and self._opens(i)]
        )

    def file(self, iteration: int) -> RolloutFile:
        """The file of an iteration, opened: its keys, shapes and sizes, and `read` and `read_slice`."""
        path = self.path_of(iteration)
        if self._queue is not None and any(job.path == path for job in self._queue.pending()):
            self._queue.wait()
        elif self._queue is not None:
            self._queue.raise_errors()
        return self._open(path)

    def load(self, iteration: int, device: torch.device | str | None = None, keys: Iterable[Any] | None = None) -> Any:
        """The batch of an iteration as it was saved, on `device` (by default in main memory); `keys` leaves out all other tensors."""
        return self.file(iteration).read(keys, device)

    def load_slice(
        self,
        iteration: int,
        envs: Any = None,
        steps: Any = None,
        keys: Iterable[Any] | None = None,
        device: torch.device | str | None = None,
    ) -> Any:
        """Some environments and steps of a batch, both dimensions kept; nothing else is decoded.

        envs, steps: a number, a slice, numbers or a mask; all by default. What has no such dimensions comes whole.
        """
        return self.file(iteration).read_slice(envs, steps, keys, device)

    def slices(
        self,
        length: int = 32,
        keys: Iterable[Any] | None = None,
        iterations: Iterable[int] | None = None,
        seed: int | None = None,
    ) -> SliceSampler:
        """What draws random runs of `length` steps out of all batches, decoding nothing else:

        runs = storage.slices(32, keys=["observation", "action", "reward"])
        batch = runs.sample(256)                            # [256, 32, ...]
        """
        paths = [self.path_of(i) for i in self.readable(iterations)]
        return SliceSampler(
            paths, self._open, length, keys, seed, lambda path, error: self.met_broken(iteration_of(path), error)
        )

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """(iteration, batch) of all that are there, in order, each read when its turn comes."""
        for iteration in self._there():
            try:
                batch = self.load(iteration)
            except DamagedFileError as error:
                self.met_broken(iteration, error)
            else:
                yield iteration, batch

    def __len__(self) -> int:
        return len(self.iterations())

    def __contains__(self, iteration: object) -> bool:
        self.wait()
        return isinstance(iteration, int) and iteration >= 0 and self.path_of(iteration).exists()

    # --- inside

    def _there(self) -> list[int]:
        self.wait()
        return [iteration_of(path) for path in rollout_files(self.save_dir)]

    def _opens(self, iteration: int) -> bool:
        try:
            self._open(self.path_of(iteration))
        except (DamagedFileError, OSError):
            return False
        return True

    def _writing(self) -> SaveQueue[_Job]:
        """The queue, started at the first save: the folder is made, locked, and cleared of what killed processes left."""
        if self._queue is None:
            if self._closed:
                raise RolloutError("this storage is shut down: make a new one")
            prepare_folder(self.save_dir)
            try:
                self._lock.take()
            except BlockingIOError as error:
                raise RolloutError(str(error)) from error
            size, policy = self._settings
            self._queue = SaveQueue(
                self._write,
                lambda job: self._staging.release(job.buffer),
                name_of=lambda job: str(job.path),
                size=size,
                policy=policy,
                error=RolloutError,
                owner="storage",
                say=self._say,
                on_exit=self.close,
            )
        self._queue.check()
        return self._queue

    def _write(self, job: _Job) -> None:
        written = self._writer.write(job.path, job.batch, job.buffer.fetch())
        self._counts["saved"] += 1
        self._counts["bytes_in"] += job.buffer.layout.nbytes
        self._counts["bytes_out"] += written
        self._say(f"{job.path}: {job.buffer.layout.nbytes / 1e6:.1f} MB as {written / 1e6:.1f} MB")

    def _open(self, path: Path) -> RolloutFile:
        """The file, from the maps that are kept where it is still the same one."""
        with self._files_lock:
            kept = self._files.pop(path, None)
        try:
            status = path.stat()
        except FileNotFoundError:
            there = [iteration_of(p) for p in rollout_files(self.save_dir)]
            held = f"{len(there)} others, from {min(there)} to {max(there)}" if there else "none at all"
            raise FileNotFoundError(f"{path} does not exist; there are {held}") from None
        if kept is None or kept.stamp != (status.st_ino, status.st_mtime_ns, status.st_size):
            kept = RolloutFile(path)
        if not self._closed:
            with self._files_lock:
                self._files[path] = kept
                while len(self._files) > OPEN_FILES:
                    self._files.popitem(last=False)
        return kept

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"[rollout] {text}", flush=True)


def rollout_files(folder: str | Path) -> list[Path]:
    """The rollout files of a folder, by iteration."""
    folder = Path(folder)
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=iteration_of)


def iteration_of(path: Path) -> int:
    """The iteration in a file's name."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path} is not named as a rollout file is: rollout_000100.slip")
    return int(match[1])
