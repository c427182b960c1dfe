"""Any Gymnasium env as a task: slipstream train task=gym env.id=CartPole-v1."""

from __future__ import annotations

from slipstream.tasks.base import Task
from slipstream.tasks.gym.env import GymEnv


class GymTask(Task):
    """The default behavior; `tuned/` has settings for classic control."""

    env = GymEnv
