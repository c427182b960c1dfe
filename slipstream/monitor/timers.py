"""PerformanceMonitor: how long each phase of a loop takes, what the learner waits for, how much memory it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from slipstream.monitor import report
from slipstream.monitor.device_events import Event, is_cuda
from slipstream.monitor.gauges import LEAK_FLOOR_MB, Gauges, Read, memory_gauges
from slipstream.monitor.iterations import Iterations, exposed, rates
from slipstream.monitor.ledger import Ledger
from slipstream.monitor.spans import NOTHING, DeviceTimer, Idle, Timer, cost_of_a_timer_s
from slipstream.monitor.statistics import describe
from slipstream.monitor.trend import Leak

WORK = ("learn", "learning", "update", "train", "training", "policy_training")
METRICS_S = 1.0  # how often `metrics` tells more than the means


class PerformanceMonitor(Ledger):
    """Named timers with rolling statistics, safe to share between threads.

        monitor = PerformanceMonitor()
        for batch in collector:
            with monitor.timer("learn"):
                algo.update(batch)
            monitor.tick(frames=batch.numel())
        print(monitor.get_summary())

    Timers nest, and an inner timer's time is also in the outer one's; name it "outer/inner", so that readers who add phases
    up can tell. On CUDA a timer holds the time to launch the work, unless what it encloses reads something back;
    `timer(name, device=...)` also has the device's own time, as "name/device", without ever waiting for it.

    `clock` gives seconds. `history` is how many of the last durations each name keeps, the largest useful `window`.
    `work` names the stages in which the learner does its own work; in all others it stands still (`get_exposed`). The learner
    is the thread that makes the monitor, or calls `bind_learner()` later. `enabled=False` turns timers, ticks and waits into
    nothing; it can be changed at any time. `events` makes the device's events, for tests.
    """

    def __init__(
        self,
        history: int = 1000,
        clock: Callable[[], float] = time.perf_counter,
        *,
        work: Iterable[str] = WORK,
        enabled: bool = True,
        events: Callable[[Any], Event] | None = None,
    ) -> None:
        super().__init__(history, clock, enabled, events)
        self.work = frozenset(work)
        self.gauges = Gauges()
        self._report_s = 0.0  # spent in reports and gauges
        self._timer_cost_s: float | None = None
        self._ticked_s: float | None = None
        self._told_s: float | None = None
        self._start_over()

    # -- timing ------------------------------------------------------------------------------------------------------

    def timer(self, name: str, device: Any = None) -> Timer | Idle:
        """Times a `with` block, or every call of the function it decorates; one that raises is timed too.

        With a CUDA `device` the work enclosed is timed there as well. A timer object times one block at a time.
        """
        if not self.enabled:
            return NOTHING
        return Timer(self, name) if device is None or not is_cuda(device) else DeviceTimer(self, name, device)

    def wait(self, name: str) -> Timer | Idle:
        """Times a block, or a function, in which the calling thread does nothing but wait for the stage `name`, done elsewhere.

        It is recorded as "name/wait"; in the learner's thread it counts as exposed, whatever timer is around it.
        """
        return Timer(self, name, True) if self.enabled else NOTHING

    def count(self, name: str, number: float) -> None:
        """Adds to what this iteration has done: frames, episodes, bytes; from any thread."""
        if self.enabled:
            with self.lock:
                counts = self.iterations.now.counts
                counts[name] = counts.get(name, 0.0) + number

    def tick(self, **counts: float) -> None:
        """Ends an iteration, in the learner's thread; `counts` are added as by `count`. The first one only starts the count."""
        if not self.enabled:
            return
        now = self.clock()
        for name, number in counts.items():
            self.count(name, number)
        self._poll()
        with self.lock:
            self.iterations.close(None if self._ticked_s is None else now - self._ticked_s)
            self._ticked_s = now
        if self.gauges.sample(now):
            self._report_s += self.clock() - now

    # -- gauges ------------------------------------------------------------------------------------------------------

    def gauge(self, name: str, read: Read, leak_floor: float | None = None) -> None:
        """Reads `read()` at ticks, at most once a second: the length of a queue, a temperature.

        With a `leak_floor`, in its own unit, steady growth beyond it is told by `leaks()`. A gauge that raises is read no more
        and shown with its error.
        """
        self.gauges.add(name, read, leak_floor)

    def watch_memory(self, device: Any = None) -> None:
        """Gauges of this process's memory and of a CUDA device's, watched for leaks."""
        for name, read in memory_gauges(device).items():
            self.gauge(name, read, LEAK_FLOOR_MB)

    def store(self, name: str, read: Read, of: str = "rss_mb") -> None:
        """A gauge of memory that is meant to grow until it is full, as a replay buffer's: taken off the gauge `of` before that is judged.

        `read()` gives what is held by now, in the unit of that gauge.
        """
        self.gauge(name, read)
        self.gauges.parts.setdefault(of, set()).add(name)

    def leaks(self) -> list[Leak]:
        """Watched gauges that grow steadily, over all of the run but its first fifth."""
        return self.gauges.leaks()

    # -- what was found ----------------------------------------------------------------------------------------------

    def get_stats(self, window: int = 100) -> dict[str, dict[str, float]]:
        """Per name, in ms: mean, std, min, max, p50, p90, p99 and last of the last `window` calls; count and total of all since `reset`."""
        self._check_window(window)
        began = self.clock()
        self._poll()
        with self.lock:
            copies = {name: (s.newest(window), s.count, s.total_ms) for name, s in self.series.items() if s.count}
        found = {name: describe(*copy) for name, copy in copies.items()}
        self._report_s += self.clock() - began
        return found

    def get_exposed(self, window: int = 100) -> dict[str, dict[str, float]]:
        """Per stage: how long the learner stood still for it, `ms` an iteration and as `share` of the iteration, over `window` ticks.

        The learner's own work (`work`) is not exposed. Of its thread's other stages all their time is; of a stage that another
        thread does, what is spent in `wait(name)`. Where `timer(..., device=...)` times a device, that device is the learner: the
        time it runs other stages is exposed, and the time it has nothing to do, as "host". The rest is "other".
        """
        self._check_window(window)
        self._poll()
        with self.lock:
            return exposed(self.iterations.last(window), self.work)

    def get_throughput(self, window: int = 100) -> dict[str, float]:
        """What was counted, per second, over the last `window` iterations; `iterations` among it."""
        self._check_window(window)
        with self.lock:
            return rates(self.iterations.last(window))

    def get_summary(self, window: int = 100) -> str:
        """The statistics as text, one line a name: mean, standard deviation, [min, max]; what is known beyond it, below."""
        text = report.timings(self.get_stats(window))
        throughput = self.get_throughput(window)
        if throughput:
            text += report.standing(throughput, self.get_exposed(window))
        text += report.gauges(self.gauges.values(), self.gauges.errors(), self.leaks())
        if throughput:
            text += report.own_cost(self.overhead())
        return "\n".join(text)

    def metrics(self, window: int = 100, stats: dict[str, dict[str, float]] | None = None) -> dict[str, float]:
        """Numbers for a log, once an iteration: the mean of each timer; once a second also percentiles, exposed waits, gauges, overhead.

        These come from the second tick on, when there is a whole iteration.
        `stats` is what `get_stats` gave, where it was called anyway.
        """
        stats = self.get_stats(window) if stats is None else stats
        found = {name: s["mean"] for name, s in stats.items()}
        now = self.clock()
        if not self.iterations.count or (self._told_s is not None and now - self._told_s < METRICS_S):
            return found
        self._told_s = now
        found |= report.percentiles(stats)
        found |= {f"wait/{name}": wait["share"] for name, wait in self.get_exposed(window).items()}
        found |= {f"{name}_per_s": rate for name, rate in self.get_throughput(window).items()}
        found |= self.gauges.values() | {"leaks": float(len(self.leaks()))}
        self._report_s += self.clock() - now
        return found | {"overhead": self.overhead()["share"]}

    def overhead(self) -> dict[str, float]:
        """What the monitor itself costs: `timer_us` as measured here, `timers` and `ms` an iteration, `share` of all the time.

        Without ticks, `timers` and `ms` are those of all the time.
        """
        if self._timer_cost_s is None:
            self._timer_cost_s = cost_of_a_timer_s(PerformanceMonitor().timer)
        with self.lock:
            timers = sum(s.count for s in self.series.values())
        iterations = max(self.iterations.count, 1)
        device_s = self._device.spent_s if self._device else 0.0
        spent_s = timers * self._timer_cost_s + self._report_s + device_s
        gone_s = self.clock() - self._began_s
        return {
            "timer_us": 1e6 * self._timer_cost_s,
            "timers": timers / iterations,
            "ms": 1e3 * spent_s / iterations,
            "share": spent_s / gone_s if gone_s > 0 else 0.0,
        }

    def reset(self) -> None:
        """Forgets everything measured so far; gauges stay. A timer that is running still records when it ends."""
        with self.lock:
            self.series.clear()
            self._start_over()
        self.gauges.forget()

    def _start_over(self) -> None:
        self.iterations = Iterations(self._history)
        self._ticked_s = self._told_s = None
        self._report_s = 0.0
        self._began_s = self.clock()

    @staticmethod
    def _check_window(window: int) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
