"""Collectors: a policy acts in an env; the result is returned as batches [num_envs, T]."""

from slipstream.collectors.batch import OverwrittenBatchError
from slipstream.collectors.compressed import (
    CompressedBatch,
    CompressedDataCollector,
    CompressedFrames,
    CompressedLidarInput,
    CompressedLidarTransform,
    compress_rollout,
    decompress_rollout,
)
from slipstream.collectors.episodes import EpisodeStatistics, split_trajectories
from slipstream.collectors.pipelined import PipelinedDataCollector
from slipstream.collectors.sync import SyncDataCollector
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
    "compress_rollout",
    "decompress_rollout",
    "exploration_type",
    "set_exploration_type",
    "split_trajectories",
]
