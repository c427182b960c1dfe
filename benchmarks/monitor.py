"""The accuracy of the monitor (a known sleep, wait, CUDA kernel and leak), and its cost.

python benchmarks/monitor.py [--device cuda]
"""

from __future__ import annotations

import argparse
import queue
import statistics
import threading
import time
import timeit
from collections import deque
from contextlib import contextmanager

import numpy as np

from slipstream.monitor import PerformanceMonitor

ROUNDS = 100_000


def measure_timer_cost(timer, number: int) -> float:
    rounds = timeit.repeat("with timer('x'): pass", globals={"timer": timer}, repeat=5, number=number)
    return statistics.median(rounds) / number


def known_sleep() -> None:
    monitor, direct = PerformanceMonitor(), []
    for _ in range(100):
        start = time.perf_counter()
        with monitor.timer("sleep"):
            time.sleep(0.005)
        direct.append(1e3 * (time.perf_counter() - start))
    stats = monitor.get_stats()["sleep"]
    print(
        f"a sleep of 5 ms           the clock around it: median {statistics.median(direct):.4f} ms, the timer: p50 {stats['p50']:.4f} ms"
    )


def known_wait() -> None:
    """A worker that needs 8 ms per batch beside a learner that needs 5: the learner waits for 3."""
    monitor, batches = PerformanceMonitor(), queue.Queue(maxsize=1)

    def collect() -> None:
        for _ in range(100):
            with monitor.timer("collect"):
                time.sleep(0.008)
            batches.put(None)

    worker = threading.Thread(target=collect)
    worker.start()
    for _ in range(100):
        with monitor.timer("wait"):
            batches.get()
        with monitor.timer("learn"):
            time.sleep(0.005)
        monitor.tick(batches=1)
    worker.join()
    exposed, stats = monitor.get_exposed(), monitor.get_stats()
    expected = stats["collect"]["mean"] - stats["learn"]["mean"]
    found = exposed["wait"]["ms"]
    print(
        f"8 ms beside 5 ms          expected wait {expected:.2f} ms (the means' difference), exposed {found:.2f} ms an iteration"
    )


def planted_leak() -> None:
    """On a clock 200 times as fast, so that a minute of samples takes a third of a second."""
    for name, leak_mb in (("clean", 0), ("leaking 1 MB a tick", 1)):
        monitor = PerformanceMonitor(clock=lambda: 200 * time.perf_counter())
        monitor.watch_memory()
        rng, kept = np.random.default_rng(0), []
        garbage: deque[np.ndarray] = deque(maxlen=3)
        for _ in range(240):
            garbage.append(np.ones(int(rng.uniform(1, 20) * 2**20), np.uint8))  # noise that comes and goes
            if leak_mb:
                kept.append(np.ones(leak_mb * 2**20, np.uint8))
            time.sleep(0.006)
            monitor.tick()
        found = [f"{rate:,.0f} MB per hour" for rate in monitor.leaks().values()]
        print(f"{name:<25} {'leak: ' + found[0] if found else 'no leak'}")


@contextmanager
def plain_timer(durations: list[float]):
    """A timer as a generator with a context manager around it: what it is compared to."""
    start = time.perf_counter()
    try:
        yield
    finally:
        durations.append(time.perf_counter() - start)


def cost() -> None:
    def peer_s() -> float:
        durations: list[float] = []
        start = time.perf_counter()
        for _ in range(ROUNDS // 10):
            with plain_timer(durations):
                pass
        return (time.perf_counter() - start) / (ROUNDS // 10)

    monitor = PerformanceMonitor()
    rows = [(measure_timer_cost(monitor.timer, ROUNDS // 10), peer_s()) for _ in range(5)]
    for name, values in zip(("of the monitor", "@contextmanager alone"), zip(*rows, strict=True), strict=True):
        print(
            f"a timer, {name:<24} {1e6 * statistics.median(values):.2f} us (of five: {', '.join(f'{1e6 * v:.2f}' for v in values)})"
        )
    for names in (3, 8):
        monitor = PerformanceMonitor()
        for _ in range(200):
            for name in range(names):
                monitor.record(str(name), 1.0)
        start = time.perf_counter()
        for _ in range(200):
            monitor.get_stats()
        print(f"get_stats, {names} names         {1e6 * (time.perf_counter() - start) / 200:.0f} us")


def cuda_kernel() -> None:
    import torch

    monitor, direct = PerformanceMonitor(), []
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    pairs = []
    for _ in range(100):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        with monitor.timer("kernel", "cuda"):
            torch.cuda._sleep(5_000_000)
        end.record()
        pairs.append((start, end))
        monitor.tick()
    torch.cuda.synchronize()
    direct = [start.elapsed_time(end) for start, end in pairs]
    stats = monitor.get_stats()
    print(
        f"a kernel, 100 times       own events: {statistics.median(direct):.4f} ms, the timer: {stats['kernel/device']['p50']:.4f} ms"
    )
    print(
        f"the host meanwhile        {1e3 * stats['kernel']['p50']:.1f} us a launch, its events included: it never waited"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    known_sleep()
    known_wait()
    planted_leak()
    cost()
    if args.device.startswith("cuda"):
        cuda_kernel()
