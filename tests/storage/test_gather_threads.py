"""A batch decoded by several threads, by several at once, and in a forked child."""

import os

import numpy as np
import pytest
import torch
from block_columns import column

from slipstream.storage.codec import block_coder


@pytest.fixture
def filled(monkeypatch):
    monkeypatch.setattr(block_coder, "_LEAST_SHARED", 1)
    frames = (np.arange(600)[:, None, None] * np.ones((40, 40), np.int64) % 251).astype(np.uint8)
    with column((40, 40), "uint8") as held:
        held.append(frames)
        held.flush()
        yield held, frames


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_decodes_the_same_batch(filled, threads, monkeypatch):
    held, frames = filled
    monkeypatch.setattr(held.coder._kernels, "team_size", lambda: threads)
    rows = np.random.default_rng(0).integers(0, 600, 1000)
    out = np.empty((1000, 40, 40), np.uint8)
    for _ in range(20):
        out.fill(255)
        torch.randn(400, 400).sum()  # torch's threads come from other work
        held.gather(rows, out)
        assert np.array_equal(out, frames[rows])


def test_decoding_leaves_the_numbers_of_threads_alone(filled):
    import numba

    held, frames = filled
    before = torch.get_num_threads(), numba.get_num_threads()
    held.gather(np.arange(600), np.empty_like(frames))
    assert (torch.get_num_threads(), numba.get_num_threads()) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_decodes_alone(filled):
    held, frames = filled
    out = np.empty_like(frames)
    held.gather(np.arange(600), out)  # the threads exist in the parent
    child = os.fork()
    if child == 0:
        out.fill(0)
        held.gather(np.arange(600), out)
        os._exit(0 if np.array_equal(out, frames) and held.coder._kernels.team_size() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_damage_found_by_any_thread_is_an_error(filled):
    held, _ = filled
    held.view().blocks[0].data[2000] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        held.gather(np.arange(600), np.empty((600, 40, 40), np.uint8))
