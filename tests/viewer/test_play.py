"""Games: the rules of the host, and games in a real browser by keyboard, by touch, and by two people."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket as sockets
import struct
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.browser import until
from websockets.sync.client import connect

from slipstream.cli import main
from slipstream.config.help import ConfigError
from slipstream.config.registry import find_task
from slipstream.recordings import load_recording
from slipstream.tasks.aircombat.agents import PlaceholderAgent
from slipstream.viewer import play as play_module
from slipstream.viewer.play import PREFIX, Games, Page
from slipstream.viewer.server import Server

VIEW = "slipstream.view"
NEUTRAL = [0.0, 1.0, 0.0]
KINDS = {"state": play_module.STATE, "extras": play_module.EXTRAS}


@pytest.fixture(autouse=True)
def no_garbage_collection(monkeypatch):
    """Leave out the collection before a server's first game: 0.4 s of a process with all tests."""
    calls = ("collect", "freeze", "unfreeze")
    monkeypatch.setattr(play_module, "gc", SimpleNamespace(**dict.fromkeys(calls, lambda: None)))


def duel(*words):
    return find_task("aircombat").make_game(["opponent=placeholder", "seconds=20", *words])


@pytest.fixture
def host(serve, tmp_path):
    """Start a server of a game."""
    return lambda game, **settings: serve(tmp_path, Games(game, tmp_path), **settings)


@pytest.fixture
def server(host):
    return host(duel())


def sit(server):
    return connect(f"ws://127.0.0.1:{server.port}/api/play?token={server.token}", open_timeout=60)


def say(socket, **message):
    socket.send(json.dumps(message))


def hear(socket, wanted):
    """The next message of a kind, or with states for which `wanted` is true."""
    while True:
        message = socket.recv(60)
        if isinstance(message, str):
            message = json.loads(message)
            if wanted == message["kind"] or (callable(wanted) and wanted(message)):
                return message
        elif message[0] == KINDS.get(wanted):
            return message


# -- the games themselves ----------------------------------------------------------------------------------------------


def test_a_duel_is_flown_by_the_env_and_recorded(tmp_path):
    game = duel("opponent=pursuit")
    for step in range(300):
        game.step([[1.0 if step < 60 else 0.0, 1.0, float(step == 100)], NEUTRAL])
    time_s, winner, *sides = struct.unpack_from("<fb" + "ffffffBB" * 2, game.state())
    assert time_s == pytest.approx(5.0) and winner == -1 and sides[7] == 5  # one missile is away
    recording = load_recording(game.recording("a game").save(tmp_path / "game.rec"))
    assert recording.seconds == pytest.approx(5.0) and recording.meta["names"] == ["player", "pursuit"]
    assert [event["kind"] for event in recording.events][:1] == ["launch"]
    assert game.result() is None
    sizes = {"path": 2 * 21 * 2, "escape": 4 * 21 * 2, "missile": 12 * 21 * 2, "range": 8, "contour": 6 * 96}
    assert len(game.extras(game.snapshot())) == 4 * sum(sizes.values())


def test_a_game_ends_and_is_rated():
    game = duel("seconds=10")
    while game.result() is None:
        game.step([NEUTRAL, NEUTRAL])
    assert game.result() | {"seconds": 10} == {"winner": 0, "seconds": 10, "pair": ["player", "placeholder"]}
    ratings = game.ratings({("player", "pursuit"): [3, 0, 0], ("player", "crank"): [0, 0, 3]})
    assert ratings["pursuit"] == 1000 and ratings["crank"] > ratings["player"] > 1000
    game.start({"opponent": None, "start": "random"})
    assert game.names == ("player 1", "player 2") and game.result() is None


def test_play_takes_the_flags_of_view(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Server, "run", Server._close)
    words = ["play", "opponent=placeholder", f"out={tmp_path}/games"]
    assert main([*words, "--host", "0.0.0.0", "--port", "0", "--no-browser"]) == 0
    assert "on another machine or a phone in this network: http://" in capsys.readouterr().out
    for more, message in ((["port=8000"], "unknown key 'port'"), (["--port", "99999"], "--port 99999 must be between")):
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err


