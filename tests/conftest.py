"""Set before torch is imported: two threads, and little spinning while they wait (see cli.py), whatever else the
machine does."""

import gc
import os

gc.disable()  # collecting the tests loads much that stays; see pytest_collection_finish
THREADS_GIVEN = "OMP_NUM_THREADS" in os.environ
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import pytest  # noqa: E402

# of several workers one begins with these, so that no long test is left for the end
SLOW_FIRST = [
    "test_train_ranks",
    "test_export",
    "test_sweep",
    "test_comparison",
    "test_docking",
    "test_play",
    "test_fuzz",
]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: SLOW_FIRST.index(item.path.stem) if item.path.stem in SLOW_FIRST else len(SLOW_FIRST))


def pytest_collection_finish(session):
    """Leave the modules of torch and the tests out of later garbage collections, each of which would take 0.3 s."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config, specs):
    """Give torch one thread in each worker: two in each of two workers take 1.7 times the CPU time on 2 cores. numba keeps
    two, so that its parallel loops are run by several."""
    if not THREADS_GIVEN:
        os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session", autouse=True)
def numba_has_started():
    """When numba starts its threads it changes torch's number: not in the middle of a test."""
    from slipstream.sim.devices import set_threads

    set_threads(0)


@pytest.fixture(autouse=True)
def same_number_of_threads():
    """A run with `threads=1` in one test must not change the last bits of what another test computes."""
    import torch  # not in the process that only gives tests to its workers

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
