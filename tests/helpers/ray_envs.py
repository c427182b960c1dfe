"""Gymnasium envs for actors on Ray: the processes of the cluster import this module as `helpers.ray_envs`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Slow(gymnasium.Env):
    """A point on a line that should go to 0; a step takes `step_s`."""

    observation_space = Box(-5, 5, (2,), np.float32)
    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, step_s=0.003):
        self.step_s = step_s

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = float(self.np_random.uniform(-2, 2)), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.x, self.t / 20], np.float32)

    def step(self, action):
        time.sleep(self.step_s)
        self.x = float(np.clip(self.x + 0.5 * float(action[0]), -5, 5))
        self.t += 1
        return self.observe(), -abs(self.x), False, self.t >= 20, {}


class Gate(gymnasium.Env):
    """All observations are equal; the reward is 100 ** n in the n-th process that steps. The first one waits in its step
    `gate_step` until the file `open` exists."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, folder, gate_step=20):
        self.folder, self.gate_step, self.steps, self.number = Path(folder), gate_step, 0, None

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if self.number is None:  # not before: the learner has an env that never steps
            for number in range(8):
                try:
                    (self.folder / f"{number}").open("x").write(str(os.getpid()))
                except FileExistsError:
                    if (self.folder / f"{number}").read_text() != str(os.getpid()):
                        continue
                self.number = number
                break
        self.steps += 1
        while self.number == 0 and self.steps == self.gate_step and not (self.folder / "open").exists():
            time.sleep(0.01)
        self.t += 1
        return np.zeros(2, np.float32), 100.0**self.number, False, self.t >= 12, {}


class Images(Slow):
    """The point as a square in an image of 84 x 84."""

    observation_space = Box(0, 255, (84, 84), np.uint8)

    def observe(self):
        image = np.zeros((84, 84), np.uint8)
        left = int(8 * (self.x + 5))
        image[36:48, left : left + 4] = 200
        return image


for kind in (Slow, Gate, Images):
    gymnasium.register(f"{kind.__name__}-v0", entry_point=kind)