def test_a_duel_is_as_long_as_the_learned_agents_training():
    assert find_task("aircombat").make_game(["opponent=placeholder"]).describe()["seconds"] == 60


@pytest.mark.parametrize(("words", "message"), [
    (["opponent=ace"], "unknown agent 'ace'"), (["oponent=crank"], "unknown key 'oponent'.*opponent"), (["start=low"], "start=low is unknown"),
    (["seconds=2"], "between 10 and 3600"), (["seed=x"], "seed must be a whole number, not 'x'"),
])  # fmt: skip
def test_wrong_words_are_explained(words, message):
    with pytest.raises(ValueError, match=message):
        duel(*words)


def test_a_page_chooses_only_what_is_offered():
    game = duel()
    for options in ({"opponent": "my_module:Weaver"}, {"opponent": "/etc/passwd"}, {"start": "low"}):
        with pytest.raises(ValueError, match="is not offered|is unknown"):
            game.start(options)
    with pytest.raises(ConfigError, match="task=gym cannot be played"):
        find_task("gym").make_game([])


def test_a_race_is_flown_by_the_env(tmp_path):
    game = find_task("navigation").make_game(["seconds=10"])
    for _ in range(200):
        game.step([[1.0, 0.0, 0.0]])
    time_s, winner, drones, movers = struct.unpack_from("<fbBB", game.state())
    x, y, z, _, vy, _, status = struct.unpack_from("<ffffffB", game.state(), 7)
    assert time_s == pytest.approx(3.2) and winner == -1 and (drones, movers) == (2, 24)
    assert y < 20 and vy == pytest.approx(-2, abs=0.1) and z == pytest.approx(2) and status == 0
    recording = load_recording(game.recording("a race").save(tmp_path / "race.rec"))
    assert recording.columns["drone.position"].shape == (50, 2, 3)
    np.testing.assert_allclose(recording.arrays["drone.goal"], [[0, -24, 2]] * 2)
    while game.result() is None:
        game.step([[0.0, 0.0, 0.0]])
    assert game.result()["winner"] == 0  # after 10 s nobody is there


# -- the host ----------------------------------------------------------------------------------------------------------


def test_a_game_over_a_websocket(server, tmp_path):
    with sit(server) as socket:
        seat = hear(socket, "seat")
        assert seat["side"] == 0 and seat["paused"] and seat["game"] == 0
        say(socket, kind="start", opponent="placeholder", start="head_on")
        assert hear(socket, lambda m: m.get("game") == 1)["begun"]["opponent"] == "placeholder"
        say(socket, kind="input", values=[0.5, 1.0, 0.0], number=7)
        while PREFIX.unpack_from(message := hear(socket, "state"))[4] != 7:
            pass
        assert hear(socket, "extras")
        rudder = struct.unpack_from("<f", hear(socket, "state"), PREFIX.size + 5 + 16)[0]
        assert rudder == 0.5 and len(message) >= PREFIX.size + 57
        say(socket, kind="pause", on=True)
        assert hear(socket, lambda m: m.get("paused") is True)
        say(socket, kind="scale", scale=4.0)
        say(socket, kind="pause", on=False)
        while struct.unpack_from("<f", hear(socket, "state"), PREFIX.size)[0] < 4:
            pass
    server.stop()
    assert [p.suffix for p in tmp_path.glob("*.rec")] == [".rec"]  # a game that was left is kept


def test_a_paused_game_shows_its_diagram_to_a_page_that_opens_it(server):
    with sit(server) as socket:
        say(socket, kind="start", opponent="placeholder", start="head_on")
        diagram = hear(socket, "extras")
    with sit(server) as socket:  # the game pauses when its last page is closed
        assert hear(socket, "seat")["paused"]
        assert len(hear(socket, "extras")) == len(diagram)


