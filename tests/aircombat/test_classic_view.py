"""midrangeRL's calls, and a duel as plain numbers."""

from __future__ import annotations

import math

import pytest
import torch

import slipstream
from slipstream.tasks.aircombat.agents import AGENTS, as_action
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.rewards import REWARDS


def make(num=3, **config):
    return AirCombatEnv(num, "cpu", 5, AirCombatConfig(**config))


def actions(num=3, players=("p1", "p2"), fire=0.0):
    held = {"rudder": torch.zeros(num), "throttle": torch.ones(num), "fire": torch.full((num,), fire) > 0.5}
    return {f"{player}_{name}": x for player in players for name, x in held.items()}


def test_infos_carry_what_the_task_names():
    infos = make(2, sides=2).classic().step(actions(2, fire=1.0))[3]
    assert infos["p1_shots"].tolist() == [1, 1] and infos["p2_hits"].tolist() == [0, 0]
    assert infos["winner"].tolist() == [-1, -1] and infos["p1_alive"].all() and infos["p2_alive"].all()
    assert infos["p1_return"].tolist() == pytest.approx([-4.9, -4.9])
    assert infos["time"].tolist() == pytest.approx([1 / 60] * 2)


def test_dt_is_taken_in_physics_steps():
    env = make(1, sides=2).classic()
    assert env.step(actions(1), dt=4 / 60)[3]["time"].item() == pytest.approx(4 / 60)
    assert env.step(actions(1))[3]["time"].item() == pytest.approx(5 / 60)
    with pytest.raises(ValueError, match="time_scale=2.5"):
        env.step(actions(1), dt=2.5 / 60)


@pytest.mark.parametrize("dt", [0.0, math.nan])
def test_a_dt_that_is_no_time_is_refused(dt):
    with pytest.raises(ValueError, match="must be a positive multiple of the physics step"):
        make(sides=2).classic().step(actions(), dt=dt)


def test_rewards_of_an_end_that_one_asks_about():
    env = make(3, sides=2).classic()
    env.step(actions())
    rewards = env.compute_rewards(torch.tensor([True, True, False]), torch.tensor([1, 0, 2]))
    assert rewards["p1"].tolist() == pytest.approx([500.1, -49.9, 0.1])
    assert rewards["p2"].tolist() == pytest.approx([-499.9, -49.9, 0.1])


def test_wrong_actions_are_named():
    both, one = make(sides=2).classic(), make().classic()
    with pytest.raises(ValueError, match="actions must be .*p2_fire, not p1_rudder, p1_throttle, p1_fire$"):
        both.step(actions(players=("p1",)))
    with pytest.raises(ValueError, match="the env flies p2 itself"):
        one.step(actions())
    with pytest.raises(ValueError, match=r"p1_rudder must be a tensor of shape \[3\]"):
        both.step(actions(num=2))
    one.step(actions(players=("p1",)))


def test_a_duel_as_plain_numbers():
    env = make(2, sides=2, time_scale=60.0)
    env.step(torch.tensor([[[0.5, 1, 1]] * 2, [[0.0, 1, 0]] * 2]))
    state = env.get_render_state(1)
    assert state["time"] == pytest.approx(1.0) and state["winner"] is None
    one, two = state["aircraft"]
    assert one["x"] == pytest.approx(float(env.engine.duels.pos[1, 0, 0])) and one["alive"]
    assert one["g_load"] > 3 and two["g_load"] == 0 and two["angle"] == pytest.approx(math.pi)
    assert one["speed"] == pytest.approx(math.hypot(one["vx"], one["vy"]))
    assert one["mach"] == pytest.approx(one["speed"] / 340)
    assert [(m["side"], m["target"], m["engine_on"]) for m in state["missiles"]] == [(1, 2, True)] * 2
    with pytest.raises(IndexError, match="0 to 1"):
        env.get_render_state(2)


def test_states_hold_every_body():
    env = make(2, sides=2, time_scale=60.0).classic()
    env.step(actions(2, fire=1.0) | {"p2_fire": torch.zeros(2)})
    states, duels = env.states, env.env.engine.duels
    assert {x.shape for x in states.values()} == {(2, 14)}
    assert torch.equal(states["x"][:, :2], duels.pos[..., 0])
    assert torch.equal(states["y"][:, 2:], duels.missile_pos[..., 1])
    assert states["alive"][0].tolist() == [True] * 4 + [False] * 10 and states["is_missile"][0, 2:4].all()
    assert states["missile_count"][0, :3].tolist() == [4, 6, 0]
    assert states["target_idx"][0, :5].tolist() == [-1, -1, 1, 1, -1]
    states["x"].zero_()
    assert (duels.pos[..., 0] != 0).all()


def play_midrangerl_loop(agent_name, reward_name, steps=30, **config):
    """Play the training loop of midrangeRL's train.py; yields each step's reward by the loop and by the env."""
    num, time_scale = 4, 8.0
    settings = AirCombatConfig(sides=2, start="random", time_scale=time_scale, reward=reward_name, **config)
    env = AirCombatEnv(num, "cpu", 5, settings).classic()
    agent, opponent = slipstream.create_agent(agent_name, num), slipstream.create_agent("pursuit", num)
    reward = slipstream.create_reward(reward_name)
    obs = env.reset()
    agent.reset(), opponent.reset(), reward.reset()
    for _ in range(steps):
        action, theirs = agent.act(obs["p1"]), opponent.act(obs["p2"])
        full_action = {f"p1_{name}": action[name] for name in ("rudder", "throttle", "fire")}
        full_action |= {f"p2_{name}": theirs[name] for name in ("rudder", "throttle", "fire")}
        before = {name: {k: v.clone() for k, v in seen.items()} for name, seen in obs.items()}
        obs, rewards, dones, infos = env.step(full_action, dt=(1.0 / 60.0) * time_scale)
        custom = reward.compute(obs_before=before["p1"], obs_after=obs["p1"], action=action, done=dones, info=infos)
        other = reward.compute(before["p2"], obs["p2"], theirs, dones, infos["p2"])
        yield action, custom, other, rewards
        if dones.any():
            obs = env.reset(env_mask=dones)
            agent.reset(env_mask=dones), opponent.reset(env_mask=dones)
    env.close()


@pytest.mark.parametrize("reward", REWARDS)
def test_midrangerl_loop_computes_every_reward_as_the_env(reward):
    seen = 0.0
    for _, custom, other, rewards in play_midrangerl_loop("crank", reward, steps=60, episode_s=4.0):
        assert torch.equal(custom, rewards["p1"]) and torch.equal(other, rewards["p2"])
        seen += custom.abs().sum().item()
    assert (seen > 0) == (reward != "zero")


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_acts_alike_on_named_and_grouped_observations(name):
    env = make(3, sides=2, start="random", time_scale=60.0)
    env.step(torch.tensor([[[0.5, 1.0, 1.0]] * 3, [[-0.5, 1.0, 1.0]] * 3]))
    grouped, named = slipstream.create_agent(name, 3), slipstream.create_agent(name, 3)
    expected = grouped.act(env.views()[0])
    action = named.act(env.classic().get_observations()["p1"])
    assert torch.equal(as_action(action), expected)
