"""Past selves as stacked weights, seats, learned agents and matches."""

from __future__ import annotations

import pytest
import torch

from slipstream.checkpoint import AsyncCheckpointSaver
from slipstream.config.compose import load_train, to_dict
from slipstream.config.registry import find_task
from slipstream.models import ModelConfig, build_policy
from slipstream.models.policy import ActorCritic
from slipstream.tasks.aircombat.agents import BaseAgent, PursuitAgent, create_agent
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league.matches import Match, Recorder, Score
from slipstream.tasks.aircombat.league.policies import LearnedAgent, PolicyPool, SeatedOpponent

SPECS = AirCombatEnv(1)


def make_policy(seed, **model):
    torch.manual_seed(seed)
    policy = build_policy(SPECS.observation_spec, SPECS.action_spec, ModelConfig(trunk=[16, 16], **model))
    for p in policy.parameters():
        torch.nn.init.normal_(p, std=0.4)
    return policy


def views(num, steps=5):
    env = AirCombatEnv(num, seed=3, config=AirCombatConfig(sides=2, start="random", time_scale=60))
    for _ in range(steps):
        env.step(torch.tensor([0.3, 1.0, 1.0]).expand(2, num, 3))
    return env.views()[1]


@pytest.mark.parametrize("model", [{"part": 0}, {"part": 8}, {"part": 0, "layer_norm": False}])
def test_the_pools_one_pass_gives_what_each_member_gives_alone(model):
    policies = [make_policy(seed, **model) for seed in range(3)]
    pool = PolicyPool(policies[0], 4)
    for place, policy in enumerate(policies):
        pool.put(place, policy)
    seats = SeatedOpponent(["placeholder"], pool, 4, 12, sampled=False)
    seats.seat([2, 0, 1, 2])
    view = views(12)
    together = seats.act(view)
    for seat, member in enumerate([2, 0, 1, 2]):
        rows = slice(3 * seat, 3 * seat + 3)
        alone = LearnedAgent(policy=policies[member]).act({name: x[rows] for name, x in view.items()})
        torch.testing.assert_close(together[rows], alone, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together[:3], together[3:6])


class Deeper(ActorCritic):
    """A network with a layer and a buffer of its own between the encoder and the heads."""

    def __init__(self, observation_spec, action_spec, config):
        plain = build_policy(observation_spec, action_spec, config)
        super().__init__(plain.encoder, plain.actor, config)
        self.middle = torch.nn.Linear(plain.encoder.width, plain.encoder.width)
        self.register_buffer("scale", torch.ones(()))

    def features(self, observation):
        return self.scale * self.middle(super().features(observation)).tanh()


def make_deeper(seed):
    torch.manual_seed(seed)
    policy = Deeper(SPECS.observation_spec, SPECS.action_spec, ModelConfig(trunk=[16, 16], part=0))
    for p in policy.parameters():
        torch.nn.init.normal_(p, std=0.4)
    policy.scale.fill_(1.0 + seed)
    return policy


def test_the_pool_flies_a_networks_own_layers_also_resumed():
    policy, view = make_deeper(1), views(4)
    pool, resumed = PolicyPool(make_deeper(0), 1), PolicyPool(make_deeper(2), 1)
    pool.put(0, policy)
    resumed.load_state_dict(pool.state_dict())
    alone = LearnedAgent(policy=policy).act(view)
    for each in (pool, resumed):
        torch.testing.assert_close(each.act(each.members, view, sampled=False), alone, atol=1e-5, rtol=1e-5)


def test_the_pool_leaves_the_critic_out():
    names = PolicyPool(make_policy(0), 1).members
    assert names and all(name.startswith(("encoder.", "actor.")) for name in names)


def test_every_duel_takes_the_action_of_its_seat():
    policy = make_policy(0, part=0)
    pool = PolicyPool(policy, 2)
    pool.put(1, policy)
    opponent = SeatedOpponent(["placeholder", "pursuit"], pool, 4, 8, sampled=False)
    view = views(8)
    opponent.seat(["pursuit", 1, "placeholder", "pursuit"])
    got = opponent.act(view)
    assert torch.equal(got[:2], PursuitAgent(8).act(view)[:2]) and torch.equal(got[6:], PursuitAgent(8).act(view)[6:])
    assert got[4:6].tolist() == [[0.0, 1.0, 0.0]] * 2
    torch.testing.assert_close(got[2:4], LearnedAgent(policy=policy).act(view)[2:4], atol=1e-5, rtol=1e-5)
    opponent.seat(["placeholder"] * 4)
    assert opponent.act(view).tolist() == [[0.0, 1.0, 0.0]] * 8


def test_seats_must_divide_the_duels():
    with pytest.raises(
        ValueError, match="env.num_envs=10 must be a multiple of league.seats=4: choose another number of seats"
    ):
        SeatedOpponent(["placeholder"], PolicyPool(make_policy(0), 1), 4, 10, sampled=True)


