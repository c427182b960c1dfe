"""RolloutStorage: batches of experience in a folder, one compressed and checked file each; any part can be read."""

from __future__ import annotations

import itertools
import operator
import re
import stat
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from slipstream.rollouts.columns import effort
from slipstream.rollouts.pickled import load_rollout
from slipstream.rollouts.reader import BROKEN, RolloutFile, SliceSampler
from slipstream.rollouts.writer import Key, RolloutWriter, leading_dimensions, split
from slipstream.storage.background import SAVER_NICE, BackgroundWorker
from slipstream.storage.errors import DamagedFileError, SaveError
from slipstream.storage.files import FileSystem, WriterLock, prepare_folder, regular_files
from slipstream.storage.saver import SnapshotSaver
from slipstream.storage.serializer import flatten, to_json
from slipstream.storage.staging import Buffer

OPEN_FILES = 256  # kept for the next read; each holds a file handle
_NAME = re.compile(r"rollout_(\d{6,18})\.slip")

OnBroken = str | Callable[[Path, Exception], None]


class RolloutError(SaveError):
    """A rollout could not be saved. The message says what to do; the cause is chained."""


class RolloutStorage(SnapshotSaver):
    """Saves batches in the background and reads them back, completely or in part.

        with RolloutStorage("runs/NAME/rollouts") as storage:
            for i, batch in enumerate(collector):
                algo.update(batch)
                if i % 100 == 0:
                    storage.save(batch, iteration=i)            # returns once the batch is copied

        batch = storage.load(100, device="cuda")                # as it was saved
        part = storage.load_slice(100, envs=[3, 7], steps=slice(0, 8), keys=["observation", "action"])

    A batch is a TensorDict or a nested dict of tensors, [envs, steps, ...] (or [steps, ...]); strings, numbers and
    lists among them are kept too. Reading needs no lock and sees complete files only; one process at a time writes into
    a folder. An error of the background thread is raised, as RolloutError, by the next `save`, `wait`, `load` or
    `close`; that call does nothing else, and later ones work again once the cause is gone.

    Args:
        save_dir: the folder. It is made at the first save.
        compression_level: 0 to 16. 0 stores raw; up to 9 LZ4, fast; 10 and more LZ4-HC, 5 % smaller and slower to save.
        max_queue_size: how many batches may wait.
        queue_policy: what `save` does if that many wait: "block", "drop_oldest" or "raise".
            `get_stats()` counts what was dropped.
        threads: threads that compress; None for one per core, at most 4.
        verbose: print a line per saved batch.
        on_broken: what iterating, `iterations`, `slices`, `find_episodes` and `export` do with a file that is cut short
            or
            damaged: "raise" (the error names the readable ones), "skip" (with a warning), or a function (path, error)
                to call.
            `load` of a broken file always raises.
        keep: files kept in the folder, those written last; 0 keeps all.
        max_bytes: memory that one result may take; by default nine tenths of what is available. A file that needs more
            counts as broken.
        fs: the file system calls, for tests.
    """

    def __init__(
        self,
        save_dir: str | Path,
        compression_level: int = 9,
        *,
        max_queue_size: int = 3,
        queue_policy: str = "block",
        threads: int | None = None,
        verbose: bool = False,
        on_broken: OnBroken = "raise",
        keep: int = 0,
        max_bytes: int | None = None,
        fs: FileSystem | None = None,
    ) -> None:
        effort(compression_level)  # raises if it is out of range
        if not callable(on_broken) and on_broken not in ("raise", "skip"):
            raise ValueError(f"on_broken is {on_broken!r}: use 'raise', 'skip' or a function (path, error)")
        super().__init__("rollout storage", RolloutError, max_queue_size, queue_policy, verbose, fs)
        self.save_dir = Path(save_dir)
        self.compression_level = compression_level
        self.keep = keep
        self._on_broken, self._max_bytes = on_broken, max_bytes
        self._encoder = BackgroundWorker("rollout encoder", threads=threads, nice=SAVER_NICE, error=RolloutError)
        self._writer = RolloutWriter(compression_level, self._encoder, self._fs)
        self._lock: WriterLock | None = None  # readers take none, and start no thread
        self._files: OrderedDict[Path, RolloutFile] = OrderedDict()
        self._files_lock = threading.Lock()
        self._closed = False

    # --- writing

    def save(
        self, data: Any, iteration: int, *, batch_dims: int | None = None, note: dict[str, Any] | None = None
    ) -> Path:
        """Copy the batch and write it in the background; a batch of the same iteration is replaced.

        Args:
            data: a TensorDict or a nested dict of tensors.
            iteration: the number in the file's name, 0 or more.
            batch_dims: number of leading dimensions: 2 for [envs, steps], 1 for [steps]; found from the tensors by
                default.
            note: plain data stored with the batch, shown by `slipstream rollouts show`.

        Returns:
            The path the file will have.
        """
        start = time.perf_counter()
        path = self.path_of(iteration)
        self._worker.check()
        self._lock_folder()
        self._worker.make_room()
        tree, leaves, keys = split(data)
        lead = leading_dimensions(data, keys, leaves, batch_dims)
        notes, _ = flatten(dict(note or {}))
        head = {"iteration": operator.index(iteration), "note": notes, "tree": tree}
        buffer = self._staging.snapshot(leaves)
        self._queue(start, path, buffer, self._write, path, buffer, keys, lead, head)
        return path

    def shutdown(self, timeout: float | None = 60) -> None:
        """Finish the queue and release everything; raise errors that were not raised before. May be called twice."""
        self._closed = True
        with self._files_lock:
            self._files.clear()
        super().shutdown(timeout)

    close = shutdown

    def _release_all(self) -> None:
        self._encoder.close()
        if self._lock is not None:
            self._lock.release()

    # --- reading

    def path_of(self, iteration: int) -> Path:
        """Return the path of an iteration's file, whether it exists or not."""
        number = operator.index(iteration)
        if number < 0:
            raise ValueError(f"iteration is {number}: use 0 or more")
        return self.save_dir / f"rollout_{number:06d}.slip"

    def iterations(self) -> list[int]:
        """Return the saved iterations, in order; if broken files are skipped, those that can be opened."""
        return self.readable() if self.skips_broken else self._saved()

    def readable(self, iterations: Iterable[int] | None = None) -> list[int]:
        """Return those iterations (all by default) whose files can be opened; for broken ones do what `on_broken` says.

        Opening a file checks its header and index; its data are checked when they are read.
        """
        good = []
        for iteration in self._saved() if iterations is None else iterations:
            try:
                self.file(iteration)
            except BROKEN as error:
                self.handle_broken(iteration, error)
            else:
                good.append(iteration)
        return good

    @property
    def skips_broken(self) -> bool:
        """Whether reading continues without broken files."""
        return self._on_broken != "raise"

    def handle_broken(self, iteration: int, error: Exception) -> None:
        """Do what `on_broken` says about a file that could not be read; raises if that is "raise"."""
        if callable(self._on_broken):
            self._on_broken(self.path_of(iteration), error)
        elif self.skips_broken:
            warnings.warn(f"skipped a broken rollout: {error}", RuntimeWarning, stacklevel=3)
        else:
            good = as_ranges(i for i in self._saved() if i != iteration and self._can_open(i))
            others = f"iterations {good} can be opened" if good else "no other iteration can be opened"
            raise DamagedFileError(
                f"{error}. In this folder {others}; to continue without broken files: RolloutStorage(folder, on_broken='skip')"
            ) from error

    def file(self, iteration: int, max_bytes: int | None = None) -> RolloutFile:
        """Open the file of an iteration: its keys, shapes and sizes, and `read` and `read_slice`."""
        path = self.path_of(iteration)
        self._worker.wait() if str(path) in self._worker.pending() else self._worker.raise_errors()
        return self._open(path, max_bytes)

    def load(
        self,
        iteration: int,
        device: torch.device | str | None = None,
        keys: Iterable[Any] | None = None,
        max_bytes: int | None = None,
    ) -> Any:
        """Return the batch of an iteration as it was saved; also a pickled one in a `rollout_000100.lz4` (see
        `load_rollout`).

        Args:
            iteration: which batch.
            device: where to put the tensors; main memory by default.
            keys: read only these tensors; a key above several names all of them.
            max_bytes: memory that the batch may take, instead of the storage's.

        Raises:
            FileNotFoundError: if there is no such batch.
            DamagedFileError: if it cannot be read.
            TooLargeError: if it would take more than `max_bytes`.
        """
        path = self.path_of(iteration)
        pickled = path.with_suffix(".lz4")
        if keys is None and pickled.is_file() and not path.is_file() and str(path) not in self._worker.pending():
            return load_rollout(pickled, device or "cpu", max_bytes)
        return self.file(iteration, max_bytes).read(keys, device)

    def load_slice(
        self,
        iteration: int,
        envs: Any = None,
        steps: Any = None,
        keys: Iterable[Any] | None = None,
        device: torch.device | str | None = None,
        max_bytes: int | None = None,
    ) -> Any:
        """Return some environments and steps of a batch, both dimensions kept; nothing else is decoded.

        Args:
            envs: a number, a slice, numbers or a mask; all by default.
            steps: the same, of steps. Tensors without these dimensions come complete.
            max_bytes: memory that one tensor may take, instead of the storage's.
        """
        return self.file(iteration, max_bytes).read_slice(envs, steps, keys, device)

    def slices(
        self,
        length: int = 32,
        keys: Iterable[Any] | None = None,
        iterations: Iterable[int] | None = None,
        seed: int | None = None,
    ) -> SliceSampler:
        """Return a sampler of random runs of `length` steps from all batches; nothing else is decoded.

        runs = storage.slices(32, keys=["observation", "action", "reward"])
        batch = runs.sample(256)                            # [256, 32, ...]
        """
        paths = [self.path_of(i) for i in self.readable(iterations)]
        return SliceSampler(
            paths, self._open, length, keys, seed, lambda path, error: self.handle_broken(iteration_of(path), error)
        )

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield (iteration, batch) of all saved batches, in order; each is read when its turn comes."""
        for iteration in self._saved():
            try:
                batch = self.load(iteration)
            except BROKEN as error:
                self.handle_broken(iteration, error)
            else:
                yield iteration, batch

    def __len__(self) -> int:
        return len(self.iterations())

    def __contains__(self, iteration: object) -> bool:
        self.wait()
        return isinstance(iteration, int) and iteration >= 0 and self.path_of(iteration).exists()

    # --- inside

    def _saved(self) -> list[int]:
        self.wait()
        return [iteration_of(path) for path in rollout_files(self.save_dir)]

    def _can_open(self, iteration: int) -> bool:
        try:
            self._open(self.path_of(iteration))
        except (*BROKEN, OSError):
            return False
        return True

    def _lock_folder(self) -> None:
        """At the first save make the folder, remove files of killed processes, and lock it."""
        if self._lock is None:
            prepare_folder(self.save_dir, self._fs)
            lock = WriterLock(self.save_dir)
            try:
                lock.take()
            except BlockingIOError as error:
                raise RolloutError(str(error)) from error
            self._lock = lock

    def _write(self, path: Path, buffer: Buffer, keys: list[Key], lead: tuple[int, ...], head: dict[str, Any]) -> None:
        head = {**head, "note": to_json(head["note"]), "tree": to_json(head["tree"])}
        self._count(path, buffer.layout.nbytes, self._writer.write(path, buffer, keys, lead, head))
        if self.keep:  # by time: a resumed run may write lower iterations than there are
            files = [(p.lstat(), p) for p in rollout_files(self.save_dir)]
            written = sorted((s.st_mtime_ns, iteration_of(p), p) for s, p in files if stat.S_ISREG(s.st_mode))
            for *_, old in written[: -self.keep]:
                old.unlink(missing_ok=True)

    def _open(self, path: Path, max_bytes: int | None = None) -> RolloutFile:
        """Open the file, or return the open one if it is still the same."""
        max_bytes = self._max_bytes if max_bytes is None else max_bytes
        with self._files_lock:
            kept = self._files.pop(path, None)
        try:
            status = path.stat()
        except FileNotFoundError:
            saved = [iteration_of(p) for p in rollout_files(self.save_dir)]
            others = f"{len(saved)} others, from {min(saved)} to {max(saved)}" if saved else "none at all"
            raise FileNotFoundError(f"{path} does not exist; there are {others}") from None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if kept is None or (kept.stamp, kept.max_bytes) != (stamp, max_bytes):
            kept = RolloutFile(path, max_bytes)
        if not self._closed:
            with self._files_lock:
                self._files[path] = kept
                while len(self._files) > OPEN_FILES:
                    self._files.popitem(last=False)
        return kept


def rollout_files(folder: str | Path) -> list[Path]:
    """Return the rollout files of a folder, by iteration."""
    return sorted(regular_files(Path(folder), lambda name: _NAME.fullmatch(name) is not None), key=iteration_of)


def iteration_of(path: Path) -> int:
    """Return the iteration in a file's name."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path} is not named as a rollout file is: rollout_000100.slip")
    return int(match[1])


def as_ranges(numbers: Iterable[int]) -> str:
    """Return 0, 1, 2, 5 as `0-2,5`, as the command line takes it."""
    runs = itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(group) for _, group in runs)]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ends)
