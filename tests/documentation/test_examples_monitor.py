import os
import sys
from pathlib import Path

import pytest
from helpers import warm_python

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(script, *arguments, cwd):
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    return warm_python.run(command, check=True, env=env, cwd=cwd, timeout=120, capture_output=True, text=True).stdout


def test_the_plain_loop_says_what_the_learner_waited_for(tmp_path):
    out = run("monitor_plain_loop.py", "--steps", "40", cwd=tmp_path)
    assert "learner waited for" in out and "load/wait" in out and "samples/s" in out


def test_the_torchrl_loop_writes_its_figures_for_tensorboard(tmp_path):
    pytest.importorskip("torchrl")
    pytest.importorskip("gymnasium")
    out = run("monitor_torchrl.py", "--batches", "3", "--folder", "run", cwd=tmp_path)
    assert "collect" in out and "checkpoint_save" in out and "frames/s" in out
    assert list((tmp_path / "run").glob("events.*"))


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("monitor_*.py")), ids=lambda p: p.name)
def test_monitor_examples_are_short(example):
    assert len(example.read_text().splitlines()) < 60
