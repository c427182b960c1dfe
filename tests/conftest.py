"""Set before torch is imported: two threads, and little spinning while they wait (see cli.py), whatever else the
machine does."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import pytest  # noqa: E402
import torch  # noqa: E402

# of several workers one begins with these, so that no long test is left for the end
SLOW_FIRST = (
    "test_train_ranks",
    "test_export",
    "test_sweep",
    "test_comparison",
    "test_docking",
    "test_play",
    "test_fuzz",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: SLOW_FIRST.index(item.path.stem) if item.path.stem in SLOW_FIRST else len(SLOW_FIRST))


@pytest.fixture(autouse=True)
def same_number_of_threads():
    """A run with `threads=1` in one test must not change the last bits of what another test computes."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
