from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import slipstream
from slipstream.cli import BROKEN_PIPE, COMMANDS, main

ROOT = Path(__file__).parents[2]


def test_without_a_word_it_shows_what_there_is(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)
    assert main(["--help"]) == 0 and capsys.readouterr().out == text


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr("slipstream.cli.train.run", interrupted)
    assert main(["train"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_openmp_is_set_up_before_torch_is_loaded():
    # a runtime that is already up does not read OMP_WAIT_POLICY any more
    code = "import sys, slipstream.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


def test_every_public_name_is_there_and_no_other():
    assert all(getattr(slipstream, name) is not None for name in slipstream.__all__)
    assert set(slipstream.__all__) == set(slipstream._MODULE_OF) <= set(dir(slipstream))
    with pytest.raises(AttributeError, match="no attribute 'PPPO'"):
        slipstream.PPPO  # noqa: B018


@pytest.mark.parametrize("words", [["--help"], ["ckpt", "--help"], ["config"]])
def test_a_reader_who_goes_away_ends_it_quietly(words, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # or argparse swallows it
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "slipstream", *words]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, "")


def test_debug_shows_the_traceback(capsys):
    assert main(["train", "env.num_env=3", "--debug"]) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error and "slipstream train: unknown key 'env.num_env'" in error.splitlines()[-1]


def test_an_error_nobody_foresaw_is_one_sentence_too(monkeypatch, capsys):
    def fail(args):
        raise AttributeError("first line\n  second line")

    monkeypatch.setattr("slipstream.cli.train.run", fail)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "slipstream train: AttributeError: first line second line (--debug shows where)\n"


REFUSED = {
    "advise seconds=soon": "slipstream advise: seconds must be a number, not 'soon'",
    "advise seconds=0": "seconds=60",
    "advise --seconds": "seconds needs a value",
    "advise resume=x": "not resume=RUN",
    "advise secnds=3": "unknown key 'secnds' (--help lists all keys)",
    "bench train forms=fast device=cpu": "plain, graphs, compiled",
    "bench train sizes=a device=cpu": "sizes=1024,16384",
    "bench train algo=dqn device=cpu": "algo=ppo",
    "exploit task=navigation": "task=navigation has no opponents",
    "exploit resume=runs/x": "resume= is set by this command",
    "exploit games=3": "games=3 must be even",
    "exploit random=0 own=0": "nothing to do",
    "exploit checkpoint=nowhere": "no checkpoint at nowhere",
    "exploit max_tme_s=3": "did you mean 'max_time_s'?",
    "export": "name the format",
    "export --to": "to needs a value",
    "export --to tflite": "use --to onnx or --to pt2",
    "export to=onnx checkpiont=x": "did you mean 'checkpoint'",
    "export --to=pt2 out=nowhere/policy.pt2": "there is no folder nowhere",
    "export --to pt2 checkpoint=nowhere.pt": "nowhere.pt",
    "eval sim.hull_m=0.2": "sim.hull_m=0.2 is a setting of MuJoCo: add sim=mujoco",
    "eval sim=gazebo": "unknown simulator sim=gazebo: use slipstream or mujoco",
    "eval sim=mujoco sim.hull_m=-1": "sim.hull_m must be positive, not -1",
    "eval sim=mujoco sim.rate_gain=[1,0]": "sim.rate_gain must be positive",
    "eval sim=mujoco task=aircombat": "unknown key 'sim' of this task: it needs task=navigation",
    "validate task=aircombat": "task=aircombat has no second simulator",
    "validate out=both.png": "writes no file",
    "train actors.count=0": "actors.count must be at least 1, not 0",
    "train actors.address=auto": "actors.address=auto needs a number of actors: give actors.count=8",
    "train actors.count=2 actors.max_staleness=-1": "actors.max_staleness must be 0 or more, not -1",
    "train actors.count=2 gpus=2": "actors.count=2 does not work with gpus=2",
    "train actors.count=2 collect.pipeline=on": "does not work with collect.pipeline=on",
    "train actors.count=2 env.num_envs=auto": "does not work with env.num_envs=auto",
    "train actors.count=2 preset=aircombat": "do not work with a league or the like",
    "train algo=dqn env.num_envs=2 env.num_obstacles=0": "algo=sac or algo=td3",
    "train algo=sac env.actions=discrete env.num_envs=2 env.num_obstacles=0": "algo=dqn",
    "train algo=sac task=gym": "algo=dqn",
    "train algo=sac algo.epochs=3": "unknown key 'algo.epochs'",
    "train algo=ppo algo.buffer_size=3": "unknown key 'algo.buffer_size'",
    "train algo=td3 algo.policy_dely=3": "did you mean 'algo.policy_delay'",
    "train algo=sac preset=h200": "preset=h200 has no settings for algo=sac, but for bc, ppo",
    "train algo=sac compile=on env.num_envs=2 env.num_obstacles=0": "compile=on",
    "train task=gym env.id=CartPol-v1": "env.id=CartPol-v1",
    "train collect.pipeline=yes": "collect.pipeline must be",
    "train task=aircombat league.enabled=true collect.pipeline=on env.num_envs=16": "league",
    "train task=aircombat league.enabled=true opponent=crank": "the league chooses the opponents: leave opponent=crank out",
    "train task=aircombat env.sides=2": "a training flies one side: leave env.sides=2 out and name opponent=AGENT",
    "train preset=aircombat num_envs=8 league.seats=3": "env.num_envs=8 must be a multiple of league.seats=3",
    "train task=aircombat env.opponent=nobody": "unknown agent 'nobody'",
    "train task=aircombat env.reward=riches": "unknown reward 'riches'",
    "train task=aircombat env.time_scale=0": "time_scale must be a positive number",
    "train task=aircombat env.starts.missiles=[1,7]": "at most 6 missiles",
    "train task=aircombat env.starts.range_m=[30000,20000]": "the lower one first",
    "train task=aircombat env.opponent=math:pi": "no BaseAgent subclass named pi",
    "eval env.num_obstacles=0 env.map_half_m=4 eval.num_drones=8 env.swarm=3": "must be a multiple of 3 drones: use 6",
    "eval sim=mujoco env.swarm=4": "MuJoCo flies each drone alone, not in groups of env.swarm=4: add env.swarm=1",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_line_that_cannot_be_is_answered(tmp_path, monkeypatch, capsys, line):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    assert REFUSED[line] in capsys.readouterr().err.splitlines()[-1]


MISSING = {  # without this package; the extra that has it
    ("train task=gym env.id=CartPole-v1 actors.count=2", "ray"): "actors.count needs Ray: pip install -e '.[ray]'",
    ("sweep preset=demo algo.epochs=int(1,4)", "optuna"): "pip install -e '.[sweep]'",
    ("export --to onnx out=policy.onnx", "onnxscript"): "needs onnxscript: pip install -e '.[export]'",
    ("eval sim=mujoco", "mujoco"): "sim=mujoco needs MuJoCo: pip install -e '.[mujoco]'",
    ("eval checkpoint=hf://me/drone", "huggingface_hub"): "pip install -e '.[hub]'",
}


@pytest.mark.parametrize(("words", "package"), MISSING)
def test_an_extra_that_is_missing_is_named(tmp_path, monkeypatch, capsys, words, package):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(words.split()) == 2
    assert MISSING[words, package] in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["train", "env.num_env=3"], "slipstream train: unknown key 'env.num_env': did you mean 'env.num_envs'?"),
        (["train", "task=nowhere:Env"], "cannot import nowhere"),
        (["train", "env.num_envs=4", "env.num_obstacles=0", "algo.minibatches=3", "device=cpu"], "algo.minibatches=3"),
        (["train", "env.num_envs=4", "env.num_obstacles=0", "init=nowhere.pt", "device=cpu"], "nowhere.pt"),
        (["eval", "checkpoint=nowhere.pt"], "slipstream eval: no checkpoint at nowhere.pt"),
        (["ckpt", "inf", "x"], "slipstream ckpt: unknown command 'inf': did you mean 'info'?"),
        (["ckpt", "info", "x", "--tensor"], "slipstream ckpt: unknown argument '--tensor'"),
        (["ckpt", "export", "x", "--to", "onxx"], "slipstream ckpt: unknown --to 'onxx'"),
        (["ckpt", "info", "nowhere.pt"], "slipstream ckpt: no checkpoint at nowhere.pt"),
        (["bench", "env"], "slipstream bench measures training: slipstream bench train"),
        (["--verson"], "slipstream: unknown argument '--verson': did you mean '--version'?"),
        (["train", "-x"], "'-x' is not an override"),
        (["view", "page.html"], "page.html is not a recording (.rec), a run or a folder"),
        (["evaluate", "checkpoint=x"], "unknown command 'evaluate': did you mean 'eval'?"),
        (["compare", "my policy.pt"], "slipstream eval 'checkpoint=my policy.pt' compare=OTHER"),
        (["train", "--max-steps", "1000"], "unknown key 'max_steps': total_frames ends a training"),
        (["train", "--log-interval=10"], "unknown key 'log_interval': every iteration is logged"),
        (["eval", "--render"], "unknown key 'render': there is no window"),
        (["eval", "checkpoint=group"], "group holds 2 runs: name one of them, such as"),
        (["train", "resume=group"], "group/seed=0"),
        (["ckpt", "verify", "group"], "group has no checkpoints: give a run folder"),
        (["export", "--to", "onnx", "out=p.pt2"], "p.pt2 would hold onnx: name it p.onnx"),
        (["recording", "export", "x.rec", "--to", "acmi", "--out", "x.html"], "x.html would hold acmi"),
        (["compare", "group", "--out", "curves.pdf"], "curves.pdf would hold png"),
        (["eval", "eval.picture=false", "out=flight.png"], "out=flight.png is not written with eval.picture=false"),
    ],
)
def test_every_command_answers_a_mistake_on_stderr(tmp_path, monkeypatch, capsys, words, answer):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.html").touch()
    for seed in (0, 1):
        (tmp_path / "group" / f"seed={seed}").mkdir(parents=True)
        (tmp_path / "group" / f"seed={seed}" / "config.yaml").write_text("task: navigation\n")
    assert main(words) == 2
    out, errors = capsys.readouterr()
    *progress, error = errors.splitlines()
    assert out == "" and answer in error
    assert all(line.startswith("building the env: ") for line in progress)  # on a busy machine
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", "group"} and gc.isenabled()  # nothing was begun


def test_a_warning_is_a_sentence(monkeypatch):
    lines = []
    warning = ("too few", UserWarning, "x.py", 1)
    monkeypatch.setattr("slipstream.cli._run", lambda argv: lines.append(warnings.formatwarning(*warning)) or 0)
    assert main([]) == 0 and lines == ["warning: too few\n"]
    assert "x.py" in warnings.formatwarning(*warning)  # only while a command runs


@pytest.mark.parametrize("words", [["--debug", "train", "--help"], ["help", "train"], ["train", "-h"]])
def test_help_is_found_wherever_it_stands(words, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("usage: slipstream train [key=value ...]")


@pytest.mark.parametrize("module", ["slipstream", "slipstream.train"])
def test_as_a_module(module, tmp_path):
    words = (["train"] if module == "slipstream" else []) + ["env.num_env=3"]
    done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("slipstream train: unknown key 'env.num_env'")


def test_a_closed_output_is_no_error():
    done = subprocess.run([sys.executable, "-c", "import os; os.close(1); os.execv(os.sys.executable, "
                           "[os.sys.executable, '-m', 'slipstream', '--help'])"], stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
