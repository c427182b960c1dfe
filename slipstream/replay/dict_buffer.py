"""DictReplayBuffer: dicts of arrays in, dicts of tensors out, with the names of the requested replay_buffer.py."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from slipstream.replay.buffer import ReplayBuffer
from slipstream.storage.codec.images import decompress_image, decompress_image_seq, with_aliases
from slipstream.storage.episodes import outcomes_at_top
from slipstream.storage.schema import flatten

_EPISODE_GROUP = 16  # frames that are compressed together, in the mode that trades speed for memory


class PrefixSum:
    """The lengths of episodes and their running sum: 64-bit, and exact after any eviction.

    Episode numbers and frame numbers count from the oldest episode kept.

    Args:
        max_len: frames that are kept; the oldest episodes leave when more are added.

    Attributes:
        prefix_sum: int64 [episodes + 1], from 0: the first frame of each episode, and the number of frames.
    """

    def __init__(self, max_len: int) -> None:
        if max_len < 1:
            raise ValueError(f"max_len={max_len}: keep at least one frame")
        self.max_len = max_len
        self.prefix_sum = np.zeros(1, np.int64)

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
        sums = np.append(self.prefix_sum, self.prefix_sum[-1] + val)
        oldest = np.searchsorted(sums, sums[-1] - self.max_len)
        self.prefix_sum = sums[oldest:] - sums[oldest]

    @property
    def ar(self) -> np.ndarray:
        """int64 [episodes]: their lengths."""
        return np.diff(self.prefix_sum)

    def get_range_idx(self, idx: Any) -> Any:
        """Return the episode of frame `idx`, a number or an array."""
        frames = np.asarray(idx, np.int64)
        if ((frames < 0) | (frames >= self.prefix_sum[-1])).any():
            raise IndexError(f"frame {idx} of {self.prefix_sum[-1]}")
        episodes = np.searchsorted(self.prefix_sum, frames, side="right") - 1
        return episodes if np.ndim(idx) else int(episodes)

    def get_range_relative_idx(self, idx: Any, range_idx: Any) -> Any:
        """Return frame `idx` counted from the start of episode `range_idx`."""
        relative = np.asarray(idx) - self.prefix_sum[range_idx]
        return relative if np.ndim(idx) else int(relative)

    def __len__(self) -> int:
        return len(self.prefix_sum) - 1


class DictReplayBuffer:
    """Complete episodes as dicts of arrays [L, ...]. `next_K` costs nothing if it is K shifted by one.

    Args:
        max_size: steps that are kept; the oldest episodes leave first.
        keys: names to keep; None for the keys of the first episode.
        device: of the batches.
        img_compressed: compress frame by frame.
        compress_epi: compress runs of frames together: smaller, slower to sample.
        seed: of the sampler.
        ragged: {key: largest size per step, None for an axis that does not vary} for keys that are given as a list of L
            arrays of varying size. A batch has them padded with zeros, and `K_mask`, False where there is padding.
    """

    def __init__(
        self,
        max_size: int,
        keys: Iterable[str] | None = None,
        device: torch.device | str = "cpu",
        img_compressed: bool = False,
        compress_epi: bool = False,
        seed: int = 0,
        ragged: Mapping[str, tuple[int | None, ...]] | None = None,
    ) -> None:
        self.max_size, self.device = max_size, torch.device(device)
        self.img_compressed, self.compress_epi = img_compressed, compress_epi
        self.keys: list[Any] | None = None if keys is None else list(keys)
        self.episode_lens_prefix_sum = PrefixSum(max_size)
        self.masks = [f"{key}_mask" for key in ragged or ()]
        self.buffer = ReplayBuffer(
            max_size,
            device=device,
            codec="auto" if img_compressed or compress_epi else "raw",
            group=_EPISODE_GROUP if compress_epi else 1,
            seed=seed,
            ragged=ragged,
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
        length = len(steps[self.keys[0]])
        for key in self.keys:
            if len(steps[key]) != length:
                raise ValueError(
                    f"{key!r} has {len(steps[key])} rows and {self.keys[0]!r} {length}: give one row per step"
                )
        self.buffer.add({key: steps[key] for key in self.keys})
        self.episode_lens_prefix_sum.add(min(length, self.max_size))

    def sample(self, batch_size: int) -> dict[str, Tensor]:
        """Return `batch_size` steps, each with the same probability: {key: [B, ...]} on the device."""
        return sample_batch(self, batch_size)

    def __len__(self) -> int:
        return len(self.buffer)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a DictReplayBuffer cannot be pickled or copied, its threads cannot: use buffer.state_dict()")

    def close(self) -> None:
        """End the background work and free the memory."""
        self.buffer.close()


def sample_batch(
    replay_buffer: ReplayBuffer | DictReplayBuffer | Mapping[str, Any],
    batch_size: Any = None,
    episode_lens_prefix_sum: Any = None,
    device: torch.device | str | None = None,
    keys: Iterable[str] | None = None,
    train_param: Any = None,
) -> dict[str, Tensor]:
    """Sample a dict of tensors [B, ...]: `keys`, or all that were added.

    May also be called as `sample_batch(replay_buffer, episode_lens_prefix_sum, train_param, device)`.

    Args:
        replay_buffer: either buffer; or a dict of lists, with one row per step, or LZ4 frames as `compress_image_seq`
            makes them per episode and `compress_image` per step.
        batch_size: number of steps B; by default that of `train_param`.
        episode_lens_prefix_sum: the episodes of a dict of lists; the buffers have their own index.
        device: of the batch; by default that of the buffer.
        keys: names.
        train_param: an object or a dict with `batch_size`, and for LZ4 frames `image_shape` and `dtype` (float32 by
            default); or B itself.
    """
    if isinstance(batch_size, PrefixSum):
        train_param = episode_lens_prefix_sum if train_param is None else train_param
        batch_size, episode_lens_prefix_sum = None, batch_size
    if batch_size is None:
        batch_size = _setting(train_param, "batch_size")
    if isinstance(replay_buffer, Mapping):
        if episode_lens_prefix_sum is None:
            raise ValueError("a dict of lists needs episode_lens_prefix_sum: the lengths of its episodes")
        names = list(replay_buffer) if keys is None else list(keys)
        drawn = _sample_lists(replay_buffer, batch_size, episode_lens_prefix_sum, train_param, names)
    else:
        if isinstance(replay_buffer, DictReplayBuffer):
            batch, every = replay_buffer.buffer.sample(batch_size), [*(replay_buffer.keys or ()), *replay_buffer.masks]
        else:
            batch = replay_buffer.sample(batch_size)
            every = [key for key in batch.keys() if key not in ("index", "discount", "weight")]  # noqa: SIM118
        drawn = {name: batch[name] for name in (every if keys is None else keys)}
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
