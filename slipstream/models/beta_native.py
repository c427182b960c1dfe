"""Log probability and entropy of Beta distributions as native code (numba) for a CPU, with their gradients.

In plain PyTorch digamma and trigamma are slow, and each operation is a pass of its own: 1.75 ms instead of 0.74 ms for
2,048 actions with their gradients (benchmarks/results/demo-2026-11-18.md). The special functions are the series of
`beta_kernels`, in float64. One thread, because a pipelined collector may run parallel native code at the same time,
which not every threading layer of numba allows.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor


@nb.njit
def _gammas(x):  # pragma: no cover
    """Return s, p, digamma and trigamma of x >= 1, where log-gamma is s + log(2 pi) / 2 - log(p)."""
    product, digamma, trigamma = 1.0, 0.0, 0.0
    while x < 5.0:  # from there on the series are exact to 2e-8
        r = 1.0 / x
        product *= x
        digamma -= r
        trigamma += r * r
        x += 1.0
    r, log = 1.0 / x, math.log(x)
    s = r * r
    lgamma = (x - 0.5) * log - x + r * (1 / 12 - s * (1 / 360 - s / 1260))
    digamma += log - 0.5 * r - s * (1 / 12 - s * (1 / 120 - s / 252))
    trigamma += r + 0.5 * s + r * s * (1 / 6 - s * (1 / 30 - s / 42))
    return lgamma, product, digamma, trigamma


@nb.njit(cache=True, nogil=True)
def _evaluate(alpha, beta, unit, log_prob, entropy, slopes):  # pragma: no cover
    for n in range(alpha.shape[0]):
        log, spread = 0.0, 0.0
        for d in range(alpha.shape[1]):
            a, b, x = np.float64(alpha[n, d]), np.float64(beta[n, d]), np.float64(unit[n, d])
            lgamma_a, product_a, digamma_a, trigamma_a = _gammas(a)
            lgamma_b, product_b, digamma_b, trigamma_b = _gammas(b)
            lgamma_t, product_t, digamma_t, trigamma_t = _gammas(a + b)
            half_log_tau = 0.9189385332046727
            log_beta = lgamma_a + lgamma_b - lgamma_t + half_log_tau + math.log(product_t / (product_a * product_b))
            log_x, log_y, shared = math.log(x), math.log1p(-x), (a + b - 2) * trigamma_t
            log += (a - 1) * log_x + (b - 1) * log_y - log_beta
            spread += log_beta - (a - 1) * digamma_a - (b - 1) * digamma_b + (a + b - 2) * digamma_t
            slopes[0, n, d] = log_x - digamma_a + digamma_t
            slopes[1, n, d] = log_y - digamma_b + digamma_t
            slopes[2, n, d] = shared - (a - 1) * trigamma_a
            slopes[3, n, d] = shared - (b - 1) * trigamma_b
        log_prob[n] = log
        entropy[n] = spread


@torch.library.custom_op("slipstream::beta_evaluate_native", mutates_args=())
def _beta_evaluate(alpha: Tensor, beta: Tensor, unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    out = alpha.new_empty(len(alpha)), alpha.new_empty(len(alpha)), alpha.new_empty(4, *alpha.shape)
    inputs: list[Any] = [*(x.contiguous().numpy() for x in (alpha, beta, unit)), *(x.numpy() for x in out)]
    _evaluate(*inputs)
    return out


@_beta_evaluate.register_fake
def _(alpha: Tensor, beta: Tensor, unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return alpha.new_empty(len(alpha)), alpha.new_empty(len(alpha)), alpha.new_empty(4, *alpha.shape)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[2])


@torch.library.custom_op("slipstream::beta_evaluate_native_backward", mutates_args=())
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
    """Return log density and entropy [N] of points `unit` [N, dims] in (0, 1) for parameters [N, dims], all float32 on
    a CPU. Has first derivatives by the parameters only."""
    log_prob, entropy, _ = _beta_evaluate(alpha, beta, unit)
    return log_prob, entropy
