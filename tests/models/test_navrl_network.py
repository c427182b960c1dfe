"""NavRL's network: its layers, the order of its features, and the weights its authors released."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from slipstream.envs.specs import Box
from slipstream.models.navrl import ACTION_SPEC, OBSERVATION_SPEC, PREFIXES, is_navrl, load_navrl
from slipstream.models.policy import ModelConfig, build_policy

RELEASED = Path(__file__).parents[2] / ".." / "shared" / "data" / "navrl_checkpoint.pt"
needs_released = pytest.mark.skipif(not RELEASED.exists(), reason="NavRL's released weights are not here")


@pytest.fixture
def policy():
    torch.manual_seed(0)
    return build_policy(OBSERVATION_SPEC, ACTION_SPEC)


def observation(n=3):
    generator = torch.Generator().manual_seed(1)
    return {name: torch.randn(n, *spec.shape, generator=generator) for name, spec in OBSERVATION_SPEC.items()}


def as_navrl(policy):
    """Our weights under NavRL's names."""
    theirs = {}
    for name, value in policy.state_dict().items():
        old, new = next((old, new) for old, new in PREFIXES.items() if name.startswith(new))
        theirs[old + name[len(new) :]] = value.clone()
    return theirs


def test_the_network_equals_one_written_down_from_the_paper(policy):
    w = policy.state_dict()
    x, f = observation(), torch.nn.functional
    h = f.elu(f.conv2d(x["lidar"], w["encoder.lidar.0.weight"], w["encoder.lidar.0.bias"], padding=(2, 1)))
    h = f.elu(f.conv2d(h, w["encoder.lidar.2.weight"], w["encoder.lidar.2.bias"], stride=(2, 1), padding=(2, 1)))
    h = f.elu(f.conv2d(h, w["encoder.lidar.4.weight"], w["encoder.lidar.4.bias"], stride=(2, 2), padding=(2, 1)))
    h = f.linear(h.flatten(1), w["encoder.lidar.7.weight"], w["encoder.lidar.7.bias"])
    h = f.layer_norm(h, (128,), w["encoder.lidar.8.weight"], w["encoder.lidar.8.bias"])

    def block(name, i, value):
        value = f.leaky_relu(f.linear(value, w[f"{name}.{i}.weight"], w[f"{name}.{i}.bias"]))
        return f.layer_norm(value, value.shape[1:], w[f"{name}.{i + 2}.weight"], w[f"{name}.{i + 2}.bias"])

    moving = block("encoder.moving", 3, block("encoder.moving", 0, x["dynamic_obstacle"].flatten(1)))
    h = block("encoder.trunk", 3, block("encoder.trunk", 0, torch.cat((h, moving, x["state"]), 1)))
    alpha = 1 + f.softplus(f.linear(h, w["actor.alpha_layer.weight"], w["actor.alpha_layer.bias"])) + 1e-6
    value = f.linear(h, w["critic.weight"], w["critic.bias"])[:, 0]
    torch.testing.assert_close(policy.actor(policy.features(x))[0], alpha)
    torch.testing.assert_close(policy.value(x), value)


def test_the_heads_start_orthogonal_with_gain_a_hundredth(policy):
    weight = policy.actor.alpha_layer.weight
    torch.testing.assert_close(weight @ weight.T, 1e-4 * torch.eye(3))
    assert torch.all(policy.critic.bias == 0)


def test_weights_under_navrls_names_arrive_in_their_places(policy):
    theirs = as_navrl(policy)
    assert is_navrl(theirs) and not is_navrl({"policy": {}, "config": {}})
    loaded = load_navrl(theirs).state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in policy.state_dict().items())


def test_a_file_that_lacks_weights_is_refused_by_their_names(policy):
    theirs = as_navrl(policy)
    del theirs["critic.module.weight"]
    with pytest.raises(ValueError, match=r"misses .*critic\.weight"):
        load_navrl(theirs)


def test_weights_of_another_shape_are_refused_by_name(policy):
    theirs = as_navrl(policy) | {"feature_extractor.module.0.module.7.weight": torch.zeros(128, 100)}
    with pytest.raises(ValueError, match=r"feature_extractor\.module\.0\.module\.7\.weight.*\[128, 288\]"):
        load_navrl(theirs)


def test_navrls_encoder_needs_its_observations():
    with pytest.raises(ValueError, match=r"\['lidar'\].*model\.encoder=dict"):
        build_policy({"state": Box((8,))}, ACTION_SPEC, ModelConfig(encoder="navrl"))


@needs_released
def test_the_released_policy_loads_with_its_value_statistics():
    state = torch.load(RELEASED, map_location="cpu", weights_only=True)
    norm = load_navrl(state).value_norm
    assert norm.running_mean == state["value_norm.running_mean"].squeeze()
    assert 0.99 < norm.debiasing_term <= 1.0
    mean, deviation = norm.statistics()
    assert torch.isfinite(mean) and deviation > 0.1
    torch.testing.assert_close(norm.denormalize(norm.normalize(torch.tensor(7.0))), torch.tensor(7.0))
