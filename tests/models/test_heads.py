from __future__ import annotations

import pytest
import torch
from torch import distributions as dist

from slipstream.models.heads import BetaHead, CategoricalHead, GaussianHead, linear_together

FEATURES = torch.randn(6, 5, generator=torch.Generator().manual_seed(3))
MANY = 40_000


def loud(head):
    """A head as after training: weights far from their quiet start."""
    torch.manual_seed(4)
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.8)
    return head


def test_beta_agrees_with_torchs_on_the_unit_interval():
    head = loud(BetaHead(5, 3, -2.0, 2.0))
    parameters = head(FEATURES)
    unit = dist.Independent(dist.Beta(*parameters), 1)
    action = unit.sample()
    found = head.log_prob(parameters, 4 * action - 2), head.entropy(parameters)
    torch.testing.assert_close(found, (unit.log_prob(action), unit.entropy()), rtol=1e-4, atol=1e-4)


def test_beta_mean_mode_and_samples_match_the_distribution():
    head = BetaHead(5, 1, -2.0, 6.0)
    parameters = (torch.full((MANY, 1), 2.0), torch.full((MANY, 1), 6.0))
    assert head.mean(parameters)[0] == pytest.approx(-2 + 8 * 0.25)
    assert head.mode(parameters)[0] == pytest.approx(-2 + 8 / 6)
    torch.manual_seed(0)
    sample = head.sample(parameters)
    assert sample.mean().item() == pytest.approx(0.0, abs=0.03)
    assert sample.std().item() == pytest.approx(8 * (12 / (64 * 9)) ** 0.5, rel=0.03)
    assert sample.min() > -2.0 and sample.max() < 6.0


def test_a_beta_gone_to_its_end_still_has_finite_densities():
    head = BetaHead(5, 1, -2.0, 2.0)
    parameters = (torch.full((4, 1), 800.0), torch.full((4, 1), 1.000001))
    action = torch.tensor([[-2.0], [2.0], [1.999999], [0.0]])
    assert torch.isfinite(head.log_prob(parameters, action)).all()
    assert torch.isfinite(head.log_prob(parameters, head.sample(parameters))).all()
    assert torch.isfinite(head.mode((torch.full((1, 1), 1.000001), torch.full((1, 1), 1.000001)))).all()


def test_gaussian_agrees_with_torchs_normal():
    head = loud(GaussianHead(5, 3))
    parameters = head(FEATURES)
    reference = dist.Independent(dist.Normal(parameters[0], parameters[1].exp()), 1)
    action = reference.sample()
    torch.testing.assert_close(head.log_prob(parameters, action), reference.log_prob(action))
    torch.testing.assert_close(head.entropy(parameters), reference.entropy())
    assert torch.equal(head.mean(parameters), reference.mean) and torch.equal(head.mode(parameters), reference.mean)


def test_gaussian_samples_spread_by_the_learned_deviation():
    head = GaussianHead(5, 2)
    head.log_std.data = torch.tensor([0.0, -1.0])
    torch.manual_seed(0)
    sample = head.sample((torch.tensor([3.0, -1.0]).expand(MANY, 2), head.log_std.expand(MANY, 2)))
    torch.testing.assert_close(sample.mean(0), torch.tensor([3.0, -1.0]), atol=0.02, rtol=0)
    torch.testing.assert_close(sample.std(0), torch.tensor([1.0, 0.36788]), atol=0, rtol=0.02)


def test_categorical_agrees_with_torchs():
    head = loud(CategoricalHead(5, 4))
    parameters = head(FEATURES)
    reference = dist.Categorical(logits=head.logits(FEATURES))
    action = reference.sample()
    torch.testing.assert_close(head.log_prob(parameters, action), reference.log_prob(action))
    torch.testing.assert_close(head.entropy(parameters), reference.entropy())
    assert torch.equal(head.mode(parameters), reference.probs.argmax(-1))


def test_categorical_samples_come_as_often_as_they_are_likely():
    p = torch.tensor([0.6, 0.3, 0.1])
    torch.manual_seed(0)
    counts = torch.bincount(CategoricalHead(5, 3).sample((p.log().expand(MANY, 3),)), minlength=3) / MANY
    torch.testing.assert_close(counts, p, atol=0.01, rtol=0)


def test_an_impossible_category_is_never_drawn():
    head = CategoricalHead(5, 3)
    log_p = torch.log_softmax(torch.tensor([0.0, 0.0, -1e4]), 0).expand(MANY, 3)
    assert head.sample((log_p,)).max() < 2
    torch.testing.assert_close(head.entropy((log_p[:1],)), torch.tensor([0.693147]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_layers_in_one_product_are_those_layers():
    layers = [torch.nn.Linear(256, n, device="cuda") for n in (3, 3, 1)]
    features = torch.randn(500, 256, device="cuda", requires_grad=True)
    for x, layer in zip(linear_together(features, *layers), layers, strict=True):
        torch.testing.assert_close(x, layer(features), rtol=1e-3, atol=1e-3)
    together = torch.autograd.grad(sum(x.sum() for x in linear_together(features, *layers)), features)[0]
    apart = torch.autograd.grad(sum(layer(features).sum() for layer in layers), features)[0]
    torch.testing.assert_close(together, apart, rtol=1e-3, atol=1e-3)
