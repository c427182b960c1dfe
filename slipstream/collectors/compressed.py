"""Compressed batches: observations kept as blocks, the same as in replay and in rollout files. A minibatch decodes only
its frames."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.tensorclass import NonTensorData
from torch import Tensor, nn

from slipstream.storage.blocks import BlockColumn
from slipstream.storage.container import Container, ContainerWriter, MemoryFile
from slipstream.storage.schema import KeySpec, as_array
from slipstream.storage.serializer import load_state, store_state, torch_dtype

CHOOSE_AGAIN = 64  # batches after which the codecs are chosen again
SMALL_FRAME = 64  # bytes: below, the table of places takes what compressing saves
LEAST_RATIO = 1.1  # an observation that gains less stays plain until the next choice
HIGHEST_LEVEL = 12  # of LZ4-HC; levels up to 16 are the same
KIND = "fram"
BATCH_KIND = "cbat"


def _check_level(level: int) -> None:
    if not 0 <= level <= 16:
        raise ValueError(f"compression_level={level} is not in 0 … 16")


class CompressedFrames:
    """Frames [n, *shape] of one observation, compressed.

    Args:
        like: frames as those that will be appended, [n, *shape]; their device is where decoded ones go.
        level: 0 keeps frames raw, 1 compresses fast, 2 to 12 smaller and slower.
        codec: a codec of docs/replay-blocks.md, or "auto".
        group: consecutive frames that are compressed together; they get smaller, but one frame is decoded with its
            group.
    """

    def __init__(self, like: Tensor, level: int = 1, codec: str = "auto", group: int = 1) -> None:
        _check_level(level)
        array, dtype = as_array(("frames",), like[:0])
        self.device, self.level, self.group = like.device, level, group
        self._spec = KeySpec(("frames",), tuple(like.shape[1:]), array.dtype, dtype)
        codec, slow = "raw" if level == 0 else codec, min(max(level, 2), HIGHEST_LEVEL)
        self._column = BlockColumn(self._spec.shape, array.dtype, codec, group, seal=level > 1, level=slow)

    @classmethod
    def of(cls, frames: Tensor, level: int = 1, codec: str = "auto", group: int = 1) -> CompressedFrames:
        """Compress `frames` [n, *shape]."""
        compressed = cls(frames, level, codec, group)
        compressed.append(frames)
        compressed.finish()
        return compressed

    def append(self, frames: Tensor) -> None:
        """Add frames [n, *shape]."""
        self._column.append(as_array(self._spec.key, frames)[0])

    def finish(self) -> None:
        """Compress the frames that still wait for it."""
        self._column.flush()

    def rows(self, index: Tensor | None = None) -> Tensor:
        """Return the frames `index` [B] (all by default) on `device`; no others are decoded."""
        rows = torch.arange(len(self)).numpy() if index is None else index.cpu().numpy()
        on_gpu = self.device.type == "cuda"
        host = torch.empty((len(rows), *self._spec.shape), dtype=self._spec.torch_dtype, pin_memory=on_gpu)
        self._column.gather(rows, as_array(self._spec.key, host)[0])
        return host.to(self.device, non_blocking=True) if on_gpu else host

    @property
    def shape(self) -> tuple[int, ...]:
        """[n, *shape]."""
        return (len(self), *self._spec.shape)

    @property
    def codec(self) -> str:
        """The codec that was chosen."""
        return self._column.stats()["codec"]

    @property
    def nbytes(self) -> int:
        """Bytes that the compressed frames take."""
        return self._column.stats()["stored_bytes"]

    @property
    def raw_nbytes(self) -> int:
        """Bytes that the frames would take uncompressed."""
        return len(self) * self._spec.row_bytes

    @property
    def ratio(self) -> float:
        """How many times smaller they have become."""
        return self.raw_nbytes / max(1, self.nbytes)

    def __len__(self) -> int:
        return len(self._column)

    def to_bytes(self) -> bytes:
        """Return everything as bytes for another process or machine: a container with the blocks as they are in
        memory."""
        file = MemoryFile()
        writer = ContainerWriter(file, KIND)
        for _, block in self._column.blocks():
            writer.add(block)
        dtype = str(self._spec.torch_dtype).removeprefix("torch.")
        writer.finish({"shape": list(self._spec.shape), "dtype": dtype, "level": self.level, "group": self.group})
        return file.join().tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, device: torch.device | str = "cpu") -> CompressedFrames:
        """Return the frames of `to_bytes`; every group is checked when it is decoded.

        Raises:
            DamagedFileError: (a ValueError) if the bytes are something else, or damaged.
        """
        container = Container.from_bytes(data, KIND, "compressed frames")
        reader, head = container.reader, container.head
        with reader.parsing("the head"):
            shape, dtype = reader.shape(head["shape"], "the shape"), torch_dtype(head["dtype"], reader)
            level = reader.integer(head["level"], "the level", 0, 16)
            group = reader.integer(head["group"], "the group", 1, 1 << 20)
            frames = cls(torch.empty((0, *shape), dtype=dtype, device=device), level, "auto", group)
            for number in range(len(container)):
                frames._column.add_block(container.view(number))
            reader.claim(frames.raw_nbytes, "the frames")
        return frames

    def __reduce__(self) -> Any:
        return CompressedFrames.from_bytes, (self.to_bytes(),)

    def to(self, device: torch.device | str) -> CompressedFrames:
        """Return the same frames, to be decoded to `device`."""
        twin = copy.copy(self)
        twin.device = torch.empty(0, device=device).device
        return twin


class CompressedObservations:
    """The observations of a batch [N, T], each frame once.

    Row t * N + n is the observation of env n at step t, row (t + 1) * N + n its successor. Some observations may be
    plain tensors [rows, ...]: those that were not to be compressed.
    """

    def __init__(self, frames: dict[str, CompressedFrames | Tensor], num_envs: int, steps: int) -> None:
        self.frames = frames
        self._num_envs, self._steps = num_envs, steps

    def keys(self) -> Iterable[str]:
        """The names of the observations."""
        return self.frames.keys()

    def rows(self, index: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Return the frames of rows `index` [B], of all observations or of those named."""
        chosen = self.frames if names is None else {n: self.frames[n] for n in self.frames if n in set(names)}
        return {
            name: x.index_select(0, index.to(x.device)) if isinstance(x, Tensor) else x.rows(index)
            for name, x in chosen.items()
        }

    def minibatches(self, order: Tensor | None, count: int, keys: Iterable[str]) -> Iterator[dict[str, Tensor]]:
        """Yield the frames of the batch's rows in `order` (as they are for None) in `count` parts; each is decoded when
        its turn comes."""
        rows = torch.arange(self._num_envs * self._steps) if order is None else order
        for part in rows.chunk(count):
            yield self.rows(part, keys)

    def decode(self, name: str, later: int = 0) -> Tensor:
        """Return one observation [N, T, ...], `later` steps later."""
        x = self.frames[name]
        rows = x if isinstance(x, Tensor) else x.rows()
        return rows.unflatten(0, (-1, self._num_envs))[later : later + self._steps].transpose(0, 1)


