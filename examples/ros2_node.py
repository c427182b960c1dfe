"""The pilot as an rclpy node, for a computer with ROS 2. Not run by our tests, which have no rclpy.

slipstream export --to onnx out=policy.onnx
python examples/ros2_node.py policy.onnx 10 0 2 --ros-args -r odom:=/mavros/local_position/odom \
    -r cmd_vel:=/mavros/setpoint_velocity/cmd_vel    # goal x, y, z: m, ENU
"""

import sys
from functools import partial
from importlib import import_module

import rclpy
from rclpy.qos import qos_profile_sensor_data
from rclpy.utilities import remove_ros_args

from slipstream.deploy import Pilot
from slipstream.deploy.loop import fly
from slipstream.deploy.ros import OF_PILOT, TOPICS, RosMessages


class RclpyLink:
    """What `fly` needs of a transport."""

    def __init__(self):
        self.node, self.received, self.publishers = rclpy.create_node("slipstream_pilot"), [], {}
        types = {kind: getattr(import_module(f"{kind[0]}.msg"), kind[1]) for kind in TOPICS.values()}
        self.convert = RosMessages(types)
        for topic, kind in TOPICS.items():
            if topic in OF_PILOT:
                self.publishers[topic] = self.node.create_publisher(types[kind], topic, qos_profile_sensor_data)
            else:
                take = partial(self.take, topic)
                self.node.create_subscription(types[kind], topic, take, qos_profile_sensor_data)

    def take(self, topic, message):
        self.received.append(self.convert.read(topic, message))

    def receive(self, timeout_s):
        rclpy.spin_once(self.node, timeout_sec=max(timeout_s, 0.0))
        received, self.received = self.received, []
        return received

    def send(self, message):
        topic, converted = self.convert.write(message)
        self.publishers[topic].publish(converted)


if __name__ == "__main__":
    rclpy.init()
    _, onnx, *goal = remove_ros_args(sys.argv)
    pilot = Pilot(onnx, shield=True)
    pilot.fly_to([float(x) for x in goal])
    print(fly(pilot, RclpyLink()).summary())
