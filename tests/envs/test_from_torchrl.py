"""TorchRL's envs and policies in our collectors, and as a task."""

from __future__ import annotations

import shlex
import warnings

import pytest
import torch

pytest.importorskip("torchrl")
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase, GymEnv, SerialEnv
from torchrl.envs.utils import ExplorationType as TorchRLExploration

from slipstream import CompressedDataCollector, PipelinedDataCollector, SyncDataCollector
from slipstream.cli import main
from slipstream.collectors import CompressedBatch
from slipstream.envs.adapters.from_torchrl import FromTorchRL
from slipstream.envs.specs import Box

MODULE = """
import torch
from torchrl.envs import GymEnv
from test_from_torchrl import Walker

def single(): return GymEnv("CartPole-v1")
def batched(num_envs, seed=0, length=5): return Walker(num_envs, length)
def wrong(): return "not an env"
"""
TINY = shlex.split("""
    env.num_envs=4 algo.rollout_steps=8 algo.minibatches=1 algo.epochs=1 model.trunk=[8] total_frames=64 save_interval=1
    eval_interval=0 eval.num_drones=4 device=cpu threads=1 quiet=true wandb.mode=disabled
""")


class Walker(EnvBase):
    """NavRL's kind of env: one batched object with nested keys. An episode of env n ends after `length` + n steps."""

    batch_locked = True

    def __init__(self, num_envs, length=5):
        super().__init__(batch_size=torch.Size([num_envs]), device="cpu")
        n = num_envs
        self.length = length + torch.arange(n)
        self.observation_spec = Composite(
            agents=Composite(observation=Composite(state=Unbounded((n, 2)), shape=(n,)), shape=(n,)), shape=(n,)
        )
        self.action_spec = Composite(agents=Composite(action=Bounded(-2.0, 2.0, (n, 1)), shape=(n,)), shape=(n,))
        self.reward_spec = Composite(agents=Composite(reward=Unbounded((n, 1)), shape=(n,)), shape=(n,))
        self.x, self.t = torch.zeros(n), torch.zeros(n)

    def _state(self):
        return TensorDict({"agents": {"observation": {"state": torch.stack((self.x, self.t), -1)}}}, self.batch_size)

    def _reset(self, tensordict=None):
        mask = torch.ones(self.batch_size, dtype=torch.bool)
        if tensordict is not None and "_reset" in tensordict:
            mask = tensordict["_reset"].reshape(self.batch_size)
        self.x, self.t = torch.where(mask, 0.0, self.x), torch.where(mask, 0.0, self.t)
        return self._state().update({"done": torch.zeros(*self.batch_size, 1, dtype=torch.bool)})

    def _step(self, tensordict):
        self.x = self.x + tensordict["agents", "action"][:, 0]
        self.t = self.t + 1
        done = (self.t >= self.length)[:, None]
        return self._state().update({"agents": {"reward": self.x[:, None].clone()}, "done": done, "terminated": done})

    def _set_seed(self, seed):
        pass


def walker_policy():
    net = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(net.weight, 0.1)
    torch.nn.init.constant_(net.bias, 0.3)
    return TensorDictModule(net, [("agents", "observation", "state")], [("agents", "action")])


def pendulum_policy():
    torch.manual_seed(3)
    return TensorDictModule(torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh()), ["observation"], ["action"])


@pytest.mark.parametrize("count", [1, 3])
def test_batches_equal_those_of_torchrls_own_collector(count):
    from torchrl.collectors import Collector

    def make():
        env = GymEnv("Pendulum-v1", frame_skip=20) if count == 1 else SerialEnv(3, lambda: GymEnv("Pendulum-v1"))
        env.set_seed(0)
        return env

    frames = 230 * count
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = Collector(make(), pendulum_policy(), frames_per_batch=frames, total_frames=frames)
        theirs = next(iter(peer)).reshape(count, -1)
        peer.shutdown()
    with SyncDataCollector(make(), pendulum_policy(), frames_per_batch=frames) as collector:
        ours = collector.rollout()
    assert ours["next", "done"].any()
    for key in ("observation", "action", ("next", "observation"), ("next", "reward"), ("next", "done"), "done"):
        assert torch.equal(ours[key], theirs[key]), key


def test_nested_keys_and_final_observations_stay_torchrls():
    with SyncDataCollector(Walker(2), walker_policy(), 2 * 12, return_same_td=True) as collector:
        batch = collector.rollout()
    t = batch["agents", "observation", "state"][..., 1]
    step = torch.arange(12.0)
    assert torch.equal(t, torch.stack((step % 5, step % 6)))
    after = batch["next", "agents", "observation", "state"][..., 1]
    assert after[0].tolist() == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]
    assert batch["next", "done"][0, :, 0].nonzero().flatten().tolist() == [4, 9]
    x = batch["next", "agents", "observation", "state"][..., 0]
    assert torch.equal(batch["next", "agents", "reward"][..., 0], x)
    assert batch["agents", "action"].shape == (2, 12, 1)


@pytest.mark.parametrize(
    ("make", "policy", "name"),
    [
        (lambda: Walker(2), walker_policy, "agents.observation.state"),
        (lambda: GymEnv("Pendulum-v1", frame_skip=40), pendulum_policy, "observation"),
    ],
)
def test_compressed_batches_have_torchrls_keys(make, policy, name):
    def collector():
        env = make()
        env.set_seed(0)
        return SyncDataCollector(env, policy(), 12)

    plain = collector().rollout()
    assert plain["next", "done"].any()
    with CompressedDataCollector(collector(), keys=[name]) as compressed:
        packed = compressed.rollout()
    for batch in (packed.decode(), CompressedBatch.from_bytes(packed.to_bytes()).decode()):
        assert set(batch.keys(True, True)) == set(plain.keys(True, True))
        assert all(torch.equal(batch[key], plain[key]) for key in plain.keys(True, True))
    some, flat = packed.minibatch([5, 0]), plain.reshape(-1)
    assert all(torch.equal(some[key], flat[key][[5, 0]]) for key in plain.keys(True, True))
    assert all(torch.equal(packed[key], plain[key]) for key in plain.keys(True, True))
    assert isinstance(next(iter(CompressedDataCollector(collector()))), CompressedBatch)


