"""Collecting: a policy acts in an env, and what came of it is handed out as [num_envs, T] batches."""

from slipstream.collect.batch import OverwrittenBatchError
from slipstream.collect.compressed import CompressedBatch, CompressedDataCollector
from slipstream.collect.episodes import EpisodeStatistics
from slipstream.collect.frames import CompressedFrames
from slipstream.collect.lidar_transform import CompressedLidarInput, CompressedLidarTransform
from slipstream.collect.pipelined import PipelinedDataCollector
from slipstream.collect.sync import SyncDataCollector
from slipstream.collect.trajectories import split_trajectories
from slipstream.exploration import ExplorationType, exploration_type, set_exploration_type

__all__ = [
    "CompressedBatch",
    "CompressedDataCollector",
    "CompressedFrames",
    "CompressedLidarInput",
    "CompressedLidarTransform",
    "EpisodeStatistics",
    "ExplorationType",
    "OverwrittenBatchError",
    "PipelinedDataCollector",
    "SyncDataCollector",
    "exploration_type",
    "set_exploration_type",
    "split_trajectories",
]
