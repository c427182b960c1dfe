"""Reading a rollout file: mapped, opened by its head, any part decoded on its own and checked as it is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.rollouts.columns import ColumnReader
from slipstream.rollouts.file import ENDING, FORMAT, TAIL, Column, envs_and_steps, itemsize_of
from slipstream.rollouts.tree import put_together, wanted
from slipstream.storage.codec.registry import CodecError
from slipstream.storage.records import MAGIC, DamagedFileError, array_of, json_of, read_record, read_records
from slipstream.storage.schema import Key, show


class RolloutFile:
    """One batch on disk. Opening it reads its head; frames are read from the map as they are asked for."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        status = os.stat(self.path)
        self.stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if status.st_size < len(MAGIC) + ENDING:
            raise DamagedFileError(f"{self.path} is cut off: {status.st_size} bytes hold no batch")
        self.data = np.memmap(self.path, np.uint8, mode="r")
        try:
            self._read_head()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DamagedFileError):
                raise
            raise DamagedFileError(f"{self.path}: its head makes no sense ({type(error).__name__}: {error})") from error

    def _read_head(self) -> None:
        data, what = self.data, str(self.path)
        tail, _ = read_record(data, len(data) - ENDING, what) if self._ends_well() else (None, 0)
        if tail is None or tail.name != "tail" or data[: len(MAGIC)].tobytes() != MAGIC:
            raise DamagedFileError(f"{what} is cut off, or no rollout file: it does not end as one")
        _, at, _ = TAIL.unpack(tail.payload[: TAIL.size].tobytes())
        record, _ = read_record(data, min(at, len(data)), what)
        if record.name != "head":
            raise DamagedFileError(f"{what} is damaged at byte {at}: its head is not there")
        head = json_of(record)
        if head["format"] != FORMAT:
            raise DamagedFileError(f"{what} has format {head['format']}, this version reads {FORMAT}")
        self.iteration, self.saved, self.note = int(head["iteration"]), float(head["saved"]), dict(head["note"])
        self.lead: tuple[int, ...] = tuple(int(n) for n in head["lead"])
        self.envs, self.steps = envs_and_steps(self.lead)
        self.tree = head["tree"]
        self.columns = [Column.restore(d) for d in head["columns"]]
        self._readers: dict[int, ColumnReader] = {}
        self._ranks: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for column in self.columns:
            self._check(column)

    def _ends_well(self) -> bool:
        end = self.data[-64:]
        return end[16:19].tobytes() == b"end" and len(self.data) % 64 == 0

    def _check(self, column: Column) -> None:
        """Raises where the head's own numbers cannot be: before memory is taken for them."""
        g, places = column.geometry, np.array(column.places, np.int64).reshape(-1, 2)
        frame_bytes = itemsize_of(column.dtype) * (math.prod(column.shape[len(self.lead) :]) if column.steps else 1)
        frames = self.envs * self.steps if column.steps else math.prod(column.shape)
        good = (
            len(places) == g.blocks
            and frame_bytes == g.frame_bytes
            and (g.frames == frames or column.follows is not None)
        )
        inside = not len(places) or (
            (places >= 0).all() and not (places[:, 0] % 8).any() and (places.sum(1) <= len(self.data)).all()
        )
        if not good or not inside or (column.steps and column.shape[: len(self.lead)] != self.lead):
            raise DamagedFileError(f"{self.path}: {show(column.key)} cannot lie where its head says")

    # --- what it holds

    @cached_property
    def keys(self) -> list[Key]:
        """The keys of its tensors, in order."""
        return [column.key for column in self.columns]

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return len(self.data)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(column.tensor_bytes for column in self.columns)

    @property
    def frames(self) -> int:
        """Steps of all environments; 0 where the batch has no such dimensions."""
        return self.envs * self.steps if self.lead else 0

    def stored_bytes(self, i: int) -> int:
        """Bytes that a column takes in the file."""
        return sum(nbytes for _, nbytes in self.columns[i].places)

    # --- reading

    def read(self, keys: Iterable[Any] | None = None, device: torch.device | str | None = None) -> Any:
        """The batch as it was saved; `keys` leaves out all other tensors."""
        picked = wanted(self.keys, keys)
        frames = {i: self.all(i) for i in sorted(picked) if self.columns[i].follows is None}
        for i in sorted(picked - set(frames)):
            frames[i] = self._following(i, frames.get(self.columns[i].follows))  # type: ignore[arg-type]
        return put_together(
            self.tree, {i: self.tensor(i, f, self.columns[i].shape, device) for i, f in frames.items()}, keys is None
        )

    def read_slice(
        self, envs: Any = None, steps: Any = None, keys: Iterable[Any] | None = None, device: Any = None
    ) -> Any:
        """Those environments and steps of the batch, both dimensions kept; what has no such dimensions comes whole."""
        if not self.lead:
            raise ValueError(
                f"{self.path} holds no [envs, steps] to slice: load it whole, or save with batch_dims=2 (1: one environment)"
            )
        e, s = _chosen(envs, self.envs, "envs"), _chosen(steps, self.steps, "steps")
        frames = (e[:, None] * self.steps + s[None]).reshape(-1)
        take = (e, s) if len(self.lead) == 2 else (s,)
        if len(take) == 1 and len(e) != 1:
            raise ValueError(f"{self.path} holds one environment's steps: leave envs out")
        tensors = {}
        for i in wanted(self.keys, keys):
            column = self.columns[i]
            if column.steps:
                shape = (*(len(index) for index in take), *column.shape[len(self.lead) :])
                tensors[i] = self.tensor(i, self.take(i, frames), shape, device)
            else:
                tensors[i] = self.tensor(i, self.all(i), column.shape, device)
        return put_together(self.tree, tensors, keys is None, self.lead, take)

    def take(self, i: int, frames: np.ndarray) -> np.ndarray:
        """Frames (env x steps + step) of column i, uint8 [n, frame_bytes]; only the groups they lie in are opened."""
        with self._naming(i):
            if self.columns[i].follows is None:
                return self._reader(i).take(frames)
        stored, rank = self._rank(i)
        own = stored[frames]
        # a step that is stored itself has none behind it, or another: any row will do until it is written over
        out = self.take(self.columns[i].follows, np.where(own, frames, frames + 1))  # type: ignore[arg-type]
        if own.any():
            with self._naming(i):
                out[own] = self._reader(i).take(rank[frames[own]])
        return out

    def all(self, i: int) -> np.ndarray:
        """Every frame that column i holds itself, uint8 [n, frame_bytes]."""
        with self._naming(i):
            return self._reader(i).all()

    def _following(self, i: int, base: np.ndarray | None) -> np.ndarray:
        """All frames of a successor, from those of the column it follows, if these are at hand."""
        if base is None:
            return self.take(i, np.arange(self.envs * self.steps))
        out = np.empty_like(base)
        out[:-1] = base[1:]
        out[self._rank(i)[0]] = self.all(i)
        return out

    def _reader(self, i: int) -> ColumnReader:
        if i not in self._readers:
            places = np.array(self.columns[i].places, np.int64).reshape(-1, 2)
            self._readers[i] = ColumnReader(self.columns[i].geometry, self.data, places)
        return self._readers[i]

    def _rank(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(which steps of a successor are stored, bool; how many of these lie before a step)."""
        if i not in self._ranks:
            bits = self._stored(i)
            stored = np.unpackbits(bits, count=self.envs * self.steps).view(bool)
            if int(stored.sum()) != self.columns[i].geometry.frames:
                raise DamagedFileError(f"{self.path}: {show(self.columns[i].key)} has other steps than its head says")
            self._ranks[i] = stored, np.cumsum(stored) - 1
        return self._ranks[i]

    def _stored(self, i: int) -> np.ndarray:
        place = self.columns[i].stored
        assert place is not None
        named = array_of(read_record(self.data, place, str(self.path))[0])
        if named is None or named[0] != f"stored/{i}":
            raise DamagedFileError(f"{self.path} is damaged at byte {place}: another record lies there")
        return named[1]

    def tensor(self, i: int, frames: np.ndarray, shape: tuple[int, ...], device: Any) -> Any:
        """Frames of column i, uint8 [n, frame_bytes], as what they were; shares their memory."""
        dtype, flat = self.columns[i].dtype, frames.reshape(-1)
        if dtype.startswith("numpy:"):
            return flat.view(np.dtype(dtype.removeprefix("numpy:"))).reshape(shape)
        tensor = (
            torch.from_numpy(flat).view(getattr(torch, dtype))
            if flat.size
            else torch.empty(0, dtype=getattr(torch, dtype))
        )
        tensor = tensor.reshape(shape)
        return tensor if device is None else tensor.to(device)

    # --- damage

    def _naming(self, i: int) -> _Naming:
        return _Naming(self, i)

    def place_of(self, i: int, first: int, last: int) -> str:
        """Frames [first, last) of column i in words."""
        column = self.columns[i]
        if not column.steps:
            return f"numbers {first} to {last - 1}"
        if column.follows is not None:
            own = np.flatnonzero(self._rank(i)[0])[first:last]
            first, last = int(own[0]), int(own[-1]) + 1
        (a, s), (b, t) = divmod(first, self.steps), divmod(last - 1, self.steps)
        return f"env {a}, steps {s} to {t}" if a == b else f"env {a}, step {s} to env {b}, step {t}"

    def damaged(self, keys: Iterable[Any] | None = None) -> Iterator[str]:
        """Everything in the file that is not as it was written, each with its key and place; reads all of it, or all of `keys`."""
        picked = wanted(self.keys, keys)
        picked |= {base for i in picked if (base := self.columns[i].follows) is not None}
        for i in sorted(picked):
            column = self.columns[i]
            try:
                for first, last, why in self._reader(i).damaged():
                    yield f"{show(column.key)}, {self.place_of(i, first, last)}: {why}"
                if column.follows is not None:
                    self._rank(i)
            except DamagedFileError as error:
                yield str(error).removeprefix(f"{self.path}").lstrip(" :")
        if keys is not None:
            return
        try:
            for _ in read_records(self.data, "it"):
                pass
        except DamagedFileError as error:
            yield str(error)


class _Naming:
    """Tells an error of a column with the file, the key and the place."""

    def __init__(self, file: RolloutFile, i: int) -> None:
        self._file, self._i = file, i

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, CodecError):
            key, found = self._file.columns[self._i].key, list(self._file._reader(self._i).damaged())
            place = self._file.place_of(self._i, *found[0][:2]) if found else "a place that can be read now"
            more = f" and {len(found) - 1} more places" if len(found) > 1 else ""
            raise DamagedFileError(
                f"{self._file.path}: {show(key)} is damaged at {place}{more} ({error}); other keys and batches can be read"
            ) from error


def _chosen(index: Any, size: int, name: str) -> np.ndarray:
    """int64 [n] of None (all), a number, a slice or numbers; negative ones count from the end."""
    if index is None:
        return np.arange(size)
    if isinstance(index, slice):
        return np.arange(size)[index]
    chosen = np.atleast_1d(np.asarray(index.cpu() if isinstance(index, torch.Tensor) else index))
    if chosen.dtype == bool:
        if chosen.shape != (size,):
            raise IndexError(f"{name} is a mask of {list(chosen.shape)}, there are {size}")
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a number, a slice, a list of numbers or a mask, not {index!r}")
    chosen = chosen.astype(np.int64)
    if chosen.size and not (-size <= chosen.min() and chosen.max() < size):
        raise IndexError(f"{name} {index} reach past the {size} there are")
    return np.where(chosen < 0, chosen + size, chosen)
