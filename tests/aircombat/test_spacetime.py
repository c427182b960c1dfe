"""The spacetime diagram and its animation: what they are made of, and files that open."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from mpl_toolkits.mplot3d.art3d import Path3DCollection
from mpl_toolkits.mplot3d.proj3d import proj_transform
from PIL import Image
from reach_table import envelope

from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.figures.animation import animate
from slipstream.tasks.aircombat.figures.spacetime import (
    ESCAPE,
    IDLE,
    MISSILE,
    OWN,
    THREAT,
    draw_scene,
    spacetime,
    view_of,
)
from slipstream.tasks.aircombat.physics.duel import begin
from slipstream.tasks.aircombat.reach.scene import forecast, scene_of, scenes_of_game
from slipstream.tasks.aircombat.reach.table import Geometry
from slipstream.ui import film


def game(decisions=6, fire=True):
    """Both straight on, nose to nose, firing when they may: a render state a second."""
    env = AirCombatEnv(1, config=AirCombatConfig(num_envs=1, sides=2, time_scale=60.0))
    action = torch.tensor([0.0, 1.0, float(fire)]).expand(2, 1, 3).clone()
    states = [env.get_render_state(0)]
    for _ in range(decisions):
        env.step(action)
        states.append(env.get_render_state(0))
        if states[-1]["winner"] is not None:
            break
    return states


def test_a_scene_tells_what_one_side_must_expect():
    scene = scene_of(game(2)[-1], side=1)
    assert [reach["time"] for reach in scene["reach"]] == [5, 10, 15, 20]
    assert all(reach["polygon"].shape == (len(reach["mach"]), 2) for reach in scene["reach"])
    assert len(scene["times"]) == len(scene["own_path"]) == 81
    own, path = scene["own"], scene["own_path"]
    assert path[0].tolist() == pytest.approx([own["x"], own["y"]], rel=1e-4)
    assert path[-1, 0] > own["x"] + 20 * 300 and abs(path[-1, 1] - own["y"]) < 1  # straight on, not slower
    assert len(scene["incoming"]) == len(scene["missiles"]["incoming"]) > 0
    assert scene["threat"]["range"] < scene["threat"]["r_max"]
    assert scene["threat"]["r_min"] < scene["threat"]["r_ne"] < scene["threat"]["r_max"]


def test_the_reach_lies_ahead_of_the_enemy():
    scene = scene_of(game(0)[0])
    enemy, early = scene["enemy"], scene["reach"][0]["polygon"]
    assert early[:, 0].max() < enemy["x"] and abs(early[:, 1].mean() - enemy["y"]) < 10  # it flies towards smaller x
    assert np.hypot(*(early - (enemy["x"], enemy["y"])).T).max() == pytest.approx(3150, rel=0.05)


def test_both_escapes_end_with_the_enemy_astern():
    scene = scene_of(game(0)[0])
    left, right = scene["escapes"]
    assert left[-1, 0] < scene["own"]["x"] and right[-1, 0] < scene["own"]["x"]  # it fled from an enemy at greater x
    assert (
        left[:, 1].max() > scene["own"]["y"] + 1900 > scene["own"]["y"] - 1900 > right[:, 1].min()
    )  # a circle of 1 km radius each
    for path in (left, right):
        course = path[-1, :2] - path[-5, :2]
        assert math.degrees(math.atan2(abs(course[1]), -course[0])) < 3


def test_a_missile_that_is_slower_than_sound_is_not_drawn_on():
    state = game(3)[-1]
    missile = next(m for m in state["missiles"] if m["target"] == 1)
    late = missile | {"age_s": 30.0, "vx": -350.0, "vy": 0.0, "speed": 350.0, "engine_on": False}
    path = scene_of(state | {"missiles": [late]})["incoming"][0]
    flown = path[~np.isnan(path[:, 0])]
    speeds = np.hypot(*np.diff(flown, axis=0).T) / 0.25
    assert 0 < len(flown) < 20 and speeds.min() >= 340  # 10 m/s above it, and it loses 7 m/s a second
    assert np.isnan(path[len(flown) :]).all()


def test_a_missile_without_a_target_flies_straight_on():
    """In the picture and in a recording: both are this forecast."""
    duels = begin(torch.tensor([[[0.0, 0.0], [9000.0, 5000.0]]]), torch.full((1, 2, 2), 300.0), torch.ones(1, 2))
    duels.missile_vel[0, 0], duels.missile_age[0, 0] = torch.tensor([900.0, 0.0]), 60
    aside = forecast(duels)["missile"][0, 0, :10, 1]
    duels.alive[0, 1] = False
    straight = forecast(duels)["missile"][0, 0, :10]
    assert aside.max() > 500 and np.abs(straight[:, 1]).max() < 1 and straight[9, 0] > 8000


def fired_all(state, side):
    """The same state, but `side` has no missiles left."""
    return state | {"aircraft": [b | {"missiles": 0} if k == side else b for k, b in enumerate(state["aircraft"], 1)]}


def bar_colors(figure):
    """Of the bars of the enemy's shot and of one's own."""
    bars = [axes.patches for axes in figure.axes if axes.get_xlim() == (0, 60)]
    return [to_hex(patches[1].get_facecolor()) for patches in bars]


def box_of(figure):
    return next(axes for axes in figure.axes if hasattr(axes, "get_zlim"))


def test_who_has_no_missiles_left_reaches_nowhere():
    state = game(0)[0]
    armed, empty = (scene_of(s, 1) for s in (state, fired_all(state, 2)))
    assert len(armed["reach"]) == 4 and set(armed["contours"]) == {"r_max", "r_min", "r_ne"}
    assert empty["reach"] == [] and empty["contours"] == {}
    drawn, bare = draw_scene(armed), draw_scene(empty)
    dots = [sum(isinstance(c, Path3DCollection) for c in box_of(f).collections) for f in (drawn, bare)]
    assert dots == [2 + 3 * 4, 2]  # the two aircraft; three paths through four planes
    assert bar_colors(drawn) == [THREAT, OWN] and bar_colors(bare) == [IDLE, OWN]
    assert "no missiles left" in [text.get_text() for text in bare.texts]


def test_an_empty_rack_of_ones_own_grays_ones_own_bar_only():
    scene = scene_of(fired_all(game(0)[0], 1), 1)
    assert len(scene["reach"]) == 4 and bar_colors(draw_scene(scene)) == [THREAT, IDLE]


def test_the_axes_say_what_they_are_and_no_curve_can_cross_their_labels():
    box = box_of(draw_scene(scene_of(game(0)[0])))
    times = ["now", "+5 s", "+10 s", "+15 s", "+20 s"]
    labels = {text.get_text(): text for text in box.texts}
    assert {"seconds from now", "x, km", "y, km", *times} <= set(labels)
    (x0, x1), (y0, y1), (z0, z1) = box.get_xlim(), box.get_ylim(), box.get_zlim()
    left = min(
        across(box, x, y, z) for x in (x0, x1) for y in (y0, y1) for z in (z0, z1)
    )  # all curves are cut to the box
    for name in times:
        assert (
            labels[name].get_horizontalalignment() == "right" and across(box, *labels[name].get_position_3d()) < left
        ), name


def across(box, x, y, z):
    """How far to the right a place of the box is seen."""
    return proj_transform(x, y, z, box.get_proj())[0]


def test_sides_are_told_apart():
    state = game(0)[0]
    one, two = scene_of(state, 1), scene_of(state, 2)
    assert one["own"] == two["enemy"] and one["enemy"] == two["own"]
    with pytest.raises(ValueError, match="side must be 1 or 2"):
        scene_of(state, 0)


def test_the_table_and_the_flown_ranges_agree_in_a_scene():
    state = game(0)[0]
    own, enemy = ([torch.tensor([[b["x"], b["y"]]]), torch.tensor([[b["vx"], b["vy"]]])] for b in state["aircraft"])
    flown = envelope(Geometry.between(*enemy, *own)[0])
    for name in ("r_max", "r_ne"):
        assert scene_of(state)["threat"][name] == pytest.approx(float(getattr(flown, name)), rel=0.05)


def test_the_diagram_is_a_picture(tmp_path):
    path = spacetime(tmp_path / "duel.png", scene_of(game(4)[-1]), "two that never turn")
    with Image.open(path) as image:
        assert image.size == (2400, 1440)
        colors = np.asarray(image.convert("RGB")).astype(np.int64) @ (1 << 16, 1 << 8, 1)
        assert len(np.unique(colors)) > 500


def test_every_stage_of_a_game_can_be_drawn():
    """Also with somebody outside the field, and after the end."""
    states = game(30)
    assert states[-1]["winner"] == 0  # both are hit at once
    far = [body | {"x": body["x"] + 60_000, "y": body["y"] - 90_000} for body in states[0]["aircraft"]]
    for state in (states[0], states[-1], states[0] | {"aircraft": far}):
        figure = draw_scene(scene_of(state))
        texts = " ".join(text.get_text() for text in figure.texts)
        assert f"t = {state['time']:.1f} s" in texts
        assert ("down" in texts) == (state["winner"] is not None)


def test_a_game_becomes_an_animation(tmp_path):
    scenes = scenes_of_game(game(2))
    assert scenes[2]["trails"]["own"].shape == (3, 2)
    seen = []
    path = animate(tmp_path / "game.gif", scenes, fps=4, width_px=320, progress=seen.append)
    assert seen == [1 / 3, 2 / 3, 1]
    with Image.open(path) as image:
        assert image.size[0] == pytest.approx(320, rel=0.1) and image.n_frames >= 3


@pytest.mark.parametrize(("count", "play_s"), [(24, 6.0), (4, 2.0)])
def test_a_game_passes_slowly_enough_to_be_followed(tmp_path, monkeypatch, count, play_s):
    """24 scenes, half a minute of a game, passed in 3 s. Few scenes are not held longer than half a second each."""
    pictures = [
        Image.fromarray(np.where(np.arange(64) == k, 255, 0).astype(np.uint8).reshape(8, 8)).convert("RGB")
        for k in range(count)
    ]
    monkeypatch.setattr("slipstream.tasks.aircombat.figures.animation.draw_scene", lambda scene, title, view: scene)
    monkeypatch.setattr("slipstream.tasks.aircombat.figures.animation.view_of", lambda scenes: None)
    monkeypatch.setattr("slipstream.tasks.aircombat.figures.animation.picture_of", lambda k, width: pictures[k])
    with Image.open(animate(tmp_path / "game.gif", range(count))) as image:
        shown = []
        for k in range(image.n_frames):
            image.seek(k)
            shown.append(image.info["duration"] / 1000)
    assert len(shown) == count
    assert shown[-1] == pytest.approx(2 + shown[0], abs=0.1) and sum(shown) == pytest.approx(play_s + 2, rel=0.05)


def test_a_gif_keeps_the_colors_that_mean_something(tmp_path):
    """A palette by area alone has no yellow for the thin lines of missiles: they came out red, as the enemy."""
    scenes = scenes_of_game(game(3))
    path = animate(tmp_path / "game.gif", scenes, width_px=640)
    with Image.open(path) as image:
        image.seek(image.n_frames - 1)  # with missiles in the air
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)
    for color in (OWN, THREAT, MISSILE, ESCAPE):
        wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        assert (np.abs(pixels - wanted).max(1) <= 8).sum() > 20, color


def test_ones_own_side_is_in_the_picture_however_far_the_enemy():
    state = game(0)[0]
    near, far = (
        body | {"x": x, "y": 25_000.0} for body, x in zip(state["aircraft"], (-6_000.0, 54_000.0), strict=True)
    )
    for side in (1, 2):
        axes = draw_scene(scene_of(state | {"aircraft": [near, far]}, side)).axes
        here = (-6.0, 54.0)[side - 1]
        (low, high) = next(a for a in axes if hasattr(a, "get_zlim")).get_xlim()
        assert low <= here <= high


def test_the_picture_is_zoomed_to_the_action():
    state = game(0)[0]
    for apart_m, side_km in ((4_000.0, 25.0), (30_000.0, 50.0), (70_000.0, 100.0), (300_000.0, 100.0)):
        bodies = [
            body
            | {"x": 25_000.0 + sign * apart_m / 2, "y": 25_000.0, "angle": 0.0, "vx": 300.0, "vy": 0.0, "g_load": 0.0}
            for body, sign in zip(state["aircraft"], (-1, 1), strict=True)
        ]
        scene = scene_of(state | {"aircraft": bodies, "missiles": []}, 1)
        view = view_of([scene])
        assert view.side <= side_km and view.inside(np.array([bodies[0]["x"], bodies[0]["y"]]) / 1000)
        figure = draw_scene(scene, view=view)
        low, high = box_of(figure).get_xlim()
        assert high - low == view.side and figure.axes[1].get_xlim() == (low, high)  # the box, and the view from above
        if apart_m < 100_000:
            assert view.inside(np.array([bodies[1]["x"], bodies[1]["y"]]) / 1000)


def test_one_view_holds_all_scenes_of_a_game():
    scenes = scenes_of_game(game(3))
    view = view_of(scenes)
    places = np.array([[scene[who]["x"], scene[who]["y"]] for scene in scenes for who in ("own", "enemy")]) / 1000
    assert view.inside(places).all() and view.side <= 60


def test_agents_are_named_in_the_picture():
    scene = {"names": ("crank", "learned"), **scene_of(game(0)[0])}
    texts = {text.get_text(): text.get_color() for text in draw_scene(scene).texts}
    assert texts["crank"] == OWN and texts["learned"] == THREAT
    assert "seen from side 1: crank in blue, learned in red" in texts


def test_a_reach_that_only_touches_the_box_can_be_drawn():
    state = game(0)[0]
    for apart_m in (78_000.0, 86_000.0, 118_000.0):  # two that flee from one another for a minute
        bodies = [
            body | {"x": 25_000 + sign * apart_m / 2} for body, sign in zip(state["aircraft"], (-1, 1), strict=True)
        ]
        for side in (1, 2):
            assert draw_scene(scene_of(state | {"aircraft": bodies}, side))


def test_an_animation_says_which_endings_it_knows(tmp_path):
    with pytest.raises(ValueError, match=r"\.gif or \.mp4"):
        animate(tmp_path / "game.avi", [{}])
    with pytest.raises(ValueError, match="no scene to draw: give at least one"):
        animate(tmp_path / "game.gif", [])


def test_without_ffmpeg_a_film_is_refused_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "find_ffmpeg", lambda: None)
    with pytest.raises(ValueError, match=r"needs ffmpeg.*pip install imageio-ffmpeg, or write game\.gif"):
        animate(tmp_path / "game.mp4", [{}])


@pytest.mark.skipif(film.find_ffmpeg() is None, reason="needs ffmpeg or imageio-ffmpeg")
def test_with_ffmpeg_a_game_becomes_a_film(tmp_path):
    path = animate(tmp_path / "game.mp4", scenes_of_game(game(1)), fps=4, width_px=320)
    assert path.read_bytes()[4:8] == b"ftyp"
