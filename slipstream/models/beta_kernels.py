"""Log probability and entropy of Beta distributions in one Triton kernel, and both gradients in another.

Plain PyTorch needs about thirty kernels; those of digamma and trigamma are slow. Here the three special functions are
Stirling's series after a shift by six: exact to float32 rounding for arguments from 1 on, and the parameters are above
1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 128


@triton.jit
def _shifted(x):
    """Return x or x + 6, at least 7 for x >= 1, where the series are exact; and whether it was shifted."""
    low = x < 8.0
    return tl.where(low, x + 6.0, x), low


@triton.jit
def _lgamma(x):
    z, low = _shifted(x)
    small = tl.where(low, x, 1.0)
    product = small * (small + 1.0) * (small + 2.0) * (small + 3.0) * (small + 4.0) * (small + 5.0)
    r = 1.0 / z
    series = r * (0.08333333333 - r * r * (0.00277777778 - r * r * 0.00079365079))
    return (z - 0.5) * tl.log(z) - z + 0.91893853320 + series - tl.where(low, tl.log(product), 0.0)


@triton.jit
def _digamma(x):
    z, low = _shifted(x)
    r = 1.0 / z
    s = r * r
    series = tl.log(z) - 0.5 * r - s * (0.08333333333 - s * (0.00833333333 - s * 0.00396825397))
    below = 1.0 / x + 1.0 / (x + 1.0) + 1.0 / (x + 2.0) + 1.0 / (x + 3.0) + 1.0 / (x + 4.0) + 1.0 / (x + 5.0)
    return series - tl.where(low, below, 0.0)


@triton.jit
def _trigamma(x):
    z, low = _shifted(x)
    r = 1.0 / z
    s = r * r
    series = r + 0.5 * s + r * s * (0.16666666667 - s * (0.03333333333 - s * 0.02380952381))
    a, b, c = 1.0 / x, 1.0 / (x + 1.0), 1.0 / (x + 2.0)
    d, e, f = 1.0 / (x + 3.0), 1.0 / (x + 4.0), 1.0 / (x + 5.0)
    return series + tl.where(low, a * a + b * b + c * c + d * d + e * e + f * f, 0.0)


@triton.jit
def _forward(alpha, beta, unit, log_prob, entropy, rows, DIMS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < rows
    log, spread = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for d in tl.static_range(DIMS):
        a = tl.load(alpha + row * DIMS + d, mask=live, other=2.0)
        b = tl.load(beta + row * DIMS + d, mask=live, other=2.0)
        x = tl.load(unit + row * DIMS + d, mask=live, other=0.5)
        total = a + b
        log_beta = _lgamma(a) + _lgamma(b) - _lgamma(total)
        log += (a - 1.0) * tl.log(x) + (b - 1.0) * tl.log(1.0 - x) - log_beta
        spread += log_beta - (a - 1.0) * _digamma(a) - (b - 1.0) * _digamma(b) + (total - 2.0) * _digamma(total)
    tl.store(log_prob + row, log, mask=live)
    tl.store(entropy + row, spread, mask=live)


@triton.jit
def _backward(alpha, beta, unit, of_log, of_entropy, of_alpha, of_beta, rows, DIMS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < rows
    g_log = tl.load(of_log + row, mask=live, other=0.0)
    g_entropy = tl.load(of_entropy + row, mask=live, other=0.0)
    for d in tl.static_range(DIMS):
        a = tl.load(alpha + row * DIMS + d, mask=live, other=2.0)
        b = tl.load(beta + row * DIMS + d, mask=live, other=2.0)
        x = tl.load(unit + row * DIMS + d, mask=live, other=0.5)
        total = a + b
        common = _digamma(total)
        shared = (total - 2.0) * _trigamma(total)
        ga = g_log * (tl.log(x) - _digamma(a) + common) + g_entropy * (shared - (a - 1.0) * _trigamma(a))
        gb = g_log * (tl.log(1.0 - x) - _digamma(b) + common) + g_entropy * (shared - (b - 1.0) * _trigamma(b))
        tl.store(of_alpha + row * DIMS + d, ga, mask=live)
        tl.store(of_beta + row * DIMS + d, gb, mask=live)


@torch.library.custom_op("slipstream::beta_evaluate", mutates_args=())
def beta_evaluate(alpha: Tensor, beta: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    """Return log density and entropy [N] of points `unit` [N, dims] in (0, 1) for parameters [N, dims], all float32."""
    alpha, beta, unit = alpha.contiguous(), beta.contiguous(), unit.contiguous()
    rows, dims = alpha.shape
    log_prob, entropy = alpha.new_empty(rows), alpha.new_empty(rows)
    _forward[(triton.cdiv(rows, _BLOCK),)](alpha, beta, unit, log_prob, entropy, rows, dims, _BLOCK)
    return log_prob, entropy


@torch.library.custom_op("slipstream::beta_evaluate_backward", mutates_args=())
def _beta_backward(
    alpha: Tensor, beta: Tensor, unit: Tensor, of_log: Tensor, of_entropy: Tensor
) -> tuple[Tensor, Tensor]:
    alpha, beta, unit = alpha.contiguous(), beta.contiguous(), unit.contiguous()
    rows, dims = alpha.shape
    of_alpha, of_beta = torch.empty_like(alpha), torch.empty_like(beta)
    grid = (triton.cdiv(rows, _BLOCK),)
    _backward[grid](
        alpha, beta, unit, of_log.contiguous(), of_entropy.contiguous(), of_alpha, of_beta, rows, dims, _BLOCK
    )
    return of_alpha, of_beta


@beta_evaluate.register_fake
def _(alpha: Tensor, beta: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    return alpha.new_empty(len(alpha)), alpha.new_empty(len(alpha))


@_beta_backward.register_fake
def _(alpha: Tensor, beta: Tensor, unit: Tensor, of_log: Tensor, of_entropy: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(alpha, memory_format=torch.contiguous_format), torch.empty_like(
        beta, memory_format=torch.contiguous_format
    )


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _gradient(ctx: Any, of_log: Tensor, of_entropy: Tensor) -> tuple[Tensor, Tensor, None]:
    return *_beta_backward(*ctx.saved_tensors, of_log, of_entropy), None  # actions have no gradient


beta_evaluate.register_autograd(_gradient, setup_context=_save)


def launches(rows: int, dims: int, device: torch.device) -> list[Callable[[], Any]]:
    """Return one call per kernel, which launches it on `rows` rows of any numbers and so compiles it."""

    def numbers(*shape: int) -> Tensor:
        return torch.full(shape, 0.5, device=device)

    return [
        lambda: beta_evaluate(*(numbers(rows, dims) for _ in range(3))),
        lambda: _beta_backward(*(numbers(rows, dims) for _ in range(3)), numbers(rows), numbers(rows)),
    ]
