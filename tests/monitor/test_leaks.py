"""Memory over a run: a planted leak is found, and a clean run, however noisy, is left in peace."""

from __future__ import annotations

import numpy as np
import pytest
from hand_clock import Clock
from helpers.memory import trim_heap

from slipstream.monitor import PerformanceMonitor
from slipstream.monitor.gauges import MAX_SAMPLES, Gauges, find_leak, memory_gauges

TIMES = np.arange(240.0)


def clean(seed: int) -> np.ndarray:
    """MB: 800 with noise of 20, an allocator that steps up at the start, a first evaluation in the middle, a sawtooth
    of garbage."""
    rng = np.random.default_rng(seed)
    x = 800 + 20 * rng.standard_normal(len(TIMES)) + 30 * (TIMES % 17) / 17
    x[:10] -= 400
    x[10:25] -= 150
    x[110:] += 120
    return x


@pytest.mark.parametrize("seed", range(5))
def test_a_clean_run_is_left_in_peace(seed):
    assert find_leak(TIMES, clean(seed), floor=16) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_planted_leak_is_found_under_the_same_noise(seed):
    rate = find_leak(TIMES, clean(seed) + 1.0 * TIMES, floor=16)
    assert rate is not None and 3600 <= rate < 3600 * 2  # 1 MB/s; the evaluation's step adds to the slope


def test_a_leak_that_goes_in_steps_is_found():
    assert find_leak(TIMES, 500 + 64 * (TIMES // 20), floor=16) is not None


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_single_steps_are_no_leak(steps):
    rng = np.random.default_rng(steps)
    for _ in range(50):
        x = 500 + rng.standard_normal(len(TIMES))
        for at in rng.integers(1, len(TIMES), steps):
            x[at:] += 200
        assert find_leak(TIMES, x, floor=16) is None


def test_growth_below_the_floor_and_too_few_samples_are_no_leak():
    slow = 500 + 10 * TIMES / 240
    assert find_leak(TIMES, slow, floor=16) is None
    assert find_leak(TIMES, slow + 10 * TIMES / 240, floor=1) is not None
    assert find_leak(TIMES[:30], 500 + 10 * TIMES[:30], floor=16) is None


def test_the_samples_of_a_gauge_span_the_run():
    gauges = Gauges()
    gauges.readers["x"] = lambda: 1.0
    for second in range(2000):
        gauges.sample(float(second))
    times_s = [sample[0] for sample in gauges.samples]
    assert len(times_s) < MAX_SAMPLES and times_s[0] == 0 and times_s[-1] > 1900
    assert set(np.diff(times_s)) == {16}


def test_gauges_are_read_once_a_second_and_leaks_reported(clock):
    monitor, held = PerformanceMonitor(clock=clock), [100.0]
    reads = []
    monitor.gauge("held_mb", lambda: reads.append(1) or held[0], leak_floor=16)
    monitor.gauge("queue/save", lambda: 2)
    for _ in range(400):
        clock.now_s += 0.25
        held[0] += 0.5
        monitor.tick()
    assert len(reads) == 100
    assert monitor.leaks() == {"held_mb": pytest.approx(2 * 3600, rel=0.02)}
    assert monitor.metrics()["queue/save"] == 2
    text = monitor.get_summary()
    assert "possible leak" in text and "held_mb grows by 7,2" in text


def leaks_of(held_mb, own_mb):
    """Which gauges a monitor calls leaks when memory is `held_mb(second)`, of which a store says that `own_mb(second)`
    are its own."""
    clock = Clock()
    monitor = PerformanceMonitor(clock=clock)
    monitor.store("replay_mb", lambda: own_mb(clock.now_s))
    monitor.gauge("rss_mb", lambda: held_mb(clock.now_s), leak_floor=16)
    clock.now_s = 0.0
    for _ in range(300):
        clock.now_s += 1
        monitor.tick()
    shown = monitor.metrics()
    assert (shown["replay_mb"], shown["rss_mb"]) == (own_mb(300), held_mb(300))  # as they are
    return list(monitor.leaks())


def test_a_buffer_that_fills_up_is_no_leak_if_its_size_is_known():
    assert leaks_of(lambda s: 500 + 4 * s, lambda s: 0.0) == ["rss_mb"]
    assert leaks_of(lambda s: 500 + 4 * s, lambda s: 4 * s) == []
    assert leaks_of(lambda s: 500 + 4.1 * s, lambda s: 4 * s) == []  # an allocator's rounding


def test_a_leak_beside_a_buffer_that_fills_up_is_found():
    assert leaks_of(lambda s: 500 + 5 * s, lambda s: 4 * s) == ["rss_mb"]


def test_a_gauge_that_fails_is_read_no_more_and_says_why(clock):
    monitor = PerformanceMonitor(clock=clock)
    monitor.gauge("queue", lambda: 1 / 0)
    for _ in range(3):
        clock.now_s += 1
        monitor.tick()
    assert "queue: ZeroDivisionError: division by zero" in monitor.get_summary()
    assert "queue" not in monitor.metrics()


def test_resident_memory_follows_what_is_allocated():
    read = memory_gauges()["rss_mb"]
    trim_heap()
    before = read()
    block = np.ones(64 * 2**20, np.uint8)
    assert 50 < read() - before < 100
    del block
