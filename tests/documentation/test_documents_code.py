"""Lines of NavRL's optimisation documents, typed as they are written there."""

from __future__ import annotations

import shlex
import threading

import pytest
import torch

from slipstream import (
    PPO,
    AsyncCheckpointSaver,
    NavigationEnv,
    PerformanceMonitor,
    SyncDataCollector,
    load_checkpoint,
    print_model_info,
    train,
)
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.models import build_policy
from slipstream.storage.files import FileSystem
from slipstream.training.metrics_log import read_metrics

TINY = shlex.split("""
    env.num_envs=4 env.map_half_m=2 env.num_obstacles=2 env_dyn.num_obstacles=0 env.decision_interval=20
    algo.rollout_steps=8 algo.minibatches=2 algo.epochs=1 model.encoder=dict model.part=8 model.trunk=[16]
    total_frames=128 save_interval=2 eval_interval=2 eval.num_drones=2 eval.map_seeds=[1] eval.max_steps=40
    device=cpu threads=1 wandb.mode=disabled
""")


def run_tiny(root, *words):
    return train.run(load_train([*TINY, f"root={root}", *words]))


@pytest.fixture
def navigation():
    """The env, the PPO that the documents call `policy`, and a function that makes collectors."""
    torch.manual_seed(0)
    env = NavigationEnv(4)
    policy = PPO(build_policy(env.observation_spec, env.action_spec), PPO.Config(minibatches=2, epochs=1))

    def collector(batches=2, **options):
        return SyncDataCollector(
            env, policy.policy, frames_per_batch=4 * 8, total_frames=batches * 4 * 8, return_same_td=True, **options
        )

    return env, policy, collector


# -- the training loop of train.py


def test_the_training_loop_of_train_py(navigation, tmp_path, capsys):
    _, policy, make_collector = navigation
    checkpoint_saver = AsyncCheckpointSaver(max_queue_size=3)
    perf_monitor = PerformanceMonitor()
    print_model_info(policy.policy)
    collector = make_collector()
    for i, data in enumerate(collector):
        with perf_monitor.timer("policy_training"):
            train_loss_stats = policy.train(data)
        checkpoint = {"model_state_dict": policy.state_dict(), "iteration": i, "env_frames": collector._frames}
        checkpoint_saver.save_async(checkpoint, path=str(tmp_path / f"checkpoint_{i}.pt"), compress=True)
    checkpoint_saver.shutdown(timeout=60)
    assert "loss/policy" in train_loss_stats and perf_monitor.get_stats(window=100)["policy_training"]["count"] == 2
    assert "=== Performance Summary ===" in perf_monitor.get_summary(window=100)
    checkpoint = load_checkpoint(tmp_path / "checkpoint_1.pt")
    policy.load_state_dict(checkpoint["model_state_dict"])
    assert checkpoint["env_frames"] == 64 and checkpoint_saver.get_stats()["total_saved"] == 2


def test_train_is_update(navigation):
    env, policy, collector = navigation
    twin = PPO(build_policy(env.observation_spec, env.action_spec), PPO.Config(minibatches=2, epochs=1))
    twin.load_state_dict(policy.state_dict())
    batch = collector(1).collect()
    found = []
    for method in (policy.train, twin.update):
        torch.manual_seed(1)
        found.append({name: float(value) for name, value in method(batch).items()})
    assert found[0] == found[1]


# -- checkpoint files


def test_a_name_with_lz4_opens_the_slip_file_and_warns(tmp_path):
    with AsyncCheckpointSaver() as saver:
        saver.save_async({"iteration": 3}, path=tmp_path / "c.pt", compress=True)
    with pytest.warns(UserWarning, match=r"there is no .*c\.pt\.lz4: opening c\.pt\.slip"):
        assert load_checkpoint(tmp_path / "c.pt.lz4") == {"iteration": 3}
    with pytest.raises(FileNotFoundError, match=r"looked for d\.pt\.slip, d\.pt\.lz4, d\.pt"):
        load_checkpoint(tmp_path / "d.pt.lz4")


@pytest.mark.parametrize(("value", "suffix"), [("lz4", ".pt.lz4"), ("True", ".pt.slip"), ("False", ".pt")])
def test_compress_checkpoint_chooses_the_file(tmp_path, value, suffix):
    folder = run_tiny(tmp_path, f"compress_checkpoint={value}", "eval_interval=0", "quiet=true")
    saved = folder.checkpoints / f"ckpt_000004{suffix}"
    assert saved.is_file() and load_checkpoint(saved)["iteration"] == 4
    longer = train.run(load_train([f"resume={folder.path}", "total_frames=160"]))
    assert load_checkpoint(longer.checkpoints)["iteration"] == 5


def test_another_value_of_compress_checkpoint_is_refused():
    with pytest.raises(ConfigError, match="compress_checkpoint must be true or false or lz4, not 'gzip'"):
        load_train(["compress_checkpoint=gzip"])
    assert load_train(["compress_checkpoint=on"]).compress_checkpoint is True


