"""Log probability and entropy of Beta distributions, with their derivatives, as native code (numba); `models.beta`
calls it on a CPU.

The special functions are the series of `beta_kernels`, in float64. One thread, because a pipelined collector may run
parallel native code at the same time, which not every threading layer of numba allows.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np


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
def evaluate(alpha, beta, unit, log_prob, entropy, slopes):  # pragma: no cover
    """Write log density and entropy [N] of points `unit` [N, dims], and the four derivatives [4, N, dims]."""
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
