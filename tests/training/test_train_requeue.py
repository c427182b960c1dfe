"""What a scheduler sees of a run: exit codes, status.json, and `resume=auto`, the command that is right each time."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tiny_runs import TINY, at_iteration, differences, rows_of, run_words, state_of

import slipstream.cli.train
import slipstream.train
from slipstream import Trainer
from slipstream.cli import main
from slipstream.config.compose import from_dict, load_train, to_dict
from slipstream.config.help import ConfigError
from slipstream.storage.files import WriterLock
from slipstream.training import resume
from slipstream.training.evaluate import configure
from slipstream.training.metrics_log import read_metrics
from slipstream.training.run_folder import RunFolder

WORDS = [*TINY, "total_frames=256", "save_interval=100"]
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def signals_are_not_ignored():
    """A shell ignores SIGQUIT for what it starts in the background."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    return run_words(tmp_path_factory.mktemp("my runs"), "first", *WORDS).path


@pytest.fixture
def auto(tmp_path):
    """The words of one command that a scheduler repeats."""
    return [*WORDS, f"root={tmp_path}", "name=run", "resume=auto"]


def status_of(folder):
    return json.loads((folder / "status.json").read_text())


# -- exit codes and status ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [*((number, 75) for number in STOP_SIGNALS[:3]), (signal.SIGINT, 130)])
def test_a_stopped_run_saves_and_says_so(tmp_path, monkeypatch, auto, number, code):
    monkeypatch.setattr("slipstream.training.outputs.leave_terminal", lambda: None)  # it is that of the tests
    at_iteration(monkeypatch, 1, lambda: os.kill(os.getpid(), number))
    assert main(["train", *auto]) == code
    status = status_of(tmp_path / "run")
    assert (status["state"], status["reason"]) == ("interrupted", number.name)
    assert (status["iteration"], status["frames"], status["process"]) == (2, 128, os.getpid())
    assert state_of(RunFolder.open(tmp_path / "run"))["iteration"] == 2


def test_a_signal_in_the_first_compile_leaves_a_resumable_run(tmp_path, monkeypatch, auto):
    capture = Trainer.capture
    monkeypatch.setattr(Trainer, "capture", lambda *args: os.kill(os.getpid(), signal.SIGUSR1) or capture(*args))
    assert main(["train", *auto]) == 75
    assert status_of(tmp_path / "run")["state"] == "interrupted"
    monkeypatch.setattr(Trainer, "capture", capture)
    seen = []
    at_iteration(monkeypatch, 3, lambda: seen.append(RunFolder(tmp_path / "run").status()))
    assert main(["train", *auto]) == 0
    assert (seen[0]["state"], seen[0]["iteration"]) == ("running", 1)
    status = status_of(tmp_path / "run")
    assert (status["state"], status["frames"], status["iteration"], status["reason"]) == ("finished", 256, 4, "")


def test_the_status_of_a_failed_run_has_the_reason(tmp_path, monkeypatch, auto):
    def fail():
        raise RuntimeError("the engine\x1b[31m fell off")

    at_iteration(monkeypatch, 1, fail)
    assert main(["train", *auto]) == 2
    status = status_of(tmp_path / "run")
    assert (status["state"], status["frames"]) == ("failed", 64)
    assert status["reason"] == r"RuntimeError: the engine\x1b[31m fell off"


def test_a_killed_run_is_recognized(tmp_path):
    folder = RunFolder.create(tmp_path, "run", {})
    child = os.fork()
    if not child:
        folder.write_status("running", 3, 300)
        os._exit(0)  # as kill -9: nothing else is written
    os.waitpid(child, 0)
    assert status_of(folder.path)["state"] == "running"
    assert folder.status()["state"] == "failed" and folder.status()["reason"] == f"process {child} was killed"
    (folder.path / "status.json").write_text(json.dumps(status_of(folder.path) | {"host": "another"}))
    assert folder.status()["state"] == "running"  # as far as one can see from here


