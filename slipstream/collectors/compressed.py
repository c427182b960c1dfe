"""Compressed batches: observations kept as blocks, the same as in replay and in rollout files. A minibatch decodes only
its frames."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.tensorclass import NonTensorData
from torch import Tensor, nn

from slipstream.config.schema import CollectConfig
from slipstream.envs.specs import Key
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.schema import as_array
from slipstream.storage.tensor_file import MemoryFile, TensorFile, TensorFileWriter
from slipstream.storage.tree import KIND as STATE_KIND
from slipstream.storage.tree import load_state, pack_state

SMALL_FRAME = 64  # bytes: below, the table of places takes what compressing saves
LEAST_RATIO = 1.1  # a key that gains less stays plain
HIGHEST_LEVEL = 12  # of LZ4-HC; levels up to 16 are the same
KIND = "fram"


class CompressedFrames:
    """Frames [n, *shape] of one observation, compressed one by one.

    Args:
        frames: [n, *shape]; decoded ones go to their device.
        level: 0 keeps frames raw, 1 compresses fast, 2 to 12 smaller and slower.
    """

    def __init__(self, frames: Tensor, level: int = 1) -> None:
        _check_level(level)
        array, self.dtype = as_array(("frames",), frames)
        self.device, self.level = frames.device, level
        slow = min(max(level, 2), HIGHEST_LEVEL)
        codec = "auto" if level else "raw"
        self._column = BlockColumn(array.shape[1:], array.dtype, codec, seal=level > 1, level=slow)
        self._column.append(array)
        self._column.flush()

    def rows(self, index: Tensor | None = None) -> Tensor:
        """Return the frames `index` [B] (all by default) on `device`; no others are decoded."""
        rows = torch.arange(len(self)) if index is None else index.cpu()
        host = torch.empty((len(rows), *self._column.shape), dtype=self.dtype)
        self._column.gather(rows.numpy(), as_array(("frames",), host)[0])
        return host.to(self.device)

    @property
    def shape(self) -> tuple[int, ...]:
        """[n, *shape]."""
        return (len(self), *self._column.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the compressed frames take."""
        return self._column.stats()["stored_bytes"]

    @property
    def raw_nbytes(self) -> int:
        """Bytes that the frames would take uncompressed."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    @property
    def ratio(self) -> float:
        """How many times smaller they have become."""
        return self.raw_nbytes / max(1, self.nbytes)

    def __len__(self) -> int:
        return len(self._column)

    def to_bytes(self) -> bytes:
        """Return everything as bytes for another process or machine, with the blocks as they are in memory."""
        file = MemoryFile()
        writer = TensorFileWriter(file, KIND)
        for block in self._column.blocks():
            writer.add(block.read(), name="blocks")
        writer.finish({"shape": list(self.shape[1:]), "dtype": str(self.dtype)[6:], "level": self.level})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, device: torch.device | str = "cpu") -> Self:
        """Return the frames of `to_bytes`; each is checked when it is decoded.

        Raises:
            DamagedFileError: (a ValueError) if the bytes are something else, or damaged.
        """
        container = TensorFile.from_bytes(data, KIND, "compressed frames")
        reader, head = container.reader, container.head
        with reader.parsing("the head"):
            shape, dtype = reader.shape(head["shape"], "the shape"), reader.torch_dtype(head["dtype"], "the dtype")
            level = reader.integer(head["level"], "the level", 0, 16)
            frames = cls(torch.empty((0, *shape), dtype=dtype, device=device), level)
            for number in range(len(container)):
                frames._column.add_block(container.view(number))
            reader.integer(frames._column.head, "the number of its first frame", 0, 0)
            reader.claim(frames.raw_nbytes, "the frames")
        return frames

    def __reduce__(self) -> Any:
        return CompressedFrames.from_bytes, (self.to_bytes(),)

    def to(self, device: torch.device | str) -> CompressedFrames:
        """Return the same frames, to be decoded to `device`."""
        twin = copy.copy(self)
        twin.device = torch.empty(0, device=device).device
        return twin


class CompressedBatch:
    """A batch [N, T] with observations as blocks and everything else plain. Keys are read and written as in a
    TensorDict.

    `batch["observation", "lidar"]` decodes all frames of one observation, `batch["observation"]` those of all, at every
    call; learners read `minibatches`. It pickles, as the bytes of `to_bytes`.

    Args:
        rows: by key, time-major: `CompressedFrames` [T * N, ...] or a tensor [T, N, ...]. With one step more, the last
            T are the values under "next" too, as in a collector's memory.
        batch_size: N and T.
        device: of what is decoded.
    """

    def __init__(self, rows: Mapping[Key, Any], batch_size: Sequence[int], device: Any = None) -> None:
        self.rows = dict(rows)
        self.batch_size = torch.Size(batch_size)
        self.device = device

    @property
    def frames(self) -> dict[Key, CompressedFrames]:
        """What is compressed, by key."""
        return {key: x for key, x in self.rows.items() if isinstance(x, CompressedFrames)}

    def minibatch(self, indices: Tensor | Sequence[int]) -> TensorDict:
        """Return frames `indices` [B] of the flattened batch, frame i being step i % T of env i // T; no others are
        decoded."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        num_envs, steps = self.batch_size
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= self.numel()):
            raise IndexError(f"frames are numbered 0 … {self.numel() - 1} in this batch")
        at = index % steps * num_envs + index // steps
        chosen = TensorDict({}, index.shape, device=self.device)
        for key, rows in self.rows.items():
            chosen.set(key, _pick(rows, at))
            if _count(rows) > self.numel():
                chosen.set(("next", *key), _pick(rows, at + num_envs))
        return chosen

    def minibatches(self, order: Tensor | None, count: int, keys: Iterable[str]) -> Iterator[dict[str, Tensor]]:
        """Yield the observations `keys` of the rows in `order` (as they are for None) in `count` parts; each is decoded
        when its turn comes. Row t * N + n is that of env n at step t."""
        at = torch.arange(self.numel()) if order is None else order
        wanted = {("observation", name) for name in keys}
        held = {key[1]: rows for key, rows in self.rows.items() if key in wanted}
        for part in at.chunk(count):
            yield {name: _pick(rows, part) for name, rows in held.items()}

    def decode(self, path: Key = ()) -> TensorDict:
        """Return the batch as the base collector returned it, or of it what is under the key `path`."""
        num_envs, steps = self.batch_size
        batch = TensorDict({}, self.batch_size, device=self.device)
        for key, rows in self.rows.items():
            names = [key, ("next", *key)] if _count(rows) > self.numel() else [key]
            if any(name[: len(path)] == path for name in names):
                x = rows.rows().unflatten(0, (-1, num_envs)) if isinstance(rows, CompressedFrames) else rows
                for later, name in enumerate(names):
                    batch.set(name, x[later : later + steps].transpose(0, 1))
        return batch

    def to_bytes(self) -> bytes:
        """Return everything as bytes for a file, another process or another machine; nothing is compressed again."""
        frames = self.frames
        plain = [(key, x) for key, x in self.rows.items() if key not in frames]
        packed = [(key, torch.frombuffer(bytearray(x.to_bytes()), dtype=torch.uint8)) for key, x in frames.items()]
        return pack_state({"batch_size": [*self.batch_size], "plain": plain, "packed": packed})

    @classmethod
    def from_bytes(cls, data: bytes, device: torch.device | str = "cpu") -> CompressedBatch:
        """Return the batch of `to_bytes`; every frame is checked when it is decoded.

        Raises:
            DamagedFileError: (a ValueError) if the bytes are something else, or damaged.
        """
        container = TensorFile.from_bytes(data, STATE_KIND, "a compressed batch")
        state, reader = load_state(container, container.head), container.reader
        with reader.parsing("the batch"):
            num_envs, steps = reader.shape(state["batch_size"], "the batch size")
            rows = {key: x.to(device) for key, x in state["plain"]}
            rows |= {key: CompressedFrames.from_bytes(x.numpy().tobytes(), device) for key, x in state["packed"]}
            for key, x in rows.items():
                is_key = isinstance(key, tuple) and key and all(isinstance(name, str) for name in key)
                fits = isinstance(x, CompressedFrames) or x.shape[1] == num_envs
                if not is_key or not fits or _count(x) not in (num_envs * steps, num_envs * (steps + 1)):
                    reader.fail(f"{_count(x)} frames do not fit a batch of {num_envs} x {steps}")
        return cls(rows, (num_envs, steps), torch.device(device))

    def __reduce__(self) -> Any:
        return CompressedBatch.from_bytes, (self.to_bytes(),)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, as `batch[key]`; `default` if there is none."""
        try:
            return self[key]
        except KeyError:
            return default

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.decode(key if isinstance(key, tuple) else (key,))[key]
        except KeyError as error:
            raise KeyError(f"this compressed batch has no key {key!r}, but {_listed(self.rows)}") from error

    def __setitem__(self, key: Any, value: Any) -> None:
        path = key if isinstance(key, tuple) else (key,)
        given = TensorDict({}, self.batch_size)
        given[path] = value  # which refuses other batch sizes
        now = path[1:] if path[0] == "next" else path
        if now in self.rows and _count(self.rows[now]) > self.numel():  # its successor is a value of its own from here
            self.rows |= {name: self[name].transpose(0, 1) for name in (now, ("next", *now))}
        self.rows = {name: x for name, x in self.rows.items() if name[: len(path)] != path}
        for name, x in given.items(True, True):
            self.rows[name if isinstance(name, tuple) else (name,)] = x.transpose(0, 1)

    def keys(self) -> Iterable[str]:
        """The keys, those of nested ones left out."""
        nexts = ["next" for rows in self.rows.values() if _count(rows) > self.numel()]
        return dict.fromkeys([*(key[0] for key in self.rows), *nexts])

    def numel(self) -> int:
        """The number of frames."""
        return self.batch_size.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of everything held."""
        frames = self.frames
        plain = sum(x.untyped_storage().nbytes() for key, x in self.rows.items() if key not in frames)
        return plain + sum(x.nbytes for x in frames.values())

    @property
    def raw_nbytes(self) -> int:
        """Bytes that it would take uncompressed, each observation once."""
        return self.nbytes + sum(x.raw_nbytes - x.nbytes for x in self.frames.values())

    @property
    def ratio(self) -> float:
        """How many times smaller the batch has become, all keys counted."""
        return self.raw_nbytes / self.nbytes

    def to(self, device: torch.device | str) -> CompressedBatch:
        """Return the batch with plain keys on `device`; observations stay compressed on the host and are decoded to
        it."""
        return CompressedBatch(
            {key: x.to(device) for key, x in self.rows.items()}, self.batch_size, torch.device(device)
        )


