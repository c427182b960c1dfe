"""Stages, promotion, seats and priorities."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.tasks.aircombat.league.league import Curriculum, LeagueConfig, priorities, seating
from slipstream.tasks.aircombat.league.matches import Score

TWO = {"mixes": [{"pursuit": 0.5, "crank": 0.5}, {"pursuit": 0.5, "pool": 0.5}], "promote": [0.5]}


def test_a_stage_ends_when_the_share_won_is_beyond_doubt():
    curriculum = Curriculum(LeagueConfig(**TWO))
    lucky = {"pursuit": Score(6, 2, 2), "crank": Score(6, 2, 2)}  # 0.6 of 20: may well be less than a half
    assert not curriculum.update(lucky) and curriculum.stage == 0 and curriculum.evaluations == 1
    sure = {"pursuit": Score(60, 20, 20), "crank": Score(60, 20, 20)}
    assert curriculum.update(sure) and curriculum.stage == 1 and curriculum.evaluations == 0 and curriculum.is_last


def test_games_against_others_than_the_stages_do_not_promote():
    curriculum = Curriculum(LeagueConfig(**TWO))
    assert not curriculum.update({"pursuit": Score(0, 0, 50), "crank": Score(0, 0, 50), "evade": Score(900, 0, 0)})


def test_the_last_stage_does_not_end():
    curriculum = Curriculum(LeagueConfig(**TWO), stage=1)
    assert not curriculum.update({"pursuit": Score(1000, 0, 0)}) and curriculum.stage == 1


def test_patience_ends_a_stage_that_is_not_passed():
    curriculum = Curriculum(LeagueConfig(**TWO, patience=3))
    lost = {"pursuit": Score(0, 0, 10), "crank": Score(0, 0, 10)}
    assert [curriculum.update(lost) for _ in range(3)] == [False, False, True]


def test_seats_follow_the_shares_and_past_selves_are_drawn_by_their_weight():
    rng = np.random.default_rng(0)
    who = seating({"pursuit": 0.25, "crank": 0.25, "pool": 0.5}, 64, [2, 5], [1.0, 3.0], rng)
    assert who.count("pursuit") == who.count("crank") == 16 and len(who) == 64
    assert 12 < who.count(5) < 32 and who.count(2) + who.count(5) == 32 and who.count(2) > 0


def test_seats_are_all_taken_when_shares_do_not_divide_and_when_the_pool_is_empty():
    rng = np.random.default_rng(0)
    who = seating({"a": 0.34, "b": 0.33, "c": 0.33}, 16, [], [], rng)
    assert sorted(who.count(name) for name in "abc") == [5, 5, 6]
    assert seating({"a": 0.5, "pool": 0.5}, 8, [], [], rng) == ["a"] * 8


def test_hard_opponents_come_first_and_beaten_ones_never_vanish():
    hard, even, beaten, unknown = priorities([Score(0, 0, 98), Score(49, 0, 49), Score(98, 0, 0), Score()], 2.0)
    assert hard == pytest.approx(0.99**2) and even == pytest.approx(0.25) == unknown and beaten == 0.02


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"promote": [0.5]}, "one number per stage but the last: 3, not 1"),
        ({"mixes": [{}], "promote": []}, "positive shares"),
        ({"mixes": [{"pool": 1.0}], "promote": []}, "has no past policies"),
        ({"games": 7}, "must be even"),
        ({"judges": ["ace"]}, "lacks ace"),
        ({"pool": 2}, "league.pool=2 must hold one policy per stage: use at least 4"),
        ({"seats": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        LeagueConfig(**settings)
