"""Hand-made situations: an env whose obstacles stand where a test puts them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from slipstream.envs.base import StepRecord
from slipstream.envs.specs import Observation
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.physics.lidar import Lidar
from slipstream.tasks.navigation.physics.obstacles import MovingObstaclesConfig

FAR_M = 1000.0


class Situation:
    """One drone (or several alike), boxes and moving obstacles by hand. The obstacles hold their velocity for 1.9 s."""

    def __init__(self, num_movers: int = 8, boxes: list[tuple] = (), num_envs: int = 1, **config) -> None:
        config = {"num_obstacles": 0, "random_clock": False} | config
        self.env = NavigationEnv(
            num_envs, "cpu", 3, NavigationConfig(dyn=MovingObstaclesConfig(num_obstacles=num_movers), **config)
        )
        env = self.env
        if boxes:
            grid = type(env.grid).from_boxes([np.array(boxes, np.float32)], env.config.lidar.range_m)
            env.lidar = Lidar(env.config.lidar, grid, env.world_of, env.config.backend)
        env.movers.pos[:, :, 0] = FAR_M
        env.movers.goal.copy_(env.movers.pos)
        env.movers.vel.zero_()
        env.movers.clock.fill_(1)

    def put_mover(self, index: int, pos: tuple, vel: tuple = (0, 0, 0)) -> None:
        """Of 8: 0–3 are boxes, 4–7 pillars, each 0.25, 0.5, 0.75, 1.0 m wide."""
        self.env.movers.pos[:, index] = torch.tensor(pos, dtype=torch.float32)
        self.env.movers.vel[:, index] = torch.tensor(vel, dtype=torch.float32)

    def start(self, start: tuple, goal: tuple) -> Observation:
        n = self.env.num_envs
        return self.env.place(
            torch.tensor([start], dtype=torch.float32).repeat(n, 1),
            torch.tensor([goal], dtype=torch.float32).repeat(n, 1),
        )

    def look(self) -> Observation:
        """The observation of the present state: a reset of nobody."""
        return self.env.reset(torch.zeros(self.env.num_envs, dtype=torch.bool))

    def step(self, *action: float) -> StepRecord:
        return self.env.step(
            torch.tensor([action or (0.0, 0.0, 0.0)], dtype=torch.float32).repeat(self.env.num_envs, 1)
        )


@pytest.fixture
def situation() -> type[Situation]:
    return Situation


@pytest.fixture
def same_record():
    """Asserts that two step records are equal bit for bit, on the chosen environments."""

    def compare(a: StepRecord, b: StepRecord, envs: Tensor | slice = slice(None)) -> None:
        for name in ("reward", "terminated", "truncated", "valid"):
            assert torch.equal(getattr(a, name)[envs], getattr(b, name)[envs]), name
        for part in ("observation", "info"):
            first, second = getattr(a, part), getattr(b, part)
            assert first.keys() == second.keys()
            for key in first:
                assert torch.equal(first[key][envs], second[key][envs]), key

    return compare