def test_two_people_get_two_seats_and_a_third_watches(server):
    with sit(server) as one, sit(server) as two, sit(server) as three:
        assert [hear(socket, "seat")["side"] for socket in (one, two, three)] == [0, 1, None]
        say(two, kind="start", opponent=None)
        say(two, kind="input", values=[-1.0, 1.0, 0.0], number=3)
        say(one, kind="input", values=[1.0, 1.0, 0.0], number=4)
        while PREFIX.unpack_from(hear(one, "state"))[4:6] != (4, 3):
            pass
        say(one, kind="input", side=1, values=[0.0, 0.0, 0.0], number=9)  # of the other side
        assert "not for a side of this page" in hear(one, "error")["text"]
        say(three, kind="start", opponent="crank")
        assert "seats are taken" in hear(three, "error")["text"]


@pytest.mark.parametrize("message", [
    "", "{", "[]", "7", '{"kind": 3}', '{"kind": "fly"}', '{"kind": "input"}', '{"kind": "input", "values": [1, 2]}', '{"kind": "input", "values": [2, 1, 0]}',
    '{"kind": "input", "values": [NaN, 1, 0]}', '{"kind": "input", "side": 7, "values": [0, 1, 0]}', '{"kind": "scale", "scale": 1e9}', '{"kind": "start", "opponent": "../x"}',
    '{"kind": "input", "values": "abc"}', "[" * 2000,
])  # fmt: skip
def test_a_malformed_message_gets_an_answer_and_changes_nothing(server, message):
    with sit(server) as socket:
        hear(socket, "seat")
        socket.send(message)
        assert hear(socket, "error")["text"]
        games = server.games
        assert games.number == 0 and games.controls == [NEUTRAL, NEUTRAL] and games.scale == 1.0


def fail(*_):
    raise RuntimeError("out of order")


def test_a_watching_page_changes_nothing(server):
    with sit(server) as one, sit(server) as two:
        say(one, kind="start", opponent="placeholder")
        assert hear(two, lambda m: m.get("game") == 1)
        for message in ({"kind": "pause", "on": True}, {"kind": "scale", "scale": 0.25}, {"kind": "start"}):
            say(two, **message)
            assert hear(two, "error")["text"]
        games = server.games
        assert (games.paused, games.scale, games.number) == (False, 1.0, 1)
        one.close()  # nobody flies
        assert hear(two, lambda m: m.get("seats") == [1])["paused"]
        say(two, kind="start", opponent="placeholder")
        assert hear(two, "seat")["side"] == 0  # the seat that flies against agents


class Faulty(PlaceholderAgent):
    """An agent of a user: its next action, or what it raises."""

    gives = staticmethod(lambda: torch.zeros(1, 3))

    def act(self, observation):
        return self.gives()


def raising(error):
    def give(*_):
        raise error

    return staticmethod(give)


