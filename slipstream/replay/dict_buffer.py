"""DictReplayBuffer: dicts of arrays in, dicts of tensors out, with the names of the requested replay_buffer.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.index import STARTS, StepIndex, make_pieces

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
        if not 0 < val <= self.max_len:
            raise ValueError(
                f"an episode of {val} frames does not fit into max_len={self.max_len}: give 1 to {self.max_len}"
            )
        index = self._index
        index.evict(index.head_for(self.max_len - int(val)))
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

    Args:
        max_size: steps that are kept; the oldest episodes leave first.
        keys: names to keep; None for the keys of the first episode.
        device: of the batches.
        img_compressed: compress frame by frame.
        compress_epi: compress runs of frames together: smaller, slower to sample.
        seed: of the sampler.
    """

    def __init__(
        self,
        max_size: int,
        keys: Iterable[str] | None = None,
        device: torch.device | str = "cpu",
        img_compressed: bool = False,
        compress_epi: bool = False,
        seed: int = 0,
    ) -> None:
        self.max_size, self.device = max_size, torch.device(device)
        self.img_compressed, self.compress_epi = img_compressed, compress_epi
        self.keys = None if keys is None else list(keys)
        self.episode_lens_prefix_sum = PrefixSum(max_size)
        compressed = img_compressed or compress_epi
        self.buffer = ReplayBuffer(
            max_size,
            device=device,
            codec="auto" if compressed else "raw",
            group=_EPISODE_GROUP if compress_epi else 1,
            seed=seed,
        )

    def add(self, episode: Mapping[str, Any]) -> None:
        """Add one episode; every value has one row per step."""
        if self.keys is None:
            self.keys = list(episode)
        missing = [key for key in self.keys if key not in episode]
        if missing:
            raise KeyError(
                f"the episode has no {missing[0]!r}: every episode must have the keys {', '.join(self.keys)}"
            )
        kept = {key: episode[key] for key in self.keys}
        lengths = {key: len(value) for key, value in kept.items()}
        length = lengths[self.keys[0]]
        for key, n in lengths.items():
            if n != length:
                raise ValueError(f"{key!r} has {n} rows and {self.keys[0]!r} {length}: give one row per step")
        self.buffer.add(kept)
        self.episode_lens_prefix_sum.add(min(length, self.max_size))

    def sample(self, batch_size: int) -> dict[str, Tensor]:
        """Return `batch_size` steps, each with the same probability: {key: [B, ...]} on the device."""
        return sample_batch(self, batch_size)

    def __len__(self) -> int:
        return len(self.buffer)

    def close(self) -> None:
        """End the background work and free the memory."""
        self.buffer.close()


def sample_batch(
    replay_buffer: ReplayBuffer | DictReplayBuffer,
    batch_size: int,
    episode_lens_prefix_sum: PrefixSum | None = None,
    device: torch.device | str | None = None,
    keys: Iterable[str] | None = None,
) -> dict[str, Tensor]:
    """Sample a dict of tensors from either buffer: `keys`, or all that were added.

    `episode_lens_prefix_sum` is accepted and ignored: the buffer has its own index.
    """
    buffer = replay_buffer.buffer if isinstance(replay_buffer, DictReplayBuffer) else replay_buffer
    if keys is None and isinstance(replay_buffer, DictReplayBuffer):
        keys = replay_buffer.keys
    batch = buffer.sample(batch_size)
    names = [k for k in batch.keys() if k not in ("index", "discount", "weight")] if keys is None else list(keys)  # noqa: SIM118
    drawn = {name: batch[name] for name in names}
    return drawn if device is None else {name: value.to(device) for name, value in drawn.items()}
