"""Tiny trainings, whole: what they leave behind, and that a run which was stopped is the run that never was."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from tiny_runs import TINY, at_iteration, differences, rows_of, run_words, state_of

from slipstream import train
from slipstream.algorithms.policy_file import load_policy
from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.registry import find_task
from slipstream.monitor import PerformanceMonitor
from slipstream.training.metrics_log import read_metrics
from slipstream.training.outputs import draw_learning, summary
from slipstream.training.run_folder import RunFolder
from slipstream.training.trainer import Trainer
from slipstream.ui import tables

RELEASED = Path(__file__).parents[2] / ".." / "shared" / "data" / "navrl_checkpoint.pt"

# 8 iterations; those after 3 and 6 and the last are evaluated
WORDS = [*TINY, "env.disturbance.wind_mps2=0.2", "algo.epochs=2", "algo.schedule=adaptive", "total_frames=512"]
WORDS += ["save_interval=2", "eval_interval=3"]


def run_tiny(root, name, *words):
    return run_words(root, name, *WORDS, *words)


def resume(folder, *words):
    return train.run(load_train([f"resume={folder.path}", *words]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing disturbed."""
    return run_tiny(tmp_path_factory.mktemp("whole"), "whole")


# -- what a run leaves -------------------------------------------------------------------------------------------------


def test_a_run_leaves_its_files_and_a_row_an_iteration(whole):
    files = "config.yaml git.json metrics.jsonl tensorboard checkpoints best.pt"
    assert set(files.split()) <= {path.name for path in whole.path.iterdir()}
    rows = read_metrics(whole.path)
    assert [(row["iteration"], row["frames"]) for row in rows] == [(i, 64 * i) for i in range(1, 9)]
    wanted = {"loss/policy", "loss/value", "loss/entropy", "kl", "lr", "fps", "time_s", "episode/count"}
    assert all(wanted | {"perf/collect", "perf/learn"} <= set(row) for row in rows)
    assert {f"episode/{name}" for name in ("return", "length", "success", "collision", "timeout")} <= set(rows[-1])
    assert ["eval/success" in row for row in rows] == [row["iteration"] in (3, 6, 8) for row in rows]


def test_a_run_of_some_length_leaves_its_curves(whole, tmp_path, capsys):
    draw_learning(find_task("navigation"), whole)
    assert "learning.png is drawn from 10 iterations on, this run has 8" in capsys.readouterr().out
    longer = run_tiny(tmp_path, "longer", "total_frames=1536")
    assert [(run.path / "learning.png").exists() for run in (whole, longer)] == [False, True]


def test_the_best_policy_is_complete(whole):
    loaded = load_policy(whole.path)
    assert loaded.path.name == "best.pt" and loaded.trained_env["num_envs"] == 8
    assert set(loaded.state["policy"]) == set(state_of(whole)["algo"]["policy"])


def test_plain_checkpoints_and_no_more_than_asked_for(tmp_path):
    folder = run_tiny(
        tmp_path, "few", "compress_checkpoint=False", "keep_checkpoints=2", "eval_interval=0", "save_interval=1"
    )
    names = sorted(path.name for path in folder.checkpoints.iterdir())
    assert names == ["ckpt_000007.pt", "ckpt_000008.pt", "latest.pt"]
    assert not (folder.path / "best.pt").exists()
    torch.load(folder.checkpoints / "ckpt_000008.pt", weights_only=True)  # any torch can read it


def test_the_best_is_the_first_to_beat_all_before():
    job = Trainer(load_train(WORDS))
    scores = [0.2, 0.2, 0.5, 0.4, 0.6]
    best, not_best = ["best"], []
    tags = [job.checkpoint_tags({"eval/success": score}) for score in scores]
    assert tags == [best, not_best, best, not_best, best]
    assert job.checkpoint_tags({"loss/policy": 1.0}) == job.checkpoint_tags({"eval/success": math.nan}) == []
    other = Trainer(load_train(WORDS))
    assert [other.checkpoint_tags({"eval/return": x}) for x in (-9.0, -12.0, -3.0)] == [best, not_best, best]


def test_the_summary_reads_as_the_documents_have_it():
    monitor = PerformanceMonitor()
    with monitor.timer("learn"):
        pass
    with AsyncCheckpointSaver() as saver:
        text = summary(monitor, saver)
        later = summary(monitor, saver, resumed_at=100)
    assert "=== Performance Summary ===" in text and "learn" in text
    assert "[Checkpoint Stats]\n  Total saved: 0\n  Compression ratio: 1.00x\n  Queue size: 0" in text
    assert "Total saved: 0 since the resume after 100 iterations\n" in later


