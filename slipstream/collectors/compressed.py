"""Compressed batches: observations kept as blocks, the same as in replay and in rollout files. A minibatch decodes only
its frames."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.tensorclass import NonTensorData
from torch import Tensor, nn

from slipstream.collectors.sync import SyncDataCollector
from slipstream.config.collect import CollectConfig
from slipstream.config.help import ConfigError
from slipstream.envs.base import TensorEnv
from slipstream.envs.collector import Collector
from slipstream.models.memory import MEMORY
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
NO_OBSERVATIONS = ("done", "terminated", "truncated", "value", "reward")  # though they are under "next" too


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
    plain tensors [rows, ...]: those that were not to be compressed. `observations[name]` decodes one, [N, T, ...].
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

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.frames:
            raise KeyError(f"there is no observation {name!r}: the batch has {', '.join(self.frames)}")
        return self.decode(name)

    def decode(self, name: str, later: int = 0) -> Tensor:
        """Return one observation [N, T, ...], `later` steps later."""
        x = self.frames[name]
        rows = x if isinstance(x, Tensor) else x.rows()
        return rows.unflatten(0, (-1, self._num_envs))[later : later + self._steps].transpose(0, 1)


class CompressedBatch:
    """A batch [N, T] with observations as blocks and everything else plain. Keys are read and written as in a
    TensorDict.

    `batch["observation"]` gives the `CompressedObservations`; `batch["observation", "lidar"]` decodes all frames of one
    observation, at every call. It pickles, as the bytes of `to_bytes`.

    Args:
        plain: everything but the observations.
        observations: with the row after the last step, unless `successors` are given.
        successors: the next observations, if they are not the observations one step later (TorchRL's envs reset within
            a step).
        nested: whether observations are under the key "observation"; otherwise the name `agents.lidar` is the key
            ("agents", "lidar"), as TorchRL's envs have it.
    """

    def __init__(
        self,
        plain: TensorDictBase,
        observations: CompressedObservations,
        successors: CompressedObservations | None = None,
        *,
        nested: bool = True,
    ) -> None:
        self.plain = plain
        self.observations = observations
        self.successors = successors
        self.nested = nested
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
        after = rows if self.successors is not None else rows + self.batch_size[0]
        for name, x in self.observations.rows(rows).items():
            chosen.set(self._key(name), x)
        for name, x in (self.successors or self.observations).rows(after).items():
            chosen.set(("next", *self._key(name)), x)
        return chosen

    def decode(self) -> TensorDictBase:
        """Return the batch as the base collector gave it."""
        batch = self.plain.clone(recurse=False)
        for name in self.observations.keys():  # noqa: SIM118
            batch[self._key(name)] = self.observations.decode(name)
            batch[("next", *self._key(name))] = self._successor(name)
        return batch

    def _key(self, name: str) -> tuple[str, ...]:
        """Return the key of an observation."""
        return ("observation", name) if self.nested else tuple(name.split("."))

    def _successor(self, name: str) -> Tensor:
        """Return the next observations [N, T, ...]."""
        return self.observations.decode(name, 1) if self.successors is None else self.successors.decode(name)

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
        head = {"state": state, "blocks": blocks, "names": names, "batch_size": list(self.batch_size)}
        writer.finish(head | {"nested": self.nested})
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
        return cls(state["plain"].to(device), *parts, nested=head["nested"] is True)

    def __reduce__(self) -> Any:
        return CompressedBatch.from_bytes, (self.to_bytes(),)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, as `batch[key]`; `default` if there is none."""
        try:
            return self[key]
        except KeyError:
            return default

    def __getitem__(self, key: Any) -> Any:
        path = key if isinstance(key, tuple) else (key,)
        if self.nested and path == ("observation",):
            return self.observations
        for name in self.observations.keys():  # noqa: SIM118
            if path == self._key(name):
                return self.observations.decode(name)
            if path == ("next", *self._key(name)):
                return self._successor(name)
        try:
            return self.plain[key]
        except KeyError as error:
            names = [".".join(self._key(name)) for name in self.observations.keys()]  # noqa: SIM118
            held = [*names, *(".".join(k) if isinstance(k, tuple) else k for k in self.plain.keys(True, True))]
            raise KeyError(f"this compressed batch has no key {key!r}, but {', '.join(held)}") from error

    def __setitem__(self, key: Any, value: Tensor) -> None:
        self.plain[key] = value

    def keys(self, *args: Any) -> Iterator[Any]:
        """Yield all keys, the compressed observations as one if they are under one."""
        names = ("observation",) if self.nested else map(self._key, self.observations.keys())
        return itertools.chain(self.plain.keys(*args), names)

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
        return CompressedBatch(self.plain.to(device), *parts, nested=self.nested)

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
        """Compress one batch, also one of an env that resets within a step."""
        nested, seen, following = _both_observations(batch)
        if all(_shifted(seen[name], following[name]) for name in seen):
            return self.join([batch])
        parts = []
        for part in (seen, following):
            rows = {name: x.transpose(0, 1).flatten(0, 1) for name, x in part.items()}
            frames: dict[str, CompressedFrames | Tensor] = {
                name: x.clone() if self._stays_plain(name, x) else CompressedFrames.of(x, self.level)
                for name, x in rows.items()
            }
            parts.append(CompressedObservations(frames, *batch.batch_size))
        self._check_keys(seen)
        return CompressedBatch(_without(batch, nested, seen), *parts, nested=nested)

    def join(self, batches: Iterable[TensorDictBase]) -> CompressedBatch:
        """Compress batches of the same environments that follow one another as one; each may be overwritten once the
        next is taken.

        Raises:
            ValueError: A next observation is not the observation of the step after it.
        """
        if self._batches % CHOOSE_AGAIN == 0:
            self._codecs, self._hopeless = {}, set()
        self._batches += 1
        columns: dict[str, CompressedFrames] = {}
        raw: dict[str, list[Tensor]] = {}
        plain: list[TensorDictBase] = []
        last: dict[str, Tensor] = {}
        nested = True
        memory: Tensor | None = None  # the policy's, before the first step
        for batch in batches:
            nested, now, following = _both_observations(batch)
            for name, x in now.items():
                if not _shifted(x, following[name]) or (last and not _same(last[name], x[:, 0])):
                    raise ValueError(
                        f"the next observation {name!r} of a step is not the observation of the step after it, because "
                        "the env resets within a step: such batches are compressed one by one, with pieces=1"
                    )
            seen = {name: x.transpose(0, 1).flatten(0, 1) for name, x in now.items()}  # [T * N, ...]
            for name, frames in seen.items():
                if self._stays_plain(name, frames):
                    raw.setdefault(name, []).append(frames.clone())
                    continue
                if name not in columns:
                    columns[name] = CompressedFrames(frames, self.level, self._codecs.get(name, "auto"))
                columns[name].append(frames)
            last = {name: x[:, -1].clone() for name, x in following.items()}
            if (shared := shared_memory(batch)) is not None:
                memory = shared if memory is None else memory
                batch = batch.exclude(MEMORY)
            plain.append(_without(batch, nested, seen))
        if not plain:
            raise ValueError("there was no batch to compress")
        self._check_keys(last)
        for name, column in columns.items():
            column.append(last[name])
            column.finish()
            self._codecs[name] = column.codec
            if column.ratio < LEAST_RATIO:
                self._hopeless.add(name)
        kept = {name: torch.cat([*parts, last[name]]) for name, parts in raw.items()}
        joined: Any = plain[0] if len(plain) == 1 else torch.cat(plain, 1)  # type: ignore[call-overload]
        if memory is not None:
            joined[MEMORY] = memory.expand(-1, joined.batch_size[1], -1)
        return CompressedBatch(joined, CompressedObservations({**columns, **kept}, *joined.batch_size), nested=nested)

    def _check_keys(self, names: Iterable[str]) -> None:
        if missing := sorted(set(self.keys or ()).difference(names)):
            has = ", ".join(sorted(names))
            raise ValueError(f"there is no observation {missing[0]!r} to compress: the batch has {has}")

    def _stays_plain(self, name: str, frames: Tensor) -> bool:
        """Return whether an observation [n, ...] is not compressed."""
        if self.keys is not None:
            return name not in self.keys
        return name in self._hopeless or frames[0].nbytes < SMALL_FRAME


