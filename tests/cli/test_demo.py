"""slipstream demo: flights before and after a training, in one process and in two."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

TINY = shlex.split("""
    env.num_envs=8 env.num_worlds=8 env.map_half_m=2 env.num_obstacles=3 env.decision_interval=20
    algo.rollout_steps=8 algo.minibatches=4 algo.epochs=1 model.part=8 model.trunk=[16] eval.num_drones=1
    eval.max_steps=60 eval.map_seeds=[301] eval_interval=0 max_time_s=0 wandb.mode=disabled name=small
""")


def demo(folder, threads, *words):
    env = {**os.environ, "OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    command = [sys.executable, "-m", "slipstream", "demo", *TINY, f"root={folder}", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(("threads", "more", "ranks"), [("2", [], 2), ("1", [], 1), ("2", ["gpus=1"], 1)])
def test_the_demo_trains_in_two_processes_if_there_are_two_cores(tmp_path, threads, more, ranks):
    done = demo(tmp_path, threads, f"total_frames={2 * 64 * ranks}", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (f"{ranks} ranks" in done.stdout) == (ranks > 1)
    assert f"training: {8 * ranks} drones over {8 * ranks} other maps" in done.stdout
    assert {"learning.png", "flight.html", "paths.png"} <= {path.name for path in (tmp_path / "small").iterdir()}


def test_a_training_that_fails_in_its_processes_ends_the_demo(tmp_path):
    done = demo(tmp_path, "2", "total_frames=64", "name=a/b")
    assert done.returncode == 2
    assert "a/b" in done.stderr and "after:" not in done.stdout