def test_summaries_come_as_often_as_asked_and_never_in_the_demo(tmp_path, capsys):
    assert load_train(["preset=demo"]).summary_interval == 0
    for interval, count in ((0, 0), (2, 1)):
        run_tiny(tmp_path, f"every{interval}", "quiet=false", "total_frames=192", f"summary_interval={interval}")
        assert capsys.readouterr().out.count("=== Performance Summary ===") == count  # of 3 iterations


# -- same seed, same run -----------------------------------------------------------------------------------------------


def test_how_often_it_evaluates_does_not_change_what_it_learns(whole, tmp_path):
    blind = run_tiny(tmp_path, "blind", "eval_interval=0")
    assert differences(state_of(whole), state_of(blind)) == [".best"]


def test_another_seed_is_another_policy_and_another_env():
    one, two = (Trainer(load_train([*WORDS, f"seed={seed}"])) for seed in (0, 1))
    assert differences(one.policy.state_dict(), two.policy.state_dict())
    assert differences(one.env.state_dict(), two.env.state_dict())


def test_a_stopped_and_resumed_run_equals_an_undisturbed_one(whole, tmp_path, monkeypatch):
    iteration = 4
    at_iteration(monkeypatch, iteration, lambda: os.kill(os.getpid(), signal.SIGTERM))
    folder = run_tiny(tmp_path, "stopped")
    assert state_of(folder)["iteration"] == iteration + 1 and len(read_metrics(folder.path)) == iteration + 1
    assert "eval/success" not in read_metrics(folder.path)[iteration]  # who stops it is not kept waiting
    assert resume(folder).path == folder.path
    assert differences(state_of(whole), state_of(folder)) == []
    assert rows_of(whole) == rows_of(folder)
    best, theirs = (load_checkpoint(f.path / "best.pt") for f in (whole, folder))
    assert differences(best, theirs) == []


def test_a_finished_run_continues_with_more_frames(tmp_path):
    folder = run_tiny(tmp_path, "more", "total_frames=128", "eval_interval=0")
    resume(folder)  # nothing left to do
    assert len(read_metrics(folder.path)) == 2
    resume(folder, "total_frames=256")
    assert len(read_metrics(folder.path)) == 4
    assert state_of(folder)["config"]["total_frames"] == 256
    resume(folder, "total_frames=320")  # and again: the last checkpoint's word holds
    assert len(read_metrics(folder.path)) == 5


# -- what resume refuses -----------------------------------------------------------------------------------------------


def test_what_a_resumed_run_cannot_change_is_refused_by_name(whole):
    with pytest.raises(ConfigError, match=r"env\.num_envs, algo\.gamma cannot change.*init="):
        resume(whole, "env.num_envs=16", "algo.gamma=0.9")
    with pytest.raises(ConfigError, match=r"algo\.epochs cannot change"):
        resume(whole, "algo.epochs=4")  # the default, but not this run's
    with pytest.raises(
        ConfigError,
        match=r"model\.trunk cannot change .*: start a new run with slipstream train config=\S+ 'model.trunk=\[9\]'$",
    ):
        resume(whole, "model.trunk=[9]")  # weights of another shape: init= would refuse them
    with pytest.raises(ConfigError, match=r"keeps its task=navigation"):
        resume(whole, "task=tests_have_none:Env")
    with pytest.raises(ConfigError, match=r"seed cannot change"):
        resume(whole, "seed=5")


# -- warm starts -------------------------------------------------------------------------------------------------------


def test_init_starts_from_the_best_policy_of_a_run(whole):
    job = Trainer(load_train([*WORDS, f"init={whole.path}", "env.num_envs=4", "env.num_obstacles=0"]))
    assert differences(load_checkpoint(whole.path / "best.pt")["policy"], job.policy.state_dict()) == []
    assert job.init_message == f"init: {whole.path / 'best.pt'}"


def test_a_run_begun_with_init_resumes_without_that_file(whole, tmp_path):
    start = tmp_path / "start.pt"
    start.write_bytes((whole.path / "best.pt").read_bytes())
    folder = run_tiny(tmp_path, "warm", f"init={start}", "total_frames=128", "eval_interval=0")
    assert folder.config()["init"] == str(start)
    start.unlink()
    resume(folder, "total_frames=192")
    assert len(read_metrics(folder.path)) == 3


