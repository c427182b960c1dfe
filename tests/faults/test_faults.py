"""Faults of machines: hanging envs, file systems without locks, quotas, read-only remounts, slow disks, other processes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shlex
import threading
import time

import pytest
import torch

from slipstream import PipelinedDataCollector, SyncDataCollector
from slipstream.cli import main
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box
from slipstream.storage import files
from slipstream.storage.files import FileSystem
from slipstream.training.metrics_log import read_metrics

TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    algo.rollout_steps=8 algo.minibatches=4 algo.epochs=1 model.encoder=dict model.part=8 model.trunk=[16] env.num_worlds=2
    total_frames=256 save_interval=1 eval_interval=0 device=cpu threads=1 quiet=true wandb.mode=disabled
""")


class WaitingEnv(TensorEnv):
    """Its steps wait until they are released."""

    observation_spec, action_spec = {"x": Box((1,))}, Box((1,), -1.0, 1.0)

    def __init__(self, num_envs):
        super().__init__(num_envs)
        self.entered, self.released = threading.Event(), threading.Event()

    def _reset(self, mask):
        pass

    def _advance(self, action):
        self.entered.set()
        self.released.wait(60)

    def _observe(self):
        return {"x": torch.zeros(self.num_envs, 1)}

    def _outcome(self):
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        return Outcome(torch.zeros(self.num_envs), never, never, {})


def test_shutdown_while_an_env_hangs_returns_and_names_it():
    env = WaitingEnv(2)
    base = SyncDataCollector(env, lambda observation: torch.zeros(2, 1), 8)
    collector = PipelinedDataCollector(base)
    asking = threading.Thread(target=collector.rollout, daemon=True)
    asking.start()
    assert env.entered.wait(30)
    with pytest.warns(RuntimeWarning, match="WaitingEnv has not finished its rollout 0.1 s after shutdown"):
        collector.shutdown(0.1)
    env.released.set()
    asking.join(30)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_trained_on(tmp_path, monkeypatch, number):
    def flock(fd, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.fcntl, "flock", flock)
    assert main(["train", *TINY, f"root={tmp_path}", "name=run"]) == 0
    assert main(["train", f"resume={tmp_path / 'run'}", "total_frames=320"]) == 0
    assert len(read_metrics(tmp_path / "run")) == 5


@pytest.mark.parametrize("call", ["create", "write", "fsync", "replace"])
@pytest.mark.parametrize("number", [errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_training_stops_with_a_sentence_and_resumes(tmp_path, monkeypatch, capsys, call, number):
    """A quota, a read-only remount and a dying disk, from the third checkpoint on."""
    plain, ckpts = getattr(FileSystem, call), []
    create = FileSystem.create

    def counted(fs, path):
        ckpts.append(path) if ".ckpt_" in path.name else None
        return failing(fs, path) if call == "create" else create(path)

    def failing(fs, *args):
        if len(ckpts) > 2:
            raise OSError(number, os.strerror(number))
        return plain(*args)

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, call, failing)
        patch.setattr(FileSystem, "create", counted)
        assert main(["train", *TINY, f"root={tmp_path}", "name=run"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and os.strerror(number) in error and "resume=" in error, error
    assert main(["train", f"resume={tmp_path / 'run'}"]) == 0
    assert len(read_metrics(tmp_path / "run")) == 4


def test_a_slow_disk_delays_no_file_beyond_the_end(tmp_path, monkeypatch):
    plain = FileSystem.fsync

    def slow(fs, fd):
        time.sleep(0.05)
        plain(fd)

    monkeypatch.setattr(FileSystem, "fsync", slow)
    assert main(["train", *TINY, f"root={tmp_path}", "name=run"]) == 0
    assert main(["ckpt", "verify", str(tmp_path / "run")]) == 0


class _Batches(torch.utils.data.Dataset):
    """Batches out of saved rollouts, read in the processes of a DataLoader."""

    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return 4

    def __getitem__(self, index):
        from slipstream import RolloutStorage

        return RolloutStorage(self.folder).load(index + 1)["reward"].sum()


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.soak)])
def test_rollouts_are_read_in_dataloader_workers(tmp_path, method):
    assert main(["train", *TINY, f"root={tmp_path}", "name=run", "rollout_save_interval=1"]) == 0
    data = _Batches(tmp_path / "run" / "rollouts")
    context = multiprocessing.get_context(method)
    loader = torch.utils.data.DataLoader(data, num_workers=2, multiprocessing_context=context)
    assert [float(x) for x in loader] == [float(data[i]) for i in range(4)]
