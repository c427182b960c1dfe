"""A TensorEnv whose every number can be said beforehand, and which writes all it gives into the same memory each
step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation


@dataclass
class CountingConfig:
    num_envs: int = 3
    length: int = 3  # of environment 0's episodes; those of environment i are i longer


class Counting(TensorEnv):
    """Environment i counts from 100·seed + 10·episode; even ones terminate, odd ones are truncated."""

    Config = CountingConfig

    def __init__(self, num_envs=None, device="cpu", seed=0, config=None) -> None:
        self.config = config or CountingConfig()
        super().__init__(num_envs or self.config.num_envs, device, seed)
        n = self.num_envs
        self.observation_spec = {"count": Box((1,), 0.0, 1e6), "parity": Discrete(2)}
        self.action_spec = Box((2,), -1.0, 1.0)
        self.episode = torch.zeros(n, dtype=torch.int64)
        self.age = torch.zeros(n, dtype=torch.int64)
        self.count, self.parity = torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64)
        self.reward, self.success, self.seen_action = torch.zeros(n), torch.zeros(n), torch.zeros(n, 2)

    def _reset(self, mask: Tensor) -> None:
        self.episode.add_(mask)
        self.age.mul_(~mask)

    def _advance(self, action: Tensor) -> None:
        self.seen_action.copy_(action)
        self.age.add_(1)

    def _observe(self) -> Observation:
        self.count[:, 0] = 100 * self.seed + 10 * self.episode + self.age
        self.parity.copy_(self.age % 2)
        return {"count": self.count, "parity": self.parity}

    def _outcome(self) -> Outcome:
        number = torch.arange(self.num_envs)
        over = self.age >= self.config.length + number
        self.reward.copy_(self.age)
        self.success.copy_(over)
        return Outcome(self.reward, over & (number % 2 == 0), over & (number % 2 == 1), {"success": self.success})
