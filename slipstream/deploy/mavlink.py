"""MAVLink over UDP, by pymavlink: PX4, ArduPilot, or the vehicle of `slipstream fly vehicle=mujoco`.

| message | content |
|---|---|
| ODOMETRY | local NED pose, velocity in the body or in NED. Without it: LOCAL_POSITION_NED with ATTITUDE_QUATERNION |
| OBSTACLE_DISTANCE | a ring of distances; if OBSTACLE_DISTANCE_3D of the same time came before, those are the cloud |
| TUNNEL | type 40001: up to 3 tracked obstacles; MAVLink has no message for them with velocities |
| SET_POSITION_TARGET_LOCAL_NED | the command: velocity and yaw |
| HEARTBEAT | once a second, as an onboard computer |

A pilot listens on the address and answers the first system that it hears. It sends nothing but these last two: it never
arms and never changes the mode.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import time
from typing import Any

import numpy as np

from slipstream.deploy.messages import (
    Cloud,
    Command,
    Message,
    Obstacles,
    Odometry,
    rotation,
    swap_attitude,
    swap_frd_flu,
    swap_ned_enu,
    swap_yaw,
)
from slipstream.deploy.sensors import scan_points
from slipstream.deploy.udp import split_address

VELOCITY_AND_YAW = 0b0000_1001_1100_0111  # type_mask: position, acceleration and yaw rate are ignored
TUNNEL_TYPE, PER_TUNNEL = 40_001, 3  # a type for private use; rows of 8 float32
RING = 72
NO_HIT = 65_535


class MavlinkLink:
    """One end of a MAVLink connection; `address` is the pilot's HOST:PORT."""

    def __init__(self, address: str, role: str = "pilot") -> None:
        os.environ.setdefault("MAVLINK20", "1")  # pymavlink reads it at import
        try:
            from pymavlink import mavutil
        except ImportError:
            raise ImportError("transport=mavlink needs pymavlink: pip install 'slipstream-rl[fly]'") from None
        split_address(address)
        self.role = role
        system = (1, 1) if role == "vehicle" else (1, 191)  # MAV_COMP_ID_ONBOARD_COMPUTER
        way = "udpout" if role == "vehicle" else "udpin"
        settings = {"source_system": system[0], "source_component": system[1], "dialect": "ardupilotmega"}
        self.connection = mavutil.mavlink_connection(f"{way}:{address}", **settings)
        self._mav, self._mavlink, self._beat = self.connection.mav, mavutil.mavlink, -math.inf
        self._points: tuple[int, list[Any]] = (0, [])  # of one time_boot_ms
        self._rows: tuple[int, list[Any]] = (0, [])  # of one stamp
        self._attitude: Any = None

    def receive(self, timeout_s: float) -> list[Message]:
        """Return what came, after at most `timeout_s`."""
        found: list[Message] = []
        self.connection.select(timeout_s)
        while len(found) < 100 and (message := self.connection.recv_msg()) is not None:
            read = getattr(self, f"_read_{message.get_type().lower()}", None)
            known = self.role == "vehicle" or message.get_srcSystem() == self.connection.target_system
            if read and known:  # from the system whose heartbeat came first
                with contextlib.suppress(ValueError, OverflowError):  # numbers that cannot be
                    found += read(message)
        return found

    def send(self, message: Message) -> None:
        """Send one message, and a heartbeat when it is due."""
        if time.monotonic() - self._beat > 1:
            self._beat, m = time.monotonic(), self._mavlink
            if self.role == "pilot":
                self._mav.heartbeat_send(m.MAV_TYPE_ONBOARD_CONTROLLER, m.MAV_AUTOPILOT_INVALID, 0, 0, 0)
            else:
                self._mav.heartbeat_send(m.MAV_TYPE_QUADROTOR, m.MAV_AUTOPILOT_GENERIC, 0, 0, m.MAV_STATE_ACTIVE)
        getattr(self, f"_send_{type(message).__name__.lower()}")(message)

    def close(self) -> None:
        """Close the socket."""
        self.connection.close()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read_odometry(self, m: Any) -> list[Message]:
        if m.frame_id != self._mavlink.MAV_FRAME_LOCAL_NED:
            return []
        velocity = np.array((m.vx, m.vy, m.vz))
        if m.child_frame_id == self._mavlink.MAV_FRAME_BODY_FRD:
            velocity = rotation(np.array(m.q)) @ velocity
        return [_odometry(m.time_usec * 1e-6, (m.x, m.y, m.z), velocity, m.q)]

    def _read_attitude_quaternion(self, m: Any) -> list[Message]:
        self._attitude = (m.q1, m.q2, m.q3, m.q4)
        return []

    def _read_local_position_ned(self, m: Any) -> list[Message]:
        if self._attitude is None:
            return []
        return [_odometry(m.time_boot_ms * 1e-3, (m.x, m.y, m.z), (m.vx, m.vy, m.vz), self._attitude)]

    def _read_obstacle_distance_3d(self, m: Any) -> list[Message]:
        if m.frame == self._mavlink.MAV_FRAME_BODY_FRD:
            if self._points[0] != m.time_boot_ms:
                self._points = m.time_boot_ms, []
            self._points[1].append((m.x, m.y, m.z))
        return []

    def _read_obstacle_distance(self, m: Any) -> list[Message]:
        if m.frame != self._mavlink.MAV_FRAME_BODY_FRD:
            return []
        stamp_ms = m.time_usec // 1000
        (points_ms, hits), self._points = self._points, (0, [])
        if points_ms == stamp_ms and hits:
            return [Cloud(stamp_ms * 1e-3, swap_frd_flu(np.array(hits)))]
        ranges = np.where(np.array(m.distances) == NO_HIT, np.inf, np.array(m.distances) / 100)
        step = math.radians(m.increment_f or m.increment)  # clockwise
        low, high = m.min_distance / 100, m.max_distance / 100
        points = scan_points(ranges, -math.radians(m.angle_offset), -step, low, high)
        return [Cloud(stamp_ms * 1e-3, points)]

    def _read_tunnel(self, m: Any) -> list[Message]:
        if m.payload_type != TUNNEL_TYPE or m.payload_length % 32 != 8:
            return []
        data = bytes(m.payload[: m.payload_length])
        stamp_ms, first, count = struct.unpack("<IHH", data[:8])
        if first == 0:
            self._rows = stamp_ms, []
        self._rows[1].extend(np.frombuffer(data[8:], "<f4").reshape(-1, 8))
        complete = self._rows[0] == stamp_ms and len(self._rows[1]) == count
        return [Obstacles(stamp_ms * 1e-3, np.array(self._rows[1]).reshape(-1, 8))] if complete else []

    def _read_set_position_target_local_ned(self, m: Any) -> list[Message]:
        if self.role != "vehicle" or m.type_mask != VELOCITY_AND_YAW:
            return []
        velocity = swap_ned_enu((m.vx, m.vy, m.vz))
        return [Command(m.time_boot_ms * 1e-3, np.array((*velocity, swap_yaw(m.yaw))))]

    # -- writing -----------------------------------------------------------------------------------------------------

    def _send_command(self, message: Message) -> None:
        x, y, z, yaw = message.values[0]
        velocity = swap_ned_enu((x, y, z))
        frame, boot_ms = self._mavlink.MAV_FRAME_LOCAL_NED, _milliseconds(message.stamp)
        target = self.connection.target_system or 1, self.connection.target_component
        zeros = (0.0, 0.0, 0.0)
        self._mav.set_position_target_local_ned_send(
            boot_ms, *target, frame, VELOCITY_AND_YAW, *zeros, *velocity, *zeros, swap_yaw(yaw), 0.0
        )

    def _send_odometry(self, message: Message) -> None:
        values, m = message.values[0], self._mavlink
        quat, unknown = swap_attitude(values[6:]), [math.nan] + [0.0] * 20
        velocity = rotation(quat).T @ swap_ned_enu(values[3:6]) if np.isfinite(values).all() else values[3:6]
        frames = m.MAV_FRAME_LOCAL_NED, m.MAV_FRAME_BODY_FRD
        numbers = *swap_ned_enu(values[:3]), quat, *velocity, 0.0, 0.0, 0.0, unknown, unknown
        self._mav.odometry_send(_microseconds(message.stamp), *frames, *numbers)

    def _send_cloud(self, message: Message) -> None:
        points, m = swap_frd_flu(message.values), self._mavlink
        stamp_ms = _milliseconds(message.stamp)
        ring = np.full(RING, NO_HIT)
        for x, y, z in points:
            self._mav.obstacle_distance_3d_send(stamp_ms, 0, m.MAV_FRAME_BODY_FRD, NO_HIT, x, y, z, 0.0, 100.0)
            if abs(z) < 0.02 and math.isfinite(x):
                k = round(math.atan2(y, x) / (2 * math.pi / RING)) % RING
                ring[k] = min(ring[k], round(100 * math.hypot(x, y)))
        frame = {"increment_f": 360 / RING, "angle_offset": 0.0, "frame": m.MAV_FRAME_BODY_FRD}
        self._mav.obstacle_distance_send(stamp_ms * 1000, 0, ring.tolist(), 0, 1, NO_HIT - 1, **frame)

    def _send_obstacles(self, message: Message) -> None:
        rows = message.values.astype("<f4")
        for k in range(0, max(1, len(rows)), PER_TUNNEL):
            data = struct.pack("<IHH", _milliseconds(message.stamp), k, len(rows)) + rows[k : k + PER_TUNNEL].tobytes()
            self._mav.tunnel_send(0, 0, TUNNEL_TYPE, len(data), data.ljust(128, b"\0"))


def _odometry(stamp: float, position: Any, velocity: Any, quat: Any) -> Odometry:
    """Return the odometry of NED vectors and an attitude FRD to NED."""
    return Odometry(stamp, np.concatenate((swap_ned_enu(position), swap_ned_enu(velocity), swap_attitude(quat))))


def _milliseconds(stamp: float) -> int:
    return int(stamp * 1e3) % 2**32


def _microseconds(stamp: float) -> int:
    return max(0, int(stamp * 1e6))
