"""DockingEnv: a point mass docks at the origin."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Observation


@dataclass
class DockingConfig:
    """The settings of `env.*`."""

    num_envs: int = 256
    max_steps: int = 60  # then the episode is cut
    thrust_mps2: float = 4.0  # at full action, on each axis
    wind_mps2: float = 0.5  # spread of the wind, which holds for an episode
    dt_s: float = 0.1


class DockingEnv(TensorEnv):
    """N craft, each at its own port."""

    Config = DockingConfig
    observation_spec = {"position": Box((2,)), "velocity": Box((2,))}
    action_spec = Box((2,), -1.0, 1.0)
    state_names = ("pos", "vel", "wind", "age")

    def __init__(
        self, num_envs: int, device: torch.device | str = "cpu", seed: int = 0, config: DockingConfig | None = None
    ) -> None:
        super().__init__(num_envs, device, seed)
        self.config = config or DockingConfig()
        self.pos = torch.zeros(num_envs, 2, device=device)
        self.vel = torch.zeros(num_envs, 2, device=device)
        self.wind = torch.zeros(num_envs, 2, device=device)
        self.age = torch.zeros(num_envs, device=device)  # steps into the episode

    def _reset(self, mask: Tensor) -> None:
        draw = torch.randn(self.num_envs, 6, device=self.device)
        fresh = mask[:, None]
        self.pos.copy_(torch.where(fresh, 2.0 * draw[:, 0:2], self.pos))
        self.vel.copy_(torch.where(fresh, 0.3 * draw[:, 2:4], self.vel))
        self.wind.copy_(torch.where(fresh, self.config.wind_mps2 * draw[:, 4:6], self.wind))
        self.age.mul_(~mask)

    def _advance(self, action: Tensor) -> None:
        self.vel.add_((self.config.thrust_mps2 * action + self.wind) * self.config.dt_s)
        self.pos.add_(self.vel * self.config.dt_s)
        self.age.add_(1)

    def _observe(self) -> Observation:
        return {"position": self.pos.clone(), "velocity": self.vel.clone()}

    def _outcome(self) -> Outcome:
        distance, speed = self.pos.norm(dim=-1), self.vel.norm(dim=-1)
        docked = (distance < 0.3) & (speed < 0.5)
        lost = distance > 10.0
        reward = 5.0 * docked - 5.0 * lost - 0.1 * distance
        info = {"success": docked.float(), "distance_m": distance, "speed_mps": speed}
        return Outcome(reward, terminated=docked | lost, truncated=self.age >= self.config.max_steps, info=info)
