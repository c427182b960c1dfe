"""A cart on a line, with short episodes that end in both ways; and an expert that stops it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete


@dataclass
class CartConfig:
    num_envs: int = 4
    max_steps: int = 10
    discrete: bool = False
    push: float = 0.3
    more: bool = False  # one more number in the observation
    cost: float = 1.0  # of a meter


class Cart(TensorEnv):
    """The reward is minus the distance; an episode terminates beyond 2 m and is truncated after `max_steps`."""

    Config = CartConfig
    state_names = ("cart", "age")

    def __init__(self, num_envs, device="cpu", seed=0, config=None):
        super().__init__(num_envs, device, seed)
        self.config = config or CartConfig()
        self.observation_spec = {"cart": Box((2 + self.config.more,)), "place": Box((1,))}
        self.action_spec = Discrete(3) if self.config.discrete else Box((1,), -1.0, 1.0)
        self.cart = torch.zeros(num_envs, 2, device=device)
        self.age = torch.zeros(num_envs, device=device)

    def _reset(self, mask):
        self.cart.copy_(torch.where(mask[:, None], torch.randn_like(self.cart), self.cart))
        self.age.mul_(~mask)

    def _advance(self, action):
        push = action - 1.0 if self.config.discrete else action[:, 0]
        self.cart[:, 1] += self.config.push * push
        self.cart[:, 0] += self.config.push * self.cart[:, 1]
        self.age += 1

    def _observe(self):
        more = [self.age[:, None]] if self.config.more else []
        return {"cart": torch.cat((self.cart, *more), -1), "place": self.cart[:, :1].clone()}

    def _outcome(self):
        away = self.cart[:, 0].abs()
        over = away > 2
        return Outcome(-self.config.cost * away, over, ~over & (self.age >= self.config.max_steps), {"away": away})


def expert(observation):
    """The action [N, 1] that brakes towards 0."""
    cart = observation["cart"]
    return (-0.8 * cart[:, :1] - 0.9 * cart[:, 1:2]).clamp(-0.95, 0.95)
