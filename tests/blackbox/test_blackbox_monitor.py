"""The monitor: timers, statistics, the summary, throughput, exposed waits."""

from __future__ import annotations

import threading
import time

import pytest

from slipstream import PerformanceMonitor


def test_a_timer_times_what_the_clock_says():
    monitor = PerformanceMonitor()
    for _ in range(4):
        with monitor.timer("sleep"):
            time.sleep(0.01)
    stats = monitor.get_stats()["sleep"]
    assert stats["count"] == 4 and 10.0 <= stats["min"] <= stats["p50"] <= stats["max"]
    assert stats["min"] <= stats["mean"] <= stats["max"] and stats["total"] == pytest.approx(4 * stats["mean"])
    assert {"mean", "std", "min", "max", "p50", "p90", "p99", "last", "count", "total"} <= set(stats)


def test_statistics_are_those_of_the_last_calls():
    now = [0.0]
    monitor = PerformanceMonitor(clock=lambda: now[0])
    for seconds in (0.1, 0.001, 0.002, 0.003):
        with monitor.timer("work"):
            now[0] += seconds
    stats = monitor.get_stats(window=3)["work"]
    assert (
        stats["mean"] == pytest.approx(2.0)
        and stats["max"] == pytest.approx(3.0)
        and stats["last"] == pytest.approx(3.0)
    )
    assert stats["count"] == 4 and stats["total"] == pytest.approx(106.0)
    assert monitor.get_stats()["work"]["max"] == pytest.approx(100.0)


def test_timers_nest_decorate_and_survive_exceptions_and_threads():
    monitor = PerformanceMonitor()

    @monitor.timer("outer")
    def work():
        with monitor.timer("outer/inner"):
            return 5

    assert work() == 5
    with pytest.raises(KeyError), monitor.timer("failing"):
        raise KeyError
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    stats = monitor.get_stats()
    assert (stats["outer"]["count"], stats["outer/inner"]["count"], stats["failing"]["count"]) == (2, 2, 1)
    assert stats["outer"]["total"] >= stats["outer/inner"]["total"]


def test_the_summary_has_a_line_for_every_name():
    monitor = PerformanceMonitor()
    for name in ("policy_training", "evaluation", "checkpoint_save"):
        with monitor.timer(name):
            pass
    summary = monitor.get_summary()
    assert summary.splitlines()[0] == "=== Performance Summary ==="
    for name in ("policy_training", "evaluation", "checkpoint_save"):
        line = next(line for line in summary.splitlines() if line.startswith(name))
        assert "ms (±" in line and "[" in line and "]" in line


def test_throughput_counts_and_what_the_learner_waited_for():
    now = [0.0]
    monitor = PerformanceMonitor(clock=lambda: now[0])
    for _ in range(5):
        with monitor.timer("collect"):
            now[0] += 0.3
        with monitor.timer("learn"):
            now[0] += 0.1
        now[0] += 0.1
        monitor.tick(frames=100)
    rate = monitor.get_throughput()
    assert next(value for name, value in rate.items() if "frames" in name) == pytest.approx(200.0)
    exposed = monitor.get_exposed()
    assert exposed["collect"]["ms"] == pytest.approx(300.0) and exposed["collect"]["share"] == pytest.approx(0.6)
    assert exposed["other"]["share"] == pytest.approx(0.2) and "learn" not in exposed
    assert monitor.metrics()["collect"] == pytest.approx(300.0)


def test_gauges_and_turning_it_off():
    now = [0.0]
    monitor = PerformanceMonitor(clock=lambda: now[0])
    monitor.gauge("queue", lambda: 3)
    for _ in range(3):
        now[0] += 2.0
        monitor.tick(frames=1)
    assert monitor.metrics()["queue"] == 3 and monitor.leaks() == []
    off = PerformanceMonitor(enabled=False)
    with off.timer("x"):
        pass
    off.tick(frames=1)
    assert off.get_stats() == {}
