"""Storing: replay memory of compressed blocks, its index, its samplers."""

from slipstream.store.index import PrefixSum
from slipstream.store.prioritized import PrioritizedSampler
from slipstream.store.replay import ReplayBuffer
from slipstream.store.samplers import Sampler, UniformSampler, WithoutReplacementSampler

__all__ = ["PrefixSum", "PrioritizedSampler", "ReplayBuffer", "Sampler", "UniformSampler", "WithoutReplacementSampler"]
