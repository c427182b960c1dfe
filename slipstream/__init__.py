"""Slipstream trains flight policies in thousands of parallel PyTorch environments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.algo.dqn import DQN
    from slipstream.algo.ppo import PPO
    from slipstream.algo.sac import SAC
    from slipstream.algo.td3 import TD3
    from slipstream.checkpoint import AsyncCheckpointSaver, format_checkpoint_name, get_model_size, load_checkpoint, print_model_info
    from slipstream.codec.images import compress_image, compress_image_seq, decompress_image, decompress_image_seq
    from slipstream.collect import CompressedDataCollector, CompressedLidarTransform, PipelinedDataCollector, SyncDataCollector
    from slipstream.envs.agents import BaseAgent, PlaceholderAgent
    from slipstream.envs.aircombat import AirCombatEnv
    from slipstream.envs.base import TensorEnv
    from slipstream.envs.navigation import NavigationEnv
    from slipstream.envs.rewards import BaseReward, ZeroReward
    from slipstream.exploration import ExplorationType, set_exploration_type
    from slipstream.monitor import Advisor, PerformanceMonitor
    from slipstream.store import DictReplayBuffer, HindsightSampler, PrefixSum, PrioritizedSampler, ReplayBuffer, sample_batch
    from slipstream.store.rollouts import RolloutStorage

__all__ = [
    "DQN",
    "PPO",
    "SAC",
    "TD3",
    "Advisor",
    "AirCombatEnv",
    "AsyncCheckpointSaver",
    "BaseAgent",
    "BaseReward",
    "CompressedDataCollector",
    "CompressedLidarTransform",
    "DictReplayBuffer",
    "ExplorationType",
    "HindsightSampler",
    "NavigationEnv",
    "PerformanceMonitor",
    "PipelinedDataCollector",
    "PlaceholderAgent",
    "PrefixSum",
    "PrioritizedSampler",
    "ReplayBuffer",
    "RolloutStorage",
    "SyncDataCollector",
    "TensorEnv",
    "ZeroReward",
    "compress_image",
    "compress_image_seq",
    "decompress_image",
    "decompress_image_seq",
    "format_checkpoint_name",
    "get_model_size",
    "load_checkpoint",
    "print_model_info",
    "sample_batch",
    "set_exploration_type",
]

_HOMES = {
    "algo.dqn": ("DQN",),
    "algo.ppo": ("PPO",),
    "algo.sac": ("SAC",),
    "algo.td3": ("TD3",),
    "checkpoint": ("AsyncCheckpointSaver", "format_checkpoint_name", "get_model_size", "load_checkpoint", "print_model_info"),
    "codec.images": ("compress_image", "compress_image_seq", "decompress_image", "decompress_image_seq"),
    "collect": ("CompressedDataCollector", "CompressedLidarTransform", "PipelinedDataCollector", "SyncDataCollector"),
    "envs.agents": ("BaseAgent", "PlaceholderAgent"),
    "envs.aircombat": ("AirCombatEnv",),
    "envs.base": ("TensorEnv",),
    "envs.navigation": ("NavigationEnv",),
    "envs.rewards": ("BaseReward", "ZeroReward"),
    "exploration": ("ExplorationType", "set_exploration_type"),
    "monitor": ("Advisor", "PerformanceMonitor"),
    "store": ("DictReplayBuffer", "HindsightSampler", "PrefixSum", "PrioritizedSampler", "ReplayBuffer", "sample_batch"),
    "store.rollouts": ("RolloutStorage",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: the command line must be able to speak to OpenMP before torch is loaded."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"slipstream.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