class CompressedBatch:
    """A batch [N, T] with observations as blocks and everything else plain. Keys are read and written as in a
    TensorDict.

    `batch["observation"]` gives the `CompressedObservations`. It pickles, as the bytes of `to_bytes`.

    Args:
        plain: everything but the observations.
        observations: with the row after the last step, unless `successors` are given.
        successors: the next observations, if they are not the observations one step later (TorchRL's envs reset within
            a step).
    """

    def __init__(
        self,
        plain: TensorDictBase,
        observations: CompressedObservations,
        successors: CompressedObservations | None = None,
    ) -> None:
        self.plain = plain
        self.observations = observations
        self.successors = successors
        self.batch_size = plain.batch_size
        self.device = plain.device

    def minibatch(self, indices: Tensor | Sequence[int]) -> TensorDict:
        """Return frames `indices` [B] of the flattened batch, frame i being step i % T of env i // T; no others are
        decoded."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        env, step = index // self.batch_size[1], index % self.batch_size[1]
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= self.batch_size.numel()):
            raise IndexError(f"frames are numbered 0 … {self.batch_size.numel() - 1} in this batch")
        rows = step * self.batch_size[0] + env
        near = self.plain.device or torch.device("cpu")
        chosen = self.plain[env.to(near), step.to(near)]
        chosen["observation"] = TensorDict(self.observations.rows(rows), [len(index)])
        later = self.successors or self.observations
        after = rows if self.successors is not None else rows + self.batch_size[0]
        chosen.set(("next", "observation"), TensorDict(later.rows(after), [len(index)]))
        return chosen

    def decode(self) -> TensorDictBase:
        """Return the batch as the base collector gave it."""
        batch = self.plain.clone(recurse=False)
        for name in self.observations.keys():  # noqa: SIM118
            batch[("observation", name)] = self.observations.decode(name)
            following = self.successors or self.observations
            batch[("next", "observation", name)] = following.decode(name, later=int(self.successors is None))
        return batch

    def to_bytes(self) -> bytes:
        """Return everything as bytes for a file, another process or another machine; nothing is compressed again."""
        file = MemoryFile()
        writer = ContainerWriter(file, BATCH_KIND)
        parts = [part.frames for part in (self.observations, self.successors) if part is not None]
        blocks = [
            {name: writer.add(x.to_bytes()) for name, x in part.items() if isinstance(x, CompressedFrames)}
            for part in parts
        ]
        raw = [{name: x for name, x in part.items() if isinstance(x, Tensor)} for part in parts]
        state = store_state(writer, {"plain": self.plain, "raw": raw})
        names = [list(part) for part in parts]
        writer.finish({"state": state, "blocks": blocks, "names": names, "batch_size": list(self.batch_size)})
        return file.join().tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, device: torch.device | str = "cpu") -> CompressedBatch:
        """Return the batch of `to_bytes`; every group of frames is checked when it is decoded.

        Raises:
            DamagedFileError: (a ValueError) if the bytes are something else, or damaged.
        """
        container = Container.from_bytes(data, BATCH_KIND, "a compressed batch")
        reader, head = container.reader, container.head
        with reader.parsing("the batch"):
            num_envs, steps = reader.shape(head["batch_size"], "the batch size")
            state = load_state(container, head["state"])
            parts = []
            for names, blocks, raw in zip(head["names"], head["blocks"], state["raw"], strict=True):
                frames: dict[str, CompressedFrames | Tensor] = {
                    name: raw[name].to(device)
                    if name in raw
                    else CompressedFrames.from_bytes(container.section(blocks[name]).tobytes(), device)
                    for name in names
                }
                rows = num_envs * (steps + (len(head["names"]) == 1))
                for name, x in frames.items():
                    if len(x) != rows:
                        reader.fail(f"{name!r} has {len(x)} frames, a batch of {num_envs} x {steps} needs {rows}")
                parts.append(CompressedObservations(frames, num_envs, steps))
            if state["plain"].batch_size != (num_envs, steps) or len(parts) not in (1, 2):
                reader.fail("its parts do not fit together")
        return cls(state["plain"].to(device), *parts)

    def __reduce__(self) -> Any:
        return CompressedBatch.from_bytes, (self.to_bytes(),)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key; observations as `CompressedObservations`."""
        return self.observations if key == "observation" else self.plain.get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return self.observations if key == "observation" else self.plain[key]

    def __setitem__(self, key: Any, value: Tensor) -> None:
        self.plain[key] = value

    def keys(self, *args: Any) -> Iterator[Any]:
        """Yield all keys, the compressed observations as one."""
        return itertools.chain(self.plain.keys(*args), ("observation",))

    def numel(self) -> int:
        """The number of frames."""
        return self.batch_size.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of everything held."""
        return self._plain_nbytes() + sum(x.nbytes for x in self._frames())

    @property
    def raw_nbytes(self) -> int:
        """Bytes that it would take uncompressed, each observation once."""
        return self._plain_nbytes() + sum(x.nbytes if isinstance(x, Tensor) else x.raw_nbytes for x in self._frames())

    @property
    def ratio(self) -> float:
        """How many times smaller the batch has become, all keys counted."""
        return self.raw_nbytes / self.nbytes

    def to(self, device: torch.device | str) -> CompressedBatch:
        """Return the batch with plain keys on `device`; observations stay compressed on the host and are decoded to
        it."""
        parts = [
            CompressedObservations({name: x.to(device) for name, x in part.frames.items()}, *self.batch_size)
            for part in (self.observations, self.successors)
            if part is not None
        ]
        return CompressedBatch(self.plain.to(device), *parts)

    def _frames(self) -> list[CompressedFrames | Tensor]:
        later = {} if self.successors is None else self.successors.frames
        return [*self.observations.frames.values(), *later.values()]

    def _plain_nbytes(self) -> int:
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in self.plain.values(True, True)}
        return sum(storages.values())


class Compressor:
    """Turns batches [N, T] of a collector into `CompressedBatch`.

    Args:
        compression_level: as in `CompressedFrames`.
        keys: the observations to compress; by default all that gain by it.
    """

    def __init__(self, compression_level: int = 1, keys: Sequence[str] | None = None) -> None:
        _check_level(compression_level)
        self.level = compression_level
        self.keys = None if keys is None else tuple(keys)
        self._codecs: dict[str, str] = {}  # as last chosen
        self._hopeless: set[str] = set()
        self._batches = 0

    def __call__(self, batch: TensorDictBase) -> CompressedBatch:
        """Compress one batch."""
        return self.join([batch])

    def join(self, batches: Iterable[TensorDictBase]) -> CompressedBatch:
        """Compress batches of the same environments that follow one another as one; each may be overwritten once the
        next is taken."""
        if self._batches % CHOOSE_AGAIN == 0:
            self._codecs, self._hopeless = {}, set()
        self._batches += 1
        columns: dict[str, CompressedFrames] = {}
        raw: dict[str, list[Tensor]] = {}
        plain: list[TensorDictBase] = []
        last: dict[str, Tensor] = {}
        for batch in batches:
            seen = {name: x.transpose(0, 1).flatten(0, 1) for name, x in _observations(batch).items()}  # [T * N, ...]
            for name, frames in seen.items():
                if self._stays_plain(name, frames):
                    raw.setdefault(name, []).append(frames.clone())
                    continue
                if name not in columns:
                    columns[name] = CompressedFrames(frames, self.level, self._codecs.get(name, "auto"))
                columns[name].append(frames)
            last = {name: batch["next", "observation", name][:, -1].clone() for name in seen}
            plain.append(batch.exclude("observation", ("next", "observation")).clone())
        if not plain:
            raise ValueError("there was no batch to compress")
        if missing := sorted(set(self.keys or ()) - set(last)):
            names = ", ".join(sorted(last))
            raise ValueError(f"there is no observation {missing[0]!r} to compress: the batch has {names}")
        for name, column in columns.items():
            column.append(last[name])
            column.finish()
            self._codecs[name] = column.codec
            if column.ratio < LEAST_RATIO:
                self._hopeless.add(name)
        kept = {name: torch.cat([*parts, last[name]]) for name, parts in raw.items()}
        joined: Any = plain[0] if len(plain) == 1 else torch.cat(plain, 1)  # type: ignore[call-overload]
        return CompressedBatch(joined, CompressedObservations({**columns, **kept}, *joined.batch_size))

    def _stays_plain(self, name: str, frames: Tensor) -> bool:
        """Return whether an observation [n, ...] is not compressed."""
        if self.keys is not None:
            return name not in self.keys
        return name in self._hopeless or frames[0].nbytes < SMALL_FRAME


def compress_rollout(data: Any, compression_level: int = 1) -> CompressedBatch:
    """Compress a batch [N, T] to keep it or to send it: `decompress_rollout` returns it, bit for bit.

    Args:
        data: a TensorDict, or a nested dict of tensors or arrays, with ("observation", name) and ("next",
            "observation", name); of any collector, also of envs that reset within a step.
        compression_level: as in `CompressedFrames`.

    Returns:
        A batch that learners and `minibatch(indices)` read without decoding all of it.
    """
    batch = data if isinstance(data, TensorDictBase) else _as_tensordict(data)
    seen, following = _both_observations(batch)
    if all(_shifted(seen[name], following[name]) for name in seen):
        return Compressor(compression_level)(batch)
    parts = []
    for part in (seen, following):
        rows = {name: x.transpose(0, 1).flatten(0, 1) for name, x in part.items()}
        frames: dict[str, CompressedFrames | Tensor] = {
            name: x.clone() if x[0].nbytes < SMALL_FRAME else CompressedFrames.of(x, compression_level)
            for name, x in rows.items()
        }
        parts.append(CompressedObservations(frames, *batch.batch_size))
    return CompressedBatch(batch.exclude("observation", ("next", "observation")).clone(), *parts)


def decompress_rollout(compressed: CompressedBatch | bytes, device: torch.device | str | None = None) -> TensorDictBase:
    """Return the batch that `compress_rollout` compressed, or the bytes of its `to_bytes()`; on `device` if given."""
    batch = CompressedBatch.from_bytes(compressed) if isinstance(compressed, bytes) else compressed
    return (batch if device is None else batch.to(device)).decode()


class CompressedDataCollector:
    """A collector that returns the batches of another one as `CompressedBatch`.

    Args:
        base_collector: its batches must be [N, T] in which the next observation of step t is the observation of step t
            + 1, as those of slipstream's collectors are. `return_same_td=True` is best: everything is copied anyway.
        compression_level: as in `CompressedFrames`.
        keys: the observations to compress, for example `["lidar"]`; all by default.
        pieces: so many batches of the base are joined to one. Only one of them is in memory uncompressed.
    """

    compressor: ClassVar[type[Compressor]] = Compressor  # for a pipelined collector, as its `postproc`

    def __init__(
        self, base_collector: Any, compression_level: int = 1, *, keys: Sequence[str] | None = None, pieces: int = 1
    ) -> None:
        if pieces < 1:
            raise ValueError(f"pieces={pieces} must be at least 1")
        self.base = base_collector
        self.pieces = pieces
        self.compression_level = compression_level
        self._compressor = Compressor(compression_level, keys)

    def rollout(self, check: bool = True) -> CompressedBatch:
        """Collect the next batch; for a base collector of ours."""
        return self._compressor.join(self.base.rollout(check) for _ in range(self.pieces))

    def collect(self) -> CompressedBatch:
        """Collect the next batch, as `rollout()`."""
        return self.rollout()

    def __iter__(self) -> Iterator[CompressedBatch]:
        """Yield batches until the base has no more; a joined one at the end may be shorter."""
        source = iter(self.base)
        for first in source:  # one at a time: a batch of the base may be overwritten by the next
            yield self._compressor.join(itertools.chain((first,), itertools.islice(source, self.pieces - 1)))

    def __getattr__(self, name: str) -> Any:
        """Everything else is the base's: `episodes`, `frames`, `fps`, `state_dict`, ..."""
        if name.startswith("__") or name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)

    @property
    def frames_per_batch(self) -> int:
        """Frames of one batch."""
        return self.pieces * self.base.frames_per_batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        shutdown = getattr(self.base, "shutdown", None)
        if callable(shutdown):
            shutdown()


