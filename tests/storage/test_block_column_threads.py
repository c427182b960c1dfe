"""A column while many threads read and write it."""

import threading

import numpy as np
import pytest
from block_columns import column, read


@pytest.mark.parametrize("seconds", [1.0, pytest.param(60.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("group", [1, 4])
def test_four_threads_gather_while_one_appends_evicts_and_blocks_are_sealed(seconds, group):
    """Row r holds the number r in every word: a torn or wrong frame shows."""
    words = 2000
    held = column((words,), "int64", codec="lz4", group=group, block_rows=16)
    failures: list[BaseException] = []
    stop = threading.Event()
    reads = [0] * 4

    def write():
        try:
            while not stop.is_set():
                start = held.tail
                held.append(np.repeat(np.arange(start, start + 37)[:, None], words, 1))
                held.evict(max(0, held.tail - 400))
        except BaseException as error:
            failures.append(error)

    def gather(k: int):
        rng = np.random.default_rng(k)
        out = np.empty((64, words), np.int64)
        try:
            while not stop.is_set():
                low, high = held.head, held.tail
                rows = rng.integers(low, high, 64) if high > low else np.empty(0, np.int64)
                if not rows.size:
                    continue
                try:
                    held.gather(rows, out)
                except IndexError:
                    assert held.head > low  # evicted between the look and the call
                    continue
                assert (out == rows[:, None]).all()
                reads[k] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write), *(threading.Thread(target=gather, args=(k,)) for k in range(4))]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures, failures
    assert all(reads), reads
    held.flush()
    rows = np.arange(held.head, held.tail)
    assert (read(held, rows) == rows[:, None]).all()
    assert held.nbytes < 2 * 8 * words * 500
    held.close()
