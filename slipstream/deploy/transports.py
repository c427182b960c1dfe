"""The transports by name. A transport's package is imported when it is used."""

from __future__ import annotations

from slipstream.deploy.loop import Link

TRANSPORTS = ("udp", "dds", "ros1", "mavlink")


def open_link(transport: str, address: str, role: str) -> Link:
    """Return the link of a pilot or a vehicle; everything stays on this machine unless the address says otherwise."""
    if transport == "dds":
        from slipstream.deploy.dds import DdsLink

        return DdsLink(address, role)
    if transport == "ros1":
        from slipstream.deploy.ros1 import Ros1Link

        return Ros1Link(role)
    if transport == "mavlink":
        from slipstream.deploy.mavlink import MavlinkLink

        return MavlinkLink(address or "127.0.0.1:14540", role)
    from slipstream.deploy.udp import UdpLink

    return UdpLink(address or "127.0.0.1:14650", role)
