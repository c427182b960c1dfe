"""Exported policies: equal to PyTorch's, whole, and answer in their own file."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream import cli
from slipstream.algorithms.base import build_network
from slipstream.algorithms.policy_file import load_policy
from slipstream.cli.export import ActingPolicy, _small_env, export_policy, spec_facts
from slipstream.config.compose import load_train, to_dict
from slipstream.config.help import ConfigError
from slipstream.config.registry import find_task
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.memory import Stepper
from slipstream.tasks.aircombat.agents import CrankAgent
from slipstream.tasks.aircombat.rewards import ShapedReward
from slipstream.training.evaluate import configure

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fly_onnx.py"
RELEASED = ROOT / ".." / "shared" / "data" / "navrl_checkpoint.pt"
TINY = ["model.encoder=dict", "model.keys=[state]", "model.trunk=[32]"]
SMALL = ["env.num_obstacles=10", "env.map_half_m=6", "env.max_episode_steps=400", "env.decision_interval=4"]


@dataclass
class ToyConfig:
    num_envs: int = 4


class Toy(TensorEnv):
    """Observations of every kind: an image, a class, several classes, a single number; actions without bounds."""

    Config = ToyConfig
    action_spec = Box((2,))
    observation_spec = {
        "image": Box((3, 16, 12), 0.0, 1.0),
        "kind": Discrete(5),
        "kinds": Discrete(3, (2,)),
        "number": Box(()),
    }

    def __init__(self, num_envs=4, device="cpu", seed=0, config=None) -> None:
        super().__init__(num_envs, device, seed)
        self.config = config or ToyConfig()

    def _reset(self, mask):
        pass

    _advance = _reset

    def _observe(self):
        return drawn(self.observation_spec, self.num_envs)

    def _outcome(self):
        never = torch.zeros_like(self._pending)
        return Outcome(torch.zeros(self.num_envs), never, never, {})


def drawn(observation_spec, n):
    """Random observations of these specs."""
    given = {}
    for name, spec in observation_spec.items():
        shape = (n, *spec.shape)
        if isinstance(spec, Discrete):
            given[name] = torch.randint(spec.n, shape)
        elif np.isfinite(spec.high - spec.low):
            given[name] = spec.low + (spec.high - spec.low) * torch.rand(shape)
        else:
            given[name] = torch.randn(shape)
    return given


def checkpoint(path, *overrides):
    """A policy file of random weights whose actions differ from observation to observation."""
    torch.manual_seed(3)
    cfg = load_train(list(overrides))
    env = _small_env(cfg.task, cfg.env)
    policy = build_network(to_dict(cfg)["algo"], env.observation_spec, env.action_spec, cfg.model)
    for head in (getattr(policy, name) for name in ("actor", "head") if hasattr(policy, name)):
        for parameter in head.parameters():
            torch.nn.init.normal_(parameter, 0, 0.1)
    torch.save({"config": to_dict(cfg), "policy": policy.state_dict()}, path)
    return path


DUEL = ["task=aircombat", "env.time_scale=15", "env.start=random", "env.opponent=evade", "env.reward=shaped"]
EMPTY_WORLD = ["env.num_obstacles=0", "env.dyn.num_obstacles=0", "env.map_half_m=4"]
POLICIES = {
    "shipped": None,
    "navrl": RELEASED,
    "dict encoder": [*SMALL, "model.encoder=dict", "model.keys=[state,lidar]", "model.trunk=[32]"],
    "categorical": [*SMALL, *TINY, "env.actions=discrete"],
    "gaussian": ["task=test_export:Toy", "model.trunk=[32]"],
    "dqn": [*SMALL, *TINY, "algo=dqn", "env.actions=discrete"],
    "sac": [*SMALL, *TINY, "algo=sac"],
    "td3": [*SMALL, *TINY, "algo=td3"],
    "aircombat": [*DUEL, "model.trunk=[32]"],
}


SLOW = ("td3",)  # each takes seconds to trace


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """Export a policy of POLICIES once: its source, the env's config and task, and the file written of it."""
    done = {}

    def export(name):
        for package in ("onnxscript", "onnxruntime"):
            pytest.importorskip(package)
        source = POLICIES[name]
        if isinstance(source, Path) and not source.exists():
            pytest.skip("NavRL's released weights are not here")
        if name not in done:
            folder = tmp_path_factory.mktemp("export")
            path = checkpoint(folder / "p.pt", *source) if isinstance(source, list) else source
            typed = source[:1] if isinstance(source, list) and source[0].startswith("task=") else []
            cfg, trained = configure([f"checkpoint={path}", *typed] if path else EMPTY_WORLD)
            done[name] = trained, cfg, export_policy(trained, cfg.task, cfg.env, "onnx", folder / "policy.onnx")
        return done[name]

    return export


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.soak) if name in SLOW else name for name in POLICIES]
)
def exported(request, export):
    """The PyTorch policy, its observations' specs, and the file written of it."""
    trained, cfg, done = export(request.param)
    env = find_task(cfg.task).env(2, "cpu", 0, _small_env(cfg.task, cfg.env).config)
    policy = ActingPolicy(load_policy(trained.path).build(env, "cpu"))
    return policy, env, done


