"""A cart whose velocity must be braked, and that shows its position only: a policy needs a memory.

The figure of docs/memory.md, 9 trainings of some seconds each (in this folder):

    slipstream train task=hidden_velocity:HiddenVelocity model.memory=none,stack,gru seed=0,1,2 --multirun \\
        env.num_envs=64 algo.rollout_steps=9 algo.minibatches=2 algo.learning_rate=0.01 algo.schedule=linear \\
        algo.clip=0.2 algo.gamma=0.9 algo.lam=0.9 model.part=0 'model.trunk=[32]' model.hidden_size=32 \\
        total_frames=23040 eval_interval=2 eval.num_drones=256 device=cpu
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Observation


@dataclass
class CartConfig:
    """The settings of `env.*`."""

    num_envs: int = 64
    max_steps: int = 8


class HiddenVelocity(TensorEnv):
    """A cart starts anywhere and moves left or right. The action accelerates it, each step costs its speed.

    The position says nothing about the direction, so a policy without memory cannot brake.
    """

    Config = CartConfig
    observation_spec = {"position": Box((1,))}
    action_spec = Box((1,), -1.0, 1.0)
    state_names = ("pos", "vel", "age")

    def __init__(self, num_envs: int, device="cpu", seed: int = 0, config: CartConfig | None = None) -> None:
        super().__init__(num_envs, device, seed)
        self.config = config or CartConfig()
        self.pos, self.vel = torch.zeros(num_envs, device=device), torch.zeros(num_envs, device=device)
        self.age = torch.zeros(num_envs, device=device)

    def _reset(self, mask: Tensor) -> None:
        draw = torch.rand(2, self.num_envs, device=self.device)
        self.pos.copy_(torch.where(mask, 6 * draw[0] - 3, self.pos))
        self.vel.copy_(torch.where(mask, (draw[1] - 0.5).sign(), self.vel))
        self.age.mul_(~mask)

    def _advance(self, action: Tensor) -> None:
        self.vel.add_(0.5 * action[:, 0])
        self.pos.add_(0.5 * self.vel)
        self.age.add_(1)

    def _observe(self) -> Observation:
        return {"position": self.pos[:, None].clone()}

    def _outcome(self) -> Outcome:
        never = torch.zeros_like(self._pending)
        return Outcome(-self.vel.abs(), never, self.age >= self.config.max_steps, {})
