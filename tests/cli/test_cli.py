from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
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


def test_the_console_script_is_this_function():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"slipstream": "slipstream.cli:main"}


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip()[0].isdigit()


def test_a_mistyped_command_is_answered_with_the_nearest(capsys):
    assert main(["trian"]) == 2
    assert "unknown command 'trian': did you mean 'train'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (
            "train",
            [
                "env.num_envs=1024",
                "env.dyn.num_obstacles=80",
                "algo.learning_rate=0.0005",
                "resume=null",
                "preset=none",
            ],
        ),
        ("eval", ["checkpoint=null", "compare=null", "eval.map_seeds=[101,102,103]", "json=false"]),
    ],
)
def test_help_of_a_command_lists_its_keys(capsys, command, keys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: slipstream {command} [key=value ...]")
    assert [key for key in keys if key not in text] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "env.num_env=3"], "did you mean 'env.num_envs'?"),
        (["train", "env.num_envs=many"], "env.num_envs"),
        (["train", "algo.gamma=7"], "algo.gamma"),
        (["eval", "eval.num_drones=0"], "eval.num_drones"),
        (["eval", "checkpoint=nowhere.pt"], "nowhere.pt"),
        (["train", "task=nowhere:Env"], "cannot import nowhere"),
        (["train", "device=gpu"], "device=gpu"),
        (["train", "env.num_envs=4", "env.num_worlds=5", "env.num_obstacles=0"], "env.num_worlds (5)"),
        (["train", "env.num_envs=4", "env.num_obstacles=0", "algo.minibatches=3", "device=cpu"], "algo.minibatches=3"),
        (["train", "env.num_envs=4", "env.num_obstacles=0", "init=nowhere.pt", "device=cpu"], "nowhere.pt"),
    ],
)
def test_a_mistake_is_told_in_one_line_without_a_traceback(tmp_path, monkeypatch, capsys, words, told):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"slipstream {words[0]}: ") and told in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []  # and nothing was begun


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="W&B is installed")
def test_wandb_asked_for_and_not_installed_is_told_with_the_remedy(tmp_path, capsys):
    words = [
        "env.num_envs=4",
        "env.num_obstacles=0",
        "env_dyn.num_obstacles=0",
        f"root={tmp_path}",
        "device=cpu",
        "wandb.mode=online",
    ]
    assert main(["train", *words]) == 2
    assert "pip install 'slipstream-rl[wandb]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr("slipstream.cli.train.run", interrupted)
    assert main(["train"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_the_command_line_speaks_to_openmp_before_torch_is_loaded():
    # a runtime that is already up does not read OMP_WAIT_POLICY any more
    code = "import sys, slipstream.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


def test_every_public_name_is_there_and_no_other():
    assert all(getattr(slipstream, name) is not None for name in slipstream.__all__)
    assert set(slipstream.__all__) == set(slipstream._HOME_OF) <= set(dir(slipstream))
    with pytest.raises(AttributeError, match="no attribute 'PPPO'"):
        slipstream.PPPO  # noqa: B018


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["ckpt", "--help"], ["ckpt", "info", "."], ["rollouts", "--help"]]
)
def test_a_reader_who_goes_away_ends_it_quietly(words, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "slipstream", *words]
        env = {
            name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"
        }  # or argparse swallows it
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=env)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, "")


def test_another_pipe_that_breaks_is_an_error_as_any(monkeypatch, capsys):
    def fail(argv):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("slipstream.cli.bench.run", fail)
    assert main(["bench", "env"]) == 2
    assert "Broken pipe" in capsys.readouterr().err
