"""ROS 2 by DDS: `pip install cyclonedds` is enough, no ROS. A ROS 2 system on the network sees an ordinary node.

ROS 2 puts topics under `rt/` and mangles the names of types. Its messages are final types in XCDR1.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from slipstream.deploy.links import find_host
from slipstream.deploy.messages import Message
from slipstream.deploy.ros import OF_PILOT, TOPICS, RosMessages

# What stays on this machine, and what goes to named ones; multicast only where the user configures CycloneDDS for it.
CONFIG = """<General><Interfaces><NetworkInterface {interface}/></Interfaces><AllowMulticast>false</AllowMulticast>
</General><Discovery><ParticipantIndex>auto</ParticipantIndex><Peers>{peers}</Peers></Discovery>"""


# Type: its fields. An earlier type is named without its package.
MESSAGES = """
builtin_interfaces Time: int32 sec, uint32 nanosec
std_msgs Header: Time stamp, string frame_id
geometry_msgs Point: float64 x, float64 y, float64 z
geometry_msgs Vector3: float64 x, float64 y, float64 z
geometry_msgs Quaternion: float64 x, float64 y, float64 z, float64 w
geometry_msgs Pose: Point position, Quaternion orientation
geometry_msgs Twist: Vector3 linear, Vector3 angular
geometry_msgs PoseWithCovariance: Pose pose, float64[36] covariance
geometry_msgs TwistWithCovariance: Twist twist, float64[36] covariance
geometry_msgs TwistStamped: Header header, Twist twist
nav_msgs Odometry: Header header, string child_frame_id, PoseWithCovariance pose, TwistWithCovariance twist
sensor_msgs PointField: string name, uint32 offset, uint8 datatype, uint32 count
sensor_msgs PointCloud2: Header header, uint32 height, uint32 width, PointField[] fields, bool is_bigendian, \
uint32 point_step, uint32 row_step, uint8[] data, bool is_dense
sensor_msgs Image: Header header, uint32 height, uint32 width, string encoding, uint8 is_bigendian, uint32 step, \
uint8[] data
sensor_msgs LaserScan: Header header, float32 angle_min, float32 angle_max, float32 angle_increment, \
float32 time_increment, float32 scan_time, float32 range_min, float32 range_max, float32[] ranges, float32[] intensities
"""


@cache
def message_types() -> dict[tuple[str, str], Any]:
    """Return the classes of ROS 2's messages, by package and name."""
    from cyclonedds.idl import IdlStruct, types
    from cyclonedds.idl.annotations import final

    idl: Any = types
    meta: Any = type(IdlStruct)
    kinds: dict[str, tuple[Any, Any]] = {"string": (str, str), "bool": (bool, bool)}  # the type and its default
    kinds |= {name: (getattr(idl, name), int) for name in ("uint8", "int32", "uint32")}
    kinds |= {name: (getattr(idl, name), float) for name in ("float32", "float64")}
    kinds["float64[36]"] = idl.array[idl.float64, 36], lambda: [0.0] * 36
    made: dict[tuple[str, str], Any] = {}
    for package, name, fields in re.findall(r"(\w+) (\w+): (.+)", MESSAGES):
        annotations: dict[str, Any] = {}
        namespace: dict[str, Any] = {"__annotations__": annotations, "__module__": __name__}
        for base, key in re.findall(r"([\w\[\]]+) (\w+)", fields):
            kind, default = (idl.sequence[kinds[base[:-2]][0]], list) if base.endswith("[]") else kinds[base]
            annotations[key], namespace[key] = kind, field(default_factory=default)
        struct = meta(f"{name}_", (IdlStruct,), namespace, typename=f"{package}.msg.dds_.{name}_")
        kinds[name] = (final(dataclass(struct)),) * 2
        made[package, name] = kinds[name][0]
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

        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        if not domain.isdecimal() or int(domain) > 232:
            raise ValueError(f"ROS_DOMAIN_ID={domain} must be a whole number from 0 to 232")
        number = int(domain)
        if "CYCLONEDDS_URI" not in os.environ:
            interface = 'autodetermine="true"' if address else f'name="{"lo0" if sys.platform == "darwin" else "lo"}"'
            hosts = map(find_host, (address or "127.0.0.1").split(","))  # an unknown one would end the process
            peers = "".join(f'<Peer address="{host}"/>' for host in hosts)
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
        received: list[Message] = []
        for topic, reader in self._readers.items():
            for _ in range(20):
                with contextlib.suppress(ValueError, AttributeError):  # not a message of ours, or no valid sample
                    if not (taken := reader.take(1)):
                        break
                    received.append(self._convert.read(topic, taken[0]))
        return received

    def send(self, message: Message) -> None:
        """Send one message."""
        topic, m = self._convert.write(message)
        self._writers[topic].write(m)

    def close(self) -> None:
        """Leave the domain."""
        self._readers, self._writers = {}, {}
