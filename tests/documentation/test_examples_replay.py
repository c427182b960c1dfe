import os
import sys
from pathlib import Path

from helpers import warm_python

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_replay_example_draws_saves_and_loads(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / "replay_frames.py"), "--folder", str(tmp_path / "replay")]
    out = warm_python.run(command, check=True, env=env, timeout=300, capture_output=True, text=True).stdout
    assert "a slice of 10: (4, 10, 84, 84)" in out
    assert (tmp_path / "replay" / "replay.slip").exists()
    assert len((EXAMPLES / "replay_frames.py").read_text().splitlines()) < 60