def _pick(rows: Any, at: Tensor) -> Tensor:
    """Return the rows `at` [B] of frames or of a tensor [T, N, ...]."""
    return rows.rows(at) if isinstance(rows, CompressedFrames) else rows.flatten(0, 1)[at.to(rows.device)]


def _count(rows: Any) -> int:
    return rows.shape[0] if isinstance(rows, CompressedFrames) else rows.shape[:2].numel()


def compress_rollout(data: Any, compression_level: int = 1, keys: Sequence[str] | None = None) -> CompressedBatch:
    """Compress a batch [N, T] to keep it or to send it: `decompress_rollout` returns it, bit for bit.

    Args:
        data: a TensorDict, or a nested dict of tensors or arrays, of any collector.
        compression_level: as in `CompressedFrames`.
        keys: what to compress, by name: `lidar` is ("observation", "lidar") or ("agents", "observation", "lidar"); with
            the frames under "next". By default all that gain by it.

    Returns:
        A batch that learners and `minibatch(indices)` read without decoding all of it.
    """
    batch = data if isinstance(data, TensorDictBase) else TensorDict(data).auto_batch_size_(2)
    if batch.dim() != 2:
        size = list(batch.batch_size)
        raise ValueError(f"a batch to compress is [N, T], not {size}: of one env, use batch.unsqueeze(0)")
    held = {key if isinstance(key, tuple) else (key,): x for key, x in batch.items(True, True)}
    if missing := sorted(set(keys or ()).difference(*map(_names, held))):
        raise ValueError(f"there is no {missing[0]!r} to compress: the batch has {_listed(held)}")
    rows: dict[Key, Any] = {}
    for key in sorted(held, key=lambda key: key[0] == "next"):
        if key[0] == "next" and key[1:] in rows and _count(rows[key[1:]]) > batch.numel():
            continue
        x, following = held[key].transpose(0, 1), held.get(("next", *key))
        if following is not None and _same(x[1:], following.transpose(0, 1)[:-1]):  # as in a collector's memory
            x = torch.cat((x, following[:, -1][None]))
        is_one = not x.stride(0)  # one memory for all steps
        if not _names(key).isdisjoint(keys) if keys is not None else x[0, 0].nbytes >= SMALL_FRAME and not is_one:
            packed = CompressedFrames(x.flatten(0, 1), compression_level)
            if keys is not None or packed.ratio >= LEAST_RATIO:
                rows[key] = packed
                continue
        rows[key] = x[:1].clone().expand_as(x) if is_one else x.clone(memory_format=torch.contiguous_format)
    return CompressedBatch(rows, batch.batch_size, batch.device)


