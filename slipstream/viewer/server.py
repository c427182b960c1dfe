"""The web server: it shows one folder's runs and recordings, and hosts games.

It binds to this machine and needs the token of the printed address. Host and Origin of every request are checked, so
that no other web page can use it. A connection without a complete request is closed. It writes nothing, except the
recordings of games.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import ipaddress
import json
import logging
import os
import secrets
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, MutableMapping
from html import escape
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from slipstream.storage.errors import SaveError
from slipstream.viewer.library import Library, NotHere

STATIC = Path(__file__).parent / "static"
LOOK_S = 2.0  # between two looks at the folder, while a page is open
MESSAGE_BYTES = 4096  # of a websocket message from a page
MOST_PAGES = 256  # connections at once
REQUEST_S = 10.0  # for a request to arrive completely
MOST_WAITING = 512  # connections without a complete request
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NO_ERRORS = ("Invalid UTF-8 sequence", "ASGI callable returned without completing handshake")  # of uvicorn's log
Scope = MutableMapping[str, Any]
REDIRECT = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={0}"><a href="{0}">open</a>\n'
)


class Connection(H11Protocol):
    """An HTTP connection that is closed if its next request is not complete after `REQUEST_S`.

    Of too many such connections the one that waits longest is closed: a browser sends its request at once, and is
    served while another program holds half-sent ones open.

    Args:
        waiting: the connections of a server that have no complete request, oldest first.
    """

    def __init__(self, *args: Any, waiting: dict[Connection, asyncio.TimerHandle], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._waiting = waiting

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, with the headers of all answers."""
        headers = [("Content-Type", "text/plain"), ("Connection", "close"), *HEADERS.items()]
        answer = h11.Response(status_code=400, headers=headers), h11.Data(data=msg.encode()), h11.EndOfMessage()
        for event in answer:
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _watch(self) -> None:
        is_http = not self.transport.is_closing() and self.transport.get_protocol() is self  # and no websocket
        if not (is_http and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)):
            self._stop_waiting()
        elif self not in self._waiting:
            if len(self._waiting) >= MOST_WAITING:
                oldest = next(iter(self._waiting))
                oldest._stop_waiting()
                oldest.transport.abort()
            self._waiting[self] = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if timer := self._waiting.pop(self, None):
            timer.cancel()


class Guard:
    """ASGI middleware: the token, Host and Origin of every request and websocket."""

    def __init__(self, app: Any, token: str, port: int, hosts: set[str], any_host: bool = False) -> None:
        self.app, self.token, self.cookie = app, token, f"slipstream_{port}"
        self.hosts, self.any_host = {f"{host}:{port}" for host in hosts} | hosts, any_host

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        given = request.query_params.get("token", "")
        if why := self._refusal(request, given):
            headers = HEADERS if scope["type"] == "websocket" else {"Connection": "close"}  # others have HEADERS anyway
            await PlainTextResponse(f"refused: {why}\n", 403, headers)(scope, receive, send)
            return

        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start" and given:
                cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                message = message | {"headers": [*message.get("headers", []), (b"set-cookie", cookie.encode())]}
            await send(message)

        await self.app(scope, receive, marked if scope["type"] == "http" else send)

    def _refusal(self, request: HTTPConnection, given: str) -> str:
        """Return why a request is refused; empty if it is not."""
        headers = request.headers
        if any(len(headers.getlist(name)) > 1 for name in ("host", "origin", "cookie")):
            return "a request has Host, Origin and Cookie at most once"
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.any_host and host not in self.hosts:
            return "this address is not the one that was printed"
        if origin is not None and origin.partition("://")[2] != host:
            return "another page may not use this server"
        known = request.cookies.get(self.cookie, "")
        if not any(hmac.compare_digest(x.encode(), self.token.encode()) for x in (given, known)):
            return "open the address that the command printed: it has the token"
        return ""


class Site:
    """The routes over one library."""

    def __init__(self, library: Library, games: Any = None) -> None:
        self.library, self.games = library, games
        self.pages: set[WebSocket] = set()
        self._looking: asyncio.Task[None] | None = None

    def routes(self) -> list[Any]:
        """Return the routes."""
        api = {"index": self.index, "recording": self.recording, "run": self.run, "figure": self.figure}
        return [
            *(Route(path, self.page) for path in ("/", "/viewer.js", "/viewer.css")),
            *(Route(f"/api/{name}", answer) for name, answer in api.items()),
            WebSocketRoute("/api/live", self.live),
            *([] if self.games is None else self.games.routes()),
        ]

    async def page(self, request: Request) -> Response:
        """Return the page, its script or its style."""
        return FileResponse(STATIC / (request.url.path.lstrip("/") or "index.html"))

    async def index(self, request: Request) -> Response:
        """Return the list of runs and recordings."""
        await asyncio.to_thread(self.library.scan)
        found = await asyncio.to_thread(self.library.index)
        return JSONResponse(found | {"play": None if self.games is None else self.games.describe()})

    async def recording(self, request: Request) -> Response:
        """Return the file of a recording."""
        return await self._answer(self.library.recording, request)

    async def run(self, request: Request) -> Response:
        """Return a run, with its log from a byte on."""
        text = request.query_params.get("from", "0")
        offset = int(text) if text.isdecimal() and len(text) < 16 else 0
        return await self._answer(lambda name: self.library.run(name, offset), request)

    async def figure(self, request: Request) -> Response:
        """Return a figure of a run."""
        file = request.query_params.get("file", "")
        return await self._answer(lambda name: self.library.figure(name, file), request)

    async def _answer(self, ask: Callable[[str], bytes | Path | dict[str, Any]], request: Request) -> Response:
        name = request.query_params.get("name", "")
        try:
            found = await asyncio.to_thread(ask, name)
        except NotHere:
            return JSONResponse({"error": f"{name} is not there: it was moved or removed"}, 404)
        except (SaveError, OSError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 422)
        if isinstance(found, bytes):
            return Response(found, media_type="application/octet-stream")
        return FileResponse(found) if isinstance(found, Path) else JSONResponse(found)

    async def live(self, socket_: WebSocket) -> None:
        """Notify a page when something was written."""
        if len(self.pages) >= MOST_PAGES:
            await socket_.close(1013)
            return
        await socket_.accept()
        self.pages.add(socket_)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            while True:
                await socket_.receive_text()  # a page has nothing to say: this waits for its end
        except (WebSocketDisconnect, KeyError, RuntimeError):
            pass
        finally:
            self.pages.discard(socket_)

    async def _look(self) -> None:
        """Look at the folder while pages are open, and notify them of changes."""
        before = self.library.signature
        while self.pages:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.library.scan)
            if self.library.signature == before:
                continue
            before = self.library.signature
            for page in list(self.pages):
                try:
                    await asyncio.wait_for(page.send_text(json.dumps({"kind": "changed"})), 5)
                except Exception:  # a connection that broke in the meantime
                    self.pages.discard(page)


