"""Rules of your own: what a function is given, what its result does, and what is refused."""

from __future__ import annotations

import json
import sys
import types

import pytest
import torch
from helpers.small_run import TINY

from slipstream.cli import main
from slipstream.config import registry
from slipstream.config.help import ConfigError
from slipstream.models import ModelConfig, build_policy
from slipstream.recordings import load_recording
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv, NavigationReward
from slipstream.training.metrics_log import read_metrics

SMALL = {"num_envs": 4, "num_obstacles": 5, "map_half_m": 4.0, "random_clock": False, "decision_interval": 20}
WORDS = [*TINY, "env.max_episode_steps=200", "total_frames=256"]
FLOWN = ["eval.num_drones=3", "eval.map_seeds=[1]", "eval.max_steps=200", "device=cpu"]
OWN = ["env.reward.own=ours:reward", "env.terminate=ours:too_high", "env.observe=ours:look"]


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """A module of the user's."""
    module = types.ModuleType("ours")
    module.one_term = lambda state: 2 * state.time_s
    module.too_high = lambda state: state.position[:, 2] > 2.2
    module.look = lambda state: {"attitude": state.attitude, "last": state.action}
    module.one_look = lambda state: state.goal_distance[:, None]
    module.reward = lambda state: {"low": -state.position[:, 2], "slow": -(state.velocity.norm(dim=-1) < 1).float()}
    monkeypatch.setitem(sys.modules, "ours", module)
    monkeypatch.setattr(registry, "_trusted", set())
    return module


def built(**config):
    reward = NavigationReward(**config.pop("reward", {}))
    return NavigationEnv(4, "cpu", 1, NavigationConfig(**SMALL, reward=reward, **config))


def test_the_state_is_the_truth_of_the_step(ours):
    seen = []
    ours.look = lambda state: seen.append(state) or {"x": state.position}
    env = built(observe="ours:look", dynamics="quadrotor")
    action = torch.tensor([[1.0, 0.5, 0.0]]).repeat(4, 1)
    record = env.step(action)
    state = seen[-1]
    assert torch.equal(state.action, action) and state.time_s.tolist() == pytest.approx([0.32] * 4)
    assert torch.equal(state.goal_distance, (env.goal - env.drone.pos).norm(dim=-1))
    assert torch.equal(env.config.lidar.range_m - state.distances, record.observation["lidar"][:, 0])
    assert torch.equal(state.obstacles, record.observation["dynamic_obstacle"][:, 0])
    tilt = state.attitude @ torch.tensor([0.0, 0.0, 1.0])
    assert (tilt[:, 2] < 1).all() and torch.allclose(state.attitude @ state.attitude.mT, torch.eye(3), atol=1e-5)


@pytest.mark.parametrize("name", ["reward", "one_term"])
def test_terms_are_added_and_summed_by_name(name):
    plain, env = built(), built(reward={"own": f"ours:{name}"})
    total = torch.zeros(4)
    for _ in range(3):
        action = torch.rand(4, 3)
        before, after = plain.step(action), env.step(action)
        state = env.rules.state
        low, slow = -state.position[:, 2], -(state.velocity.norm(dim=-1) < 1).float()
        own = low + slow if name == "reward" else 2 * state.time_s
        assert torch.allclose(after.reward, before.reward + own, atol=1e-5)
        total += after.reward
    sums = {key: value for key, value in after.info.items() if key.startswith("reward_")}
    assert set(sums) >= {"reward_speed", "reward_low" if name == "reward" else "reward_own"}
    assert torch.allclose(sum(sums.values()), total, atol=1e-4)  # nobody has ended
    env.reset(torch.tensor([True, False, False, False]))
    assert (env.rules.sums[:, 0] == 0).all() and (env.rules.sums[:, 1] != 0).any()


def test_an_episode_ends_where_the_rule_says():
    env = built(terminate="ours:too_high")
    env.place(torch.tensor([[-8.0, 0, 2.0]]).repeat(4, 1), torch.tensor([[8.0, 0, 2.0]]).repeat(4, 1))
    climb = torch.tensor([[0.0, 0, 2], [0, 0, 0], [0, 0, 2], [0, 0, 0]])
    for _ in range(2):
        record = env.step(climb)
    assert record.terminated.tolist() == record.info["ended_by_rule"].bool().tolist() == [True, False, True, False]
    assert not record.info["collision"].any() and not env.step(climb).valid[0]


