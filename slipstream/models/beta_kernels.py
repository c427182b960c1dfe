"""Log probability and entropy of Beta distributions, with their derivatives, in one Triton kernel; `models.beta` calls
it for a GPU.

Plain PyTorch needs about thirty kernels; those of digamma and trigamma are slow. Here the three special functions are
Stirling's series after a shift by six: exact to float32 rounding for arguments from 1 on, and the parameters are above
1.
"""

from __future__ import annotations

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
def _evaluate(alpha, beta, unit, log_prob, entropy, slopes, rows, DIMS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < rows
    log, spread = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for d in tl.static_range(DIMS):
        at = row * DIMS + d
        a = tl.load(alpha + at, mask=live, other=2.0)
        b = tl.load(beta + at, mask=live, other=2.0)
        x = tl.load(unit + at, mask=live, other=0.5)
        total = a + b
        log_x, log_y = tl.log(x), tl.log(1.0 - x)
        digamma_a, digamma_b, digamma_t = _digamma(a), _digamma(b), _digamma(total)
        log_beta = _lgamma(a) + _lgamma(b) - _lgamma(total)
        log += (a - 1.0) * log_x + (b - 1.0) * log_y - log_beta
        spread += log_beta - (a - 1.0) * digamma_a - (b - 1.0) * digamma_b + (total - 2.0) * digamma_t
        shared, plane = (total - 2.0) * _trigamma(total), rows * DIMS
        tl.store(slopes + at, log_x - digamma_a + digamma_t, mask=live)
        tl.store(slopes + plane + at, log_y - digamma_b + digamma_t, mask=live)
        tl.store(slopes + 2 * plane + at, shared - (a - 1.0) * _trigamma(a), mask=live)
        tl.store(slopes + 3 * plane + at, shared - (b - 1.0) * _trigamma(b), mask=live)
    tl.store(log_prob + row, log, mask=live)
    tl.store(entropy + row, spread, mask=live)


def evaluate(alpha: Tensor, beta: Tensor, unit: Tensor, log_prob: Tensor, entropy: Tensor, slopes: Tensor) -> None:
    """Write log density and entropy [N] of points `unit` [N, dims], and the four derivatives [4, N, dims]; all are
    contiguous and float32."""
    rows, dims = alpha.shape
    _evaluate[(triton.cdiv(rows, _BLOCK),)](alpha, beta, unit, log_prob, entropy, slopes, rows, dims, _BLOCK)
