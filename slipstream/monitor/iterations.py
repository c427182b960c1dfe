"""What the iterations of a loop were made of: time, counts, and for what the learner stood still."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

OTHER = "other"  # time of an iteration that no timer covers
HOST = "host"  # time in which a device that learns had nothing to do


@dataclass
class Iteration:
    """One iteration, in seconds."""

    wall_s: float = 0.0
    line: dict[str, float] = field(default_factory=dict)  # outermost timers of the learner's thread, waits taken out
    waits: dict[str, float] = field(default_factory=dict)  # what that thread waited for
    device: dict[str, float] = field(default_factory=dict)  # outermost timers of the learner's device, as they arrived
    counts: dict[str, float] = field(default_factory=dict)


class Iterations:
    """The last iterations. The one that runs is `now`; only the learner's thread writes to it."""

    def __init__(self, history: int) -> None:
        self.done: deque[Iteration] = deque(maxlen=history)
        self.now = Iteration()
        self.count = 0

    def close(self, wall_s: float | None) -> None:
        """Ends the iteration; None forgets it: what comes before the first tick is not a whole one."""
        ended, self.now = self.now, Iteration()
        if wall_s is not None:
            ended.wall_s = wall_s
            self.done.append(ended)
            self.count += 1

    def last(self, window: int) -> list[Iteration]:
        """The last `window` iterations."""
        return list(islice(reversed(self.done), window))


def exposed(iterations: Iterable[Iteration], work: Iterable[str]) -> dict[str, dict[str, float]]:
    """Per stage: ms an iteration in which the learner stood still for it, and the share of the iteration; the longest first.

    `work` is what the learner does itself. Where stages were timed on its device, the device is the learner: what else it
    runs is exposed, and so is its idle time (`host`). Else the learner is the thread: its waits are exposed, and all that
    it does besides its work.
    """
    iterations = list(iterations)
    wall_s = sum(one.wall_s for one in iterations)
    if not iterations or wall_s <= 0:
        return {}
    own = set(work)
    found: dict[str, float] = {}
    covered = 0.0
    on_device = any(one.device for one in iterations)
    for one in iterations:
        parts = [one.device] if on_device else [one.line, one.waits]
        for part in parts:
            for name, seconds in part.items():
                covered += seconds
                if name not in own or part is one.waits:
                    found[name] = found.get(name, 0.0) + seconds
    rest = max(wall_s - covered, 0.0)
    found[HOST if on_device else OTHER] = found.get(HOST if on_device else OTHER, 0.0) + rest
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {name: {"ms": 1e3 * seconds / len(iterations), "share": seconds / wall_s} for name, seconds in ordered}


def rates(iterations: Iterable[Iteration]) -> dict[str, float]:
    """What was counted, per second; `iterations` is always there."""
    iterations = list(iterations)
    wall_s = sum(one.wall_s for one in iterations)
    if not iterations or wall_s <= 0:
        return {}
    totals: dict[str, float] = {"iterations": float(len(iterations))}
    for one in iterations:
        for name, count in one.counts.items():
            totals[name] = totals.get(name, 0.0) + count
    return {name: total / wall_s for name, total in totals.items()}
