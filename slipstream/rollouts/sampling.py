"""Slices drawn from many rollout files at once: each file's share in one pass over it, straight into the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.rollouts.reader import RolloutFile
from slipstream.rollouts.tree import put_together, wanted
from slipstream.storage.errors import DamagedFileError


class SliceSampler:
    """Runs of `length` consecutive steps of one environment, out of the files that were there when it was made.

    A run may cross the end of an episode (`done` tells), never that of a batch. Nothing is held but the files' sizes.
    """

    def __init__(
        self,
        paths: list[Path],
        open_file: Callable[[Path], RolloutFile],
        length: int,
        keys: Iterable[Any] | None,
        seed: int | None,
        met_broken: Callable[[Path, DamagedFileError], None],
    ) -> None:
        if length < 1:
            raise ValueError(f"length is {length}: use at least 1")
        self.length = length
        self._paths, self._open, self._met_broken = paths, open_file, met_broken
        self._rng = np.random.default_rng(seed)
        self._runs = np.array([_runs(open_file(path), length) for path in paths], np.int64)
        self._ends = np.cumsum(self._runs)
        if not len(self):
            why = (
                f"none of the {len(paths)} batches has so many steps in a row"
                if paths
                else "there are no rollouts to draw from"
            )
            raise ValueError(f"no slices of {length} steps: {why}")
        self._first = open_file(paths[int(np.flatnonzero(self._runs)[0])])
        self._picked = [i for i in sorted(wanted(self._first.keys, keys)) if self._first.columns[i].steps]

    def __len__(self) -> int:
        """How many different runs there are."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def sample(self, number: int, device: torch.device | str | None = None) -> Any:
        """`number` runs, each as likely as any other: a batch [number, length, ...] of the step keys."""
        while True:
            try:
                return self.take(self._rng.integers(len(self), size=number), device)
            except _BrokenBatchError as error:
                self._met_broken(self._paths[error.which], error)  # raises, unless the storage skips broken files
                self._runs[error.which] = (
                    0  # so drawn no more; all runs are drawn anew, or those of whole files would be rarer
                )
                self._ends = np.cumsum(self._runs)
                if not len(self):
                    raise

    def take(self, runs: np.ndarray, device: torch.device | str | None = None) -> Any:
        """Those runs, by number."""
        first, length, number = self._first, self.length, len(runs)
        chosen = np.searchsorted(self._ends, runs, side="right")
        at = runs - (self._ends - self._runs)[chosen]
        out = {i: np.empty((number * length, first.columns[i].geometry.frame_bytes), np.uint8) for i in self._picked}
        for which in np.unique(chosen).tolist():
            try:
                file = self._open(self._paths[which])
            except DamagedFileError as error:
                raise _BrokenBatchError(which, error) from error
            if _runs(file, length) != self._runs[which]:
                raise ValueError(f"{file.path} was replaced by a batch of another size: make a new sampler")
            mine = np.flatnonzero(chosen == which)
            env, step = np.divmod(at[mine], file.steps - length + 1)
            frames = ((env * file.steps + step)[:, None] + np.arange(length)).reshape(-1)
            target = (mine[:, None] * length + np.arange(length)).reshape(-1)
            for i in self._picked:
                try:
                    out[i][target] = file.take(_same_column(first, i, file), frames)
                except DamagedFileError as error:
                    raise _BrokenBatchError(which, error) from error
        lead = (number, length)
        tensors = {
            i: first.tensor(i, out[i], (*lead, *first.columns[i].shape[len(first.lead) :]), device)
            for i in self._picked
        }
        return put_together(first.tree, tensors, False, first.lead, tuple(np.arange(n) for n in lead))


class _BrokenBatchError(DamagedFileError):
    """A batch could not be read; `which` is its place among the sampler's files."""

    def __init__(self, which: int, error: DamagedFileError) -> None:
        super().__init__(str(error))
        self.which = which


def _runs(file: RolloutFile, length: int) -> int:
    return file.envs * max(0, file.steps - length + 1) if file.lead else 0


def _same_column(first: RolloutFile, i: int, file: RolloutFile) -> int:
    """Where `file` has what is column i of `first`."""
    own = first.columns[i]
    j = (
        i
        if i < len(file.columns) and file.columns[i].key == own.key
        else file.keys.index(own.key)
        if own.key in file.keys
        else -1
    )
    other = file.columns[j] if j >= 0 else None
    if (
        other is None
        or (own.dtype, own.shape[len(first.lead) :]) != (other.dtype, other.shape[len(file.lead) :])
        or not other.steps
    ):
        raise ValueError(
            f"{first.path} and {file.path} differ in {own.key}: name keys that are the same in all batches"
        )
    return j
