"""Any TorchRL env as a task: slipstream train task=torchrl env.factory=my_module:make_env."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch

from slipstream.config import registry
from slipstream.config.help import ConfigError
from slipstream.config.validation import check_range
from slipstream.tasks.base import Task

try:
    from torchrl.envs import EnvBase, ParallelEnv, SerialEnv
except ImportError as error:
    raise ImportError("task=torchrl needs TorchRL: pip install -e '.[adapters]'") from error

from slipstream.envs.adapters.from_torchrl import FromTorchRL

VECTORIZATIONS = {"serial": SerialEnv, "parallel": ParallelEnv}


@dataclass
class TorchRLConfig:
    """The settings of `env.*`."""

    num_envs: int = 1
    factory: str = ""  # my_module:make_env returns the env; it gets num_envs, device and seed if it takes them
    vectorization: str = "serial"  # of single envs; parallel: one process per env
    keys: list[str] = field(default_factory=list)  # observations to use, such as agents.lidar; all by default
    kwargs: dict[str, Any] = field(default_factory=dict)  # more arguments of the factory: 'env.kwargs={frame_skip: 4}'

    def __post_init__(self) -> None:
        check_range(self, "num_envs", minimum=1, section="env.")
        if self.vectorization not in VECTORIZATIONS:
            raise ValueError(f"env.vectorization must be serial or parallel, not '{self.vectorization}'")


class FactoryEnv(FromTorchRL):
    """The TorchRL env that a factory makes."""

    Config = TorchRLConfig
    spec_settings = ("factory", "keys", "kwargs")

    def __init__(
        self,
        num_envs: int | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        config: TorchRLConfig | None = None,
    ) -> None:
        self.config = config = config or TorchRLConfig()
        super().__init__(_make(config, num_envs or config.num_envs, torch.device(device), seed), seed, config.keys)


class TorchRLTask(Task):
    """The default behavior."""

    env = FactoryEnv


def _make(config: TorchRLConfig, num_envs: int, device: torch.device, seed: int) -> EnvBase:
    asked = f"env.factory={config.factory}"
    if ":" not in config.factory:
        raise ConfigError("name the function that makes the TorchRL env: env.factory=my_module:make_env")
    factory = registry.load(config.factory, asked)
    if not callable(factory):
        raise ConfigError(f"{asked}: the module has no such function")
    takes = inspect.signature(factory).parameters
    given = {k: v for k, v in (("num_envs", num_envs), ("device", device), ("seed", seed)) if k in takes}

    def make() -> EnvBase:
        return factory(**given | config.kwargs)

    env = make()
    if not isinstance(env, EnvBase):
        raise ConfigError(f"{asked} must return a TorchRL env (EnvBase), not {type(env).__name__}")
    if not env.batch_size and num_envs > 1:
        env.close()
        env = VECTORIZATIONS[config.vectorization](num_envs, make)
    if env.batch_size.numel() != num_envs:
        made = f"{asked} made {env.batch_size.numel()} environments, not env.num_envs={num_envs}"
        raise ConfigError(f"{made}: let the factory take num_envs, or set env.num_envs")
    return env.to(device) if env.device != device else env
