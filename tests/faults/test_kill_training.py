"""kill -9 of trainings with everything on: each resumes from its newest checkpoint and ends as if never killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_training.py")


@pytest.mark.parametrize("kills", [1, pytest.param(300, marks=pytest.mark.soak)])
def test_killed_trainings_resume_and_finish(tmp_path, kills):
    """In a process of its own: victims are forked from one that has no threads of other tests."""
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(kills), "1"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=7200)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
