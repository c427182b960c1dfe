"""ROS messages to ours and back, for ROS 1 and ROS 2: both have the same fields.

| topic | type | content |
|---|---|---|
| odom | nav_msgs/Odometry | pose in the world (ENU), velocity in the body (FLU) |
| points | sensor_msgs/PointCloud2 | LiDAR hits in the body's frame, base_link: fields x, y, z |
| scan | sensor_msgs/LaserScan | instead of points: a planar scanner, level and centered on base_link |
| obstacles | sensor_msgs/PointCloud2 | tracked obstacles, ENU: x, y, z, vx, vy, vz, width, height |
| cmd_vel | geometry_msgs/TwistStamped | the command: velocity in the world (ENU), yaw rate |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slipstream.deploy.messages import MAX_ROWS, Cloud, Command, Message, Obstacles, Odometry, rotation, yaw_of
from slipstream.deploy.sensors import scan_points

TOPICS = {
    "odom": ("nav_msgs", "Odometry"),
    "points": ("sensor_msgs", "PointCloud2"),
    "scan": ("sensor_msgs", "LaserScan"),
    "obstacles": ("sensor_msgs", "PointCloud2"),
    "cmd_vel": ("geometry_msgs", "TwistStamped"),
}
OF_PILOT = ("cmd_vel",)  # the others are the vehicle's
POINT: tuple[str, ...] = ("x", "y", "z")
OBSTACLE = (*POINT, "vx", "vy", "vz", "width", "height")
FORMATS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 8: "<f8"}  # of PointField.datatype
FLOAT32 = 7
YAW_GAIN, MAX_YAW_RATE = 1.0, 0.5  # 1/s, rad/s


class RosMessages:
    """Converts between messages of one ROS and ours.

    Args:
        types: {(package, name): class}; the classes make empty messages.
    """

    def __init__(self, types: dict[tuple[str, str], Any]) -> None:
        self.types = types
        self._yaw: float | None = None  # of the last odometry

    def read(self, topic: str, m: Any, stamp: float) -> Message:
        """Return the message of a topic. Raises ValueError if its numbers do not fit together."""
        if topic == "odom":
            pose, velocity = m.pose.pose, _numbers(m.twist.twist.linear, "xyz")
            quat = _numbers(pose.orientation, "wxyz")
            if np.isfinite(quat).all() and np.linalg.norm(quat) > 0.5:
                velocity, self._yaw = rotation(quat) @ velocity, yaw_of(quat)
            return Odometry(stamp, np.concatenate((_numbers(pose.position, "xyz"), velocity, quat)))
        if topic == "points":
            return Cloud(stamp, _read_cloud(m, POINT))
        if topic == "scan":
            return Cloud(
                stamp, scan_points(np.array(m.ranges), m.angle_min, m.angle_increment, m.range_min, m.range_max)
            )
        if topic == "obstacles":
            return Obstacles(stamp, _read_cloud(m, OBSTACLE))
        return Command(stamp, np.append(_numbers(m.twist.linear, "xyz"), math.nan))  # it has a yaw rate instead

    def write(self, message: Message) -> tuple[str, Any]:
        """Return topic and message, still without a stamp."""
        values = message.values
        if isinstance(message, Odometry):
            m = self._make("odom", "map")
            m.child_frame_id = "base_link"
            finite = np.isfinite(values[0]).all()
            velocity = rotation(values[0, 6:]).T @ values[0, 3:6] if finite else values[0, 3:6]
            _set(m.pose.pose.position, "xyz", values[0, :3])
            _set(m.pose.pose.orientation, "wxyz", values[0, 6:])
            _set(m.twist.twist.linear, "xyz", velocity)
            return "odom", m
        if isinstance(message, Command):
            m = self._make("cmd_vel", "map")
            _set(m.twist.linear, "xyz", values[0, :3])
            if self._yaw is not None:
                turn = YAW_GAIN * math.remainder(values[0, 3] - self._yaw, 2 * math.pi)
                m.twist.angular.z = max(-MAX_YAW_RATE, min(MAX_YAW_RATE, turn))
            return "cmd_vel", m
        tracked = isinstance(message, Obstacles)
        topic, names = ("obstacles", OBSTACLE) if tracked else ("points", POINT)
        m = self._make(topic, "map" if tracked else "base_link")
        m.height, m.width, m.point_step, m.is_dense = 1, len(values), 4 * len(names), True
        m.row_step = m.point_step * m.width
        for k, name in enumerate(names):
            field = self.types["sensor_msgs", "PointField"]()
            field.name, field.offset, field.datatype, field.count = name, 4 * k, FLOAT32, 1
            m.fields.append(field)
        m.data = values.astype("<f4").tobytes()
        return topic, m

    def _make(self, topic: str, frame: str) -> Any:
        m = self.types[TOPICS[topic]]()
        m.header.frame_id = frame
        return m


def _numbers(m: Any, names: str) -> np.ndarray:
    return np.array([getattr(m, name) for name in names], float)


def _set(m: Any, names: str, values: np.ndarray) -> None:
    for name, value in zip(names, values.tolist(), strict=True):
        setattr(m, name, value)


def _read_cloud(m: Any, names: tuple[str, ...]) -> np.ndarray:
    """Return the fields `names` of a PointCloud2, [K, fields]."""
    fields = {field.name: field for field in m.fields}
    count, step = m.width * m.height, m.point_step
    if missing := [name for name in names if name not in fields]:
        raise ValueError(f"a PointCloud2 without {', '.join(missing)}")
    data = np.array(m.data, np.uint8).tobytes() if isinstance(m.data, list) else bytes(m.data)
    if m.is_bigendian or not 0 <= count <= MAX_ROWS or count * step > len(data):
        raise ValueError(f"a PointCloud2 of {count} points of {step} bytes in {len(data)} bytes")
    formats = [FORMATS.get(fields[name].datatype, "") for name in names]
    offsets = [int(fields[name].offset) for name in names]
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": step})
    points = np.frombuffer(data, layout, count)
    return np.stack([points[name].astype(float) for name in names], -1)
