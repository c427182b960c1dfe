"""Small files that would take gigabytes or hours are refused in a moment, within the budget."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("bombs.py")
REFUSED = {"TooLargeError", "DamagedFileError", "CorruptCheckpointError", "ConfigError", "OSError"}
BUDGET_MB = 256
CASES = SCRIPT.read_text().count("\n@case\n")


@pytest.fixture(scope="module")
def outcomes():
    """{case: its line}, of all cases in one process with a limited address space."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=900)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(lines) == 2 * CASES, (done.returncode, lines[-1:], done.stderr[-300:])
    return {line["end"]: line for line in lines if "end" in line}


def test_bombs_are_refused(outcomes):
    wrong = {name: line for name, line in outcomes.items() if line["outcome"] not in REFUSED}
    assert wrong == {}


def test_bombs_stay_within_the_budget(outcomes):
    assert {name: line["grown_mb"] for name, line in outcomes.items() if line["grown_mb"] > BUDGET_MB + 64} == {}


def test_the_refusal_is_one_sentence(outcomes):
    for name, line in outcomes.items():
        assert "\n" not in line["message"] and "\x1b" not in line["message"] and len(line["message"]) < 500, name
