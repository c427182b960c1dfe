"""Slipstream trains flight policies in thousands of parallel PyTorch environments."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Threads that wait by spinning (libgomp's default: for milliseconds) make a training beside one other busy process 25
# times slower; threads that sleep at once lose a third of the speed on a quiet machine. A spin of some microseconds
# loses neither. This must be set before torch is imported. The user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT is kept.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from slipstream.algorithms.dqn import DQN
    from slipstream.algorithms.ppo import PPO
    from slipstream.algorithms.sac import SAC
    from slipstream.algorithms.td3 import TD3
    from slipstream.checkpoint import (
        AsyncCheckpointSaver,
        format_checkpoint_name,
        get_model_size,
        load_checkpoint,
        print_model_info,
    )
    from slipstream.collectors import (
        CompressedDataCollector,
        CompressedLidarTransform,
        PipelinedDataCollector,
        SyncDataCollector,
    )
    from slipstream.envs.base import TensorEnv
    from slipstream.models.exploration import ExplorationType, set_exploration_type
    from slipstream.monitor import Advisor, PerformanceMonitor
    from slipstream.replay import (
        DictReplayBuffer,
        HindsightSampler,
        PrefixSum,
        PrioritizedSampler,
        ReplayBuffer,
        sample_batch,
    )
    from slipstream.rollouts.storage import RolloutStorage
    from slipstream.storage.codec.images import (
        compress_image,
        compress_image_seq,
        decompress_image,
        decompress_image_seq,
    )
    from slipstream.tasks.aircombat.agents import BaseAgent, PlaceholderAgent, create_agent
    from slipstream.tasks.aircombat.env import AirCombatEnv
    from slipstream.tasks.aircombat.rewards import BaseReward, ZeroReward, create_reward
    from slipstream.tasks.navigation.env import NavigationEnv
    from slipstream.training.evaluate import evaluate
    from slipstream.training.trainer import Trainer

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
    "Trainer",
    "ZeroReward",
    "compress_image",
    "compress_image_seq",
    "create_agent",
    "create_reward",
    "decompress_image",
    "decompress_image_seq",
    "evaluate",
    "format_checkpoint_name",
    "get_model_size",
    "load_checkpoint",
    "print_model_info",
    "sample_batch",
    "set_exploration_type",
]

_HOMES = {
    "algorithms.dqn": ("DQN",),
    "algorithms.ppo": ("PPO",),
    "algorithms.sac": ("SAC",),
    "algorithms.td3": ("TD3",),
    "checkpoint": (
        "AsyncCheckpointSaver",
        "format_checkpoint_name",
        "get_model_size",
        "load_checkpoint",
        "print_model_info",
    ),
    "storage.codec.images": ("compress_image", "compress_image_seq", "decompress_image", "decompress_image_seq"),
    "collectors": (
        "CompressedDataCollector",
        "CompressedLidarTransform",
        "PipelinedDataCollector",
        "SyncDataCollector",
    ),
    "tasks.aircombat.agents": ("BaseAgent", "PlaceholderAgent", "create_agent"),
    "tasks.aircombat.env": ("AirCombatEnv",),
    "envs.base": ("TensorEnv",),
    "tasks.navigation.env": ("NavigationEnv",),
    "tasks.aircombat.rewards": ("BaseReward", "ZeroReward", "create_reward"),
    "models.exploration": ("ExplorationType", "set_exploration_type"),
    "monitor": ("Advisor", "PerformanceMonitor"),
    "replay": (
        "DictReplayBuffer",
        "HindsightSampler",
        "PrefixSum",
        "PrioritizedSampler",
        "ReplayBuffer",
        "sample_batch",
    ),
    "rollouts.storage": ("RolloutStorage",),
    "training.evaluate": ("evaluate",),
    "training.trainer": ("Trainer",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: the command line must be able to speak to OpenMP before torch is
    loaded."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"slipstream.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
