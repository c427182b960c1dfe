"""Stages, seats and how past policies are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.tasks.aircombat.league.league import LeagueConfig, draw_seats, ends_stage
from slipstream.tasks.aircombat.league.matches import Score

TWO = LeagueConfig(mixes=[{"pursuit": 0.5, "crank": 0.5}, {"pursuit": 0.5, "pool": 0.5}], promote=[0.5], patience=3)


@pytest.mark.parametrize(
    ("stage", "evaluations", "score", "ends"),
    [
        (0, 1, Score(6, 2, 2), False),  # 0.6 of 20: may well be less than a half
        (0, 1, Score(60, 20, 20), True),
        (0, 2, Score(0, 0, 10), False),
        (0, 3, Score(0, 0, 10), True),  # patience is exhausted
        (1, 9, Score(60, 0, 0), False),  # the last stage does not end
    ],
)
def test_a_stage_ends_when_the_share_won_is_beyond_doubt(stage, evaluations, score, ends):
    others = {"evade": Score(900, 0, 0)}  # not of the stage: does not count
    assert ends_stage(TWO, stage, evaluations, {"pursuit": score, "crank": score, **others}) == ends


def test_past_policies_are_met_the_more_the_less_they_are_beaten():
    rng = np.random.default_rng(0)
    pool = {2: Score(98, 0, 0), 5: Score(0, 0, 98), 7: Score()}  # beaten, hard, unknown
    who = draw_seats({"pursuit": 0.1, "pool": 0.9}, 10_000, pool, rng)
    assert who.count("pursuit") == 1000
    weights = np.array([0.02, 0.99**2, 0.25])
    counts = np.array([who.count(member) for member in pool])
    assert np.allclose(counts / 9000, weights / weights.sum(), atol=0.02) and all(isinstance(x, int | str) for x in who)


def test_seats_are_all_taken():
    """Also if shares do not divide, and if the pool is empty."""
    rng = np.random.default_rng(0)
    who = draw_seats({"a": 0.34, "b": 0.33, "c": 0.33}, 16, {}, rng)
    assert sorted(who.count(name) for name in "abc") == [5, 5, 6]
    assert draw_seats({"a": 0.5, "pool": 0.5}, 8, {}, rng) == ["a"] * 8


def test_with_pfsp_agents_are_met_the_more_the_less_they_are_beaten():
    rng = np.random.default_rng(0)
    scores = {"a": Score(98, 0, 0), "b": Score(0, 0, 98), "pool": Score(0, 98, 0)}  # beaten, hard, hard
    mix, pool = {"a": 0.4, "b": 0.4, "pool": 0.2}, {3: Score(0, 98, 0)}
    who = draw_seats(mix, 1000, pool, rng, scores)
    assert [who.count(name) for name in ("a", "b", 3)] == [13, 658, 329]  # 0.4 · 0.02 : 0.4 · 0.99² : 0.2 · 0.99²
    assert draw_seats(mix, 10, pool, rng).count("a") == 4


WRONG = [({"promote": [0.5]}, "one number per stage"), ({"mixes": [{"pool": 1.0}], "promote": []}, "no past policies")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [*WRONG, ({"games": 7}, "must be even"), ({"pool": 2}, "at least 4"), ({"judges": ["pool"]}, "pool is none")],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LeagueConfig(**settings)
