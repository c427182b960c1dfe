"""MAVLink over UDP, by pymavlink: PX4, ArduPilot, or the vehicle of `slipstream fly vehicle=mujoco`.

| message | content |
|---|---|
| ODOMETRY | local NED pose, velocity in the body or in NED. Without it: LOCAL_POSITION_NED with ATTITUDE_QUATERNION |
| OBSTACLE_DISTANCE | a ring of distances, level and around the body; not used if a sector is unknown (65535) |
| TUNNEL | type 40001: 3-D clouds and tracked obstacles, as pieces of `messages.pack` |
| SET_POSITION_TARGET_LOCAL_NED | the command: velocity and yaw |
| HEARTBEAT | once a second, as an onboard computer |

A pilot listens on the address and answers the first system that it hears. It sends nothing but these last two: it never
arms and never changes the mode. Once a cloud came, rings are not used.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import time
from typing import Any

import numpy as np

from slipstream.deploy import messages as frames
from slipstream.deploy.links import AT_ONCE, split_address
from slipstream.deploy.messages import Cloud, Command, Message, Odometry, pack, rotation, unpack
from slipstream.deploy.sensors import scan_points

VELOCITY_AND_YAW = 0b0000_1001_1100_0111  # type_mask: position, acceleration and yaw rate are ignored
TUNNEL_TYPE = 40_001  # for private use
PIECE, PIECE_BYTES = struct.Struct("<HHH"), 120  # before a piece of a message: its number, the piece, all pieces
RING, UNKNOWN = 72, 65_535
RING_MAX = UNKNOWN - 2  # cm; one more means no obstacle


class MavlinkLink:
    """One end of a MAVLink connection; `address` is the pilot's HOST:PORT."""

    def __init__(self, address: str, role: str = "pilot") -> None:
        os.environ.setdefault("MAVLINK20", "1")  # pymavlink reads it at import
        from pymavlink import mavutil

        host, port = split_address(address)
        self.role = role
        way, component = ("udpout", 1) if role == "vehicle" else ("udpin", 191)  # MAV_COMP_ID_ONBOARD_COMPUTER
        settings = {"source_system": 1, "source_component": component, "dialect": "ardupilotmega"}
        self.connection = mavutil.mavlink_connection(f"{way}:{host}:{port}", **settings)
        self._mav, self._mavlink, self._beat = self.connection.mav, mavutil.mavlink, -math.inf
        self._attitude: Any = None
        self._sent, self._pieces, self._has_clouds = 0, (-1, bytearray()), False

    def receive(self, timeout_s: float) -> list[Message]:
        """Return what came, after at most `timeout_s`."""
        received: list[Message] = []
        self.connection.select(timeout_s)
        for _ in range(AT_ONCE):
            if (m := self.connection.recv_msg()) is None:
                break
            # from the system whose heartbeat came first
            if self.role == "vehicle" or m.get_srcSystem() == self.connection.target_system:
                with contextlib.suppress(ValueError, OverflowError):  # numbers that cannot be
                    message = self._read(m)
                    received += [] if message is None else [message]
        return received

    def send(self, message: Message) -> None:
        """Send one message, and a heartbeat when it is due."""
        m = self._mavlink
        if time.monotonic() - self._beat > 1:
            self._beat = time.monotonic()
            kind = (m.MAV_TYPE_ONBOARD_CONTROLLER, m.MAV_AUTOPILOT_INVALID, 0, 0, 0)
            if self.role == "vehicle":
                kind = (m.MAV_TYPE_QUADROTOR, m.MAV_AUTOPILOT_GENERIC, 0, 0, m.MAV_STATE_ACTIVE)
            self._mav.heartbeat_send(*kind)
        if isinstance(message, Command):
            self._send_command(message)
        elif isinstance(message, Odometry):
            self._send_odometry(message)
        else:
            self._send_packed(message)
            if isinstance(message, Cloud):
                self._send_ring(message)

    def close(self) -> None:
        """Close the socket."""
        self.connection.close()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, m: Any) -> Message | None:
        """Return the message of ours that a MAVLink message is, or completes."""
        kind, frame = m.get_type(), self._mavlink
        if kind == "ODOMETRY" and m.frame_id == frame.MAV_FRAME_LOCAL_NED:
            velocity = np.array((m.vx, m.vy, m.vz))
            if m.child_frame_id == frame.MAV_FRAME_BODY_FRD:
                velocity = rotation(np.array(m.q)) @ velocity
            return _odometry(m.time_usec * 1e-6, m, velocity, m.q)
        if kind == "ATTITUDE_QUATERNION":
            self._attitude = m.q1, m.q2, m.q3, m.q4
        if kind == "LOCAL_POSITION_NED" and self._attitude is not None:
            return _odometry(m.time_boot_ms * 1e-3, m, (m.vx, m.vy, m.vz), self._attitude)
        if kind == "OBSTACLE_DISTANCE" and m.frame == frame.MAV_FRAME_BODY_FRD and not self._has_clouds:
            return Cloud(m.time_usec * 1e-6, _ring_points(m))
        if kind == "TUNNEL" and m.payload_type == TUNNEL_TYPE and m.payload_length > PIECE.size:
            return self._read_piece(bytes(m.payload[: m.payload_length]))
        if kind == "SET_POSITION_TARGET_LOCAL_NED" and self.role == "vehicle" and m.type_mask == VELOCITY_AND_YAW:
            velocity = frames.swap_ned_enu((m.vx, m.vy, m.vz))
            return Command(m.time_boot_ms * 1e-3, (*velocity, frames.swap_yaw(m.yaw)))
        return None

    def _read_piece(self, data: bytes) -> Message | None:
        """Keep a piece of a packed message; return the message if it was the last one and none is missing."""
        number, piece, count = PIECE.unpack_from(data)
        before = bytearray() if piece == 0 else self._pieces[1] if self._pieces[0] == number else None
        if before is None or len(before) != piece * PIECE_BYTES:
            return None
        before += data[PIECE.size :]
        self._pieces = number, before
        if piece + 1 < count:
            return None
        message = unpack(bytes(before))
        self._has_clouds |= isinstance(message, Cloud)
        return message

    # -- writing -----------------------------------------------------------------------------------------------------

    def _send_command(self, message: Message) -> None:
        velocity, zeros = frames.swap_ned_enu(message.values[0, :3]), (0.0, 0.0, 0.0)
        frame, boot_ms = self._mavlink.MAV_FRAME_LOCAL_NED, int(message.stamp * 1e3) % 2**32
        address = boot_ms, self.connection.target_system or 1, self.connection.target_component, frame
        numbers = *zeros, *velocity, *zeros, frames.swap_yaw(message.values[0, 3]), 0.0
        self._mav.set_position_target_local_ned_send(*address, VELOCITY_AND_YAW, *numbers)

    def _send_odometry(self, message: Message) -> None:
        values, m = message.values[0], self._mavlink
        quat, unknown = frames.swap_attitude(values[6:]), [math.nan] + [0.0] * 20
        velocity = rotation(quat).T @ frames.swap_ned_enu(values[3:6])
        numbers = *frames.swap_ned_enu(values[:3]), quat, *velocity, 0.0, 0.0, 0.0, unknown, unknown
        self._mav.odometry_send(_microseconds(message), m.MAV_FRAME_LOCAL_NED, m.MAV_FRAME_BODY_FRD, *numbers)

    def _send_packed(self, message: Message) -> None:
        data = pack(message)
        self._sent = (self._sent + 1) % 2**16
        pieces = [data[k : k + PIECE_BYTES] for k in range(0, len(data), PIECE_BYTES)]
        for k, piece in enumerate(pieces):
            payload = PIECE.pack(self._sent, k, len(pieces)) + piece
            self._mav.tunnel_send(0, 0, TUNNEL_TYPE, len(payload), payload.ljust(128, b"\0"))

    def _send_ring(self, message: Message) -> None:
        x, y, z = frames.swap_frd_flu(message.values[np.abs(message.values[:, 2]) < 0.02]).T
        ring = np.full(RING, RING_MAX + 1.0)
        place = np.rint(np.arctan2(y, x) * RING / (2 * np.pi)).astype(int) % RING
        np.minimum.at(ring, place, np.rint(100 * np.hypot(x, y)))
        frame = {"increment_f": 360 / RING, "angle_offset": 0.0, "frame": self._mavlink.MAV_FRAME_BODY_FRD}
        self._mav.obstacle_distance_send(_microseconds(message), 0, ring.astype(int).tolist(), 0, 1, RING_MAX, **frame)


