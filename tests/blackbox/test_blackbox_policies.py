"""The policies that ship, as `slipstream eval` flies them: they arrive, win, and repeat."""

from __future__ import annotations

import json

import pytest

from slipstream import AirCombatEnv, PlaceholderAgent
from slipstream.cli import main


def judged(capsys, *words):
    """Return the JSON object that an evaluation prints last."""
    assert main(["eval", *words, "eval.picture=false", "json=true", "device=cpu"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_shipped_drone_arrives_and_repeats(capsys):
    words = ["eval.num_drones=16", "eval.map_seeds=[401]", "eval.bootstrap=50"]
    first, again = judged(capsys, *words), judged(capsys, *words)
    assert {"success_low", "success_high", "success_strict"} <= set(first)
    assert first["success"] + first["collision"] + first["timeout"] == pytest.approx(1.0)
    (one,), (two,) = first["maps"], again["maps"]
    assert one == two and one["map_seed"] == 401 and one["drones"] == first["drones"] == 16
    assert round(one["success"] * 16) >= 14


def test_the_shipped_duellist_wins_and_repeats(capsys):
    words = ["task=aircombat", "red=learned", "blue=pursuit", "games=16"]
    first, again = judged(capsys, *words), judged(capsys, *words)
    (one,), (two,) = first["pairs"], again["pairs"]
    assert one == two and one["games"] == 16 and one["won"] >= 12 and one["won"] + one["draw"] + one["lost"] == 16


def test_the_placeholder_flies_straight_at_full_throttle():
    assert PlaceholderAgent(3).act(AirCombatEnv(3).reset()).tolist() == [[0.0, 1.0, 0.0]] * 3
