"""CPU threads: OpenMP's spinning is bounded at import, and each thread has the numbers that it was given."""

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


def program(code: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=True
    )


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
    done = program(CODE.format(first=first), env)
    # one thread more than cores, of which one is the keeper: libgomp then spins 100 times
    added = 1 if more_threads else -len(os.sched_getaffinity(0))
    assert (done.stdout.split(), done.stderr) == ([spins, str(added)], "")


STARTING = """
import torch
torch.set_num_threads({before})
torch.get_num_threads()  # only then numba finds something to change
from slipstream.sim.devices import set_threads
set_threads({count})
import numba
import numpy as np

@numba.njit(parallel=True)
def add(x):
    for i in numba.prange(len(x)):
        x[i] += 1

add(np.zeros(8))
print(torch.get_num_threads(), numba.get_num_threads())
"""


BESIDE = """
import threading
import numba
import torch
from slipstream.sim.devices import set_threads, threads_here
set_threads(1)
give = threads_here()

def look():
    give()
    print(torch.get_num_threads(), numba.get_num_threads())

thread = threading.Thread(target=look)
thread.start()
thread.join()
"""


def run(code: str) -> list[str]:
    return program(code, {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}).stdout.split()


def test_numba_starting_its_threads_does_not_change_torchs():
    assert run(STARTING.format(before=2, count=1)) == ["1", "1"]
    assert run(STARTING.format(before=1, count=0)) == ["1", "2"]  # both keep their own number


def test_a_thread_gets_the_cpu_threads_of_its_starter():
    assert run(BESIDE) == ["1", "1"]
