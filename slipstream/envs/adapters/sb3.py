"""N environments as a `VecEnv` of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from slipstream.envs.adapters.spaces import (
    observation_space,
    one_sided,
    reseeded,
    step_and_reset,
    to_action,
    to_array,
    to_arrays,
    to_space,
)
from slipstream.envs.base import TensorEnv

Arrays = dict[str, np.ndarray]
Indices = None | int | Iterable[int]


class SB3VecEnv(VecEnv):
    """A TensorEnv with SB3's calls: `PPO("MultiInputPolicy", SB3VecEnv(env)).learn(...)`.

    SB3 wants a new start in the very step that ends an episode: that is a reset at once, with the last observation as
    `terminal_observation` in that environment's info. The info of a step that ends an episode also holds the env's own facts,
    and `is_success` where the env has a `success`; other infos are empty. Wrap it into SB3's `VecMonitor` for returns and lengths.
    """

    def __init__(self, env: TensorEnv) -> None:
        self.env = one_sided(env, "SB3VecEnv")
        self._action: Any = None
        super().__init__(env.num_envs, observation_space(env), to_space(env.action_spec))

    def reset(self) -> Arrays:
        """First observations; the seed given to `seed()` counts from here on."""
        seed = self._seeds[0]
        if seed is not None:
            self.env = reseeded(self.env, int(seed))
        self._reset_seeds()
        self._reset_options()
        return to_arrays(self.env.reset(), copy=True)

    def step_async(self, actions: np.ndarray) -> None:
        """Takes the actions [N, ...] of the step that `step_wait` makes."""
        self._action = to_action(self.env, actions)

    def step_wait(self) -> tuple[Arrays, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Observations, rewards, dones, infos. The arrays are the caller's own: SB3 keeps the last ones while it steps."""
        step = step_and_reset(self.env, self._action)
        done = to_array(step.done, copy=True)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            self._tell_ends(step.record, np.flatnonzero(done), infos)
        return to_arrays(step.observation, copy=True), to_array(step.record.reward, copy=True), done, infos

    @staticmethod
    def _tell_ends(record: Any, ended: np.ndarray, infos: list[dict[str, Any]]) -> None:
        final = to_arrays(record.observation, copy=False)
        truncated = to_array(record.truncated)
        facts = to_arrays(record.info, copy=False)
        for i in ended.tolist():
            info: dict[str, Any] = {name: float(value[i]) for name, value in facts.items()}
            if "success" in info:
                info["is_success"] = info["success"]  # SB3's name for it
            info["terminal_observation"] = {name: array[i].copy() for name, array in final.items()}
            info["TimeLimit.truncated"] = bool(truncated[i])
            infos[i] = info

    def close(self) -> None:
        """Nothing is open."""

    # -- SB3's look into single environments: here they are one, and what one says all say ---------------------------------

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """The attribute of the TensorEnv, once for each index."""
        value = None if attr_name == "render_mode" else getattr(self.env, attr_name)
        return [value for _ in self._indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Sets an attribute of the TensorEnv, for all environments or none."""
        self._all_or_none(indices)
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of the TensorEnv once, for all environments; its result is given once for each."""
        self._all_or_none(indices)
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [result] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Indices = None) -> list[bool]:
        """No wrapper of single environments is around them."""
        return [False for _ in self._indices(indices)]

    def _indices(self, indices: Indices) -> list[int]:
        return list(self._get_indices(indices))

    def _all_or_none(self, indices: Indices) -> None:
        if len(set(self._indices(indices))) != self.num_envs:
            raise ValueError(f"the {self.num_envs} environments are one TensorEnv: leave indices out")
