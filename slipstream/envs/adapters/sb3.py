"""Stable-Baselines3: N environments as `VecEnv`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from slipstream.envs.adapters import spaces
from slipstream.envs.adapters.spaces import Arrays
from slipstream.envs.base import TensorEnv

Indices = None | int | Iterable[int]


class SB3VecEnv(VecEnv):
    """A TensorEnv as SB3 `VecEnv`: `PPO("MultiInputPolicy", SB3VecEnv(env)).learn(...)`.

    As SB3 expects, ended environments are reset in the same step, with the last observation as `terminal_observation`
    in the info. The info of a step that ends an episode also holds the env's infos, and `is_success` if the env has a
    `success`; other infos are empty. Wrap it in SB3's `VecMonitor` for returns and lengths.
    """

    def __init__(self, env: TensorEnv) -> None:
        self.env = spaces.one_sided(env, "SB3VecEnv")
        self._action: Any = None
        super().__init__(env.num_envs, spaces.observation_space(env), spaces.to_space(env.action_spec))

    def reset(self) -> Arrays:
        """Start new episodes, with the seed given to `seed()`. Returns the first observations."""
        seed = self._seeds[0]
        if seed is not None:
            self.env = spaces.reseeded(self.env, int(seed))
        self._reset_seeds()
        self._reset_options()
        return spaces.to_arrays(self.env.reset(), copy=True)

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions [N, ...] for `step_wait`."""
        self._action = spaces.to_action(self.env, actions)

    def step_wait(self) -> tuple[Arrays, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take the step. Returns observations, rewards, dones, infos as copies: SB3 keeps the last ones while it
        steps."""
        record, observation, ended = spaces.step_and_reset(self.env, self._action)
        done = spaces.to_array(ended, copy=True)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            last, facts = spaces.to_arrays(record.observation, copy=False), spaces.to_arrays(record.info, copy=False)
            truncated = spaces.to_array(record.truncated)
        for i in np.flatnonzero(done).tolist():
            infos[i] = {name: float(value[i]) for name, value in facts.items()}
            if "success" in infos[i]:
                infos[i]["is_success"] = infos[i]["success"]  # SB3's name for it
            infos[i]["terminal_observation"] = spaces.row(last, i)
            infos[i]["TimeLimit.truncated"] = bool(truncated[i])
        return spaces.to_arrays(observation, copy=True), spaces.to_array(record.reward, copy=True), done, infos

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    # -- SB3's access to single environments: here all are one TensorEnv -----------------------------------------------

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of the TensorEnv, once per index."""
        value = None if attr_name == "render_mode" else getattr(self.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of the TensorEnv, for all environments."""
        self._require_all(indices)
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any) -> list[Any]:
        """Call a method of the TensorEnv once. Returns its result, once per environment."""
        self._require_all(indices)
        result = getattr(self.env, method_name)(*args, **kwargs)
        return [result] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Indices = None) -> list[bool]:
        """Return False per index: single environments have no wrapper."""
        return [False for _ in self._get_indices(indices)]

    def _require_all(self, indices: Indices) -> None:
        if len(set(self._get_indices(indices))) != self.num_envs:
            raise ValueError(f"indices={indices}: {self.num_envs} environments are one TensorEnv; leave indices out")
