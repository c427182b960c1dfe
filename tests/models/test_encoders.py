from __future__ import annotations

import pytest
import torch

from slipstream.envs.specs import Box, Discrete
from slipstream.models.encoders import DictEncoder
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.heads import BetaHead, CategoricalHead, GaussianHead
from slipstream.models.policy import ModelConfig, build_policy

ACTION = Box((2,), -1.0, 1.0)

ODD = {
    "scalar": (Box(()), torch.randn(4)),
    "vector": (Box((3,)), torch.randn(4, 3)),
    "table": (Box((2, 5)), torch.randn(4, 2, 5)),
    "small picture": (Box((3, 4, 4)), torch.randn(4, 3, 4, 4)),
    "camera": (Box((3, 12, 20)), torch.randn(4, 3, 12, 20)),
    "bytes": (Box((1, 8, 8), 0, 255, torch.uint8), torch.randint(0, 255, (4, 1, 8, 8), dtype=torch.uint8)),
    "flag": (Box((), 0, 1, torch.bool), torch.tensor([True, False, True, False])),
    "gear": (Discrete(5), torch.tensor([0, 4, 2, 1])),
    "small gear": (Discrete(5, dtype=torch.int32), torch.tensor([0, 4, 2, 1], dtype=torch.int32)),
    "gears": (Discrete(3, (2,)), torch.tensor([[0, 1], [2, 2], [1, 0], [0, 0]])),
    "imu.gyro": (Box((3,)), torch.randn(4, 3)),  # a name that no torch module may have
    "type": (Box((3,)), torch.randn(4, 3)),  # and one that every torch module has already
}


@pytest.mark.parametrize("name", ODD)
def test_each_odd_observation_alone_makes_features_and_gradients(name):
    spec, value = ODD[name]
    encoder = DictEncoder({name: spec}, [16, 8])
    features = encoder({name: value})
    assert features.shape == (4, 8) and encoder.width == 8
    features.sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


@pytest.mark.parametrize("shape", [(16, 24, 3), (16, 24)])
def test_an_image_with_channels_last_or_none_is_convolved(shape):
    frames = torch.randint(0, 256, (4, *shape), dtype=torch.uint8)
    torch.manual_seed(0)
    encoder = DictEncoder({"image": Box(shape, 0, 255, torch.uint8)}, [8])
    torch.manual_seed(0)
    first = DictEncoder({"image": Box((*shape[2:], 16, 24) if shape[2:] else (1, 16, 24))}, [8])
    channels_first = frames.permute(0, 3, 1, 2) if shape[2:] else frames[:, None]
    assert torch.equal(encoder({"image": frames}), first({"image": channels_first / 255}))


@pytest.mark.parametrize(("high", "scale"), [(255, 255), (float("inf"), 255), (1, 1), (10, 10)])
def test_bytes_become_0_to_1(high, scale):
    torch.manual_seed(0)
    encoder = DictEncoder({"x": Box((3,), 0, high, torch.uint8)}, [8])
    torch.manual_seed(0)
    plain = DictEncoder({"x": Box((3,))}, [8])
    x = torch.tensor([[0, 1, 1]], dtype=torch.uint8)
    assert torch.equal(encoder({"x": x}), plain({"x": x / scale}))


def test_a_category_is_not_taken_for_a_size():
    torch.manual_seed(0)
    encoder = DictEncoder({"gear": Discrete(3)}, [8])
    first, second, third = encoder({"gear": torch.tensor([0, 1, 2])})
    assert not torch.allclose(second - first, third - second)


def test_navrls_encoder_reads_the_keys_asked_for():
    """A student without the detector has the CNN of the LiDAR image."""
    specs = {"lidar": Box((1, 36, 4)), "dynamic_obstacle": Box((1, 5, 10)), "state": Box((8,)), "direction": Box((3,))}
    without = {name: specs[name] for name in ("lidar", "state", "direction")}
    for given in ({}, {"encoder": "navrl"}):
        student = build_policy(specs, ACTION, ModelConfig(keys=["lidar", "state"], **given))
        assert student.keys == ("lidar", "state")
        student.load_state_dict(build_policy(without, ACTION, ModelConfig()).state_dict())
    assert "dynamic_obstacle" in build_policy(specs, ACTION, ModelConfig()).keys
    assert isinstance(build_policy(specs, ACTION, ModelConfig(keys=["lidar"])).encoder, DictEncoder)
    with pytest.raises(ValueError, match="has no model.part=8: use model.encoder=dict"):
        build_policy(specs, ACTION, ModelConfig(part=8))
    with pytest.raises(ValueError, match=r"does not read \['direction'\]: take them out of model.keys"):
        build_policy(specs, ACTION, ModelConfig(encoder="navrl", keys=["lidar", "state", "direction"]))


def test_an_unknown_key_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no observation \['c'\].*\['a', 'b'\]"):
        build_policy({"a": Box((3,)), "b": Box((2,))}, ACTION, ModelConfig(keys=["c"]))


def test_the_head_follows_from_the_action_space():
    obs = {"a": Box((3,))}
    assert isinstance(build_policy(obs, Box((2,), -1, 1)).actor, BetaHead)
    assert isinstance(build_policy(obs, Box((2,))).actor, GaussianHead)
    assert isinstance(build_policy(obs, Box((2,), 0.0)).actor, GaussianHead)  # open at one end
    assert isinstance(build_policy(obs, Discrete(4)).actor, CategoricalHead)
    with pytest.raises(ValueError, match=r"of shape \(2, 2\) must be a vector"):
        build_policy(obs, Box((2, 2), -1, 1))


def test_a_policy_acts_as_the_exploration_type_says():
    torch.manual_seed(0)
    policy = build_policy({"a": Box((3,))}, ACTION)
    x = {"a": torch.randn(5, 3)}
    parameters = policy.actor(policy.features(x))
    with set_exploration_type(ExplorationType.MEAN):
        assert torch.equal(policy(x)["action"], policy.actor.mean(parameters))
    with set_exploration_type(ExplorationType.MODE):
        assert torch.equal(policy(x)["action"], policy.actor.mode(parameters))
    assert not torch.equal(policy(x)["action"], policy(x)["action"])
