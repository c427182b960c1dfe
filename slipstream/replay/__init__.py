"""Replay memory of compressed blocks, its index and its samplers."""

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.dict_buffer import DictReplayBuffer, PrefixSum, decompress_single_gridmap, sample_batch
from slipstream.replay.samplers import HindsightSampler, PrioritizedSampler, Sampler, UniformSampler
from slipstream.storage.errors import DamagedFileError

__all__ = [
    "DamagedFileError",
    "DictReplayBuffer",
    "HindsightSampler",
    "PrefixSum",
    "PrioritizedSampler",
    "ReplayBuffer",
    "Sampler",
    "UniformSampler",
    "decompress_single_gridmap",
    "sample_batch",
]
