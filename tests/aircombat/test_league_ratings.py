"""Elo from results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slipstream.tasks.aircombat.league.matches import Score, find_distinct, rate, total


def test_three_of_four_won_is_191_elo_more():
    even = rate({("a", "b"): Score(50, 0, 50)})
    assert even["a"].elo == pytest.approx(1000, abs=1e-6) and even["b"].elo == 1000
    ahead = rate({("a", "b"): Score(3000, 0, 1000)})
    assert ahead["a"].elo == pytest.approx(1000 + 400 * np.log10(3), abs=1.0)  # 190.8


def test_draws_are_no_evidence_of_strength():
    drawn = rate({("a", "b"): Score(500, 1000, 500)})
    assert drawn["a"].elo == pytest.approx(1000)
    few, many = (rate({("a", "b"): Score(750, draws, 250)})["a"] for draws in (0, 10_000))
    assert (few.elo, few.low, few.high) == (many.elo, many.low, many.high)
    assert (many.won, many.draw, many.lost) == (750, 10_000, 250)


NEVER_FIGHTS = {
    "only draws": {("placeholder", "pursuit"): Score(0, 64, 0), ("placeholder", "crank"): Score(0, 64, 0)},
    "one loss": {("placeholder", "pursuit"): Score(0, 64, 0), ("placeholder", "crank"): Score(0, 63, 1)},
    "losses": {("placeholder", "pursuit"): Score(0, 47, 17), ("placeholder", "crank"): Score(0, 47, 17)},
}


@pytest.mark.parametrize("games", NEVER_FIGHTS)
@pytest.mark.parametrize("beaten", [Score(63, 1, 0), Score(60, 0, 4)])
def test_an_agent_that_never_fights_is_not_above_pursuit(games, beaten):
    found = rate({("crank", "pursuit"): beaten, **NEVER_FIGHTS[games]})
    assert found["placeholder"].low < found["placeholder"].elo <= found["pursuit"].elo
    assert found["pursuit"].elo < found["crank"].elo
    assert found["placeholder"].decided == sum(score.lost for score in NEVER_FIGHTS[games].values())


def test_same_rows_are_counted_once_whatever_their_rounding():
    start = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0])[:, None]
    course = torch.tensor([[1.0, 5], [1 + 1e-6, 5], [1, 6], [1, 5], [1 - 1e-6, 5]])
    assert sorted(map(tuple, course[find_distinct(start, course)].round().tolist())) == [(1, 5), (1, 5), (1, 6)]
    assert find_distinct(start[:1], course[:1]).tolist() == [True]


def test_known_ratings_are_recovered_within_their_intervals():
    true = {"pursuit": 1000.0, "b": 1150.0, "c": 850.0, "d": 1400.0, "e": 1230.0}
    rng, inside, players = np.random.default_rng(0), 0, list(true)
    repeats = 40
    for _ in range(repeats):
        results = {}
        for i, one in enumerate(players):
            for other in players[i + 1 :]:
                won = rng.binomial(200, 1 / (1 + 10 ** ((true[other] - true[one]) / 400)))
                results[one, other] = Score(int(won), 0, int(200 - won))
        found = rate(results)
        inside += sum(found[name].low <= true[name] <= found[name].high for name in players[1:])
        assert all(abs(found[name].elo - true[name]) < 90 for name in players)
    assert 0.88 <= inside / (4 * repeats) <= 0.99  # they are 95 % intervals


def test_who_wins_everything_has_a_finite_rating():
    found = rate({("a", "b"): Score(20, 0, 0)})["a"]
    assert 1300 < found.elo < 3000 and found.high - found.low > 300


def test_scores_add_and_share():
    score = total([Score(3, 1, 0), Score(0, 1, 5)])
    assert score == Score(3, 2, 5) and score.share("won") == 0.3 and score.decided == 8
    assert Score().share("won") == 0.0
