"""One training at a time writes a run folder; the lock goes with the process that holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tiny_runs import TINY

from slipstream import Trainer, train
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.storage.files import WriterLock
from slipstream.training.metrics_log import read_metrics
from slipstream.training.run_folder import RunFolder

WORDS = [*TINY, "total_frames=192", "save_interval=1"]
HOLDER = """
import os, sys, time
from pathlib import Path
from slipstream.storage.files import WriterLock
with WriterLock(Path(sys.argv[1])):
    if not os.fork():  # as workers are; it outlives its parent
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_that_is_being_trained_is_not_resumed_by_another(tmp_path, monkeypatch, capsys, resumed):
    plain, answers, log = Trainer.progress, [], []

    def progress(job, it, clock):
        if it == 2 and not answers:
            log.append((tmp_path / "tiny" / "metrics.jsonl").read_bytes())
            answers.append(main(["train", f"resume={tmp_path / 'tiny'}"]))
            log.append((tmp_path / "tiny" / "metrics.jsonl").read_bytes())
        return plain(job, it, clock)

    if resumed:
        train.run(load_train([*WORDS, f"root={tmp_path}", "name=tiny", "total_frames=128"]))
    monkeypatch.setattr(Trainer, "progress", progress)
    words = (
        [f"resume={tmp_path / 'tiny'}", "total_frames=192"] if resumed else [*WORDS, f"root={tmp_path}", "name=tiny"]
    )
    folder = train.run(load_train(words))
    assert answers == [2] and log[0] == log[1]
    *progress, error = capsys.readouterr().err.splitlines()
    assert f"{folder.path} is being written by process {os.getpid()} on" in error
    assert "wait until it ends or stop it" in error
    assert all(line.startswith("building the env: ") for line in progress)  # on a busy machine
    assert len(read_metrics(folder.path)) == 3
    assert main(["train", f"resume={folder.path}", "total_frames=256"]) == 0  # and the lock went with the run
    assert len(read_metrics(folder.path)) == 4


def test_a_run_that_has_not_saved_yet_is_named_as_running(tmp_path, capsys):
    folder = RunFolder.create(tmp_path, "young", {"task": "navigation"})
    with WriterLock(folder.path):
        assert main(["train", f"resume={folder.path}"]) == 2
    assert f"{folder.path} is being written by process {os.getpid()} on" in capsys.readouterr().err


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
