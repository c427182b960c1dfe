"""Lines of NavRL's optimization documents, typed as they are written there."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import shlex
from types import SimpleNamespace

import lz4.frame
import numpy as np
import pytest
import torch
from helpers.disks import HeldDisk, put_in

from slipstream import (
    PPO,
    AsyncCheckpointSaver,
    DictReplayBuffer,
    NavigationEnv,
    PerformanceMonitor,
    PrefixSum,
    RolloutStorage,
    SyncDataCollector,
    compress_image,
    compress_image_seq,
    compress_rollout,
    decompress_rollout,
    load_checkpoint,
    load_rollout,
    print_model_info,
    sample_batch,
    train,
)
from slipstream.collectors import CompressedBatch
from slipstream.config.compose import load_train
from slipstream.models import build_policy
from slipstream.storage.errors import DamagedFileError, TooLargeError
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


def test_a_full_queue_warns_once_and_counts(tmp_path, monkeypatch, capsys):
    gate = put_in(monkeypatch, HeldDisk())
    saver = AsyncCheckpointSaver(max_queue_size=1, queue_policy="drop_oldest")
    for i in range(5):  # one is written, one waits; the third finds the queue full
        saver.save_async({"i": i}, tmp_path / f"c_{i}.pt", compress=False)
        assert gate.reached.wait(30)
    assert saver.get_stats()["queue_full"] == 3
    told = capsys.readouterr().err
    assert told.count("the queue of the checkpoint saver is full (1 wait)") == 1 and told.count("\n") == 1
    assert "async_checkpoint_queue_size" in told and "save_compression_level" in told and "save_interval" in told
    gate.open.set()
    saver.shutdown()
    saver.shutdown()
    assert not capsys.readouterr().err


# -- the keys and logs of train


def test_the_logs_have_the_documents_names(tmp_path, capsys):
    from slipstream.training.metrics_log import RunLog

    written = {}
    write = RunLog.write

    def record(self, iteration, frames, metrics, machine=None, time_s=None):
        written.update(machine or {})
        write(self, iteration, frames, metrics, machine, time_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLog, "write", record)
        folder = run_tiny(tmp_path, "rollout_save_interval=2", "summary_interval=2")
    printed = capsys.readouterr().out
    assert all(
        words in printed for words in ("[Checkpoint Stats]\n  Total saved: ", "Compression ratio: ", "Queue size: ")
    )
    assert (folder.path / "rollouts" / "rollout_000002.slip").is_file()
    logged = {name: value for row in read_metrics(folder.path) for name, value in row.items()}
    assert logged["perf/policy_training"] == logged["perf/learn"] > 0 and logged["perf/evaluation"] > 0
    assert logged["perf/rollout_save"] > 0
    for name in ("saved", "queue_size", "queue_full", "dropped", "failed", "compression_ratio"):
        assert f"checkpoint/{name}" in written  # as TensorBoard and W&B have it
        assert logged[f"perf/checkpoint/{name}"] >= 0


# -- rollouts, compressed and pickled


def same_batch(a, b):
    return set(a.keys(True, True)) == set(b.keys(True, True)) and all(
        torch.equal(a[k], b[k]) for k in a.keys(True, True)
    )


def test_compress_rollout_and_decompress_rollout(navigation):
    _, policy, collector = navigation
    rollout_history = []
    for data in collector(2):
        before = data.clone()
        compressed = compress_rollout(data)
        rollout_history.append(compressed)
        decompressed = decompress_rollout(compressed)
        assert same_batch(decompressed, before)
        policy.train(decompressed)
    assert len(rollout_history) == 2 and rollout_history[0].ratio > 1


def test_a_compressed_rollout_goes_to_another_machine(navigation):
    _, policy, collector = navigation
    data = collector(1).collect().clone()
    compressed = compress_rollout(data)
    for sent in (
        CompressedBatch.from_bytes(compressed.to_bytes()),
        pickle.loads(pickle.dumps(compressed)),
        copy.deepcopy(compressed),
    ):
        assert same_batch(decompress_rollout(sent), data)
        assert same_batch(sent.minibatch([5, 0, 31]), compressed.minibatch([5, 0, 31]))
    assert same_batch(decompress_rollout(compressed.to_bytes()), data)
    assert "loss/policy" in policy.train(sent)


# -- replay_buffer.py


def gridmap_episodes():
    rng = np.random.default_rng(1)
    return [rng.random((length, 3, 4), np.float32) for length in (5, 9, 2)]


@pytest.mark.parametrize(("by", "keywords"), [("episode", False), ("frame", True)])
def test_sample_batch_of_compressed_lists(by, keywords):
    episodes = gridmap_episodes()
    replay_buffer = {
        "gridmap_inputs": [compress_image_seq(e) for e in episodes]
        if by == "episode"
        else [compress_image(frame) for e in episodes for frame in e],
        "action": list(range(16)),
    }
    episode_lens_prefix_sum = PrefixSum(1000)
    for episode in episodes:
        episode_lens_prefix_sum.add(len(episode))
    train_param = {"batch_size": 64, "image_shape": (3, 4)}
    device = "cpu"
    if keywords:
        batch = sample_batch(
            replay_buffer=replay_buffer,
            episode_lens_prefix_sum=episode_lens_prefix_sum,
            train_param=train_param,
            device=device,
        )
    else:
        batch = sample_batch(replay_buffer, episode_lens_prefix_sum, train_param, device)
    frames = np.concatenate(episodes)
    assert batch["gridmap_inputs"].shape == (64, 3, 4) and len(set(batch["action"].tolist())) > 8
    assert np.array_equal(batch["gridmap_inputs"].numpy(), frames[batch["action"].numpy()])


def test_sample_batch_of_a_buffer_with_train_param():
    buffer = DictReplayBuffer(max_size=100, keys=["gridmap_inputs", "done"], device="cpu", img_compressed=True)
    for episode in gridmap_episodes():
        buffer.add(episode_data={"gridmap_inputs": episode, "done": np.arange(len(episode)) == len(episode) - 1})
    for param in (SimpleNamespace(batch_size=7), {"batch_size": 7}, 7):
        batch = sample_batch(buffer, buffer.episode_lens_prefix_sum, param, "cpu")
        assert batch["gridmap_inputs"].shape == (7, 3, 4) and batch["done"].shape == (7,)
    assert sample_batch(buffer.buffer, 7, buffer.episode_lens_prefix_sum, buffer.device)["done"].shape == (7,)
    with pytest.raises(ValueError, match="has no batch_size"):
        sample_batch(buffer, buffer.episode_lens_prefix_sum, {}, "cpu")
    buffer.close()


def documents_save(data, path, protocol=4):
    """`RolloutStorage.save` of the documents."""
    data_dict = {}
    for key in data.keys(True, True):
        data_dict["/".join(key) if isinstance(key, tuple) else key] = data[key].cpu().numpy()
    path.write_bytes(lz4.frame.compress(pickle.dumps(data_dict, protocol=protocol), compression_level=9))


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_the_documents_pickled_rollouts_open(navigation, tmp_path, protocol):
    data = navigation[2](1).collect().clone()
    documents_save(data, tmp_path / "rollout_000100.lz4", protocol)
    storage = RolloutStorage(save_dir=tmp_path, compression_level=9)
    for back in (storage.load(100, device="cpu"), load_rollout(tmp_path / "rollout_000100.lz4")):
        assert same_batch(back, data)
    documents_save(data, tmp_path / "a.pkl", protocol)


def test_save_rollout_compressed_of_the_documents_opens(navigation, tmp_path):
    data = navigation[2](1).collect().clone()
    data_np = {key: value.cpu().numpy() for key, value in data.items(True, True)}  # tuples as keys
    (tmp_path / "rollout_0.lz4").write_bytes(lz4.frame.compress(pickle.dumps(data_np), compression_level=9))
    (tmp_path / "rollout_0.pkl").write_bytes(pickle.dumps(data_np))
    assert same_batch(load_rollout(tmp_path / "rollout_0.lz4"), data)
    assert same_batch(load_rollout(tmp_path / "rollout_0.pkl"), data)


class Attack:
    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def bomb():
    value = [0, 0]
    for _ in range(60):
        value = [value, value]
    return value


def endless():
    value = []
    value.append(value)
    return value


def deep():
    value = pickle.EMPTY_LIST * 5000 + pickle.APPEND * 4999
    return b"\x80\x02" + value + b"."


ATTACKS = {
    "os.system": (lambda: Attack(os.system, ("touch HACKED",)), "system, which could run code"),
    "eval": (lambda: {"a": Attack(eval, ("open('HACKED', 'w')",))}, "eval, which could run code"),
    "call in a list": (lambda: [np.zeros(2), Attack(os.mkdir, ("HACKED",))], "mkdir, which could run code"),
    "array of a file": (lambda: {"a": Attack(np.fromfile, ("HACKED",))}, "could run code"),
    "object array": (lambda: {"a": np.array([{}, None], dtype=object)}, "'O8', which is not a dtype of plain numbers"),
    "structured array": (lambda: {"a": np.zeros(2, [("x", "f4")])}, "an array is of structures"),
    "bomb": (lambda: {"a": bomb()}, "more than 50000 values"),
    "contains itself": (endless, "nested deeper than 100 levels, or contains itself"),
    "a set": (lambda: {"a": {1, 2}}, "it holds a set"),
    "tensor": (lambda: {"a": torch.zeros(2)}, "could run code"),
    "not a dict": (lambda: [1, 2], "it holds a list, not a dict of arrays"),
    "ndarray itself": (lambda: {"a": np.ndarray}, "it holds a _Maker"),
    "huge ndarray": (lambda: {"a": Attack(np.ndarray, ((1 << 40,),))}, "of a size that the file chooses"),
    "huge dtype": (lambda: {"a": Attack(np.dtype, ("V9999999999",))}, ""),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_pickle_is_refused_in_one_sentence(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    make, reason = ATTACKS[name]
    (tmp_path / "rollout_000001.lz4").write_bytes(lz4.frame.compress(pickle.dumps(make(), protocol=4)))
    with pytest.raises(DamagedFileError) as refused:
        RolloutStorage(tmp_path).load(1)
    assert (
        reason in str(refused.value) and "\n" not in str(refused.value) and "rollout_000001.lz4" in str(refused.value)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["rollout_000001.lz4"]


def test_deep_cut_and_large_pickles_are_refused(tmp_path):
    path = tmp_path / "a.pkl"
    whole = pickle.dumps({"a": np.zeros(100)}, protocol=4)
    for data in (deep(), b"", b"\x80\x04", b"nonsense", whole[:-1], whole[:60], whole.replace(b"K\x64", b"K\x65")):
        path.write_bytes(data)
        with pytest.raises(DamagedFileError):
            load_rollout(path)
    path.write_bytes(lz4.frame.compress(pickle.dumps({"a": np.zeros(1 << 22, np.uint8)})))
    with pytest.raises(TooLargeError):
        load_rollout(path, max_bytes=1 << 20)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_pickles_never_end_in_another_error(tmp_path, seed):
    rng = np.random.default_rng(seed)
    whole = pickle.dumps({"a": np.zeros(10), "b": {"c": [1, "x"]}}, protocol=seed + 2)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        (tmp_path / "a.pkl").write_bytes(data)
        with contextlib.suppress(DamagedFileError, TooLargeError):
            load_rollout(tmp_path / "a.pkl", max_bytes=1 << 24)
