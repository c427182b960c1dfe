"""CompressedDataCollector: batches whose observations are kept as compressed blocks; a minibatch opens only what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from slipstream.collectors.frames import CompressedFrames

CHOOSE_AGAIN = 64  # batches after which the codecs are looked for again
SMALL_FRAME = 64  # bytes: below, the table of where each frame lies eats what compressing it saves
LEAST_RATIO = 1.1  # what gains less is kept plain until the next look


class CompressedObservations:
    """The observations of a batch [N, T], each frame once: row t * N + n is what env n saw at step t, row (t + 1) * N + n what followed.

    Some may be plain tensors [rows, ...], where compressing was not asked for.
    """

    def __init__(self, frames: dict[str, CompressedFrames | Tensor], num_envs: int, steps: int) -> None:
        self.frames = frames
        self._num_envs, self._steps = num_envs, steps

    def keys(self) -> Iterable[str]:
        """The names of the observations."""
        return self.frames.keys()

    def rows(self, index: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """The frames of rows `index` [B], of all observations or of those named."""
        chosen = (
            self.frames if names is None else {name: self.frames[name] for name in self.frames if name in set(names)}
        )
        return {
            name: x.index_select(0, index.to(x.device)) if isinstance(x, Tensor) else x.rows(index)
            for name, x in chosen.items()
        }

    def minibatches(self, order: Tensor | None, count: int, keys: Iterable[str]) -> Iterator[dict[str, Tensor]]:
        """Yield the frames of the batch's rows in `order` (as they are for None) in `count` parts; each is opened by itself."""
        rows = torch.arange(self._num_envs * self._steps) if order is None else order
        for part in rows.chunk(count):
            yield self.rows(part, keys)

    def whole(self, name: str, later: int = 0) -> Tensor:
        """One observation [N, T, ...], `later` steps on."""
        x = self.frames[name]
        every = x if isinstance(x, Tensor) else x.rows()
        return every.unflatten(0, (self._steps + 1, self._num_envs))[later : later + self._steps].transpose(0, 1)


