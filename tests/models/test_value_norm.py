from __future__ import annotations

import pytest
import torch

from slipstream.models.policy import ValueNorm

ALL = torch.ones(4, dtype=torch.bool)


def test_two_batches_are_weighed_exponentially():
    norm = ValueNorm(beta=0.5)
    norm.update(torch.full((4,), 1.0), ALL)
    norm.update(torch.full((4,), 4.0), ALL)
    # weights 0.25 and 0.5 of 0.75 in all
    assert norm.debiasing_term.item() == pytest.approx(0.75)
    mean, deviation = norm.statistics()
    assert mean.item() == pytest.approx((0.25 * 1 + 0.5 * 4) / 0.75)
    assert deviation.item() == pytest.approx(((0.25 * 1 + 0.5 * 16) / 0.75 - 9) ** 0.5)


def test_equal_returns_do_not_divide_by_nothing():
    norm = ValueNorm()
    norm.update(torch.full((4,), 3.0), ALL)
    assert norm.statistics()[1].item() == pytest.approx(0.1)  # the variance is held at 0.01
    assert torch.isfinite(norm.normalize(torch.tensor(3.0)))
