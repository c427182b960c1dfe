"""Watch one rank of a data-parallel training from outside: a small process, which is still there if the rank is killed
or stopped. `Ranks` starts it as a script, so it loads neither torch nor anything of ours.

Rank and guard speak in lines of JSON. A rank reports several times per `distributed.timeout_s` that it is alive. Its
guard passes that on to the guard of rank 0, which decides who is lost and sends that to all. Then every guard ends its
rank, and one guard per node prints the sentence. Time is counted in ticks of the guard, so that a job that was
suspended as a unit and continues has lost nobody.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from typing import Any

HUB = -1  # the source of what the guard of rank 0 sends
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1")  # a scheduler may send them to all processes
LEAVE = 3  # ticks in which the others read a last message
GONE = "was killed or has crashed"
NO_HUB = f"{GONE}, or its machine is lost"


class Guard:
    """The guard of one rank.

    Args:
        settings: What the rank sends first: `rank`, `ranks` (a [node, local rank, name] each), `address` of the guard
            of rank 0, `tick_s`, and `limit` and `grace` in ticks: of silence, and to end.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.rank, self.ranks, self.tick_s = settings["rank"], settings["ranks"], settings["tick_s"]
        self.limit, self.grace, self.parent = settings["limit"], settings["grace"], os.getppid()
        self.seconds = f"{self.limit * self.tick_s:.3g} s"
        self.events: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()  # source and line; "" at the end
        self.links: list[socket.socket] = []  # on rank 0 to the other guards, else to that of rank 0
        self.missed = {HUB: 0} if self.rank else dict.fromkeys(range(len(self.ranks)), 0)  # ticks of silence
        self.hint, self.over = "Start the training again", False
        self.lost: tuple[int, str] | None = None
        host, port = settings["address"]
        if self.rank:
            self.link(socket.create_connection((host, port), self.limit * self.tick_s), HUB)
            self.send({"rank": self.rank})
        else:
            dual = not host and socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if dual else socket.AF_INET
            server = socket.create_server((host, 0), family=family, dualstack_ipv6=dual)
            answer(str(server.getsockname()[1]))
            threading.Thread(target=self.accept, args=[server], daemon=True).start()
        threading.Thread(target=self.read, args=[sys.stdin, self.rank], daemon=True).start()

    def accept(self, server: socket.socket) -> None:
        """Link the guards of the other ranks."""
        while True:
            self.link(server.accept()[0], None)

    def link(self, connection: socket.socket, source: int | None) -> None:
        """Read and write a connection; one without a known source names its rank first."""
        connection.settimeout(None)
        self.links.append(connection)
        threading.Thread(target=self.read, args=[connection.makefile(), source], daemon=True).start()

    def read(self, stream: Any, source: int | None) -> None:
        """Put the lines of a stream into the queue."""
        with contextlib.suppress(OSError, ValueError):
            rank = int(json.loads(stream.readline())["rank"]) if source is None else source
            with contextlib.suppress(OSError):
                for line in stream:
                    self.events.put((rank, line))
            self.events.put((rank, ""))

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the guard of rank 0, or from there to all."""
        for link in self.links:
            with contextlib.suppress(OSError):
                link.sendall(json.dumps(message).encode() + b"\n")

    def run(self) -> None:
        """Watch until the training is over, or a rank is lost."""
        while self.lost is None:
            self.take_events(time.monotonic() + self.tick_s)
            if self.over:
                answer("over")
                return self.leave({"over": True})
            if os.getppid() != self.parent:
                self.take(self.rank, {"lost": GONE})
            self.count_silence()
            if not self.rank:
                self.send({})
        self.end(*self.lost)

    def take_events(self, deadline: float) -> None:
        """Take what arrives until the end of this tick."""
        while self.lost is None and not self.over and (left := deadline - time.monotonic()) > 0:
            try:
                source, line = self.events.get(timeout=left)
            except queue.Empty:
                return
            self.take(source, json.loads(line) if line else {"lost": NO_HUB if source == HUB else GONE})

    def take(self, source: int, message: dict[str, Any]) -> None:
        """Take a message of a rank, or of the guard of rank 0."""
        if source == self.rank:
            self.hint = message.get("hint", self.hint)
            self.over = self.over or "over" in message
            if self.rank:
                self.send(message)
        if source not in self.missed:  # of this rank, which that of rank 0 judges, or of one that is over
            return
        self.missed[source] = 0
        if "over" in message:
            del self.missed[source]
            self.over = self.over or source == HUB
        elif "lost" in message:
            self.lost = self.lost or (message.get("rank", max(source, 0)), message["lost"])

    def count_silence(self) -> None:
        """Count a tick for those that may be silent, unless all ranks are stopped together."""
        if not self.rank and min(self.missed.values(), default=2) >= 2:
            return
        for source in self.missed:
            self.missed[source] += 1
            if self.missed[source] > self.limit and self.lost is None:
                self.lost = max(source, 0), f"has not answered for {self.seconds} (stopped, or its machine is lost)"

    def leave(self, message: dict[str, Any]) -> None:
        """Send a last message, and wait for a moment until the others have read it."""
        for _ in range(LEAVE):
            if self.rank or len(self.links) == len(self.ranks) - 1:
                break
            time.sleep(self.tick_s)  # a guard has not started yet
        self.send(message)
        for link in self.links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_WR)
        open_links, deadline = len(self.links), time.monotonic() + LEAVE * self.tick_s
        while open_links and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                source, line = self.events.get(timeout=left)
                open_links -= source != self.rank and not line

    def end(self, lost: int, how: str) -> None:
        """Name the rank that is lost, once per node, and end this one."""
        node, local, _ = self.ranks[self.rank]
        its_node, its_local, name = self.ranks[lost]
        speaker = 1 if how == NO_HUB and (its_node, its_local) == (node, 0) else 0
        if local == speaker and not (how.startswith("failed") and its_node == node):  # that rank has said it
            who = f"rank {lost} of {len(self.ranks)} ({name})"
            print(f"slipstream train: {who} {how}; the training ends. {self.hint}", file=sys.stderr, flush=True)
        answer("lost first" if lost == self.rank else "lost")
        self.leave({} if self.rank else {"rank": lost, "lost": how})
        stopped = lost == self.rank and not how.startswith("failed")
        for _ in range(0 if stopped else self.grace + 2):  # it ends by itself before
            if os.getppid() != self.parent:
                return
            time.sleep(self.tick_s)
        if os.getppid() == self.parent:
            os.kill(self.parent, signal.SIGKILL)


def answer(text: str) -> None:
    """Send a line to the rank."""
    with contextlib.suppress(OSError):
        os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    for name in STOP_SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    Guard(json.loads(sys.stdin.readline())).run()
    os._exit(0)  # its threads wait for lines