class CompressedBatch:
    """A batch [N, T]: observations as blocks, everything else plain. Keys are read and written as in a TensorDict.

    `batch["observation"]` gives the `CompressedObservations`.
    """

    def __init__(self, plain: TensorDictBase, observations: CompressedObservations) -> None:
        self.plain = plain
        self.observations = observations
        self.batch_size = plain.batch_size
        self.device = plain.device

    def minibatch(self, indices: Tensor | Sequence[int]) -> TensorDict:
        """The frames `indices` [B] of the flattened batch, frame i being step i % T of env i // T; only these are opened."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        env, step = index // self.batch_size[1], index % self.batch_size[1]
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= self.batch_size.numel()):
            raise IndexError(f"frames are numbered 0 … {self.batch_size.numel() - 1} in this batch")
        rows = step * self.batch_size[0] + env
        near = self.plain.device or torch.device("cpu")
        chosen = self.plain[env.to(near), step.to(near)]
        chosen["observation"] = TensorDict(self.observations.rows(rows), [len(index)])
        following = TensorDict(self.observations.rows(rows + self.batch_size[0]), [len(index)])
        chosen.set(("next", "observation"), following)
        return chosen

    def decode(self) -> TensorDictBase:
        """The whole batch as the base collector gave it."""
        batch = self.plain.clone(recurse=False)
        for name in self.observations.keys():  # noqa: SIM118
            batch[("observation", name)] = self.observations.whole(name)
            batch[("next", "observation", name)] = self.observations.whole(name, later=1)
        return batch

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key; observations as `CompressedObservations`."""
        return self.observations if key == "observation" else self.plain.get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return self.observations if key == "observation" else self.plain[key]

    def __setitem__(self, key: Any, value: Tensor) -> None:
        self.plain[key] = value

    def keys(self, *args: Any) -> Iterator[Any]:
        """All keys, the compressed observations as one."""
        yield from self.plain.keys(*args)
        yield "observation"

    def numel(self) -> int:
        """Frames."""
        return self.batch_size.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of everything held."""
        return self._plain_nbytes() + sum(x.nbytes for x in self.observations.frames.values())

    @property
    def raw_nbytes(self) -> int:
        """Bytes that it would take uncompressed, each observation once."""
        frames = self.observations.frames.values()
        return self._plain_nbytes() + sum(x.nbytes if isinstance(x, Tensor) else x.raw_nbytes for x in frames)

    @property
    def ratio(self) -> float:
        """How many times smaller the batch has become, all keys counted."""
        return self.raw_nbytes / self.nbytes

    def to(self, device: torch.device | str) -> CompressedBatch:
        """Plain keys on `device`; observations stay compressed on the host and are opened there."""
        frames = {name: x.to(device) for name, x in self.observations.frames.items()}
        return CompressedBatch(self.plain.to(device), CompressedObservations(frames, *self.batch_size))

    def _plain_nbytes(self) -> int:
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in self.plain.values(True, True)}
        return sum(storages.values())


class Compressor:
    """Batches [N, T] of a collector in, `CompressedBatch` out.

    `keys`: the observations to compress; all by default, but for those that do not gain by it. Several batches that follow one
    another may be joined to one.
    """

    def __init__(self, compression_level: int = 1, keys: Sequence[str] | None = None) -> None:
        if not 0 <= compression_level <= 16:
            raise ValueError(f"compression_level must lie in 0 … 16, not {compression_level}")
        self.level = compression_level
        self.keys = None if keys is None else tuple(keys)
        self._codecs: dict[str, str] = {}  # as last chosen
        self._hopeless: set[str] = set()
        self._batches = 0

    def __call__(self, batch: TensorDictBase) -> CompressedBatch:
        """One batch, compressed."""
        return self.join([batch])

    def join(self, batches: Iterable[TensorDictBase]) -> CompressedBatch:
        """Batches of the same environments, one behind the other in time, as one; each may be overwritten once the next is asked for."""
        if self._batches % CHOOSE_AGAIN == 0:
            self._codecs, self._hopeless = {}, set()
        self._batches += 1
        columns: dict[str, CompressedFrames] = {}
        raw: dict[str, list[Tensor]] = {}
        plain: list[TensorDictBase] = []
        last: dict[str, Tensor] = {}
        for batch in batches:
            seen = {name: x.transpose(0, 1) for name, x in _observations(batch).items()}  # [T, N, ...]
            for name, x in seen.items():
                if self._stays_plain(name, x):
                    raw.setdefault(name, []).append(x.flatten(0, 1).clone())
                    continue
                if name not in columns:
                    columns[name] = CompressedFrames(x.flatten(0, 1), self.level, self._codecs.get(name, "auto"))
                columns[name].append(x.flatten(0, 1))
            last = {name: batch["next", "observation", name][:, -1].clone() for name in seen}
            plain.append(_without_observations(batch))
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
        whole: Any = plain[0] if len(plain) == 1 else torch.cat(plain, 1)  # type: ignore[call-overload]
        return CompressedBatch(whole, CompressedObservations({**columns, **kept}, *whole.batch_size))

    def _stays_plain(self, name: str, frames: Tensor) -> bool:
        """Whether to leave an observation [T, N, ...] as it is."""
        if self.keys is not None:
            return name not in self.keys
        return name in self._hopeless or frames[0, 0].nbytes < SMALL_FRAME

    def _check_keys(self, there: Mapping[str, Tensor]) -> None:
        missing = sorted(set(self.keys or ()) - set(there))
        if missing:
            raise ValueError(
                f"there is no observation {missing[0]!r} to compress: the batch has {', '.join(sorted(there))}"
            )


class CompressedDataCollector:
    """The batches of `base_collector` as `CompressedBatch`, their observations compressed with `compression_level`.

    - `keys`: the observations to compress, `["lidar"]` say; all by default.
    - `pieces`: so many batches of the base are joined to one. Only one of them lies in memory uncompressed.

    The base's batches must be [N, T] in which the next observation of step t is the observation of step t + 1, as those of slipstream's
    collectors are. A base with `return_same_td=True` is fine, and best: everything is copied anyway.
    """

    compressor = Compressor  # what compresses the batches of any collector

    def __init__(
        self, base_collector: Any, compression_level: int = 1, *, keys: Sequence[str] | None = None, pieces: int = 1
    ) -> None:
        if pieces < 1:
            raise ValueError(f"pieces ({pieces}) must be at least 1")
        self.base = base_collector
        self.pieces = pieces
        self.compression_level = compression_level
        self._compressor = Compressor(compression_level, keys)

    def rollout(self, check: bool = True) -> CompressedBatch:
        """The next batch, of our own collector."""
        return self._compressor.join(self.base.rollout(check) for _ in range(self.pieces))

    def collect(self) -> CompressedBatch:
        """The next batch, as `rollout()`."""
        return self.rollout()

    def __iter__(self) -> Iterator[CompressedBatch]:
        """Batches until the base has no more; a joined one at the end may be shorter."""
        source = iter(self.base)
        while True:
            taken = _Counted(source, self.pieces)
            try:
                batch = self._compressor.join(taken)
            except ValueError:
                if taken.count:
                    raise
                return
            yield batch
            if taken.count < self.pieces:
                return

    def __getattr__(self, name: str) -> Any:
        """All else is the base's: `episodes`, `frames`, `fps`, `state_dict`, ..."""
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


class _Counted:
    """At most `limit` items of an iterator, counted."""

    def __init__(self, source: Iterator[Any], limit: int) -> None:
        self._source, self._limit = source, limit
        self.count = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self.count == self._limit:
            raise StopIteration
        item = next(self._source)
        self.count += 1
        return item


def _observations(batch: TensorDictBase) -> dict[str, Tensor]:
    seen = batch.get("observation", None)
    following = batch.get(("next", "observation"), None)
    if not isinstance(seen, TensorDictBase) or not isinstance(following, TensorDictBase) or batch.dim() != 2:
        raise ValueError("a batch to compress is [N, T] with the nested keys 'observation' and ('next', 'observation')")
    for name in seen.keys():  # noqa: SIM118
        mine, theirs = seen[name][:, 1:], following[name][:, :-1]
        if mine.data_ptr() != theirs.data_ptr() and not torch.equal(mine, theirs):
            raise ValueError(
                f"the next observation {name!r} of a step is not the observation of the step after it: the env resets within a step. "
                "Compress it with a TensorEnv (docs/your-own-env.md), or keep such batches in a ReplayBuffer"
            )
    return {name: seen[name] for name in seen.keys()}  # noqa: SIM118


def _without_observations(batch: TensorDictBase) -> TensorDictBase:
    """The other keys, as copies."""
    rest = batch.exclude("observation", ("next", "observation"))
    return rest.clone()
