"""The debrief of a game: its figures are those of flying on from the game's own states, by the plain engine."""

from __future__ import annotations

import pytest
import torch

from slipstream.config.registry import find_task
from slipstream.tasks.aircombat.agents import EvadeAgent, PursuitAgent
from slipstream.tasks.aircombat.debrief import debrief
from slipstream.tasks.aircombat.game import LESSONS
from slipstream.tasks.aircombat.observation import split_view
from slipstream.tasks.aircombat.physics.duel import GONE, begin
from slipstream.tasks.aircombat.physics.engine import DuelConfig, DuelEngine
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S

STRAIGHT = [0.0, 1.0, 0.0]


def play(decide, opponent="pursuit", start="head_on"):
    """Play a game to its end; `decide(game, tick)` gives the controls of side 1."""
    game = find_task("aircombat").make_game([f"opponent={opponent}", f"start={start}"])
    tick = 0
    while not game.over:
        game.step([decide(game, tick)])
        tick += 1
    return game


def learn(game):
    return debrief(game._states, torch.stack(game._commands))


def hunt(game, tick):
    return PursuitAgent().act(game.env.views()[0])[0].tolist()


def survives(game, since_s):
    """Whether side 1 survives what was fired if it runs since a moment: by the plain engine, tick for tick."""
    engine = DuelEngine(1, DuelConfig(episode_s=3600.0), 0)
    engine.duels.copy_(next(x for x in game._states if int(x.clock[0]) * PHYSICS_DT_S >= since_s - 1e-6))
    engine.refresh()
    never = torch.zeros(1, dtype=torch.bool)
    d = engine.duels
    while d.winner[0] < 0 and (int(d.clock[0]) < len(game._commands) or (d.missile_age != GONE).any()):
        tick = int(d.clock[0])
        enemy = game._commands[tick][1] if tick < len(game._commands) else torch.tensor(STRAIGHT)
        engine.step(torch.stack((EvadeAgent().act(split_view(engine.view[0]))[0], enemy))[:, None].clone(), never)
    return bool(d.alive[0, 0])


def test_the_last_moment_to_turn_away_saves_and_the_next_does_not():
    game = play(lambda game, tick: STRAIGHT)
    found = learn(game)
    assert found["victim"] == 1 and found["launch"] == 0 and found["entered"] is None  # from 30 km
    assert found["range"] == pytest.approx(30_000, abs=1) and 10_000 < found["r_ne"] < 20_000
    assert survives(game, found["time"]) and not survives(game, found["time"] + 0.5)


def test_a_shot_inside_r_ne_says_since_when():
    game = find_task("aircombat").make_game(["opponent=placeholder"])
    sides = torch.tensor([[[25e3, 25e3, 300.0, 0.0], [45e3, 25e3, -300.0, 0.0]]])
    game.env.engine.duels.copy_(begin(sides[..., :2], sides[..., 2:], torch.tensor([[0, 1]])))
    game.agent = None
    game._states = [game.snapshot()]
    tick = 0
    while not game.over:
        game.step([STRAIGHT, [0.0, 1.0, float(tick == 600)]])  # 10 s later it is some 12 km away
        tick += 1
    found = learn(game)
    assert found["victim"] == 1 and found["launch"] == pytest.approx(10) and found["range"] < found["r_ne"]
    assert 0 < found["entered"] < 10 and found["time"] < 10  # it had to turn before the launch


def test_a_draw_names_the_best_shot_that_was_not_taken():
    game = play(lambda game, tick: STRAIGHT, "evade")
    found = learn(game)
    assert found["victim"] == 0 and found["time"] < 5 and found["range"] < 30_000.5  # the enemy flies away
    assert game.recording("a game").meta["debrief"] == found


def test_the_winners_debrief_is_about_the_other_side():
    assert learn(play(hunt, "placeholder"))["victim"] == 2


def test_each_lesson_can_be_passed_and_failed():
    run = lambda game, tick: EvadeAgent().act(game.env.views()[0])[0].tolist()  # noqa: E731
    late = lambda game, tick: run(game, tick) if tick > 240 else STRAIGHT  # noqa: E731
    winner = lambda decide, start: play(decide, "placeholder", start).result()["winner"]  # noqa: E731
    assert winner(hunt, "launch") == 1 and winner(lambda *_: STRAIGHT, "launch") == 0
    assert winner(late, "defend") == 0 and winner(lambda *_: STRAIGHT, "defend") == 2  # 4 s to think
    assert winner(lambda *_: STRAIGHT, "win") == 2
    game = play(hunt, "crank", "launch")
    assert game.opponent == LESSONS["launch"][0] and game.result()["pair"] is None  # it counts for nobody
