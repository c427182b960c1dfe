"""One batch of experience as one file: a tree of arrays, each [envs, steps, ...] in compressed pieces.

A piece is some environments with all their steps, or some steps of one environment, so that a range of either is read
without the rest. An observation's successor is the observation one step later, except where an episode or the batch
ends: ("next", key) is stored for those steps only, and one bit per step says which they are.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.storage.background import map_in_threads, run_in_threads
from slipstream.storage.codec.chunks import zstd_compressor, zstd_decompress
from slipstream.storage.codec.registry import CodecError
from slipstream.storage.errors import DamagedFileError, TooLargeError, printable
from slipstream.storage.files import atomic_file
from slipstream.storage.staging import Buffer, View, make_tensor
from slipstream.storage.tensor_file import Reader, TensorFile, TensorFileWriter, checksum_of
from slipstream.storage.tree import Leaves, check_tree, select, unflatten, walk_leaves

KIND = "roll"
BROKEN = (DamagedFileError, TooLargeError)  # the errors of a file that cannot be read
Key = tuple[Any, ...]  # names, and numbers where a dict has them

PIECE_BYTES = 1 << 18  # part of the format; 64 KiB makes files 1 % larger, 1 MiB 3 % smaller and slower to save
FAST, SMALL = 1, 9  # zstd's levels, for compression_level 1 to 9 and above
MOST_STORED = 0.5  # a successor with more steps of its own than this is stored completely
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Column:
    """One tensor of a batch. What is stored of it are frames [envs, steps]: [1, 1] if it has no steps."""

    key: Key
    dtype: str  # torch's name
    shape: tuple[int, ...]
    is_steps: bool  # it has the batch's leading dimensions
    envs: int
    steps: int
    frame_bytes: int
    first: int = 0  # the number of its first piece; the others follow
    base: int | None = None  # the column of which this is the successor; its frames are the exceptions, [1, count]
    own: Any = None  # of a successor: which steps are stored, bool [envs, steps]; in the file an array of bits

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * getattr(torch, self.dtype).itemsize

    @property
    def piece_size(self) -> tuple[int, int]:
        """The environments and steps of a piece."""
        env_bytes = max(1, self.steps * self.frame_bytes)
        if env_bytes <= PIECE_BYTES:
            return PIECE_BYTES // env_bytes, max(1, self.steps)
        return 1, max(1, PIECE_BYTES // self.frame_bytes)

    @property
    def num_pieces(self) -> int:
        """How many pieces it has."""
        envs, steps = self.piece_size
        return -(-self.envs // envs) * -(-self.steps // steps) if self.frame_bytes else 0

    def pieces(self) -> Iterator[tuple[slice, slice]]:
        """Yield the environments and steps of each piece, in order."""
        envs, steps = self.piece_size
        for e in range(0, self.envs if self.frame_bytes else 0, envs):
            for s in range(0, self.steps, steps):
                yield slice(e, min(e + envs, self.envs)), slice(s, min(s + steps, self.steps))


def _make_column(key: Key, dtype: str, shape: tuple[int, ...], lead: tuple[int, ...]) -> Column:
    is_steps = bool(lead) and shape[: len(lead)] == lead
    envs, steps = envs_and_steps(lead) if is_steps else (1, 1)
    numbers = math.prod(shape[len(lead) :] if is_steps else shape)
    return Column(key, dtype, shape, is_steps, envs, steps, numbers * getattr(torch, dtype).itemsize)


def envs_and_steps(lead: tuple[int, ...]) -> tuple[int, int]:
    """Return (envs, steps); a batch [steps] has one environment."""
    return (1, *lead)[-2:] if lead else (1, 1)  # type: ignore[return-value]


def common_lead(data: Any, leaves: Leaves) -> tuple[int, ...]:
    """Return the dimensions [envs, steps], or [steps], or none: a TensorDict's batch size, or those all tensors
    share."""
    if hasattr(data, "batch_size"):
        return tuple(data.batch_size[:2])
    return tuple(os.path.commonprefix([tuple(leaf.shape[:2]) for leaf in leaves.data]))


# --- writing


def write_rollout(path: Path, buffer: Buffer, tree: Any, lead: tuple[int, ...], level: int) -> int:
    """Write a snapshot as a file that appears complete or not at all; return its bytes.

    Args:
        path: of the file.
        buffer: the snapshot of the tensors of `tree`.
        tree: of the batch, see `flatten`.
        lead: [envs, steps], [steps] or [].
        level: of compression, 0 to 16.
    """
    host, layout = buffer.fetch(), buffer.layout
    columns, frames = [], []
    for (key, _), view in zip(walk_leaves(tree), layout.views, strict=True):
        column = _make_column(key, view.dtype, view.shape, lead)
        data = layout.storage_bytes(layout.storages[view.storage], host)
        words = _words(make_tensor(view, torch.from_numpy(data)))
        columns.append(column)
        frames.append(words[(None,) * (2 - (len(lead) if column.is_steps else 0))])
    masks = _keep_exceptions(columns, frames)

    def encode(task: tuple[Column, np.ndarray, tuple[slice, slice]]) -> tuple[Column, Any, int]:
        column, words, piece = task
        raw = np.ascontiguousarray(words[piece]).reshape(-1).view(np.uint8)
        packed = zstd_compressor(FAST if level <= 9 else SMALL).compress(raw) if level else raw
        part = packed if len(packed) < len(raw) else raw
        return column, part, checksum_of(part)

    tasks = ((column, words, piece) for column, words in zip(columns, frames, strict=True) for piece in column.pieces())
    with atomic_file(path) as file:
        writer = TensorFileWriter(file, KIND)
        seen: set[Key] = set()
        for column, part, checksum in map_in_threads(encode, tasks):
            number = writer.add(part, name=show(column.key), checksum=checksum)
            column.first = column.first if column.key in seen else number
            seen.add(column.key)
        for i, mask in masks.items():
            columns[i].own = writer.add_array(np.packbits(mask), f"{show(columns[i].key)}.own")
        head = {
            "tree": tree,
            "lead": list(lead),
            "columns": [[c.dtype, list(c.shape), c.first, c.base, c.own] for c in columns],
        }
        return writer.finish(head)


def _words(data: torch.Tensor) -> np.ndarray:
    """Return a tensor's numbers as an array of integers, which shares its memory."""
    tensor = torch.view_as_real(data) if data.is_complex() else data
    return tensor.view(_WORDS[tensor.dtype.itemsize]).numpy()


