"""The transports: what a link is, the plain one by UDP, and the others by name.

The package of a transport is imported when it is used.
"""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Protocol

from slipstream.deploy.messages import Message, pack, unpack

TRANSPORTS = ("udp", "dds", "ros1", "mavlink")
REMEDIES = {"ros1": "apt install python3-rospy python3-nav-msgs python3-sensor-msgs python3-geometry-msgs"}
LARGEST = 65_507  # bytes of a datagram
AT_ONCE = 100  # messages taken per call, so that a flood does not stop the loop


class Link(Protocol):
    """One end of a transport: that of the pilot, or that of the vehicle."""

    def receive(self, timeout_s: float) -> list[Message]:
        """Return what came, after at most `timeout_s`. What is no message of ours is left out."""

    def send(self, message: Message) -> None:
        """Send one message."""

    def close(self) -> None:
        """Release sockets and threads."""


def open_link(transport: str, address: str, role: str) -> Link:
    """Return the link of a pilot or a vehicle; everything stays on this machine unless the address says otherwise."""
    try:
        if transport == "dds":
            from slipstream.deploy.dds import DdsLink

            return DdsLink(address, role)
        if transport == "ros1":
            from slipstream.deploy.ros1 import Ros1Link

            return Ros1Link(role)
        if transport == "mavlink":
            from slipstream.deploy.mavlink import MavlinkLink

            return MavlinkLink(address or "127.0.0.1:14540", role)
    except ImportError as error:
        remedy = REMEDIES.get(transport, "pip install -e '.[fly]'")
        raise ImportError(f"transport={transport} needs {error.name}: {remedy}") from None
    return UdpLink(address or "127.0.0.1:14650", role)


def find_host(name: str) -> str:
    """Return the IPv4 address of a host."""
    try:
        return socket.gethostbyname(name or "-")
    except (OSError, UnicodeError):
        raise ValueError(f"address= names a host '{name}' that is not known: write it as 192.168.0.10") from None


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_535:
        raise ValueError(f"'{address}' is no address: write it as 127.0.0.1:14650")
    return find_host(host), int(port)


class UdpLink:
    """`messages.pack` in datagrams. The vehicle has the port of `address`, the pilot the next one; what others send is
    not received.

    Args:
        address: HOST:PORT of the vehicle.
        role: pilot or vehicle.
    """

    def __init__(self, address: str, role: str = "pilot") -> None:
        host, port = split_address(address)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        here = (host, port) if role == "vehicle" else ("127.0.0.1" if host.startswith("127.") else "", port + 1)
        self._socket.bind(here)
        self._socket.connect((host, port + 1) if role == "vehicle" else (host, port))
        self._socket.setblocking(False)

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that came, after at most `timeout_s`."""
        received: list[Message] = []
        select.select([self._socket], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):  # nothing more; nobody there yet
            while len(received) < AT_ONCE:
                data = self._socket.recv(LARGEST)
                with contextlib.suppress(ValueError):
                    received.append(unpack(data))
        return received

    def send(self, message: Message) -> None:
        """Send one message."""
        data = pack(message)
        if len(data) > LARGEST:
            raise ValueError(f"a {type(message).__name__} of {len(data):,} bytes is no datagram: send less, or by dds")
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            self._socket.send(data)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
