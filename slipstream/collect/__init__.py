"""Collecting: a policy acts in an env, and what came of it is handed out as [num_envs, T] batches."""

from slipstream.collect.batch import OverwrittenBatchError
from slipstream.collect.episodes import EpisodeStatistics
from slipstream.collect.pipelined import PipelinedDataCollector
from slipstream.collect.sync import SyncDataCollector
from slipstream.collect.trajectories import split_trajectories
from slipstream.exploration import ExplorationType, exploration_type, set_exploration_type

__all__ = [
    "EpisodeStatistics",
    "ExplorationType",
    "OverwrittenBatchError",
    "PipelinedDataCollector",
    "SyncDataCollector",
    "exploration_type",
    "set_exploration_type",
    "split_trajectories",
]
