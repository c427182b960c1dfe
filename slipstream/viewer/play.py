"""Games in the browser: one thread steps the game at its own pace, pages send controls and get states."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import math
import re
import struct
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from slipstream.config.help import ConfigError
from slipstream.recordings import SUFFIX
from slipstream.sim.devices import set_threads
from slipstream.storage.errors import SaveError
from slipstream.tasks.base import Game

EXTRAS_S = 0.25  # between two diagrams
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST_PLAYERS = 16
MOST_TEXTS = 64  # that wait for a page
DECISION_S = 10.0  # of an agent; then the page says that it hangs
STATE, EXTRAS = 1, 2  # first byte of a message
# kind, paused, time scale, number of the game, newest input of each side, step of the server
PREFIX = struct.Struct("<BBfIIII")


class Games:
    """Hosts one game for all pages that are open.

    Args:
        game: of a task.
        folder: for recordings.
    """

    def __init__(self, game: Game, folder: Path) -> None:
        self.game, self.folder = game, folder
        self.pages: dict[WebSocket, Page] = {}
        self.controls = [list(game.neutral) for _ in (0, 1)]
        self.heard = [0, 0]  # number of the newest input of each side
        self.paused, self.scale, self.number = True, 1.0, 0
        self.failure = ""  # why the game stopped: an agent that failed
        self.steps = 0
        self.record: dict[str, Any] = {}  # of the game that is over: its file, and what decided it
        self.scores: dict[tuple[str, str], list[int]] = {}  # games won, drawn and lost, by pair
        self._over, self._looked, self._kept = False, 0.0, 0  # the number of the game that was recorded last
        self._deadline = math.inf  # of the step under way
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._diagram: tuple[int, bytes] | None = None  # the last one, and the number of its game
        self._drawer = ThreadPoolExecutor(1, "diagrams", set_threads, (1,))
        self._drawn: Future[None] | None = None
        sys.setswitchinterval(0.001)  # a diagram that is being computed lets the next step begin sooner
        self._threads = [threading.Thread(target=f, daemon=True, name=f.__name__) for f in (self._step, self._watch)]
        for thread in self._threads:
            thread.start()

    def describe(self) -> dict[str, Any]:
        """Return what the page offers."""
        return self.game.describe() | {"scales": SCALES}

    def routes(self) -> list[Any]:
        """Return the routes of the server."""
        return [Route("/api/play/setup", self.setup), WebSocketRoute("/api/play", self.play)]

    async def setup(self, request: Request) -> Response:
        """Return what the page needs once."""
        data = await asyncio.to_thread(lambda: self.game.setup().to_bytes())
        return Response(data, media_type="application/octet-stream")

    async def play(self, socket: WebSocket) -> None:
        """Serve one page."""
        if len(self.pages) >= MOST_PLAYERS:
            await socket.close(1013)
            return
        await socket.accept()
        self._loop = asyncio.get_running_loop()
        taken = {page.side for page in self.pages.values()}
        free = next((side for side in range(self.game.describe()["people"]) if side not in taken), None)
        page = self.pages[socket] = Page(socket, free)
        await socket.send_text(json.dumps({"kind": "seat", "side": page.side, **self._status()}))
        if self.number:
            page.put(self._prefix(STATE) + self.game.state())  # a page that comes back to a paused game
            if self._diagram is not None and self._diagram[0] == self.number:
                page.put(self._prefix(EXTRAS) + self._diagram[1])
        self._notify({"kind": "status", **self._status()})
        sender = asyncio.create_task(page.send())
        try:
            while True:
                text = await socket.receive_text()
                # a game that is left for another one is recorded first, which takes a second
                is_start = '"start"' in text
                error = await asyncio.to_thread(self._receive, page, text) if is_start else self._receive(page, text)
                if error:
                    page.put(json.dumps({"kind": "error", "text": error[:200]}))
        except (WebSocketDisconnect, KeyError, RuntimeError):
            pass
        finally:
            sender.cancel()
            self.pages.pop(socket, None)
            if page.side is not None:
                self.controls[page.side] = list(self.game.neutral)
            if not any(map(self._flies, self.pages.values())):
                self.paused = True
            self._notify({"kind": "status", **self._status()})

    def close(self) -> None:
        """End the threads; keep the game that runs."""
        self._ending.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(5)
        self._drawer.shutdown(cancel_futures=True)
        gc.unfreeze()
        self._keep()

    # -- what pages say ----------------------------------------------------------------------------------------------

    def _receive(self, page: Page, text: str) -> str:
        """Act on a message; return what is wrong with it, which then changes nothing."""
        try:
            said = json.loads(text)
            if page.side is None:
                raise ValueError("all seats are taken: this page watches")
            self._act(page, page.side, said["kind"], said)
        except ValueError as error:
            return str(error)
        except (TypeError, KeyError, OverflowError, RecursionError):
            return "the message is malformed"
        return ""

    def _act(self, page: Page, own_side: int, kind: str, said: dict[str, Any]) -> None:
        if kind == "input":
            side, values = int(said.get("side", own_side)), [float(x) for x in said["values"]]
            shared = len(self.pages) == 1 or own_side == side  # one page may fly both sides with two sets of keys
            if side not in (0, 1) or not shared or len(values) != len(self.game.neutral):
                raise ValueError("the input is not for a side of this page")
            if not all(math.isfinite(x) and -1 <= x <= 1 for x in values):
                raise ValueError("controls must be between -1 and 1")
            self.controls[side] = values
            self.heard[side] = int(said.get("number", 0)) & 0xFFFFFFFF
            return
        if kind == "start":
            self._start(page, {key: said[key] for key in ("opponent", "start") if key in said})
        elif kind in ("pause", "scale") and not self._flies(page):
            raise ValueError("this page watches: only who flies pauses the game or changes its speed")
        elif kind == "pause":
            self.paused = bool(said["on"])
            self.failure = self.failure if self.paused else ""
            self._wake.set()
        elif kind == "scale":
            if float(said["scale"]) not in SCALES:
                raise ValueError(f"the time scale must be one of {', '.join(map(str, SCALES))}")
            self.scale = float(said["scale"])
        else:
            raise ValueError(f"unknown kind {str(kind)[:20]!r}")
        self._notify({"kind": "status", **self._status()})

    def _flies(self, page: Page) -> bool:
        """Return whether a page flies a side of the present game; the others watch it."""
        return page.side == 0 or page.side == 1 and self.game.describe()["opponent"] is None

    def _start(self, page: Page, options: dict[str, Any]) -> None:
        """Begin a game, unless it would end that of somebody else."""
        others = [other for other in self.pages.values() if other is not page and other.side == 0]
        if page.side == 1 and others:
            if self.number and not self._over and not self._flies(page):
                raise ValueError("another page flies: a new game can begin when its game has ended")
            if options.get("opponent") is not None:
                raise ValueError("the first page flies against agents: choose two people here")
        elif page.side == 1:  # the first seat is free
            page.side = 0
            page.put(json.dumps({"kind": "seat", "side": 0, **self._status()}))
        if not self._lock.acquire(timeout=DECISION_S):
            raise ValueError("the agent of the last game hangs: start slipstream play again")
        try:
            self._keep()
            self.game.start(options)
            self.number += 1
            self._over, self.paused, self.failure, self.record = False, False, "", {}
        finally:
            self._lock.release()
        self._wake.set()

    def _status(self) -> dict[str, Any]:
        seats = sorted(page.side for page in self.pages.values() if page.side is not None)
        return {"paused": self.paused, "scale": self.scale, "seats": seats, "game": self.number, "begun": self.describe(),
                "failure": self.failure, "result": self.game.result() if self._over else None,
                "record": self.record, "scores": [{"pair": list(pair), "scores": counts} for pair, counts in self.scores.items()],
                "ratings": self.game.ratings(self.scores)}  # fmt: skip

    def _notify(self, message: dict[str, Any]) -> None:
        self._broadcast(json.dumps(message))

    # -- the threads -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Step the game in time: a step that is late is made up for, up to a quarter of a second."""
        set_threads(1)
        self._warm_up()
        due = time.perf_counter()
        while not self._ending.is_set():
            if self.paused or self._over or not self.pages:
                self._wake.wait(0.5 if self.pages else 5.0)
                self._wake.clear()
                due = time.perf_counter()
                continue
            now = time.perf_counter()
            if now < due:
                time.sleep(due - now)
                now = time.perf_counter()
            late = now - due
            due = due + self.game.step_s / self.scale if late < 0.25 else now + self.game.step_s / self.scale
            try:
                with self._lock:
                    self._deadline = now + DECISION_S
                    self.game.step(self.controls)
                    self._deadline = math.inf
                    result = self.game.result()
                    self._send_state(now, is_last=result is not None)
            except Exception as error:  # an agent of the user's own that fails: the server continues
                self._deadline = math.inf
                self._fail(str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}")
                continue
            if result:
                self._end(result)

    def _fail(self, why: str) -> None:
        self.paused, self.failure = True, why[:400]
        self._notify({"kind": "status", **self._status()})

    def _send_state(self, now: float, is_last: bool) -> None:
        """Send the present state, and several times a second let the diagram be computed, also of the last state."""
        self.steps += 1
        self._broadcast(self._prefix(STATE) + self.game.state())
        is_idle = self._drawn is None or self._drawn.done()
        if is_last or (is_idle and now - self._looked >= EXTRAS_S):
            self._looked = now
            self._drawn = self._drawer.submit(self._draw, self.number, self.game.snapshot())

    def _warm_up(self) -> None:
        """Load and compile before the first game: 0.3 s, or several seconds after an installation."""
        with self._lock:
            with contextlib.suppress(Exception):  # an agent that fails is reported by the game
                self.game.step(self.controls)
                self.game.extras(self.game.snapshot())
            gc.collect()
            gc.freeze()  # a full collection in the middle of a game took 0.13 s, for torch's objects

    def _watch(self) -> None:
        """Watch the time of the game's steps."""
        while not self._ending.wait(1.0):
            if time.perf_counter() > self._deadline:
                self._deadline = math.inf
                self._fail(f"the agent {self.game.names[1]} has not decided for {DECISION_S:g} s: its code hangs")

    def _draw(self, number: int, snapshot: Any) -> None:
        """Compute a diagram beside the game."""
        try:
            data = self.game.extras(snapshot)
        except Exception as error:  # the game continues without a diagram
            self._notify({"kind": "error", "text": f"no diagram: {error}"})
            return
        if data is not None:
            self._diagram = number, data
            self._broadcast(self._prefix(EXTRAS) + data)

    def _prefix(self, kind: int) -> bytes:
        return PREFIX.pack(kind, self.paused, self.scale, self.number, *self.heard, self.steps & 0xFFFFFFFF)

    def _broadcast(self, message: bytes | str) -> None:
        def put() -> None:
            for page in list(self.pages.values()):
                page.put(message)

        if self._loop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(put)
            except RuntimeError:  # the server ends
                self._ending.set()

    def _end(self, result: dict[str, Any]) -> None:
        """Count the result, keep the recording, and notify the pages."""
        self._over = True
        if result["pair"]:
            counts = self.scores.setdefault(tuple(result["pair"]), [0, 0, 0])
            counts[{1: 0, 0: 1, 2: 2}[result["winner"]]] += 1
        self._notify({"kind": "status", **self._status()})
        with self._lock:  # a new game begins after that
            self._keep()
        self._notify({"kind": "status", **self._status()})

    # -- files -------------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Write the recording of the game that is running or has just ended, once."""
        if self._kept == self.number:
            return
        names = self.game.names
        recording = self.game.recording(" against ".join(names))
        if recording is None:
            return
        self._kept = self.number
        stem = re.sub(r"[^\w.-]+", "-", f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{'-'.join(names)}")
        try:
            path = recording.save(self.folder / f"{stem}{SUFFIX}")
            self.record = {"file": path.name, "debrief": recording.meta.get("debrief")}
        except (OSError, SaveError) as error:
            self._notify({"kind": "error", "text": f"the game was not recorded: {error}"})


class Page:
    """One connection: its seat, and what waits to be sent: texts, and the newest state and diagram."""

    def __init__(self, socket: WebSocket, side: int | None) -> None:
        self.socket, self.side = socket, side
        self._texts: deque[str] = deque(maxlen=MOST_TEXTS)
        self._newest: dict[int, bytes] = {}  # by kind
        self._ready = asyncio.Event()

    def put(self, message: bytes | str) -> None:
        """Queue a message; a page that is behind loses older states."""
        if isinstance(message, str):
            self._texts.append(message)
        else:
            self._newest[message[0]] = message
        self._ready.set()

    async def send(self) -> None:
        """Send what is queued, for ever."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self._texts:
                await self.socket.send_text(self._texts.popleft())
            while self._newest:
                await self.socket.send_bytes(self._newest.pop(next(iter(self._newest))))
