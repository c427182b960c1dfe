"""Timers, and what the learner stood still for and how much was done a second: on a clock that the tests move by hand."""

from __future__ import annotations

import threading

import pytest
from hand_clock import Clock

from slipstream.monitor import PerformanceMonitor


@pytest.fixture
def monitor(clock: Clock) -> PerformanceMonitor:
    monitor = PerformanceMonitor(clock=clock)
    monitor.tick()
    return monitor


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


def in_a_thread(function) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_in_one_thread_every_stage_but_the_learning_is_exposed(monitor, clock):
    for _ in range(2):
        with monitor.timer("collect"):
            clock.pass_ms(30)
        with monitor.timer("learn"):
            clock.pass_ms(50)
        clock.pass_ms(20)
        monitor.tick()
    assert monitor.get_exposed() == {
        "collect": pytest.approx({"ms": 30, "share": 0.3}),
        "other": pytest.approx({"ms": 20, "share": 0.2}),
    }


def test_a_stage_of_another_thread_is_not_exposed(monitor, clock):
    def collect_elsewhere() -> None:
        with monitor.timer("collect"):
            clock.pass_ms(40)

    with monitor.timer("learn"):
        in_a_thread(collect_elsewhere)  # 40 ms, hidden behind the learning
        clock.pass_ms(20)
    with monitor.timer("wait"):
        clock.pass_ms(10)
    monitor.tick()
    assert monitor.get_exposed()["wait"] == pytest.approx({"ms": 10, "share": 10 / 70})
    assert set(monitor.get_exposed()) == {"wait", "other"}
    assert monitor.get_stats()["collect"]["last"] == pytest.approx(40)


def test_an_inner_timer_is_not_charged_twice(monitor, clock):
    with monitor.timer("evaluate"):
        with monitor.timer("evaluate/fly"):
            clock.pass_ms(30)
        clock.pass_ms(10)
    monitor.tick()
    assert monitor.get_exposed()["evaluate"]["ms"] == pytest.approx(40) and "evaluate/fly" not in monitor.get_exposed()


def test_the_thread_that_ticks_is_the_learner(monitor, clock):
    def learner() -> None:
        monitor.tick()
        with monitor.timer("collect"):
            clock.pass_ms(10)
        monitor.tick()

    in_a_thread(learner)
    assert monitor.get_exposed(window=1)["collect"]["ms"] == pytest.approx(10)


def test_what_is_the_learners_work_can_be_said(clock):
    monitor = PerformanceMonitor(clock=clock, work=["optimize"])
    monitor.tick()
    for name in ("optimize", "learn"):
        with monitor.timer(name):
            clock.pass_ms(5)
    monitor.tick()
    assert "learn" in monitor.get_exposed() and "optimize" not in monitor.get_exposed()


def test_the_window_counts_and_no_time_before_the_first_tick(clock):
    monitor = PerformanceMonitor(clock=clock)
    with monitor.timer("compile"):
        clock.pass_ms(1000)
    monitor.tick(frames=5)
    for ms in (100, 10, 30):
        with monitor.timer("collect"):
            clock.pass_ms(ms)
        monitor.tick(frames=8)
    assert monitor.get_exposed(window=2)["collect"]["ms"] == pytest.approx(20)
    assert "compile" not in monitor.get_exposed()
    assert monitor.get_throughput(window=2) == pytest.approx({"iterations": 50, "frames": 400})


def test_counts_come_from_any_thread(monitor, clock):
    in_a_thread(lambda: [monitor.count("bytes", 25) for _ in range(4)])
    clock.pass_ms(500)
    monitor.tick(frames=3)
    assert monitor.get_throughput() == pytest.approx({"iterations": 2, "bytes": 200, "frames": 6})


def test_before_the_first_iteration_there_is_nothing(clock):
    monitor = PerformanceMonitor(clock=clock)
    assert monitor.get_exposed() == {} and monitor.get_throughput() == {}
    monitor.tick()
    assert monitor.get_exposed() == {} and monitor.get_throughput() == {}


def test_the_log_gets_means_always_and_the_rest_once_a_second(monitor, clock):
    found = []
    for _ in range(4):
        with monitor.timer("learn"):
            clock.pass_ms(400)
        monitor.tick(frames=4)
        found.append(monitor.metrics())
    assert all(one["learn"] == pytest.approx(400) for one in found)
    assert [("wait/other" in one, "learn_p99" in one, "frames_per_s" in one) for one in found] == [
        (True,) * 3,
        (False,) * 3,
        (False,) * 3,
        (True,) * 3,
    ]
    assert found[0]["frames_per_s"] == pytest.approx(10)
