"""Storing: replay memory of compressed blocks, its index, its samplers."""

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.dict_buffer import DictReplayBuffer, sample_batch
from slipstream.replay.index.step_index import PrefixSum
from slipstream.replay.sampling.hindsight import HindsightSampler
from slipstream.replay.sampling.prioritized import PrioritizedSampler
from slipstream.replay.sampling.samplers import Sampler, UniformSampler, WithoutReplacementSampler
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
    "WithoutReplacementSampler",
    "sample_batch",
]
