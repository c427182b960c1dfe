"""The viewer's server: who may ask, what it shows, and what it survives."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import socket
from pathlib import Path

import pytest
from helpers.recordings import flight, write_run
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from slipstream.cli import main, view
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
def server(folder, monkeypatch, serve):
    monkeypatch.setattr(server_module, "LOOK_S", 0.05)
    return serve(folder)


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


@pytest.mark.parametrize("path", ["/", "/viewer.js", "/api/index", "/api/recording?name=one/flight.rec", "/nowhere"])
def test_nothing_is_shown_without_the_token(server, path):
    answer, data = ask(server, path, token=False)
    assert answer.status == 403 and b"token" in data
    answer, _ = ask(server, path, token=False, Cookie=f"slipstream_{server.port}=guess")
    assert answer.status == 403


def test_the_address_gives_the_cookie_of_the_page(server):
    answer, data = ask(server, "/")
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 200 and b"viewer.js" in data and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    answer, data = ask(server, "/viewer.js", token=False, Cookie=cookie.partition(";")[0])
    assert answer.status == 200 and len(data) < 700_000


def test_the_browser_gets_the_token_in_a_private_file(server, monkeypatch):
    opened = []
    monkeypatch.setattr(server_module.webbrowser, "open", opened.append)
    server.open_page()
    path = Path(opened[0].removeprefix("file://"))
    assert server.token not in opened[0]  # all users see the arguments of a process
    assert server.url in path.read_text() and path.stat().st_mode & 0o777 == 0o600
    server.stop()
    assert not path.exists()


@pytest.mark.parametrize("host", ["", " "])
def test_an_empty_host_is_refused(folder, capsys, host):
    assert main(["view", str(folder), "--host", host, "--no-browser"]) == 2
    assert "--host is empty, which would let every machine in" in capsys.readouterr().err


def test_view_waits_for_the_folder_of_a_run_that_starts(tmp_path, capsys, monkeypatch):
    run = tmp_path / "runs" / "new"
    monkeypatch.setattr(Server, "run", Server._close)
    monkeypatch.setattr(view.time, "sleep", lambda _: write_run(run))
    assert main(["view", str(run), "--no-browser"]) == 0
    out = capsys.readouterr().out
    assert "is not there yet: waiting 60 s for a run" in out and f"{run}: http://127.0.0.1" in out
    monkeypatch.setattr(view, "WAIT_S", 0)
    for path in (tmp_path / "none", tmp_path / "none.rec"):
        assert main(["view", str(path), "--no-browser"]) == 2
        assert f"there is no {path}" in capsys.readouterr().err


def test_only_an_open_server_has_an_address_in_the_network(server, folder):
    assert server.network_url == ""
    other = Server(Library(folder), host="0.0.0.0")
    assert other.url.startswith("http://127.0.0.1:") and other.token in other.network_url
    assert not other.network_url.startswith("http://0.0.0.0") and "127.0.0.1" not in other.network_url
    other._close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_the_open_address_of_ipv6_takes_ipv4_too(folder):
    server = Server(Library(folder), host="::")
    assert server.is_everywhere
    socket.create_connection(("127.0.0.1", server.port), 30).close()
    server._close()


# -- what other programs send ------------------------------------------------------------------------------------------


def send(server, data):
    """A connection that has sent this after the head of a request."""
    connection = socket.create_connection(("127.0.0.1", server.port), 30)
    connection.sendall(data.replace(b"HOST", b"Host: 127.0.0.1:%d" % server.port))
    return connection


def rest(connection):
    """What comes until the end of a connection."""
    with contextlib.suppress(ConnectionError):
        return b"".join(iter(lambda: connection.recv(65536), b""))
    return b""


UNFINISHED = {
    "nothing": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: ",
    "half a body": b"POST / HTTP/1.1\r\nHOST\r\nContent-Length: 100\r\n\r\nabc",
    "half of a second request": b"GET /?token=TOKEN HTTP/1.1\r\nHOST\r\n\r\nGET / HTTP/1.1\r\nHost: ",
}


@pytest.mark.parametrize("kind", UNFINISHED)
def test_a_connection_without_a_complete_request_is_closed(server, monkeypatch, kind):
    monkeypatch.setattr(server_module, "REQUEST_S", 0.1)
    with live(server) as page, send(server, UNFINISHED[kind].replace(b"TOKEN", server.token.encode())) as connection:
        rest(connection)
        page.ping().wait(30)  # a page that is open stays so


def test_half_sent_requests_keep_no_browser_out(server, monkeypatch):
    monkeypatch.setattr(server_module, "MOST_WAITING", 20)
    with contextlib.ExitStack() as stack:
        half = [stack.enter_context(send(server, UNFINISHED["half a header"])) for _ in range(60)]
        assert ask(server, "/api/index")[0].status == 200
        assert rest(half[0]) == b"" and len(server._server.server_state.connections) <= 20


@pytest.mark.parametrize("repeated", ["Origin: http://evil.example", "Cookie: a=b", "Host: evil.example"])
def test_a_header_that_decides_comes_once(server, repeated):
    own = f"Origin: http://127.0.0.1:{server.port}\r\nCookie: slipstream_{server.port}={server.token}"
    for pair in (f"{own}\r\n{repeated}", f"{repeated}\r\n{own}"):
        with send(server, f"GET / HTTP/1.1\r\nHOST\r\n{pair}\r\n\r\n".encode()) as connection:
            assert rest(connection).split()[1] in (b"400", b"403")


UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
           "Sec-WebSocket-Version": "13"}  # fmt: skip


@pytest.mark.parametrize("headers", [{}, UPGRADE])
def test_a_refusal_has_the_headers_of_the_page(server, headers):
    answer, _ = ask(server, "/api/live", token=False, **headers)
    assert answer.status == 403 and answer.headers["Connection"] == "close"
    for name, value in server_module.HEADERS.items():
        assert answer.headers.get_all(name) == [value]


def test_what_is_no_http_is_refused_with_these_headers(server):
    with send(server, b"NO HTTP\r\n\r\n") as connection:
        answer = rest(connection).decode()
    assert answer.startswith("HTTP/1.1 400 ")
    assert all(f"{name}: {value}" in answer for name, value in server_module.HEADERS.items())


def test_a_text_that_is_no_utf8_ends_its_connection(server, caplog):
    with live(server) as page, caplog.at_level(logging.ERROR):
        page.socket.sendall(bytes([0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE]))
        with pytest.raises(ConnectionClosed) as closed:
            page.recv(30)
    assert closed.value.rcvd.code == 1007
    assert ask(server, "/api/index")[0].status == 200 and not caplog.records


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Origin": "http://evil.example"}]
)
def test_other_pages_and_names_are_refused(server, headers):
    assert ask(server, "/api/index", **headers)[0].status == 403


def test_the_index_has_runs_recordings_and_broken_ones(server):
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


def test_a_broken_and_a_vanished_recording_are_named(server, folder):
    answer, data = ask(server, "/api/recording?name=broken.rec")
    assert answer.status == 422 and "not a Slipstream file" in json.loads(data)["error"]
    (folder / "one" / "flight.rec").unlink()
    answer, data = ask(server, "/api/recording?name=one/flight.rec")
    assert answer.status == 404 and "moved or removed" in json.loads(data)["error"]
    assert ask(server, "/api/index")[0].status == 200


def test_a_recording_is_sent_in_the_form_of_the_page(server):
    answer, data = ask(server, "/api/recording?name=one/flight.rec")
    assert answer.status == 200 and data == flight().to_bytes()


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
