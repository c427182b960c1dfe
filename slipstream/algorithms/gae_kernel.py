"""Generalized advantage estimates as one Triton kernel: one lane per environment, backwards in time. PyTorch needs four
kernels per step."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 64


@triton.jit
def _gae(delta, keep, valid, out, steps, envs, BLOCK: tl.constexpr):
    env = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = env < envs
    advantage = tl.zeros([BLOCK], tl.float32)
    for back in range(steps):
        at = (steps - 1 - back) * envs + env
        now = tl.load(delta + at, mask=live, other=0.0) + tl.load(keep + at, mask=live, other=0.0) * advantage
        advantage = tl.where(tl.load(valid + at, mask=live, other=0) != 0, now, 0.0)
        tl.store(out + at, advantage, mask=live)


def discounted_sums(delta: Tensor, keep: Tensor, valid: Tensor) -> Tensor:
    """Return out[t] = delta[t] + keep[t] * out[t + 1] where valid, else 0; all [T, N], float32 and bool."""
    delta, keep, valid = delta.contiguous(), keep.contiguous(), valid.contiguous()
    out = torch.empty_like(delta)
    steps, envs = delta.shape
    _gae[(triton.cdiv(envs, _BLOCK),)](delta, keep, valid.view(torch.uint8), out, steps, envs, _BLOCK)
    return out
