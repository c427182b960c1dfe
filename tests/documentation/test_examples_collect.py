"""The examples of pipelined and compressed collecting run, and stay short."""

import os
import sys
from pathlib import Path

import pytest
from helpers import warm_python

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "said", "needs"),
    [
        ("pipelined_plain_loop", "weights 1 update old", None),
        ("pipelined_torchrl", "collected with the weights of 1 updates", "torchrl"),
        ("compressed_plain_loop", "1.8 MB in 0.", None),
        ("compressed_torchrl", "features [512, 32]", "torchrl"),
    ],
)
def test_the_example_runs_and_is_short(name, said, needs):
    if needs:
        pytest.importorskip(needs)
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    path = EXAMPLES / f"{name}.py"
    out = warm_python.run(
        [sys.executable, str(path), "3"], check=True, env=env, timeout=300, capture_output=True, text=True
    )
    assert said in out.stdout
    assert len(path.read_text().splitlines()) < 60