def test_the_saver_explains_slip_files_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(AsyncCheckpointSaver, "_slip_explained", False)
    for name in ("a.pt", "b.pt"):
        with AsyncCheckpointSaver() as saver:
            saver.save_async({}, tmp_path / "plain.pt", compress=False)
            saver.save_async({}, tmp_path / name)
            saver.save_async({}, tmp_path / name)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "slipstream.load_checkpoint(path) opens them" in told and "slipstream ckpt export" in told


def test_a_training_explains_slip_files_unless_quiet(tmp_path, capsys, monkeypatch):
    for quiet, count in (("true", 0), ("false", 1)):
        monkeypatch.setattr(AsyncCheckpointSaver, "_slip_explained", False)
        run_tiny(tmp_path / quiet, "eval_interval=0", f"quiet={quiet}")
        out, err = capsys.readouterr()
        assert (out + err).replace("\n", " ").count("slipstream ckpt export") == count


class Gate(FileSystem):
    """Holds every write until it is opened, so that snapshots wait in the queue."""

    def __init__(self):
        self.open, self.reached = threading.Event(), threading.Event()

    def create(self, path):
        self.reached.set()
        assert self.open.wait(30)
        return super().create(path)


@pytest.mark.parametrize("saves", [3, 5])
def test_a_full_queue_warns_once_and_counts(tmp_path, capsys, saves):
    gate = Gate()
    saver = AsyncCheckpointSaver(max_queue_size=1, queue_policy="drop_oldest", fs=gate)
    for i in range(saves):  # one is written, one waits; the third finds the queue full
        saver.save_async({"i": i}, tmp_path / f"c_{i}.pt", compress=False)
        assert gate.reached.wait(30)
    assert saver.get_stats()["queue_full"] == saves - 2
    told = capsys.readouterr().err
    assert told.count("the queue of the checkpoint saver is full (1 wait)") == 1 and told.count("\n") == 1
    assert "async_checkpoint_queue_size" in told and "save_compression_level" in told and "save_interval" in told
    gate.open.set()
    saver.shutdown()
    saver.shutdown()
    assert capsys.readouterr().err.count(f"was full {saves - 2} times") == (saves > 3)


# -- the keys and logs of train


def moments_of(folder):
    state = load_checkpoint(folder.checkpoints)["algo"]
    found = []

    def walk(node, name=""):
        if isinstance(node, dict):
            for key, value in node.items():
                walk(value, key)
        elif isinstance(node, (list, tuple)):
            for value in node:
                walk(value, name)
        elif isinstance(node, torch.Tensor) and name in ("exp_avg", "exp_avg_sq"):
            found.append(node.flatten())

    walk(state)
    return torch.cat(found)


def test_checkpoint_moments_rounds_the_moments(tmp_path):
    exact, bf16, int8 = (
        moments_of(run_tiny(tmp_path / kind, f"checkpoint_moments={kind}", "eval_interval=0", "quiet=true"))
        for kind in ("float32", "bf16", "int8")
    )
    assert (bf16.view(torch.int32) & 0xFFFF == 0).all() and (int8.view(torch.int32) & 0xFFFFF == 0).all()
    assert (exact.view(torch.int32) & 0xFFFF != 0).any()
    assert torch.allclose(bf16, exact, rtol=1 / 256, atol=0) and torch.allclose(int8, exact, rtol=1 / 16, atol=0)


def test_checkpoint_moments_must_fit(tmp_path):
    with pytest.raises(ConfigError, match="checkpoint_moments must be float32 or bf16 or int8, not 'int4'"):
        load_train(["checkpoint_moments=int4"])
    with pytest.raises(ConfigError, match="checkpoint_moments=int8 needs compress_checkpoint=true"):
        load_train(["checkpoint_moments=int8", "compress_checkpoint=lz4"])


def test_the_logs_have_the_documents_names(tmp_path):
    from slipstream.training.metrics_log import RunLog

    written = {}
    write = RunLog.write

    def record(self, iteration, frames, metrics, machine=None):
        written.update(machine or {})
        write(self, iteration, frames, metrics, machine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLog, "write", record)
        folder = run_tiny(tmp_path, "quiet=true")
    logged = {name: value for row in read_metrics(folder.path) for name, value in row.items()}
    assert logged["perf/policy_training"] == logged["perf/learn"] > 0 and logged["perf/evaluation"] > 0
    for name in ("saved", "queue_size", "queue_full", "dropped", "failed", "compression_ratio"):
        assert f"checkpoint/{name}" in written  # as TensorBoard and W&B have it
        assert logged[f"perf/checkpoint/{name}"] >= 0


def test_tensorboard_has_checkpoint_statistics(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = run_tiny(tmp_path, "eval_interval=0", "quiet=true")
    found = events.EventAccumulator(str(folder.path / "tensorboard"))
    found.Reload()
    assert {"checkpoint/saved", "checkpoint/compression_ratio", "perf/policy_training"} <= set(found.Tags()["scalars"])
