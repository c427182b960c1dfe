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
    """Compute generalized advantage estimates.

    A terminated step has no value after it; a truncated one bootstraps from the value of the episode's final
    observation. Advantages never pass from one episode to another, nor through an invalid frame.

    Args:
        reward, value, next_value: time-major, each [T, N].
        terminated, truncated, valid: bool, each [T, N].
        gamma: discount per step.
        lam: decay of the estimator.

    Returns:
        Advantages [T, N]; 0 on invalid frames.
    """
    bootstrap = ~terminated
    same_episode = ~(terminated | truncated) & valid
    delta = reward + gamma * next_value * bootstrap - value
    keep = gamma * lam * same_episode
    if reward.is_cuda and HAS_TRITON:
        from slipstream.algorithms.gae_kernel import discounted_sums

        return discounted_sums(delta, keep, valid)
    rows = []
    advantage = torch.zeros_like(reward[0])
    for t in range(len(reward) - 1, -1, -1):
        advantage = torch.where(valid[t], delta[t] + keep[t] * advantage, 0.0)
        rows.append(advantage)
    return torch.stack(rows[::-1])
