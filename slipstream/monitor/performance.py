"""PerformanceMonitor: how long each phase of a loop takes, what the learner waits for, how much memory is used."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock, get_ident
from typing import Any

from slipstream.monitor.gauges import LEAK_FLOOR_MB, Gauges, Read, is_cuda, memory_gauges
from slipstream.monitor.timers import DeviceTimers, Timer

LEARNER_STAGES = ("learn", "learning", "update", "train", "training", "policy_training")
METRICS_INTERVAL_S = 1.0  # how often `metrics` returns more than the means
PERCENTILES = (50, 90, 99)

Totals = defaultdict[str, float]


@dataclass(slots=True)
class Series:
    """The last durations of one name in ms, with the count and the sum of all."""

    last_ms: deque[float]
    count: int = 0
    total_ms: float = 0.0


@dataclass
class Iteration:
    """One iteration of the loop; times in seconds."""

    wall_s: float = 0.0
    host: Totals = field(default_factory=lambda: Totals(float))  # outermost timers of the learner's thread
    device: Totals = field(default_factory=lambda: Totals(float))  # those of its device, as they arrived
    counts: Totals = field(default_factory=lambda: Totals(float))


class PerformanceMonitor:
    """Named timers with rolling statistics, safe to share between threads.

        monitor = PerformanceMonitor()
        for batch in collector:
            with monitor.timer("learn"):
                algo.update(batch)
            monitor.tick(frames=batch.numel())
        print(monitor.get_summary())

    Timers nest, and an inner timer's time is also part of the outer one's: name it "outer/inner" to show this. On
    CUDA a timer measures the time to launch the work; `timer(name, device=...)` also measures the device's own
    time, as "name/device", without synchronizing.

    Args:
        history: Durations kept per name, the largest useful `window`.
        clock: Returns seconds.
        work: Stages in which the learner does its own work; all other stages are waits for it (`get_exposed`). The
            learner is the thread that calls `tick`.
    """

    def __init__(
        self,
        history: int = 1000,
        clock: Callable[[], float] = time.perf_counter,
        *,
        work: Iterable[str] = LEARNER_STAGES,
    ) -> None:
        if history < 1:
            raise ValueError(f"history={history} must be at least 1")
        self.clock, self.work = clock, frozenset(work)
        self.gauges = Gauges()
        self.lock = Lock()
        self.series: dict[str, Series] = defaultdict(lambda: Series(deque(maxlen=history)))
        self.device_timers = DeviceTimers()
        self.current = Iteration()  # written only by the learner's thread, counts under the lock
        self._iterations: deque[Iteration] = deque(maxlen=history)
        self._last_tick_s: float | None = None
        self._metrics_s = -math.inf
        self.learner = get_ident()  # the thread that ticks
        self.depth = 0  # timers running in that thread

    def timer(self, name: str, device: Any = None) -> Timer:
        """Time a `with` block, also one that raises.

        With a CUDA `device` the enclosed work is timed there as well. A timer object times one block at a time.
        """
        return Timer(self, name, device=device if is_cuda(device) else None)

    def record(self, name: str, duration_ms: float) -> None:
        """Add a duration that was measured elsewhere."""
        with self.lock:
            series = self.series[name]
            series.last_ms.append(duration_ms)
            series.count += 1
            series.total_ms += duration_ms

    def count(self, name: str, number: float) -> None:
        """Add to a count of this iteration (frames, episodes, bytes), from any thread."""
        with self.lock:
            self.current.counts[name] += number

    def tick(self, **counts: float) -> None:
        """End an iteration, in the learner's thread; `counts` are added as by `count`. The first tick only starts."""
        now, self.learner = self.clock(), get_ident()
        for name, number in counts.items():
            self.count(name, number)
        self._collect_device_times()
        with self.lock:
            ended, self.current = self.current, Iteration()
            if self._last_tick_s is not None:  # before the first tick the iteration is not complete
                ended.wall_s = now - self._last_tick_s
                self._iterations.append(ended)
            self._last_tick_s = now
        self.gauges.sample(now)

    def gauge(self, name: str, read: Read, leak_floor: float | None = None) -> None:
        """Read `read()` at ticks, at most once per second: the length of a queue, a temperature.

        With a `leak_floor`, in its own unit, steady growth beyond it is reported by `leaks()`. A gauge that raises is
        disabled and shown with its error.
        """
        self.gauges.readers[name] = read
        if leak_floor is not None:
            self.gauges.leak_floors[name] = leak_floor

    def watch_memory(self, device: Any = None) -> None:
        """Add gauges of this process's memory and of a CUDA device's, checked for leaks."""
        for name, read in memory_gauges(device).items():
            self.gauge(name, read, LEAK_FLOOR_MB)

    def store(self, name: str, read: Read) -> None:
        """Add a gauge of memory in MB that is expected to grow, such as a replay buffer's: the leak check subtracts it
        from the resident memory."""
        self.gauge(name, read)
        self.gauges.parts.append(name)

    def leaks(self) -> dict[str, float]:
        """Return the growth per hour of watched gauges that grow steadily, over all of the run but its first fifth."""
        return self.gauges.leaks()

    def get_stats(self, window: int = 100) -> dict[str, dict[str, float]]:
        """Return per name, in ms: mean, std, min, max, p50, p90, p99, last of the last `window` calls; count and total
        of all."""
        self._collect_device_times()
        _check_window(window)
        with self.lock:
            copies = {name: (list(s.last_ms)[-window:], s.count, s.total_ms) for name, s in self.series.items()}
        return {name: _describe(*copy) for name, copy in copies.items()}

    def get_exposed(self, window: int = 100) -> dict[str, dict[str, float]]:
        """Return per stage how long the learner waited for it: `ms` per iteration and `share` of it, over `window`
        ticks.

        The learner's own work (`work`) is not exposed. All other stages of its thread are, those of other threads are
        not. Where `timer(..., device=...)` times a device, that device is the learner: its time in other stages is
        exposed, and its idle time as "host". Uncovered time is "other".
        """
        self._collect_device_times()
        with self.lock:
            iterations, wall_s = self._last_iterations(window)
            on_device = any(one.device for one in iterations)
            totals = _sum(one.device if on_device else one.host for one in iterations)
        if wall_s <= 0:
            return {}
        totals["host" if on_device else "other"] += max(wall_s - sum(totals.values()), 0.0)
        ordered = sorted(totals.items(), key=lambda item: -item[1])
        return {
            name: {"ms": 1e3 * seconds / len(iterations), "share": seconds / wall_s}
            for name, seconds in ordered
            if name not in self.work
        }

    def get_throughput(self, window: int = 100) -> dict[str, float]:
        """Return what was counted, per second, over the last `window` iterations, and `iterations` itself."""
        with self.lock:
            iterations, wall_s = self._last_iterations(window)
            totals = _sum(one.counts for one in iterations) | {"iterations": len(iterations)}
        return {name: total / wall_s for name, total in totals.items()} if wall_s > 0 else {}

    def get_summary(self, window: int = 100) -> str:
        """Return the statistics as text: one line per timer, then throughput, waits, gauges and leaks."""
        rows = [
            (name, f"{s['mean']:7.2f} ms (±{s['std']:6.2f} ms) [{s['min']:6.2f}, {s['max']:6.2f}]")
            for name, s in self.get_stats(window).items()
        ]
        if throughput := self.get_throughput(window):
            waits = self.get_exposed(window).items()
            rows.append(("throughput", ", ".join(f"{rate:,.1f} {name}/s" for name, rate in throughput.items())))
            text = ", ".join(f"{name} {100 * wait['share']:.1f} % ({wait['ms']:.2f} ms)" for name, wait in waits)
            rows.append(("learner waited for", text))
        if values := dict(self.gauges.values):
            rows.append(("gauges", ", ".join(f"{name} {value:,.0f}" for name, value in values.items())))
        rows += [("gauge disabled", f"{name}: {error}") for name, error in dict(self.gauges.errors).items()]
        rows += [("possible leak", f"{name} grows by {rate:,.0f} per hour") for name, rate in self.leaks().items()]
        return "\n".join(["=== Performance Summary ===", *(f"{name:<25}: {text}" for name, text in rows)])

    def metrics(self, window: int = 100) -> dict[str, float]:
        """Return numbers for a log, once per iteration.

        The mean of each timer every time; at most once per second, from the second tick on, also percentiles, exposed
        waits, rates, gauges and the number of leaks.
        """
        stats = self.get_stats(window)
        numbers = {name: s["mean"] for name, s in stats.items()}
        now = self.clock()
        if not self._iterations or now - self._metrics_s < METRICS_INTERVAL_S:
            return numbers
        self._metrics_s = now
        numbers |= {f"{name}_p{q}": s[f"p{q}"] for name, s in stats.items() if "/" not in name for q in PERCENTILES}
        numbers |= {f"wait/{name}": wait["share"] for name, wait in self.get_exposed(window).items()}
        numbers |= {f"{name}_per_s": rate for name, rate in self.get_throughput(window).items()}
        return numbers | self.gauges.values | {"leaks": float(len(self.leaks()))}

    def _collect_device_times(self) -> None:
        if get_ident() == self.learner:
            for name, ms, outermost in self.device_timers.collect():
                self.record(f"{name}/device", ms)
                if outermost:
                    self.current.device[name] += ms / 1e3

    def _last_iterations(self, window: int) -> tuple[list[Iteration], float]:
        """Return the last iterations and their time in all, in seconds."""
        _check_window(window)
        iterations = list(islice(reversed(self._iterations), window))
        return iterations, sum(one.wall_s for one in iterations)


def _check_window(window: int) -> None:
    if window < 1:
        raise ValueError(f"window={window} must be at least 1")


def _sum(parts: Iterable[Totals]) -> Totals:
    totals = Totals(float)
    for part in parts:
        for name, number in part.items():
            totals[name] += number
    return totals


def _describe(durations_ms: list[float], count: int, total_ms: float) -> dict[str, float]:
    """Return the statistics of a timer; numpy would take three times as long for a hundred numbers."""
    n, ordered = len(durations_ms), sorted(durations_ms)
    mean = sum(ordered) / n

    def percentile(q: float) -> float:
        at = q / 100 * (n - 1)
        below = int(at)
        return ordered[below] + (at - below) * (ordered[min(below + 1, n - 1)] - ordered[below])

    ends = {"mean": mean, "std": math.dist(ordered, [mean] * n) / math.sqrt(n), "min": ordered[0], "max": ordered[-1]}
    percentiles = {f"p{q}": percentile(q) for q in PERCENTILES}
    return {**ends, **percentiles, "last": durations_ms[-1], "count": count, "total": total_ms}
