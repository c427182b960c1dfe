import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch
from helpers import warm_python

from slipstream.checkpoint import load_checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(script, *arguments, cwd):
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    return warm_python.run(command, check=True, env=env, cwd=cwd, timeout=120, capture_output=True, text=True).stdout


def test_the_plain_loop_saves_and_resumes_to_the_same_weights(tmp_path):
    run("checkpoint_plain_loop.py", "--steps", "120", "--folder", "whole", cwd=tmp_path)
    run("checkpoint_plain_loop.py", "--steps", "60", "--folder", "parts", cwd=tmp_path)
    assert "saved" in run("checkpoint_plain_loop.py", "--steps", "120", "--folder", "parts", cwd=tmp_path)
    whole, parts = (load_checkpoint(tmp_path / name)["model"] for name in ("whole", "parts"))
    assert all(torch.equal(whole[k], parts[k]) for k in whole)


def test_the_callback_example_runs(tmp_path):
    out = run("checkpoint_callback.py", cwd=tmp_path)
    if importlib.util.find_spec("stable_baselines3") is None:
        pytest.skip("Stable-Baselines3 is not installed")
    assert "latest.pt.slip" in out


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("checkpoint_*.py")), ids=lambda p: p.name)
def test_checkpoint_examples_are_short(example):
    assert len(example.read_text().splitlines()) < 60
