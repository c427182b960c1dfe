"""Compressed batches: observations kept as blocks, the same as in replay and in rollout files. A minibatch decodes only
its frames."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.tensorclass import NonTensorData
from torch import Tensor, nn

from slipstream.collectors.sync import CollectorAround, SyncDataCollector
from slipstream.config.collect import CollectConfig
from slipstream.config.help import ConfigError
from slipstream.envs.base import TensorEnv
from slipstream.envs.collector import Collector
from slipstream.envs.specs import Key
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
            writer.add(block, name="blocks")
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
    """The observations of a batch [N, T] by name. `observations[name]` decodes all frames of one, [N, T, ...]."""

    def __init__(self, batch: CompressedBatch) -> None:
        self._batch = batch
        self.frames = {key[1]: x for key, x in batch.frames.items() if key[0] == "observation"}

    def keys(self) -> Iterable[str]:
        """The names of the observations."""
        return self.frames.keys()

    def minibatches(self, order: Tensor | None, count: int, keys: Iterable[str]) -> Iterator[dict[str, Tensor]]:
        """Yield the frames of the batch's rows in `order` (as they are for None) in `count` parts; each is decoded when
        its turn comes."""
        rows = torch.arange(self._batch.numel()) if order is None else order
        names = [name for name in self.frames if name in set(keys)]
        for part in rows.chunk(count):
            yield {name: _rows(self.frames[name], part) for name in names}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.frames:
            raise KeyError(f"there is no observation {name!r}: the batch has {', '.join(self.frames)}")
        return self._batch["observation", name]


class CompressedBatch:
    """A batch [N, T] with observations as blocks and everything else plain. Keys are read and written as in a
    TensorDict.

    `batch["observation"]` gives the `CompressedObservations`; `batch["observation", "lidar"]` decodes all frames of one
    observation, at every call. It pickles, as the bytes of `to_bytes`.

    Args:
        plain: everything but the observations.
        frames: the observations by key, or plain tensors of them. Row t * N + n is that of env n at step t. Their next
            observations are one step later, up to step T, unless they are here too, under ("next", *key), because the
            env resets within a step (TorchRL's).
    """

    def __init__(self, plain: TensorDictBase, frames: Mapping[Key, CompressedFrames | Tensor]) -> None:
        self.plain = plain
        self.frames = dict(frames)
        self.batch_size = plain.batch_size
        self.device = plain.device

    @property
    def observations(self) -> CompressedObservations:
        """Those under the key "observation"."""
        return CompressedObservations(self)

    def minibatch(self, indices: Tensor | Sequence[int]) -> TensorDict:
        """Return frames `indices` [B] of the flattened batch, frame i being step i % T of env i // T; no others are
        decoded."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        num_envs, steps = self.batch_size
        env, step = index // steps, index % steps
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= self.numel()):
            raise IndexError(f"frames are numbered 0 … {self.numel() - 1} in this batch")
        near = self.plain.device or torch.device("cpu")
        chosen = self.plain[env.to(near), step.to(near)]
        for key, x in self.frames.items():
            chosen.set(key, _rows(x, step * num_envs + env))
            if self._has_row_after(key):
                chosen.set(("next", *key), _rows(x, (step + 1) * num_envs + env))
        return chosen

    def decode(self) -> TensorDictBase:
        """Return the batch as the base collector gave it."""
        batch = self.plain.clone(recurse=False)
        for key in self.frames:
            batch[key] = self[key]
            if self._has_row_after(key):
                batch["next", *key] = self["next", *key]
        return batch

    def _has_row_after(self, key: Key) -> bool:
        """Return whether the frames of `key` end with the observation after the last step."""
        return key[0] != "next" and ("next", *key) not in self.frames

    def to_bytes(self) -> bytes:
        """Return everything as bytes for a file, another process or another machine; nothing is compressed again."""
        file = MemoryFile()
        writer = ContainerWriter(file, BATCH_KIND)
        blocks = [
            writer.add(x.to_bytes(), name=".".join(key)) if isinstance(x, CompressedFrames) else None
            for key, x in self.frames.items()
        ]
        raw = [x if isinstance(x, Tensor) else None for x in self.frames.values()]
        state = store_state(writer, {"plain": self.plain, "raw": raw})
        keys = [list(key) for key in self.frames]
        writer.finish({"state": state, "blocks": blocks, "keys": keys, "batch_size": list(self.batch_size)})
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
            frames: dict[Key, CompressedFrames | Tensor] = {}
            for key, block, raw in zip(head["keys"], head["blocks"], state["raw"], strict=True):
                frames[tuple(map(str, key))] = (
                    raw.to(device)
                    if block is None
                    else CompressedFrames.from_bytes(container.section(block).tobytes(), device)
                )
            batch = cls(state["plain"].to(device), frames)
            for key, x in frames.items():
                rows = num_envs * (steps + batch._has_row_after(key))
                if len(x) != rows:
                    reader.fail(f"{key} has {len(x)} frames, a batch of {num_envs} x {steps} needs {rows}")
            if batch.batch_size != (num_envs, steps):
                reader.fail("its parts do not fit together")
        return batch

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
        num_envs, steps = self.batch_size
        if path == ("observation",) and path not in self.frames:
            return self.observations
        later = path[0] == "next" and path not in self.frames and path[1:] in self.frames
        if later or path in self.frames:
            x = self.frames[path[1:] if later else path]
            rows = (x if isinstance(x, Tensor) else x.rows()).unflatten(0, (-1, num_envs))
            return rows[later : later + steps].transpose(0, 1)
        try:
            return self.plain[key]
        except KeyError as error:
            held = [*self.frames, *(k if isinstance(k, tuple) else (k,) for k in self.plain.keys(True, True))]
            names = ", ".join(".".join(path) for path in held)
            raise KeyError(f"this compressed batch has no key {key!r}, but {names}") from error

    def __setitem__(self, key: Any, value: Tensor) -> None:
        self.plain[key] = value

    def keys(self) -> Iterable[str]:
        """The keys, those of nested ones left out."""
        return dict.fromkeys([*self.plain.keys(), *(key[0] for key in self.frames)])

    def numel(self) -> int:
        """The number of frames."""
        return self.batch_size.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of everything held."""
        return self._plain_nbytes() + sum(x.nbytes for x in self.frames.values())

    @property
    def raw_nbytes(self) -> int:
        """Bytes that it would take uncompressed, each observation once."""
        sizes = (x.nbytes if isinstance(x, Tensor) else x.raw_nbytes for x in self.frames.values())
        return self._plain_nbytes() + sum(sizes)

    @property
    def ratio(self) -> float:
        """How many times smaller the batch has become, all keys counted."""
        return self.raw_nbytes / self.nbytes

    def to(self, device: torch.device | str) -> CompressedBatch:
        """Return the batch with plain keys on `device`; observations stay compressed on the host and are decoded to
        it."""
        return CompressedBatch(self.plain.to(device), {key: x.to(device) for key, x in self.frames.items()})

    def _plain_nbytes(self) -> int:
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in self.plain.values(True, True)}
        return sum(storages.values())


def _rows(x: CompressedFrames | Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index.to(x.device)) if isinstance(x, Tensor) else x.rows(index)


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
        self._codecs: dict[Key, str] = {}  # as last chosen; "" where nothing is gained
        self._batches = 0

    def __call__(self, batch: TensorDictBase) -> CompressedBatch:
        """Compress one batch, also one of an env that resets within a step."""
        return self.join([batch])

    def join(self, batches: Iterable[TensorDictBase]) -> CompressedBatch:
        """Compress batches of the same environments that follow one another as one; each may be overwritten once the
        next is taken.

        Raises:
            ValueError: There are several, and a next observation is not the observation of the step after it.
        """
        if self._batches % CHOOSE_AGAIN == 0:
            self._codecs = {}
        self._batches += 1
        parts: dict[Key, CompressedFrames | list[Tensor]] = {}
        plain: list[TensorDictBase] = []
        last: dict[Key, Tensor] = {}
        memory: Tensor | None = None  # the policy's, before the first step
        for batch in batches:
            keys = _observations(batch)
            self._check_keys(keys)
            shifted = all(_shifted(batch[key], batch["next", *key]) for key in keys)
            follows = not plain or (bool(last) and all(_same(last[key], batch[key][:, 0]) for key in keys))
            if not follows or (plain and not shifted):
                raise ValueError(
                    "a next observation is not the observation of the step after it, because the env resets within a "
                    "step: such batches are compressed one by one, with pieces=1"
                )
            afterwards: list[Key] = [("next", *key) for key in keys]
            for key in keys if shifted else [*keys, *afterwards]:
                self._append(parts, key, batch[key].transpose(0, 1).flatten(0, 1))
            last = {key: batch["next", *key][:, -1].clone() for key in keys} if shifted else {}
            if (shared := shared_memory(batch)) is not None:
                memory = shared if memory is None else memory
                batch = batch.exclude(MEMORY)
            plain.append(batch.exclude(*keys, *afterwards).clone())
        if not plain:
            raise ValueError("there was no batch to compress")
        for key, row in last.items():
            self._append(parts, key, row)
        joined: Any = plain[0] if len(plain) == 1 else torch.cat(plain, 1)  # type: ignore[call-overload]
        if memory is not None:
            joined[MEMORY] = memory.expand(-1, joined.batch_size[1], -1)
        return CompressedBatch(joined, {key: self._finished(key, part) for key, part in parts.items()})

    def _append(self, parts: dict[Key, CompressedFrames | list[Tensor]], key: Key, rows: Tensor) -> None:
        """Add rows of one observation; those that are not to be compressed stay plain."""
        if key not in parts:
            named = self.keys is not None
            codec = "auto" if named else self._codecs.get(key, "auto")
            stays = _name(key) not in (self.keys or ()) if named else rows[0].nbytes < SMALL_FRAME or not codec
            parts[key] = [] if stays else CompressedFrames(rows, self.level, codec)
        part = parts[key]
        part.append(rows.clone() if isinstance(part, list) else rows)

    def _finished(self, key: Key, part: CompressedFrames | list[Tensor]) -> CompressedFrames | Tensor:
        if isinstance(part, list):
            return torch.cat(part)
        part.finish()
        self._codecs[key] = part.codec if part.ratio >= LEAST_RATIO else ""
        return part

    def _check_keys(self, keys: Iterable[Key]) -> None:
        names = sorted(_name(key) for key in keys)
        if missing := sorted(set(self.keys or ()).difference(names)):
            raise ValueError(f"there is no observation {missing[0]!r} to compress: the batch has {', '.join(names)}")


def _name(key: Key) -> str:
    """Return the name of an observation or next observation: `lidar` under "observation", else `agents.lidar`."""
    key = key[1:] if key[0] == "next" else key
    return key[1] if key[0] == "observation" and len(key) > 1 else ".".join(key)


def compress_rollout(data: Any, compression_level: int = 1) -> CompressedBatch:
    """Compress a batch [N, T] to keep it or to send it: `decompress_rollout` returns it, bit for bit.

    Args:
        data: a TensorDict, or a nested dict of tensors or arrays, of any collector: with ("observation", name) and
            ("next", "observation", name), or with observations under keys of their own as TorchRL's envs have them.
        compression_level: as in `CompressedFrames`.

    Returns:
        A batch that learners and `minibatch(indices)` read without decoding all of it.
    """
    batch = data if isinstance(data, TensorDictBase) else TensorDict(data).auto_batch_size_(2)
    return Compressor(compression_level)(batch)


def decompress_rollout(compressed: CompressedBatch | bytes, device: torch.device | str | None = None) -> TensorDictBase:
    """Return the batch that `compress_rollout` compressed, or the bytes of its `to_bytes()`; on `device` if given."""
    batch = CompressedBatch.from_bytes(compressed) if isinstance(compressed, bytes) else compressed
    return (batch if device is None else batch.to(device)).decode()


class CompressedDataCollector(CollectorAround):
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
        return self._compressor.join(self.base.rollout(check) for _ in range(self.pieces))

    collect = collect_rollout = rollout

    def __iter__(self) -> Iterator[CompressedBatch]:
        """Yield batches until the base has no more; a joined one at the end may be shorter."""
        source = iter(self.base)
        for first in source:  # one at a time: a batch of the base may be overwritten by the next
            yield self._compressor.join(chain((first,), islice(source, self.pieces - 1)))

    @property
    def frames_per_batch(self) -> int:
        """Frames of one batch."""
        return self.pieces * self.base.frames_per_batch

    # the base's own, see `Collector`
    frames: Any = property(attrgetter("base.frames"))
    episodes: Any = property(attrgetter("base.episodes"))
    bad_actions: Any = property(attrgetter("base.bad_actions"))
    acting: Any = property(attrgetter("base.acting"))
    runs_ahead: Any = property(attrgetter("base.runs_ahead"))
    check: Any = property(attrgetter("base.check"))
    publish: Any = property(attrgetter("base.publish"))
    settle: Any = property(attrgetter("base.settle"))
    state_dict: Any = property(attrgetter("base.state_dict"))
    load_state_dict: Any = property(attrgetter("base.load_state_dict"))


def shared_memory(batch: TensorDictBase) -> Tensor | None:
    """Return a copy of a policy's memory before the first step, [N, 1, size], if a batch has it once for all steps."""
    memory = batch.get(MEMORY, None)
    shared = isinstance(memory, Tensor) and memory.dim() == 3 and memory.stride(1) == 0
    return memory[:, :1].clone() if shared else None


def _observations(batch: TensorDictBase) -> list[Key]:
    """Return the keys of the observations: those under "observation", or else all that are also under "next"."""
    if batch.dim() != 2:
        size = list(batch.batch_size)
        raise ValueError(f"a batch to compress is [N, T], not {size}: of one env, use batch.unsqueeze(0)")
    held = [key if isinstance(key, tuple) else (key,) for key in batch.keys(True, True)]
    keys = [key for key in held if ("next", *key) in held and key[-1] not in NO_OBSERVATIONS]
    keys = [key for key in keys if key[0] == "observation" and len(key) > 1] or keys
    if not keys:
        raise ValueError(
            "a batch to compress has observations and next observations, the keys ('observation', name) and ('next', "
            f"'observation', name), or TorchRL's; this one has {', '.join('.'.join(key) for key in held)}"
        )
    return keys


def _shifted(seen: Tensor, following: Tensor) -> bool:
    """Return whether the next observations [N, T, ...] are the observations one step later."""
    mine, theirs = seen[:, 1:], following[:, :-1]
    return mine.data_ptr() == theirs.data_ptr() or _same(mine, theirs)


def _same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one dtype have the same bits; NaN is itself."""
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


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
