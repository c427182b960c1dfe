"""Statistics of finished episodes, and batches cut into trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

_OWN_NAMES = ("count", "return", "length")


class EpisodeStatistics:
    """Compute mean return, length and info of the episodes that ended since the last `pop`.

    Unfinished episodes are carried from batch to batch. Invalid frames do not count. All sums are on the device: a few
    kernels per rollout and one read-back per `pop`. Shapes are fixed and only own tensors are written, so `update` can
    be part of a captured graph.
    """

    def __init__(self, num_envs: int, device: torch.device | str = "cpu") -> None:
        # float64: a float32 sum of lengths is wrong from 2^24 frames on
        self._running_return = torch.zeros(num_envs, dtype=torch.float64, device=device)  # [N], of the open episode
        self._running_length = torch.zeros(num_envs, dtype=torch.float64, device=device)  # [N], valid frames
        self.info_names: tuple[str, ...] | None = None  # known after the first rollout
        self._sums = torch.zeros(len(_OWN_NAMES), dtype=torch.float64, device=device)  # of ended episodes; info follows

    def update(self, reward: Tensor, done: Tensor, valid: Tensor, info: Mapping[str, Tensor]) -> None:
        """Add one rollout.

        Args:
            reward, done, valid: time-major, each [T, N].
            info: tensors [T, N], read at the steps that end an episode.
        """
        names = self._check_info(info)
        ended = done & valid
        step = torch.arange(1, len(reward) + 1, device=reward.device).unsqueeze(1)  # [T, 1]
        last_end = (step * ended).amax(0)  # [N], counted from 1; 0 if no episode ended
        # Frames up to an env's last end belong to ended episodes; those after it are carried.
        head = valid & (step <= last_end)
        tail = valid & (step > last_end)
        some_end = last_end > 0
        sums = [
            ended.sum(),
            _masked_sum(some_end, self._running_return) + _masked_sum(head, reward),
            _masked_sum(some_end, self._running_length) + head.sum(),
            *(_masked_sum(ended, info[name]) for name in names),
        ]
        self._sums.add_(torch.stack([s.to(torch.float64) for s in sums]))
        open_return = torch.where(tail, reward, 0.0).sum(0, dtype=torch.float64)
        self._running_return.masked_fill_(some_end, 0.0).add_(open_return)
        self._running_length.masked_fill_(some_end, 0.0).add_(tail.sum(0))

    def pop(self) -> dict[str, float]:
        """Return 'count' of the episodes that ended since the last pop and their means; 'count' alone if there were
        none."""
        return self.means(self.take().tolist())  # the one read-back

    def take(self) -> Tensor:
        """Return the sums since the last time, on the device, for `means`; they restart from zero."""
        sums = self._sums.clone()
        self._sums.zero_()
        return sums

    def add(self, sums: Tensor, names: tuple[str, ...] | None) -> None:
        """Add sums that another one's `take` returned, and its `info_names`."""
        if self.info_names is None:
            self.info_names, self._sums = names, self._sums.new_zeros(len(sums))
        self._sums += sums.to(self._sums.device)

    def means(self, sums: list[float]) -> dict[str, float]:
        """Return what `pop` returns, from sums of `take`."""
        count, *totals = sums
        if count == 0:
            return {"count": 0.0}
        names = (*_OWN_NAMES[1:], *(self.info_names or ()))
        return {"count": count, **{name: total / count for name, total in zip(names, totals, strict=True)}}

    def restart(self) -> None:
        """Discard the unfinished episodes, because all environments were reset."""
        self._running_return.zero_()
        self._running_length.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all sums."""
        return {
            "info_names": None if self.info_names is None else list(self.info_names),
            "sums": self._sums.clone(),
            "running_return": self._running_return.clone(),
            "running_length": self._running_length.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, bit for bit."""
        if state["running_return"].shape != self._running_return.shape:
            saved, mine = len(state["running_return"]), len(self._running_return)
            raise ValueError(f"the saved statistics are of {saved} environments, these of {mine}: use its num_envs")
        names = state["info_names"]
        self.info_names = None if names is None else tuple(names)
        if len(self._sums) != len(state["sums"]):
            self._sums = torch.zeros_like(state["sums"], device=self._sums.device)
        self._sums.copy_(state["sums"])
        self._running_return.copy_(state["running_return"])
        self._running_length.copy_(state["running_length"])

    def _check_info(self, info: Mapping[str, Tensor]) -> tuple[str, ...]:
        """Return the info keys in the order of the sums; the first rollout defines them."""
        if self.info_names is None:
            clash = set(info) & set(_OWN_NAMES)
            if clash:
                raise ValueError(f"info key {min(clash)!r} is one of the statistics' own names: rename it in the env")
            wide = [name for name, values in info.items() if values.dim() > 2]
            if wide:
                one = list(info[wide[0]].shape[2:])
                raise ValueError(f"info {wide[0]!r} must be one number per environment, not a tensor {one} for each")
            self.info_names = tuple(info)
            self._sums = torch.cat([self._sums, self._sums.new_zeros(len(info))])
        elif set(info) != set(self.info_names):
            raise ValueError(f"info has the keys {sorted(info)}, before {sorted(self.info_names)}: use the same ones")
        return self.info_names


def split_trajectories(batch: TensorDict) -> TensorDict:
    """Cut a batch [N, T] at the ends of its episodes.

    Waits for the device, because the shape depends on the data: use it to look at trajectories, not in a hot loop.

    Returns:
        A copy [num_traj, max_len], env by env, padded with zeros; `mask` is True on real frames. Invalid frames are
        left out.
    """
    valid, done = batch["valid"], batch["done"]  # [N, T]
    continues = torch.zeros_like(valid)  # the frame before belongs to the same trajectory
    continues[:, 1:] = (valid & ~done)[:, :-1]
    starts = valid & ~continues
    env, time = valid.nonzero(as_tuple=True)  # ordered by env, then time
    trajectory = starts[env, time].cumsum(0) - 1
    count = int(starts.sum())
    first = starts[env, time].nonzero().flatten()  # of each trajectory, its first frame's position in the ordered list
    offset = torch.arange(len(env), device=env.device) - first[trajectory]
    longest = int(offset.max()) + 1 if len(env) else 0

    def pad(x: Tensor) -> Tensor:
        out = x.new_zeros((count, longest, *x.shape[2:]))
        out[trajectory, offset] = x[env, time]
        return out

    split = batch.apply(pad, batch_size=[count, longest])
    assert split is not None
    split["mask"] = pad(valid)
    return split


def _masked_sum(mask: Tensor, x: Tensor) -> Tensor:
    """Sum `x` where `mask`; other values, even NaN, do not matter."""
    return torch.where(mask, x, 0.0).sum(dtype=torch.float64)
