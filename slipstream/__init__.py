"""Slipstream trains flight policies in thousands of parallel PyTorch environments."""

from slipstream.algo.ppo import PPO
from slipstream.checkpoint import AsyncCheckpointSaver, format_checkpoint_name, get_model_size, load_checkpoint, print_model_info
from slipstream.collect import SyncDataCollector
from slipstream.envs.base import TensorEnv
from slipstream.envs.navigation import NavigationEnv
from slipstream.exploration import ExplorationType, set_exploration_type
from slipstream.monitor import PerformanceMonitor

__all__ = [
    "PPO",
    "AsyncCheckpointSaver",
    "ExplorationType",
    "NavigationEnv",
    "PerformanceMonitor",
    "SyncDataCollector",
    "TensorEnv",
    "format_checkpoint_name",
    "get_model_size",
    "load_checkpoint",
    "print_model_info",
    "set_exploration_type",
]
