"""DictReplayBuffer: dicts of arrays in, dicts of tensors out, with the names of the requested replay_buffer.py."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.index import STARTS, StepIndex, make_pieces
from slipstream.replay.rows import outcomes_at_top
from slipstream.storage.codec.images import decompress_image, decompress_image_seq, with_aliases
from slipstream.storage.schema import flatten, mask_key, mask_of, pad, sizes_key

_EPISODE_GROUP = 16  # frames that are compressed together, in the mode that trades speed for memory


class PrefixSum:
    """The lengths of episodes and their running sum: 64-bit, and exact after any eviction.

    Episode numbers and frame numbers count from the oldest episode kept.

    Args:
        max_len: frames that are kept; the oldest episodes leave when more are added.
    """

    def __init__(self, max_len: int) -> None:
        if max_len < 1:
            raise ValueError(f"max_len={max_len}: keep at least one frame")
        self.max_len = max_len
        self._index = StepIndex()

    def add(self, val: int) -> None:
        """Add an episode of `val` frames; the oldest leave until it fits."""
        try:
            val = operator.index(val)
        except TypeError:
            raise TypeError(f"an episode of {val!r} frames: give a whole number") from None
        if not 0 < val <= self.max_len:
            raise ValueError(
                f"an episode of {val} frames does not fit into max_len={self.max_len}: give 1 to {self.max_len}"
            )
        index = self._index
        index.evict(index.head_for(self.max_len - val))
        index.append(make_pieces([val], [val], flags=STARTS))

    @property
    def prefix_sum(self) -> np.ndarray:
        """int64 [episodes + 1], from 0: the first frame of each episode, and the number of frames."""
        index = self._index
        return index.first_steps(np.arange(index.head, index.tail + 1)) - index.head_step

    @property
    def ar(self) -> np.ndarray:
        """int64 [episodes]: their lengths."""
        return np.diff(self.prefix_sum)

    def get_range_idx(self, idx: Any) -> Any:
        """Return the episode of frame `idx`, a number or an array."""
        frames = np.atleast_1d(np.asarray(idx, np.int64))
        if len(frames) and (frames.min() < 0 or frames.max() >= len(self._index)):
            raise IndexError(f"frame {idx} of {len(self._index)}")
        episodes = self._index.pieces_of(frames + self._index.head_step) - self._index.head
        return episodes if np.ndim(idx) else int(episodes[0])

    def get_range_relative_idx(self, idx: Any, range_idx: Any) -> Any:
        """Return frame `idx` counted from the start of episode `range_idx`."""
        index = self._index
        relative = np.asarray(idx) - (index.first_steps(np.asarray(range_idx) + index.head) - index.head_step)
        return relative if np.ndim(idx) else int(relative)

    def __len__(self) -> int:
        return self._index.tail - self._index.head


class DictReplayBuffer:
    """Complete episodes as dicts of arrays [L, ...]. `next_K` costs nothing if it is K shifted by one.

    A key whose arrays vary in size from step to step is given as a list of L arrays. It is kept uncompressed; a batch
    has it padded with zeros to its largest array, [B, largest, ...], and `K_mask` [B, largest, for each axis that
    varies], False where there is padding.

    Args:
        max_size: steps that are kept; the oldest episodes leave first.
        keys: names to keep; None for the keys of the first episode.
        device: of the batches.
        img_compressed: compress frame by frame.
        compress_epi: compress runs of frames together: smaller, slower to sample.
        seed: of the sampler.
        ragged: keys whose arrays vary in size; those that vary within the first episode are found without it.
    """

    def __init__(
        self,
        max_size: int,
        keys: Iterable[str] | None = None,
        device: torch.device | str = "cpu",
        img_compressed: bool = False,
        compress_epi: bool = False,
        seed: int = 0,
        ragged: Iterable[str] = (),
    ) -> None:
        self.max_size, self.device = max_size, torch.device(device)
        self.img_compressed, self.compress_epi = img_compressed, compress_epi
        self.keys: list[Any] | None = None if keys is None else list(keys)
        self.episode_lens_prefix_sum = PrefixSum(max_size)
        self._ragged: dict[str, list[np.ndarray]] = {key: [] for key in ragged}  # one array per step that is kept
        self._varying_axes: dict[str, list[bool]] = {}  # by ragged key
        self._first_step = 0  # the number of the oldest of these steps
        self._lock = threading.Lock()  # a batch is drawn and its ragged arrays are read at once
        compressed = img_compressed or compress_epi
        self.buffer = ReplayBuffer(
            max_size,
            device=device,
            codec="auto" if compressed else "raw",
            group=_EPISODE_GROUP if compress_epi else 1,
            seed=seed,
        )

    @with_aliases(episode_data="episode")
    def add(self, episode: Mapping[str, Any]) -> None:
        """Add one episode; every value has one row per step. `episode` may be called episode_data."""
        flat = outcomes_at_top(flatten(episode))
        steps: dict[Any, Any] = {key[0] if len(key) == 1 else key: value for key, value in flat.items()}
        if self.keys is None:
            self.keys = list(steps)
        missing = [key for key in self.keys if key not in steps]
        if missing:
            raise KeyError(
                f"the episode has no {missing[0]!r}: every episode must have the keys {', '.join(map(str, self.keys))}"
            )
        kept = {key: steps[key] for key in self.keys}
        lengths = {key: len(value) for key, value in kept.items()}
        length = lengths[self.keys[0]]
        for key, n in lengths.items():
            if n != length:
                raise ValueError(f"{key!r} has {n} rows and {self.keys[0]!r} {length}: give one row per step")
        if not len(self):
            self._ragged |= {key: [] for key, value in kept.items() if key not in self._ragged and _varies(value)}
        for key in self.keys:
            if key not in self._ragged and len(self) and _varies(kept[key]):
                raise ValueError(
                    f"the arrays of {key!r} vary in size, in the first episode they did not: give ragged=[{key!r}] to the buffer"
                )
        varying = {key: _arrays(key, kept.pop(key), self._ragged[key]) for key in self._ragged if key in kept}
        if not kept:
            raise ValueError("all keys vary in size: add one with a fixed size per step, such as 'done'")
        with self._lock if self._ragged else contextlib.nullcontext():
            self.buffer.add(kept)
            for key, arrays in varying.items():
                before = self._varying_axes.get(key, [False] * arrays[0].ndim)
                shapes = np.array([array.shape for array in (*self._ragged[key][:1], *arrays)])
                self._varying_axes[key] = [a or b for a, b in zip(before, np.ptp(shapes, axis=0) > 0, strict=True)]
                self._ragged[key] += arrays[-self.max_size :]
                gone = len(self._ragged[key]) - len(self.buffer)
                del self._ragged[key][:gone]
            if varying:
                self._first_step += gone
        self.episode_lens_prefix_sum.add(min(length, self.max_size))

    def sample(self, batch_size: int) -> dict[str, Tensor]:
        """Return `batch_size` steps, each with the same probability: {key: [B, ...]} on the device."""
        return sample_batch(self, batch_size)

    def draw(self, batch_size: int, keys: Sequence[str]) -> dict[str, Tensor]:
        """Return `batch_size` steps with the keys `keys`, and the masks of those that vary in size."""
        with self._lock if self._ragged else contextlib.nullcontext():
            batch = self.buffer.sample(batch_size)
            steps = batch["index"].tolist() if self._ragged else []
            chosen = {
                key: [arrays[step - self._first_step] for step in steps]
                for key, arrays in self._ragged.items()
                if key in keys
            }
        drawn: dict[str, Tensor] = {}
        for key in keys:
            if key not in chosen:
                drawn[key] = batch[key]
                continue
            largest = np.max([array.shape for array in chosen[key]], axis=0).tolist()
            limits = tuple(n if varies else None for n, varies in zip(largest, self._varying_axes[key], strict=True))
            padded, sizes = pad((key,), chosen[key], limits)
            drawn[key] = torch.from_numpy(padded).to(self.device)
            drawn[mask_key(sizes_key((key,)))[0]] = mask_of(torch.from_numpy(sizes), limits).to(self.device)
        return drawn

    def __len__(self) -> int:
        return len(self.buffer)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a DictReplayBuffer cannot be pickled or copied, its threads cannot: use buffer.state_dict()")

    def close(self) -> None:
        """End the background work and free the memory."""
        self.buffer.close()
        self._ragged.clear()


def _varies(value: Any) -> bool:
    """Return whether the arrays of the steps differ in shape."""
    if isinstance(value, Tensor) or (isinstance(value, np.ndarray) and not value.dtype.hasobject):
        return False
    return len({np.shape(row) for row in value}) > 1


def _arrays(key: str, rows: Iterable[Any], held: list[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays of the steps of a key that varies in size; all have the axes and dtype of the first."""
    arrays = [np.array(row.detach().cpu() if isinstance(row, Tensor) else row) for row in rows]
    first = (held or arrays)[0]
    for t, array in enumerate(arrays):
        if array.ndim != first.ndim or array.dtype != first.dtype or not array.ndim or array.dtype.hasobject:
            raise ValueError(
                f"{key!r} is {list(array.shape)} {array.dtype} at step {t}: give arrays with {first.ndim} axes of {first.dtype}"
            )
    return arrays