FAULTS = {
    "raises": (raising(ZeroDivisionError("division by zero")), "raised ZeroDivisionError: division by zero"),
    "exits": (raising(SystemExit(3)), "raised SystemExit: 3"),
    "NaN": (staticmethod(lambda: torch.tensor([[math.nan, 1.0, 0.0]])), "gave nan as rudder"),
    "shape": (staticmethod(lambda: torch.zeros(3)), "gave actions of shape [3], not [1, 3]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_agent_is_named_and_the_server_continues(host, monkeypatch, fault):
    server = host(duel("opponent=test_play:Faulty"))
    gives, message = FAULTS[fault]
    monkeypatch.setattr(Faulty, "gives", gives)
    with sit(server) as socket:
        say(socket, kind="start")
        failure = hear(socket, lambda m: m.get("failure"))
        assert failure["paused"] and failure["failure"].startswith("the agent test_play:Faulty ")
        assert message in failure["failure"]
        say(socket, kind="start", opponent="placeholder")
        assert not hear(socket, lambda m: m.get("game") == 2)["failure"] and hear(socket, "state")
        monkeypatch.setattr(Faulty, "reset", gives)
        say(socket, kind="start", opponent="test_play:Faulty")
        if fault in ("raises", "exits"):
            assert message in hear(socket, "error")["text"]
            assert server.games.game.opponent == "placeholder"  # that game is not touched


def test_states_are_sent_at_once(server):
    with sit(server) as socket:
        hear(socket, "seat")
        (connection,) = server._server.server_state.connections
        taken = connection.transport.get_extra_info("socket")
        assert taken.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY)


def test_a_page_that_is_behind_gets_the_newest_state():
    sent, page = [], Page(None, 0)

    async def send(message):
        sent.append(message)

    page.socket = SimpleNamespace(send_text=send, send_bytes=send)
    for message in (b"\x01a", "one", b"\x02d", "two", b"\x01b"):
        page.put(message)
    with contextlib.suppress(TimeoutError):
        asyncio.run(asyncio.wait_for(page.send(), 0.1))
    assert sent == ["one", "two", b"\x01b", b"\x02d"]


def test_an_agent_that_hangs_is_named(server, monkeypatch):
    hangs = threading.Event()
    monkeypatch.setattr(play_module, "DECISION_S", 0.2)
    monkeypatch.setattr(server.games.game, "step", lambda controls: hangs.wait(60))
    with sit(server) as socket:
        say(socket, kind="start")
        assert "placeholder has not decided for" in hear(socket, lambda m: m.get("failure"))["failure"]
        say(socket, kind="start")
        assert "hangs: start slipstream play again" in hear(socket, "error")["text"]
        hangs.set()


# -- in a browser ------------------------------------------------------------------------------------------------------


def test_a_game_by_keyboard(open_page, server, tmp_path):
    page = open_page(server.url)
    page.wait_for_selector("text=Air combat")
    page.get_by_label("opponent").select_option("placeholder")
    page.locator(".banner .primary").click()
    until(page, f"{VIEW}.states.length > 2 && {VIEW}.diagram !== null")
    page.keyboard.down("a")
    until(page, f"{VIEW}.states.at(-1).fighters[0].rudder === 1")  # to the left
    page.keyboard.up("a")
    page.keyboard.down("ArrowRight")
    until(page, f"{VIEW}.states.at(-1).fighters[0].rudder === -1")
    page.keyboard.up("ArrowRight")
    page.keyboard.down("s")
    until(page, f"{VIEW}.states.at(-1).fighters[0].throttle < 0.9")
    page.keyboard.up("s")
    page.locator("text=Chase").click()  # a button that was clicked does not keep the keys
    page.keyboard.press("Space")
    until(page, f"{VIEW}.states.at(-1).missiles.length === 1 && {VIEW}.states.at(-1).fighters[0].missiles === 5")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=Paused")
    page.keyboard.press("Escape")
    until(page, f"!{VIEW}.status.paused")
    page.keyboard.press("?")  # reading the keys pauses too
    page.wait_for_selector("text=Keys and mouse")
    until(page, f"{VIEW}.status.paused")
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    page.get_by_label("time scale").select_option("4")
    page.wait_for_selector("text=the game is recorded", timeout=120_000)  # won, or a draw after 20 s
    page.wait_for_selector("text=you – placeholder")
    page.wait_for_selector("nav a:has-text('Duels')")  # the recording is there
    assert len(list(tmp_path.glob("*.rec"))) == 1
    page.locator("text=Watch it").click()
    page.wait_for_selector(".list a[aria-current] >> text=player against placeholder")


def test_a_game_by_touch_on_a_phone(open_page, server):
    page = open_page(server.url, 390, 844, "light", has_touch=True, is_mobile=True)
    page.locator(".banner .primary").tap()
    until(page, f"{VIEW}.states.length > 2")
    box = page.locator(".stick").bounding_box()
    assert box and box["x"] >= 0 and box["y"] + box["height"] <= 844  # within reach of a thumb
    touch = {"x": box["x"] + 10, "y": box["y"] + box["height"] / 2}
    session = page.context.new_cdp_session(page)
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [touch]})
    until(page, f"{VIEW}.states.at(-1).fighters[0].rudder > 0.7")
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    until(page, f"Math.abs({VIEW}.states.at(-1).fighters[0].rudder) < 0.01")
    page.locator(".fire").dispatch_event("pointerdown", {"pointerId": 1})
    until(page, f"{VIEW}.states.at(-1).fighters[0].missiles === 5")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 844, "height": 390})  # on its side
    until(page, f"{VIEW}.scene.plane.width > 400")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.querySelector('.arena').clientHeight") > 280
    for name in (".stick", ".fire", ".stagebar .primary", ".stagebar .choice"):
        box = page.locator(name).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 390 and box["x"] + box["width"] <= 844
    page.evaluate(f"{VIEW}._heard({{...{VIEW}.status, kind: 'seat', side: 1}})")  # a second page watches this game
    assert page.evaluate(f"{VIEW}.pauseButton.disabled && {VIEW}.scales.disabled")