def decompress_rollout(compressed: CompressedBatch | bytes, device: torch.device | str | None = None) -> TensorDictBase:
    """Return the batch that `compress_rollout` compressed, or the bytes of its `to_bytes()`; on `device` if given."""
    batch = CompressedBatch.from_bytes(compressed) if isinstance(compressed, bytes) else compressed
    return (batch if device is None else batch.to(device)).decode()


class CompressedDataCollector:
    """A collector that returns the batches of another one as `CompressedBatch`. All else is at its `base`.

    Args:
        base_collector: its batches are [N, T]; over a TorchRL env they have TorchRL's keys. `return_same_td=True` is
            best: everything is copied anyway.
        compression_level: as in `CompressedFrames`.
        keys: the observations to compress, for example `["lidar"]`; all by default.
    """

    def __init__(self, base_collector: Any, compression_level: int = 1, *, keys: Sequence[str] | None = None) -> None:
        _check_level(compression_level)
        self.base = base_collector
        self.compress = partial(compress_rollout, compression_level=compression_level, keys=keys)

    def rollout(self, check: bool = True) -> CompressedBatch:
        """Collect the next batch; for a base collector of ours."""
        return self.compress(self.base.rollout(check))

    collect = rollout

    def __iter__(self) -> Iterator[CompressedBatch]:
        """Yield batches until the base has no more."""
        return map(self.compress, self.base)

    def shutdown(self) -> None:
        """Shut down the base."""
        self.base.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()