def _takes_train_param(function: Callable[..., dict[str, Tensor]]) -> Callable[..., dict[str, Tensor]]:
    """Let `sample_batch` also be called as (replay_buffer, episode_lens_prefix_sum, train_param, device)."""

    @functools.wraps(function)
    def call(replay_buffer: Any, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if args and isinstance(args[0], PrefixSum):
            kwargs |= dict(zip(("episode_lens_prefix_sum", "train_param", "device"), args, strict=False))
            args = ()
        param = kwargs.get("train_param")
        if param is not None and not args:
            kwargs.setdefault("batch_size", _setting(param, "batch_size"))
        return function(replay_buffer, *args, **kwargs)

    return call


@_takes_train_param
def sample_batch(
    replay_buffer: ReplayBuffer | DictReplayBuffer | Mapping[str, Any],
    batch_size: int,
    episode_lens_prefix_sum: PrefixSum | None = None,
    device: torch.device | str | None = None,
    keys: Iterable[str] | None = None,
    train_param: Any = None,
) -> dict[str, Tensor]:
    """Sample a dict of tensors [B, ...]: `keys`, or all that were added.

    May also be called as `sample_batch(replay_buffer, episode_lens_prefix_sum, train_param, device)`.

    Args:
        replay_buffer: either buffer; or a dict of lists, with one row per step, or LZ4 frames as `compress_image_seq`
            makes them per episode and `compress_image` per step.
        batch_size: number of steps B.
        episode_lens_prefix_sum: the episodes of a dict of lists; the buffers have their own index.
        device: of the batch; by default that of the buffer.
        keys: names.
        train_param: an object or a dict with `batch_size`, and for LZ4 frames `image_shape` and `dtype` (float32 by
            default); or B itself.
    """
    if isinstance(replay_buffer, Mapping):
        if episode_lens_prefix_sum is None:
            raise ValueError("a dict of lists needs episode_lens_prefix_sum: the lengths of its episodes")
        names = list(replay_buffer) if keys is None else list(keys)
        drawn = _sample_lists(replay_buffer, batch_size, episode_lens_prefix_sum, train_param, names)
    elif isinstance(replay_buffer, DictReplayBuffer):
        drawn = replay_buffer.draw(batch_size, list(replay_buffer.keys or ()) if keys is None else list(keys))
    else:
        batch = replay_buffer.sample(batch_size)
        names = [k for k in batch.keys() if k not in ("index", "discount", "weight")] if keys is None else list(keys)  # noqa: SIM118
        drawn = {name: batch[name] for name in names}
    return drawn if device is None else {name: value.to(device) for name, value in drawn.items()}


def decompress_single_gridmap(args: tuple[bytes, tuple[int, ...], int, Any, int]) -> Tensor:
    """Return one frame of an episode that `compress_image_seq` compressed.

    Args:
        args: (compressed data, shape of a frame, length of the episode, dtype, number of the frame in the episode).
    """
    compressed_data, image_shape, episode_len, dtype, episode_relative_idx = args
    frames = decompress_image_seq(compressed_data, image_shape, episode_len, dtype)
    return torch.from_numpy(frames[episode_relative_idx].copy())


def _setting(train_param: Any, name: str, default: Any = None) -> Any:
    """Return a setting of the `train_param` of `sample_batch`."""
    if name == "batch_size" and isinstance(train_param, int):
        return train_param
    found = train_param.get(name) if isinstance(train_param, Mapping) else getattr(train_param, name, None)
    if found is None and default is None:
        raise ValueError(f"train_param={train_param!r} has no {name}: give a dict or an object with {name}")
    return default if found is None else found


def _sample_lists(
    lists: Mapping[str, Any], batch_size: int, episodes: PrefixSum, train_param: Any, keys: Sequence[str]
) -> dict[str, Tensor]:
    """Draw steps from lists of rows or of LZ4 frames, which threads decompress."""
    lengths = episodes.ar
    steps = torch.randint(int(lengths.sum()), (batch_size,)).numpy()
    which = episodes.get_range_idx(steps)
    inside = episodes.get_range_relative_idx(steps, which)
    drawn: dict[str, Tensor] = {}
    with ThreadPoolExecutor() as threads:
        for key in keys:
            rows = lists[key]
            if len(rows) not in (len(lengths), int(lengths.sum())):
                raise ValueError(
                    f"{key!r} has {len(rows)} entries: give one per step ({lengths.sum()}) or per episode ({len(lengths)})"
                )
            if not isinstance(rows[0], bytes | bytearray):
                chosen = [torch.as_tensor(rows[i]) for i in steps]
            else:
                shape, dtype = tuple(_setting(train_param, "image_shape")), _setting(train_param, "dtype", np.float32)
                if len(rows) == len(lengths):
                    work = [(rows[e], shape, int(lengths[e]), dtype, i) for e, i in zip(which, inside, strict=True)]
                    chosen = list(threads.map(decompress_single_gridmap, work))
                else:
                    open_frame = functools.partial(decompress_image, shape=shape, dtype=dtype)
                    chosen = [torch.from_numpy(x) for x in threads.map(open_frame, [rows[i] for i in steps])]
            drawn[key] = torch.stack(chosen)
    return drawn
