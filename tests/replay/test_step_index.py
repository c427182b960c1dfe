"""The index of steps and pieces, and PrefixSum on it."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.replay import PrefixSum
from slipstream.replay.index import FINAL, NO_LINK, STARTS, StepIndex, make_pieces
from slipstream.storage.tensor_file import Reader


def append(index, lengths):
    lengths = np.asarray(lengths, np.int64)
    return index.append(make_pieces(lengths, lengths + 1, flags=STARTS))


def rows_of(index, steps):
    return index.windows(steps, 1)[1][:, 0]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=200), st.integers(100, 1000))
@settings(max_examples=50, deadline=None)
def test_prefix_sum_is_exact_after_any_eviction(lengths, most):
    prefix, kept = PrefixSum(most), []
    for length in lengths:
        while sum(kept) + length > most:
            kept.pop(0)
        kept.append(length)
        prefix.add(length)
    sums = [0, *np.cumsum(kept).tolist()]
    assert prefix.ar.tolist() == kept
    assert prefix.prefix_sum.tolist() == sums
    frames = np.arange(sums[-1])
    episodes = prefix.get_range_idx(frames)
    assert episodes.tolist() == [bisect.bisect_right(sums, f) - 1 for f in frames]
    assert prefix.get_range_relative_idx(frames, episodes).tolist() == [
        f - sums[e] for f, e in zip(frames, episodes, strict=True)
    ]


def test_prefix_sum_refuses_what_it_cannot_hold():
    prefix = PrefixSum(10)
    with pytest.raises(ValueError, match="give 1 to 10"):
        prefix.add(11)
    prefix.add(4)
    with pytest.raises(IndexError):
        prefix.get_range_idx(4)


def test_step_numbers_go_beyond_32_bits():
    index = StepIndex()
    pieces = np.array([[2**40, 2**41, NO_LINK, NO_LINK, FINAL | STARTS], [2**40 + 5, 2**41 + 6, 0, 0, 0]])
    index.restore(2**35, pieces, 6, Reader("it"))
    append(index, [100] * 50)
    steps = np.array([2**40, 2**40 + 4, 2**40 + 5, 2**40 + 105])
    assert rows_of(index, steps).tolist() == [2**41, 2**41 + 4, 2**41 + 6, 2**41 + 107]
    assert (index.tail, index.tail_step) == (2**35 + 51, 2**40 + 5005)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 150), min_size=1, max_size=30), st.integers(0, 40)), min_size=1, max_size=30
    )
)
@settings(max_examples=60, deadline=None)
def test_look_ups_agree_with_counting(batches):
    """Pieces without any step lie between the others, as final observations do."""
    index, rows, head = StepIndex(), [], 0  # rows[step]
    row = 0
    sizes = []
    for lengths, leave in batches:
        append(index, lengths)
        for length in lengths:
            rows += range(row, row + length)
            row += length + 1
            sizes.append(length)
        head = min(head + leave, len(sizes))
        index.evict(head)
        first = sum(sizes[:head])
        assert (index.head_step, index.tail_step) == (first, len(rows))
        steps = np.arange(first, len(rows))
        assert rows_of(index, steps).tolist() == rows[first:]


def test_adding_and_evicting_costs_memory_for_what_is_there_only():
    index = StepIndex()
    for _ in range(3000):
        append(index, [7] * 10)
        index.evict(max(0, index.tail - 100))
    assert index.nbytes < 20_000
