"""Messages of `messages.py`, one per UDP datagram, between two addresses."""

from __future__ import annotations

import contextlib
import select
import socket

from slipstream.deploy.messages import Message, pack, unpack

LARGEST = 65_507  # bytes of a datagram


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_535:
        raise ValueError(f"'{address}' is no address: write it as 127.0.0.1:14650")
    return host, int(port)


class UdpLink:
    """The vehicle has the port of `address`, the pilot the next one. Datagrams of any other sender are not received.

    Args:
        address: HOST:PORT of the vehicle.
        role: pilot or vehicle.
        peer: the pilot's host, for a vehicle on another machine.
    """

    def __init__(self, address: str, role: str = "pilot", peer: str = "") -> None:
        host, port = split_address(address)
        self.dropped = 0  # datagrams that are no messages
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        here = (host, port) if role == "vehicle" else ("127.0.0.1" if host.startswith("127.") else "", port + 1)
        there = (peer or host, port + 1) if role == "vehicle" else (host, port)
        self._socket.bind(here)
        self._socket.connect(there)
        self._socket.setblocking(False)

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that came, after at most `timeout_s`."""
        found: list[Message] = []
        select.select([self._socket], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):  # nothing more; nobody there yet
            while len(found) < 100:
                data = self._socket.recv(LARGEST)
                try:
                    found.append(unpack(data))
                except ValueError:
                    self.dropped += 1
        return found

    def send(self, message: Message) -> None:
        """Send one message."""
        data = pack(message)
        if len(data) > LARGEST:
            raise ValueError(f"{len(message.values):,} points do not fit into a datagram: thin the cloud out")
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            self._socket.send(data)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
