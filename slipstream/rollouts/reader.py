"""Reading rollout files: one batch, parts of it, and random slices of many. Every group is checked when it is
decoded."""

from __future__ import annotations

import contextlib
import difflib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.rollouts.columns import ColumnReader, Geometry, frame_sizes
from slipstream.rollouts.writer import KIND, Column, Key, envs_and_steps, show
from slipstream.storage.codec.registry import CodecError
from slipstream.storage.container import Container
from slipstream.storage.errors import DamagedFileError, TooLargeError
from slipstream.storage.reader import Reader
from slipstream.storage.serializer import MISSING, from_json, unflatten, walk_leaves
from slipstream.storage.staging import View, make_tensor

BROKEN = (DamagedFileError, TooLargeError)  # the errors of a file that cannot be read
_YEAR_3000 = 32_503_680_000  # seconds
_SMALL = 1 << 20  # bytes that are not worth a count
_STEP_BYTES = 16  # memory that finding the episodes takes per step


class RolloutFile:
    """One batch on disk. Opening it reads its head; frames are read when they are needed.

    Args:
        path: the file.
        max_bytes: memory that opening it, and each result, may take; by default nine tenths of what is available.

    Raises:
        DamagedFileError: if the file is cut short, damaged or forged.
        TooLargeError: if it would take more than `max_bytes`; reading raises it too.
    """

    def __init__(self, path: str | Path, max_bytes: int | None = None) -> None:
        self.path, self.max_bytes = Path(path), max_bytes
        try:
            status = os.stat(self.path)
            self.container = Container.open(self.path, KIND, reader=Reader(self.path, max_bytes=max_bytes))
        except FileNotFoundError:
            raise
        except OSError as error:  # one file without permission, or on a bad sector, does not hide the others
            raise DamagedFileError(f"{self.path} cannot be read: {error.strerror}") from error
        self.stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        self.nbytes = status.st_size
        reader, head = self.container.reader, self.container.head
        with reader.parsing("the head"):
            self.iteration = reader.integer(head["iteration"], "the iteration")
            self.saved = head["saved"]  # seconds since 1970
            if type(self.saved) is not float or not 0 <= self.saved < _YEAR_3000:
                reader.fail("the time of saving is not a date")
            self.note: dict[str, Any] = dict(unflatten(from_json(head["note"], 0, reader), lambda i: MISSING))
            self.lead = tuple(reader.integers(head["lead"], "the batch size", max_count=2))
            self.envs, self.steps = envs_and_steps(self.lead)
            reader.claim(_STEP_BYTES * reader.product([self.envs, self.steps], "the batch size"), "the steps")
            self.tree = from_json(head["tree"], len(head["columns"]), reader)
            paths = list(walk_leaves(self.tree))
            if [number for _, number in paths] != list(range(len(head["columns"]))):
                reader.fail("the structure and the columns do not match")
            self.keys: list[Key] = [key for key, _ in paths]
            self.columns = [self._column(key, data) for key, data in zip(self.keys, head["columns"], strict=True)]
            self._check_successors()
        self._readers: dict[int, ColumnReader] = {}
        self._ranks: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _column(self, key: Key, data: dict[str, Any]) -> Column:
        """Check the description of a column before memory is taken for it."""
        reader, what = self.container.reader, show(key)
        if not key or not all(type(name) in (str, int) for name in key):
            reader.fail(f"{what} is not a key")
        dtype = reader.text(data["dtype"], f"the dtype of {what}", 64)
        if dtype.startswith("numpy:"):
            reader.dtype(dtype.removeprefix("numpy:"), f"the dtype of {what}")
        shape = reader.shape(data["shape"], f"the shape of {what}")
        is_steps = data["steps"] is True
        if is_steps and shape[: len(self.lead)] != self.lead or is_steps and not self.lead:
            reader.fail(f"{what} has not the steps of the batch")
        frames = self.envs * self.steps if is_steps else math.prod(shape)
        numbers = math.prod(shape[len(self.lead) :]) if is_steps else 1
        stored = reader.integer(data["frames"], f"the frames of {what}", 0, frames)
        layout = reader.integers(data["layout"], f"the layout of {what}", 1, (1 << 31) - 1, max_count=3)
        geometry = Geometry(stored, *frame_sizes(numbers, dtype), *layout)
        first = reader.integer(data["first"], f"the first block of {what}", 0, len(self.container))
        if not geometry.is_sound() or first + geometry.blocks > len(self.container):
            reader.fail(f"the layout of {what} is impossible")
        if (data["follows"] is None) != (data["stored"] is None) or (data["follows"] is None and stored != frames):
            reader.fail(f"{what} has {stored} frames of {frames}")
        return Column(key, dtype, shape, is_steps, geometry, data["follows"], first, data["stored"])

    def _check_successors(self) -> None:
        reader = self.container.reader
        for column in self.columns:
            if column.follows is not None:
                reader.integer(column.follows, f"the column before {show(column.key)}", 0, len(self.columns) - 1)
                base = self.columns[column.follows]
                same = (base.shape, base.dtype, base.steps) == (column.shape, column.dtype, True)
                if base.follows is not None or not same or not self.envs * self.steps:
                    reader.fail(f"{show(column.key)} cannot follow {show(base.key)}")

    # --- contents

    @property
    def tensor_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(column.nbytes for column in self.columns)

    def blocks(self, i: int) -> list[np.ndarray]:
        """Return the blocks of column i as they are in the file, not checked."""
        first = self.columns[i].first
        return [self.container.view(number) for number in range(first, first + self.columns[i].geometry.blocks)]

    # --- reading

    def read(self, keys: Iterable[Any] | None = None, device: torch.device | str | None = None) -> Any:
        """Return the batch as it was saved; `keys` leaves out all other tensors."""
        picked = find_keys(self.keys, keys)
        self.claim(sum(self.columns[i].nbytes for i in picked))
        frames: dict[int, np.ndarray] = {}
        for i in sorted(picked, key=lambda i: self.columns[i].follows is not None):
            frames[i] = self._read_frames(i, None, frames)
        return self.assemble({i: self.tensor(i, data, device=device) for i, data in frames.items()}, keys is None)

    def read_slice(
        self, envs: Any = None, steps: Any = None, keys: Iterable[Any] | None = None, device: Any = None
    ) -> Any:
        """Return those environments and steps, both dimensions kept; tensors without them come complete."""
        if not self.lead:
            raise ValueError(
                f"{self.path} has no [envs, steps] to slice: load all of it, or save with batch_dims=2 (1: one environment)"
            )
        e, s = _indices(envs, self.envs, "envs"), _indices(steps, self.steps, "steps")
        if len(self.lead) == 1 and len(e) != 1:
            raise ValueError(f"{self.path} has the steps of one environment: leave envs out")
        frames = (e[:, None] * self.steps + s[None]).reshape(-1)
        take = (e, s) if len(self.lead) == 2 else (s,)
        tensors = {}
        for i in find_keys(self.keys, keys):
            if self.columns[i].steps:
                tensors[i] = self.tensor(i, self.take(i, frames), tuple(map(len, take)), device)
            else:
                tensors[i] = self.tensor(i, self.take(i), device=device)
        return self.assemble(tensors, keys is None, take)

    def assemble(self, tensors: dict[int, Any], values: bool, take: tuple[np.ndarray, ...] | None = None) -> Any:
        """Return the batch of these tensors, of which `take` was taken; `values`: with everything that is no tensor."""

        def batch_size(size: list[int]) -> list[int]:
            n = len(self.lead)
            return [*map(len, take), *size[n:]] if take is not None and tuple(size[:n]) == self.lead else size

        def part(nested: Any, take: tuple[np.ndarray, ...] = take or ()) -> Any:
            return [part(nested[int(i)], take[1:]) for i in take[0]] if take and isinstance(nested, list) else nested

        with self.container.reader.parsing("the structure"):
            return unflatten(
                self.tree, lambda i: tensors.get(i, MISSING), values=values, batch_size=batch_size, stack=part
            )

    def take(self, i: int, frames: np.ndarray | None = None) -> np.ndarray:
        """Return frames (env x steps + step) of column i, or all, as uint8 [n, frame_bytes]; only the groups they are
        in are decoded."""
        column = self.columns[i]
        self.claim(column.nbytes if frames is None else len(frames) * column.geometry.frame_bytes)
        return self._read_frames(i, frames, {})

    def tensor(self, i: int, frames: np.ndarray, lead: tuple[int, ...] | None = None, device: Any = None) -> Any:
        """Return frames of column i, uint8 [n, frame_bytes], as a tensor or array [*lead, ...] that shares their
        memory, unless it goes to a device. Without `lead` they are all frames of the column."""
        column = self.columns[i]
        shape = column.shape if lead is None else (*lead, *column.shape[len(self.lead) :])
        made = make_tensor(View(0, column.dtype, shape, (), 0, "cpu"), torch.from_numpy(frames.reshape(-1)))
        return made if device is None or isinstance(made, np.ndarray) else made.to(device)

    def _read_frames(self, i: int, frames: np.ndarray | None, known: dict[int, np.ndarray]) -> np.ndarray:
        """Return frames of column i, or all; `known` has all frames of columns that were read before."""
        column = self.columns[i]
        if column.follows is None:
            with self._naming(i):
                return self._reader(i).take(frames)
        stored, rank = self._rank(i)
        if frames is None and column.follows in known:
            base = known[column.follows]
            out, own = np.empty_like(base), stored
            out[:-1] = base[1:]
        else:
            frames = np.arange(self.envs * self.steps) if frames is None else frames
            own = stored[frames]
            # a step that is stored itself has none behind it, or another: any row will do until it is written over
            out = self._read_frames(column.follows, np.where(own, frames, frames + 1), known)
        if own.any():
            with self._naming(i):
                out[own] = self._reader(i).take(None if frames is None else rank[frames[own]])
        return out

    def claim(self, nbytes: int) -> None:
        """Check that so much memory for one result is within the budget."""
        if nbytes > _SMALL:  # per call: the caller owns what it returns
            Reader(self.path, max_bytes=self.max_bytes).claim(nbytes)

    def _reader(self, i: int) -> ColumnReader:
        if i not in self._readers:
            geometry = self.columns[i].geometry
            self.claim(4 * geometry.group * geometry.row_bytes)  # to open one group
            self._readers[i] = ColumnReader(geometry, self.container, self.columns[i].first)
        return self._readers[i]

    def _rank(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (which steps of a successor are stored, bool; how many of these come before a step)."""
        if i not in self._ranks:
            reader, count = self.container.reader, self.envs * self.steps
            bits = self.container.array(self.columns[i].stored, f"the stored steps of {show(self.columns[i].key)}")
            if bits.dtype != np.uint8 or bits.shape != (-(-count // 8),):
                reader.fail(f"the stored steps of {show(self.columns[i].key)} are not those of the batch")
            stored = np.unpackbits(bits, count=count).view(bool)
            if int(stored.sum()) != self.columns[i].geometry.frames or not stored[self.steps - 1 :: self.steps].all():
                reader.fail(f"{show(self.columns[i].key)} has other steps than its head says")
            self._ranks[i] = stored, np.cumsum(stored) - 1
        return self._ranks[i]

    # --- damage

    def damaged(self, keys: Iterable[Any] | None = None) -> Iterator[str]:
        """Yield a description of everything that is not as it was written, with key and place; reads all of it, or all
        of `keys`."""
        picked = find_keys(self.keys, keys)
        picked |= {base for i in picked if (base := self.columns[i].follows) is not None}
        found = False
        for i in sorted(picked):
            try:
                if self.columns[i].follows is not None:
                    self._rank(i)
                for first, last, why in self._reader(i).damaged():
                    found = True
                    yield f"{show(self.columns[i].key)}, {self._place(i, first, last)}: {why}"
            except DamagedFileError as error:
                found = True
                yield str(error).removeprefix(f"{self.path}: ")
        if keys is None and not found:  # padding and bytes of no group
            for _, why in self.container.damage():
                yield why.removeprefix(f"{self.path}: ")

    @contextlib.contextmanager
    def _naming(self, i: int) -> Iterator[None]:
        """Raise an error of a column with the file, the key and the place."""
        try:
            yield
        except CodecError as error:
            found = list(self._reader(i).damaged())
            place = self._place(i, *found[0][:2]) if found else "a place that can be read now"
            more = f" and {len(found) - 1} more places" if len(found) > 1 else ""
            what = f"{show(self.columns[i].key)} is damaged at {place}{more}"
            raise DamagedFileError(f"{self.path}: {what} ({error}); other keys and batches can be read") from error

    def _place(self, i: int, first: int, last: int) -> str:
        """Describe frames [first, last) of column i."""
        column = self.columns[i]
        if not column.steps:
            return f"numbers {first} to {last - 1}"
        if column.follows is not None:
            own = np.flatnonzero(self._rank(i)[0])[first:last]
            first, last = int(own[0]), int(own[-1]) + 1
        (a, s), (b, t) = divmod(first, self.steps), divmod(last - 1, self.steps)
        return f"env {a}, steps {s} to {t}" if a == b else f"env {a}, step {s} to env {b}, step {t}"


class SliceSampler:
    """Draws runs of `length` consecutive steps of one environment, from the files that existed when it was made.

    A run may cross the end of an episode (see `done`), never that of a batch. Only the sizes of the files are kept.
    """

    def __init__(
        self,
        paths: list[Path],
        open_file: Callable[[Path], RolloutFile],
        length: int,
        keys: Iterable[Any] | None,
        seed: int | None,
        on_broken: Callable[[Path, Exception], None],
    ) -> None:
        if length < 1:
            raise ValueError(f"length={length} must be at least 1")
        self.length = length
        self._paths, self._open, self._on_broken = paths, open_file, on_broken
        self._reading = 0  # the number of the file that is being read
        self._rng = np.random.default_rng(seed)
        self._runs = np.array([self._count(open_file(path)) for path in paths], np.int64)
        self._ends = np.cumsum(self._runs)
        if not len(self):
            why = (
                f"none of the {len(paths)} batches has so many steps in a row"
                if paths
                else "there are no rollouts to draw from"
            )
            raise ValueError(f"no slices of {length} steps: {why}")
        self._first = open_file(paths[int(np.flatnonzero(self._runs)[0])])
        self._picked = [i for i in sorted(find_keys(self._first.keys, keys)) if self._first.columns[i].steps]

    def __len__(self) -> int:
        """The number of different runs."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def sample(self, number: int, device: torch.device | str | None = None) -> Any:
        """Return `number` runs, each as likely as any other: a batch [number, length, ...] of the step keys."""
        while True:
            try:
                return self.take(self._rng.integers(len(self), size=number), device)
            except BROKEN as error:
                self._on_broken(self._paths[self._reading], error)  # raises, unless the storage skips broken files
                self._runs[self._reading] = 0  # all runs are drawn again, or those of good files would be rarer
                self._ends = np.cumsum(self._runs)
                if not len(self):
                    raise

    def take(self, runs: np.ndarray, device: torch.device | str | None = None) -> Any:
        """Return those runs, by number."""
        first, length, number = self._first, self.length, len(runs)
        chosen = np.searchsorted(self._ends, runs, side="right")
        at = runs - (self._ends - self._runs)[chosen]
        first.claim(number * length * sum(first.columns[i].geometry.frame_bytes for i in self._picked))
        out = {i: np.empty((number * length, first.columns[i].geometry.frame_bytes), np.uint8) for i in self._picked}
        for which in np.unique(chosen).tolist():
            self._reading = which
            file = self._open(self._paths[which])
            if self._count(file) != self._runs[which]:
                raise ValueError(f"{file.path} was replaced by a batch of another size: make a new sampler")
            mine = np.flatnonzero(chosen == which)
            env, step = np.divmod(at[mine], file.steps - length + 1)
            frames = ((env * file.steps + step)[:, None] + np.arange(length)).reshape(-1)
            target = (mine[:, None] * length + np.arange(length)).reshape(-1)
            for i in self._picked:
                out[i][target] = file.take(_same_column(first, i, file), frames)
        lead = (number, length)
        tensors = {i: first.tensor(i, out[i], lead, device) for i in self._picked}
        return first.assemble(tensors, False, tuple(np.arange(n) for n in lead))

    def _count(self, file: RolloutFile) -> int:
        return file.envs * max(0, file.steps - self.length + 1) if file.lead else 0


def _same_column(first: RolloutFile, i: int, file: RolloutFile) -> int:
    """Return the column of `file` with the key, dtype and shape of column i of `first`."""
    own = first.columns[i]
    for j in (i, *range(len(file.columns))):  # mostly it is at the same place
        if j < len(file.columns) and (other := file.columns[j]).key == own.key and other.steps:
            shapes = own.shape[len(first.lead) :], other.shape[len(file.lead) :]
            if own.dtype == other.dtype and shapes[0] == shapes[1]:
                return j
    raise ValueError(f"{first.path} and {file.path} differ in {own.key}: name keys that are the same in all batches")


def find_keys(keys: list[Key], asked: Iterable[Any] | None) -> set[int]:
    """Return the numbers of the `asked` keys, or of all: each by its own key, or by a key above it. Dots separate
    nested names."""
    if asked is None:
        return set(range(len(keys)))
    found: set[int] = set()
    for one in [asked] if isinstance(asked, str | tuple) else asked:
        names = {(one,), tuple(one.split("."))} if isinstance(one, str) else {one if isinstance(one, tuple) else (one,)}
        hits = {i for i, key in enumerate(keys) if any(key[: len(name)] == name for name in names)}
        if not hits:
            name = ".".join(map(str, one)) if isinstance(one, tuple) else str(one)
            raise KeyError(_missing_key(name, [".".join(map(str, key)) for key in keys]))
        found |= hits
    return found


def _missing_key(name: str, keys: list[str]) -> str:
    """Return the message for a key that is missing, with the nearest one; keys as the command line takes them."""
    branches = {key[:at] for key in keys for at, letter in enumerate(key) if letter == "."}
    leaves = {key.rpartition(".")[2]: key for key in reversed(keys)}  # `stat` is near `observation.state`
    near = difflib.get_close_matches(name, [*keys, *sorted(branches)], 1)
    near = near or [leaves[leaf] for leaf in difflib.get_close_matches(name, leaves, 1)]
    return f"no '{name}' here; there are {', '.join(keys)}{f'; did you mean {near[0]}?' if near else ''}"


def _indices(index: Any, size: int, name: str) -> np.ndarray:
    """Return int64 [n] of None (all), a number, a slice, numbers or a mask; negative ones count from the end."""
    if isinstance(index, torch.Tensor):
        index = index.cpu().numpy()
    try:
        chosen = np.atleast_1d(np.arange(size)[slice(None) if index is None else index])
    except IndexError as error:
        raise IndexError(f"{name}={index!r} does not fit the {size} there are: {error}") from error
    if chosen.ndim != 1:
        raise TypeError(f"{name}={index!r} must be a number, a slice, a list of numbers or a mask")
    return chosen
