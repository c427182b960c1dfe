"""A training that cannot save stops with one sentence: what failed, what is good, how to go on."""

from __future__ import annotations

import errno
import os
import re
import shlex

import pytest
from tiny_runs import state_of

from slipstream.checkpoint.load import checkpoints_of
from slipstream.cli import main
from slipstream.storage.files import FileSystem
from slipstream.training.metrics_log import RunLog, read_metrics
from slipstream.training.run_folder import RunFolder

# 24 iterations of 64 frames
TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    algo.rollout_steps=8 algo.minibatches=4 algo.epochs=1 model.encoder=dict model.part=8 model.trunk=[16]
    total_frames=1536 save_interval=1 rollout_save_interval=2 eval_interval=0 device=cpu threads=1 quiet=true wandb.mode=disabled
""")


def fail_at(monkeypatch, name, number):
    """The system has no place for files called `name`…"""
    plain = FileSystem.create

    def create(fs, path):
        if path.name.startswith(f".{name}"):
            raise OSError(number, os.strerror(number))
        return plain(fs, path)

    monkeypatch.setattr(FileSystem, "create", create)


@pytest.mark.parametrize(
    ("name", "number"),
    [("rollout_000004", errno.ENOSPC), ("rollout_000024", errno.EDQUOT), ("ckpt_000004", errno.EACCES)],
)
def test_it_stops_and_says_what_is_good_and_resumes(tmp_path, monkeypatch, capsys, name, number):
    with monkeypatch.context() as patch:
        fail_at(patch, name, number)
        assert main(["train", *TINY, f"root={tmp_path}", "name=tiny"]) == 2
    error = capsys.readouterr().err
    folder = RunFolder.open(tmp_path / "tiny")
    newest = checkpoints_of(folder.checkpoints)[0].name
    good = int(newest.removeprefix("ckpt_").removesuffix(".pt.slip"))
    file = f"{name}.{'pt.slip' if name.startswith('ckpt') else 'slip'}"
    assert error.count("\n") == 1 and re.search(f"failed at [^ ]*/{re.escape(file)}: ", error)
    assert f"The run is good up to iteration {good} ({newest}). Free space, or repair the cause, then: " in error
    assert error.endswith(f"slipstream train resume={folder.path}\n")
    assert 3 <= good < 24 or name == "rollout_000024"  # at most 4 saves come before an error is raised
    assert main(["train", f"resume={folder.path}"]) == 0
    assert state_of(folder)["iteration"] == 24 and len(read_metrics(folder.path)) == 24


def test_a_run_without_a_checkpoint_says_so(tmp_path, monkeypatch, capsys):
    fail_at(monkeypatch, "ckpt_", errno.ENOSPC)
    assert main(["train", *TINY, f"root={tmp_path}", "name=tiny"]) == 2
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
    assert main(["train", *TINY, f"root={tmp_path}", "name=tiny"]) == 2
    assert "The run is good up to iteration 3 (ckpt_000003.pt.slip). Free space, or" in capsys.readouterr().err
