"""Log probability and entropy of Beta distributions as one operation of torch, with its gradient: native code on
a CPU, a Triton kernel on a GPU.

In plain PyTorch digamma and trigamma are slow, and each operation is a pass of its own: 1.75 ms instead of 0.74 ms for
2,048 actions with their gradients on a CPU (benchmarks/results/demo-2026-11-18.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("slipstream::beta_evaluate", mutates_args=())
def _beta_evaluate(alpha: Tensor, beta: Tensor, unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    out = _outputs(alpha)
    inputs = alpha.contiguous(), beta.contiguous(), unit.contiguous()
    if alpha.is_cuda:
        from slipstream.models import beta_kernels  # needs Triton

        beta_kernels.evaluate(*inputs, *out)
    else:
        from slipstream.models import beta_native  # loads numba

        arrays: list[Any] = [x.numpy() for x in (*inputs, *out)]
        beta_native.evaluate(*arrays)
    return out


@_beta_evaluate.register_fake
def _outputs(alpha: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return alpha.new_empty(len(alpha)), alpha.new_empty(len(alpha)), alpha.new_empty(4, *alpha.shape)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[2])


@torch.library.custom_op("slipstream::beta_evaluate_backward", mutates_args=())
def _beta_backward(of_log: Tensor, of_entropy: Tensor, slopes: Tensor) -> Tensor:
    return of_log[:, None] * slopes[:2] + of_entropy[:, None] * slopes[2:]


@_beta_backward.register_fake
def _(of_log: Tensor, of_entropy: Tensor, slopes: Tensor) -> Tensor:
    return torch.empty_like(slopes[:2])


def _gradient(ctx: Any, of_log: Tensor, of_entropy: Tensor, of_slopes: Tensor) -> tuple[Tensor, Tensor, None]:
    of_alpha, of_beta = _beta_backward(of_log, of_entropy, *ctx.saved_tensors).unbind()
    return of_alpha, of_beta, None  # actions have no gradient


_beta_evaluate.register_autograd(_gradient, setup_context=_save)


def beta_evaluate(alpha: Tensor, beta: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    """Return log density and entropy [N] of points `unit` [N, dims] in (0, 1) for parameters [N, dims], all float32.
    Has first derivatives by the parameters only."""
    log_prob, entropy, _ = _beta_evaluate(alpha, beta, unit)
    return log_prob, entropy
