"""Fly a real drone with an exported policy: sensor messages in, velocity commands out.

Needs NumPy and onnxruntime, nothing else of Slipstream and no torch. The frames are those of ROS (REP 103): the world
is ENU (x east, y north, z up), the body FLU (x ahead, y left, z up). `messages.py` converts from and to NED and FRD.
"""

from slipstream.deploy.messages import Cloud, Command, Depth, Obstacles, Odometry
from slipstream.deploy.pilot import Decision, Limits, Pilot

__all__ = ["Cloud", "Command", "Decision", "Depth", "Limits", "Obstacles", "Odometry", "Pilot"]
