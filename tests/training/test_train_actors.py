"""Trainings with actors on Ray: a real cluster of two nodes with one core each, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path

import pytest
import torch

from slipstream.checkpoint import load_checkpoint
from slipstream.collectors import ray as actors
from slipstream.collectors.ray_cluster import connect, versions
from slipstream.config.compose import load_train, to_dict
from slipstream.config.help import ConfigError
from slipstream.envs.base import BadActionError
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer, make_actor

GYM = shlex.split("""
    task=gym env.num_envs=2 algo.rollout_steps=8 model.trunk=[16] model.part=8 eval_interval=0 device=cpu threads=1
    actors.count=2 wandb.mode=disabled quiet=true
""")
PPO = [*GYM, "algo.minibatches=4", "algo.epochs=1"]
SAC = [*GYM, "algo=sac", "algo.warmup=32", "algo.updates=2", "algo.batch_size=16"]
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two nodes with one core each, to which this process is connected."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH", ""), signal.getsignal(signal.SIGTERM)
    os.environ["PYTHONPATH"] = f"{TESTS}{os.pathsep}{TESTS.parent}{os.pathsep}{before[0]}"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        ray.test_cluster = cluster
        yield ray
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ["PYTHONPATH"] = before[0]
        signal.signal(signal.SIGTERM, before[1])


def kill(ray, slot):
    """End the process of an actor, as the system would."""
    pid = int(slot.where.rpartition(" ")[2])
    os.kill(pid, signal.SIGKILL)


def staleness(batch, version):
    return int((version - batch["policy_version"]).max())


def test_actors_train_are_replaced_and_never_joined(cluster, tmp_path):
    # PPO: batches of both actors, weights at most one update old, a resumed run has new actors
    words = [*PPO, "env.id=helpers.ray_envs:Slow-v0", "model.memory=gru", "model.hidden_size=8"]
    with Trainer(load_train(words)) as trainer:
        for done in range(4):
            batch = trainer.step().batch
            assert batch.shape == (4, 8) and staleness(batch, done) <= 1
            assert torch.equal(
                batch["next", "observation", "observation"][:, :-1], batch["observation", "observation"][:, 1:]
            )
        assert trainer.frames == 4 * 32 and not torch.equal(batch[:2]["reward"], batch[2:]["reward"])
        assert (batch["value_std"][:, :1] == batch["value_std"]).all()
        assert batch["memory"].shape == (4, 8, 8) and bool(batch["memory"].any())
        metrics = trainer.collector.metrics()
        assert {f"actors/{i}/{name}" for i in (0, 1) for name in ("fps", "staleness", "mb")} <= set(metrics)
        assert metrics["actors/running"] >= 1 and metrics["actors/staleness"] <= 1

    # SAC: the first actor hangs, the other one fills the batches; later its old block is used, then the other one dies
    words = [*SAC, "env.id=helpers.ray_envs:Gate-v0", f"env.kwargs.folder={tmp_path}", "actors.max_staleness=1"]
    with Trainer(load_train(words)) as trainer:
        collector, rewards = trainer.collector, set()
        for _ in range(5):
            trainer.step()
        assert [slot.fetched for slot in collector._slots] in ([2, 8], [8, 2])
        (tmp_path / "open").touch()
        while len(rewards) < 2:
            rewards = set(trainer.step().batch["reward"].unique().tolist()) - {0.0}
        kill(cluster, max(collector._slots, key=lambda slot: slot.fetched))
        with pytest.warns(RuntimeWarning, match=r"actor \d .* is lost and replaced"):
            while 100.0**2 not in rewards:
                rewards |= set(trainer.step().batch["reward"].unique().tolist())
        trainer.step()
        metrics = collector.metrics()
        assert metrics["actors/lost"] == 1 and metrics["actors/dropped"] == 0
        sums = trainer.learner.buffer.sample(4000, n_step=3, gamma=1.0)["reward"].unique()
        assert {3.0, 300.0, 30000.0} <= set(sums.tolist()) <= {k * 100.0**n for k in (1, 2, 3) for n in (0, 1, 2)}


# -- in this process: what is done with errors and late blocks -----------------------------------------------------------


class Reference:
    """A result that is computed when it is asked for."""

    def __init__(self, function, *args):
        self.function, self.args = function, args


class FakeRay(types.ModuleType):
    """Ray's functions, with actors in this process. `fail` maps (actor, rollout) to what `get` raises; `order` chooses
    the reference that is ready first."""

    class exceptions:
        RayError = type("RayError", (Exception,), {})
        RayTaskError = type("RayTaskError", (RayError,), {"cause": property(lambda self: self.args[0])})

    def __init__(self):
        super().__init__("ray")
        self.__version__ = "0"
        self.made, self.fail, self.order = 0, {}, lambda references: references[0]

    def is_initialized(self):
        return True

    def put(self, value):
        return Reference(lambda: value)

    def wait(self, references, num_returns, timeout):
        return [self.order(references)], []

    def get(self, reference):
        return reference.function(*reference.args)

    def kill(self, actor):
        pass

    def remote(self, kind):
        def options(num_cpus, max_restarts):
            return types.SimpleNamespace(remote=make)

        def make(*args):
            number, actor, calls = self.made, kind(*args), itertools.count()
            self.made += 1

            def rollout(version, weights, call):
                if (number, call) in self.fail:
                    raise self.fail[number, call]
                return actor.rollout(version, weights)

            ready = types.SimpleNamespace(remote=lambda expected: Reference(lambda: f"here, process {number}"))

            ask = types.SimpleNamespace(remote=lambda *args: Reference(rollout, *args, next(calls)))
            return types.SimpleNamespace(ready=ready, rollout=ask)

        return types.SimpleNamespace(options=options)


@pytest.fixture
def fake(monkeypatch):
    module = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


def fast(*words):
    return Trainer(load_train([*PPO, "env.id=helpers.ray_envs:Slow-v0", "env.kwargs.step_s=0", *words]))


def failed(error):
    return FakeRay.exceptions.RayTaskError(error)


LOST = FakeRay.exceptions.RayError("node lost\nout of memory")
ENDS = {  # (actor, rollout) and its error
    r"actor 0 \(here, process 0\) failed: OSError: no license": {(0, 0): failed(OSError("no license"))},
    "actor 0 was lost 3 times without a batch between: out of memory": dict.fromkeys(((0, 0), (2, 0), (3, 0)), LOST),
    "2 of 2 environments": {(0, 2): failed(BadActionError("2 of 2 environments"))},
}


@pytest.mark.parametrize(("message", "fail"), ENDS.items())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_error_that_would_come_again_ends_the_training(fake, message, fail):
    fake.fail = fail
    with fast() as trainer, pytest.raises((RuntimeError, BadActionError), match=message):
        for _ in range(9):
            trainer.step()


def test_a_node_with_other_versions_is_named():
    with pytest.raises(RuntimeError, match=r"has torch .* instead of 1.0: install the same versions there"):
        actors.RayActor.ready(None, versions() | {"torch": "1.0"})


def test_an_env_that_fails_later_gets_a_new_actor(fake):
    fake.fail[0, 1] = failed(OSError("the simulator crashed"))
    with (
        fast() as trainer,
        pytest.warns(RuntimeWarning, match="actor 0 .* is lost and replaced: OSError: the simulator"),
    ):
        for _ in range(4):
            trainer.step()
        assert fake.made == 3 and trainer.collector.metrics()["actors/lost"] == 1


def test_blocks_are_small_on_the_wire(fake):
    lidar = shlex.split("task=navigation env.num_envs=16 env.map_half_m=8 env.num_obstacles=12 env_dyn.num_obstacles=8")
    images = [*PPO, "env.id=helpers.ray_envs:Images-v0", "env.kwargs.step_s=0"]
    for words, share in ((lidar, 0.5), (images, 0.15)):
        cfg = load_train(words)
        env, policy = make_actor(to_dict(cfg), 1)
        weights = [fake.put(actors.pack_weights(policy))]
        actor = actors.RayActor(lambda seed, made=(env, policy): made, 1, 32 * env.num_envs, 1, 1)
        block = actor.rollout(0, weights)
        assert len(block.data) <= share * block.raw_bytes


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_late_blocks_are_dropped(fake, limit):
    rng = random.Random(limit)
    fake.order = rng.choice
    with fast("actors.count=3", f"actors.max_staleness={limit}", "algo.minibatches=6") as trainer:
        for done in range(12):
            batch = trainer.step().batch
            assert staleness(batch, done) <= limit
            flying = [slot.in_flight for slot in trainer.collector._slots]
            assert max(flying) <= 2 and sum(flying) <= 3 * (limit + 1) + trainer.collector.metrics()["actors/dropped"]
        assert (trainer.collector.metrics()["actors/dropped"] > 0) == (limit > 0)


# -- without a cluster -------------------------------------------------------------------------------------------------


def test_a_cluster_that_does_not_answer_is_named(monkeypatch):
    ray = pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"ray://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ConfigError, match=f"actors.address={address}: no Ray cluster answers .*`ray start --head`"):
        connect(ray, address, 2)


LOCAL = """
import json, os
from helpers.listeners import descendants, listening
from slipstream.collectors.ray_cluster import connect, import_ray
ray = import_ray()
connect(ray, "local", 1)
actor = ray.remote(type("Actor", (), {"ready": lambda self: os.getpid()})).remote()
pids = [*descendants(os.getpid()), ray.get(actor.ready.remote())]
print(json.dumps([sorted(map(str, listening(pids))), len(pids), os.environ["RAY_AUTH_MODE"]]))
ray.shutdown()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_cluster_of_this_machine_is_on_loopback_with_a_token(tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    env = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LOCAL], env=env, capture_output=True, text=True, check=True)
    addresses, processes, mode = json.loads(done.stdout.splitlines()[-1])
    assert addresses == ["127.0.0.1"] and processes > 5
    assert mode == "token" and (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o077 == 0


def test_an_address_in_a_run_folder_is_not_trusted():
    from slipstream.config import registry

    config = {"actors": {"count": 2, "address": "ray://elsewhere:10001"}}
    with pytest.raises(ConfigError, match="add to the command line: actors.address=ray://elsewhere:10001"):
        registry.refuse_unregistered(config, ["resume=runs/a"], "runs/a")
    registry.refuse_unregistered(config, ["actors.address=ray://elsewhere:10001"], "runs/a")


# -- at full count -----------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_lost_node_is_survived_and_a_new_one_is_used(cluster):
    third = cluster.test_cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    words = [*PPO, "env.id=helpers.ray_envs:Slow-v0", "actors.count=3", "algo.minibatches=6"]

    def step_until(done):
        for _ in range(4000):
            if done(trainer.collector.metrics()):
                return
            trainer.step()
        raise AssertionError(trainer.collector.metrics())

    with Trainer(load_train(words)) as trainer, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        step_until(lambda metrics: metrics["actors/running"] == 3)
        cluster.test_cluster.remove_node(third, allow_graceful=False)
        step_until(lambda metrics: metrics["actors/lost"] >= 1)
        for _ in range(20):
            trainer.step()  # with two of three
        third = cluster.test_cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        step_until(lambda metrics: metrics["actors/running"] == 3)
    cluster.test_cluster.remove_node(third)


def processes_of(session):
    """The processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            found += [path.parent.name] if int(fields[3]) == session and fields[0] != "Z" else []
    return found


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_stopped_run_saves_leaves_no_process_and_resumes(tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    words = [*PPO, "env.id=helpers.ray_envs:Slow-v0", f"root={tmp_path}", "name=run", "save_interval=1"]
    env = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
    folder, reached = tmp_path / "run", 0
    for group, number in ((True, signal.SIGINT), (False, signal.SIGTERM)):
        more = [f"resume={folder}", "env.id=helpers.ray_envs:Slow-v0"] if reached else [*words, "total_frames=10000000"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        command = [sys.executable, "-m", "slipstream", "train", *more]
        process = subprocess.Popen(command, env=env, start_new_session=True, **pipes)
        while not any(int(path.name[5:11]) > reached + 1 for path in folder.glob("checkpoints/ckpt_*.slip")):
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.2)
        (os.killpg if group else os.kill)(process.pid, number)  # Ctrl-C reaches all processes of the terminal
        text = process.communicate()[0]
        assert (
            process.returncode == (130 if group else 75) and "stopped; continue with: slipstream train resume=" in text
        ), text
        assert processes_of(process.pid) == []
        saved = load_checkpoint(folder / "checkpoints")
        assert saved["iteration"] > reached and saved["frames"] == 32 * saved["iteration"]
        reached = saved["iteration"]
    rows = read_metrics(folder)
    assert [row["iteration"] for row in rows] == list(range(1, reached + 1))
