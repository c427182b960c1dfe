"""Statistics of finished episodes, kept on the device: a handful of kernels a rollout, one read-back a `pop`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_FACTS = ("count", "return", "length")


class EpisodeStatistics:
    """Mean return, length and info of the episodes that ended since the last `pop`.

    Episodes go on across batches: what an unfinished one has gathered so far is carried. Invalid frames do not count.
    All of it has fixed shapes and writes only its own tensors, so that `update` can be part of a captured graph.
    """

    def __init__(self, num_envs: int, device: torch.device | str = "cpu") -> None:
        # float64 throughout: a float32 sum of lengths is wrong from 2^24 frames on
        self._running_return = torch.zeros(
            num_envs, dtype=torch.float64, device=device
        )  # [N] of the unfinished episode
        self._running_length = torch.zeros(num_envs, dtype=torch.float64, device=device)  # [N] valid frames
        self._info_names: tuple[str, ...] | None = None  # learned from the first rollout
        self._sums = torch.zeros(
            len(_FACTS), dtype=torch.float64, device=device
        )  # over ended episodes: facts, then info

    def update(self, reward: Tensor, done: Tensor, valid: Tensor, info: Mapping[str, Tensor]) -> None:
        """Takes in one rollout, time-major: every tensor is [T, N]; `info` is read where an episode ends."""
        names = self._known_info(info)
        ended = done & valid
        step = torch.arange(1, len(reward) + 1, device=reward.device).unsqueeze(1)  # [T, 1]
        last_end = (step * ended).amax(0)  # [N], counted from 1; 0: none ended
        # Up to its last end, an env's frames belong to ended episodes, whichever; those after it are the next carry.
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
        self._running_return.masked_fill_(some_end, 0.0).add_(
            torch.where(tail, reward, 0.0).sum(0, dtype=torch.float64)
        )
        self._running_length.masked_fill_(some_end, 0.0).add_(tail.sum(0))

    def pop(self) -> dict[str, float]:
        """'count' of the episodes ended since the last pop and the means over them; 'count' alone when there were none."""
        return self.means(self.take().tolist())  # the one read-back

    def take(self) -> Tensor:
        """The sums since the last time, still on the device, for `means` to read later; they start again from zero."""
        sums = self._sums.clone()
        self._sums.zero_()
        return sums

    def empty_sums(self) -> Tensor:
        """What `take` gives when no episode has ended."""
        return torch.zeros_like(self._sums)

    def means(self, sums: list[float]) -> dict[str, float]:
        """What `pop` says, of sums that were taken before."""
        count, *totals = sums
        if count == 0:
            return {"count": 0.0}
        names = (*_FACTS[1:], *(self._info_names or ()))
        return {"count": count, **{name: total / count for name, total in zip(names, totals, strict=True)}}

    def restart(self) -> None:
        """Forgets the unfinished episodes: all environments start anew."""
        self._running_return.zero_()
        self._running_length.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Sums and carries, as copies."""
        return {
            "info_names": None if self._info_names is None else list(self._info_names),
            "sums": self._sums.clone(),
            "running_return": self._running_return.clone(),
            "running_length": self._running_length.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state`, bit for bit."""
        if state["running_return"].shape != self._running_return.shape:
            saved, mine = len(state["running_return"]), len(self._running_return)
            raise ValueError(
                f"the saved statistics are of {saved} environments, these of {mine}: use the same num_envs"
            )
        names = state["info_names"]
        self._info_names = None if names is None else tuple(names)
        if len(self._sums) != len(state["sums"]):
            self._sums = torch.zeros_like(state["sums"], device=self._sums.device)
        self._sums.copy_(state["sums"])
        self._running_return.copy_(state["running_return"])
        self._running_length.copy_(state["running_length"])

    def _known_info(self, info: Mapping[str, Tensor]) -> tuple[str, ...]:
        """The info keys, in the order of the sums; the first rollout makes room for them."""
        if self._info_names is None:
            clash = set(info) & set(_FACTS)
            if clash:
                raise ValueError(
                    f"info key {min(clash)!r} is one of the statistics' own: give it another name in the env"
                )
            self._info_names = tuple(info)
            self._sums = torch.cat([self._sums, self._sums.new_zeros(len(info))])
        elif set(info) != set(self._info_names):
            raise ValueError(
                f"info has the keys {sorted(info)}, before {sorted(self._info_names)}: give the same keys at every step"
            )
        return self._info_names


def _masked_sum(mask: Tensor, x: Tensor) -> Tensor:
    """The sum of `x` where `mask`; what lies outside, NaN even, does not matter."""
    return torch.where(mask, x, 0.0).sum(dtype=torch.float64)
