"""Storing: replay memory of compressed blocks, its index, its samplers."""

from slipstream.store.dict_buffer import DictReplayBuffer, sample_batch
from slipstream.store.files import DamagedFileError
from slipstream.store.hindsight import HindsightSampler
from slipstream.store.index import PrefixSum
from slipstream.store.prioritized import PrioritizedSampler
from slipstream.store.replay import ReplayBuffer
from slipstream.store.samplers import Sampler, UniformSampler, WithoutReplacementSampler

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