def test_the_pass_traces_as_one_graph_for_compiled_rollouts():
    pool = PolicyPool(make_policy(0), 1)
    pool.put(0, make_policy(1))
    opponent = SeatedOpponent(["pursuit", "crank"], pool, 2, 8, sampled=False)
    opponent.seat(["crank", 0])
    view = {name: x.clone() for name, x in views(8).items()}
    from slipstream.tasks.aircombat.observation import SideView

    act = torch.compile(lambda seen: opponent.act(SideView(seen)), backend="eager", fullgraph=True)
    torch.testing.assert_close(act(view), opponent.act(SideView(view)))


class SideTeller(BaseAgent):
    """Fires on side 1's behalf, in the games where it flies it: own_x tells who is where in a head-on start."""

    def act(self, observation):
        straight = torch.zeros(len(observation["own"]), 3)
        straight[:, 1] = 1.0
        straight[:, 2] = (observation["own_heading_cos"] > 0).float()
        return straight


def test_red_flies_each_side_in_half_of_the_games():
    env = AirCombatEnv(10, config=AirCombatConfig(sides=2, start="head_on", time_scale=30, reward="zero"))
    games = Match(env, SideTeller(), create_agent("placeholder", 10)).play()
    assert games.score() == Score(1, 1, 0)  # straight at it: side 1 hits; the same two games, five times
    assert torch.equal(games.won, ~games.swapped) and games.range_m.tolist() == pytest.approx([30_000.0] * 10)
    other = Match(env, create_agent("placeholder", 10), SideTeller()).play()
    assert other.score().lost == 1 and torch.equal(other.lost, other.swapped)


class Shaky(BaseAgent):
    """Steers at random."""

    def act(self, observation):
        return torch.cat((torch.rand(self.num_envs, 2), torch.zeros(self.num_envs, 1)), 1)


def test_games_with_noise_or_other_starts_are_all_counted():
    for start, red in (("head_on", Shaky(10)), ("random", create_agent("placeholder", 10))):
        env = AirCombatEnv(10, config=AirCombatConfig(sides=2, start=start, time_scale=30, reward="zero"))
        assert Match(env, red, create_agent("placeholder", 10)).play().score() == Score(0, 10, 0)


def test_a_match_can_be_played_again_and_in_an_env_that_was_used():
    env = AirCombatEnv(8, seed=1, config=AirCombatConfig(sides=2, start="random", time_scale=60, reward="zero"))
    match = Match(env, create_agent("crank", 8), create_agent("pursuit", 8))
    first, second = match.play(), match.play()
    assert torch.equal(first.won, second.won) and torch.equal(first.elapsed_s, second.elapsed_s)
    harmless = Match(env, create_agent("pursuit", 8), create_agent("evade", 8)).play()
    assert harmless.score().lost == 0


def test_a_recorded_game_goes_from_its_start_to_its_end():
    env = AirCombatEnv(8, config=AirCombatConfig(sides=2, start="head_on", time_scale=60, reward="zero"))
    recorder = Recorder(env, 4)
    games = Match(env, SideTeller(), create_agent("placeholder", 8)).play(watch=recorder)
    index = recorder.choose(games)
    states = recorder.game(index)
    assert index == 0 and states[0].clock.item() == 0 and states[0].pos[0, :, 0].tolist() == [10_000.0, 40_000.0]
    assert states[-1].winner.item() == 1 and all(state.winner.item() == -1 for state in states[:-1])
    assert [state.clock.item() for state in states[:3]] == [0, 60, 120]
    drawn = recorder.game(1)  # red flew side 2 there, and nobody fired
    assert drawn[-1].winner.item() == 0 and drawn[-1].clock.item() == 3600


def test_a_learned_agent_flies_a_checkpoint(tmp_path):
    cfg = load_train(["task=aircombat", "model.trunk=[16,16]", "env.time_scale=12"])
    policy = make_policy(5)
    with AsyncCheckpointSaver() as saver:
        saver.save_async({"config": to_dict(cfg), "policy": policy.state_dict()}, tmp_path / "a.pt", compress=False)
    agent = create_agent(str(tmp_path / "a.pt"), 4)
    assert isinstance(agent, LearnedAgent) and agent.time_scale == 12
    view = views(4)
    torch.testing.assert_close(agent.act(view), LearnedAgent(policy=policy).act(view))
    env = AirCombatEnv(4, config=AirCombatConfig(opponent=str(tmp_path / "a.pt"), time_scale=12))
    env.step(torch.zeros(4, 3))
    env.check()


def test_a_policy_for_another_task_cannot_fly_a_duel():
    with pytest.raises(ValueError, match="was trained for task=navigation, not task=aircombat"):
        LearnedAgent(checkpoint=find_task("navigation").weights)
