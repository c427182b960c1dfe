"""Small duels for tests, and actions for them."""

from __future__ import annotations

import torch

from slipstream.tasks.aircombat.agents import BaseAgent
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv


def make(num: int = 8, seed: int = 7, **config) -> AirCombatEnv:
    extra = {name: config.pop(name) for name in ("opponent_object", "reward_object") if name in config}
    config = {"start": "random", "time_scale": 4.0} | config
    agents = {"opponent": extra.get("opponent_object"), "reward": extra.get("reward_object")}
    return AirCombatEnv(num, "cpu", seed, AirCombatConfig(**config), **agents)


def random_actions(env: AirCombatEnv, steps: int, seed: int = 0) -> torch.Tensor:
    actions = torch.rand(steps, *env.batch_shape, 3, generator=torch.Generator().manual_seed(seed))
    actions[..., 0] = 2 * actions[..., 0] - 1
    return actions


def pursuit(env: AirCombatEnv, fire: float = 1.0) -> torch.Tensor:
    """Both sides turn to their enemy [2, N, 3]."""
    rows = []
    for view in env.views():
        rudder = (2 * torch.atan2(view["enemy_bearing_sin"], view["enemy_bearing_cos"])).clamp(-1, 1)
        rows.append(torch.stack((rudder, torch.ones_like(rudder), torch.full_like(rudder, fire)), -1))
    return torch.stack(rows)


class Counting(BaseAgent):
    """Turns more the longer a duel lasts; remembers."""

    def __init__(self, num_envs=1, device="cpu"):
        super().__init__(num_envs, device)
        self.count = torch.zeros(num_envs)

    def act(self, observation):
        self.count.add_(1)
        rudder, throttle = (self.count / 100).clamp(max=1), torch.ones(self.num_envs)
        return {"rudder": rudder, "throttle": throttle, "fire": observation["enemy_range"] < 0.5}

    def reset(self, env_mask=None):
        self.count.masked_fill_(env_mask, 0.0) if env_mask is not None else self.count.zero_()

    def state_tensors(self):
        return {"count": self.count}
