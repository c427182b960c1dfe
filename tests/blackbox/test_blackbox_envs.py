"""The step contract of every env, the two tasks, midrangeRL's calls, and the adapters."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_worlds import CounterEnv, small_navigation

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


# -- TensorEnv -------------------------------------------------------------------------------------------------------


def test_an_env_resets_on_the_step_after_an_end():
    env = CounterEnv(2)
    assert env.reset()["count"].tolist() == [[0, 0, 0], [1, 0, 0]]
    zero = torch.zeros(2, 1)
    records = [copied(env.step(zero)) for _ in range(4)]
    assert [r.valid.tolist() for r in records] == [[True, True], [True, True], [False, True], [True, False]]
    assert [r.terminated.tolist() for r in records] == [[False, False], [True, False], [False, False], [False, False]]
    assert [r.truncated.tolist() for r in records] == [[False, False], [False, False], [False, True], [False, False]]
    assert [r.reward.tolist() for r in records] == [[1, 11], [2, 12], [0, 13], [1, 0]]
    assert records[1].observation["count"][0].tolist() == [0, 0, 2]  # the final observation
    assert records[2].observation["count"][0].tolist() == [0, 1, 0]  # of the new episode
    assert records[2].info["score"][1] == 103


def test_bad_actions_are_replaced_and_raised_once():
    env = CounterEnv(3)
    env.reset()
    record = env.step(torch.tensor([[0.0], [torch.nan], [7.0]]))
    assert record.observation["trace"].isfinite().all()
    with pytest.raises(ValueError) as caught:
        env.check()
    assert "1" in str(caught.value) and "2" in str(caught.value)
    env.check()
    with pytest.raises(ValueError):
        env.step(torch.zeros(2, 1))


# -- navigation ------------------------------------------------------------------------------------------------------


def flight(env: TensorEnv, steps: int, scale: float = 1.0) -> list:
    generator = torch.Generator().manual_seed(0)
    seen = [{name: value.clone() for name, value in env.reset().items()}]
    for _ in range(steps):
        record = env.step((torch.rand(env.num_envs, 3, generator=generator) * 2 - 1) * scale)
        seen.append(
            {name: value.clone() for name, value in record.observation.items()} | {"reward": record.reward.clone()}
        )
    return seen


def equal(a: list, b: list) -> bool:
    return all(torch.equal(x[name], y[name]) for x, y in zip(a, b, strict=True) for name in x)


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


def test_navigation_repeats_by_its_seed():
    a, b, c = (flight(small_navigation(5, seed), 8) for seed in (3, 3, 4))
    assert equal(a, b) and not equal(a, c)


def test_a_drone_flies_where_it_is_told():
    env = small_navigation(2)
    before = env.reset()["state"][:, 3].clone()  # horizontal distance to the goal
    for _ in range(3):
        after = env.step(torch.tensor([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]])).observation["state"][:, 3]
    assert after[0] < before[0] - 1.0 and after[1] > before[1] + 1.0


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


def test_a_shot_at_a_straight_flyer_wins():
    env = duels(2, time_scale=60.0)
    env.reset()
    fire, hold = torch.tensor([[0.0, 1.0, 1.0]] * 2), torch.tensor([[0.0, 1.0, 0.0]] * 2)
    record = env.step(fire)
    assert record.info["shots"].tolist() == [2.0, 2.0]  # every half a second
    for _ in range(40):
        record = env.step(hold)
        if record.terminated.all():
            break
    assert (
        record.terminated.all()
        and record.info["success"].tolist() == [1.0, 1.0]
        and record.info["winner"].tolist() == [1.0, 1.0]
    )


def test_acceleration_changes_how_often_one_decides_and_nothing_else():
    def fly(scale: float, decisions: int):
        env = duels(3, time_scale=scale)
        env.reset()
        for _ in range(decisions):
            record = env.step(torch.tensor([[0.3, 0.8, 0.0]] * 3))
        return record.observation["own"]

    assert torch.equal(fly(1.0, 48), fly(8.0, 6))


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


# -- midrangeRL's calls ----------------------------------------------------------------------------------------------


def orders(num: int, fire: bool = False) -> dict[str, torch.Tensor]:
    held = {"rudder": torch.zeros(num), "throttle": torch.ones(num), "fire": torch.full((num,), fire)}
    return {f"{player}_{name}": value for player in ("p1", "p2") for name, value in held.items()}


def test_the_classic_view_runs_midrangerls_loop():
    env = duels(4, sides=2, time_scale=60.0, episode_s=2.0, start="random").classic()
    observations = env.reset()
    assert set(observations) == {"p1", "p2"} and observations["p1"]["enemy_range"].shape == (4,)
    ended = 0
    for _ in range(8):
        observations, rewards, dones, infos = env.step(orders(4))
        assert rewards["p1"].shape == rewards["p2"].shape == dones.shape == infos["winner"].shape == (4,)
        if dones.any():
            ended += int(dones.sum())
            observations = env.reset(env_mask=dones)
    assert ended == 16 and set(env.get_observations()) == {"p1", "p2"}
    env.close()


# -- adapters --------------------------------------------------------------------------------------------------------


def test_gymnasium_one_and_many():
    gymnasium = pytest.importorskip("gymnasium")
    from slipstream.envs.adapters import GymnasiumEnv, GymnasiumVectorEnv

    env = GymnasiumEnv(small_navigation(1))
    observation, _ = env.reset(seed=3)
    assert env.observation_space.contains(observation) and observation["lidar"].shape == (1, 36, 4)
    later = env.step(np.zeros(3, np.float32))
    assert len(later) == 5 and isinstance(float(later[1]), float)
    again, _ = env.reset(seed=3)
    assert all(np.array_equal(observation[name], again[name]) for name in observation)
    many = GymnasiumVectorEnv(CounterEnv(2))
    first, _ = many.reset(seed=0)
    assert first["count"].tolist() == [[0, 0, 0], [1, 0, 0]]
    rewards = [many.step(np.zeros((2, 1), np.float32))[1].tolist() for _ in range(4)]
    assert rewards == [[1, 11], [2, 12], [0, 13], [1, 0]]  # autoreset on the next step, as Gymnasium's default
    made = gymnasium.make("slipstream/Navigation-v0", num_obstacles=2, dyn={"num_obstacles": 0}, map_half_m=2.0)
    assert made.reset(seed=0)[0]["state"].shape == (8,)
    duel = gymnasium.make_vec("slipstream/AirCombat-v0", num_envs=3, time_scale=4.0)
    assert duel.reset(seed=0)[0]["own"].shape == (3, 11)
    with pytest.raises(Exception, match="num_obstacles"):
        gymnasium.make("slipstream/Navigation-v0", num_obstacle=2)
