"""Device times by events: recorded, read when they have come to pass, never waited for."""

from __future__ import annotations

import contextlib
import threading

import pytest
import torch
from hand_clock import Clock

from slipstream.monitor import PerformanceMonitor
from slipstream.monitor.timers import MAX_PENDING

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Device:
    """A device that works off its stream when a test says so. Time is what the enqueued work takes."""

    def __init__(self) -> None:
        self.queued_ms = self.done_ms = 0.0
        self.made = 0

    def event(self, enable_timing):
        self.made += 1
        return Event(self)

    def enqueue(self, ms: float) -> None:
        self.queued_ms += ms

    def work_off(self) -> None:
        self.done_ms = self.queued_ms


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device

    def record(self, stream=None) -> None:
        self.at_ms = self.device.queued_ms

    def query(self) -> bool:
        return self.at_ms <= self.device.done_ms

    def elapsed_time(self, end) -> float:
        assert self.query() and end.query(), "asked before it came to pass: a real event raises here"
        return end.at_ms - self.at_ms


@pytest.fixture
def device(monkeypatch) -> Device:
    device = Device()
    monkeypatch.setattr(torch.cuda, "Event", device.event)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return device


@pytest.fixture
def monitor(clock: Clock) -> PerformanceMonitor:
    return PerformanceMonitor(clock=clock)


def test_device_time_arrives_when_the_work_is_done(monitor, device):
    with monitor.timer("learn", "cuda:0"):
        device.enqueue(12)
    assert "learn/device" not in monitor.get_stats()
    device.work_off()
    assert monitor.get_stats()["learn/device"]["last"] == pytest.approx(12)
    assert monitor.get_stats()["learn"]["count"] == 1


def test_a_lagging_device_makes_nobody_wait(monitor, device):
    for _ in range(MAX_PENDING + 20):
        with monitor.timer("learn", "cuda"):
            device.enqueue(1)
        monitor.get_stats()
    assert device.made == 2 * MAX_PENDING
    device.work_off()
    assert monitor.get_stats()["learn/device"]["count"] == MAX_PENDING


def test_a_timed_device_is_the_learner(monitor, device, clock):
    monitor.tick()
    for _ in range(4):
        with monitor.timer("collect", "cuda"):
            device.enqueue(20)
        with monitor.timer("learn", "cuda"), monitor.timer("learn/forward", "cuda"):
            device.enqueue(50)
        with monitor.timer("read back"):
            clock.now_s += 0.100
        device.work_off()
        monitor.tick()
    exposed = monitor.get_exposed()
    assert exposed == {
        "host": pytest.approx({"ms": 30, "share": 0.3}),
        "collect": pytest.approx({"ms": 20, "share": 0.2}),
    }


def test_only_the_learners_thread_asks_the_events(monitor, device):
    with monitor.timer("learn", "cuda"):
        device.enqueue(1)
    device.work_off()
    found = []
    thread = threading.Thread(target=lambda: found.append(monitor.get_stats()))
    thread.start()
    thread.join()
    assert "learn/device" not in found[0] and "learn/device" in monitor.get_stats()


@pytest.mark.gpu
@needs_gpu
def test_a_known_kernel_on_a_real_device():
    monitor = PerformanceMonitor()
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        with monitor.timer("sleep", "cuda"):
            torch.cuda._sleep(20_000_000)
        end.record()
        torch.cuda.synchronize()
        assert monitor.get_stats()["sleep/device"]["last"] == pytest.approx(start.elapsed_time(end), rel=0.05)
    assert monitor.get_stats()["sleep"]["max"] < monitor.get_stats()["sleep/device"]["min"]  # nobody waited


@pytest.mark.gpu
@needs_gpu
def test_a_timer_inside_of_a_capture_is_not_captured():
    monitor, x = PerformanceMonitor(), torch.ones(8, device="cuda")
    with monitor.timer("warm", "cuda"):
        x.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), monitor.timer("inside", "cuda"):
        x.add_(1)
    with monitor.timer("replay", "cuda"):
        graph.replay()
    torch.cuda.synchronize()
    stats = monitor.get_stats()
    assert "inside/device" not in stats and stats["replay/device"]["count"] == 1
