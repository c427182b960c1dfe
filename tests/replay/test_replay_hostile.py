"""Replay state with changed index arrays is refused or harmless: it never crashes or hangs the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from slipstream import ReplayBuffer
from slipstream.storage.errors import TooLargeError

SCRIPT = Path(__file__).with_name("hostile_replay.py")
REFUSED = (
    "float",
    "int32",
    "16 bytes",
    "shorter",
    "longer",
    "axes",
    "axis",
    "itself",
    "circle",
    "NaN",
    "stream",
    "round",
)
MAY_LOAD = ("head ", "link [", "back [", "flags [", "priorities [", "all alike")


@pytest.fixture(scope="module")
def outcomes():
    """{case: refused, drawn or an error}, of all cases in one process of their own."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "finished", f"it ended with {done.returncode} at {lines[-1:]}"
    return dict(line.removeprefix("end ").split("\t") for line in lines if line.startswith("end "))


def test_no_changed_array_crashes_or_hangs(outcomes):
    assert len(outcomes) > 300
    assert set(outcomes.values()) == {"refused", "drawn"}


def test_changed_arrays_are_refused(outcomes):
    loaded = [name for name, outcome in outcomes.items() if outcome == "drawn"]
    assert [name for name in loaded if not name.startswith(MAY_LOAD) and "all alike" not in name] == []
    assert [name for name in loaded if any(word in name for word in REFUSED)] == []
    assert sum(outcome == "refused" for outcome in outcomes.values()) > 280


@pytest.mark.parametrize("storage", ["cpu", "ring"])
def test_a_folder_larger_than_max_bytes_is_refused(tmp_path, storage):
    saved, loaded = (ReplayBuffer(4096, storage=storage) for _ in range(2))
    seen, ends = torch.rand(4, 257, 64), torch.zeros(4, 256, dtype=torch.bool)
    ends = {"terminated": ends, "truncated": ends, "done": ends, "valid": ~ends}
    after = {"observation": {"x": seen[:, 1:]}}
    saved.extend({"observation": {"x": seen[:, :-1]}, "reward": torch.rand(4, 256), "next": after, **ends})
    saved.save(tmp_path)
    with pytest.raises(TooLargeError, match="max_bytes"):
        loaded.load(tmp_path, max_bytes=100_000)
    assert len(loaded) == 0
    assert len(loaded.load(tmp_path, max_bytes=64 << 20)) == len(saved) > 1000
