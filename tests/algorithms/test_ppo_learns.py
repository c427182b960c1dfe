"""A world whose best policy is known beforehand: PPO finds it in seconds."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.collectors import SyncDataCollector
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Observation
from slipstream.models.policy import ModelConfig, build_policy


class Arms(TensorEnv):
    """One pull an episode. The observation says which of two settings is asked for; the reward falls with the distance
    from it."""

    observation_spec = {"side": Box((1,))}
    action_spec = Box((2,), -1.0, 1.0)
    state_names = ("side", "pulled")

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.side, self.pulled = torch.ones(num_envs), torch.zeros(num_envs, 2)

    def _reset(self, mask: Tensor) -> None:
        self.side.copy_(torch.where(mask, torch.randint(0, 2, self.side.shape) * 2.0 - 1.0, self.side))

    def _advance(self, action: Tensor) -> None:
        self.pulled.copy_(action)

    def _observe(self) -> Observation:
        return {"side": self.side[:, None].clone()}

    def _outcome(self) -> Outcome:
        best = torch.stack((0.5 * self.side, torch.full_like(self.side, -0.25)), 1)
        over = torch.ones(self.num_envs, dtype=torch.bool)
        return Outcome(-(self.pulled - best).square().sum(1), over, ~over, {})


def test_it_finds_the_best_actions_for_either_setting():
    torch.manual_seed(0)
    env = Arms(64)
    policy = build_policy(env.observation_spec, env.action_spec, ModelConfig(trunk=[32], part=16))
    algo = PPO(policy, PPOConfig(minibatches=4, learning_rate=3e-3, clip=0.2))
    with SyncDataCollector(env, policy, 64 * 16, return_same_td=True, ring_size=1) as collector:
        for _ in range(40):
            algo.update(collector.rollout())
    mean = policy.actor.mean(policy.actor(policy.features({"side": torch.tensor([[-1.0], [1.0]])})))
    torch.testing.assert_close(mean, torch.tensor([[-0.5, -0.25], [0.5, -0.25]]), atol=0.1, rtol=0)
