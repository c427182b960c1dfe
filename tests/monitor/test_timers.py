"""Contracts of PerformanceMonitor, on a clock that the tests move by hand."""

from __future__ import annotations

import threading

import pytest
from hand_clock import Clock

from slipstream.monitor import PerformanceMonitor


@pytest.fixture
def monitor(clock: Clock) -> PerformanceMonitor:
    return PerformanceMonitor(clock=clock)


def record(monitor: PerformanceMonitor, clock: Clock, name: str, *durations_ms: float) -> None:
    for ms in durations_ms:
        with monitor.timer(name):
            clock.pass_ms(ms)


def test_statistics_are_those_of_the_durations_in_milliseconds(monitor, clock):
    record(monitor, clock, "learn", 2, 4, 4, 4, 5, 5, 7, 9)  # mean 5, population deviation 2
    expected = {"mean": 5, "std": 2, "min": 2, "max": 9, "last": 9, "count": 8, "total": 40}
    expected |= {"p50": 4.5, "p90": 7.6, "p99": 8.86}
    assert monitor.get_stats()["learn"] == pytest.approx(expected)


def test_a_window_limits_all_but_count_and_total(clock):
    monitor = PerformanceMonitor(history=2, clock=clock)
    record(monitor, clock, "learn", 100, 10, 20)
    stats = monitor.get_stats(window=100)["learn"]
    assert [stats[name] for name in ("mean", "max", "count", "total")] == pytest.approx([15, 20, 3, 130])
    assert monitor.get_stats(window=1)["learn"]["p50"] == pytest.approx(20)


def test_a_decorated_function_is_timed_at_every_call(monitor, clock):
    @monitor.timer("descend")
    def descend(depth: int) -> int:
        clock.pass_ms(1)
        return depth and descend(depth - 1)

    assert descend(2) == 0
    descend(0)
    stats = monitor.get_stats()["descend"]
    assert stats["count"] == 4
    assert stats["total"] == pytest.approx(3 + 2 + 1 + 1)


def test_a_block_that_raises_is_timed(monitor, clock):
    with pytest.raises(RuntimeError, match="broken"), monitor.timer("learn"):
        clock.pass_ms(3)
        raise RuntimeError("broken")
    assert monitor.get_stats()["learn"]["last"] == pytest.approx(3)


def test_threads_that_share_a_name_lose_no_call(monitor):
    def work() -> None:
        for _ in range(500):
            with monitor.timer("shared"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        monitor.get_stats()
    assert monitor.get_stats()["shared"]["count"] == 2000


def test_summary_has_the_documents_form(monitor, clock):
    record(monitor, clock, "policy_training", 40, 50)
    record(monitor, clock, "evaluation", 110.23, 145.67)
    record(monitor, clock, "checkpoint_save", 0.7, 1.2)
    assert monitor.get_summary() == (
        "=== Performance Summary ===\n"
        "policy_training          :   45.00 ms (±  5.00 ms) [ 40.00,  50.00]\n"
        "evaluation               :  127.95 ms (± 17.72 ms) [110.23, 145.67]\n"
        "checkpoint_save          :    0.95 ms (±  0.25 ms) [  0.70,   1.20]"
    )


def test_a_window_of_nothing_is_refused(monitor):
    with pytest.raises(ValueError, match="at least 1"):
        monitor.get_stats(window=0)
