"""render_mode of Gymnasium: pictures, and the page."""

from __future__ import annotations

import numpy as np
import pytest
from websockets.sync.client import connect

gymnasium = pytest.importorskip("gymnasium")

import slipstream.envs.adapters  # noqa: E402, F401
from slipstream.viewer import server as server_module  # noqa: E402
from slipstream.viewer.play import STATE  # noqa: E402

SMALL = {"slipstream/Navigation-v0": {"num_obstacles": 10, "dyn": {"num_obstacles": 8}}, "slipstream/AirCombat-v0": {}}


@pytest.mark.parametrize("name", SMALL)
def test_rgb_array_is_a_picture_that_changes(name):
    env = gymnasium.make(name, render_mode="rgb_array", **SMALL[name])
    env.reset(seed=0)
    first = env.render()
    for _ in range(60):
        env.step(env.action_space.sample())
    then = env.render()
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3 and min(first.shape[:2]) > 400
    assert first.std() > 5 and (first != then).any()
    env.close()


@pytest.mark.parametrize("name", SMALL)
def test_human_opens_a_page_that_gets_every_step(name, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(server_module.webbrowser, "open", opened.append)
    env = gymnasium.make(name, render_mode="human", **SMALL[name])
    env.reset(seed=0)
    assert len(opened) == 1
    url = capsys.readouterr().out.split()[1]
    base, _, token = url.partition("/?token=")
    with connect(f"{base.replace('http', 'ws')}/api/play?token={token}", open_timeout=60) as socket:
        assert '"side": null' in socket.recv(60)  # it watches
        states = set()
        while len(states) < 3:  # each is another
            env.step(env.action_space.sample())
            message = socket.recv(60)
            states |= {message} if isinstance(message, bytes) and message[0] == STATE else set()
    env.close()


def test_another_mode_is_refused():
    with pytest.raises(ValueError, match="ansi"):
        gymnasium.make("slipstream/AirCombat-v0", render_mode="ansi")
