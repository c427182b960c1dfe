"""Gymnasium: one environment as `gymnasium.Env`, N as `VectorEnv`, and our tasks in its registry."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from slipstream.config.compose import build_section
from slipstream.config.registry import names
from slipstream.envs.adapters import spaces
from slipstream.envs.adapters.spaces import Arrays
from slipstream.envs.base import TensorEnv


class GymnasiumEnv(gymnasium.Env[Arrays, Any]):
    """A TensorEnv with num_envs=1 as `gymnasium.Env`. Observations are a Dict, by name; infos are floats, by name.

    `reset(seed=s)` rebuilds the env with seed s (worlds included); `reset()` starts the next episode.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 60}

    def __init__(self, env: TensorEnv, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode={render_mode!r} must be 'rgb_array'; slipstream view shows flights live")
        self.render_mode = render_mode
        if env.num_envs != 1:
            raise ValueError(f"GymnasiumEnv needs num_envs=1, not {env.num_envs}: use GymnasiumVectorEnv for several")
        self.env = spaces.one_sided(env, "GymnasiumEnv")
        self.observation_space: gymnasium.Space[Any] = spaces.observation_space(env)
        self.action_space = spaces.to_space(env.action_spec)
        self._flying = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Start a new episode. Returns its first observation and an empty info."""
        super().reset(seed=seed)
        if seed is not None:
            self.env = spaces.reseeded(self.env, seed)
        self._flying = True
        return spaces.row(spaces.to_arrays(self.env.reset(), copy=False), 0), {}

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        """Take one step. Returns observation, reward, terminated, truncated, info."""
        if not self._flying:
            raise ResetNeeded("no episode is running: call reset() before step()")
        record = self.env.step(spaces.to_action(self.env, np.asarray(action)[None]))
        terminated, truncated = bool(record.terminated), bool(record.truncated)
        self._flying = not (terminated or truncated)
        info = {name: float(value) for name, value in record.info.items()}
        observation = spaces.row(spaces.to_arrays(record.observation, copy=False), 0)
        return observation, float(record.reward), terminated, truncated, info

    def render(self) -> Any:
        """Return a picture of the present state, uint8 [height, width, 3]; None without a render_mode."""
        return self.env.render() if self.render_mode else None


class GymnasiumVectorEnv(VectorEnv[Arrays, Any, np.ndarray]):
    """A TensorEnv as `gymnasium.vector.VectorEnv`.

    Gymnasium's default autoreset on the next step is that of a TensorEnv; `AutoresetMode.SAME_STEP` resets at once,
    with the last observation as `final_obs` in the infos. With `copy=False` arrays are views of the env's tensors (on a
    CPU), valid until the next call.
    """

    def __init__(
        self, env: TensorEnv, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, copy: bool = True
    ) -> None:
        self.env = spaces.one_sided(env, "GymnasiumVectorEnv")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise ValueError("a TensorEnv always resets ended environments: use AutoresetMode.NEXT_STEP or SAME_STEP")
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.copy = copy
        self.num_envs = env.num_envs
        self.single_observation_space = spaces.observation_space(env)
        self.single_action_space = spaces.to_space(env.action_spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Start new episodes. One seed serves all environments; `options={"reset_mask": [N] bool}` resets only some."""
        if seed is not None and not isinstance(seed, int):
            raise ValueError(f"a TensorEnv takes one seed for all environments: give an integer, not {seed!r}")
        super().reset(seed=seed)
        if seed is not None:
            self.env = spaces.reseeded(self.env, seed)
        mask = (options or {}).get("reset_mask")
        chosen = None if mask is None else torch.as_tensor(np.asarray(mask), device=self.env.device)
        return spaces.to_arrays(self.env.reset(chosen), self.copy), {}

    def step(self, actions: Any) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step. Returns observations, rewards, terminations, truncations, infos."""
        action = spaces.to_action(self.env, actions)
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            record = self.env.step(action)
            observation, done = record.observation, np.zeros(self.num_envs, bool)
        else:
            record, observation, ended = spaces.step_and_reset(self.env, action)
            done = spaces.to_array(ended)
        facts = spaces.to_arrays(record.info, self.copy)
        valid = spaces.to_array(record.valid, self.copy)
        infos: dict[str, Any] = facts | {f"_{name}": valid for name in facts}  # Gymnasium's form
        if done.any():
            final, last = np.full(self.num_envs, None, object), spaces.to_arrays(record.observation, copy=False)
            for i in np.flatnonzero(done).tolist():
                final[i] = spaces.row(last, i)
            ends = {name: np.where(done, fact, 0) for name, fact in facts.items()} | {
                f"_{name}": done for name in facts
            }
            infos |= {"final_obs": final, "_final_obs": done, "final_info": ends, "_final_info": done}
        results = (spaces.to_array(x, self.copy) for x in (record.reward, record.terminated, record.truncated))
        return spaces.to_arrays(observation, self.copy), *results, infos  # type: ignore[return-value]


def register_tasks() -> None:
    """Register the tasks with Gymnasium; a second call does nothing."""
    here = "slipstream.envs.adapters.gymnasium_env"
    for name, env in names("gymnasium").items():
        if name not in gymnasium.registry:
            vector = f"{here}:make_vector_env"
            gymnasium.register(name, f"{here}:make_env", kwargs={"env": env}, vector_entry_point=vector)


def make_env(
    env: str,
    seed: int | None = None,
    device: str = "cpu",
    config: dict[str, Any] | None = None,
    render_mode: str | None = None,
    **settings: Any,
) -> GymnasiumEnv:
    """Build one environment of the class `module:Class`. `config` and `settings` are keys of its Config, nested ones as
    dicts.

    Gymnasium reserves `max_episode_steps` for its own limit; give that of the env in `config`.
    """
    return GymnasiumEnv(build(env, 1, seed, device, (config or {}) | settings), render_mode)


def make_vector_env(
    env: str,
    num_envs: int = 1,
    seed: int | None = None,
    device: str = "cpu",
    autoreset_mode: Any = "NextStep",
    copy: bool = True,
    config: dict[str, Any] | None = None,
    **settings: Any,
) -> GymnasiumVectorEnv:
    """Build N environments of the class `module:Class`, stepped together."""
    return GymnasiumVectorEnv(build(env, num_envs, seed, device, (config or {}) | settings), autoreset_mode, copy)


def build(env: str, num_envs: int, seed: int | None, device: str, settings: dict[str, Any]) -> TensorEnv:
    """Build the TensorEnv; without a seed it draws one, as Gymnasium's environments do."""
    module, _, name = env.partition(":")
    kind = getattr(import_module(module), name)
    config = build_section(kind.Config(), {**kind.episode_settings, **settings, "num_envs": num_envs}, "gymnasium.make")
    if seed is None:
        seed = int(np.random.default_rng().integers(2**62))
    return kind(num_envs, device, seed, config)
