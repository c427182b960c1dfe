"""The reward of navigation: weighted terms, NavRL's by default."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class NavigationReward:
    """The weight of each term, and how they add up."""

    speed: float = 1.0  # velocity towards the goal, m/s
    alive: float = 1.0
    static_clearance: float = 1.0  # mean log distance of all beams
    moving_clearance: float = 1.0  # mean log distance to the nearest moving obstacles
    smoothness: float = 0.1  # cost of |v − v_previous|
    height: float = 8.0  # cost of (height beyond 0.2 m outside the band between start and goal)²
    collision: float = 0.0  # cost of ending by a collision
    goal: float = 0.0  # paid when the goal is first reached

    def __call__(
        self,
        *,
        goal_speed: Tensor,  # [N] m/s
        static_log_distance: Tensor,  # [N] mean over all beams of the logarithm of the distance in m
        moving_distance: Tensor | None,  # [N, k] m; None where there are no moving obstacles
        vel_change: Tensor,  # [N] m/s
        height_excess: Tensor,  # [N] m
        collided: Tensor,  # [N] bool
        reached_now: Tensor,  # [N] bool
        range_m: float,
    ) -> Tensor:
        """The reward [N] of one step."""
        reward = self.speed * goal_speed + self.alive
        reward = reward + self.static_clearance * static_log_distance
        if moving_distance is not None:
            reward = reward + self.moving_clearance * moving_distance.clamp(1e-6, range_m).log().mean(1)
        reward = reward - self.smoothness * vel_change - self.height * height_excess.square()
        if self.collision or self.goal:
            reward = reward - self.collision * collided.to(torch.float32) + self.goal * reached_now.to(torch.float32)
        return reward
