"""The TCP addresses on which processes listen, read from /proc (Linux)."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from pathlib import Path

LISTEN = "0A"


def descendants(pid: int) -> list[int]:
    """Return a process and all processes below it."""
    children = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [pid, *(below for child in children for below in descendants(child))]


def listening(pids: list[int]) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses on which these processes listen."""
    sockets = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            sockets |= {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and f"socket:[{fields[9]}]" in sockets:
                digits = fields[1].partition(":")[0]
                words = [bytes.fromhex(digits[i : i + 8])[::-1] for i in range(0, len(digits), 8)]  # little endian
                address = ipaddress.ip_address(b"".join(words))
                found.add(getattr(address, "ipv4_mapped", None) or address)
    return found
