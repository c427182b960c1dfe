"""A training that cannot save stops with one sentence: what failed, what is good, how to go on."""

from __future__ import annotations

import errno
import os

from tiny_runs import TINY

from slipstream.cli import main
from slipstream.storage.files import FileSystem
from slipstream.training.metrics_log import RunLog

WORDS = [*TINY, "total_frames=384", "save_interval=1", "rollout_save_interval=2"]


def fail_at(monkeypatch, name, number):
    """The system has no place for files called `name`…"""
    plain = FileSystem.create

    def create(fs, path):
        if path.name.startswith(f".{name}"):
            raise OSError(number, os.strerror(number))
        return plain(fs, path)

    monkeypatch.setattr(FileSystem, "create", create)


def test_a_batch_that_cannot_be_saved_is_named(tmp_path, monkeypatch, capsys):
    fail_at(monkeypatch, "rollout_000004", errno.ENOSPC)
    assert main(["train", *WORDS, f"root={tmp_path}", "name=tiny"]) == 2
    error = capsys.readouterr().err
    assert "/rollout_000004.slip: " in error and "The run is good up to iteration" in error and error.count("\n") == 1


def test_a_run_without_a_checkpoint_says_so(tmp_path, monkeypatch, capsys):
    fail_at(monkeypatch, "ckpt_", errno.ENOSPC)
    assert main(["train", *WORDS, f"root={tmp_path}", "name=tiny"]) == 2
    assert (
        "There is no checkpoint to continue from. Free space, or repair the cause, then start again"
        in capsys.readouterr().err
    )


def test_a_log_that_finds_no_space_is_explained(tmp_path, monkeypatch, capsys):
    plain = RunLog.write

    def write(log, iteration, *rest):
        if iteration == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        plain(log, iteration, *rest)

    monkeypatch.setattr(RunLog, "write", write)
    assert main(["train", *WORDS, f"root={tmp_path}", "name=tiny"]) == 2
    assert "The run is good up to iteration 3 (ckpt_000003.pt.slip). Free space, or" in capsys.readouterr().err