def test_an_observation_is_read_by_the_network():
    env = built(observe="ours:look")
    assert env.observation_spec["attitude"].shape == (3, 3) and env.observation_spec["last"].shape == (3,)
    policy = build_policy(env.observation_spec, env.action_spec, ModelConfig(trunk=[8], part=8))
    assert {"attitude", "last"} <= set(policy.keys)
    assert built(observe="ours:one_look").reset()["own"].shape == (4, 1)


def test_the_state_restores_bit_for_bit(same_record):
    env, again = (built(reward={"own": "ours:reward"}, observe="ours:look") for _ in range(2))
    for _ in range(3):
        env.step(torch.rand(4, 3))
    again.load_state_dict(env.state_dict())
    action = torch.rand(4, 3)
    same_record(env.step(action), again.step(action))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"terminate": "high"}, "env.terminate=high must name a function of yours"),
        ({"terminate": "ours:nothing"}, "ours has no function nothing"),
        ({"observe": "elsewhere:look"}, "env.observe=elsewhere:look: cannot import elsewhere"),
        ({"terminate": "ours:one_term"}, "'env.terminate' must be a tensor: torch.bool"),
        ({"reward": {"own": "ours:look"}}, "'attitude of env.reward.own' must be a tensor"),
        ({"observe": "ours:scalar"}, "env.observe must return a tensor"),
        ({"observe": "ours:state"}, "gives state, which the env has"),
        ({"reward": {"own": "ours:speed"}}, "gives a term speed, which the env has"),
    ],
)
def test_a_wrong_function_is_one_sentence(config, said, ours):
    ours.scalar, ours.state = lambda state: 1.0, lambda state: {"state": state.position}
    ours.speed = lambda state: {"speed": state.time_s}
    with pytest.raises((ValueError, ConfigError), match=said.replace(".", r"\.")) as error:
        built(**config).step(torch.zeros(4, 3))
    assert "\n" not in str(error.value)


def test_every_command_keeps_working(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *WORDS, *OWN, "name=own"]) == 0
    out = capsys.readouterr().out
    assert all(word in out.splitlines()[-1] for word in OWN)  # how it is evaluated
    row = read_metrics("runs/own")[-1]
    assert {"episode/reward_low", "episode/reward_slow", "episode/reward_speed", "episode/ended_by_rule"} <= row.keys()
    for command in ("eval", "validate", "export --to onnx", "train"):
        words = ["checkpoint=runs/own"] if command != "train" else ["resume=runs/own", "total_frames=288"]
        monkeypatch.setattr(registry, "_trusted", set())
        assert main([*command.split(), *words]) == 2
        assert "add to the command line" in capsys.readouterr().err
        flown = FLOWN if command in ("eval", "validate") else []
        assert main([*command.split(), *words, *OWN, *flown]) == 0, capsys.readouterr().err
        capsys.readouterr()
    recording = load_recording("runs/own/flight.rec")
    assert recording.meta["reward_terms"][-2:] == ["low", "slow"]
    assert recording.columns["drone.reward"].shape[1:] == (3, len(recording.meta["reward_terms"]))
    without = ["env.reward.own=null", "env.terminate=null", "env.observe=ours:look"]
    assert main(["eval", "checkpoint=runs/own", *without, *FLOWN, "json=true"]) == 0
    assert "ended_by_rule" not in json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main(["export", "--to", "html", "checkpoint=runs/own", *OWN]) == 2
    assert "not with env.terminate=ours:too_high, env.observe=ours:look" in capsys.readouterr().err


def test_a_file_for_comparison_imports_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *WORDS, "env.observe=ours:look", "name=own"]) == 0
    assert main(["train", *WORDS, "model.encoder=dict", "name=plain"]) == 0
    monkeypatch.setattr(registry, "_trusted", set())
    capsys.readouterr()
    assert main(["eval", "checkpoint=runs/plain", "compare=runs/own", *FLOWN]) == 2
    assert "names code that is not part of Slipstream ('ours:look')" in capsys.readouterr().err
