"""Problems small enough to be solved in a second or two, whose best policy is known beforehand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from slipstream.algorithms.base import build_learner, build_network
from slipstream.algorithms.dqn import DQNConfig
from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.algorithms.sac import SACConfig
from slipstream.algorithms.td3 import TD3Config
from slipstream.collectors import SyncDataCollector
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation
from slipstream.models.policy import ModelConfig, build_policy
from slipstream.tasks.evaluation import fly_episodes


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
    with SyncDataCollector(env, policy, 64 * 16, return_same_td=True) as collector:
        for _ in range(40):
            algo.update(collector.rollout())
    mean = policy.actor.mean(policy.actor(policy.features({"side": torch.tensor([[-1.0], [1.0]])})))
    torch.testing.assert_close(mean, torch.tensor([[-0.5, -0.25], [0.5, -0.25]]), atol=0.1, rtol=0)


MODEL = ModelConfig(part=0, trunk=[32, 32], layer_norm=False)


class Corridor(TensorEnv):
    """Five places. 0: take 0.2 and leave. 1: walk on; whoever walks through gets 1 at the end. Only bootstrapping sees
    that far."""

    observation_spec = {"place": Discrete(5)}
    action_spec = Discrete(2)
    state_names = ("place",)

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.place = torch.zeros(num_envs, dtype=torch.int64)
        self.left = torch.zeros(num_envs, dtype=torch.bool)

    def _reset(self, mask: Tensor) -> None:
        self.place.masked_fill_(mask, 0)
        self.left.masked_fill_(mask, False)

    def _advance(self, action: Tensor) -> None:
        self.left.copy_(action == 0)
        self.place.add_(action).clamp_(max=4)

    def _observe(self) -> Observation:
        return {"place": self.place.clone()}

    def _outcome(self) -> Outcome:
        through = self.place == 4
        reward = 0.2 * (self.left & ~through) + 1.0 * through
        return Outcome(reward, self.left | through, torch.zeros_like(through), {})


class Homing(TensorEnv):
    """A place on a line, moved by the action; each of ten steps costs its square. The episode is cut, never over."""

    observation_spec = {"x": Box((1,))}
    action_spec = Box((1,), -0.5, 0.5)
    state_names = ("x", "age")

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.x = torch.zeros(num_envs, 1)
        self.age = torch.zeros(num_envs)

    def _reset(self, mask: Tensor) -> None:
        self.x.copy_(torch.where(mask[:, None], 4 * torch.rand_like(self.x) - 2, self.x))
        self.age.mul_(~mask)

    def _advance(self, action: Tensor) -> None:
        self.x.add_(action).clamp_(-3, 3)
        self.age.add_(1)

    def _observe(self) -> Observation:
        return {"x": self.x.clone()}

    def _outcome(self) -> Outcome:
        over = self.age >= 10
        return Outcome(-self.x[:, 0].square(), torch.zeros_like(over), over, {})


def learned(env: TensorEnv, config, iterations: int):
    """The policy after so many iterations, and its learner."""
    torch.manual_seed(0)
    policy = build_network(vars(config), env.observation_spec, env.action_spec, MODEL)
    learner = build_learner(policy, config, env.observation_spec, seed=0)
    collector = SyncDataCollector(env, policy, env.num_envs * config.rollout_steps, return_same_td=True)
    for i in range(iterations):
        learner.update(collector.rollout(), i / iterations)
    return policy, learner


@pytest.mark.parametrize("changes", [{}, {"n_step": 3}, {"prioritised": True}, {"double": False, "dueling": False}])
def test_dqn_finds_the_reward_at_the_end_of_the_corridor(changes):
    settings = {"rollout_steps": 4, "updates": 8, "batch_size": 32, "warmup": 64, "learning_rate": 3e-3, "gamma": 0.9}
    config = DQNConfig(**settings, buffer_size=2000, target_interval=8, random_fraction=0.5, random_end=0.1, **changes)
    policy, _ = learned(Corridor(8), config, 40)
    values = policy.values({"place": torch.arange(4)})
    assert values.argmax(1).tolist() == [1, 1, 1, 1]
    # n steps of other actions than the best ones count as they were: too low, and known for it
    assert values[:, 1].tolist() == pytest.approx([0.9**3, 0.9**2, 0.9, 1.0], abs=0.3 if "n_step" in changes else 0.15)
    assert fly_episodes(Corridor(2), policy, 10)["return"] == pytest.approx(1.0)


@pytest.mark.parametrize("config", [SACConfig, TD3Config])
def test_an_actor_learns_to_come_home(config):
    settings = {"rollout_steps": 2, "updates": 8, "batch_size": 64, "warmup": 200, "buffer_size": 5000}
    settings |= {"learning_rate": 3e-3, "gamma": 0.9, "tau": 0.02}
    more = {"entropy": 0.1} if config is SACConfig else {}
    policy, learner = learned(Homing(16), config(**settings, **more), 60)
    x = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])
    assert policy.best({"x": x}).flatten().tolist() == pytest.approx([0.5, 0.5, -0.5, -0.5], abs=0.15)
    torch.manual_seed(1)
    straight_home, nothing = -5.5, -13.3  # means over starts in -2 … 2
    assert fly_episodes(Homing(256), policy, 20)["return"] > straight_home + 0.25 * (nothing - straight_home)
    value = learner.algo.critics({"x": torch.zeros(1, 1)}, torch.zeros(1, 1)).mean().item()
    assert value == pytest.approx(0.0, abs=0.8)  # at home nothing costs, also beyond the tenth step: a cut is no end
