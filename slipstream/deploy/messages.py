"""What a pilot receives and sends, as bytes too, and conversions between frames.

World ENU, body FLU, SI units, quaternions (w, x, y, z) from body to world. A message is a time stamp of its sender and
a table of numbers, so that one function packs all kinds: in UDP datagrams and in the log.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

HEADER = struct.Struct("<4sBBId")  # magic, version, kind, rows, stamp
MAGIC, VERSION = b"SLIP", 1
MAX_ROWS = 200_000  # of a message: nobody makes us allocate more


@dataclass(frozen=True, eq=False)
class Message:
    """A stamp (s, of the sender's clock) and `values` [rows, columns]."""

    stamp: float
    values: Any  # anything that is an array
    columns: ClassVar[tuple[str, ...]]
    dtype: ClassVar[str] = "<f8"

    def __post_init__(self) -> None:
        columns = len(self.columns) or (np.shape(self.values) or (1,))[-1]
        values = np.ascontiguousarray(self.values, self.dtype).reshape(-1, columns)
        if len(values) > MAX_ROWS:
            raise ValueError(f"{type(self).__name__} has {len(values):,} rows: at most {MAX_ROWS:,}")
        object.__setattr__(self, "values", values)


class Odometry(Message):
    """One row: position m, velocity m/s (both ENU), attitude."""

    columns = ("x", "y", "z", "vx", "vy", "vz", "qw", "qx", "qy", "qz")


class Cloud(Message):
    """LiDAR hits [K, 3] m, body FLU. A beam without a hit is left out; no rows at all: nothing in range."""

    columns, dtype = ("x", "y", "z"), "<f4"


class Obstacles(Message):
    """Tracked moving obstacles [K, 8]: center m, velocity m/s (both ENU), width and height m."""

    columns = ("x", "y", "z", "vx", "vy", "vz", "width", "height")


class Depth(Message):
    """Images [cameras · height, width] m along the optical axis, row by row from the top, one camera below the other.
    inf: nothing in range, −inf: too close, NaN or 0: no reading."""

    columns, dtype = (), "<f4"  # as many as there are


class Command(Message):
    """One row: velocity [3] m/s, ENU, and the yaw to hold, rad counter-clockwise from east."""

    columns = ("vx", "vy", "vz", "yaw")


KINDS: tuple[type[Message], ...] = (Odometry, Cloud, Obstacles, Command, Depth)


def pack(message: Message) -> bytes:
    """Return the message as bytes."""
    header = HEADER.pack(MAGIC, VERSION, KINDS.index(type(message)), len(message.values), message.stamp)
    return header + message.values.tobytes()


def unpack(data: bytes) -> Message:
    """Read what `pack` wrote. Raises ValueError for anything else."""
    if len(data) < HEADER.size:
        raise ValueError(f"a message of {len(data)} bytes is too short")
    magic, version, kind, rows, stamp = HEADER.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION) or kind >= len(KINDS):
        raise ValueError("not a message of this version of Slipstream")
    found = KINDS[kind]
    values = np.frombuffer(data, np.uint8, offset=HEADER.size)
    itemsize = np.dtype(found.dtype).itemsize
    columns = len(found.columns) or values.size // (itemsize * max(rows, 1))
    if rows > MAX_ROWS or values.size != rows * columns * itemsize:
        raise ValueError(f"a {found.__name__} of {rows} rows does not have {values.size} bytes")
    return found(stamp, values.view(found.dtype).reshape(rows, columns))


# -- frames ------------------------------------------------------------------------------------------------------------


def swap_ned_enu(vectors: ArrayLike) -> np.ndarray:
    """Turn NED vectors [..., 3] into ENU, or ENU into NED."""
    x, y, z = np.moveaxis(np.asarray(vectors, float), -1, 0)
    return np.stack((y, x, -z), -1)


def swap_frd_flu(vectors: ArrayLike) -> np.ndarray:
    """Turn FRD vectors [..., 3] into FLU, or FLU into FRD."""
    return np.asarray(vectors, float) * (1, -1, -1)


def swap_attitude(quat: np.ndarray) -> np.ndarray:
    """Turn an attitude FRD to NED into FLU to ENU, or back. The world frames differ by a half turn around north-east,
    the body frames by one around x."""
    w, x, y, z = np.asarray(quat, float)
    half = math.sqrt(0.5)
    return np.array((half * (w + z), half * (x + y), half * (x - y), half * (w - z)))


def swap_yaw(yaw: float) -> float:
    """Turn a yaw clockwise from north into one counter-clockwise from east, or back, in ±π."""
    return math.remainder(math.pi / 2 - yaw, 2 * math.pi)


def rotation(quat: np.ndarray) -> np.ndarray:
    """Return the matrix [3, 3], body to world, of a quaternion that need not be normalized exactly."""
    w, x, y, z = np.asarray(quat, float) / np.linalg.norm(quat)
    cross = np.array(((0, -z, y), (z, 0, -x), (-y, x, 0)))  # the cross product with (x, y, z)
    return np.eye(3) + 2 * (w * cross + cross @ cross)


def yaw_of(quat: np.ndarray) -> float:
    """Return the heading of the body's x axis, rad counter-clockwise from east."""
    ahead = rotation(quat)[:, 0]
    return math.atan2(ahead[1], ahead[0])
