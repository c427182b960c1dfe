"""Policies that explore, and critics run as one: against torch's own distributions and layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from slipstream.envs.specs import Box, Discrete
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.off_policy import Critics, DeterministicPolicy, EnsembleMLP, QPolicy, SquashedGaussianPolicy
from slipstream.models.policy import ModelConfig

SMALL = ModelConfig(part=0, trunk=[8], layer_norm=False)
SEEN = {"x": Box((3,))}
X = {"x": torch.linspace(-1, 1, 300).view(100, 3)}


def test_the_density_of_a_squashed_action_is_torchs_own():
    policy = SquashedGaussianPolicy(SEEN, Box((2,), -1.0, 3.0), SMALL)
    with torch.no_grad():
        policy.head.bias.copy_(torch.tensor([0.5, -1.0, -0.3, 0.2]))
        unit, log_prob = policy.sample(X)
        mean, log_std = policy.parameters_of(X)
    squash = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(mean.double(), log_std.double().exp()), [torch.distributions.TanhTransform()]
    )
    inside = unit.abs().amax(-1) < 0.999  # torch's inverse loses its digits beyond
    assert inside.sum() > 50
    assert torch.allclose(log_prob[inside].double(), squash.log_prob(unit.double()).sum(-1)[inside], atol=1e-3)


@pytest.mark.parametrize("kind", [SquashedGaussianPolicy, DeterministicPolicy])
def test_actions_lie_in_the_box_and_units_translate(kind):
    policy = kind(SEEN, Box((2,), -1.0, 3.0), SMALL)
    assert policy.to_env(torch.tensor([-1.0, 0.0, 1.0])).tolist() == [-1, 1, 3]
    assert policy.to_unit(torch.tensor([-1.0, 1.0, 3.0])).tolist() == [-1, 0, 1]
    for share in (0.0, 1.0):
        policy.random_share.fill_(share)
        action = policy(X)["action"]
        assert action.shape == (100, 2) and action.min() >= -1 and action.max() <= 3
    assert action.std(0).min() > 0.9  # uniform over a width of 4: 1.15


@pytest.mark.parametrize(
    "policy",
    [
        QPolicy(SEEN, Discrete(5), SMALL),
        SquashedGaussianPolicy(SEEN, Box((2,), -1.0, 1.0), SMALL),
        DeterministicPolicy(SEEN, Box((2,), -1.0, 1.0), SMALL, noise=0.3),
    ],
)
def test_without_exploration_the_best_action_comes_every_time(policy):
    policy.random_share.fill_(1.0)
    for kind in (ExplorationType.MEAN, ExplorationType.MODE):
        with set_exploration_type(kind):
            first, second = policy(X)["action"], policy(X)["action"]
        assert torch.equal(first, second) and torch.equal(first, policy.best(X))
    with set_exploration_type(ExplorationType.RANDOM):
        assert not torch.equal(policy(X)["action"], first)


def test_the_random_share_is_one_of_all_actions_alike():
    policy = QPolicy(SEEN, Discrete(4), SMALL)
    with torch.no_grad():
        policy.head.weight.zero_()
        policy.head.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 9.0, 0.0]))  # action 2 is best everywhere
    torch.manual_seed(0)
    policy.random_share.fill_(0.4)
    taken = torch.cat([policy(X)["action"] for _ in range(100)]).bincount(minlength=4) / 10_000
    assert taken.tolist() == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.02)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_an_ensemble_is_its_members_one_by_one(layer_norm):
    torch.manual_seed(0)
    both = EnsembleMLP(2, 5, [7, 6], layer_norm)
    for p in both.parameters():
        nn.init.normal_(p, 0.1, 0.5)
    x = torch.randn(9, 5)
    for k in range(2):
        y = x
        for layer in both.layers:
            if isinstance(layer, nn.LeakyReLU):
                y = layer(y)
            elif "Norm" in type(layer).__name__:
                y = nn.functional.layer_norm(y, y.shape[-1:], layer.weight[k, 0], layer.bias[k, 0])
            else:
                y = y @ layer.weight[k] + layer.bias[k, 0]
        assert torch.allclose(both(x)[k], y[:, 0], atol=1e-5)
    assert torch.allclose(both(x, count=1), both(x)[:1], atol=1e-6)


def test_mixed_observations_pass_with_and_without_parts():
    seen = {"image": Box((1, 16, 16)), "place": Discrete(3), "x": Box((3,))}
    observation = {"image": torch.rand(4, 1, 16, 16), "place": torch.tensor([0, 1, 2, 0]), "x": torch.randn(4, 3)}
    for part in (0, 6):
        model = ModelConfig(part=part, trunk=[8])
        assert QPolicy(seen, Discrete(5), model).values(observation).shape == (4, 5)
        assert Critics(seen, 2, model)(observation, torch.zeros(4, 2)).shape == (2, 4)
