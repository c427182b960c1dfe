"""Seeds, and counter-based random numbers: a pure function of (seed, index, counter, lane).

They are equal on every device and for any number of environments, need no state but the counter, and are plain
arithmetic for CUDA graphs and compilers. The mixing function is a 32-bit integer hash with full avalanche, computed in
int64.
"""

from __future__ import annotations

import hashlib
import math
import sys

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
LANE_STEP = 0x9E3779B1
MAX_WIDTH = 65_536  # numbers per stream and counter
_STATE_BYTES = (16, 5056)  # of torch's generators on CUDA and on a CPU


def _mix(x: Tensor) -> Tensor:
    """Apply a bijection of [0, 2^32) in which every output bit depends on every input bit."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


class CounterRandom:
    """Independent streams, each a function of its own counter: `count` per seed."""

    def __init__(self, seeds: list[int], count: int, device: torch.device | str = "cpu") -> None:
        index = torch.arange(count, dtype=torch.int64)
        seed = torch.tensor(seeds, dtype=torch.int64)[:, None]
        # [seeds * count, 1]
        self._stream = _mix(_mix(_mix(index) ^ (seed & _MASK)) ^ ((seed >> 32) & _MASK)).reshape(-1, 1).to(device)
        self._lanes = (torch.arange(MAX_WIDTH, dtype=torch.int64) * LANE_STEP).to(device)

    @property
    def stream(self) -> Tensor:
        """The key of each stream [streams], for native code and kernels that draw the same numbers."""
        return self._stream.flatten()

    def uniform(self, counter: Tensor, width: int) -> Tensor:
        """Return [streams, width] float32 in [0, 1) at `counter` (int64, [streams] or one number for all)."""
        if width > MAX_WIDTH:
            raise ValueError(f"{width} random numbers per environment are more than {MAX_WIDTH:,}")
        state = _mix(self._stream ^ (counter.reshape(-1, 1) & _MASK))
        return (_mix((state + self._lanes[:width]) & _MASK) >> 8).float() * 2.0**-24

    def normal(self, counter: Tensor, width: int) -> Tensor:
        """Return [streams, width] standard normal numbers at `counter` (Box-Muller)."""
        half = (width + 1) // 2
        u = self.uniform(counter, 2 * half)
        radius = torch.sqrt(-2 * torch.log1p(-u[:, :half]))
        angle = 2 * math.pi * u[:, half:]
        return torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)), 1)[:, :width]


def derive_seed(root: int, component: str, rank: int = 0) -> int:
    """Derive a 63-bit seed for a component on process `rank`; equal inputs give equal seeds on every machine."""
    digest = hashlib.blake2b(f"{root}/{component}/{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def restore_generator(generator: torch.Generator, state: Tensor, what: str) -> None:
    """Set a generator's state; a state of another device type cannot continue, so it becomes a new seed instead.

    Args:
        what: The name of its numbers in the message about a new seed.
    """
    state = state.cpu()
    if state.numel() in _STATE_BYTES and state.numel() != generator.get_state().numel():
        digest = hashlib.blake2b(state.numpy().tobytes(), digest_size=8).digest()
        generator.manual_seed(int.from_bytes(digest, "little") >> 1)
        print(f"{what} continue with a new seed: the run was on another kind of device", file=sys.stderr)
    else:
        generator.set_state(state)
