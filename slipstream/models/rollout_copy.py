"""A copy of a policy for acting: what depends only on the weights is computed once per rollout instead of in every
step."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.envs.specs import Observation
from slipstream.models.encoders import DenseConv2d
from slipstream.models.policy import ActorCritic


class RolloutCopy(nn.Module):
    """Act as `policy` did at the last `refresh`: convolutions are stored as matrices, and with `bf16` the encoder's
    weights in bf16.

    The outputs are the policy's own. `refresh` writes in place, so it can be part of a captured rollout.

    Args:
        policy: the policy to copy.
        dense: store convolutions as matrices; by default on a GPU, where the policy itself multiplies matrices.
    """

    def __init__(self, policy: ActorCritic, dense: bool | None = None) -> None:
        super().__init__()
        dense = next(policy.parameters()).is_cuda if dense is None else dense
        self.copy = copy.deepcopy(policy).requires_grad_(False)
        self._matrices: list[tuple[DenseConv2d, _Matrix]] = []
        theirs = dict(policy.named_modules())
        for name, module in list(self.copy.named_modules()):
            original = theirs[name]
            if dense and isinstance(original, DenseConv2d):
                matrix = _Matrix(original, policy.bf16)
                self.copy.set_submodule(name, matrix)
                self._matrices.append((original, matrix))
            elif policy.bf16 and name.startswith("encoder.") and isinstance(module, nn.Linear):
                module.to(torch.bfloat16)  # autocast would cast these layers, and no others, in every step
        mine = dict(self.copy.named_parameters()) | dict(self.copy.named_buffers())
        originals = (*policy.named_parameters(), *policy.named_buffers())
        self._pairs = [(mine[name], x) for name, x in originals if name in mine]

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the policy's present weights."""
        torch._foreach_copy_([mine for mine, _ in self._pairs], [theirs for _, theirs in self._pairs])
        for convolution, matrix in self._matrices:
            matrix.dense_weight.copy_(convolution.matrix())
            matrix.dense_bias.copy_(convolution.spread_bias())

    def forward(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the policy returns."""
        return self.copy(observation)

    def value(self, observation: Observation) -> Tensor:
        """Return what the policy returns."""
        return self.copy.value(observation)


class _Matrix(nn.Module):
    """A `DenseConv2d` with its matrix precomputed."""

    dense_weight: Tensor
    dense_bias: Tensor

    def __init__(self, convolution: DenseConv2d, bf16: bool) -> None:
        super().__init__()
        self.output = convolution.output
        dtype = torch.bfloat16 if bf16 else convolution.weight.dtype
        with torch.no_grad():
            self.register_buffer("dense_weight", convolution.matrix().to(dtype), persistent=False)
            self.register_buffer("dense_bias", convolution.spread_bias().to(dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.flatten(1), self.dense_weight, self.dense_bias).unflatten(1, self.output)