@pytest.mark.parametrize("text", ["", "[]", '{"state": 5}', '{"state": "running", "process": "x"}', "[" * 9999])
def test_a_status_of_somebody_else_is_no_error(tmp_path, text):
    folder = RunFolder.create(tmp_path, "run", {})
    assert folder.status() == {}
    (folder.path / "status.json").write_text(text)
    assert folder.status().get("state") in (None, "running") and folder.exit_code() == 0


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_before_the_training_begins(monkeypatch, number):
    monkeypatch.setattr(slipstream.train, "run", lambda cfg: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    assert main(["train", *WORDS]) == 75
    assert signal.getsignal(number) == before


def test_a_signal_while_modules_load_raises_nothing(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)  # an exception inside an import of C++ code can crash
    monkeypatch.setattr(slipstream.cli.train, "load_train", lambda words: os.kill(os.getpid(), signal.SIGUSR1) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        slipstream.cli.train.run(SimpleNamespace(words=WORDS, multirun=False, jobs=1))
    assert ended == [75]


def test_a_signal_that_is_ignored_stays_ignored(tmp_path, monkeypatch, auto):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        at_iteration(monkeypatch, 1, lambda: os.kill(os.getpid(), signal.SIGHUP))
        assert main(["train", *auto]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_is_no_error():
    code = """
import os, pty, signal, sys
from slipstream.checkpoint.signals import StopFlag
from slipstream.training.outputs import leave_terminal
flag, (master, slave) = StopFlag(), pty.openpty()
flag.install(lambda number: leave_terminal())
for fd in (1, 2):
    os.dup2(slave, fd)
os.close(master)
os.kill(os.getpid(), signal.SIGHUP)
print("finishing", flush=True)
sys.exit(7 if flag.requested else 1)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 7


# -- resume=auto -------------------------------------------------------------------------------------------------------


def test_one_command_starts_and_continues_a_run(finished, tmp_path, monkeypatch, auto, capsys):
    at_iteration(monkeypatch, 1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert [main(["train", *auto, "quiet=false"]) for _ in range(2)] == [75, 0]
    assert "continuing after iteration 2 of 4 (128 frames)" in capsys.readouterr().out
    folder, straight = RunFolder.open(tmp_path / "run"), RunFolder.open(finished)
    assert differences(state_of(straight), state_of(folder)) == []
    assert rows_of(straight) == rows_of(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    capsys.readouterr()
    monkeypatch.setattr(slipstream.train, "Trainer", None)  # a finished run is not built again
    assert main(["train", *auto]) == 0
    assert "nothing left to do: this run has 256 frames" in capsys.readouterr().out


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path, monkeypatch, auto):
    folder = RunFolder.at(tmp_path, "run")
    folder.restart({"task": "navigation"})
    folder.write_status("running", 0, 0)
    folder.metrics_path.write_text(json.dumps({"iteration": 1, "frames": 64, "time_s": 1.0}) + "\n")
    (folder.path / "best.pt").write_bytes(b"of a policy that is lost")
    (folder.path / "notes.txt").write_text("mine")
    assert main(["train", *auto]) == 0
    assert [row["iteration"] for row in read_metrics(folder.path)] == [1, 2, 3, 4]
    assert folder.config()["env"]["num_envs"] == 8 and not (folder.path / "best.pt").exists()
    assert (folder.path / "notes.txt").read_text() == "mine"


def test_a_finished_run_without_checkpoints_is_left_alone(finished, tmp_path, auto, capsys):
    shutil.copytree(finished, tmp_path / "run", ignore=shutil.ignore_patterns("ckpt_*", "latest*"))
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert main(["train", *auto]) == 2
    assert "is finished, and its checkpoints are gone" in capsys.readouterr().err
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_a_run_killed_while_its_folder_was_made_starts_again(tmp_path, auto):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "git.json").touch()
    assert main(["train", *auto]) == 0
    assert status_of(tmp_path / "run")["state"] == "finished"


def test_a_folder_that_is_no_run_is_left_alone(tmp_path, auto, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    assert main(["train", *auto]) == 2
    assert "run is not a run folder, it holds thesis.tex: give another name=" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]


def test_a_run_that_another_process_trains_is_refused(tmp_path, auto, capsys):
    folder = RunFolder.at(tmp_path, "run")
    with WriterLock(folder.path):
        assert main(["train", *auto]) == 2
    assert f"{folder.path} is being written by process {os.getpid()}" in capsys.readouterr().err
    assert folder.path.is_dir()


def test_init_and_measured_sizes_are_of_the_first_start(finished, tmp_path, monkeypatch, auto):
    shutil.copytree(finished, tmp_path / "first", symlinks=True)
    words = [word for word in auto if not word.startswith("env.num_envs")]
    words += ["env.num_envs=auto", f"init={tmp_path / 'first'}"]
    choose = slipstream.train.choose_sizes
    monkeypatch.setattr(slipstream.train, "choose_sizes", lambda cfg: sized(cfg, choose))
    at_iteration(monkeypatch, 1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["train", *words]) == 75
    shutil.rmtree(tmp_path / "first")  # its weights are not needed any more
    assert main(["train", *words]) == 0
    config = state_of(RunFolder.open(tmp_path / "run"))["config"]
    assert (config["env"]["num_envs"], config["auto"], config["init"]) == (4, [], None)


def sized(cfg, choose):
    """The config with 4 environments, as if that had been measured."""
    assert cfg.auto == ["env.num_envs"]
    cfg.env.num_envs = 4
    cfg.auto = []
    return choose(cfg)


@pytest.mark.parametrize("words", ["preset=demo", "preset=aircombat", "task=gym env.id=CartPole-v1 algo=dqn"])
def test_the_same_words_are_the_same_config(words, tmp_path):
    """What a checkpoint holds of them is equal to what they mean the next time."""
    cfg = load_train([*words.split(), "name=run", "resume=auto", f"root={tmp_path}"])
    saved = json.loads(json.dumps(to_dict(cfg)))
    assert resume.changed_keys(to_dict(resume.continued_config(cfg, saved)), to_dict(from_dict(saved))) == []


def test_a_taken_name_is_said_before_anything_is_built(tmp_path, monkeypatch, capsys):
    RunFolder.create(tmp_path, "fly", {})

    def build(*args, **settings):
        raise RuntimeError(capsys.readouterr().out)

    monkeypatch.setattr(slipstream.train, "Trainer", build)
    assert main(["train", *WORDS, f"root={tmp_path}", "name=fly"]) == 2
    assert "name=fly is in use: this run will be fly-2" in capsys.readouterr().err


def test_a_resumed_run_stays_where_it_is(tmp_path, auto, capsys):
    assert main(["train", *auto]) == 0
    folder = tmp_path / "run"
    assert main(["train", f"resume={folder}", "name=run", f"root={tmp_path}", "total_frames=320"]) == 0
    for word in ("name=second", "root=elsewhere"):
        assert main(["train", f"resume={folder}", word]) == 2
        assert f"continues that run where it is: leave {word} out" in capsys.readouterr().err


# -- what is printed works ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["env.reward.collision=40", "env.goals=opposite"], ["model.trunk=[8,8]"], ["env.max_speed_mps=3", "seed=2"]],
)
def test_the_printed_remedy_for_a_changed_setting_works(finished, tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert main(["train", f"resume={finished}", *words]) == 2
    command = shlex.split(capsys.readouterr().err.partition("start a new run with ")[2])
    assert command[:2] == ["slipstream", "train"]
    assert main(command[1:]) == 0
    (path,) = (tmp_path / "runs").iterdir()  # not in the root of the first
    config = state_of(RunFolder.open(path))["config"]
    assert load_train([f"config={path}", *words]) == load_train([f"config={path}"])
    assert config["name"] is None and config["env"]["num_envs"] == 8


@pytest.mark.parametrize("path", ["run", "run/config.yaml"])
def test_the_config_of_a_run_leaves_out_what_is_of_that_run(tmp_path, path):
    words = ["root=elsewhere", "name=run", "wandb.name=x", "wandb.run_id=y", "algo.gamma=0.5"]
    RunFolder.create(tmp_path, "run", to_dict(load_train(words)))
    cfg = load_train([f"config={tmp_path / path}"])
    assert (cfg.root, cfg.name, cfg.wandb.name, cfg.wandb.run_id, cfg.algo.gamma) == ("runs", None, None, None, 0.5)


def test_a_policy_of_another_task_says_which_settings_differ(tmp_path, monkeypatch):
    (tmp_path / "my_nav.py").write_text(
        "from slipstream.tasks.navigation.env import NavigationEnv\nclass Mine(NavigationEnv):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["train", *WORDS, "task=my_nav:Mine", f"root={tmp_path}", "name=own"]) == 0
    words = [f"checkpoint={tmp_path / 'own'}", "task=navigation", "env.map_half_m=2"]
    with pytest.warns(UserWarning, match=r"for task=my_nav:Mine .* env\.num_obstacles=\d+ instead of 3") as warned:
        configure(words)
    assert "map_half_m" not in str(warned[0].message)  # it was typed


def test_evaluations_that_a_league_learns_by_cannot_change(finished, monkeypatch):
    folder = RunFolder.open(finished)
    state = state_of(folder)
    monkeypatch.setattr(resume, "newest_good", lambda *args, **more: (folder.path, state))
    cfg = load_train([*WORDS, "eval_interval=7"])
    assert resume.load_resume_state(cfg, folder) is state
    state["controller"] = {}
    with pytest.raises(ConfigError, match="eval_interval cannot change"):
        resume.load_resume_state(cfg, folder)
