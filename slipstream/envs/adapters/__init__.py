"""TensorEnvs as environments of Gymnasium, PettingZoo, TorchRL and Stable-Baselines3. Importing this registers our
tasks with Gymnasium."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.envs.adapters.gymnasium_env import GymnasiumEnv, GymnasiumVectorEnv
    from slipstream.envs.adapters.sb3 import SB3VecEnv
    from slipstream.envs.adapters.torchrl_env import TorchRLEnv
    from slipstream.envs.adapters.zoo import PettingZooEnv

__all__ = ["GymnasiumEnv", "GymnasiumVectorEnv", "PettingZooEnv", "SB3VecEnv", "TorchRLEnv"]

_HOMES = {  # name: (our module, package that it needs)
    "GymnasiumEnv": ("gymnasium_env", "gymnasium"),
    "GymnasiumVectorEnv": ("gymnasium_env", "gymnasium"),
    "PettingZooEnv": ("zoo", "pettingzoo"),
    "SB3VecEnv": ("sb3", "stable_baselines3"),
    "TorchRLEnv": ("torchrl_env", "torchrl"),
}


def __getattr__(name: str) -> Any:
    """Import an adapter on first use: each needs a package of its own."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, package = _HOMES[name]
    if find_spec(package) is None:
        raise ImportError(f"{name} needs {package}: pip install 'slipstream-rl[adapters]'")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]


if find_spec("gymnasium") is not None:
    from slipstream.envs.adapters.gymnasium_env import register_tasks

    register_tasks()
