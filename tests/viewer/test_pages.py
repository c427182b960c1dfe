"""The viewer's page in a real browser: flights, duels and runs, from a server and from disk."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.browser import until
from helpers.recordings import flight, write_run

from slipstream.recordings import write_html
from slipstream.tasks.aircombat.agents import action_of, create_agent
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.physics.duel import Duels
from slipstream.tasks.aircombat.recording import duel_recording
from slipstream.viewer import server as server_module

VIEW = "slipstream.view"
DRAWN = "slipstream.frames > 0"


@pytest.fixture(scope="module")
def duel():
    """Two agents that fly at one another for six seconds; side 1 has fired."""
    env = AirCombatEnv(1, "cpu", 0, AirCombatConfig(num_envs=1, sides=2, time_scale=6.0))
    agents = [create_agent(name, 1) for name in ("pursuit", "crank")]
    states = []
    for step in range(60):
        states.append(Duels(**{name: x.clone() for name, x in env.engine.duels.tensors().items()}))
        action = torch.stack([action_of(agent, view) for agent, view in zip(agents, env.views(), strict=True)])
        action[0, 0, 2] = float(step > 10)
        env.step(action)
    pairs = [{"red": "pursuit", "blue": "crank", "all": [3, 2, 1], "parts": {"side 1": [2, 1, 0]}}]
    return duel_recording(states, ("pursuit", "crank"), "pursuit against crank", {"pairs": pairs})


@pytest.fixture
def server(tmp_path, duel, monkeypatch, serve):
    monkeypatch.setattr(server_module, "LOOK_S", 0.1)
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", rows=60, algo={"name": "ppo", "learning_rate": 1e-3})
    flight().save(tmp_path / "one" / "flight.rec")
    duel.save(tmp_path / "one" / "duel.rec")
    return serve(tmp_path)


@pytest.mark.parametrize(("width", "height", "theme"), [(1440, 900, "dark"), (390, 844, "light")])
def test_a_flight_opens_from_disk(open_page, tmp_path, width, height, theme):
    page = open_page(write_html(flight(), tmp_path / "flight.html").as_uri(), width, height, theme)
    until(page, DRAWN)
    assert page.title() == "three drones" and page.evaluate("document.documentElement.dataset.theme") == theme
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out
    assert page.evaluate(f"{VIEW}.stage.calls") <= 20
    assert page.evaluate(f"[{VIEW}.radar.width, {VIEW}.radar.height]") == [150, 150]
    assert page.locator(".filter").count() == 3 and "collided" in page.inner_text(".panel")


def test_keys_and_filters_change_what_a_flight_shows(open_page, tmp_path):
    page = open_page(write_html(flight(), tmp_path / "flight.html").as_uri())
    until(page, DRAWN)
    page.keyboard.press("Space")  # pauses
    assert not page.evaluate(f"{VIEW}.timeline.playing")
    page.keyboard.press("c")  # to the collision, and its drone
    assert page.evaluate(f"{VIEW}.timeline.time") == pytest.approx(0.128 * 20) and page.evaluate(f"{VIEW}.chosen") == 2
    for key, view in (("2", "follow"), ("3", "top"), ("4", "first"), ("1", "orbit")):
        page.keyboard.press(key)
        assert page.evaluate(f"{VIEW}.view") == view
    page.keyboard.press("n")
    assert page.evaluate(f"{VIEW}.chosen") == 0
    page.get_by_label("collided").click()
    assert page.evaluate(f"{VIEW}.shown") == [True, True, False]
    page.keyboard.press("?")
    assert page.locator("dialog kbd").count() > 5
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_a_collision_is_explained_and_its_picture_stays(open_page, tmp_path):
    recording = flight()
    recording.arrays["box"] = np.array([[0, 2, 0.3, 0.3, 4], [4, 1.8, 0.3, 0.3, 4]], np.float32)
    recording.columns["drone.position"][:, 1, 0] = -4.3  # the second drone flies in the first one
    page = open_page(write_html(recording, tmp_path / "flight.html").as_uri())
    until(page, f"{DRAWN} && {VIEW}.timeline.playing")
    page.keyboard.press("c")
    until(page, "document.querySelector('.facts').innerText.includes('0.30 m away')")  # (4, 2.4) to the face at 2.1
    assert "obstacle 2 at 4.0, 1.8" in page.inner_text(".facts")
    pictures = page.evaluate(  # after a change of the resolution, which empties the canvas
        """[1, 0.7].map(ratio => { slipstream.view.stage.setRatio(ratio);
        const pen = document.createElement('canvas').getContext('2d'); pen.drawImage(slipstream.view.stage.canvas, 0, 0);
        return new Set(pen.getImageData(0, 0, 300, 150).data).size })"""
    )
    assert min(pictures[1:]) > 5
    page.evaluate(f"{VIEW}.choose(0), {VIEW}.timeline.seek(0), {VIEW}.setView('first'), {VIEW}.frame(0)")
    sizes = f"[0, 1, 2].map(k => Math.hypot(...{VIEW}.drones.instanceMatrix.array.slice(16 * k, 16 * k + 3)))"
    assert page.evaluate(sizes) == [0, 0, pytest.approx(1)]  # one so near would fill the picture


def test_the_beams_are_those_of_the_lidar(open_page, tmp_path):
    """A beam straight ahead ends at the box 5 m away only when it is in range; the ground stops those that look down."""
    page = open_page(write_html(flight(), tmp_path / "flight.html").as_uri(), device_scale_factor=2)
    until(page, DRAWN)
    ahead = page.evaluate(
        f"{VIEW}.choose(1), {VIEW}.scan(0, 4.3, 1.5).find(b => Math.abs(b[0]) < .01 && b[1] < -.99)[3]"
    )
    assert ahead == pytest.approx(2.0, abs=0.01)  # the box's face is at y = 2.3
    low = page.evaluate(f"{VIEW}.scan(8, 8, 0.5).filter(b => b[2] < -.1).map(b => b[3])")
    assert low == pytest.approx([0.5 / 0.17365] * 36, abs=0.01)
    mover = page.evaluate(  # one of 0.5 m around (2, 0, 1.5)
        f"[false, true].map(see => ({VIEW}.recording.meta.lidar.sees_moving = see, {VIEW}.scan(2, 2, 1.5))"
        ".find(b => Math.abs(b[0]) < .01 && b[1] < -.99 && Math.abs(b[2]) < .01)[3])"
    )
    assert mover == pytest.approx([4.0, 1.75], abs=0.01)
    radar = page.evaluate(f"[{VIEW}.radar.width, {VIEW}.radar.height]")
    assert radar == [300, 300]  # all of the circle, also on a display with two pixels per CSS pixel


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_a_duel_opens_from_disk(open_page, duel, tmp_path, width, theme):
    page = open_page(write_html(duel, tmp_path / "duel.html").as_uri(), width, 900, theme)
    until(page, DRAWN)
    assert (tmp_path / "duel.html").stat().st_size < 1_500_000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate(f"{VIEW}.timeline.setPlaying(false), {VIEW}.timeline.seek(3)")
    until(page, f"{VIEW}.now?.missiles.length > 0 && {VIEW}.scene.skin.visible")
    assert page.evaluate(f"{VIEW}.scene.plane.calls + {VIEW}.scene.space.calls") <= 20
    before = page.evaluate(f"{VIEW}.scene.space.azimuth")
    page.keyboard.press("q")
    assert page.evaluate(f"{VIEW}.scene.space.azimuth") > before
    page.keyboard.press("v")
    assert page.evaluate(f"{VIEW}.scene.side") == 2
    text = page.inner_text(".panel")
    assert "pursuit fires" in text and "50/33/17" in text and "R_max" in text


def test_every_page_of_a_server_opens(open_page, server, tmp_path):
    page = open_page(server.url)
    page.wait_for_selector(".curve canvas")
    assert server.token not in page.url  # the address can be shared on a screen
    assert page.locator(".run").count() == 2
    page.get_by_label("show one").check()
    page.get_by_label("show two").check()
    page.wait_for_selector("text=Settings that differ")
    assert "algo.learning_rate" in page.inner_text(".below")
    (tmp_path / "one").rename(tmp_path / "a long name of a run that takes more than a line")
    write_run(tmp_path / "short", rows=1, algo={"name": "ppo", "learning_rate": 2e-3})
    page.get_by_label("show short").check()
    page.wait_for_selector(".key li:has-text('short')")
    assert page.locator(".key li").all_inner_texts() == ["two", "short"]
    assert page.locator(".below thead th").all_inner_texts() == ["", "two", "short"]
    assert page.evaluate(
        "[...document.querySelectorAll('.list b, .list small')].every(e => e.scrollWidth <= e.clientWidth)"
    )
    page.get_by_label("show two").uncheck()
    until(page, f"{VIEW}.plots.length && {VIEW}.plots[0].data[0].length === 1")
    low, high = page.evaluate(f"(s => [s.min, s.max])({VIEW}.plots[1].scales.y)")
    assert 400 < low < 500 < high < 600  # fps=500 alone
    page.get_by_label("show two").check()
    page.get_by_label("find metrics").fill("perf/")
    page.get_by_role("button", name="perf/collect").click()
    page.wait_for_selector("figcaption:has-text('perf/collect')")
    page.get_by_role("radio", name="time").click()
    page.get_by_label("log scale").check()
    page.get_by_role("link", name="Flights").click()
    until(page, DRAWN)
    page.wait_for_selector("h1:has-text('a long name of a run that takes more than a line · three drones')")
    page.get_by_role("link", name="Duels").click()
    page.wait_for_selector(".split canvas")
    page.get_by_role("link", name="Runs").click()
    page.wait_for_selector(".curve canvas")


def test_a_broken_recording_and_an_empty_folder_are_explained(open_page, server, serve, tmp_path):
    (tmp_path / "bad.rec").write_bytes(b"nothing" * 100)
    page = open_page(f"{server.url}#/flights/bad.rec")
    page.wait_for_selector("text=This recording cannot be opened")
    assert "not a Slipstream file" in page.inner_text(".message")
    (tmp_path / "empty").mkdir()
    page = open_page(serve(tmp_path / "empty").url)
    page.wait_for_selector("text=No runs here yet")


def test_the_page_comes_back_when_the_server_does(open_page, serve, tmp_path):
    write_run(tmp_path / "one")
    first = serve(tmp_path)
    page = open_page(first.url)
    page.wait_for_selector(".curve canvas")
    first.stop()
    page.wait_for_selector("text=no connection to the server")
    write_run(tmp_path / "two")
    serve(tmp_path, port=first.port, token=first.token)
    page.wait_for_selector(".run:has-text('two')")
    assert page.inner_text(".status") == ""


def test_one_group_of_drones_is_shown_at_a_time(open_page, tmp_path):
    recording = flight(4)  # side by side, 8/3 m apart
    recording.arrays["drone.group"] = np.array([0, 0, 1, 1], np.int32)
    recording.meta["lidar"]["sees_moving"] = True
    page = open_page(write_html(recording, tmp_path / "flight.html").as_uri())
    until(page, DRAWN)
    page.evaluate(f"{VIEW}.choose(0), {VIEW}.timeline.seek(1), {VIEW}.frame(0)")
    sizes = f"[0, 1, 2, 3].map(k => Math.hypot(...{VIEW}.drones.instanceMatrix.array.slice(16 * k, 16 * k + 3)))"
    assert page.evaluate(sizes) == [pytest.approx(2)] * 2 + [0, 0] and "1 of 2" in page.inner_text(".facts")
    assert set(page.evaluate(f"[...{VIEW}.trails.geometry.attributes.kind.array]")) == {1, 3}
    to_the_left = page.evaluate(f"{VIEW}.scanned.find(b => b[0] > .99 && Math.abs(b[2]) < .01)[3]")
    assert to_the_left == pytest.approx(8 / 3 - 0.3, abs=0.01)  # the second drone, as a cylinder
    page.get_by_label("only the group of the drone").click()
    page.evaluate(f"{VIEW}.frame(0)")
    assert page.evaluate(sizes) == [pytest.approx(2)] * 4