# a missile that flies to us from 12 km and 5 km, and one that has passed; the diagram does not know it yet
HINTS = [(None, "Enemy in reach"), (12_000, "Missile inbound: fire, then turn away"), (5_000, "Break now: missile hits in 4 s"),
         (-5_000, "Enemy in reach")]  # fmt: skip


def test_a_missile_comes_before_chances_to_shoot(open_page, server):
    page = open_page(server.url)
    until(page, f"{VIEW}.scene && {VIEW}.seat === 0")
    advise = f"""([x]) => {{ const v = {VIEW}, f = (x) => ({{x, y: 0, vx: 0, vy: 0, alive: true, missiles: 6}}), none = new Float32Array(600).fill(NaN);
      v.diagram = {{range: [20e3, 30e3, 100, 10e3, 20e3, 30e3, 100, 10e3], missile: none, path: none}};
      v.diagram.range = Float32Array.from(v.diagram.range);
      v._advise({{fighters: [f(0), f(20e3)], missiles: x === null ? [] : [{{slot: 6, x, y: 0, vx: -1200, vy: 0}}]}});
      const text = v.alert.textContent; v.diagram = null; return text; }}"""
    assert [page.evaluate(advise, [x]) for x, _ in HINTS] == [text for _, text in HINTS]
    page.evaluate(
        f"{VIEW}._heard({{kind: 'status', game: 1, paused: true, failure: 'the agent x:Y raised ValueError: z'}})"
    )
    page.wait_for_selector(".banner:has-text('the agent x:Y raised ValueError: z.')")


def test_the_debrief_shows_the_moment_and_replays_it(open_page, host):
    server = host(duel("opponent=pursuit", "seconds=60"))
    page = open_page(server.url, reduced_motion="reduce")
    until(page, f"{VIEW}.scene.shakes === false")
    page.locator(".banner .primary").click()
    until(page, f"{VIEW}.film.length > 3")
    page.evaluate(f"{VIEW}.say({{kind: 'scale', scale: 4}})")
    page.wait_for_selector("text=would have been enough", timeout=120_000)  # pursuit hits who flies straight on
    found = page.evaluate(f"{VIEW}.status.record.debrief")
    assert found["victim"] == 1 and page.evaluate(f"{VIEW}.blasts.length") == 1
    until(page, f"Math.abs({VIEW}.frozen.time - {found['time']}) < 1.1")
    assert "the moment that decided" in page.locator("figcaption").text_content()
    page.locator("text=Replay from").click()
    until(page, f"Math.abs({VIEW}.timeline.time - {found['time']} + 3) < 1.5")
    page.wait_for_selector(".panel h2:has-text('Debrief')")


