"""Our tasks under their names at Gymnasium: `gymnasium.make("slipstream/Navigation-v0")`, and `make_vec`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from slipstream.config.help import nearest
from slipstream.envs.base import TensorEnv

if TYPE_CHECKING:
    from slipstream.envs.adapters.gym_env import GymnasiumEnv
    from slipstream.envs.adapters.gym_vector import GymnasiumVectorEnv

# What is different by default from the task's own settings: an episode begins at its beginning, and no two begin alike.
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "slipstream/Navigation-v0": ("slipstream.tasks.navigation.env:NavigationEnv", {"random_clock": False}),
    "slipstream/AirCombat-v0": ("slipstream.tasks.aircombat.env:AirCombatEnv", {"start": "random"}),
}


def register() -> None:
    """Makes the tasks known to Gymnasium; a second call changes nothing."""
    here = "slipstream.envs.adapters.registration"
    for name, (env, _) in TASKS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name, f"{here}:make_env", kwargs={"env": env}, vector_entry_point=f"{here}:make_vector_env"
            )


def make_env(
    env: str, seed: int | None = None, device: str = "cpu", config: dict[str, Any] | None = None, **settings: Any
) -> GymnasiumEnv:
    """One environment of the class `module:Class`. `config` and `settings` are keys of its Config, nested ones as dicts.

    Gymnasium keeps `max_episode_steps` for a limit of its own; the env's goes into `config`.
    """
    from slipstream.envs.adapters.gym_env import GymnasiumEnv

    return GymnasiumEnv(build(env, 1, seed, device, (config or {}) | settings))


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
    """N environments of the class `module:Class`, stepped at once."""
    from slipstream.envs.adapters.gym_vector import GymnasiumVectorEnv

    return GymnasiumVectorEnv(build(env, num_envs, seed, device, (config or {}) | settings), autoreset_mode, copy)


def build(env: str, num_envs: int, seed: int | None, device: str, settings: dict[str, Any]) -> TensorEnv:
    """The TensorEnv itself; without a seed it draws one, as Gymnasium's environments do."""
    module, _, name = env.partition(":")
    kind = getattr(import_module(module), name)
    defaults = next((changed for path, changed in TASKS.values() if path == env), {})
    config = with_settings(kind.Config(), defaults | settings | {"num_envs": num_envs})
    if seed is None:
        seed = int(np.random.default_rng().integers(2**62))
    return kind(num_envs, device, seed, config)


def with_settings(config: Any, settings: dict[str, Any], prefix: str = "") -> Any:
    """The settings of `config` (a dataclass) with some changed; a dict changes a nested one."""
    known = {f.name for f in fields(config)}
    changed: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"{type(config).__name__} has no setting '{prefix}{name}'{nearest(name, known)}")
        held = getattr(config, name)
        if is_dataclass(held) and isinstance(value, dict):
            value = with_settings(held, value, f"{prefix}{name}.")
        elif isinstance(held, tuple) and isinstance(value, list):
            value = tuple(value)  # JSON has no tuples
        changed[name] = value
    return replace(config, **changed)
