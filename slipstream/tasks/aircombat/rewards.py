"""Rewards of duels: the base class and the ones that ship."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from slipstream.config.registry import named_class
from slipstream.envs.specs import Observation
from slipstream.sim.devices import Movable
from slipstream.storage.codec.images import with_aliases
from slipstream.tasks.aircombat.observation import TIME_SCALE_S


class BaseReward(Movable, ABC):
    """The reward of one side. A reward of your own is a subclass: `reward=my_module:MyReward`.

    `compute` runs inside the env's step, which may be captured as a CUDA graph: no host synchronization, fixed shapes.
    It is elementwise over the leading dimensions, [N] for one side or [2, N] for both.
    """

    needs_before: bool = True  # whether `compute` reads obs_before; if not, it is not stored

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    @abstractmethod
    def compute(
        self, obs_before: Observation, obs_after: Observation, action: Tensor, done: Tensor, info: dict[str, Tensor]
    ) -> Tensor:
        """Compute the reward of a step.

        Args:
            obs_before: the side's observation before the step.
            obs_after: the side's observation after it.
            action: [N, 3] (rudder, throttle, fire).
            done: [N] bool, the duels that ended.
            info: the facts of the step, [N] each; see `engine.FACTS`.

        Returns:
            [N] float32.
        """

    def reset(self) -> None:  # noqa: B027 (most keep no memory)
        """Clear the memory of earlier steps."""


class ZeroReward(BaseReward):
    """Always zero."""

    needs_before = False

    def compute(
        self, obs_before: Observation, obs_after: Observation, action: Tensor, done: Tensor, info: dict[str, Tensor]
    ) -> Tensor:
        """Return zeros [N]."""
        return torch.zeros_like(info["success"])


class OutcomeReward(BaseReward):
    """Weighted outcome: the end, missiles, hits, and time survived (per second, so that time_scale does not change
    it)."""

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
        """Return the weighted sum [N]."""
        return torch.stack([info[name] for name in self.WEIGHTS], -1) @ self._weights


class ShapedReward(BaseReward):
    """The outcome plus potential-based shaping, which does not change the best policy if rewards are not discounted.

    The potential is high where the enemy is within reach of the own missile and low where a missile is incoming; it is
    zero at the end. Summed over a duel, the shaping is minus the potential at its start. Discounted by gamma, 1 - gamma
    times the potential at each later decision comes to it.
    """

    WEIGHTS = {"success": 10.0, "lost": -10.0, "draw": -6.0, "shots": -0.05}
    IN_REACH = 4.0  # potential where the enemy is inside SURE of the missile's reach; falls in proportion beyond
    SURE = 0.35  # share of the reach (against a straight target) within which a target that turns away is hit too
    THREAT = 2.0  # subtracted where a missile is about to hit, less in proportion to the share of THREAT_S left
    THREAT_S = 20.0

    def compute(
        self, obs_before: Observation, obs_after: Observation, action: Tensor, done: Tensor, info: dict[str, Tensor]
    ) -> Tensor:
        """Return the weighted outcome plus the change of the potential [N]."""
        after = torch.where(done, 0.0, self.potential(obs_after))
        reward = after - self.potential(obs_before)
        for name, weight in self.WEIGHTS.items():
            reward = torch.add(reward, info[name], alpha=weight)
        return reward

    def potential(self, observation: Observation) -> Tensor:
        """Return the potential [N]."""
        reach = (self.SURE * observation["enemy_r_max"] / observation["enemy_range"].clamp(min=1e-6)).clamp(max=1.0)
        comes = (observation["incoming_1_present"] > 0) & (observation["incoming_1_closing"] > 0)
        left = (observation["incoming_1_time_to_go"] * (TIME_SCALE_S / self.THREAT_S)).clamp(max=1.0)
        return self.IN_REACH * reach - self.THREAT * torch.where(comes, 1 - left, 0.0)


REWARDS: dict[str, type[BaseReward]] = {"zero": ZeroReward, "outcome": OutcomeReward, "shaped": ShapedReward}


@with_aliases(reward_type="name")
def create_reward(name: str, device: torch.device | str = "cpu") -> BaseReward:
    """Build a reward: a name of REWARDS, or `package.module:Class` of your own."""
    reward: BaseReward = reward_class(name)(device=device)
    return reward


def reward_class(name: str) -> type[BaseReward]:
    """Return the class of a reward's name."""
    return named_class(name, REWARDS, BaseReward, "reward")