def test_torchrls_exploration_type_reaches_the_policy():
    from torchrl.envs.utils import exploration_type

    seen = []

    def policy(data):
        seen.append(exploration_type())
        return data.set(("agents", "action"), torch.zeros(2, 1))

    for kind in (TorchRLExploration.RANDOM, TorchRLExploration.MODE, TorchRLExploration.DETERMINISTIC):
        with SyncDataCollector(Walker(2), policy, 2, exploration_type=kind) as collector:
            collector.rollout()
    assert seen == [TorchRLExploration.RANDOM, TorchRLExploration.MODE, TorchRLExploration.MEAN]
    with pytest.raises(ValueError, match="exploration_type=MEDIAN is not supported"):
        SyncDataCollector(Walker(2), policy, 2, exploration_type=TorchRLExploration.MEDIAN)


def test_a_factory_and_torchrls_weight_update_work():
    with SyncDataCollector(lambda: Walker(2), None, frames_per_batch=8, total_frames=16) as collector:
        for batch in collector:
            collector.update_policy_weights_()
            assert batch.shape == (2, 4)


def test_a_policy_that_writes_no_action_is_named():
    policy = TensorDictModule(torch.nn.Linear(2, 1), [("agents", "observation", "state")], ["steer"])
    with SyncDataCollector(Walker(2), policy, 8) as collector, pytest.raises(TypeError, match="wrote no .*action"):
        collector.rollout()


def test_a_pipeline_over_a_torchrl_env_has_versions():
    policy = walker_policy()
    with PipelinedDataCollector(SyncDataCollector(Walker(2), policy, 8)) as collector:
        first, second = collector.rollout(), collector.rollout()
    assert first["agents", "observation", "state"][0, :, 1].tolist() == [0, 1, 2, 3]
    assert second["agents", "observation", "state"][0, :, 1].tolist() == [4, 0, 1, 2]
    assert second["policy_version"].unique().tolist() == [0]


def test_torchrls_ppo_loss_learns_from_our_batch():
    from torchrl.objectives.value import GAE

    value = TensorDictModule(torch.nn.Linear(2, 1), [("agents", "observation", "state")], ["state_value"])
    gae = GAE(gamma=0.9, lmbda=0.9, value_network=value)
    gae.set_keys(reward=("agents", "reward"))
    with SyncDataCollector(Walker(2), walker_policy(), 16) as collector:
        batch = gae(collector.rollout())
    assert batch["advantage"].shape == (2, 8, 1) and batch["advantage"].isfinite().all()


@pytest.mark.parametrize("env", [lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1")), lambda: GymEnv("CartPole-v1")])
def test_as_a_tensor_env_it_resets_on_the_next_step(env):
    env = FromTorchRL(env())
    env.reset()
    ended = torch.zeros(env.num_envs, dtype=torch.bool)
    for _ in range(60):
        record = env.step(torch.ones(env.num_envs, dtype=torch.int64))
        assert torch.equal(record.valid, ~ended)
        assert (record.observation["observation"][ended].abs() <= 0.05).all()  # CartPole's range of starts
        ended = record.terminated | record.truncated


def test_bounds_of_actions_are_scaled():
    env = FromTorchRL(Walker(2))
    assert (env.action_spec.low, env.action_spec.high) == (-1.0, 1.0)
    record = env.step(torch.tensor([[1.0], [-0.5]]))
    assert record.observation["agents.observation.state"][:, 0].tolist() == [2.0, -1.0]


@pytest.mark.parametrize("spec", [Unbounded((2, 1)), Bounded(-torch.inf, torch.inf, (2, 1))])
def test_actions_without_bounds_pass_as_they_are(spec):
    walker = Walker(2)
    walker.action_spec = Composite(agents=Composite(action=spec, shape=(2,)), shape=(2,))
    env = FromTorchRL(walker)
    assert env.action_spec == Box((1,)) and env.observation_spec["agents.observation.state"] == Box((2,))
    record = env.step(torch.tensor([[3.0], [-0.5]]))
    assert record.observation["agents.observation.state"][:, 0].tolist() == [3.0, -0.5]


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_torchrl.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "my_torchrl"


@pytest.mark.parametrize("factory", ["single", "batched"])
def test_train_evaluate_and_resume_by_the_command_line(module, tmp_path, factory, capsys):
    assert main(["train", "task=torchrl", f"env.factory={module}:{factory}", *TINY, "root=runs", "name=a"]) == 0
    assert main(["eval", "checkpoint=runs/a", f"env.factory={module}:{factory}", "eval.num_drones=4"]) == 0
    assert "return" in capsys.readouterr().out
    assert main(["train", "resume=runs/a", f"env.factory={module}:{factory}", "total_frames=96"]) == 0


def test_factories_that_do_not_fit_are_named(module, capsys):
    for word, said in (
        (f"env.factory={module}:wrong", "must return a TorchRL env (EnvBase), not str"),
        (f"env.factory={module}:missing", "the module has no such function"),
        ("seed=1", "name the function that makes the TorchRL env"),
        ("env.factory=no_such_module:f", "cannot import no_such_module"),
    ):
        assert main(["train", "task=torchrl", word, *TINY]) == 2
        assert said in capsys.readouterr().err
