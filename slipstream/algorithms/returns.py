"""Advantages and returns over a rollout."""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Generalised advantages [T, N] of time-major tensors; 0 on frames that are not valid.

    A termination ends the sum and has no value beyond it; a truncation ends the sum too, and its value beyond is that of the
    episode's final observation. Nothing passes from one episode to the one before, nor through an invalid frame.
    """
    bootstrap = ~terminated  # a value exists beyond this step
    carry = ~(terminated | truncated) & valid  # the same episode goes on
    delta = reward + gamma * next_value * bootstrap - value
    keep = gamma * lam * carry
    if reward.is_cuda and HAS_TRITON:
        from slipstream.algorithms.gae_kernel import discounted_sums

        return discounted_sums(delta, keep, valid)
    rows = []
    advantage = torch.zeros_like(reward[0])
    for t in range(len(reward) - 1, -1, -1):
        advantage = torch.where(valid[t], delta[t] + keep[t] * advantage, 0.0)
        rows.append(advantage)
    return torch.stack(rows[::-1])
