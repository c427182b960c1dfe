"""The examples of a user's own env, agent and reward, and of SB3 on images, at a small size."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from helpers import warm_python

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(tmp_path, name, *words):
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / name), *words]
    done = warm_python.run(command, env=env, cwd=tmp_path, timeout=600, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_own_env_from_training_to_onnx(tmp_path):
    pytest.importorskip("onnxruntime")
    out = run(tmp_path, "own_env.py", "--frames", "65536")
    assert "distance" in out and list(tmp_path.glob("runs/*/policy.onnx"))
    assert float(re.search(r"the cart is ([\d.]+) m", out).group(1)) < 0.5


def test_own_agent_and_reward_fly_and_train(tmp_path):
    out = run(tmp_path, "own_agent.py", "--frames", "4096")
    won, lost = map(int, re.search(r"pursuit: (\d+) won, (\d+) lost", out).groups())
    assert won + lost > 10 and list(tmp_path.glob("runs/*/checkpoints/ckpt_*"))


def test_sb3_learns_from_images_in_less_memory(tmp_path):
    pytest.importorskip("stable_baselines3")
    out = run(tmp_path, "sb3_images.py", "--steps", "700")
    ours, theirs = map(float, re.search(r"in ([\d.]+) MB; SB3's own buffer: ([\d.]+) MB", out).groups())
    assert ours < 0.4 * theirs and "caught" in out
