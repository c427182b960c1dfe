"""N environments as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from slipstream.envs.adapters.episodes import reseeded, step_and_reset
from slipstream.envs.adapters.spaces import observation_space, one_sided, to_action, to_array, to_arrays, to_space
from slipstream.envs.base import StepRecord, TensorEnv

Arrays = dict[str, np.ndarray]


class GymnasiumVectorEnv(VectorEnv[Arrays, Any, np.ndarray]):
    """A TensorEnv with Gymnasium's vector calls.

    Gymnasium's default, a reset on the step after the end, is what a TensorEnv does; `AutoresetMode.SAME_STEP` resets at once,
    with the last observation as `final_obs` in the infos. With `copy=False` arrays are views of the env's tensors (on a CPU),
    which hold until the next call.
    """

    def __init__(
        self, env: TensorEnv, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, copy: bool = True
    ) -> None:
        self.env = one_sided(env, "GymnasiumVectorEnv")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise ValueError("a TensorEnv always resets what has ended: use AutoresetMode.NEXT_STEP or SAME_STEP")
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.copy = copy
        self.num_envs = env.num_envs
        self.single_observation_space = observation_space(env)
        self.single_action_space = to_space(env.action_spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """First observations. One seed serves all environments; `options={"reset_mask": [N] bool}` resets only some."""
        if seed is not None and not isinstance(seed, int):
            raise ValueError(f"all environments of a TensorEnv follow from one seed: give an integer, not {seed!r}")
        super().reset(seed=seed)
        if seed is not None:
            self.env = reseeded(self.env, seed)
        mask = (options or {}).get("reset_mask")
        chosen = None if mask is None else torch.as_tensor(np.asarray(mask), device=self.env.device)
        return to_arrays(self.env.reset(chosen), self.copy), {}

    def step(self, actions: Any) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Observations, rewards, terminations, truncations, infos."""
        action = to_action(self.env, actions)
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            record = self.env.step(action)
            return self._told(record, to_arrays(record.observation, self.copy), self._facts(record))
        step = step_and_reset(self.env, action)
        infos = self._facts(step.record)
        done = to_array(step.done)
        if done.any():
            infos |= self._final(to_arrays(step.record.observation, copy=False), infos, done)
        return self._told(step.record, to_arrays(step.observation, self.copy), infos)

    def _told(
        self, record: StepRecord, observation: Arrays, infos: dict[str, Any]
    ) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        ends = to_array(record.terminated, self.copy), to_array(record.truncated, self.copy)
        return observation, to_array(record.reward, self.copy), *ends, infos

    def _facts(self, record: StepRecord) -> dict[str, Any]:
        """The infos as Gymnasium keeps them: an array a name, and under `_name` where it says something."""
        valid = to_array(record.valid, self.copy)
        facts = {name: to_array(value, self.copy) for name, value in record.info.items()}
        return facts | {f"_{name}": valid for name in facts}

    def _final(self, observation: Arrays, infos: dict[str, Any], done: np.ndarray) -> dict[str, Any]:
        """The last observations, one a cell, and the facts of the episodes that ended."""
        final = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(done):
            final[i] = {name: array[i, ...].copy() for name, array in observation.items()}
        facts = {name: value if name.startswith("_") else np.where(done, value, 0) for name, value in infos.items()}
        facts |= {name: done for name in facts if name.startswith("_")}
        return {"final_obs": final, "_final_obs": done, "final_info": facts, "_final_info": done}