def compress_rollout(data: Any, compression_level: int = 1) -> CompressedBatch:
    """Compress a batch [N, T] to keep it or to send it: `decompress_rollout` returns it, bit for bit.

    Args:
        data: a TensorDict, or a nested dict of tensors or arrays, of any collector: with ("observation", name) and
            ("next", "observation", name), or with observations under keys of their own as TorchRL's envs have them.
        compression_level: as in `CompressedFrames`.

    Returns:
        A batch that learners and `minibatch(indices)` read without decoding all of it.
    """
    batch = data if isinstance(data, TensorDictBase) else _as_tensordict(data)
    return Compressor(compression_level)(batch)


def decompress_rollout(compressed: CompressedBatch | bytes, device: torch.device | str | None = None) -> TensorDictBase:
    """Return the batch that `compress_rollout` compressed, or the bytes of its `to_bytes()`; on `device` if given."""
    batch = CompressedBatch.from_bytes(compressed) if isinstance(compressed, bytes) else compressed
    return (batch if device is None else batch.to(device)).decode()


class CompressedDataCollector:
    """A collector that returns the batches of another one as `CompressedBatch`.

    Args:
        base_collector: its batches are [N, T]; over a TorchRL env they have TorchRL's keys. `return_same_td=True` is
            best: everything is copied anyway.
        compression_level: as in `CompressedFrames`.
        keys: the observations to compress, for example `["lidar"]`; all by default.
        pieces: so many batches of the base are joined to one. Only one of them is in memory uncompressed. 1 for envs
            that reset within a step, as TorchRL's do.
    """

    def __init__(
        self, base_collector: Any, compression_level: int = 1, *, keys: Sequence[str] | None = None, pieces: int = 1
    ) -> None:
        if pieces < 1:
            raise ValueError(f"pieces={pieces} must be at least 1")
        self.base = base_collector
        self.pieces = pieces
        self.compression_level = compression_level
        self._compressor = Compressor(compression_level, keys)

    @classmethod
    def build(cls, env: TensorEnv, policy: Any, frames: int, settings: CollectConfig, seed: int) -> Collector:
        """Return the collector of a training, with batches of `frames` frames in `settings.pieces` pieces."""
        if frames % (env.num_envs * settings.pieces):
            raise ConfigError(
                f"collect.pieces={settings.pieces} must divide algo.rollout_steps={frames // env.num_envs}"
            )
        base = SyncDataCollector.build(env, policy, frames // settings.pieces, settings, seed)
        return cls(base, settings.compression_level, keys=settings.compressed_keys(), pieces=settings.pieces)

    def rollout(self, check: bool = True) -> CompressedBatch:
        """Collect the next batch; for a base collector of ours."""
        if self.pieces == 1:
            return self._compressor(self.base.rollout(check))
        return self._compressor.join(self.base.rollout(check) for _ in range(self.pieces))

    collect = collect_rollout = rollout

    def __iter__(self) -> Iterator[CompressedBatch]:
        """Yield batches until the base has no more; a joined one at the end may be shorter."""
        source = iter(self.base)
        for first in source:  # one at a time: a batch of the base may be overwritten by the next
            if self.pieces == 1:
                yield self._compressor(first)
                continue
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


def shared_memory(batch: TensorDictBase) -> Tensor | None:
    """Return a copy of a policy's memory before the first step, [N, 1, size], if a batch has it once for all steps."""
    memory = batch.get(MEMORY, None)
    shared = isinstance(memory, Tensor) and memory.dim() == 3 and memory.stride(1) == 0
    return memory[:, :1].clone() if shared else None


def _both_observations(batch: TensorDictBase) -> tuple[bool, dict[str, Tensor], dict[str, Tensor]]:
    """Return whether the observations of a batch are under the key "observation", and by name the observations and the
    next observations. Otherwise observations are the keys that are also under "next"."""
    if batch.dim() != 2:
        size = list(batch.batch_size)
        raise ValueError(f"a batch to compress is [N, T], not {size}: of one env, use batch.unsqueeze(0)")
    following = batch.get("next", None)
    following = following if isinstance(following, TensorDictBase) else TensorDict({}, batch.batch_size)
    parts = batch.get("observation", None), following.get("observation", None)
    if all(isinstance(part, TensorDictBase) for part in parts):
        seen, later = ({name: part[name] for name in part.keys()} for part in parts)  # noqa: SIM118
        return True, seen, later
    own = {key if isinstance(key, tuple) else (key,): x for key, x in batch.items(True, True)}
    keys = [key for key in own if ("next", *key) in own and key[-1] not in NO_OBSERVATIONS]
    if not keys:
        raise ValueError(
            "a batch to compress has observations and next observations, the keys ('observation', name) and ('next', "
            f"'observation', name), or TorchRL's; this one has {', '.join('.'.join(key) for key in own)}"
        )
    return False, {".".join(key): own[key] for key in keys}, {".".join(key): own["next", *key] for key in keys}


def _without(batch: TensorDictBase, nested: bool, names: Iterable[str]) -> TensorDictBase:
    """Return a copy of everything but the observations."""
    if nested:
        return batch.exclude("observation", ("next", "observation")).clone()
    keys = [tuple(name.split(".")) for name in names]
    return batch.exclude(*keys, *(("next", *key) for key in keys)).clone()


def _shifted(seen: Tensor, following: Tensor) -> bool:
    """Return whether the next observations [N, T, ...] are the observations one step later."""
    mine, theirs = seen[:, 1:], following[:, :-1]
    return mine.data_ptr() == theirs.data_ptr() or _same(mine, theirs)


def _same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one dtype have the same bits; NaN is itself."""
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


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
