"""ROS 2 by DDS: `pip install cyclonedds` is enough, no ROS. A ROS 2 system on the network sees an ordinary node.

ROS 2 puts topics under `rt/` and mangles the names of types. Its messages are final types in XCDR1.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from slipstream.deploy.messages import Message
from slipstream.deploy.ros import OF_PILOT, TOPICS, RosMessages

# What stays on this machine, and what goes to named ones; multicast only where the user configures CycloneDDS for it.
CONFIG = """<General><Interfaces><NetworkInterface {interface}/></Interfaces><AllowMulticast>false</AllowMulticast>
</General><Discovery><ParticipantIndex>auto</ParticipantIndex><Peers>{peers}</Peers></Discovery>"""


@cache
def message_types() -> dict[tuple[str, str], Any]:
    """Return the classes of ROS 2's messages, by package and name."""
    try:
        import cyclonedds.idl.types as idl
        from cyclonedds.idl import IdlStruct
        from cyclonedds.idl.annotations import final
    except ImportError:
        raise ImportError("transport=dds needs CycloneDDS: pip install 'slipstream-rl[fly]'") from None
    made: dict[tuple[str, str], Any] = {}

    def struct(package: str, name: str, /, **fields: tuple[Any, Callable[[], Any]]) -> Callable[[], Any]:
        def fill(namespace: dict[str, Any]) -> None:
            namespace["__annotations__"] = {key: kind for key, (kind, _) in fields.items()}
            namespace |= {key: field(default_factory=default) for key, (_, default) in fields.items()}

        base = types.new_class(f"{name}_", (IdlStruct,), {"typename": f"{package}.msg.dds_.{name}_"}, fill)
        made[package, name] = final(dataclass(base))
        return made[package, name]

    def of(kind: Any) -> tuple[Any, Any]:
        return kind, kind

    text, flag, double, single = of(str), of(bool), (idl.float64, float), (idl.float32, float)
    byte, unsigned = (idl.uint8, int), (idl.uint32, int)
    covariance = (idl.array[idl.float64, 36], lambda: [0.0] * 36)
    stamp = of(struct("builtin_interfaces", "Time", sec=(idl.int32, int), nanosec=unsigned))
    header = of(struct("std_msgs", "Header", stamp=stamp, frame_id=text))
    point = of(struct("geometry_msgs", "Point", x=double, y=double, z=double))
    vector = of(struct("geometry_msgs", "Vector3", x=double, y=double, z=double))
    quaternion = of(struct("geometry_msgs", "Quaternion", x=double, y=double, z=double, w=double))
    pose = of(struct("geometry_msgs", "Pose", position=point, orientation=quaternion))
    twist = of(struct("geometry_msgs", "Twist", linear=vector, angular=vector))
    pose_cov = of(struct("geometry_msgs", "PoseWithCovariance", pose=pose, covariance=covariance))
    twist_cov = of(struct("geometry_msgs", "TwistWithCovariance", twist=twist, covariance=covariance))
    struct("geometry_msgs", "TwistStamped", header=header, twist=twist)
    struct("nav_msgs", "Odometry", header=header, child_frame_id=text, pose=pose_cov, twist=twist_cov)
    point_field = struct("sensor_msgs", "PointField", name=text, offset=unsigned, datatype=byte, count=unsigned)
    size, steps = {"height": unsigned, "width": unsigned}, {"point_step": unsigned, "row_step": unsigned}
    fields = {"fields": (idl.sequence[point_field], list), "is_bigendian": flag}
    data = {"data": (idl.sequence[idl.uint8], list), "is_dense": flag}
    struct("sensor_msgs", "PointCloud2", header=header, **size, **fields, **steps, **data)
    angles = dict.fromkeys(("angle_min", "angle_max", "angle_increment", "time_increment", "scan_time"), single)
    ranges = dict.fromkeys(("ranges", "intensities"), (idl.sequence[idl.float32], list))
    struct("sensor_msgs", "LaserScan", header=header, **angles, range_min=single, range_max=single, **ranges)
    return made


class DdsLink:
    """One end of the topics of `ros.py`, best effort.

    Args:
        address: nothing: this machine alone. HOST or HOST,HOST: these machines. The domain is ROS_DOMAIN_ID. With
            CYCLONEDDS_URI set, that configuration holds and the address is not used.
        role: pilot or vehicle.
    """

    def __init__(self, address: str = "", role: str = "pilot") -> None:
        self._convert = RosMessages(message_types())
        from cyclonedds.core import InstanceState, Policy, Qos, ReadCondition, SampleState, ViewState, WaitSet
        from cyclonedds.domain import Domain, DomainParticipant
        from cyclonedds.pub import DataWriter
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        number = int(os.environ.get("ROS_DOMAIN_ID", "0"))
        if "CYCLONEDDS_URI" not in os.environ:
            interface = 'autodetermine="true"' if address else f'name="{"lo0" if sys.platform == "darwin" else "lo"}"'
            peers = "".join(f'<Peer address="{host}"/>' for host in (address or "127.0.0.1").split(","))
            self._domain = Domain(number, CONFIG.format(interface=interface, peers=peers))
        participant = DomainParticipant(number)
        representation = Policy.DataRepresentation(use_cdrv0_representation=True)
        qos = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(10), representation)
        self._readers: dict[str, Any] = {}
        self._writers: dict[str, Any] = {}
        self._waitset = WaitSet(participant)
        for topic, kind in TOPICS.items():
            found = Topic(participant, f"rt/{topic}", self._convert.types[kind], qos=qos)
            if (topic in OF_PILOT) == (role == "pilot"):
                self._writers[topic] = DataWriter(participant, found, qos=qos)
            else:
                reader = self._readers[topic] = DataReader(participant, found, qos=qos)
                self._waitset.attach(ReadCondition(reader, SampleState.NotRead | ViewState.Any | InstanceState.Alive))

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that came, after at most `timeout_s`."""
        self._waitset.wait(max(1, int(timeout_s * 1e9)))
        found: list[Message] = []
        for topic, reader in self._readers.items():
            for m in reader.take(20):
                try:
                    stamp = m.header.stamp
                    found.append(self._convert.read(topic, m, stamp.sec + stamp.nanosec * 1e-9))
                except (ValueError, AttributeError):  # not a message of ours, or one without a valid sample
                    continue
        return found

    def send(self, message: Message) -> None:
        """Send one message."""
        topic, m = self._convert.write(message)
        m.header.stamp.sec, m.header.stamp.nanosec = int(message.stamp // 1), int(message.stamp % 1 * 1e9)
        self._writers[topic].write(m)

    def close(self) -> None:
        """Leave the domain."""
        self._readers, self._writers = {}, {}
