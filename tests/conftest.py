"""Set before torch is imported: two threads, and little spinning while they wait (see cli.py), whatever else the
machine does."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def same_number_of_threads():
    """A run with `threads=1` in one test must not change the last bits of what another test computes."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