class Server:
    """The server with its address; `run` serves until Ctrl-C, `start` and `stop` are for tests and notebooks.

    Args:
        library: what it shows.
        games: hosts games (`slipstream.viewer.play.Games`).
        host: the address to bind to.
        port: 0 takes a free one.
        token: of the address; by default a new one.
    """

    def __init__(self, library: Library, games: Any = None, host: str = "127.0.0.1", port: int = 0,
                 token: str | None = None) -> None:  # fmt: skip
        self.token = token or secrets.token_urlsafe(18)
        if not host.strip():
            raise ValueError("--host is empty, which would let every machine in: name an address, or leave it out")
        if not 0 <= port < 1 << 16:
            raise ValueError(f"--port {port} must be between 0 and 65535")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # "::" takes IPv4 too
        try:  # who opens the address before it is served waits
            self._socket = socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=dual)
        except OSError as error:
            why = str(error.strerror).partition(" (while")[0]
            raise OSError(f"cannot listen on --host {host} --port {port} ({why}): use another one") from error
        # connections inherit it; with Nagle's algorithm a state came up to 40 ms late
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host, (bound, self.port) = host, self._socket.getsockname()[:2]
        self.is_everywhere = ipaddress.ip_address(bound).is_unspecified
        self.is_local = ipaddress.ip_address(bound).is_loopback
        self.site, self.games = Site(library, games), games
        self._redirects: list[Path] = []
        local = {"127.0.0.1", "localhost", "[::1]"}
        app = Starlette(routes=self.site.routes())
        guarded = Guard(app, self.token, self.port, local | {_in_url(host), _in_url(bound)}, self.is_everywhere)
        protocol: Any = functools.partial(Connection, waiting={})
        config = uvicorn.Config(
            guarded, log_level="error", access_log=False, http=protocol, ws_max_size=MESSAGE_BYTES, ws_max_queue=8,
            ws_ping_interval=20, ws_ping_timeout=20, timeout_graceful_shutdown=2, limit_concurrency=1024,
            server_header=False, lifespan="off", headers=list(HEADERS.items()),
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        # requests that are cut off at the end, and what another program sends, are no errors of this one
        self._quiet = lambda record: not self._server.should_exit and not record.msg.startswith(NO_ERRORS)
        logging.getLogger("uvicorn.error").addFilter(self._quiet)

    @property
    def url(self) -> str:
        """The address with the token."""
        return self._url("127.0.0.1" if self.is_everywhere else self.host)

    @property
    def network_url(self) -> str:
        """The address for other machines and phones; empty if only this machine is let in."""
        if self.is_local:
            return ""
        if not self.is_everywhere:
            return self.url
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it finds the address that this machine has in its network
            return self._url(probe.getsockname()[0])
        return self._url(socket.gethostname())

    def _url(self, host: str) -> str:
        return f"http://{_in_url(host)}:{self.port}/?token={self.token}"

    def open_page(self) -> None:
        """Open the page in a browser.

        The browser gets a file that only this user can read and that leads to the address: all users see the
        arguments of a process, and the address has the token.
        """
        with contextlib.suppress(OSError):  # without a place for the file: the address was printed
            handle, path = tempfile.mkstemp(prefix="slipstream-", suffix=".html")
            with os.fdopen(handle, "w") as file:
                file.write(REDIRECT.format(escape(self.url)))
            self._redirects.append(Path(path))
            webbrowser.open(Path(path).as_uri())

    def run(self) -> None:
        """Serve until Ctrl-C."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._close()

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        """End what `start` began."""
        self._server.should_exit = True
        self._thread.join(10)
        self._close()

    def _close(self) -> None:
        for path in self._redirects:
            path.unlink(missing_ok=True)
        if self.games is not None:
            self.games.close()
        self._socket.close()
        logging.getLogger("uvicorn.error").removeFilter(self._quiet)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
