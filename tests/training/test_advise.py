"""slipstream advise: its questions over hand-made situations, and the whole command at a tiny size."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from slipstream.cli import main
from slipstream.cli.advise import apply_text, closing, table
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.monitor import Advisor
from slipstream.monitor.advisor import Finding, Gain, Proposal, Report, Sample, Situation
from slipstream.training.advice import training_questions
from slipstream.training.trainer import Trainer
from slipstream.training.tuning import TRIAL_SETTINGS, SaveCost, TrainingProbe

TINY = [
    *("env.num_envs=8", "env.num_obstacles=0", "env.dyn.num_obstacles=0", "algo.rollout_steps=4", "algo.minibatches=8"),
    *("algo.epochs=1", "model.encoder=dict", "model.part=8", "model.trunk=[8]", "device=cpu", "threads=1"),
]

CPU = {"device": "cpu", "cores": 2, "threads": 2, "free_mb": 8000.0, "all_mb": 16000.0, "bf16": False}
GPU = {"device": "cuda", "cores": 8, "threads": 8, "free_mb": 20000.0, "all_mb": 24000.0, "bf16": True}
SETTINGS = {
    "collect.pipeline": "off",
    "env.num_envs": 512,
    "algo.minibatches": 16,
    "algo.name": "ppo",
    "algo.bf16": False,
    "compile": "auto",
    "threads": 0,
    "save_interval": 100,
    "save_minutes": 0.0,
}


def trial_of(mode="plain", capture=True, controller=None, cost=None):
    learner = SimpleNamespace(supports_capture=capture)
    trainer = SimpleNamespace(controller=controller, learner=learner, execution_mode=lambda: mode)
    return SimpleNamespace(trainer=trainer, save_cost=lambda: cost)


def situation(exposed, facts=CPU, iteration_s=0.1, trial=None, **changed):
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changed.items()}
    return Situation(exposed, settings.get, facts, iteration_s, trial or trial_of())


def answer(text, s):
    (question,) = [q for q in training_questions() if q.text == text]
    return question.propose(s)


def test_two_that_run_side_by_side_take_as_long_as_the_longer():
    assert answer("collect beside the learning?", situation({"collect": 0.4})).gain == pytest.approx(1 / 0.6)
    assert answer("collect beside the learning?", situation({"collect": 0.8})).gain == pytest.approx(1 / 0.8)


class SharedGPU:
    """A captured training of a GPU: `gains` says by what factor each `collect.pipeline` changes its frames/s. Time is
    only counted."""

    def __init__(self, gains, set_up_s=2.0):
        self.gains, self.set_up_s, self.now_s, self.opened = gains, set_up_s, 0.0, []

    def clock(self):
        return self.now_s

    def facts(self):
        return GPU

    def setting(self, key):
        return SETTINGS.get(key)

    def open(self, overrides):
        self.now_s += self.set_up_s
        mode = overrides.get("collect.pipeline", "off")
        self.opened.append(mode)
        return SharedGPURun(self, self.gains[mode])


class SharedGPURun:
    def __init__(self, machine, gain):
        self.machine, self.gain, self.trainer = machine, gain, trial_of("graphs").trainer

    def run(self, seconds):
        self.machine.now_s += seconds
        return Sample(415_364 * self.gain * seconds, seconds, {"collect": 0.12, "read back": 0.03}, 10)

    def close(self):
        pass


def asked_of(machine):
    questions = [question for question in training_questions() if question.key == "collect.pipeline"]
    return Advisor(machine, questions, 60.0, machine.clock).advise()


def test_a_pipeline_that_costs_on_a_shared_gpu_is_tried_withdrawn_and_the_reason_named():
    machine = SharedGPU({"off": 1.0, "on": 0.978, "on_policy": 0.972})  # `on` as measured on an H200, compiled
    report = asked_of(machine)
    assert machine.opened == ["off", "on", "on_policy"]
    assert [(finding.value, finding.verdict) for finding in report.findings] == [
        ("on", "withdrawn"),
        ("on_policy", "withdrawn"),
    ]
    assert [finding.gain.ratio for finding in report.findings] == pytest.approx([0.978, 0.972])
    assert all("share one GPU" in finding.why for finding in report.findings)
    assert report.overrides == {}


def test_a_pipeline_that_pays_on_a_gpu_is_advised():  # as measured on an H200, captured as graphs
    assert asked_of(SharedGPU({"off": 1.0, "on": 1.163, "on_policy": 0.997})).overrides == {"collect.pipeline": "on"}


def test_a_pipeline_that_there_is_no_time_to_try_on_a_gpu_is_not_advised():
    report = asked_of(SharedGPU({"off": 1.0, "on": 1.08, "on_policy": 1.0}, set_up_s=50.0))
    assert {finding.verdict for finding in report.findings} == {"not tried"} and report.overrides == {}
    assert all("share one GPU" in finding.why for finding in report.findings)


def test_collecting_cannot_run_ahead_of_a_league_nor_on_one_core():
    assert "league" in answer(
        "collect beside the learning?",
        situation({"collect": 0.4}, trial=trial_of(controller=SimpleNamespace(name="league"))),
    )
    assert "one core" in answer("collect beside the learning?", situation({"collect": 0.4}, CPU | {"cores": 1}))
    assert (
        answer("collect beside the learning?", situation({"collect": 0.4}, collect__pipeline="on")) == "it is on (on)"
    )


def test_twice_the_environments_gain_a_factor_of_two_at_most():
    proposal = answer("more environments?", situation({"collect": 0.4}))
    assert (proposal.value, proposal.gain) == (1024, 2.0)


def test_minibatches_are_halved_down_to_four():
    s = situation({"collect": 0.2})
    why = "learning takes 80 % of an iteration, in 16 steps per epoch"
    assert answer("larger minibatches?", s) == Proposal(8, pytest.approx(1 / 0.6), why)
    assert isinstance(answer("larger minibatches?", situation({}, algo__minibatches=4)), str)
    assert isinstance(answer("larger minibatches?", situation({}, algo__minibatches=None)), str)


def test_bf16_and_graphs_of_compiled_kernels_are_for_gpus():
    assert "CPU" in answer("bf16?", situation({"collect": 0.2}))
    assert answer("bf16?", situation({"collect": 0.2}, GPU)).gain == pytest.approx(1 / 0.6)
    graphs = answer("compile?", situation({"collect": 0.2}, GPU, trial=trial_of("graphs")))
    assert (graphs.value, graphs.gain) == (
        "on",
        3.2,
    ) and "1.7 to 3.2 × graphs as measured on an H200, not by Amdahl's law" in graphs.why
    assert (
        answer("compile?", situation({"collect": 0.2}, GPU, trial=trial_of("compiled")))
        == "auto compiles a run this long"
    )
    assert answer("compile?", situation({"collect": 0.2}, trial=trial_of("compiled"), compile="on")) == "it is on"
    assert "algo=sac cannot be compiled" in answer(
        "compile?", situation({}, trial=trial_of(capture=False), algo__name="sac")
    )


def test_observations_are_compressed_only_where_memory_is_short():
    full = CPU | {"free_mb": 1000.0}
    assert "not short" in answer("keep observations compressed?", situation({}, collect__compress="off"))
    short = answer("keep observations compressed?", situation({}, full, collect__compress="off"))
    assert (short.value, short.needs, short.also) == ("all", 0.8, {})
    on_gpu = answer("keep observations compressed?", situation({}, GPU | {"free_mb": 1000.0}, collect__compress="off"))
    assert on_gpu.also == {"compile": "off"}
    assert "on (lidar)" in answer("keep observations compressed?", situation({}, full, collect__compress="lidar"))


def test_a_raw_replay_buffer_is_asked_about_where_there_is_one():
    assert answer("a raw replay buffer?", situation({}, algo__codec="auto")).value == "raw"
    assert "short" in answer("a raw replay buffer?", situation({}, CPU | {"free_mb": 100.0}, algo__codec="auto"))
    assert isinstance(answer("a raw replay buffer?", situation({})), str)


def interval(cost, **changed):
    return answer("how often to save?", situation({}, trial=trial_of(cost=cost), **changed))


def test_saves_that_cost_little_are_kept_and_dear_ones_come_less_often():
    cheap = interval(SaveCost(lost_s=0.01, write_s=1.0, bytes=10**6))  # 0.1 % of 10 s
    assert isinstance(cheap, str) and "0.100 % of the time at one in 10 s" in cheap
    dear = interval(SaveCost(lost_s=0.5, write_s=2.0, bytes=10**9))  # 5 %: needs 100 s
    assert (dear.verdict, dear.value) == ("advised", 1000) and dear.predicted == pytest.approx(1.05 / 1.005)
    assert dear.gain is None and "5.0 % of the time at one in 10.0 s, 0.5 % then (computed)" in dear.why  # not measured
    slow = interval(SaveCost(lost_s=0.01, write_s=20.0, bytes=10**9))
    assert slow.value == 300 and "cannot keep up" in slow.why


def test_a_minutes_limit_is_lengthened_with_the_interval():
    dear = interval(SaveCost(lost_s=0.5, write_s=2.0, bytes=10**9), save_minutes=0.1)
    assert dear.also == {"save_minutes": 1.67}


def findings():
    gain = Gain(1.5, 1.4, 1.6, 8)
    return [
        Finding("a?", "collect.pipeline", "off", "on", "advised", "why", 1.7, gain, "older data"),
        Finding("b?", "env.num_envs", 8, 16, "advised", "why", 1.7, gain, "larger batches", batches=True),
        Finding("c?", "threads", 0, 1, "withdrawn", "why", None, Gain(0.8, 0.7, 0.9, 3)),
    ]


def test_the_file_of_apply_is_read_by_train_and_leaves_batches_as_remarks(tmp_path):
    report = Report(1000.0, {"collect": 0.4}, "the learning itself", findings(), Gain(2.2, 2.0, 2.4, 8))
    file = tmp_path / "advice.txt"
    file.write_text(apply_text(report, TINY))
    config = load_train([*TINY, f"@{file}"])
    assert config.collect.pipeline == "on" and config.env.num_envs == 8
    assert "# env.num_envs=16" in file.read_text()
    assert load_train([*TINY, f"@{file}", "collect.pipeline=off"]).collect.pipeline == "off"  # the last word counts
    text = table(report, "2 CPU threads")
    assert "withdrawn" in text and "1.50 × (1.40 …" in text
    assert "collect.pipeline=on env.num_envs=16" in closing(report) and "2.20 ×" in closing(report)


def test_a_file_of_overrides_that_is_not_there_is_told():
    with pytest.raises(ConfigError, match="@nowhere.txt: cannot be read"):
        load_train(["@nowhere.txt"])


def test_the_whole_command_at_a_tiny_size(tmp_path, capsys):
    file = tmp_path / "advice.txt"
    assert main(["advise", *TINY, "seconds=2", "--json", "--apply", str(file)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    keys = {finding["key"] for finding in report["findings"]}
    assert {"collect.pipeline", "env.num_envs", "algo.minibatches", "threads", "algo.bf16", "compile"} <= keys
    assert "save_interval" in keys
    assert {finding["verdict"] for finding in report["findings"]} <= {"advised", "withdrawn", "not tried", "keep"}
    assert report["rate"] > 0 and "collect" in report["exposed"]
    load_train([*TINY, f"@{file}"])


def test_only_the_keys_that_are_asked_about(capsys):
    assert main(["advise", *TINY, "seconds=2", "only=collect.pipeline,save_interval", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {finding["key"] for finding in report["findings"]} == {"collect.pipeline", "save_interval"}


def found(key, verdict, gain=None):
    return Finding("?", key, "off", "on", verdict, "", 1.5, gain)


def test_without_advice_it_says_whether_anything_was_tried():
    lost = Gain(0.9, 0.8, 0.95, 3)
    said = [
        closing(Report(1.0, {}, "", findings))
        for findings in (
            [found("a", "keep")],
            [found("a", "not tried"), found("b", "keep")],
            [found("a", "withdrawn", lost)],
            [found("a", "withdrawn", lost), found("b", "not tried")],
        )
    ]
    assert said == [
        "nothing was tried: no question promises a gain; keep it as it is",
        "nothing was tried; no time was left for a: give a larger seconds=",
        "no change made it faster: keep it as it is",
        "no change made it faster: keep it as it is; no time was left for b: give a larger seconds=",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seconds=soon"], "seconds=60"),
        (["--apply"], "--apply needs a value"),
        (["resume=x"], "not resume=RUN"),
        (["env.num_env=3"], "did you mean 'env.num_envs'?"),
        (["only=collect.pipeline,lr"], "nothing is asked about 'lr': use some of collect.pipeline, collect.compress, "),
        (["secnds=3"], "did you mean 'seconds'? (all keys: slipstream advise --help)"),
        (["--aply", "file"], "did you mean 'apply'?"),
    ],
)
def test_mistakes_are_told_in_one_line(capsys, words, told):
    assert main(["advise", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("slipstream advise: ") and told in error and error.count("\n") == 1


def test_a_training_logs_waits_memory_and_queues_as_perf(tmp_path):
    from slipstream import train
    from slipstream.training.metrics_log import read_metrics

    words = [*TINY, "total_frames=192", "eval_interval=0", "quiet=true", "wandb.mode=disabled", f"root={tmp_path}"]
    told = {name: value for row in read_metrics(train.run(load_train(words)).path) for name, value in row.items()}
    names = (
        "collect",
        "collect_p99",
        "wait/collect",
        "frames_per_s",
        "rss_mb",
        "queue/checkpoint",
        "leaks",
        "overhead",
    )
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
        assert sample.iterations == 1 and sample.frames == 32 and 0 < sample.exposed["collect"] < 1
        assert sum(sample.exposed.values()) < 1
    finally:
        trial.close()
        probe.close()
