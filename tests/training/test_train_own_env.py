"""An env of one's own trained from the command line, stopped half way, resumed, evaluated."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import textwrap

import pytest
from tiny_runs import differences, rows_of, state_of

from slipstream.cli import main
from slipstream.training.metrics_log import read_metrics
from slipstream.training.run_folder import RunFolder

OWN = """
import os
from dataclasses import dataclass
import torch
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box

@dataclass
class Config:
    num_envs: int = 4
    stop_at: int = -1  # the step at which it sends its own process a signal
    signal: int = 2

class Slope(TensorEnv):
    '''Pays for climbing; starts are drawn from torch's own generator.'''

    Config = Config
    observation_spec = {"x": Box((1,))}
    action_spec = Box((1,), -1.0, 1.0)
    state_names = ("x", "age", "steps")

    def __init__(self, num_envs, device="cpu", seed=0, config=None):
        super().__init__(num_envs, device, seed)
        self.config = config or Config()
        self.x = torch.zeros(num_envs, 1, device=device)
        self.age = torch.zeros(num_envs, device=device)
        self.steps = torch.zeros((), dtype=torch.int64)

    def _reset(self, mask):
        self.x.copy_(torch.where(mask[:, None], torch.randn_like(self.x), self.x))
        self.age.mul_(~mask)

    def _advance(self, action):
        self.x.add_(0.1 * action)
        self.age.add_(1)
        self.steps.add_(1)
        if self.steps == self.config.stop_at and os.environ.get("TRAINING"):
            os.kill(os.getpid(), self.config.signal)

    def _observe(self):
        return {"x": self.x.clone()}

    def _outcome(self):
        over = self.age >= 5
        return Outcome(self.x[:, 0].clone(), over & (self.x[:, 0] > 1), over & (self.x[:, 0] <= 1), {"height": self.x[:, 0].clone()})
"""

OWN_RUN = shlex.split("""
    task=slope_env:Slope env.num_envs=6 algo.rollout_steps=4 algo.minibatches=2 model.trunk=[8]
    total_frames=192 save_interval=100 eval_interval=3 eval.num_drones=3 eval.max_steps=8
    device=cpu threads=1 quiet=true wandb.mode=disabled
""")


def slipstream(cwd, *words, **environment):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "slipstream", *words]
    return subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Where one stands, with an env of one's own in it."""
    (tmp_path / "slope_env.py").write_text(textwrap.dedent(OWN))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_stopped_by_a_signal_leaves_a_resumable_run(own_folder, number):
    words = [*OWN_RUN, "env.stop_at=14", f"env.signal={number.value}"]
    stopped = slipstream(own_folder, "train", *words, "name=stopped", TRAINING="1")
    assert stopped.returncode == (130 if number == signal.SIGINT else 75), stopped.stderr
    folder = RunFolder.open(own_folder / "runs" / "stopped")
    assert state_of(folder)["iteration"] == 4  # step 14 is in the fourth iteration of 4 steps, which is saved
    assert f"slipstream train resume={folder.path}" in stopped.stdout
    assert f"resume={folder.path} task=slope_env:Slope" in stopped.stdout
    assert main(["train", f"resume={folder.path}", "task=slope_env:Slope"]) == 0  # its keys are the run's own
    assert main(["train", *words, "name=whole"]) == 0
    whole = RunFolder.open(own_folder / "runs" / "whole")
    assert rows_of(whole) == rows_of(folder) and len(rows_of(whole)) == 8
    assert differences(state_of(whole), state_of(folder)) == []


def test_an_env_of_ones_own_is_trained_and_evaluated_like_ours(own_folder, capsys):
    assert main(["train", *OWN_RUN, "name=own"]) == 0
    rows = read_metrics(own_folder / "runs" / "own")
    assert "eval/height" in rows[2] and "eval/return" in rows[2] and "episode/height" in rows[7]
    assert (own_folder / "runs" / "own" / "best.pt").exists()
    capsys.readouterr()
    assert main(["eval", "checkpoint=runs/own", "task=slope_env:Slope", "eval.num_drones=5", "json=true"]) == 0
    printed = capsys.readouterr().out.splitlines()
    result = json.loads(printed[-1])
    assert result["episodes"] == 5 and result["length"] == 5.0 and math.isfinite(result["return"])
    assert result["return_low"] <= result["return"] <= result["return_high"] and result["length_low"] == 5.0
    assert "height_low" in result and any("95 % interval" in line for line in printed[:-1])
    assert any(line.split()[1:2] == ["return"] and "…" in line for line in printed[:-1])
    assert main(["eval", "checkpoint=runs/own", "task=slope_env:Slope", "out=paths.png"]) == 2
    assert "out=paths.png has no meaning for task=slope_env:Slope" in capsys.readouterr().err
    assert main(["eval", "checkpoint=runs/own", "task=slope_env:Slope", "compare=runs/own"]) == 2
    assert "compare=" in capsys.readouterr().err


def test_an_observation_unlike_its_spec_is_one_sentence(own_folder, capsys):
    source = (own_folder / "slope_env.py").read_text()
    assert source.count("self.x.clone()}") == 1
    (own_folder / "mistaken_env.py").write_text(source.replace("self.x.clone()}", "self.x[:, :0].clone()}"))
    assert main(["train", *OWN_RUN, "task=mistaken_env:Slope", "name=mistaken"]) == 2
    error = capsys.readouterr().err
    assert "'x' must be a tensor" in error and "as its spec says" in error and error.count("\n") == 1
    assert not (own_folder / "runs" / "mistaken").exists()
