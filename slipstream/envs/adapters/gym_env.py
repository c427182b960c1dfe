"""One environment as a `gymnasium.Env`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from slipstream.envs.adapters.episodes import reseeded
from slipstream.envs.adapters.spaces import observation_space, one_sided, to_action, to_array, to_space
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation


class GymnasiumEnv(gymnasium.Env[dict[str, np.ndarray], Any]):
    """A TensorEnv of one environment, with Gymnasium's calls. Observations are a Dict, by name; infos are floats, by name.

    `reset(seed=s)` builds the env anew with seed s (worlds included); `reset()` begins the next episode.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, env: TensorEnv) -> None:
        if env.num_envs != 1:
            raise ValueError(
                f"GymnasiumEnv flies one environment, not {env.num_envs}: use GymnasiumVectorEnv, or build it with num_envs=1"
            )
        self.env = one_sided(env, "GymnasiumEnv")
        self.observation_space: gymnasium.Space[Any] = observation_space(env)
        self.action_space = to_space(env.action_spec)
        self._flying = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The first observation of a new episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.env = reseeded(self.env, seed)
        self._flying = True
        return self._of_one(self.env.reset()), {}

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""
        if not self._flying:
            raise ResetNeeded("this episode is over, or none was begun: call reset() before step()")
        record = self.env.step(to_action(self.env, np.asarray(action)[None]))
        terminated, truncated = bool(record.terminated), bool(record.truncated)
        self._flying = not (terminated or truncated)
        info = {name: float(value) for name, value in record.info.items()}
        return self._of_one(record.observation), float(record.reward), terminated, truncated, info

    @staticmethod
    def _of_one(observation: Observation) -> dict[str, np.ndarray]:
        """The observation without its batch dimension, in arrays of its own."""
        return {name: to_array(tensor, copy=True)[0, ...] for name, tensor in observation.items()}