def _ring_points(m: Any) -> np.ndarray:
    """Return the hits of an OBSTACLE_DISTANCE: 0 cm is touching, max_distance + 1 no obstacle. Raises ValueError if a
    sector of the circle is unknown: it must not count as free."""
    step = m.increment_f or m.increment or math.nan
    count = round(360 / abs(step))
    sectors = np.array(m.distances[:count])  # more of them are not used
    if not 0 < count <= RING or (sectors == UNKNOWN).any():
        raise ValueError("an OBSTACLE_DISTANCE with unknown sectors")
    ranges = np.where(sectors == m.max_distance + 1, np.inf, np.maximum(sectors, 1) / 100)
    first, step = -math.radians(m.angle_offset), -math.radians(step)  # clockwise
    return scan_points(ranges, first, step, 0.0, UNKNOWN / 100)


def _odometry(stamp: float, m: Any, velocity: Any, quat: Any) -> Odometry:
    """Return the odometry of a message with a position, a velocity in NED and an attitude FRD to NED."""
    vectors = (frames.swap_ned_enu(x) for x in ((m.x, m.y, m.z), velocity))
    return Odometry(stamp, np.concatenate((*vectors, frames.swap_attitude(quat))))


def _microseconds(message: Message) -> int:
    return max(0, int(message.stamp * 1e6))