def _observations(batch: TensorDictBase) -> dict[str, Tensor]:
    """Return the observations of a batch, after a check that the next ones are the same memory or numbers one step
    later."""
    seen, following = _both_observations(batch)
    for name in seen:
        if not _shifted(seen[name], following[name]):
            raise ValueError(
                f"the next observation {name!r} of a step is not the observation of the step after it: the env resets within a step. "
                "Compress it with a TensorEnv (docs/your-own-env.md), or keep such batches in a ReplayBuffer"
            )
    return seen


def _both_observations(batch: TensorDictBase) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the observations and the next observations of a batch by name."""
    parts = batch.get("observation", None), batch.get(("next", "observation"), None)
    if batch.dim() != 2 or not all(isinstance(part, TensorDictBase) for part in parts):
        raise ValueError("a batch to compress is [N, T] with the nested keys 'observation' and ('next', 'observation')")
    seen, following = ({name: part[name] for name in part.keys()} for part in parts)  # noqa: SIM118
    return seen, following


def _shifted(seen: Tensor, following: Tensor) -> bool:
    """Return whether the next observations [N, T, ...] are the observations one step later."""
    mine, theirs = seen[:, 1:], following[:, :-1]
    return mine.data_ptr() == theirs.data_ptr() or torch.equal(mine, theirs)


def _as_tensordict(data: Mapping[str, Any]) -> TensorDict:
    """Return a nested dict of tensors or arrays [N, T, ...] as a TensorDict."""
    batch = TensorDict(data)
    return batch.auto_batch_size_(2)


# --- one observation of any TensorDict


class CompressedLidarTransform:
    """Replaces `("observation", "lidar")` of a TensorDict by `CompressedFrames` under `"lidar_compressed"`.

    Frames [*batch, ...] are compressed one by one, so that any of them can be decoded alone. `inverse` restores the
    lidar, bit for bit; `CompressedLidarInput` does so inside of a policy. This is for links and queues that are slower
    than compressing: within one machine they are not.

    Args:
        compression_level: as in `CompressedFrames`.
        key: the observation to compress.
    """

    def __init__(self, compression_level: int = 1, key: tuple[str, ...] | str = ("observation", "lidar")) -> None:
        _check_level(compression_level)
        self.compression_level = compression_level
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.compressed_key = (*self.key[:-1], f"{self.key[-1]}_compressed")
        self._codec = "auto"  # as chosen for the first frames

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compress in place; return `tensordict` itself."""
        frames = tensordict.get(self.key, None)
        if not isinstance(frames, Tensor):
            raise KeyError(f"there is no tensor {self.key!r} to compress: give the key of one, key=(...)")
        flat = frames.flatten(0, tensordict.batch_dims - 1) if tensordict.batch_dims else frames.unsqueeze(0)
        compressed = CompressedFrames.of(flat, self.compression_level, self._codec)
        self._codec = compressed.codec
        tensordict.set(self.compressed_key, NonTensorData(compressed, batch_size=tensordict.batch_size))
        tensordict.pop(self.key)
        return tensordict

    def inverse(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Restore the observation in place; return `tensordict` itself."""
        frames = _frames(tensordict.pop(self.compressed_key)).rows()
        restored = frames.unflatten(0, tensordict.batch_size) if tensordict.batch_dims else frames[0]
        return tensordict.set(self.key, restored)


class CompressedLidarInput(nn.Module):
    """The first layer of a policy: decodes compressed frames to a tensor [n, ...] on the policy's device. Tensors pass
    unchanged.

    `nn.Sequential(CompressedLidarInput(), cnn)` reads either.
    """

    device_of: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("device_of", torch.empty(0), persistent=False)  # moves with the policy

    def forward(self, lidar: Any) -> Tensor:
        """Return the frames as a tensor."""
        if isinstance(lidar, Tensor):
            return lidar.to(self.device_of.device)
        if isinstance(lidar, bytes):
            return CompressedFrames.from_bytes(lidar, self.device_of.device).rows()
        return _frames(lidar).to(self.device_of.device).rows()


def _frames(held: Any) -> CompressedFrames:
    found = held.data if isinstance(held, NonTensorData) else held
    if not isinstance(found, CompressedFrames):
        kind = type(found).__name__
        raise TypeError(f"these are no compressed frames but {kind}: apply CompressedLidarTransform first")
    return found