@pytest.mark.skipif(not RELEASED.exists(), reason="NavRL's released weights are not here")
def test_init_takes_navrls_released_weights_and_learns_on(tmp_path):
    words = [
        *(word for word in WORDS if not word.startswith("model.")),
        f"init={RELEASED}",
    ]  # which has NavRL's network
    job = Trainer(load_train(words))
    released = torch.load(RELEASED, map_location="cpu", weights_only=True)
    assert torch.equal(job.policy.critic.weight, released["critic.module.weight"])
    assert torch.equal(job.policy.value_norm.running_mean, released["value_norm.running_mean"].squeeze())
    folder = train.run(load_train([*words, f"root={tmp_path}", "total_frames=64", "eval_interval=0"]))
    learned = state_of(folder)["algo"]["policy"]["critic.weight"]
    assert not torch.equal(learned, released["critic.module.weight"])


GYM = ["task=gym", "env.id=CartPole-v1", "device=cpu", "threads=1"]
NO_INIT = {
    r"another network than model\.\* describes.*model\.trunk=\[16\]": [*WORDS, "model.trunk=[32,16]"],
    r"other observations or actions .*: set env\.actions=continuous as in its training\.$": [
        *WORDS,
        "env.actions=discrete",
        "env.goals=opposite",
    ],
    r"set env\.lidar\.azimuths=36 as in its training\.$": [*WORDS, "env.lidar.azimuths=18", "env.dynamics=quadrotor"],
    r"set task=navigation as in its training\.$": GYM,
}


@pytest.mark.parametrize(("message", "words"), NO_INIT.items())
def test_init_of_something_else_is_refused_with_the_remedy(whole, words, message):
    with pytest.raises(ValueError, match=message):
        Trainer(load_train([*words, f"init={whole.path}"]))


def test_init_prints_settings_that_fit_and_mean_something_else(whole):
    job = Trainer(load_train([*WORDS, f"init={whole.path}", "env.max_speed_mps=3"]))
    assert job.init_message.endswith("best.pt, trained with env.max_speed_mps=2.0")


# -- numbers that are none ---------------------------------------------------------------------------------------------


def spoilt(whole, path, *names):
    state = load_checkpoint(whole.path / "best.pt")
    for name in names:
        state["policy"][name].fill_(float("nan"))
    torch.save(state, path)
    return path


def test_a_critic_that_gives_nan_stops_before_a_checkpoint(whole, tmp_path, capsys):
    file = spoilt(whole, tmp_path / "nan.pt", "critic.bias")
    assert main(["train", *WORDS, f"root={tmp_path}", "name=nan", f"init={file}"]) == 2
    error = capsys.readouterr().err
    assert "loss/value" in error and "algo.learning_rate" in error and error.count("\n") == 1
    assert not (tmp_path / "nan").exists()  # nothing was learned: no folder is left behind


# -- time --------------------------------------------------------------------------------------------------------------


def test_the_time_a_run_has_used_is_kept_for_its_resume(tmp_path, capsys):
    first = run_tiny(tmp_path, "timed", "max_time_s=1e-6", "algo.schedule=linear")
    assert state_of(first)["iteration"] == 1 and state_of(first)["trained_s"] > 0
    resume(first)  # the limit was reached
    assert state_of(first)["iteration"] == 1
    used = state_of(first)["trained_s"]
    resume(
        first, f"max_time_s={used * 1.0001 + 1e-6}"
    )  # nothing but a moment is left: it is at the end of the schedule
    assert state_of(first)["iteration"] == 2 and read_metrics(first.path)[-1]["lr"] < 1e-5
    assert "performance" not in capsys.readouterr().out.lower()  # quiet=true is quiet


def test_a_single_checkpoint_cannot_be_resumed(whole):
    file = next(whole.checkpoints.glob("ckpt_000004*"))
    with pytest.raises(ConfigError, match="init="):
        load_train([f"resume={file}"])


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_run_waits_for_a_slow_disk(tmp_path, capsys, monkeypatch):
    write = AsyncCheckpointSaver._write
    monkeypatch.setattr(AsyncCheckpointSaver, "_write", lambda *args: (time.sleep(0.3), write(*args)))
    monkeypatch.setattr(AsyncCheckpointSaver.shutdown, "__defaults__", (0.01,))
    monkeypatch.setattr(tables, "FIRST_LINE_S", 0.0)
    monkeypatch.setattr(tables, "POLL_S", 0.1)
    folder = run_tiny(tmp_path, "slow", "total_frames=128", "eval_interval=0")
    assert state_of(folder)["iteration"] == 2
    assert "still saving (Ctrl-C twice exits without saving)" in capsys.readouterr().err


def test_a_trainer_is_closed_if_the_run_fails_at_once(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(Trainer, "close", lambda self: closed.append(True))
    monkeypatch.setattr(RunFolder, "create", classmethod(lambda *args: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        run_tiny(tmp_path, "failed")
    assert closed == [True]
