"""The viewer's server: who may ask, what it shows, and what it survives."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import threading

import pytest
from helpers.recordings import flight, write_run
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from slipstream.viewer import server as server_module
from slipstream.viewer.library import Library
from slipstream.viewer.server import Server


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "runs"
    write_run(root / "one")
    flight().save(root / "one" / "flight.rec")
    (root / "broken.rec").write_bytes(b"no recording at all" * 20)
    (tmp_path / "secret.rec").write_bytes(b"secret")
    os.symlink(tmp_path / "secret.rec", root / "linked.rec")
    os.symlink(tmp_path, root / "outside")
    return root


@pytest.fixture
def server(folder, monkeypatch):
    monkeypatch.setattr(server_module, "LOOK_S", 0.05)
    server = Server(Library(folder))
    server.start()
    yield server
    server.stop()


def ask(server, path, token=True, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    joint = "&" if "?" in path else "?"
    connection.request("GET", f"{path}{joint}token={server.token}" if token else path, headers=headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def live(server, **settings):
    return connect(f"ws://127.0.0.1:{server.port}/api/live?token={server.token}", open_timeout=30, **settings)


def test_a_request_that_is_cut_off_by_the_end_is_no_error(server):
    records, asked, released = [], threading.Event(), threading.Event()
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("uvicorn.error").addHandler(handler)
    server.site.library.scan = lambda: asked.set() or released.wait(60)
    server._server.config.timeout_graceful_shutdown = 0.05

    def open_page():
        with contextlib.suppress(http.client.HTTPException, OSError):
            ask(server, "/api/index")
        released.set()

    page = threading.Thread(target=open_page)
    page.start()
    assert asked.wait(60)
    server.stop()
    page.join(60)
    logging.getLogger("uvicorn.error").removeHandler(handler)
    assert [record.getMessage() for record in records] == []
    server.stop = lambda: None


def test_it_binds_to_this_machine_and_prints_its_token(server):
    assert server.url == f"http://127.0.0.1:{server.port}/?token={server.token}"
    assert len(server.token) >= 24


@pytest.mark.parametrize("path", ["/", "/viewer.js", "/api/index", "/api/recording?name=one/flight.rec", "/nowhere"])
def test_nothing_is_shown_without_the_token(server, path):
    answer, data = ask(server, path, token=False)
    assert answer.status == 403 and b"token" in data
    answer, _ = ask(server, path, token=False, Cookie=f"slipstream_{server.port}=guess")
    assert answer.status == 403


def test_the_address_gives_a_cookie_that_the_rest_of_the_page_uses(server):
    answer, data = ask(server, "/")
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 200 and b"viewer.js" in data and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    answer, data = ask(server, "/viewer.js", token=False, Cookie=cookie.partition(";")[0])
    assert answer.status == 200 and len(data) < 700_000


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Origin": "http://evil.example"}]
)
def test_other_pages_and_names_are_refused(server, headers):
    assert ask(server, "/api/index", **headers)[0].status == 403


def test_the_index_lists_runs_and_recordings_and_names_broken_ones(server):
    found = json.loads(ask(server, "/api/index")[1])
    assert [(r["name"], r["running"], r["last"]["frames"]) for r in found["runs"]] == [("one", False, 30_000)]
    entries = {r["name"]: r for r in found["recordings"]}
    assert set(entries) == {"one/flight.rec", "broken.rec"}  # nothing by way of links
    assert entries["one/flight.rec"]["title"] == "three drones" and "error" not in entries["one/flight.rec"]
    assert entries["broken.rec"]["error"].startswith("broken.rec: ")  # no path of this machine


@pytest.mark.parametrize(
    "name", ["../secret.rec", "linked.rec", "outside/secret.rec", "/etc/passwd", "one/config.yaml", "x" * 3000]
)
def test_only_what_was_found_is_opened(server, name):
    for path in ("/api/recording", "/api/run", "/api/figure"):
        assert ask(server, f"{path}?name={name}&file=../../secret.rec")[0].status == 404


def test_a_broken_and_a_vanished_recording_are_told(server, folder):
    answer, data = ask(server, "/api/recording?name=broken.rec")
    assert answer.status == 422 and "not a Slipstream file" in json.loads(data)["error"]
    (folder / "one" / "flight.rec").unlink()
    answer, data = ask(server, "/api/recording?name=one/flight.rec")
    assert answer.status == 404 and "moved or removed" in json.loads(data)["error"]
    assert ask(server, "/api/index")[0].status == 200


def test_a_recording_is_sent_in_the_form_of_the_page(server):
    answer, data = ask(server, "/api/recording?name=one/flight.rec")
    assert answer.status == 200 and data == flight().to_wire()


def test_a_log_is_read_on_from_where_it_was(server, folder):
    first = json.loads(ask(server, "/api/run?name=one")[1])
    assert len(first["rows"]) == 30 and first["config"]["algo"]["learning_rate"] == 5e-4
    assert first["recordings"] == ["one/flight.rec"] and first["checkpoints"][0]["name"] == "ckpt_000010.pt"
    with open(folder / "one" / "metrics.jsonl", "a") as log:
        log.write(
            '{"iteration": 31, "frames": 31000, "fps": 1}\n{"iteration": 32, "fra'
        )  # the last line is in the writing
    then = json.loads(ask(server, f"/api/run?name=one&from={first['offset']}")[1])
    assert [row["iteration"] for row in then["rows"]] == [31]
    (folder / "one" / "metrics.jsonl").write_text('{"iteration": 1}\n')  # a run that was started again
    again = json.loads(ask(server, f"/api/run?name=one&from={then['offset']}")[1])
    assert again["restarted"] and [row["iteration"] for row in again["rows"]] == [1]


def test_a_run_that_is_being_written_is_marked(server, folder):
    from slipstream.storage.files import WriterLock

    with WriterLock(folder / "one"):
        assert json.loads(ask(server, "/api/index")[1])["runs"][0]["running"]
    assert not json.loads(ask(server, "/api/index")[1])["runs"][0]["running"]


def test_an_open_page_is_told_of_new_recordings(server, folder):
    with live(server) as socket:
        flight(title="new").save(folder / "one" / "new.rec")
        assert json.loads(socket.recv(30)) == {"kind": "changed"}


def test_a_websocket_needs_token_and_origin(server):
    for address, headers in (("/api/live", {}), (f"/api/live?token={server.token}", {"Origin": "http://evil.example"})):
        url = f"ws://127.0.0.1:{server.port}{address}"
        with pytest.raises((InvalidStatus, ConnectionClosed)), connect(url, additional_headers=headers) as socket:
            socket.recv(10)


def test_malformed_messages_end_their_connection_and_nothing_else(server):
    for message in (b"\x00\xff", "x" * 10_000, "{", "[]"):
        with live(server) as socket:
            socket.send(message)
            with pytest.raises((ConnectionClosed, TimeoutError)):
                socket.recv(0.2)
    assert ask(server, "/api/index")[0].status == 200


def test_one_run_and_one_recording_are_libraries_too(folder):
    assert list(Library(folder / "one").found.runs) == ["one"]
    assert list(Library(folder / "one" / "flight.rec").found.recordings) == ["flight.rec"]
    with pytest.raises(FileNotFoundError, match="there is no"):
        Library(folder / "two")