def test_a_lesson_by_page_and_its_debrief(open_page, server):
    page = open_page(server.url)
    page.locator(".banner .lessons button").first.click()
    page.wait_for_selector(".banner h2:has-text('Lesson: launch')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".alert:has-text('Point your nose at the target')")
    ended = "{kind: 'status', result: {winner: 1, seconds: 9}, record: {}}"
    page.evaluate(f"{VIEW}._heard({{...{VIEW}.status, ...{ended}}})")
    page.wait_for_selector(".banner h2:has-text('Launch: passed')")
    assert page.locator(".panel .lessons button").first.text_content() == "✓ Launch"
    page.keyboard.press("Enter")  # the next one
    page.wait_for_selector(".banner h2:has-text('Lesson: defend')")


def test_sound_is_one_key_and_off_on_phones(open_page, server):
    page, phone = open_page(server.url), open_page(server.url, 844, 390, has_touch=True, is_mobile=True)
    for shown, is_on in ((page, True), (phone, False)):
        until(shown, f"{VIEW}.scene && true")
        assert shown.evaluate(f"{VIEW}.sound.on") is is_on
        shown.keyboard.press("m")
        assert shown.evaluate(f"{VIEW}.sound.on") is not is_on
    assert phone.evaluate(f"{VIEW}.sound.context !== undefined")  # made when it was switched on


def test_two_browsers_fly_against_one_another(open_page, server):
    one = open_page(server.url)
    one.wait_for_selector("text=Air combat")
    one.get_by_label("opponent").select_option("")
    one.locator(".banner .primary").click()
    one.wait_for_selector("text=Waiting for the other person")
    assert one.evaluate(f"{VIEW}.status.game") == 0  # nobody is shot at before they come
    two = open_page(server.url, 900, 700, "light")
    until(two, f"{VIEW}.states.length > 2 && {VIEW}.scene.side === 2")
    two.keyboard.down("a")
    until(one, f"{VIEW}.states.at(-1).fighters[1].rudder === 1 && {VIEW}.states.at(-1).fighters[0].rudder === 0")
    end = "; slipstream.view._show(); document.querySelector('.banner h2').textContent"
    texts = [p.evaluate(f"{VIEW}.status.result = {{winner: 1, seconds: 9}}{end}") for p in (one, two)]
    assert texts == ["You win", "You lose"]
    one.evaluate(f"{VIEW}.status.result = null")
    two.close()
    until(one, f"{VIEW}.status.seats.length === 1 && {VIEW}.status.paused")
    one.wait_for_selector("text=Waiting for the other person")


def test_a_game_continues_after_a_lost_connection(open_page, host):
    server = host(duel())
    page = open_page(server.url)
    page.locator(".banner .primary").click()
    until(page, f"{VIEW}.states.length > 2")
    page.evaluate(f"{VIEW}.socket.close()")
    page.wait_for_selector("text=Paused")  # nobody flies: the game waits
    page.locator(".banner .primary").click()
    before = page.evaluate(f"{VIEW}.received")
    until(page, f"{VIEW}.received > {before} + 10")
    server.stop()
    page.wait_for_selector("text=open the new address that the command printed")
    host(duel(), port=server.port)  # it has another token
    page.wait_for_selector("h2:has-text('Open the new address')")


def test_a_race_in_the_browser(open_page, host):
    server = host(find_task("navigation").make_game(["seconds=10"]))
    page = open_page(server.url)
    page.wait_for_selector("text=Race a learned drone")
    page.keyboard.press("Enter")
    page.keyboard.down("w")
    until(page, f"{VIEW}.states.at(-1)?.drones[0].vy < -1")
    until(page, "slipstream.frames > 1")
    page.keyboard.press("2")
    until(page, f"{VIEW}.scene.view.view === 'first'")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.querySelector('.split figure').clientHeight > 0.6 * innerHeight")
    page.evaluate(f"{VIEW}._heard({{kind: 'seat', side: 1}})")
    assert page.evaluate(f"{VIEW}.seat") is None  # one person flies, others watch
