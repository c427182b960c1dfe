"""The native kernels read and write nothing outside of their buffers. Mutated blocks: the target `block` of the fuzzer."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("guard.py")


def run(word):
    return subprocess.run([sys.executable, str(SCRIPT), word], capture_output=True, text=True, timeout=900)


def test_the_guard_ends_a_process_that_reads_one_byte_too_far():
    assert run("over-read").returncode == -signal.SIGSEGV


@pytest.mark.parametrize("count", [3000, pytest.param(300_000, marks=pytest.mark.soak)])
def test_kernels_stay_within_their_buffers(count):
    done = run(str(count))
    assert done.returncode == 0 and done.stdout.endswith("finished\n"), (done.returncode, done.stderr[-500:])
