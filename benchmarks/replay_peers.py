"""The replay buffers that benchmarks/replay.py compares. Each adds episodes [L, *shape] of one observation.

`sample(n)` returns n steps with their next observations, as the library does it for its users. `nbytes` is the memory
of the observations with all overhead.
"""

from __future__ import annotations

import concurrent.futures
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from slipstream.replay import ReplayBuffer
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec.images import compress_image, compress_image_seq, decompress_image, decompress_image_seq


class Limit:
    """What no buffer can beat: `index_select` from raw frames into a batch that is there already."""

    def __init__(self, frames: np.ndarray) -> None:
        self.frames = torch.from_numpy(frames)
        self.rng = np.random.default_rng(0)
        self.nbytes = frames.nbytes

    def sample(self, n: int) -> Any:
        if not hasattr(self, "out"):
            self.out = torch.empty((2 * n, *self.frames.shape[1:]), dtype=self.frames.dtype)
        steps = torch.from_numpy(self.rng.integers(0, len(self.frames) - 1, n))
        return torch.index_select(self.frames, 0, torch.cat([steps, steps + 1]), out=self.out)


class Column:
    """Our column of blocks alone: the same question as the limit's, without episodes, actions and rewards."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, **settings: Any) -> None:
        self.column = BlockColumn(shape, dtype, **settings)
        self.rng = np.random.default_rng(0)

    def add(self, episode: np.ndarray) -> None:
        self.column.append(episode)

    def finish(self) -> None:
        self.column.flush()

    def sample(self, n: int) -> Any:
        if not hasattr(self, "out"):
            self.out = np.empty((2 * n, *self.column.shape), self.column.dtype)
        steps = self.rng.integers(0, self.column.tail - 1, n)
        self.column.gather(np.concatenate([steps, steps + 1]), self.out)
        return self.out

    @property
    def nbytes(self) -> int:
        return self.column.nbytes


class Ours:
    """The whole replay buffer: steps with action, reward and ends."""

    def __init__(self, capacity: int, **settings: Any) -> None:
        self.buffer = ReplayBuffer(capacity, **settings)

    def add(self, episode: np.ndarray) -> None:
        steps = len(episode) - 1
        facts = {"action": np.zeros((steps, 1), np.float32), "reward": np.zeros(steps, np.float32)}
        self.buffer.add({"observation": {"frame": episode}, **facts})

    def extend(self, episodes: np.ndarray) -> None:
        """[N, T + 1] as a collector hands them over: all at once."""
        n, steps = episodes.shape[0], episodes.shape[1] - 1
        no = torch.zeros(n, steps, dtype=torch.bool)
        last = no.clone()
        last[:, -1] = True
        facts = {
            "action": torch.zeros(n, steps, 1),
            "reward": torch.zeros(n, steps),
            "terminated": no,
            "truncated": last,
            "valid": ~no,
        }
        frames = torch.from_numpy(episodes)
        now, following = {"observation": {"frame": frames[:, :-1]}}, {"next": {"observation": {"frame": frames[:, 1:]}}}
        self.buffer.extend(TensorDict({**now, **facts, **following}, batch_size=[n, steps]))

    def finish(self) -> None:
        for column in self.buffer._storage.memory.columns.values():
            column.flush()

    def sample(self, n: int) -> Any:
        return self.buffer.sample(n)

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    def columns(self) -> dict[str, Any]:
        return self.buffer.stats()["columns"]


class PickledEpisodes:
    """A complete episode as one LZ4 frame of level 9, observations and next
    observations each."""

    def __init__(self) -> None:
        self.now: list[bytes] = []
        self.next: list[bytes] = []
        self.prefix = np.zeros(1, np.int32)
        self.rng = np.random.default_rng(0)

    def add(self, episode: np.ndarray) -> None:
        self.shape, self.dtype = episode.shape[1:], episode.dtype
        self.now.append(compress_image_seq(episode[:-1]))
        self.next.append(compress_image_seq(episode[1:]))
        self.prefix = np.append(self.prefix, self.prefix[-1] + len(episode) - 1)

    def _one(self, task: tuple[bytes, int, int]) -> torch.Tensor:
        data, length, inside = task
        return torch.tensor(decompress_image_seq(data, self.shape, length, self.dtype)[inside])

    def sample(self, n: int) -> Any:
        steps = self.rng.integers(0, self.prefix[-1], n)
        episodes = np.searchsorted(self.prefix, steps, side="right") - 1
        tasks = [
            (e, int(self.prefix[e + 1] - self.prefix[e]), int(s - self.prefix[e]))
            for e, s in zip(episodes, steps, strict=True)
        ]
        batches = []
        for kept in (self.now, self.next):
            with concurrent.futures.ThreadPoolExecutor() as executor:
                batches.append(
                    torch.stack(
                        list(executor.map(self._one, [(kept[e], length, inside) for e, length, inside in tasks]))
                    )
                )
        return batches

    @property
    def nbytes(self) -> int:
        return sum(map(sys.getsizeof, self.now)) + sum(map(sys.getsizeof, self.next)) + self.prefix.nbytes


class PickledFrames(PickledEpisodes):
    """Every frame as one LZ4 frame of level 9."""

    def add(self, episode: np.ndarray) -> None:
        self.shape, self.dtype = episode.shape[1:], episode.dtype
        self.now += [compress_image(frame) for frame in episode[:-1]]
        self.next += [compress_image(frame) for frame in episode[1:]]
        self.prefix = np.append(self.prefix, self.prefix[-1] + len(episode) - 1)

    def _open(self, data: bytes) -> torch.Tensor:
        return torch.tensor(decompress_image(data, self.shape, self.dtype))

    def sample(self, n: int) -> Any:
        steps = self.rng.integers(0, self.prefix[-1], n)
        batches = []
        for kept in (self.now, self.next):
            with concurrent.futures.ThreadPoolExecutor() as executor:
                batches.append(torch.stack(list(executor.map(self._open, [kept[s] for s in steps]))))
        return batches


class TorchRL:
    """TorchRL's buffer over one of its storages; observation and next observation are both kept, as its collectors give
    them."""

    def __init__(self, storage: Callable[..., Any], capacity: int, scratch: str | None = None) -> None:
        from torchrl.data import TensorDictReplayBuffer

        settings = {"scratch_dir": scratch} if scratch else {}
        self.buffer = TensorDictReplayBuffer(storage=storage(capacity, **settings), batch_size=256)
        self.nbytes = 0

    def add(self, episode: np.ndarray) -> None:
        frames = torch.from_numpy(episode)
        steps = len(frames) - 1
        # flat keys: CompressedListStorage leaves nested ones uncompressed
        kept = {
            "obs": frames[:-1],
            "next_obs": frames[1:],
            "action": torch.zeros(steps, 1),
            "reward": torch.zeros(steps, 1),
        }
        self.buffer.extend(TensorDict(kept, batch_size=[steps]))

    def sample(self, n: int) -> Any:
        return self.buffer.sample()

    def finish(self) -> None:
        kept = self.buffer._storage
        lazy = not isinstance(kept._storage, list)
        self.nbytes = kept._storage["obs"].nbytes + kept._storage["next_obs"].nbytes if lazy else kept.bytes()


class Cpprb:
    """cpprb, observations kept once (`next_of`)."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, capacity: int) -> None:
        import cpprb

        form = {"obs": {"shape": shape, "dtype": dtype}, "act": {"shape": 1}, "rew": {}, "done": {}}
        self.buffer = cpprb.ReplayBuffer(capacity, form, next_of="obs")
        self.nbytes = capacity * int(np.prod(shape)) * np.dtype(dtype).itemsize

    def add(self, episode: np.ndarray) -> None:
        steps = len(episode) - 1
        self.buffer.add(
            obs=episode[:-1], next_obs=episode[1:], act=np.zeros((steps, 1)), rew=np.zeros(steps), done=np.zeros(steps)
        )
        self.buffer.on_episode_end()

    def sample(self, n: int) -> Any:
        return self.buffer.sample(n)


