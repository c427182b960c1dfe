"""Whoever opens a batch, torch's threads, helpers of our own or the caller alone: it is the same batch."""

import os
import threading

import numpy as np
import pytest
import torch

from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec.gather import GatherPool, torch_team
from slipstream.storage.codec.registry import memory_at

POOLS = {"torch's": lambda: GatherPool(4, torch_team()), "own": lambda: GatherPool(3), "alone": lambda: GatherPool(1)}


def filled(pool):
    frames = (np.arange(600)[:, None, None] * np.ones((40, 40), np.int64) % 251).astype(np.uint8)
    column = BlockColumn((40, 40), np.uint8)
    column.coder._pool = pool
    column.append(frames)
    column.flush()
    return column, frames


@pytest.mark.parametrize("kind", POOLS)
def test_every_kind_of_thread_opens_the_same_batch(kind):
    column, frames = filled(POOLS[kind]())
    rows = np.random.default_rng(0).integers(0, 600, 1000)
    out = np.empty((1000, 40, 40), np.uint8)
    for _ in range(20):
        out.fill(255)
        torch.randn(400, 400).sum()  # torch's threads come from other work
        column.gather(rows, out)
        assert np.array_equal(out, frames[rows])


@pytest.mark.parametrize("kind", POOLS)
def test_python_threads_may_open_batches_at_once(kind):
    column, frames = filled(POOLS[kind]())
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        out = np.empty((500, 40, 40), np.uint8)
        for _ in range(30):
            rows = rng.integers(0, 600, 500)
            column.gather(rows, out)
            if not np.array_equal(out, frames[rows]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_team_and_does_without():
    pool = POOLS["torch's"]()
    column, frames = filled(pool)
    out = np.empty((600, 40, 40), np.uint8)
    column.gather(np.arange(600), out)  # the team exists in the parent
    child = os.fork()
    if child == 0:
        out.fill(0)
        column.gather(np.arange(600), out)
        os._exit(0 if np.array_equal(out, frames) and not pool._has_team() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_damaged_group_is_told_by_the_team_too():
    column, _ = filled(POOLS["torch's"]())
    address = int(column._table.index[0][0])
    block = memory_at(address, 4096)
    block[2000] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        column.gather(np.arange(600), np.empty((600, 40, 40), np.uint8))
