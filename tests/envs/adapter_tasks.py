"""The tasks that every adapter is tried on, small."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import slipstream.envs.adapters  # noqa: F401  (registers the tasks with Gymnasium)
from slipstream.config.registry import names
from slipstream.envs.adapters.gymnasium_env import build
from slipstream.envs.base import TensorEnv


@dataclass
class Task:
    id: str
    settings: dict[str, Any]
    fact: str  # an info of it
    agents: dict[str, Any]  # settings of the env whose agents PettingZoo flies
    limit: Callable[[int], dict[str, Any]]  # settings that end an episode after so many decisions

    def make(self, num_envs: int, seed: int = 0, max_steps: int | None = None, **settings: Any) -> TensorEnv:
        limit = {} if max_steps is None else self.limit(max_steps)
        return build(names("gymnasium")[self.id], num_envs, seed, "cpu", self.settings | limit | settings)

    def make_agents(self) -> TensorEnv:
        settings = self.settings | self.agents
        return build(names("gymnasium")[self.id], settings.pop("num_envs"), 0, "cpu", settings)


SMALL_WORLD = {"num_obstacles": 20, "map_half_m": 6.0, "dyn": {"num_obstacles": 8}, "decision_interval": 4}
TASKS = {
    "navigation": Task(
        "slipstream/Navigation-v0",
        SMALL_WORLD,
        "collision",
        {"num_envs": 3},
        lambda steps: {"max_episode_steps": 4 * steps},
    ),
    "aircombat": Task(
        "slipstream/AirCombat-v0",
        {"time_scale": 15.0},
        "winner",
        {"num_envs": 1, "sides": 2},
        lambda steps: {"episode_s": steps / 4},
    ),
}
