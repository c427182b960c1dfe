"""slipstream advise: its questions over hand-made situations, and the command at a tiny size."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from slipstream.cli import main
from slipstream.cli.advise import apply_text, closing, table
from slipstream.config.compose import load_train
from slipstream.monitor.advisor import Finding, Keep, Report, Situation
from slipstream.training import tuning
from slipstream.training.trainer import Trainer
from slipstream.training.tuning import TRIAL_SETTINGS, TrainingProbe, training_questions

TINY = [
    *("env.num_envs=8", "env.num_obstacles=0", "env.dyn.num_obstacles=0", "algo.rollout_steps=4", "algo.minibatches=8"),
    *("algo.epochs=1", "model.encoder=dict", "model.part=8", "model.trunk=[8]", "device=cpu", "threads=1"),
]
SETTINGS = {
    "collect.pipeline": "off",
    "env.num_envs": 512,
    "algo.minibatches": 16,
    "algo.name": "ppo",
    "algo.bf16": False,
    "compile": "auto",
    "threads": 0,
}


def situation(mode="plain", capture=True, controller=None, device="cpu", **changed):
    learner = SimpleNamespace(supports_capture=capture)
    env = SimpleNamespace(device=torch.device(device))
    trainer = SimpleNamespace(controller=controller, learner=learner, env=env, execution_mode=lambda: mode)
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changed.items()}
    return Situation(settings.get, {}, SimpleNamespace(trainer=trainer))


def answer(key, s):
    (question,) = [q for q in training_questions() if q.key == key]
    return question.propose(s)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(tuning, "_cores", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)


def test_collecting_ahead_is_tried_where_it_can_be(monkeypatch):
    assert answer("collect.pipeline", situation()) == "on"
    assert "league" in answer("collect.pipeline", situation(controller=SimpleNamespace(name="league")))
    assert answer("collect.pipeline", situation(collect__pipeline="on_policy")) == Keep("it is on_policy")
    monkeypatch.setattr(tuning, "_cores", lambda: 1)
    assert "one core" in answer("collect.pipeline", situation())
    assert answer("collect.pipeline", situation(device="cuda")) == "on"


def test_environments_are_doubled_and_minibatches_halved_to_four():
    assert answer("env.num_envs", situation()) == 1024
    assert answer("algo.minibatches", situation()) == 8
    for few in (4, 6, 9):
        assert isinstance(answer("algo.minibatches", situation(algo__minibatches=few)), Keep)
    assert "no minibatches" in answer("algo.minibatches", situation(algo__minibatches=None))


def test_threads_are_halved_or_raised_to_the_cores():
    assert answer("threads", situation(threads=2)) == 1
    assert answer("threads", situation(threads=1)) == 2
    assert isinstance(answer("threads", situation(device="cuda")), Keep)


def test_bf16_and_compiling_are_for_gpus():
    assert "CPU" in answer("algo.bf16", situation()) and "CPU" in answer("compile", situation())
    assert answer("algo.bf16", situation(device="cuda")) is True
    assert answer("algo.bf16", situation(device="cuda", algo__bf16=True)) == Keep("it is on")
    assert answer("compile", situation("graphs", device="cuda")) == "on"
    assert "auto compiles" in answer("compile", situation("compiled", device="cuda"))
    assert "algo=sac cannot be compiled" in answer("compile", situation(capture=False, algo__name="sac"))


def advice():
    return [
        Finding("collect.pipeline", "off", "on", "advised", "", 1.5, 1.4, 1.6, "older data"),
        Finding("env.num_envs", 8, 16, "advised", "", 1.5, 1.4, 1.6, "larger batches", only_shown=True),
        Finding("threads", 0, 1, "withdrawn", "", 0.8, 0.7, 0.9),
    ]


def test_train_reads_the_file_of_apply_and_skips_batches(tmp_path):
    report = Report(1000.0, {"collect": 0.4}, "the learning itself", advice(), 2.2)
    file = tmp_path / "advice.yaml"
    file.write_text(apply_text(report, TINY))
    config = load_train([*TINY, f"config={file}"])
    assert config.collect.pipeline == "on" and config.env.num_envs == 8
    assert "# env.num_envs: 16" in file.read_text()
    assert (
        load_train([*TINY, f"config={file}", "collect.pipeline=off"]).collect.pipeline == "off"
    )  # the last word counts
    text = table(report, torch.device("cpu"))
    assert "withdrawn" in text and "1.50 × (1.40 …" in text
    assert "collect.pipeline=on env.num_envs=16" in closing(report) and "together 2.20 ×" in closing(report)


def test_the_command_at_a_tiny_size(tmp_path, capsys):
    file = tmp_path / "advice.yaml"
    assert main(["advise", *TINY, "seconds=2", "--json", "--apply", str(file)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [finding["key"] for finding in report["findings"]] == [question.key for question in training_questions()]
    assert {finding["verdict"] for finding in report["findings"]} <= {"advised", "withdrawn", "not tried", "keep"}
    assert report["rate"] > 0 and "collect" in report["exposed"] and "overrides" in report
    load_train([*TINY, f"config={file}"])


def test_only_the_keys_that_are_asked_about(capsys):
    assert main(["advise", *TINY, "seconds=2", "only=compile,algo.bf16", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {finding["key"] for finding in report["findings"]} == {"compile", "algo.bf16"}


def test_without_advice_it_says_whether_anything_was_tried():
    keep, late = Finding("a", 1, 1, "keep"), Finding("b", 1, 2, "not tried")
    lost = Finding("c", 1, 2, "withdrawn", "", 0.9, 0.8, 0.95)
    said = [closing(Report(1.0, {}, "", findings)) for findings in ([keep], [keep, late], [lost], [lost, late])]
    assert said == [
        "nothing was tried: keep it as it is",
        "nothing was tried: keep it as it is; no time was left for b: give a larger seconds=",
        "no change made it faster: keep it as it is",
        "no change made it faster: keep it as it is; no time was left for b: give a larger seconds=",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seconds=soon"], "seconds=60"),
        (["seconds=nan"], "seconds=60"),
        (["--apply"], "apply needs a value"),
        (["resume=x"], "not resume=RUN"),
        (["env.num_env=3"], "did you mean 'env.num_envs'?"),
        (["only=collect.pipeline,lr"], "nothing is asked about 'lr': use some of algo.bf16, algo.minibatches, "),
        (["secnds=3"], "unknown key 'secnds' (--help lists all keys)"),
    ],
)
def test_mistakes_are_named_in_one_line(capsys, words, told):
    assert main(["advise", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("slipstream advise: ") and told in error and error.count("\n") == 1


def test_a_training_logs_waits_memory_and_queues_as_perf(tmp_path):
    from slipstream import train
    from slipstream.training.metrics_log import read_metrics

    words = [*TINY, "total_frames=192", "eval_interval=0", "quiet=true", "wandb.mode=disabled", f"root={tmp_path}"]
    told = {name: value for row in read_metrics(train.run(load_train(words)).path) for name, value in row.items()}
    names = ("collect", "collect_p99", "wait/collect", "frames_per_s", "rss_mb", "queue/checkpoint", "leaks")
    assert [name for name in names if f"perf/{name}" not in told] == []
    assert 0 < told["perf/wait/collect"] < 1 and told["perf/rss_mb"] > 100 and told["perf/leaks"] == 0


def form_on_a_gpu(config):
    return Trainer.execution_mode(
        SimpleNamespace(
            cfg=config,
            learner=SimpleNamespace(supports_capture=True),
            env=SimpleNamespace(device=SimpleNamespace(type="cuda")),
        )
    )


@pytest.mark.parametrize(
    ("length", "form"),
    [
        ([], "compiled"),
        (["total_frames=1_000_000"], "graphs"),
        (["max_time_s=119"], "graphs"),
        (["max_time_s=120"], "compiled"),
    ],
)
def test_a_trial_has_the_form_of_the_users_own_run(length, form):
    probe = TrainingProbe([*TINY, *length])
    tried = probe.load(TRIAL_SETTINGS)
    assert form_on_a_gpu(probe.config) == form_on_a_gpu(tried) == form
    assert tried.quiet and tried.wandb.mode == "disabled"


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_trial_trains_and_measures_what_the_learner_waits_for(algo):
    actions = ["env.actions=discrete", "algo.batch_size=16", "algo.updates=2"] if algo == "dqn" else []
    words = [word for word in TINY if algo == "ppo" or not word.startswith(("algo.minibatches", "algo.epochs"))]
    probe = TrainingProbe([*words, f"algo={algo}", *actions])
    trial = probe.open({})
    try:
        sample = trial.run(0.0)
        assert sample.frames == 32 and 0 < sample.exposed["collect"] < 1
        assert sum(sample.exposed.values()) < 1
    finally:
        trial.close()
        probe.close()
