"""What is chosen by measuring: `slipstream advise` and its questions, and sizes that are `auto`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from slipstream import train
from slipstream.cli import main
from slipstream.cli.advise import closing, table
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.monitor.advisor import Finding, Keep, Report
from slipstream.training import tuning
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer
from slipstream.training.tuning import TrainingTrial, choose_sizes, load_trial, training_questions

TINY = [
    *("env.num_envs=8", "env.num_obstacles=0", "env.dyn.num_obstacles=0", "algo.rollout_steps=4", "algo.minibatches=8"),
    *("algo.epochs=1", "model.encoder=dict", "model.part=8", "model.trunk=[8]", "device=cpu", "threads=1"),
]


def answer(key, now, device="cpu", league=None):
    trial = SimpleNamespace(device=torch.device(device), trainer=SimpleNamespace(controller=league))
    (question,) = [q for q in training_questions() if q.key == key]
    return question.propose(now, trial)


def test_what_is_tried_and_what_is_kept(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(tuning, "_cores", lambda: 2)
    assert answer("collect.pipeline", "off") == "on" and answer("env.num_envs", 512) == 1024
    assert "league" in answer("collect.pipeline", "off", league=SimpleNamespace(name="league"))
    assert answer("collect.pipeline", "on_policy") == Keep("it is on_policy")
    assert answer("algo.minibatches", 16) == 8
    assert all(isinstance(answer("algo.minibatches", now), Keep) for now in (4, 6, 9, None))
    assert "CPU" in answer("algo.bf16", False) and answer("algo.bf16", False, "cuda") is True
    assert answer("algo.bf16", True, "cuda") == Keep("it is on") and isinstance(answer("algo.bf16", None), Keep)
    monkeypatch.setattr(tuning, "_cores", lambda: 1)
    assert "one core" in answer("collect.pipeline", "off") and answer("collect.pipeline", "off", "cuda") == "on"


def test_the_command_has_the_advice_but_no_other_batches():
    findings = [
        Finding("collect.pipeline", "off", "on", "advised", "", 1.5, 1.4, 1.6, "older data"),
        Finding("env.num_envs", 8, 16, "advised", "", 1.5, 1.4, 1.6, "larger batches", only_shown=True),
        Finding("algo.bf16", False, True, "withdrawn", "", 0.8, 0.7, 0.9),
    ]
    report = Report(1000.0, findings)
    text = table(report, torch.device("cpu"))
    assert "withdrawn" in text and "1.50 × (1.40 …" in text
    assert closing(report, ["preset=demo"]).splitlines() == [
        "all together: 2.25 ×",
        "faster too, but judge it by what it learns: env.num_envs=16",
        "slipstream train preset=demo collect.pipeline=on",
    ]


def test_the_command_at_a_tiny_size(capsys):
    assert main(["advise", *TINY, "seconds=2"]) == 0
    shown = capsys.readouterr().out
    assert all(question.key in shown for question in training_questions())
    *_, last = shown.splitlines()
    assert last.startswith("slipstream train ") or last == "no advice: keep it as it is"


def test_a_training_logs_waits_memory_and_queues_as_perf(tmp_path):
    words = [*TINY, "total_frames=192", "eval_interval=0", "quiet=true", "wandb.mode=disabled", f"root={tmp_path}"]
    logged = {name: value for row in read_metrics(train.run(load_train(words)).path) for name, value in row.items()}
    names = ("collect", "collect_p99", "wait/collect", "frames_per_s", "rss_mb", "queue/checkpoint", "leaks")
    assert [name for name in names if f"perf/{name}" not in logged] == []
    assert 0 < logged["perf/wait/collect"] < 1 and logged["perf/rss_mb"] > 100 and logged["perf/leaks"] == 0


def form_on_a_gpu(config):
    gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    return Trainer.execution_mode(SimpleNamespace(cfg=config, learner=SimpleNamespace(supports_capture=True), env=gpu))


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
    tried = load_trial([*TINY, *length], {})
    assert form_on_a_gpu(load_train([*TINY, *length])) == form_on_a_gpu(tried) == form
    assert tried.quiet and tried.wandb.mode == "disabled"


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_trial_trains(algo):
    actions = ["env.actions=discrete", "algo.batch_size=16", "algo.updates=2"] if algo == "dqn" else []
    words = [word for word in TINY if algo == "ppo" or not word.startswith(("algo.minibatches", "algo.epochs"))]
    trial = TrainingTrial(load_trial([*words, f"algo={algo}", *actions], {"env.num_envs": 4}))
    assert trial.setting("env.num_envs") == 4 and trial.setting("algo.nothing") is None
    assert trial.run(0.0) > 0 and trial.trainer.frames == 32
    trial.close()


SMALL = ["env.num_obstacles=0", "env.dyn.num_obstacles=0", "algo.rollout_steps=8", "algo.minibatches=4", "device=cpu"]


class Trial:
    """A training whose iterations take 500 + the environments + 20 per minibatch."""

    opened: list = []
    free = 1e9

    def __init__(self, config):
        self.config, self.memory_mb = config, config.env.num_envs
        Trial.opened.append((config.env.num_envs, config.algo.minibatches, config.total_frames, config.max_time_s))

    def setting(self, key):
        return self.config.env.num_envs if key == "env.num_envs" else self.config.algo.minibatches

    def free_mb(self):
        return self.free

    def run(self, seconds):
        envs, cuts = self.config.env.num_envs, self.config.algo.minibatches
        return 1e6 * envs / (500 + envs + 20 * cuts)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    monkeypatch.setattr(Trial, "opened", [])
    return Trial.opened


def test_auto_becomes_numbers_and_each_is_logged_in_one_line():
    lines: list[str] = []
    config = load_train([*SMALL, "env.num_envs=auto", "algo.minibatches=auto"])
    assert sorted(config.auto) == ["algo.minibatches", "env.num_envs"]
    found = choose_sizes(config, lines.append, Trial)
    # 4,096 brings 1.13 x 2,048 and is the largest; 32 minibatches bring 1.12 x 64, 16 only 1.07 x 32
    assert found.auto == [] and found.env.num_envs == 4096 and found.algo.minibatches == 32
    assert lines[0].startswith("env.num_envs=4096: the largest size allowed (from 64 on, 128: 1.8")
    assert lines[1].startswith("algo.minibatches=32: 16 brings only 1.07 × the frames/s")
    assert all(envs * 8 % cuts == 0 for envs, cuts, *_ in Trial.opened)


def test_it_stops_before_memory_ends(monkeypatch, opened):
    lines: list[str] = []
    monkeypatch.setattr(Trial, "free", 600)
    assert choose_sizes(load_train([*SMALL, "env.num_envs=auto"]), lines.append, Trial).env.num_envs == 256
    assert max(opened)[0] == 256 and "env.num_envs=256: twice as much would not fit into 0.6 GB" in lines[0]


def test_sizes_hold_all_maps_and_divide_into_minibatches(opened):
    own = ["algo.rollout_steps=5", "algo.minibatches=12", "env.num_worlds=100", "env.num_envs=auto"]
    choose_sizes(load_train([*SMALL, *own]), lambda text: None, Trial)
    assert opened[0][:2] == (192, 12)


def test_the_last_word_counts():
    assert load_train([*SMALL, "env.num_envs=auto", "env.num_envs=16"]).auto == []
    assert load_train([*SMALL, "env.num_envs=16", "num_envs=auto"]).auto == ["env.num_envs"]


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(ConfigError, match="only env.num_envs"):
        choose_sizes(load_train([*SMALL, "auto=[algo.gamma]"]))
    with pytest.raises(ConfigError, match="no minibatches"):
        choose_sizes(load_train(["algo=dqn", "device=cpu", "auto=[algo.minibatches]"]))


def test_a_training_chooses_its_size_and_writes_it_down(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(tuning.LARGEST, "cpu", 8)
    monkeypatch.setitem(tuning.SMALLEST, "cpu", 4)
    monkeypatch.setattr(tuning, "RUN_S", 0.01)
    words = [*SMALL, "env.num_envs=auto", "total_frames=64", "eval_interval=0", "quiet=true", f"root={tmp_path}"]
    words += ["wandb.mode=disabled", "model.encoder=dict", "model.part=8", "model.trunk=[8]", "threads=1"]
    folder = train.run(load_train(words))
    assert folder.config()["auto"] == [] and folder.config()["env"]["num_envs"] in (4, 8)
    assert "env.num_envs=" in capsys.readouterr().out