def compression(settings: CollectConfig) -> partial[CompressedBatch] | None:
    """Return the `postproc` of a collector that `collect.compress` says; None for off."""
    if settings.compress == "off":
        return None
    return partial(compress_rollout, compression_level=settings.compression_level, keys=settings.compressed_keys())


def _check_level(level: int) -> None:
    if level not in range(17):
        raise ValueError(f"compression_level={level} is not in 0 … 16")


def _names(key: Key) -> set[str]:
    """Return the names of a key: `lidar` and `agents.observation.lidar`, also under "next"."""
    return {key[-1], ".".join(key[1:] if key[0] == "next" else key)}


def _listed(keys: Iterable[Key]) -> str:
    return ", ".join(".".join(key) for key in keys)


def _same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one dtype have the same bits; NaN is itself."""
    if a.data_ptr() == b.data_ptr():
        return True
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

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compress in place; return `tensordict` itself."""
        frames = tensordict.get(self.key, None)
        if not isinstance(frames, Tensor):
            raise KeyError(f"there is no tensor {self.key!r} to compress: give the key of one, key=(...)")
        flat = frames.flatten(0, tensordict.batch_dims - 1) if tensordict.batch_dims else frames.unsqueeze(0)
        compressed = CompressedFrames(flat, self.compression_level)
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
