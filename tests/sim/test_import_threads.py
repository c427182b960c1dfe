"""Importing slipstream bounds the spinning of OpenMP's threads, before torch or after it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys
import {first}
tasks = len(os.listdir("/proc/self/task"))
import slipstream
print(os.environ.get("GOMP_SPINCOUNT"), len(os.listdir("/proc/self/task")) - tasks - len(os.sched_getaffinity(0)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
@pytest.mark.parametrize(
    ("first", "given", "spins", "more_threads"),
    [
        ("argparse", {}, "1000", False),
        ("torch", {}, "1000", True),
        ("torch", {"GOMP_SPINCOUNT": "5"}, "5", False),
        ("torch", {"OMP_WAIT_POLICY": "passive"}, "None", False),
    ],
)
def test_waiting_is_short_in_any_order_of_imports(first, given, spins, more_threads):
    env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    env |= {"OMP_NUM_THREADS": "2"} | given
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(first=first)], env=env, capture_output=True, text=True, check=True
    )
    # one thread more than cores, of which one is the keeper: libgomp then spins 100 times
    added = 1 if more_threads else -len(os.sched_getaffinity(0))
    assert (done.stdout.split(), done.stderr) == ([spins, str(added)], "")
