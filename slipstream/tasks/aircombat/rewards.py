"""Rewards of duels: the base class and the ones that ship."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor

from slipstream.config.registry import built, named_class
from slipstream.envs.specs import Observation
from slipstream.tasks.aircombat.observation import TIME_SCALE_S


class BaseReward(ABC):
    """What a step of a duel is worth to one side. A reward of your own is a subclass: `reward=my_module:MyReward`.

    `compute` is part of the env's step, which may be captured as a CUDA graph: fixed shapes, no reading back. It is elementwise
    over the leading dimensions, [N] for one side or [2, N] for both.
    """

    needs_before: bool = True  # whether `compute` reads obs_before; where not, it is not kept

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    @abstractmethod
    def compute(
        self, obs_before: Observation, obs_after: Observation, action: Tensor, done: Tensor, info: dict[str, Tensor]
    ) -> Tensor:
        """The reward [N] of the step: observations before and after, the action [N, 3], ends [N], and the env's info, each [N]."""

    def reset(self) -> None:  # noqa: B027 (most remember nothing)
        """Forgets what was kept of earlier steps."""

    def to(self, device: torch.device | str) -> Self:
        """Moves what is kept to a device."""
        self.device = torch.device(device)
        return self


class ZeroReward(BaseReward):
    """Nothing, ever."""

    needs_before = False

    def compute(
        self, obs_before: Observation, obs_after: Observation, action: Tensor, done: Tensor, info: dict[str, Tensor]
    ) -> Tensor:
        """Zeros [N]."""
        return torch.zeros_like(info["success"])


class OutcomeReward(BaseReward):
    """What came of it: the end, missiles, hits, and time survived (by the second, so that time_scale does not change it)."""

    needs_before = False
    WEIGHTS = {
        "success": 500.0,
        "lost": -500.0,
        "draw": -50.0,
        "shots": -5.0,
        "hits": 100.0,
        "was_hit": -200.0,
        "step_s": 6.0,
    }

    def __init__(self, device: torch.device | str = "cpu") -> None:
        super().__init__(device)
        self._weights = torch.tensor(list(self.WEIGHTS.values()), device=self.device)

    def compute(
        self, obs_before: Observation, obs_after: Observation, action: Tensor, done: Tensor, info: dict[str, Tensor]
    ) -> Tensor:
        """The weighted sum [N]."""
        return torch.stack([info[name] for name in self.WEIGHTS], -1) @ self._weights

    def to(self, device: torch.device | str) -> Self:
        """Moves the weights to a device."""
        self._weights = self._weights.to(device)
        return super().to(device)


class ShapedReward(BaseReward):
    """The outcome, and hints on the way: the change of a potential, so that they cannot pay for a detour.

    The potential is high where the enemy is within reach of one's missile and low where a missile comes; it is zero at the end.
    Summed over a duel the hints give minus the potential at its start, whatever was flown and in however many decisions.
    """

    WEIGHTS = {"success": 10.0, "lost": -10.0, "draw": -6.0, "shots": -0.05}
    IN_REACH = (
        4.0  # of the potential where the enemy is inside SURE of the missile's reach; less in proportion beyond it
    )
    SURE = 0.35  # the share of the reach against a straight target at which one that turns away is hit too
    THREAT = 2.0  # less of it where a missile is about to hit; in proportion to the share of THREAT_S that is left
    THREAT_S = 20.0

    def compute(
        self, obs_before: Observation, obs_after: Observation, action: Tensor, done: Tensor, info: dict[str, Tensor]
    ) -> Tensor:
        """The weighted outcome and the change of the potential [N]."""
        after = torch.where(done, 0.0, self.potential(obs_after))
        reward = after - self.potential(obs_before)
        for name, weight in self.WEIGHTS.items():
            reward = torch.add(reward, info[name], alpha=weight)
        return reward

    def potential(self, observation: Observation) -> Tensor:
        """How good the moment looks [N]."""
        reach = (self.SURE * observation["enemy_r_max"] / observation["enemy_range"].clamp(min=1e-6)).clamp(max=1.0)
        comes = (observation["incoming_1_present"] > 0) & (observation["incoming_1_closing"] > 0)
        left = (observation["incoming_1_time_to_go"] * (TIME_SCALE_S / self.THREAT_S)).clamp(max=1.0)
        return self.IN_REACH * reach - self.THREAT * torch.where(comes, 1 - left, 0.0)


REWARDS: dict[str, type[BaseReward]] = {"zero": ZeroReward, "outcome": OutcomeReward, "shaped": ShapedReward}


def create_reward(name: str, device: torch.device | str = "cpu") -> BaseReward:
    """Build a reward: a name of REWARDS, or `package.module:Class` of your own."""
    reward: BaseReward = built(reward_class(name), device=device)
    return reward


def reward_class(name: str) -> type[BaseReward]:
    """Return the class of a reward's name."""
    return named_class(name, REWARDS, BaseReward, "reward")
