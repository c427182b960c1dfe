"""`model.mirror=true`: a policy that acts alike on both sides of a mirror."""

import pytest
import torch

from slipstream import ExplorationType, NavigationEnv, set_exploration_type
from slipstream.config.compose import load_train
from slipstream.envs.specs import Box, Discrete
from slipstream.models import ModelConfig, build_policy
from slipstream.tasks.navigation.env import NavigationConfig
from slipstream.training.trainer import Trainer, load_weights

PLANE = {"place": Box((3,), mirror=(1, -2, 3), side=1), "legs": Box((2, 2), mirror=(3, 4, 1, 2))}
STEER = Box((2,), -1.0, 1.0, mirror=(1, -2))


def _policy(observation_spec=PLANE, action_spec=STEER, **settings):
    policy = build_policy(observation_spec, action_spec, ModelConfig(trunk=[16], mirror=True, **settings))
    for parameter in policy.actor.parameters():  # heads start near zero
        torch.nn.init.normal_(parameter)
    return policy


def _mirror(x: torch.Tensor, spec: Box) -> torch.Tensor:
    flat, columns = x.flatten(1), []
    for k in spec.mirror:
        columns.append(flat[:, abs(k) - 1] * (1 if k > 0 else -1))
    return torch.stack(columns, -1).view_as(x)


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (float("-inf"), float("inf"))])
def test_the_action_in_the_mirrored_world_is_the_mirrored_action(bounds):
    action_spec = Box((2,), *bounds, mirror=(1, -2))
    policy = _policy(action_spec=action_spec)
    seen = {"place": torch.randn(40, 3), "legs": torch.randn(40, 2, 2)}
    other = {name: _mirror(x, PLANE[name]) for name, x in seen.items()}
    action = torch.rand(40, 2) * 1.8 - 0.9
    with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
        here, there = policy(seen), policy(other)
        torch.testing.assert_close(there["action"], _mirror(here["action"], action_spec))
        torch.testing.assert_close(there["value"], here["value"])
        facts = policy.evaluate(seen, action), policy.evaluate(other, _mirror(action, action_spec))
    for a, b in zip(*facts, strict=True):
        torch.testing.assert_close(a, b)
    assert not torch.allclose(here["action"][:, 1].abs(), torch.zeros(40), atol=1e-3)


def test_the_drone_flies_the_mirrored_way_in_a_mirrored_world():
    env = NavigationEnv(64, seed=3, config=NavigationConfig(num_worlds=4))
    policy = _policy(env.observation_spec, env.action_spec, encoder="navrl")
    for _ in range(40):
        seen = env.step(torch.randn(64, 3).clamp(-2, 2)).observation
    assert policy._is_mirrored(seen).any() and not policy._is_mirrored(seen).all()
    lidar = seen["lidar"]
    other = {
        "lidar": torch.stack([lidar[:, :, -h % 36] for h in range(36)], 2),
        "state": seen["state"] * torch.tensor([1, -1, 1, 1, 1, 1, -1, 1]),
        "dynamic_obstacle": seen["dynamic_obstacle"] * torch.tensor([1, -1, 1, 1, 1, 1, -1, 1, 1, 1]),
    }
    with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
        here, there = policy(seen)["action"], policy(other)["action"]
    torch.testing.assert_close(there, here * torch.tensor([1, -1, 1]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("observation_spec", "action_spec", "message"),
    [
        ({"place": Box((3,))}, STEER, "no mirror for place"),
        ({"place": Box((3,), mirror=(1, -2, 3))}, STEER, "0 observations have a side"),
        (PLANE, Discrete(3), "no mirror for the action"),
        (PLANE, Box((2,), 0.0, 1.0, mirror=(1, -2)), "bounds -x to x"),
    ],
)
def test_specs_without_what_a_mirror_needs_are_refused(observation_spec, action_spec, message):
    with pytest.raises(ValueError, match=message):
        build_policy(observation_spec, action_spec, ModelConfig(trunk=[8], mirror=True))


@pytest.mark.parametrize(("mirror", "side"), [((1, -2, 2), None), ((2, 3, 1), None), ((1, -2, 3), 0), ((), 1)])
def test_what_is_no_mirror_is_refused(mirror, side):
    with pytest.raises(ValueError, match="mirror|side"):
        Box((3,), mirror=mirror, side=side)


@pytest.mark.parametrize("name", ["values", "a.b", "type"])
def test_observations_may_have_any_name(name):
    policy = _policy({name: Box((3,), mirror=(1, -2, 3), side=1)})
    assert policy({name: torch.randn(4, 3)})["action"].shape == (4, 2)


@pytest.mark.parametrize("order", [(2, 1), (-2, -1)])
def test_actions_may_change_places(order):
    action_spec = Box((2,), -1.0, 1.0, mirror=order)
    policy = _policy(action_spec=action_spec)
    seen = {"place": torch.randn(20, 3), "legs": torch.randn(20, 2, 2)}
    other = {name: _mirror(x, PLANE[name]) for name, x in seen.items()}
    with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
        torch.testing.assert_close(policy(other)["action"], _mirror(policy(seen)["action"], action_spec))


def test_weights_of_a_policy_without_mirror_are_refused(tmp_path):
    words = ["env.num_envs=4", "env.num_obstacles=0", "env.dyn.num_obstacles=0", "model.trunk=[8]", "device=cpu"]
    with Trainer(load_train(words)) as plain, Trainer(load_train([*words, "model.mirror=true"])) as mirrored:
        for one, other, value in ((plain, mirrored, "true"), (mirrored, plain, "false")):
            with pytest.raises(ValueError, match=f"give 'model.mirror={value}'"):
                load_weights(one.policy, other.policy, "run")


@pytest.mark.parametrize("words", [["algo=sac"], ["model.memory=gru"], ["env.actions=discrete", "algo=dqn"]])
def test_networks_that_cannot_be_mirrored_are_refused(words):
    with pytest.raises(ValueError, match="mirror"):
        Trainer(load_train(["model.mirror=true", "env.num_envs=4", "env.num_obstacles=0", "device=cpu", *words]))