def session_of(path):
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("batch", [1, 7])
def test_the_exported_policy_acts_as_pytorchs(exported, batch):
    policy, env, done = exported
    torch.manual_seed(batch)
    observation = drawn({name: env.observation_spec[name] for name in policy.keys}, batch)
    with torch.no_grad():
        expected = policy(*observation.values()).numpy()
    (action,) = session_of(done.path).run(None, {name: tensor.numpy() for name, tensor in observation.items()})
    assert action.dtype == expected.dtype and action.shape == (batch, *env.action_spec.shape)
    np.testing.assert_allclose(action, expected, rtol=0, atol=1e-5)
    assert done.difference is not None and done.difference <= 1e-5


def test_the_file_describes_itself(exported):
    policy, env, done = exported
    session = session_of(done.path)
    about = session.get_modelmeta().custom_metadata_map
    assert tuple(part.name for part in session.get_inputs()) == policy.keys == done.inputs
    assert all(part.shape[0] == "batch" for part in session.get_inputs())
    assert json.loads(about["action"]) == spec_facts(env.action_spec)
    assert set(json.loads(about["observations"])) == set(policy.keys)
    assert not {"num_envs", "world_seeds"} & set(json.loads(about["env"]))
    assert len(list(done.path.parent.glob("*onnx*"))) == 1  # no weights beside it, nothing unfinished


# -- the example -------------------------------------------------------------------------------------------------------


def example():
    spec = importlib.util.spec_from_file_location("fly_onnx", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("task", ["navigation", "aircombat", "memory", "mirror"])
def test_the_example_flies_an_episode_as_pytorch_would(task, tmp_path, capsys, export):
    """Every action of the episode within 1e-5 of PyTorch's for the same observation."""
    for package in ("onnxscript", "onnxruntime", "gymnasium"):
        pytest.importorskip(package)
    if task in ("memory", "mirror"):
        network = ["model.memory=gru", "model.hidden_size=8"] if task == "memory" else ["model.mirror=true"]
        source = checkpoint(tmp_path / "p.pt", *SMALL, *TINY, *network)
        path = tmp_path / "p.onnx"
        assert cli.main(["export", f"checkpoint={source}", "--to", "onnx", f"out={path}"]) == 0
        assert "largest difference to PyTorch" in capsys.readouterr().out
    else:
        trained, _, done = export("aircombat" if task == "aircombat" else "dict encoder")
        source, path = trained.path, done.path
    flight = example()
    policy = flight.OnnxPolicy(path)
    env = flight.make_env(policy.about)
    specs = env.unwrapped.env
    if task == "aircombat":
        answer = json.loads(policy.about["env"])
        assert (answer["opponent"], answer["reward"]) == ("evade", "shaped")  # as in its training
        assert isinstance(specs.opponent, CrankAgent) and isinstance(specs.reward, ShapedReward)
    assert getattr(specs.config, "max_episode_steps", 400) == 400 and getattr(specs.config, "time_scale", 15) == 15
    torch_policy = Stepper(load_policy(source).build(specs, "cpu"), 1, "cpu")
    gaps = []
    if task == "memory":
        assert [part.name for part in policy.session.get_inputs()] == ["state", "memory"]
        assert [part.name for part in policy.session.get_outputs()] == ["action", "memory_out"]
        assert json.loads(policy.about["memory"])["shape"] == [8]
        assert list(json.loads(policy.about["observations"])) == ["state"]

    def both(observation):
        action = policy(observation)
        with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
            seen = {name: torch.from_numpy(observation[name][None]) for name in torch_policy.policy.keys}
            expected = torch_policy(seen)["action"][0]
        gaps.append(np.abs(action - expected.numpy()).max())
        return action

    total, steps, info = flight.fly(env, both, seed=4)
    assert steps == len(gaps) > 10 and np.isfinite(total) and "success" in info
    assert max(gaps) <= 1e-5
    assert task != "memory" or (policy.memory["memory"] != 0).all()


def test_the_example_runs_as_a_script_on_the_policy_that_ships(export):
    pytest.importorskip("gymnasium")
    assert len(EXAMPLE.read_text().splitlines()) < 70
    assert "import torch" not in EXAMPLE.read_text()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLE), str(export("shipped")[2].path)]
    answer = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=120).stdout
    assert answer.startswith("navigation, navigation.pt.slip: return") and "success 1, collision 0" in answer


def test_code_that_the_file_names_is_not_imported_by_the_example():
    about = {"task": "aircombat", "env": json.dumps({"opponent": "evade", "reward": "evil_module:Reward"})}
    with pytest.raises(ConfigError, match="env.reward=evil_module:Reward"):
        example().make_env(about, typed=["policy.onnx"])


# -- other formats, and what can go wrong ------------------------------------------------------------------------------


def test_the_torch_program_acts_the_same(tmp_path):
    source = checkpoint(tmp_path / "p.pt", *SMALL, *TINY)
    cfg, trained = configure([f"checkpoint={source}"])
    done = export_policy(trained, cfg.task, cfg.env, "pt2", tmp_path / "policy.pt2")
    assert done.difference == 0
    about = dict.fromkeys(("task", "action"), "")
    program = torch.export.load(done.path, extra_files=about).module()
    assert about["task"] == "navigation" and json.loads(about["action"])["high"] == 2.0
    env = _small_env(cfg.task, cfg.env)
    assert program(*drawn({name: env.observation_spec[name] for name in done.inputs}, 5).values()).shape == (5, 3)
