"""Collecting: a policy acts in an env, and what came of it is handed out as [num_envs, T] batches."""

from slipstream.collectors.batch import OverwrittenBatchError
from slipstream.collectors.compressed import CompressedBatch, CompressedDataCollector
from slipstream.collectors.episodes import EpisodeStatistics
from slipstream.collectors.frames import CompressedFrames
from slipstream.collectors.lidar_transform import CompressedLidarInput, CompressedLidarTransform
from slipstream.collectors.pipelined import PipelinedDataCollector
from slipstream.collectors.sync import SyncDataCollector
from slipstream.collectors.trajectories import split_trajectories
from slipstream.models.exploration import ExplorationType, exploration_type, set_exploration_type

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
