import os
import subprocess
import sys

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
    env = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=True
    ).stdout.split()


def test_numba_starting_its_threads_does_not_change_torchs():
    assert run(STARTING.format(before=2, count=1)) == ["1", "1"]
    assert run(STARTING.format(before=1, count=0)) == ["1", "2"]  # both keep their own number


def test_a_thread_gets_the_cpu_threads_of_its_starter():
    assert run(BESIDE) == ["1", "1"]
