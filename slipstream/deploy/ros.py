"""ROS messages to ours and back, for ROS 1 and ROS 2: both have the same fields.

| topic | type | content |
|---|---|---|
| odom | nav_msgs/Odometry | pose in the world (ENU), velocity in the body (FLU) |
| points | sensor_msgs/PointCloud2 | LiDAR hits in the body's frame, base_link: fields x, y, z |
| depth | sensor_msgs/Image | depth images, 32FC1 (m) or 16UC1 (mm), several cameras one below the other |
| scan | sensor_msgs/LaserScan | instead of points: a planar scanner, level and centered on base_link |
| obstacles | sensor_msgs/PointCloud2 | tracked obstacles, ENU: x, y, z, vx, vy, vz, width, height |
| cmd_vel | geometry_msgs/TwistStamped | the command: velocity in the world (ENU), yaw rate |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slipstream.deploy.messages import MAX_ROWS, Cloud, Command, Depth, Message, Obstacles, Odometry, rotation, yaw_of
from slipstream.deploy.sensors import scan_points

TOPICS = {
    "odom": ("nav_msgs", "Odometry"),
    "points": ("sensor_msgs", "PointCloud2"),
    "depth": ("sensor_msgs", "Image"),
    "scan": ("sensor_msgs", "LaserScan"),
    "obstacles": ("sensor_msgs", "PointCloud2"),
    "cmd_vel": ("geometry_msgs", "TwistStamped"),
}
OF_PILOT = ("cmd_vel",)  # the others are the vehicle's
FORMATS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 8: "<f8"}  # of PointField.datatype
FLOAT32 = 7
IMAGES = {"32FC1": ("f4", 1.0), "16UC1": ("u2", 1e-3)}  # encoding: type, m
NAMES = {Odometry: "odom", Cloud: "points", Obstacles: "obstacles", Depth: "depth", Command: "cmd_vel"}
YAW_GAIN, MAX_YAW_RATE = 1.0, 0.5  # 1/s, rad/s


class RosMessages:
    """Converts between messages of one ROS and ours.

    Args:
        types: {(package, name): class}; the classes make empty messages.
    """

    def __init__(self, types: dict[tuple[str, str], Any]) -> None:
        self.types = types
        self._yaw: float | None = None  # of the last odometry

    def read(self, topic: str, m: Any) -> Message:
        """Return the message of a topic. Raises ValueError if its numbers do not fit together."""
        seconds, nanoseconds = (getattr(m.header.stamp, name) for name in _clock(m))
        stamp = seconds + nanoseconds * 1e-9
        if topic == "odom":
            pose, velocity = m.pose.pose, _numbers(m.twist.twist.linear, "xyz")
            quat = _numbers(pose.orientation, "wxyz")
            if np.isfinite(quat).all() and np.linalg.norm(quat) > 0.5:
                velocity, self._yaw = rotation(quat) @ velocity, yaw_of(quat)
            return Odometry(stamp, np.concatenate((_numbers(pose.position, "xyz"), velocity, quat)))
        if topic == "cmd_vel":
            return Command(stamp, np.append(_numbers(m.twist.linear, "xyz"), math.nan))  # it has a yaw rate instead
        if topic == "depth":
            return Depth(stamp, _read_image(m))
        if topic == "scan":
            limits = m.angle_min, m.angle_increment, m.range_min, m.range_max
            return Cloud(stamp, scan_points(np.array(m.ranges), *limits))
        kind = Obstacles if topic == "obstacles" else Cloud
        return kind(stamp, _read_cloud(m, kind.columns))

    def write(self, message: Message) -> tuple[str, Any]:
        """Return topic and message."""
        kind, values = type(message), message.values
        topic = NAMES[kind]
        m = self.types[TOPICS[topic]]()
        m.header.frame_id = "base_link" if kind in (Cloud, Depth) else "map"
        seconds, nanoseconds = _clock(m)
        _set(m.header.stamp, (seconds, nanoseconds), (int(message.stamp // 1), int(message.stamp % 1 * 1e9)))
        if kind is Odometry:
            m.child_frame_id = "base_link"
            velocity = rotation(values[0, 6:]).T @ values[0, 3:6]
            _set(m.pose.pose.position, "xyz", values[0, :3].tolist())
            _set(m.pose.pose.orientation, "wxyz", values[0, 6:].tolist())
            _set(m.twist.twist.linear, "xyz", velocity.tolist())
        elif kind is Command:
            _set(m.twist.linear, "xyz", values[0, :3].tolist())
            if self._yaw is not None:
                turn = YAW_GAIN * math.remainder(values[0, 3] - self._yaw, 2 * math.pi)
                m.twist.angular.z = max(-MAX_YAW_RATE, min(MAX_YAW_RATE, turn))
        elif kind is Depth:
            _set(m, ("height", "width", "encoding"), (*values.shape, "32FC1"))
            _set(m, ("step", "data"), (values.strides[0], values.tobytes()))
        else:
            step = 4 * len(kind.columns)
            _set(m, ("height", "width", "point_step", "row_step"), (1, len(values), step, step * len(values)))
            for k, name in enumerate(kind.columns):
                m.fields.append(self.types["sensor_msgs", "PointField"]())
                _set(m.fields[-1], ("name", "offset", "datatype", "count"), (name, 4 * k, FLOAT32, 1))
            m.is_dense, m.data = True, values.astype("<f4").tobytes()
        return topic, m


def _clock(m: Any) -> tuple[str, str]:
    """Return how this ROS calls the parts of a stamp."""
    return ("secs", "nsecs") if hasattr(m.header.stamp, "secs") else ("sec", "nanosec")


def _numbers(m: Any, names: str) -> np.ndarray:
    return np.array([getattr(m, name) for name in names], float)


def _set(m: Any, names: Any, values: Any) -> None:
    for name, value in zip(names, values, strict=True):
        setattr(m, name, value)


def _bytes(m: Any) -> bytes:
    return np.array(m.data, np.uint8).tobytes() if isinstance(m.data, list) else bytes(m.data)


def _read_image(m: Any) -> np.ndarray:
    """Return the depths [height, width] (m) of an Image."""
    if m.encoding not in IMAGES:
        raise ValueError(f"a depth image of encoding {m.encoding}: use {' or '.join(IMAGES)}")
    kind, unit = IMAGES[m.encoding]
    number, data = np.dtype((">" if m.is_bigendian else "<") + kind), _bytes(m)
    if not 0 < m.width * number.itemsize <= m.step or m.height * m.step > len(data):
        raise ValueError(f"an Image of {m.height} × {m.width} pixels, {m.step} bytes a row, in {len(data)} bytes")
    return np.ndarray((m.height, m.width), number, data, strides=(m.step, number.itemsize)) * unit


def _read_cloud(m: Any, names: tuple[str, ...]) -> np.ndarray:
    """Return the fields `names` of a PointCloud2, [K, fields]."""
    fields = {field.name: field for field in m.fields if field.datatype in FORMATS}
    count, step, data = m.width * m.height, m.point_step, _bytes(m)
    if missing := [name for name in names if name not in fields]:
        raise ValueError(f"a PointCloud2 without numbers for {', '.join(missing)}")
    if m.is_bigendian or not 0 <= count <= MAX_ROWS or count * step > len(data):
        raise ValueError(f"a PointCloud2 of {count} points of {step} bytes in {len(data)} bytes")
    points, columns = np.frombuffer(data, np.uint8, count * step).reshape(count, step), []
    for field in map(fields.__getitem__, names):  # not by a dtype with offsets, which NumPy does not check
        kind = np.dtype(FORMATS[field.datatype])
        columns.append(points[:, field.offset :][:, : kind.itemsize].copy().view(kind))
    return np.concatenate(columns, 1, dtype=float).reshape(count, len(names))
