"""Several MLPs of one shape, run as one: each layer is a single batched matrix product."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EnsembleLinear(nn.Module):
    """K linear layers at once: [K, N, inputs] in, [K, N, outputs] out. Starts as torch's own `nn.Linear`."""

    def __init__(self, count: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(count, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(count, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Each layer on its own row of x; where x has fewer rows, the first layers alone."""
        return torch.baddbmm(*_first(len(x), self.bias, self.weight, between=x))


class EnsembleNorm(nn.Module):
    """K layer norms at once."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(count, 1, width))
        self.bias = nn.Parameter(torch.zeros(count, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """[K, N, width] in and out; fewer rows as above."""
        return torch.addcmul(*_first(len(x), self.bias, self.weight, between=F.layer_norm(x, x.shape[-1:])))


class EnsembleMLP(nn.Module):
    """K MLPs with one number at their end each: [N, inputs] in, [K, N] out. As `encoders.mlp`, then a linear layer."""

    def __init__(self, count: int, inputs: int, widths: list[int] | tuple[int, ...], layer_norm: bool = True) -> None:
        super().__init__()
        self.count = count
        layers: list[nn.Module] = []
        for width in widths:
            layers += [
                EnsembleLinear(count, inputs, width),
                nn.LeakyReLU(),
                *([EnsembleNorm(count, width)] if layer_norm else []),
            ]
            inputs = width
        self.layers = nn.Sequential(*layers, EnsembleLinear(count, inputs, 1))

    def forward(self, x: Tensor, count: int | None = None) -> Tensor:
        """What each MLP, or the first `count` of them, makes of the same x."""
        return self.layers(x.expand(count or self.count, *x.shape))[..., 0]


def _first(count: int, bias: Tensor, weight: Tensor, between: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bias, input and weight of the first `count` members."""
    return (bias, between, weight) if count == len(weight) else (bias[:count], between, weight[:count])
