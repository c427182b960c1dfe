"""The head of real and yes/no components, with its mask."""

from __future__ import annotations

import pytest
import torch
from torch import distributions as dist

from slipstream.envs.specs import Box, Hybrid
from slipstream.models import build_policy
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.heads import HybridHead
from slipstream.models.policy import ModelConfig

SPEC = Hybrid((-1.0, 0.0), (1.0, 1.0), switches=1, mask="can_fire")
FEATURES = torch.randn(6, 5, generator=torch.Generator().manual_seed(3))
WORKS = torch.tensor([[1.0], [1.0], [1.0], [0.0], [0.0], [1.0]])


def make_head():
    head = HybridHead(5, (-1.0, 0.0), (1.0, 1.0), 1, "can_fire")
    torch.manual_seed(4)
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.8)
    return head


def reference(parameters, action):
    alpha, beta, logits, works = parameters
    unit = torch.stack(((action[:, 0] + 1) / 2, action[:, 1]), -1)
    switch = dist.Bernoulli(logits=logits)
    beta = dist.Beta(alpha, beta)
    log_prob = beta.log_prob(unit).sum(-1) + (switch.log_prob(action[:, 2:]) * works).sum(-1)
    return log_prob, beta.entropy().sum(-1) + (switch.entropy() * works).sum(-1)


def test_log_prob_and_entropy_match_torch_in_the_bounds():
    head = make_head()
    parameters = head(FEATURES, WORKS)
    action = head.sample(parameters)
    log_prob, entropy = reference(parameters, action)
    torch.testing.assert_close(head.log_prob(parameters, action), log_prob, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(head.entropy(parameters), entropy, rtol=1e-4, atol=1e-4)
    for mine, theirs in zip(head.evaluate(parameters, action), (log_prob, entropy), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_samples_are_in_bounds_and_masked_switches_off():
    head = make_head()
    head.switch_layer.bias.data.fill_(9.0)  # wants to, always
    parameters = head(FEATURES.repeat(200, 1), WORKS.repeat(200, 1))
    for action in (head.sample(parameters), head.mean(parameters), head.mode(parameters)):
        assert action.shape == (1200, 3)
        assert (action[:, 0].abs() <= 1).all() and ((action[:, 1] >= 0) & (action[:, 1] <= 1)).all()
        assert (action[:, 2][WORKS.repeat(200, 1)[:, 0] == 0] == 0).all()
        assert action[:, 2].sum() > 700


def test_a_masked_switch_has_no_log_prob_and_no_gradient():
    head = make_head()
    blocked = torch.zeros(6, 1)
    parameters = head(FEATURES, blocked)
    action = head.sample(parameters)
    alone = head.beta.log_prob(parameters[:2], head._unit(action))
    torch.testing.assert_close(head.log_prob(parameters, action), alone)
    log_prob, entropy = head.evaluate(parameters, action)
    (log_prob.sum() + entropy.sum()).backward()
    assert (
        torch.count_nonzero(head.switch_layer.weight.grad) == 0
        and torch.count_nonzero(head.switch_layer.bias.grad) == 0
    )
    assert torch.count_nonzero(head.beta.alpha_layer.weight.grad) > 0


@pytest.mark.parametrize("keys", [[], ["state"]])
def test_the_mask_is_read_even_if_the_encoder_ignores_it(keys):
    policy = build_policy({"state": Box((4,)), "can_fire": Box((1,))}, SPEC, ModelConfig(trunk=[8], keys=keys))
    policy.actor.switch_layer.bias.data.fill_(9.0)
    assert set(policy.keys) == {"state", "can_fire"}
    observation = {"state": torch.zeros(2, 4), "can_fire": torch.tensor([[1.0], [0.0]])}
    with set_exploration_type(ExplorationType.MEAN):
        out = policy(observation)
    assert out["action"][:, 2].tolist() == [1.0, 0.0] and out["log_prob"].shape == (2,)
    log_prob, entropy, value = policy.evaluate(observation, out["action"])
    torch.testing.assert_close(log_prob, out["log_prob"])


def test_mean_and_mode_turn_switches_on_at_their_thresholds():
    head = make_head()
    logits = torch.tensor([[-3.0], [-2.0], [-0.1], [0.1]])  # probabilities 0.05, 0.12, 0.48, 0.52
    parameters = (torch.full((4, 2), 3.0), torch.full((4, 2), 2.0), logits, torch.ones(4, 1))
    assert head.mean(parameters)[:, 2].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert head.mode(parameters)[:, 2].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert head.mean(parameters)[0, :2].tolist() == pytest.approx([0.2, 0.6])  # 3/5 of -1 … 1 and of 0 … 1
