"""The contract of the two tasks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from small_worlds import small_navigation

from slipstream import AirCombatEnv, BaseAgent, BaseReward, PlaceholderAgent, TensorEnv, ZeroReward


def duels(num: int = 4, seed: int = 0, opponent=None, reward=None, **settings) -> AirCombatEnv:
    return AirCombatEnv(num, "cpu", seed, AirCombatEnv.Config(**settings), opponent, reward)


def copied(record):
    """A record of one's own: the env's lives until its next step."""
    own = {
        name: {key: value[key].clone() for key in value}
        for name, value in vars(record).items()
        if not isinstance(value, torch.Tensor)
    }
    return SimpleNamespace(
        **own, **{name: value.clone() for name, value in vars(record).items() if isinstance(value, torch.Tensor)}
    )


# -- navigation ------------------------------------------------------------------------------------------------------


def test_navigation_keeps_the_contract():
    env = small_navigation(6)
    assert isinstance(env, TensorEnv) and env.num_envs == 6
    observation = env.reset()
    shapes = {"state": (6, 8), "lidar": (6, 1, 36, 4), "direction": (6, 1, 3), "dynamic_obstacle": (6, 1, 5, 10)}
    assert {name: tuple(value.shape) for name, value in observation.items()} == shapes
    assert {name: spec.shape for name, spec in env.observation_spec.items()} == {
        name: shape[1:] for name, shape in shapes.items()
    }
    assert env.action_spec.shape == (3,) and float(env.action_spec.low) == -2.0 and float(env.action_spec.high) == 2.0
    ended = torch.zeros(6, dtype=torch.bool)
    for step in range(1, 24):
        record = env.step(torch.zeros(6, 3))
        assert torch.equal(record.valid, ~ended) and (record.reward[ended] == 0).all()
        ended = record.terminated | record.truncated
        assert {"success", "collision", "timeout"} <= set(record.info)
        if step == 20:  # 400 physics steps, 20 with each action
            assert record.truncated[~record.terminated & record.valid].all()


# -- air combat ------------------------------------------------------------------------------------------------------


def test_air_combat_keeps_the_contract():
    env = duels(4, time_scale=60.0, episode_s=3.0)
    observation = env.reset()
    assert {name: tuple(observation[name].shape) for name in ("own", "enemy", "incoming", "can_fire")} == {
        **{"own": (4, 11), "enemy": (4, 9), "incoming": (4, 2, 7), "can_fire": (4, 1)}
    }
    assert observation["enemy_range"].tolist() == pytest.approx([30 / 50] * 4)  # head on, 30 km
    straight = torch.tensor([[0.0, 1.0, 0.0]] * 4)
    records = [copied(env.step(straight)) for _ in range(5)]
    assert [r.valid.all().item() for r in records] == [True, True, True, False, True]
    assert [r.terminated.all().item() for r in records] == [False, False, True, False, False]
    assert records[2].info["draw"].tolist() == [1.0] * 4 and not records[2].truncated.any()
    assert {"success", "lost", "draw", "winner", "alive", "enemy_alive", "elapsed_s", "shots", "hits"} <= set(
        records[2].info
    )
    assert records[2].info["elapsed_s"].tolist() == pytest.approx([3.0] * 4)
    assert records[3].reward.tolist() == [0.0] * 4 and records[3].observation["enemy"][:, 0].tolist() == pytest.approx(
        [0.6] * 4
    )


def test_agents_and_rewards_of_ones_own():
    class Turner(BaseAgent):
        def act(self, observation):
            n = len(observation["enemy_range"])
            return {"rudder": torch.ones(n), "throttle": torch.ones(n), "fire": torch.zeros(n, dtype=torch.bool)}

    class Seconds(BaseReward):
        def compute(self, obs_before, obs_after, action, done, info):
            return 2.0 * info["step_s"]

    env = duels(3, opponent=Turner(3), reward=Seconds(), time_scale=60.0)
    env.reset()
    record = env.step(torch.tensor([[0.0, 1.0, 0.0]] * 3))
    assert record.reward.tolist() == pytest.approx([2.0] * 3)
    assert env.get_render_state(0)["aircraft"][1] != duels(3).get_render_state(0)["aircraft"][1]
    zero = duels(3, reward=ZeroReward())
    zero.reset()
    assert zero.step(torch.tensor([[0.0, 1.0, 1.0]] * 3)).reward.tolist() == [0.0] * 3
    agent = PlaceholderAgent(3, "cpu")
    assert agent.to("cpu") is agent and agent.train() is agent and agent.eval() is agent
    action = agent.act(zero.reset())
    assert action.tolist() == [[0.0, 1.0, 0.0]] * 3
