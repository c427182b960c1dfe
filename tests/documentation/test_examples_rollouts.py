import os
import sys
from pathlib import Path

import pytest
from helpers import warm_python

from slipstream import RolloutStorage

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("name", "batches"), [("rollouts_plain_loop.py", 10), ("rollouts_torchrl.py", 10)])
def test_the_example_saves_and_reads(tmp_path, name, batches):
    if "torchrl" in name:
        pytest.importorskip("torchrl")
        pytest.importorskip("gymnasium")
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / name), "--folder", str(tmp_path / "kept")]
    warm_python.run(command, check=True, env=env, timeout=300, capture_output=True)
    with RolloutStorage(tmp_path / "kept") as storage:
        assert len(storage) == batches
        assert all(list(storage.file(i).damaged()) == [] for i in storage.iterations())
    assert len((EXAMPLES / name).read_text().splitlines()) < 60
