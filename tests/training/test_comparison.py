"""slipstream compare and several seeds from one command."""

from __future__ import annotations

import json
import select
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.distributed import multirun
from slipstream.distributed.multirun import expand
from slipstream.storage.files import WriterLock
from slipstream.training.comparison import describe, load_groups, spread
from slipstream.training.metrics_log import read_metrics
from slipstream.training.run_folder import RunFolder

TINY = shlex.split("""
    task=gym env.id=CartPole-v1 env.num_envs=4 algo.rollout_steps=8 algo.minibatches=1 algo.epochs=1 model.trunk=[8]
    total_frames=96 save_interval=1 eval_interval=0 device=cpu threads=1 quiet=true wandb.mode=disabled
""")


def make_run(root, name, seed, rate, values, metric="eval/success"):
    run = RunFolder.create(root, name, {"task": "navigation", "seed": seed, "algo": {"learning_rate": rate}})
    rows = [{"iteration": i + 1, "frames": 100 * (i + 1), "time_s": i, metric: v} for i, v in enumerate(values)]
    run.metrics_path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(run.path)


def test_compare_prints_means_paired_differences_and_settings(tmp_path, capsys):
    for seed, noise in enumerate((0.0, 0.1, 0.3)):  # the pairs differ by 0.2 each: no uncertainty is left
        make_run(tmp_path, f"a{seed}", seed, 0.1, [0, 0.4 + noise])
        make_run(tmp_path, f"b{seed}", seed, 0.2, [0, 0.6 + noise])
    assert main(["compare", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "0.5333 (0.4, 0.5, 0.7)" in shown and "+0.2 (+0.2, +0.2, +0.2)" in shown and "algo.learning_rate" in shown
    assert (tmp_path / "compare.png").stat().st_size > 10_000


def test_an_interval_of_a_rate_ends_at_0_and_1():
    assert describe([0.1875, 0.0], "eval/success") == "0.09375 (0.1875, 0)"  # no "0.09375 ± 1.2"
    assert describe([0.9, 1.0, 0.98, 1.0], "eval/success") == "0.97 [0.8943 … 1]"
    assert describe([0.5, -0.7, 0.6, 0.9], "eval/success", difference=True).endswith("… +1]")
    assert describe([90.0, 100.0, 98.0, 100.0], "eval/return") == "97 [89.43 … 104.6]"
    assert spread([0.0] * 9 + [0.01], "league/crank/won_share")[0] == 0 and describe([], "eval/success") == "–"
    assert describe([0.99999], "eval/success") == "0.999990"
    assert describe([1.0] * 4, "eval/success") == "1 (all 4 alike)"  # no "[1 … 1]": four runs are not certain
    assert spread([9.0, 10.0, 11.0, 10.0], "episode/success_steps")[1] > 11  # no rate, whatever its name


def test_compare_names_what_is_wrong(tmp_path, capsys):
    run = make_run(tmp_path, "a", 0, 0.1, [0.5])
    empty = tmp_path / "empty"
    empty.mkdir()
    out = tmp_path / "taken.png"
    out.touch()
    for words, said in (
        ([run, "--metric", "eval/sucess"], "no run has the metric 'eval/sucess'"),
        ([str(empty)], "holds no run"),
        ([run, "--out", str(out)], "exists already"),
        ([str(tmp_path / "missing")], "does not exist"),
        ([], "required"),
    ):
        assert main(["compare", *words]) == 2
        assert said in capsys.readouterr().err


def test_a_young_run_is_named(tmp_path):
    young = RunFolder.create(tmp_path, "young", {"task": "navigation"})
    with pytest.raises(ConfigError, match="has logged nothing yet"):
        load_groups([young.path])


def test_every_combination_is_a_run_of_its_own(tmp_path):
    words = ["seed=0,1", "model.trunk=[8,8],[16]", f"root={tmp_path}", "name=search"]
    names = [f"seed={seed}_model.trunk={trunk}" for seed in (0, 1) for trunk in ("-8-8-", "-16-")]
    assert [job.name for job in expand(words, every_key=True)] == names
    assert [job.name for job in expand(words, every_key=False)] == ["seed=0", "seed=1"]
    assert expand(["seed=3"], every_key=True) == []


def test_words_that_cannot_have_several_values_are_refused():
    with pytest.raises(ConfigError, match="name takes one value"):
        expand(["seed=0,1", "name=a,b"], every_key=True)
    with pytest.raises(ConfigError, match="seed=0,1,0 has a value twice"):
        expand(["seed=0,1,0"], every_key=True)
    with pytest.raises(ConfigError, match="resume= continues one run"):
        expand(["seed=0,1", "resume=runs/a"], every_key=True)
    with pytest.raises(ConfigError, match="names one W&B run"):
        expand(["seed=0,1", "wandb.run_id=abc"], every_key=False)


class HereStart:
    """Trains in this process."""

    def __init__(self, *settings):
        pass

    def __call__(self, job):
        self.returncode = main(["train", *job.words])
        return self

    def poll(self):
        return self.returncode


def test_seeds_are_trained_in_turn_compared_and_continued(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(multirun, "LocalStart", HereStart)
    words = ["train", *TINY, f"root={tmp_path}", "name=seeds", "seed=0,1"]
    assert main(words) == 0
    shown = capfd.readouterr().out
    assert "[1/2] seed=0" in shown and "final metrics" in shown and "episode/return" in shown
    assert (tmp_path / "seeds" / "compare.png").exists()
    assert {p.name for p in (tmp_path / "seeds").glob("[!.]*")} == {"compare.png", "seed=0", "seed=1"}
    assert main([*words, "total_frames=128"]) == 0  # a resumed run may become longer, also in a group
    assert [read_metrics(tmp_path / "seeds" / f"seed={n}")[-1]["frames"] for n in (0, 1)] == [128, 128]

    started = []
    monkeypatch.setattr(HereStart, "__call__", lambda self, job: started.append(job))
    capfd.readouterr()
    for word, before in (
        ("algo.learning_rate=2e-3", "algo.learning_rate=0.001"),
        ("model.trunk=[16]", "model.trunk=[8]"),
        ("env.kwargs.render_mode=rgb_array", "env.kwargs.render_mode=null"),
    ):
        assert main([*words, word]) == 2 and started == []
        printed = capfd.readouterr()
        assert f"cannot change ({tmp_path}/seeds/seed=0 has {before})" in printed.err and printed.out == ""
    with WriterLock(tmp_path / "seeds"):
        assert main(words) == 2 and started == []
    assert f"{tmp_path}/seeds is being written by process" in capfd.readouterr().err


def test_trainings_side_by_side_have_a_gpu_each(monkeypatch, tmp_path):
    running = [SimpleNamespace(poll=lambda: None) for _ in range(4)]
    started = []

    def popen(command, env, **more):
        started.append(env["CUDA_VISIBLE_DEVICES"])
        return running[len(started) - 1]

    monkeypatch.setattr(multirun, "find_gpus", lambda: ["3", "5"])
    monkeypatch.setattr(multirun.subprocess, "Popen", popen)
    start = multirun.LocalStart(3, load_train(["task=gym", "env.id=CartPole-v1"]))
    for _ in range(3):
        start(multirun.make_job(tmp_path, "a", []))
    running[1].poll = lambda: 0
    start(multirun.make_job(tmp_path, "a", []))
    assert started == ["3", "5", "3", "5"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_training_ends_with_the_process_that_started_it():
    child = "from slipstream.distributed.multirun import end_with_parent\nend_with_parent(); print('runs', flush=True); input()"
    starter = f"""
import os, subprocess, sys
env = os.environ | {{"SLIPSTREAM_PARENT": str(os.getpid())}}
subprocess.Popen([sys.executable, "-c", {child!r}], env=env).wait()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", starter], **pipes)
    assert process.stdout.readline() == "runs\n"
    process.kill()
    assert select.select([process.stdout], [], [], 60)[0] and process.stdout.read() == ""  # nobody holds the pipe
    process.wait()
    process.stdin.close(), process.stdout.close()


def test_a_failed_training_is_named_and_the_others_finish(tmp_path, capfd, monkeypatch):
    words = ["train", *TINY, f"root={tmp_path}", "name=some", "--multirun", "--jobs", "2"]
    assert main([*words, "env.id=CartPole-v1,NoSuchEnv-v0"]) == 2
    printed = capfd.readouterr()
    assert "1 of 2 trainings failed (env.id=NoSuchEnv-v0)" in printed.err and "env.id=CartPole-v1: done" in printed.out
    assert "NoSuchEnv" in (tmp_path / "some" / "env.id=NoSuchEnv-v0.log").read_text()


@pytest.mark.parametrize(
    "row",
    [
        b'{"eval/success": 1}',
        b'{"frames": 1, "eval/success": "x"}',
        b'{"frames": [1], "eval/success": {}}',
        b'{"frames": 1, "eval/success": 1' + b"0" * 400 + b"}",
        b'{"frames": 1, "eval/success": 1e999}',
    ],
)
def test_a_log_of_other_things_is_one_sentence(tmp_path, capsys, row):
    path = make_run(tmp_path, "a", 0, 0.1, [0.5])
    with open(f"{path}/metrics.jsonl", "ab") as log:
        log.write(row + b"\n" + row + b"\n")
    main(["compare", path])
    assert "Error" not in capsys.readouterr().err


def test_the_default_figure_follows_no_link(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "runs" / "compare.png").symlink_to(tmp_path / "precious")
    assert main(["compare", make_run(tmp_path / "runs", "a", 0, 0.1, [0.5])]) == 2
    assert (tmp_path / "precious").read_text() == "precious" and "symbolic link" in capsys.readouterr().err