class StableBaselines3:
    """SB3's ReplayBuffer, or with `compression` the one of sb3-extra-buffers, filled as SB3 does: step by step."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, capacity: int, compression: str | None = None) -> None:
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer as Base

        low, high = (0, 255) if np.dtype(dtype) == np.uint8 else (-np.inf, np.inf)
        observation, action = spaces.Box(low, high, shape, dtype), spaces.Box(-1, 1, (1,))
        self.compression = compression
        if compression is None:
            self.buffer: Any = Base(capacity, observation, action, device="cpu")
        else:
            from sb3_extra_buffers.compressed import CompressedReplayBuffer

            kinds = {"elem_type": np.dtype(dtype).type, "runs_type": np.uint16}
            self.buffer = CompressedReplayBuffer(
                capacity, observation, action, device="cpu", dtypes=kinds, compression_method=compression
            )

    def add(self, episode: np.ndarray) -> None:
        action, zero, no = np.zeros((1, 1), np.float32), np.zeros(1), [{}]
        for t in range(len(episode) - 1):
            self.buffer.add(episode[t][None], episode[t + 1][None], action, zero, zero, no)

    def sample(self, n: int) -> Any:
        return self.buffer.sample(n)

    @property
    def nbytes(self) -> int:
        kept = (self.buffer.observations, self.buffer.next_observations)
        if self.compression is None:
            return sum(array.nbytes for array in kept)
        return sum(
            array.nbytes + sum(sys.getsizeof(item) for item in array.ravel() if item is not None) for array in kept
        )


def contenders(shape: tuple[int, ...], dtype: Any, steps: int, groups: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """Makers by name; those whose library is not installed fail when called."""
    from torchrl.data import CompressedListStorage, LazyMemmapStorage, LazyTensorStorage

    made: dict[str, Callable[[], Any]] = {}
    for g in groups:
        made[f"ours, group {g}"] = lambda g=g: Ours(2 * steps, group=g)
        made[f"our column, group {g}"] = lambda g=g: Column(shape, dtype, group=g)
    made["baseline, episodes"] = PickledEpisodes
    made["baseline, frames"] = PickledFrames
    made["TorchRL LazyTensor"] = lambda: TorchRL(LazyTensorStorage, steps)
    made["TorchRL LazyMemmap"] = lambda: TorchRL(LazyMemmapStorage, steps, tempfile.mkdtemp(prefix="replay-bench-"))
    made["TorchRL CompressedList"] = lambda: TorchRL(CompressedListStorage, steps)
    made["cpprb"] = lambda: Cpprb(shape, dtype, steps)
    made["SB3"] = lambda: StableBaselines3(shape, dtype, steps)
    made["sb3-extra-buffers, lz4"] = lambda: StableBaselines3(shape, dtype, steps, "lz4-block")
    made["sb3-extra-buffers, rle"] = lambda: StableBaselines3(shape, dtype, steps, "rle-jit")
    return made
