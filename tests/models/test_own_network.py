"""A network of the user's own, typed on the command line: `model.encoder=mine:Encoder`, `model.policy=mine:Net`."""

from __future__ import annotations

import shlex
import sys

import pytest
import torch
from torch import nn

from slipstream.algorithms.base import build_network
from slipstream.algorithms.dqn import DQN
from slipstream.algorithms.ppo import PPO
from slipstream.algorithms.sac import SAC
from slipstream.checkpoint import load_checkpoint
from slipstream.cli import main
from slipstream.config import registry
from slipstream.envs.specs import Box, Discrete
from slipstream.models import ModelConfig

MINE = """
import torch
from torch import nn

from slipstream.models import ActorCritic, action_head
from slipstream.models.off_policy import SquashedGaussianPolicy


class Encoder(nn.Module):
    def __init__(self, observation_spec, trunk):
        super().__init__()
        self.width = 12
        self.layers = nn.Sequential(nn.LazyLinear(12), nn.Tanh())

    def forward(self, observation):
        return self.layers(torch.cat([observation[key] for key in sorted(observation)], -1))


class Net(ActorCritic):
    def __init__(self, observation_spec, action_spec, config):
        super().__init__(Encoder(observation_spec, []), action_head(12, action_spec), config)
        self.critic_encoder = Encoder(observation_spec, [])

    def critic_value(self, features, observation):
        return self.critic(self.critic_encoder(observation))[:, 0]


class Actor(SquashedGaussianPolicy):
    def parameters_of(self, observation):
        mean, log_std = super().parameters_of(observation)
        return 0.5 * mean, log_std


class Flat(Encoder):
    def forward(self, observation):
        return self.layers(torch.cat([observation[key].flatten(1) for key in sorted(observation)], -1))


class Narrow(Encoder):
    def forward(self, observation):
        return super().forward(observation)[:, :3]


class Raising(Encoder):
    def forward(self, observation):
        return nn.functional.linear(observation["observation"], torch.zeros(12, 5))


class Nameless(nn.Module):
    def __init__(self, observation_spec, trunk):
        super().__init__()


class Plain(nn.Module):
    def __init__(self, observation_spec, action_spec, config):
        super().__init__()
        self.action = nn.Parameter(torch.zeros(action_spec.shape))

    def forward(self, observation):
        return {"action": self.action.expand(len(next(iter(observation.values()))), -1)}


def word(observation_spec, trunk):
    return "no module"
"""
TINY = shlex.split("""
    task=gym env.id=Pendulum-v1 env.num_envs=4 env.max_episode_steps=20 algo.rollout_steps=8 model.trunk=[16] total_frames=96 save_interval=1
    eval_interval=3 eval.num_drones=2 eval.max_steps=20 device=cpu threads=1 quiet=true wandb.mode=disabled root=runs name=run
""")
ALGORITHMS = {
    "ppo": ["algo=ppo", "algo.minibatches=4", "algo.epochs=1"],
    "sac": ["algo=sac", "algo.updates=2", "algo.warmup=32", "algo.batch_size=8"],
    "pipelined": ["algo=ppo", "algo.minibatches=4", "algo.epochs=1", "collect.pipeline=on"],
}
OWN = {
    "ppo": ["model.policy=mine:Net"],
    "sac": ["model.policy=mine:Actor", "model.encoder=mine:Encoder"],
    "pipelined": ["model.encoder=mine:Encoder"],
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with the module `mine`, which no process has imported yet."""
    pytest.importorskip("gymnasium")
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    forget(monkeypatch)
    yield tmp_path
    sys.modules.pop("mine", None)


def forget(monkeypatch):
    """Be a new process: nothing of the user's is imported or trusted."""
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(registry, "_trusted", {name for name in registry._trusted if not name.startswith("mine:")})


@pytest.mark.parametrize("kind", OWN)
def test_an_own_network_trains_resumes_and_is_evaluated(mine, monkeypatch, capsys, kind):
    own = OWN[kind]
    assert main(["train", *TINY, *ALGORITHMS[kind], *own]) == 0
    hint = capsys.readouterr().out.partition("evaluate:")[2]
    assert all(f" {word}" in hint for word in own)  # the printed command works as it is
    names = [name for name in load_checkpoint("runs/run")["algo"]["policy"] if "layers" in name]
    assert names, "the checkpoint holds the weights of the user's layers"

    for command in ("train resume=runs/run total_frames=128", "eval checkpoint=runs/run eval.num_drones=2 device=cpu"):
        forget(monkeypatch)
        capsys.readouterr()
        assert main(command.split()) == 2
        error = capsys.readouterr().err
        assert "mine" not in sys.modules and all(word in error.partition("command line:")[2] for word in own)
        assert main([*command.split(), *own]) == 0  # as the error says
    assert load_checkpoint("runs/run")["iteration"] == 4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("compile_", ["auto", "on"])
def test_an_own_encoder_is_captured(mine, capsys, compile_):
    words = shlex.split("""env.num_envs=16 env.num_obstacles=8 env_dyn.num_obstacles=8 algo.rollout_steps=4 algo.minibatches=2
        total_frames=640 eval_interval=0 model.encoder=mine:Flat name=flat device=cuda""")
    assert main(["train", *words, f"compile={compile_}"]) == 0
    assert "cannot be" not in capsys.readouterr().out  # compiled, captured


@pytest.mark.parametrize("to", ["pt2", "onnx"])
def test_an_own_network_is_exported(mine, monkeypatch, capsys, to):
    if to == "onnx":
        pytest.importorskip("onnxscript")
    assert main(["train", *TINY, *ALGORITHMS["ppo"], *OWN["ppo"]]) == 0
    forget(monkeypatch)
    command = ["export", "checkpoint=runs/run", f"out=policy.{to}"]
    assert main(command) == 2
    assert "model.policy=mine:Net" in capsys.readouterr().err
    assert main([*command, "model.policy=mine:Net"]) == 0
    assert (mine / f"policy.{to}").stat().st_size > 0


UNSUITABLE = [
    ("model.encoder=mine:Narrow", "must return features [2, 12], not [2, 3]"),
    ("model.encoder=mine:Nameless", "set self.width"),
    ("model.encoder=mine:Raising", "mine:Raising cannot take the observations observation float32 [2, 3]: Runtime"),
    ("model.encoder=mine:word", "must be a torch.nn.Module, not str"),
    ("model.encoder=mine:Missing", "mine has no class named Missing"),
    ("model.encoder=cnn", "use auto, navrl, dict or my_module:Encoder"),
    ("model.policy=mine:Plain", "PPO cannot train Plain, which has no evaluate, value, stamps, keys, value_norm"),
    ("model.activation=sin", "use one of leaky_relu, relu, elu"),
]


@pytest.mark.parametrize(("words", "says"), UNSUITABLE)
def test_an_unsuitable_network_is_refused_with_the_remedy(mine, capsys, words, says):
    assert main(["train", *TINY, *ALGORITHMS["ppo"], words]) == 2
    assert says in capsys.readouterr().err
    assert not (mine / "runs").exists()


@pytest.mark.parametrize(("algo", "says"), [(PPO, "evaluate, value"), (DQN, "keys"), (SAC, "sample, to_unit, dims")])
def test_an_algorithm_names_what_a_policy_lacks(algo, says):
    given = (nn.Linear(2, 2), None) if algo is SAC else (nn.Linear(2, 2),)
    with pytest.raises(TypeError, match=f"{says}.*: subclass slipstream.models.*your-own-network.md"):
        algo(*given)


@pytest.mark.parametrize("name", ["dqn", "ppo", "sac"])
def test_the_activation_is_that_of_every_layer(name):
    settings = {"name": name, "dueling": True}
    action = Discrete(3) if name == "dqn" else Box((2,), -1.0, 1.0)
    policy = build_network(settings, {"x": Box((3,))}, action, ModelConfig(activation="tanh", trunk=[8, 8]))
    kinds = [type(module) for module in policy.modules()]
    assert kinds.count(nn.Tanh) == 3 and nn.LeakyReLU not in kinds


def test_an_encoder_without_keys_is_named_in_an_own_loop(mine):
    from mine import Net

    net = Net({"observation": Box((3,))}, Box((1,), -1.0, 1.0), ModelConfig())
    with pytest.raises(ValueError, match="Encoder: set self.keys"):
        PPO(net)
