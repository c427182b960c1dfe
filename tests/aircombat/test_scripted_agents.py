"""The scripted agents, in situations made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from slipstream.tasks.aircombat.agents import (
    BaseAgent,
    CrankAgent,
    EvadeAgent,
    PlaceholderAgent,
    PursuitAgent,
    ScriptedAgent,
    agent_class,
)
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league.matches import Match
from slipstream.tasks.aircombat.observation import ABSENT, SideView

LEFT_90, AHEAD, RIGHT_90, BEHIND = (math.radians(x) for x in (90, 0, -90, 180))


def seen(bearing=AHEAD, range_km=20.0, r_max_km=40.0, missile=None, left=3, time_left_s=30.0):
    """One duel: the enemy at a bearing and range; `missile` is (bearing, time to go in s, closing m/s)."""
    enemy = [range_km / 50, math.sin(bearing), math.cos(bearing), 0.0, 1.0, 0.5, 0.8, r_max_km / 50, 1.0]
    own = [0.0, 0.0, 0.0, 1.0, 0.8, left / 6, 0.0, 0.0, 0.0, time_left_s / 60, 1.0]
    first = list(ABSENT)
    if missile is not None:
        angle, time_s, closing = missile
        first = [0.2, math.sin(angle), math.cos(angle), closing / 1000, time_s / 60, 0.0, 1.0]
    row = lambda x: torch.tensor([x], dtype=torch.float32)  # noqa: E731
    return SideView(own=row(own), enemy=row(enemy), incoming=row([first, list(ABSENT)]), can_fire=row([1.0]))


def command_of(agent, **situation):
    rudder, throttle, fire = agent.act(seen(**situation))[0].tolist()
    return rudder, throttle, fire


@pytest.mark.parametrize(
    ("bearing", "rudder"), [(LEFT_90, 1.0), (RIGHT_90, -1.0), (AHEAD, 0.0), (math.radians(5), 3 * math.radians(5))]
)
def test_pursuit_turns_its_nose_to_the_enemy_at_full_throttle(bearing, rudder):
    got = command_of(PursuitAgent(), bearing=bearing)
    assert got[0] == pytest.approx(rudder, abs=1e-6) and got[1] == 1.0


@pytest.mark.parametrize(
    ("situation", "fires"),
    [
        ({"range_km": 27.9}, True),  # 0.7 of 40 km is 28
        ({"range_km": 28.1}, False),
        ({"range_km": 20.0, "bearing": LEFT_90}, False),  # not before the nose
    ],
)
def test_pursuit_fires_inside_its_share_of_the_reach(situation, fires):
    assert command_of(PursuitAgent(), **situation)[2] == float(fires)


def after_launch(agent, seconds, **situation):
    """What the agent does so long after a launch that it saw by its missiles: three left, then two."""
    command_of(agent, left=3, time_left_s=40.0)
    command_of(agent, left=2, time_left_s=39.0)
    return command_of(agent, left=2, time_left_s=39.0 - seconds, **situation)


def test_pursuit_pauses_between_two_launches():
    assert after_launch(PursuitAgent(), 5.9)[2] == 0.0
    assert after_launch(PursuitAgent(), 6.1)[2] == 1.0


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_crank_keeps_the_enemy_fifty_degrees_off_its_nose(side):
    at = lambda degrees: {"bearing": side * math.radians(degrees)}  # noqa: E731
    assert after_launch(CrankAgent(), 5.0, **at(50))[0] == pytest.approx(0.0, abs=1e-5)
    assert side * after_launch(CrankAgent(), 5.0, **at(20))[0] == -1.0  # turns away from it
    assert side * after_launch(CrankAgent(), 5.0, **at(90))[0] == 1.0  # and back
    assert side * after_launch(CrankAgent(), 12.5, **at(20))[0] == 1.0  # the missile is there: at the enemy again


def test_crank_fires_again_only_when_it_has_cranked():
    assert command_of(CrankAgent(), range_km=20.0)[2] == 1.0
    assert after_launch(CrankAgent(), 11.0)[2] == 0.0 and after_launch(CrankAgent(), 12.5)[2] == 1.0


def test_a_new_duel_knows_no_launch_of_the_one_before():
    agent = CrankAgent(2)
    both = lambda **kw: SideView({name: x.repeat(2, *[1] * (x.dim() - 1)) for name, x in seen(**kw).items()})  # noqa: E731
    agent.act(both(left=3, time_left_s=40.0))
    agent.act(both(left=2, time_left_s=39.0))
    agent.reset(torch.tensor([False, True]))
    assert agent.act(both(left=2, time_left_s=38.0))[:, 2].tolist() == [0.0, 1.0]
    assert set(agent.state_tensors()) == {"left", "launch_s"}


def test_crank_turns_its_tail_to_a_near_missile():
    agent = CrankAgent()
    agent.share = 0.0
    assert command_of(agent, missile=(math.radians(10), 5.0, 800))[0] == -1.0  # the tail comes round by the right
    assert command_of(agent, missile=(BEHIND, 5.0, 800))[0] == pytest.approx(0.0, abs=1e-5)  # already there
    assert command_of(agent, missile=(math.radians(10), 7.0, 800))[0] == 0.0  # not yet
    assert command_of(agent, missile=(math.radians(10), 5.0, -50))[0] == 0.0  # it went past


def test_evade_turns_its_tail_to_the_missile_first():
    agent = EvadeAgent()
    assert command_of(agent, bearing=LEFT_90, range_km=1.0) == (-1.0, 1.0, 0.0)
    assert command_of(agent, bearing=LEFT_90, missile=(RIGHT_90, 30.0, 500))[0] == 1.0
    assert command_of(agent, bearing=BEHIND)[0] == pytest.approx(0.0, abs=1e-5)


def copies(n, **situation):
    """The same situation in n duels."""
    return SideView({name: x.repeat(n, *[1] * (x.dim() - 1)) for name, x in seen(**situation).items()})


def test_scripted_draws_a_behavior_for_every_new_duel():
    agent = ScriptedAgent(1000)
    first = agent.act(copies(1000, bearing=math.radians(4))).clone()
    assert (first.abs() <= 1).all() and len(first.unique(dim=0)) > 500
    passive = (first[:, 0] == 0) & (first[:, 2] == 0)
    assert 100 < passive.sum() < 200  # 0.15 of them
    assert 0.3 < first[:, 2].mean() < 0.6  # 20 of 40 km: within the share of about half of the others
    agent.reset(torch.arange(1000) < 10)
    then = agent.act(copies(1000, bearing=math.radians(4)))
    assert torch.equal(first[10:], then[10:]) and not torch.equal(first[:10], then[:10])
    agent.reset()
    assert torch.equal(first, agent.act(copies(1000, bearing=math.radians(4))))


def test_an_unknown_agent_is_refused():
    with pytest.raises(
        ValueError, match="'crnk': did you mean 'crank'.*placeholder.*path of a run folder.*my_module:MyAgent"
    ):
        agent_class("crnk")
    with pytest.raises(ValueError, match="unknown agent"):
        AirCombatConfig(opponent="ace")


class Giving(BaseAgent):
    """Gives what is asked for."""

    given: Any = None

    def act(self, observation):
        return self.given


NUMBER, FOUR = torch.zeros(()), torch.zeros(4)
GIVEN = [
    (torch.zeros(4, 1), r"Giving.act gave actions of shape \[4, 1\], not \[4, 3\]"),  # copied, it would be all three
    (torch.zeros(3), r"shape \[3\], not \[4, 3\]"),
    ({"rudder": NUMBER, "throttle": NUMBER, "fire": NUMBER}, r"shape \[3\], not \[4, 3\]"),
    ({"rudder": FOUR, "throttle": FOUR, "fire": torch.zeros(1)}, r"not rudder \[4\], throttle \[4\], fire \[1\]"),
    (None, r"a mapping of rudder, throttle, fire, \[N\] each, not NoneType"),
]


@pytest.mark.parametrize(("given", "message"), GIVEN)
def test_what_an_agent_gives_must_be_one_action_a_duel(given, message):
    agent = Giving(4)
    agent.given = given
    env = AirCombatEnv(4, opponent=agent)
    with pytest.raises(ValueError, match=message):
        env.step(torch.zeros(4, 3))
    two_sided = AirCombatEnv(4, config=AirCombatConfig(sides=2))
    with pytest.raises(ValueError, match=message):
        Match(two_sided, agent, PlaceholderAgent(4)).play()
