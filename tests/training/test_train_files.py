"""The files of a training: one writer at a time, errors of the disk, differences, saved batches."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest
import torch
from tiny_runs import TINY, at_iteration

from slipstream import RolloutStorage, train
from slipstream.checkpoint import load_checkpoint
from slipstream.checkpoint.load import checkpoints_of
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.rollouts.export import episodes
from slipstream.storage.files import FileSystem, WriterLock
from slipstream.training.metrics_log import RunLog, read_metrics
from slipstream.training.run_folder import RunFolder

SHORT = [*TINY, "total_frames=192", "save_interval=1"]
HOLDER = """
import os, sys, time
from pathlib import Path
from slipstream.storage.files import WriterLock
with WriterLock(Path(sys.argv[1])):
    if not os.fork():  # as workers are; it outlives its parent
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


def test_a_run_that_is_being_trained_is_not_resumed_by_another(tmp_path, monkeypatch, capsys):
    folder, found = RunFolder(tmp_path / "tiny"), []

    def resume():
        before = folder.metrics_path.read_bytes()
        found.append((main(["train", f"resume={folder.path}"]), before == folder.metrics_path.read_bytes()))

    at_iteration(monkeypatch, 2, resume)
    assert main(["train", *SHORT, f"root={tmp_path}", "name=tiny"]) == 0
    error = capsys.readouterr().err
    assert found == [(2, True)] and f"{folder.path} is being written by process {os.getpid()} on" in error
    assert "wait until it ends or stop it" in error
    assert main(["train", f"resume={folder.path}", "total_frames=256"]) == 0  # and the lock went with the run
    assert len(read_metrics(folder.path)) == 4


def test_a_killed_holder_leaves_no_lock_though_its_children_live(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(BlockingIOError, match=f"is being written by process {holder.pid} on"):
            WriterLock(tmp_path).take()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        os.kill(child, 0)  # is there
        with WriterLock(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        holder.kill()
        holder.stdout.close()


WITH_ROLLOUTS = [*TINY, "total_frames=384", "save_interval=1", "rollout_save_interval=2"]


def fail_at(monkeypatch, name, number):
    """The system has no place for files called `name`…"""
    plain = FileSystem.create

    def create(fs, path):
        if path.name.startswith(f".{name}"):
            raise OSError(number, os.strerror(number))
        return plain(path)

    monkeypatch.setattr(FileSystem, "create", create)


def test_a_batch_that_cannot_be_saved_is_named(tmp_path, monkeypatch, capsys):
    fail_at(monkeypatch, "rollout_000004", errno.ENOSPC)
    assert main(["train", *WITH_ROLLOUTS, f"root={tmp_path}", "name=tiny"]) == 2
    error = capsys.readouterr().err
    assert "/rollout_000004.slip: " in error and "The run is good up to iteration" in error and error.count("\n") == 1


def test_a_log_that_finds_no_space_is_explained(tmp_path, monkeypatch, capsys):
    plain = RunLog.write

    def write(log, iteration, *rest):
        if iteration == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        plain(log, iteration, *rest)

    monkeypatch.setattr(RunLog, "write", write)
    assert main(["train", *WITH_ROLLOUTS, f"root={tmp_path}", "name=tiny"]) == 2
    assert "The run is good up to iteration 3 (ckpt_000003.pt.slip). Free space, or" in capsys.readouterr().err


DEMO = ["preset=demo", "max_time_s=0", "env.num_envs=32", "algo.rollout_steps=8", "algo.minibatches=2", "algo.epochs=1",
         "total_frames=1536", "eval_interval=0", "threads=1", "quiet=true"]  # fmt: skip


def test_every_nth_batch_is_saved_and_nothing_else_changes(tmp_path):
    plain = train.run(load_train([*DEMO, f"root={tmp_path}", "name=plain"]))
    saved = train.run(
        load_train([*DEMO, f"root={tmp_path}", "name=saved", "rollout_save_interval=2", "rollout_keep=2"])
    )
    assert not (plain.path / "rollouts").exists()
    with RolloutStorage(saved.path / "rollouts") as storage:
        assert storage.iterations() == [4, 6]  # the last two of three
        batch = storage.load(6)
        assert batch.batch_size == (32, 8)
        assert torch.equal(batch["observation", "lidar"][:, 1:], batch["next", "observation", "lidar"][:, :-1])
        valid = int(sum(b["valid"].sum() for _, b in storage))
        assert sum(len(e["reward",]) for e in episodes(storage, [4, 6])) == valid
    assert [row["iteration"] for row in read_metrics(saved.path)] == list(range(1, 7))  # one convention
    assert checkpoints_of(saved.checkpoints)[0].name.startswith("ckpt_000006.pt")
    weights = [load_checkpoint(folder.checkpoints)["algo"]["policy"] for folder in (plain, saved)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
