"""AirCombatEnv with opponents and rewards of others, and with wrong inputs."""

from __future__ import annotations

import math

import pytest
import torch
from duel_envs import Counting, make, pursuit, random_actions

from slipstream.envs.base import BadActionError
from slipstream.tasks.aircombat.agents import PlaceholderAgent, as_action
from slipstream.tasks.aircombat.rewards import BaseReward

# -- opponents and rewards -------------------------------------------------------------------------------------------


def test_the_opponent_flies_side_2_as_if_it_were_acted(same_record):
    agent = Counting(6)
    alone, both = make(6, opponent_object=agent, reward="zero"), make(6, sides=2, reward="zero")
    shadow = Counting(6)
    for action in random_actions(alone, 60):
        theirs = as_action(shadow.act(both.views()[1]))
        a, b = alone.step(action), both.step(torch.stack((action, theirs)))
        shadow.reset(~b.valid[0])
        assert torch.equal(a.observation["enemy"], b.observation["enemy"][0]) and torch.equal(
            a.terminated, b.terminated[0]
        )


def test_the_opponent_is_reset_where_duels_begin():
    agent = Counting(2)
    env = make(2, opponent_object=agent, episode_s=0.2)
    for _ in range(4):
        env.step(torch.zeros(2, 3))
    assert agent.count.tolist() == [0, 0]


class Range(BaseReward):
    """How much nearer one came."""

    def compute(self, obs_before, obs_after, action, done, info):
        return obs_before["enemy_range"] - obs_after["enemy_range"]


class Given(BaseReward):
    """Whatever is asked for."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def compute(self, obs_before, obs_after, action, done, info):
        return self.given


@pytest.mark.parametrize("given", [torch.zeros(()), torch.zeros(3), torch.zeros(2, 1), 0.0])
def test_a_reward_must_give_one_number_a_duel_and_side(given):
    env = make(3, sides=2, reward_object=Given(given))
    with pytest.raises(ValueError, match=r"Given.compute gave .* not a tensor of shape \[2, 3\]"):
        env.step(torch.zeros(2, 3, 3))


def test_rewards_of_other_types_reach_the_learner_as_float32():
    env = make(3, reward_object=Given(torch.ones(3, dtype=torch.float64)))
    assert env.step(torch.zeros(3, 3)).reward.dtype == torch.float32


@pytest.mark.parametrize("sides", [1, 2])
def test_a_reward_sees_the_step_from_its_beginning_to_its_end(sides):
    env = make(2, sides=sides, start="head_on", reward_object=Range(), time_scale=1.0)
    record = env.step(torch.zeros(*env.batch_shape, 3))
    assert torch.allclose(record.reward, torch.tensor(600 / 60 / 50_000), atol=1e-6)


def test_winning_and_losing_pay_what_the_task_says():
    env = make(64, sides=2, start="head_on", time_scale=8.0)
    for _ in range(450):
        command = pursuit(env)
        command[1, :, 2] = 0.0  # side 2 never fires
        record = env.step(command)
        if record.terminated.any():
            break
    index = int(record.terminated[0].nonzero()[0])
    facts = {name: x[:, index].tolist() for name, x in record.info.items()}
    assert facts["winner"] == [1, 1] and facts["success"] == [1, 0] and facts["lost"] == [0, 1]
    assert facts["hits"] == [1, 0]
    expected = [500 + 100 - 5 * facts["shots"][0], -500 - 200]
    survived = 6 * facts["step_s"][0]
    assert record.reward[:, index].tolist() == pytest.approx([x + survived for x in expected], rel=1e-5)


# -- wrong inputs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.7])
def test_a_bad_action_is_found_and_leaves_the_others_untouched(backend, bad, same_record):
    env, sound = make(4, backend=backend), make(4, backend=backend)
    action = random_actions(env, 1)[0]
    wrong = action.clone()
    wrong[1, 0] = bad
    same_record(env.step(wrong), sound.step(action), torch.tensor([0, 2, 3]))
    with pytest.raises(BadActionError, match=r"1 of 4 environments \(1\)"):
        env.check()
    env.check()
    assert torch.isfinite(env.step(action).observation["own"]).all()


def test_a_bad_opponent_is_named():
    class Broken(PlaceholderAgent):
        def act(self, observation):
            return super().act(observation) * math.nan

    env = make(3, opponent_object=Broken(3))
    env.step(torch.zeros(3, 3))
    with pytest.raises(BadActionError, match="the opponent Broken"):
        env.check()


@pytest.mark.parametrize(
    "action", [torch.zeros(4, 3), torch.zeros(3, 2), torch.zeros(2, 3, 3), torch.zeros(3, 3, dtype=torch.int64)]
)
def test_a_wrong_batch_is_refused_and_changes_nothing(action):
    env = make(3)
    before = env.engine.duels.pos.clone()
    with pytest.raises(ValueError, match="action"):
        env.step(action)
    with pytest.raises(ValueError, match="action must be a torch tensor .*, not ndarray"):
        env.step(action.numpy())
    with pytest.raises(ValueError, match="'env_mask' must be a tensor"):
        env.reset([True, False, True])
    assert torch.equal(env.engine.duels.pos, before)


def test_an_agents_mapping_is_an_action():
    one, two = make(4), make(4)
    one.reset()
    two.reset()
    action = torch.tensor([[0.5, 1.0, 0.0]] * 4)
    named = dict(zip(("rudder", "throttle", "fire"), action.unbind(-1), strict=True))
    for _ in range(3):
        assert torch.equal(one.step(action).observation["own"], two.step(named).observation["own"])