def _keep_exceptions(columns: list[Column], frames: list[np.ndarray]) -> dict[int, np.ndarray]:
    """Reduce each ("next", key) to the steps that are not, bit for bit, the key's one step later; return which, bool
    [envs, steps]."""
    number = {column.key: i for i, column in enumerate(columns)}
    masks = {}
    for i, column in enumerate(columns):
        b = number.get(column.key[1:]) if column.key[:1] == ("next",) else None
        if b is None or not column.is_steps or not column.num_pieces or columns[b].base is not None:
            continue
        if (columns[b].shape, columns[b].dtype) != (column.shape, column.dtype):
            continue
        base, words = frames[b], frames[i]
        own = np.ones((column.envs, column.steps), bool)
        if words.strides == base.strides and words.ctypes.data == base.ctypes.data + base.strides[1]:
            own[:, :-1] = False  # the same memory one row on, as our collectors give it
        elif column.steps > 1:
            own[:, :-1] = (words[:, :-1] != base[:, 1:]).reshape(column.envs, column.steps - 1, -1).any(-1)
        if own.mean() <= MOST_STORED:
            frames[i] = words[own][None]
            column.base, column.envs, column.steps, masks[i] = b, 1, int(own.sum()), own
    return masks


# --- reading


class RolloutFile:
    """One batch on disk. Opening it reads its head; pieces are read, and checked, when they are needed.

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
            self.container = TensorFile.open(self.path, KIND, reader=Reader(self.path, max_bytes=max_bytes))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DamagedFileError(f"{self.path} cannot be read: {error.strerror}") from error
        reader, head = self.container.reader, self.container.head
        with reader.parsing("the head"):
            self.lead = tuple(reader.integers(head["lead"], "the batch size", max_count=2))
            self.envs, self.steps = envs_and_steps(self.lead)
            reader.claim(reader.product([self.envs, self.steps], "the batch size"), "the steps")
            self._tree = head["tree"]
            check_tree(self._tree, len(head["columns"]), reader)
            keys = {number: key for key, number in walk_leaves(self._tree)}
            self.columns = [self._column(keys[i], *data) for i, data in enumerate(head["columns"])]
        self.keys: list[Key] = [column.key for column in self.columns]

    def _column(self, key: Key, dtype: Any, shape: Any, first: Any, base: Any, own: Any) -> Column:
        """Check the description of a column before memory is taken for it."""
        reader, what = self.container.reader, show(key)
        itemsize = reader.torch_dtype(dtype, f"the dtype of {what}").itemsize
        column = _make_column(key, dtype, reader.shape(shape, f"the shape of {what}"), self.lead)
        reader.product([*column.shape, itemsize], f"the shape of {what}")
        column.first, column.base = reader.integer(first, f"the first piece of {what}"), base
        if base is not None:
            columns = self.container.head["columns"]
            followed = columns[reader.integer(base, f"the base of {what}", 0, len(columns) - 1)]
            if followed[:2] != [dtype, shape] or followed[3] is not None or not column.is_steps:
                reader.fail(f"{what} cannot follow column {base}")
            column.own = self._own(own, f"the stored steps of {what}")
            column.envs, column.steps = 1, int(column.own.sum())
        if column.first + column.num_pieces > len(self.container):
            reader.fail(f"{what} has more pieces than the file")
        return column

    @property
    def tensor_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(column.nbytes for column in self.columns)

    def read(self, keys: Iterable[Any] | None = None, device: torch.device | str | None = None) -> Any:
        """Return the batch as it was saved; with `keys` these tensors alone."""
        tensors = self._tensors(keys, self.lead, device)
        return unflatten(
            self._tree if keys is None else self._part(tensors), tensors.__getitem__, self.container.reader
        )

    def read_slice(
        self, envs: Any = None, steps: Any = None, keys: Iterable[Any] | None = None, device: Any = None
    ) -> Any:
        """Return the tensors of those environments and steps, both dimensions kept; tensors without them come
        complete."""
        if not self.lead:
            raise ValueError(f"{self.path} has no [envs, steps] to slice: save a TensorDict of that batch size")
        e, s = _indices(envs, self.envs, "envs"), _indices(steps, self.steps, "steps")
        if len(self.lead) == 1 and len(e) != 1:
            raise ValueError(f"{self.path} has the steps of one environment: leave envs out")
        lead = (len(e), len(s))[-len(self.lead) :]
        tensors = self._tensors(keys, lead, device, (e, s))

        def batch_size(size: list[int]) -> list[int]:
            return [*lead, *size[len(lead) :]] if tuple(size[: len(lead)]) == self.lead else size

        return unflatten(self._part(tensors), tensors.__getitem__, self.container.reader, batch_size=batch_size)

    def read_steps(self, keys: Iterable[Any] | None = None) -> dict[Key, Any]:
        """Return the tensors [envs, steps, ...] by key; those without steps are left out."""
        with_steps = [self.keys[i] for i in find_keys(self.keys, keys) if self.columns[i].is_steps]
        tensors = self._tensors(with_steps, (self.envs, self.steps))
        return {self.keys[i]: tensors[i] for i in sorted(tensors)}

    def problems(self) -> Iterator[str]:
        """Read everything; yield what is not as it was written, key by key."""
        found: list[str] = []
        for column in self.columns:
            try:
                self._claim(column.nbytes)
                self._stored(column, np.arange(column.envs), np.arange(column.steps))
            except BROKEN as error:
                found.append(str(error))
        found = found or [why for _, why in self.container.damage()]  # bytes of no column
        yield from (why.removeprefix(f"{self.path}: ") for why in found)

    def _claim(self, nbytes: int) -> None:
        Reader(self.path, max_bytes=self.max_bytes).claim(nbytes)  # per call: the caller owns what it returns

    def _part(self, chosen: Iterable[int]) -> Any:
        """Return the tree of some columns, without plain values."""
        return select(self._tree, [show(self.keys[i]) for i in chosen], missing_ok=True)

    def _tensors(
        self,
        keys: Iterable[Any] | None,
        lead: tuple[int, ...],
        device: Any = None,
        region: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> dict[int, Any]:
        """Return the tensors and arrays of some keys by column, of all or of a region of environments and steps: those
        with steps as [*lead, ...]."""
        chosen = find_keys(self.keys, keys)
        in_part = {i for i in chosen if region is not None and self.columns[i].is_steps}
        part = len(region[0]) * len(region[1]) / max(1, self.envs * self.steps) if region else 1.0
        self._claim(math.ceil(sum(self.columns[i].nbytes * (part if i in in_part else 1) for i in chosen)))
        frames = self._read_complete(chosen - in_part)
        frames |= {i: self._read_part(self.columns[i], *region) for i in in_part} if region else {}
        tensors: dict[int, Any] = {}
        for i in chosen:
            column = self.columns[i]
            shape = (*lead, *column.shape[len(self.lead) :]) if column.is_steps else column.shape
            made = make_tensor(View(0, column.dtype, shape, (), 0, "cpu"), torch.from_numpy(frames[i].reshape(-1)))
            tensors[i] = made if device is None else made.to(device)
        return tensors

    def _read_complete(self, chosen: set[int]) -> dict[int, np.ndarray]:
        """Return all frames of some columns, uint8 [envs, steps, bytes].

        A piece is decoded once: while it is in the cache of the processor, it is copied to its successors too.
        """
        successors = {i: base for i in chosen if (base := self.columns[i].base) is not None}
        stored: dict[int, np.ndarray] = {}
        for i in {*chosen, *successors.values()}:
            column = self.columns[i]
            stored[i] = np.empty((column.envs, column.steps, column.frame_bytes), np.uint8)
        moved = [(i, base, np.empty_like(stored[base])) for i, base in successors.items()]

        def decode(job: tuple[int, int, tuple[slice, slice]]) -> None:
            i, number, (e, s) = job
            piece = stored[i][e, s]  # pieces follow one another in memory
            self._read_piece(self.columns[i], number, piece.reshape(-1))
            skipped = int(s.start == 0)  # the first step succeeds none
            for _, base, out in moved:
                if base == i:
                    out[e, s.start - 1 + skipped : s.stop - 1] = piece[:, skipped:]

        jobs = [(i, number, piece) for i in stored for number, piece in enumerate(self.columns[i].pieces())]
        run_in_threads(decode, jobs, least=16)  # 4 MB
        for i, _, out in moved:
            out[self.columns[i].own] = stored[i][0]
            stored[i] = out
        return stored

    def _read_part(self, column: Column, envs: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the frames of a column at those environments and steps, uint8 [envs, steps, bytes]."""
        if column.base is None:
            return self._stored(column, envs, steps)
        own = column.own[np.ix_(envs, steps)]
        rank = (np.cumsum(column.own) - 1).reshape(column.own.shape)[np.ix_(envs, steps)]
        out = self._stored(self.columns[column.base], envs, np.minimum(steps + 1, self.steps - 1))
        out[own] = self._stored(column, np.zeros(1, np.int64), rank[own])[0]
        return out

    def _stored(self, column: Column, envs: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return what is stored of a column there, uint8 [envs, steps, bytes]; no piece without them is decoded."""
        out = np.empty((len(envs), len(steps), column.frame_bytes), np.uint8)
        for number, (e, s) in enumerate(column.pieces()):
            rows = np.flatnonzero((envs >= e.start) & (envs < e.stop))
            places = np.flatnonzero((steps >= s.start) & (steps < s.stop))
            if len(rows) and len(places):
                part = np.empty((e.stop - e.start, s.stop - s.start, column.frame_bytes), np.uint8)
                self._read_piece(column, number, part.reshape(-1))
                out[np.ix_(rows, places)] = part[np.ix_(envs[rows] - e.start, steps[places] - s.start)]
        return out

    def _read_piece(self, column: Column, number: int, out: np.ndarray) -> None:
        """Fill `out`, uint8 [n], with a piece."""
        try:
            piece = column.first + number
            if self.container.sizes[piece] == out.size:
                self.container.read_into(piece, out.data)
            else:
                zstd_decompress(self.container.section(piece).data, out)
        except (CodecError, DamagedFileError) as error:
            why = str(error).removeprefix(f"{self.path}: ")
            what = f"{printable(show(column.key), keep='')} is damaged in piece {number + 1} of {column.num_pieces}"
            raise DamagedFileError(f"{self.path}: {what} ({why}); other keys and batches can be read") from error

    def _own(self, reference: Any, what: str) -> np.ndarray:
        """Return which steps of a successor are stored, bool [envs, steps]."""
        reader, count = self.container.reader, self.envs * self.steps
        bits = self.container.array(reference, what).numpy()
        if bits.dtype != np.uint8 or bits.shape != (-(-count // 8),):
            reader.fail(f"{what} are not those of the batch")
        reader.claim(count, what)
        own = np.unpackbits(bits, count=count).view(bool).reshape(self.envs, self.steps)
        if not own[:, -1].all():  # nothing follows the last step
            reader.fail(f"{what} lack the last one")
        return own


def show(key: Key) -> str:
    """Return a key as the command line takes it."""
    return ".".join(map(str, key)) or "batch"


def find_keys(keys: list[Key], asked: Iterable[Any] | None) -> set[int]:
    """Return the numbers of the `asked` keys, or of all: each by its own key, or by a key above it. Dots separate
    nested names."""
    if asked is None:
        return set(range(len(keys)))
    found: set[int] = set()
    for one in [asked] if isinstance(asked, str | tuple) else asked:
        name = show(one if isinstance(one, tuple) else (one,))
        hits = {i for i, key in enumerate(keys) if f"{show(key)}.".startswith(f"{name}.")}
        if not hits:
            names = [show(key) for key in keys]
            near = difflib.get_close_matches(name, names, 1)
            raise KeyError(
                f"no '{name}' here; there are {', '.join(names)}{f'; did you mean {near[0]}?' if near else ''}"
            )
        found |= hits
    return found


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
