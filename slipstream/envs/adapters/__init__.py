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

_HOMES = {
    "GymnasiumEnv": "gymnasium_env",
    "GymnasiumVectorEnv": "gymnasium_env",
    "PettingZooEnv": "zoo",
    "SB3VecEnv": "sb3",
    "TorchRLEnv": "torchrl_env",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import an adapter on first use: each needs a package of its own."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"{name} needs {error.name}: pip install -e '.[adapters]'") from error


if find_spec("gymnasium") is not None:
    from slipstream.envs.adapters.gymnasium_env import register_tasks

    register_tasks()
