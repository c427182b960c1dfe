"""slipstream sweep: ranges, pruning, several workers, kill -9, results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.distributed import sweep as module
from slipstream.distributed.sweep import Range, Sweep
from slipstream.storage.files import WriterLock

pytest.importorskip("optuna")
sys.path.insert(0, str(Path(__file__).parent))
from sweep_workers import WORDS, FakeStart, make  # noqa: E402

SCRIPT = Path(__file__).with_name("sweep_workers.py")


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(module, "LocalStart", FakeStart)
    monkeypatch.setattr(module, "POLL_S", 0.02)


@pytest.mark.parametrize(
    "text",
    ["log(0,1)", "uniform(3,1)", "int(1,x)", "int(1,2,3)", "choice(1)", "loguniform(1,2)", "log(1,2", "log(1,inf)"],
)
def test_a_range_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="is not a range: give log"):
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
    ("preset=demo", "algo.epochs=uniform(1,4)"): "algo.epochs must be a whole number",
    ("preset=demo", "algo.epochs=int(1,4)", "gpus=auto"): "gpus=auto counts GPUs",
    ("preset=demo", "algo.epochs=int(1,4)", "storage=nonsense://x"): "storage=",
}


@pytest.mark.parametrize(("words", "hint"), REFUSED.items())
def test_wrong_words_are_answered_in_one_sentence(tmp_path, capsys, words, hint):
    assert main(["sweep", *words, f"root={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert hint in error and error.count("\n") == 1


def test_a_search_finds_the_best_settings_and_prunes(tmp_path, fast, monkeypatch):
    monkeypatch.setattr(module, "STARTUP_TRIALS", 3)  # enough are completed in any order: the sampler has no seed
    sweep = make(tmp_path / "s", 24, parallel=2)
    best = sweep.run()
    states = [t.state.name for t in sweep.study.trials]
    assert len(states) == 24 and states.count("PRUNED") > 0 and states.count("COMPLETE") > 4
    assert sweep.study.trials[0].user_attrs["given"] and sweep.study.trials[0].params["model.part"] == "64"
    assert sweep.study.best_value >= sweep.study.trials[0].value and best == sweep.study.best_params
    config = load_train([f"config={tmp_path / 's' / 'best.yaml'}"])
    assert config.algo.learning_rate == pytest.approx(best["algo.learning_rate"])
    assert "trial 0 (given)" in sweep.table().render(200)
    make(tmp_path / "s", 24).run()  # finished: nothing is trained again
    assert all((tmp_path / "s" / f"trial_{k:04d}" / "starts").read_text() == "start\n" for k in range(24))


def test_another_search_in_the_same_folder_is_refused(tmp_path, fast):
    preset = tmp_path / "more.yaml"
    preset.write_text("algo: {gamma: 0.9}\n")

    def search(*words, **settings):
        return Sweep([*WORDS, f"config={preset}", *words], tmp_path / "s", 1, **settings).run()

    search()
    search("record_minutes=5")  # what a resumed run may change
    for words, settings, difference in (
        ([], {"objective": "eval/return"}, "objective=eval/success, not eval/return"),
        ([], {"minimize": True}, "direction=max, not min"),
        (["total_frames=2000"], {}, "total_frames=1000, not 2000"),
        (["init=weights.pt"], {}, "init=null, not weights.pt"),
        (["model.part=choice(8,16)"], {}, r"model.part=choice\(8,64\), not choice\(8,16\)"),
    ):
        with pytest.raises(ConfigError, match=f"s holds another search, with {difference}: repeat its command"):
            search(*words, **settings)
    preset.write_text("algo: {gamma: 0.8}\n")
    with pytest.raises(ConfigError, match="with algo.gamma=0.9, not 0.8"):
        search()
    with WriterLock(tmp_path / "s"), pytest.raises(BlockingIOError, match="workers that share a search need storage="):
        search()


def test_workers_without_a_common_folder_keep_their_live_trials(tmp_path, fast):
    storage = f"sqlite:///{tmp_path}/sweep.db"
    mine, theirs = (make(tmp_path / machine / "s", 3, storage=storage) for machine in ("a", "b"))
    study = mine._open_study()
    live = study.ask()
    study._storage.record_heartbeat(live._trial_id)
    theirs.run()
    (trial, *others) = theirs.study.trials
    assert trial.state.name == "RUNNING" and len(others) >= 3
    assert not (tmp_path / "b" / "s" / f"trial_{live.number:04d}").exists()
    study.tell(live, 0.5)


def test_workers_may_make_the_tables_of_a_storage_at_once(tmp_path, fast, monkeypatch):
    kind, failures = module.import_optuna().storages.RDBStorage, [RuntimeError("UNIQUE constraint failed")]
    plain = kind.__init__

    def init(*args, **more):
        if failures:
            raise failures.pop()
        plain(*args, **more)

    monkeypatch.setattr(kind, "__init__", init)
    make(tmp_path / "s", 1, storage=f"sqlite:///{tmp_path}/sweep.db").run()
    assert failures == []


def test_a_study_of_another_program_is_refused(tmp_path):
    storage = f"sqlite:///{tmp_path}/sweep.db"
    module.import_optuna().create_study(storage=storage, study_name="s").optimize(lambda trial: 1.0, 1)
    with pytest.raises(ConfigError, match="s in this storage is not a search of `slipstream sweep`"):
        make(tmp_path / "s", 3, storage=storage).run()


def test_an_objective_that_never_appears_is_named(tmp_path, fast):
    with pytest.raises(ConfigError, match=r"no 'eval/succes'.*did you mean 'eval/success'"):
        make(tmp_path / "s", 4, objective="eval/succes", parallel=2).run()


def test_a_search_whose_first_trials_fail_ends(tmp_path, fast, monkeypatch):
    fail = [sys.executable, "-S", "-c", "raise SystemExit(2)"]
    monkeypatch.setattr(FakeStart, "__call__", lambda self, job: subprocess.Popen(fail))
    with pytest.raises(ChildProcessError, match=r"the first 3 trials failed, see .*trial_\*.log"):
        make(tmp_path / "s", 9).run()


@pytest.mark.parametrize(
    ("kills", "count", "jobs"),
    [
        (1, 1, 2),
        (1, 2, 1),
        pytest.param(10, 1, 2, marks=pytest.mark.soak),
        pytest.param(10, 2, 1, marks=pytest.mark.soak),
    ],
)
def test_killed_and_several_workers_repeat_no_finished_trial(tmp_path, kills, count, jobs):
    command = [sys.executable, str(SCRIPT), str(tmp_path / "s"), *map(str, (12, kills, count, jobs))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["codes"] == [0] * count, done.stderr
    ended = [number for number, state, _ in found["trials"] if state in ("COMPLETE", "PRUNED")]
    assert 12 <= len(ended) <= 12 + count - 1  # two workers may ask for the last one at the same time
    failed = [number for number, state, _ in found["trials"] if state == "FAIL"]
    assert len(failed) <= kills * count * jobs
    starts = [(tmp_path / "s" / f"trial_{k:04d}" / "starts").read_text() for k in ended]
    assert set(starts) == {"start\n"} and (tmp_path / "s" / "best.yaml").exists()


def test_the_command_searches_with_real_trainings(tmp_path, capsys, monkeypatch):
    tiny = """task=gym env.id=CartPole-v1 env.num_envs=4 total_frames=256 algo.rollout_steps=16 algo.minibatches=2
        algo.epochs=1 eval_interval=2 model.trunk=[8] algo.learning_rate=log(1e-4,1e-2) device=cpu"""
    words = [*tiny.split(), "trials=2", "objective=eval/return", f"root={tmp_path}", "name=s", "--jobs", "2"]
    assert main(["sweep", *words]) == 0
    out = capsys.readouterr().out
    assert "[2/2]" in out and "best settings by eval/return" in out and "best.yaml seed=1,2,3" in out
