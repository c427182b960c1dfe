"""Running statistics of returns, so that the critic learns numbers near one whatever the reward's scale."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ValueNorm(nn.Module):
    """Exponential mean and variance of returns with bias correction (β 0.995, as NavRL). Buffers only: it follows the checkpoint."""

    running_mean: Tensor
    running_mean_sq: Tensor
    debiasing_term: Tensor

    def __init__(self, beta: float = 0.995) -> None:
        super().__init__()
        self.beta = beta
        for name in ("running_mean", "running_mean_sq", "debiasing_term"):
            self.register_buffer(name, torch.zeros(()))

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation seen so far; 0 and 1 before any."""
        fresh = self.debiasing_term == 0
        weight = self.debiasing_term.clamp(min=1e-5)
        mean = self.running_mean / weight
        var = (self.running_mean_sq / weight - mean.square()).clamp(min=1e-2)
        return torch.where(fresh, 0.0, mean), torch.where(fresh, 1.0, var.sqrt())

    def update(self, returns: Tensor, valid: Tensor) -> None:
        """Takes in the returns of one batch; those not valid do not count."""
        weight = valid.to(returns.dtype)
        total = weight.sum().clamp(min=1)
        step = (valid.any()).to(returns.dtype) * (1 - self.beta)
        self.running_mean.lerp_((returns * weight).sum() / total, step)
        self.running_mean_sq.lerp_((returns.square() * weight).sum() / total, step)
        self.debiasing_term.lerp_(torch.ones_like(step), step)

    def normalise(self, value: Tensor) -> Tensor:
        """Returns as the critic sees them."""
        mean, std = self.statistics()
        return (value - mean) / std

    def denormalise(self, value: Tensor) -> Tensor:
        """The critic's numbers as returns."""
        mean, std = self.statistics()
        return value * std + mean
