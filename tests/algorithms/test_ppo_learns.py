"""Worlds whose best policy and value are known beforehand: PPO finds them in seconds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.collectors import SyncDataCollector
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation
from slipstream.models.policy import ModelConfig, build_policy


class Arms(TensorEnv):
    """One pull an episode. The observation says which of two settings is asked for; the reward falls with the distance
    from it."""

    observation_spec = {"side": Box((1,))}
    state_names = ("side", "pulled")

    def __init__(self, num_envs: int, discrete: bool = False) -> None:
        super().__init__(num_envs)
        self.discrete = discrete
        self.action_spec = Discrete(3) if discrete else Box((2,), -1.0, 1.0)
        self.side = torch.ones(num_envs)
        self.pulled = torch.zeros(num_envs) if discrete else torch.zeros(num_envs, 2)

    def _reset(self, mask: Tensor) -> None:
        self.side.copy_(torch.where(mask, torch.randint(0, 2, self.side.shape) * 2.0 - 1.0, self.side))

    def _advance(self, action: Tensor) -> None:
        self.pulled.copy_(action)

    def _observe(self) -> Observation:
        return {"side": self.side[:, None].clone()}

    def _outcome(self) -> Outcome:
        if self.discrete:
            reward = (self.pulled == 1 + self.side).float()  # arm 0 on the left, arm 2 on the right
        else:
            reward = (
                -(self.pulled - torch.stack((0.5 * self.side, torch.full_like(self.side, -0.25)), 1)).square().sum(1)
            )
        over = torch.ones(self.num_envs, dtype=torch.bool)
        return Outcome(reward, over, ~over, {})


class Metronome(TensorEnv):
    """Pays 1 at every step and stops after 5, for good or by a timeout."""

    observation_spec = {"beat": Box((5,))}
    action_spec = Box((1,), -1.0, 1.0)
    state_names = ("beat",)

    def __init__(self, num_envs: int, ends: str) -> None:
        super().__init__(num_envs)
        self.ends = ends
        self.beat = torch.arange(num_envs) % 5

    def _reset(self, mask: Tensor) -> None:
        self.beat.masked_fill_(mask, 0)

    def _advance(self, action: Tensor) -> None:
        self.beat += 1

    def _observe(self) -> Observation:
        return {"beat": torch.nn.functional.one_hot(self.beat.clamp(max=4), 5).float()}

    def _outcome(self) -> Outcome:
        over, never = self.beat >= 5, torch.zeros(self.num_envs, dtype=torch.bool)
        flags = (over, never) if self.ends == "terminated" else (never, over)
        return Outcome(torch.ones(self.num_envs), *flags, {})


def train(env, iterations, **settings):
    torch.manual_seed(0)
    policy = build_policy(env.observation_spec, env.action_spec, ModelConfig(trunk=[32], part=16))
    algo = PPO(policy, PPOConfig(minibatches=4, learning_rate=3e-3, clip=0.2, **settings))
    with SyncDataCollector(env, policy, env.num_envs * 16, return_same_td=True, ring_size=1) as collector:
        for _ in range(iterations):
            algo.update(collector.rollout())
    return policy


BOTH_SIDES = {"side": torch.tensor([[-1.0], [1.0]])}


def test_it_finds_the_best_of_continuous_actions_for_either_setting():
    policy = train(Arms(64), 40)
    mean = policy.actor.mean(policy.actor(policy.features(BOTH_SIDES)))
    torch.testing.assert_close(mean, torch.tensor([[-0.5, -0.25], [0.5, -0.25]]), atol=0.1, rtol=0)


def test_it_finds_the_best_of_three_arms_for_either_setting():
    policy = train(Arms(64, discrete=True), 25)
    assert policy.actor(policy.features(BOTH_SIDES))[0].exp()[[0, 1], [0, 2]].min() > 0.9


@pytest.mark.parametrize(
    ("ends", "value"),
    [
        ("terminated", [4.0951, 3.439, 2.71, 1.9, 1.0]),  # (1 - 0.9^k) / 0.1 with k steps to go
        ("truncated", [10.0] * 5),  # a timeout cuts the record, not the worth: 1 / (1 - 0.9)
    ],
)
def test_it_learns_what_a_state_is_worth_before_an_end_and_before_a_timeout(ends, value):
    env = Metronome(60, ends)
    policy = train(env, 60, gamma=0.9, lam=0.9, value_clip=0.0)
    learned = policy.value_norm.denormalize(policy.value({"beat": torch.eye(5)}))
    torch.testing.assert_close(learned, torch.tensor(value), atol=0.35, rtol=0.06)
