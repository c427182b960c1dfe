import os
import subprocess
import sys

CODE = """
import torch
torch.set_num_threads(2)
torch.get_num_threads()  # only then numba finds something to change
from slipstream.devices import set_threads
set_threads(1)
import numba
import numpy as np

@numba.njit(parallel=True)
def add(x):
    for i in numba.prange(len(x)):
        x[i] += 1

add(np.zeros(8))
print(torch.get_num_threads(), numba.get_num_threads())
"""


def test_numba_starting_its_threads_does_not_change_torchs():
    env = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["1", "1"]
