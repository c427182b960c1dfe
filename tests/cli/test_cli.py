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
