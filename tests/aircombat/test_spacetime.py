"""What a duel's sides must expect, the spacetime diagram that shows it, and its animation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image

from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, begin
from slipstream.tasks.aircombat.reach.forecast import forecast
from slipstream.tasks.aircombat.spacetime import ESCAPE, FINE_POINT, MISSILE, OWN, THREAT, draw_duel, draw_game


def game(decisions=6):
    """Both straight on, nose to nose, firing when they may: a state each second."""
    env = AirCombatEnv(1, config=AirCombatConfig(num_envs=1, sides=2, time_scale=60.0))
    action = torch.tensor([0.0, 1.0, 1.0]).expand(2, 1, 3).clone()
    states = [env.duel(0)]
    for _ in range(decisions):
        env.step(action)
        states.append(env.duel(0))
        if states[-1].winner[0] >= 0:
            break
    return states


def expected(duel):
    """The forecast of one duel, with a point each quarter of a second."""
    return {name: x[0] for name, x in forecast(duel, FINE_POINT).items()}


def texts(figure):
    return " ".join(text.get_text() for text in figure.texts)


# -- the forecast ------------------------------------------------------------------------------------------------------


def test_a_forecast_starts_here_and_keeps_the_rudder():
    duel = game(2)[-1]
    ahead, x = expected(duel), duel.pos[0, 0]
    assert ahead["path"].shape == (2, 81, 2) and ahead["escape"].shape == (2, 2, 81, 2)
    assert ahead["path"][0, 0].tolist() == pytest.approx(x.tolist(), rel=1e-4)
    assert ahead["path"][0, -1, 0] > x[0] + 20 * 300 and abs(ahead["path"][0, -1, 1] - x[1]) < 1
    flies = (duel.missile_age[0] != GONE).numpy()
    assert flies.any() and (np.isfinite(ahead["missile"][:, 0, 0]) == flies).all()
    distance, r_max, r_min, r_ne = ahead["range"][1]
    assert distance < r_max and r_min < r_ne < r_max


def test_both_escapes_end_with_the_enemy_astern():
    duel = game(0)[0]
    x, y = duel.pos[0, 0].tolist()
    left, right = expected(duel)["escape"][0]
    assert left[-1, 0] < x and right[-1, 0] < x  # it fled from an enemy at greater x
    assert left[:, 1].max() > y + 1900 > y - 1900 > right[:, 1].min()  # circles of 1 km radius
    for path in (left, right):
        course = path[-1] - path[-5]
        assert math.degrees(math.atan2(abs(course[1]), -course[0])) < 3


def test_a_missile_ends_where_it_is_slower_than_sound():
    duel = game(3)[-1]
    slot = int(torch.nonzero(duel.missile_age[0, CARRIED:] != GONE)[0]) + CARRIED
    duel.missile_age[0, slot], duel.missile_vel[0, slot] = 30 * 60, torch.tensor([-350.0, 0.0])
    path = expected(duel)["missile"][slot]
    flown = path[~np.isnan(path[:, 0])]
    speeds = np.hypot(*np.diff(flown, axis=0).T) / 0.25
    assert 0 < len(flown) < 20 and speeds.min() >= 340  # 10 m/s above it, and it loses 7 m/s a second
    assert np.isnan(path[len(flown) :]).all()


def test_a_missile_without_a_target_flies_straight_on():
    duels = begin(torch.tensor([[[0.0, 0.0], [9000.0, 5000.0]]]), torch.full((1, 2, 2), 300.0), torch.ones(1, 2))
    duels.missile_vel[0, 0], duels.missile_age[0, 0] = torch.tensor([900.0, 0.0]), 60
    aside = forecast(duels)["missile"][0, 0, :10, 1]
    duels.alive[0, 1] = False
    straight = forecast(duels)["missile"][0, 0, :10]
    assert aside.max() > 500 and np.abs(straight[:, 1]).max() < 1 and straight[9, 0] > 8000


def test_ages_count_in_the_physics_steps_of_the_duel():
    """Four ticks of 2.5 s have burnt as long as 600 of 1/60 s."""
    duel = game(3)[-1]
    slot = int(torch.nonzero(duel.missile_age[0] != GONE)[0])
    paths = []
    for age, dt_s in ((600, 1 / 60), (4, 2.5), (4, 1 / 60)):
        duel.missile_age[0, slot] = age
        paths.append(forecast(duel, dt_s=dt_s)["missile"][0, slot])
    assert np.array_equal(paths[0], paths[1], equal_nan=True) and not np.array_equal(paths[0][:5], paths[2][:5])


# -- the diagram and its files ------------------------------------------------------------------------------------------


def test_a_side_without_missiles_has_no_reach():
    duel = game(0)[0]
    empty = duel.map(torch.clone)
    empty.left[0, 1] = 0
    drawn, bare = draw_duel(duel), draw_duel(empty)
    lines = [[line.get_label() for line in figure.axes[0].lines] for figure in (drawn, bare)]
    assert {"R_max", "R_ne"} & {*lines[0]} and not {"R_max", "R_ne"} & {*lines[1]}


def test_a_game_becomes_a_picture_and_an_animation(tmp_path):
    """The last frame stays for 2 s. A palette by area alone would have no yellow for the thin lines of missiles."""
    states = game(30)
    assert states[-1].winner[0] == 0 and "draw" in texts(draw_duel(states[-1], 2))  # both are hit at once
    states = states[:4]
    rules = AirCombatEnv(1).engine.rules
    written = draw_game(states, 1, tmp_path / "game.gif", "two that never turn", ("a", "b"), rules)
    assert written == {"picture": str(tmp_path / "game.png"), "animation": str(tmp_path / "game.gif")}
    with Image.open(tmp_path / "game.png") as image:
        assert image.size == (2400, 1440)
    with Image.open(tmp_path / "game.gif") as image:
        durations = []
        for k in range(image.n_frames):
            image.seek(k)
            durations.append(image.info["duration"])
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)  # of the last: with missiles in the air
    assert durations == [500, 500, 2500]
    for color in (OWN, THREAT, MISSILE, ESCAPE):
        wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        assert (np.abs(pixels - wanted).max(1) <= 8).sum() > 20, color
