"""A checkpoint or run folder may not choose a module to import; what the user types may."""

from __future__ import annotations

import shlex
import sys

import pytest
from helpers.small_run import TINY, rewritten

from slipstream.cli import main
from slipstream.config import registry
from slipstream.config.help import ConfigError

HOSTILE = """
from pathlib import Path
Path("imported.txt").write_text("a file has chosen this module")
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module in it that notes when it is imported."""
    (tmp_path / "hostile_module.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "hostile_module", raising=False)
    return tmp_path


COMMANDS = ["eval checkpoint={}", "export --to onnx checkpoint={}", "train resume={}"]


@pytest.mark.parametrize("command", [*COMMANDS, "eval compare={}", "train init={}"])
def test_an_algorithm_named_in_a_file_is_not_imported(run, here, capsys, command):
    copy = rewritten(run, here, {"config.algo.name": "hostile_module:X"})
    assert main([*command.format(copy).split(), *(TINY if "init" in command else [])]) == 2
    assert "add to the command line: algo=hostile_module:X" in capsys.readouterr().err
    assert not (here / "imported.txt").exists() and "hostile_module" not in sys.modules


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config.task": "hostile_module:Env"}, "task=hostile_module:Env"),
        ({"config.task": "gym", "config.env.id": "hostile_module:Env-v0"}, "env.id=hostile_module:Env-v0"),
    ],
)
def test_one_message_names_all_words(run, here, capsys, command, changes, words):
    copy = rewritten(run, here, {"config.model.policy": "hostile_module:Net", **changes})
    assert main(command.format(copy).split()) == 2
    error = capsys.readouterr().err
    added = error.partition("add to the command line:")[2].split()
    assert sorted(added) == sorted([words, "model.policy=hostile_module:Net"]), error
    assert not (here / "imported.txt").exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["{}:", "{}:1X", "{}:X y", "{}:ns/Env-v0", "évil:X", "hostile-module:X", "{}::X"])
def test_every_name_that_python_would_import_is_refused(run, here, capsys, command, name):
    for module in ("évil", "hostile-module"):
        (here / f"{module}.py").write_text(HOSTILE)
    copy = rewritten(run, here, {"config.task": name.format("hostile_module")})
    assert main(command.format(copy).split()) == 2
    assert "a file may not choose what is imported" in capsys.readouterr().err
    assert not (here / "imported.txt").exists()


def test_each_name_of_a_list_is_checked():
    config = {"league": {"mixes": [{"hostile_module:Agent": 1.0}, {"mine:Agent": 1.0}]}}
    with pytest.raises(ConfigError, match="'hostile_module:Agent'"):
        registry.refuse_unregistered(config, ["league.mixes=[{mine:Agent: 1.0}]"], "runs/x")
    registry.refuse_unregistered(config, shlex.split(registry.trusting_words(config)), "runs/x")
    words = ["name=mine:Agent", "league.mixes=[{hostile_module:Agent: 1.0}]"]
    with pytest.raises(ConfigError, match="'mine:Agent'"):
        registry.refuse_unregistered(config, words, "runs/x")


def test_what_is_typed_is_trusted_beside_a_checkpoint(run, here, capsys):
    copy = rewritten(run, here, {"config.task": "hostile_module:Env"})
    assert main(["eval", f"checkpoint={copy}", "task=hostile_module:Env"]) == 2
    assert "hostile_module has no TensorEnv subclass named Env" in capsys.readouterr().err  # so it was imported
    assert (here / "imported.txt").exists()


def test_names_of_ours_and_text_are_no_code():
    config = {"task": "aircombat", "env": {"opponent": "runs/a:b/best.pt", "reward": "shaped"}, "device": "cuda:1",
              "name": "a:b", "wandb": {"name": "group:run"}, "init": "x:y"}  # fmt: skip
    assert registry.unregistered_names(config) == {}
    registry.refuse_unregistered(config, [], "runs/x")


def test_an_algorithm_that_is_typed_is_trusted_by_eval(run, here, capsys):
    (here / "own_algorithm.py").write_text("from slipstream.algorithms.ppo import PPO as Mine")
    copy = rewritten(run, here, {"config.algo.name": "own_algorithm:Mine"})
    small = ["eval.num_drones=2", "eval.map_seeds=[1]", "eval.max_steps=40", "eval.picture=false", "device=cpu"]
    assert main(["eval", f"checkpoint={copy}", "algo=own_algorithm:Mine", *small]) == 0
