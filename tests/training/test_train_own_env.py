"""An env of one's own from the command line: stopped with a command that works, evaluated, and refused by its spec."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal

from tiny_runs import at_iteration, differences, rows_of, state_of
from toy_env import Cart

from slipstream.cli import main
from slipstream.training.run_folder import RunFolder

OWN_RUN = shlex.split("""
    env.num_envs=6 algo.rollout_steps=4 algo.minibatches=2 model.trunk=[8] total_frames=192 save_interval=100
    eval_interval=3 eval.num_drones=3 eval.max_steps=8 device=cpu threads=1 quiet=true wandb.mode=disabled
""")


class Mistaken(Cart):
    """Observes less than its spec says."""

    def _observe(self):
        return super()._observe() | {"place": self.cart[:, :0]}


def train(root, name, *words, task="toy_env:Cart"):
    return main(["train", f"task={task}", *OWN_RUN, f"root={root}", f"name={name}", *words])


def test_a_stopped_run_prints_the_command_that_continues_it(tmp_path, monkeypatch, capsys):
    assert train(tmp_path, "whole") == 0
    capsys.readouterr()
    at_iteration(monkeypatch, 3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert train(tmp_path, "stopped") == 75
    command = f"slipstream train resume={tmp_path / 'stopped'} task=toy_env:Cart"
    assert command in capsys.readouterr().out
    assert main(shlex.split(command)[1:]) == 0
    whole, folder = (RunFolder.open(tmp_path / name) for name in ("whole", "stopped"))
    assert rows_of(whole) == rows_of(folder) and len(rows_of(whole)) == 8
    assert differences(state_of(whole), state_of(folder)) == []


def test_an_evaluation_has_intervals_and_refuses_pictures(tmp_path, capsys):
    assert train(tmp_path, "own", "total_frames=24") == 0
    words = ["eval", f"checkpoint={tmp_path / 'own'}", "task=toy_env:Cart"]
    capsys.readouterr()
    assert main([*words, "eval.num_drones=5", "json=true"]) == 0
    *printed, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)
    assert result["episodes"] == 5 and math.isfinite(result["return"]) and "away_low" in result
    assert result["return_low"] <= result["return"] <= result["return_high"]
    assert any("95 % interval" in line for line in printed)
    assert any(line.split()[1:2] == ["return"] and "…" in line for line in printed)
    for word, said in (
        ("out=paths.png", "out=paths.png has no meaning for task=toy_env:Cart"),
        ("compare=x", "compare="),
    ):
        assert main([*words, word]) == 2
        assert said in capsys.readouterr().err


def test_an_observation_unlike_its_spec_is_one_sentence(tmp_path, capsys):
    assert train(tmp_path, "mistaken", task="test_train_own_env:Mistaken") == 2
    error = capsys.readouterr().err
    assert "'place' must be a tensor" in error and "as its spec says" in error and error.count("\n") == 1
    assert not (tmp_path / "mistaken").exists()
