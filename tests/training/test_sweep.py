"""slipstream sweep: ranges, pruning, several workers, kill -9, results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import warm_python

from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.distributed import multirun
from slipstream.distributed import sweep as module
from slipstream.distributed.sweep import Range, Sweep
from slipstream.training.comparison import describe

pytest.importorskip("optuna")
sys.path.insert(0, str(Path(__file__).parent))
from sweep_workers import WORDS, make, start_fake  # noqa: E402

SCRIPT = Path(__file__).with_name("sweep_workers.py")


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(multirun, "start_job", start_fake)
    monkeypatch.setattr(module, "POLL_S", 0.02)


def test_ranges_are_read_and_plain_values_are_left_alone():
    assert Range.parse("a", "log(1e-4,3e-3)").values == (1e-4, 3e-3)
    assert Range.parse("a", "int(1, 8)").values == (1, 8)
    assert Range.parse("a", "choice([128,128],[256,256])").values == ("[128,128]", "[256,256]")
    assert Range.parse("a", "[128,128]") is None and Range.parse("a", "3e-4") is None


WRONG = {
    "log(0,1)": "above 0",
    "uniform(3,1)": "smaller number first",
    "int(1,x)": "takes two numbers",
    "choice(1)": "two or more",
    "loguniform(1,2)": "not a range: give log",
    "log(1,2": "not a range: give log",
}


@pytest.mark.parametrize(("text", "hint"), WRONG.items())
def test_a_range_that_is_none_is_refused(text, hint):
    with pytest.raises(ConfigError, match=hint):
        Range.parse("algo.gamma", text)


REFUSED = {
    ("preset=demo",): "nothing to search",
    ("preset=demo", "algo.learning_rat=log(1e-4,1e-3)"): "did you mean",
    ("preset=demo", "algo.epochs=choice(2,many)"): "algo.epochs",
    ("preset=demo", "algo.epochs=int(1,4)", "eval_interval=0"): "eval_interval",
    ("preset=demo", "algo.epochs=int(1,4)", "direction=up"): "max or min",
    ("preset=demo", "algo.epochs=int(1,4)", "trials=0"): "at least 1",
    ("preset=demo", "algo.epochs=int(1,4)", "trials=many"): "trials must be a whole number, not 'many'",
    ("preset=demo", "algo.epochs=int(1,4)", "prune=maybe"): "prune must be true or false, not 'maybe'",
    ("preset=demo", "algo.epochs=uniform(1,4)"): "use int(1,4)",
    ("preset=demo", "algo.epochs=int(1,4)", "gpus=auto"): "gpus=auto counts GPUs",
    ("preset=demo", "algo.epochs=int(1,4)", "storage=nonsense://x"): "storage=",
}


@pytest.mark.parametrize(("words", "hint"), REFUSED.items())
def test_wrong_words_are_answered_in_one_sentence(tmp_path, capsys, words, hint):
    assert main(["sweep", *words, f"root={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert hint in error and error.count("\n") == 1


def test_a_search_finds_the_best_settings_prunes_and_writes_them(tmp_path, fast, monkeypatch):
    monkeypatch.setattr(module, "STARTUP_TRIALS", 3)  # enough are completed in any order: the sampler has no seed
    sweep = make(tmp_path / "s", 24)
    best = sweep.run()
    states = [t.state.name for t in sweep.study.trials]
    assert len(states) == 24 and states.count("PRUNED") > 0 and states.count("COMPLETE") > 4
    assert sweep.study.trials[0].user_attrs["given"] and sweep.study.trials[0].params["model.part"] == "64"
    assert sweep.study.best_value >= sweep.study.trials[0].value and best == sweep.best.params
    config = load_train([f"config={tmp_path / 's' / 'best.yaml'}"])
    assert config.algo.learning_rate == pytest.approx(best["algo.learning_rate"])
    assert all((tmp_path / "s" / name).stat().st_size > 5000 for name in ("history.png", "importances.png"))
    assert "trial 0 (given)" in sweep.tables()[0].render(200)
    make(tmp_path / "s", 24).run()  # finished: nothing is trained again
    assert all((tmp_path / "s" / f"trial_{k:04d}" / "starts").read_text() == "start\n" for k in range(24))


def test_the_best_settings_are_repeated_with_other_seeds(tmp_path, fast):
    sweep = make(tmp_path / "s", 3)
    sweep.repeats = 2
    sweep.run()
    assert all(len(scores) == 2 for scores in sweep.scores.values()) and len(sweep.scores) == 3
    assert len(list((tmp_path / "s").glob("repeat_*_seed_[12]"))) == 6
    shown = sweep.tables()[0].render(200)
    assert all(describe(scores, sweep.objective) in shown for scores in sweep.scores.values())


def test_another_search_in_the_same_folder_is_refused(tmp_path, fast):
    preset = tmp_path / "more.yaml"
    preset.write_text("algo: {gamma: 0.9}\n")

    def search(*words, **settings):
        return Sweep([*WORDS, f"config={preset}", *words], tmp_path / "s", 1, repeats=0, **settings).run()

    search()
    search("record_minutes=5")  # what a resumed run may change
    for words, settings, difference in (
        ([], {"objective": "eval/return"}, "objective=eval/success, not eval/return"),
        ([], {"minimize": True}, "direction=max, not min"),
        (["total_frames=2000"], {}, "total_frames=1000, not 2000"),
        (["model.part=choice(8,16)"], {}, r"model.part=choice\(8,64\), not choice\(8,16\)"),
    ):
        with pytest.raises(ConfigError, match=f"s holds another search, with {difference}: repeat its command"):
            search(*words, **settings)
    preset.write_text("algo: {gamma: 0.8}\n")
    with pytest.raises(ConfigError, match="with algo.gamma=0.9, not 0.8"):
        search()


def test_an_objective_that_never_appears_is_named(tmp_path, fast):
    with pytest.raises(ConfigError, match=r"no 'eval/succes'.*did you mean 'eval/success'"):
        make(tmp_path / "s", 2, objective="eval/succes").run()


def test_of_several_ranges_of_a_key_the_last_one_counts(tmp_path):
    words = [*WORDS, "algo.learning_rate=uniform(1e-4,1e-3)", "algo.epochs=int(1,4)", "algo.epochs=2"]
    sweep = Sweep(words, tmp_path / "s")
    assert [(r.key, r.kind) for r in sweep.ranges] == [("algo.learning_rate", "uniform"), ("model.part", "choice")]
    assert "algo.epochs=2" in sweep.common


def test_a_search_whose_first_trials_fail_ends_with_their_reason(tmp_path, fast, monkeypatch):
    def start(job, threads, env=None):
        job.folder.with_name(f"{job.name}.log").write_text("a line\nslipstream train: no such env\n")
        return subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(2)"])

    monkeypatch.setattr(multirun, "start_job", start)
    with pytest.raises(
        ChildProcessError, match=r"the first 3 trials failed: slipstream train: no such env \(see .*0000"
    ):
        make(tmp_path / "s", 9).run()


def workers(tmp_path, *args):
    done = warm_python.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "s"), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["codes"] == [0] * len(found["codes"]), done.stderr
    return found


@pytest.mark.parametrize(
    ("kills", "count", "jobs"),
    [
        (2, 1, 2),
        (0, 2, 1),
        pytest.param(10, 1, 2, marks=pytest.mark.soak),
        pytest.param(10, 2, 1, marks=pytest.mark.soak),
    ],
)
def test_killed_and_several_workers_lose_and_repeat_no_finished_trial(tmp_path, kills, count, jobs):
    found = workers(tmp_path, 12, kills, count, jobs)
    real = [trial for trial in found["trials"] if not trial[4]]
    assert [trial[0] for trial in real] == list(range(12))
    assert all(trial[1] in ("COMPLETE", "PRUNED") for trial in real)
    starts = [(tmp_path / "s" / f"trial_{k:04d}" / "starts").read_text().count("start") for k in range(12)]
    assert sum(starts) <= 12 + kills * count * jobs and min(starts) == 1
    assert (tmp_path / "s" / "best.yaml").exists()


def test_a_trial_that_was_killed_before_it_had_values_gets_them(tmp_path, fast):
    (tmp_path / "s").mkdir()
    make(tmp_path / "s", 2)._open_study().ask()
    sweep = make(tmp_path / "s", 2)
    sweep.run()
    assert [len(t.params) for t in sweep.study.trials] == [2, 2]


def test_the_command_searches_with_real_trainings(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", warm_python.Popen)
    tiny = ["task=gym", "env.id=CartPole-v1", "env.num_envs=4", "total_frames=256", "algo.rollout_steps=16", "algo.minibatches=2",
            "algo.epochs=1", "eval_interval=2", "model.trunk=[8]", "algo.learning_rate=log(1e-4,1e-2)", "device=cpu"]  # fmt: skip
    words = [*tiny, "trials=2", "repeats=0", "objective=eval/return", f"root={tmp_path}", "name=s", "--jobs", "2"]
    assert main(["sweep", *words]) == 0
    out = capsys.readouterr().out
    assert "[2/2]" in out and "best settings by eval/return" in out and "config=" in out


def test_without_optuna_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["sweep", "preset=demo", "algo.epochs=int(1,4)"]) == 2
    assert "slipstream-rl[sweep]" in capsys.readouterr().err
