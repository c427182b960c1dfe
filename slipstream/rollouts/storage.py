"""RolloutStorage: batches of experience in a folder, one compressed and checked file each."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from tensordict import is_tensor_collection

from slipstream.rollouts.file import RolloutFile, common_lead, write_rollout
from slipstream.rollouts.pickled import load_rollout
from slipstream.storage.errors import SaveError
from slipstream.storage.files import WriterLock, prepare_folder, regular_files
from slipstream.storage.staging import Buffer, SnapshotSaver
from slipstream.storage.tree import flatten

_NAME = re.compile(r"rollout_(\d{6,18})\.slip")


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

    A batch is a TensorDict [envs, steps] (or [steps]) or a nested dict of tensors that begin with these dimensions;
    strings, numbers and lists among them are kept too. Reading needs no lock and sees complete files only; one process
    at a time writes into a folder. An error of the background thread is raised, as RolloutError, by the next `save`,
    `wait`, `load` or `close`; that call does nothing else, and later ones work again once the cause is gone.

    Args:
        save_dir: the folder. It is made at the first save.
        compression_level: 0 to 16. 0 stores raw; up to 9 is fast; 10 and more is smaller and slower to save.
        max_queue_size: how many batches may wait.
        queue_policy: what `save` does if that many wait: "block", "drop_oldest" or "raise".
            `get_stats()` counts what was dropped.
        verbose: print a line per saved batch, with its ratio.
        keep: files kept in the folder, those written last; 0 keeps all.
        max_bytes: memory that one result may take; by default nine tenths of what is available.
    """

    def __init__(
        self,
        save_dir: str | Path,
        compression_level: int = 9,
        *,
        max_queue_size: int = 3,
        queue_policy: str = "block",
        verbose: bool = False,
        keep: int = 0,
        max_bytes: int | None = None,
    ) -> None:
        if compression_level not in range(17):
            raise ValueError(f"compression_level is {compression_level}: use 0 (none) to 16")
        if type(keep) is not int or keep < 0:
            raise ValueError(f"keep={keep!r} must be a whole number from 0 on; 0 keeps all files")
        super().__init__("rollout storage", RolloutError, max_queue_size, queue_policy, verbose)
        self.save_dir = Path(save_dir)
        self.compression_level = compression_level
        self.keep = keep
        self._max_bytes = max_bytes
        self._lock: WriterLock | None = None  # readers take none

    # --- writing

    def save(self, data: Any, iteration: int, verbose: bool = False) -> Path:
        """Copy the batch and write it in the background; a batch of the same iteration is replaced.

        Args:
            data: a TensorDict or a nested dict of tensors.
            iteration: the number in the file's name, 0 or more.
            verbose: print a line with the sizes and their ratio when it is written.

        Returns:
            The path the file will have.

        Raises:
            TypeError: if it holds something that cannot be saved as data.
        """
        start = time.perf_counter()
        path = self.path_of(iteration)
        if not (is_tensor_collection(data) or isinstance(data, dict)):
            raise TypeError(f"a rollout is a TensorDict or a dict of tensors, not a {type(data).__name__}")
        self._worker.check()
        self._lock_folder()
        self._make_room()
        tree, leaves = flatten(data, detach=True)
        lead = common_lead(data, leaves)
        buffer = self._staging.snapshot(leaves)
        self._queue(start, path, buffer, self._write, path, buffer, tree, lead, verbose)
        return path

    close = SnapshotSaver.shutdown

    def _release_all(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _lock_folder(self) -> None:
        """At the first save make the folder, remove files of killed processes, and lock it."""
        if self._lock is None:
            prepare_folder(self.save_dir)
            lock = WriterLock(self.save_dir)
            try:
                lock.take()
            except BlockingIOError as error:
                raise RolloutError(str(error)) from error
            self._lock = lock

    def _write(self, path: Path, buffer: Buffer, tree: Any, lead: tuple[int, ...], verbose: bool) -> None:
        written = write_rollout(path, buffer, tree, lead, self.compression_level)
        self._count(path, buffer.layout.nbytes, written, verbose=verbose)
        if self.keep:  # by time: a resumed run may write lower iterations than there are
            files = sorted(rollout_files(self.save_dir), key=lambda file: file.stat().st_mtime_ns)
            for old in files[: -self.keep]:
                old.unlink(missing_ok=True)

    # --- reading

    def path_of(self, iteration: int) -> Path:
        """Return the path of an iteration's file, whether it exists or not."""
        number = operator.index(iteration)
        if number < 0:
            raise ValueError(f"iteration is {number}: use 0 or more")
        return self.save_dir / f"rollout_{number:06d}.slip"

    def iterations(self) -> list[int]:
        """Return the saved iterations, in order."""
        self.wait()
        return [iteration_of(path) for path in rollout_files(self.save_dir)]

    def file(self, iteration: int) -> RolloutFile:
        """Open the file of an iteration: its keys and shapes, `read` and `read_slice`."""
        path = self.path_of(iteration)
        self._worker.wait() if str(path) in self._worker.pending() else self._worker.raise_errors()
        try:
            return RolloutFile(path, self._max_bytes)
        except FileNotFoundError:
            saved = self.iterations()
            others = f"{len(saved)} others, from {saved[0]} to {saved[-1]}" if saved else "none at all"
            raise FileNotFoundError(f"{path} does not exist; there are {others}") from None

    def load(self, iteration: int, device: torch.device | str | None = None, keys: Iterable[Any] | None = None) -> Any:
        """Return the batch of an iteration as it was saved; also a pickled one in a `rollout_000100.lz4` (see
        `load_rollout`).

        Args:
            iteration: which batch.
            device: where to put the tensors; main memory by default.
            keys: read these tensors alone; a key above several names all of them.

        Raises:
            FileNotFoundError: if there is no such batch.
            DamagedFileError: if it cannot be read.
            TooLargeError: if it would take more than `max_bytes`.
        """
        path = self.path_of(iteration)
        pickled = path.with_suffix(".lz4")
        if pickled.is_file() and not path.is_file() and str(path) not in self._worker.pending():
            return load_rollout(pickled, device or "cpu", self._max_bytes)
        return self.file(iteration).read(keys, device)

    def load_slice(
        self,
        iteration: int,
        envs: Any = None,
        steps: Any = None,
        keys: Iterable[Any] | None = None,
        device: torch.device | str | None = None,
    ) -> Any:
        """Return the tensors of some environments and steps of a batch, both dimensions kept.

        Args:
            iteration: which batch.
            envs: a number, a slice, numbers or a mask; all by default.
            steps: the same, of steps. Tensors without these dimensions come complete.
            keys: read these tensors alone.
            device: where to put the tensors; main memory by default.
        """
        return self.file(iteration).read_slice(envs, steps, keys, device)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield (iteration, batch) of all saved batches, in order; each is read when its turn comes."""
        for iteration in self.iterations():
            yield iteration, self.load(iteration)


def rollout_files(folder: str | Path) -> list[Path]:
    """Return the rollout files of a folder, by iteration."""
    return sorted(regular_files(Path(folder), lambda name: _NAME.fullmatch(name) is not None), key=iteration_of)


def iteration_of(path: Path) -> int:
    """Return the iteration in a file's name."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path} is not named as a rollout file is: rollout_000100.slip")
    return int(match[1])
