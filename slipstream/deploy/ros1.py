"""ROS 1 by rospy, against a running roscore (ROS_MASTER_URI; by default on this machine)."""

from __future__ import annotations

import os
import queue
import sys
from importlib import import_module
from typing import Any

from slipstream.deploy.messages import Message
from slipstream.deploy.ros import OF_PILOT, TOPICS, RosMessages

DEBIAN = "/usr/lib/python3/dist-packages"  # of python3-rospy, which a virtual environment does not see


class Ros1Link:
    """One end of the topics of `ros.py`."""

    def __init__(self, role: str = "pilot") -> None:
        os.environ.setdefault("ROS_MASTER_URI", "http://127.0.0.1:11311")
        os.environ.setdefault("ROS_IP", "127.0.0.1")
        if DEBIAN not in sys.path and os.path.isdir(f"{DEBIAN}/rospy"):
            sys.path.append(DEBIAN)
        import rosgraph
        import rospy

        if not rosgraph.is_master_online():
            raise ConnectionError(f"no roscore answers at {os.environ['ROS_MASTER_URI']}: start roscore first")
        self._rospy, self._queue = rospy, queue.Queue[Message](1000)
        kinds = [*TOPICS.values(), ("sensor_msgs", "PointField")]
        self._convert = RosMessages({kind: getattr(import_module(f"{kind[0]}.msg"), kind[1]) for kind in kinds})
        rospy.init_node(f"slipstream_{role}", disable_signals=True)
        self._writers: dict[str, Any] = {}
        for topic, kind in TOPICS.items():
            found = self._convert.types[kind]
            if (topic in OF_PILOT) == (role == "pilot"):
                self._writers[topic] = rospy.Publisher(topic, found, queue_size=10, tcp_nodelay=True)
            else:
                rospy.Subscriber(topic, found, self._take, topic, queue_size=10, tcp_nodelay=True)

    def _take(self, m: Any, topic: str) -> None:
        """Queue a message, in a thread of rospy."""
        try:
            self._queue.put_nowait(self._convert.read(topic, m))
        except (ValueError, queue.Full):
            return

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that came, after at most `timeout_s`."""
        found: list[Message] = []
        try:
            found.append(self._queue.get(timeout=max(timeout_s, 1e-4)))
            while True:
                found.append(self._queue.get_nowait())
        except queue.Empty:
            return found

    def send(self, message: Message) -> None:
        """Send one message."""
        topic, m = self._convert.write(message)
        self._writers[topic].publish(m)

    def close(self) -> None:
        """Leave the graph."""
        self._rospy.signal_shutdown("done")
