"""One training at a time writes a run folder; the lock goes with the process that holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tiny_runs import TINY, at_iteration

from slipstream.cli import main
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


def test_a_run_that_is_being_trained_is_not_resumed_by_another(tmp_path, monkeypatch, capsys):
    folder, found = RunFolder(tmp_path / "tiny"), []

    def resume():
        before = folder.metrics_path.read_bytes()
        found.append((main(["train", f"resume={folder.path}"]), before == folder.metrics_path.read_bytes()))

    at_iteration(monkeypatch, 2, resume)
    assert main(["train", *WORDS, f"root={tmp_path}", "name=tiny"]) == 0
    error = capsys.readouterr().err
    assert found == [(2, True)] and f"{folder.path} is being written by process {os.getpid()} on" in error
    assert "wait until it ends or stop it" in error
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
