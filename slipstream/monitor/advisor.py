"""Advisor: try changes of a configuration in alternating pairs with the present state, and keep what is faster.

It knows nothing of training. For a loop of your own write a probe, which opens configurations, and questions:

    Advisor(probe, [Question("workers", lambda s: 2 * s.setting("workers"))]).advise()
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

MIN_GAIN = 1.02  # a smaller gain is not worth a change
PAIRS = 10  # to win nine of ten happens 1 time in 93 by chance; one hiccup of the machine does not decide
LOST = 1  # pairs that an advised change may lose
PROFILE_RUNS = 3  # before any change
ADVISED, WITHDRAWN, NOT_TRIED, KEEP = "advised", "withdrawn", "not tried", "keep"


@dataclass(frozen=True)
class Sample:
    """One timed run."""

    frames: float
    seconds: float
    exposed: Mapping[str, float] = field(default_factory=dict)  # per stage: share of the time the learner waits for it

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds


class Trial(Protocol):
    """A configuration that is set up and warm."""

    def run(self, seconds: float) -> Sample:
        """Run for about `seconds`, at least one iteration."""

    def close(self) -> None:
        """Free what it holds."""


class Probe(Protocol):
    """Opens the user's configuration with changes."""

    def open(self, overrides: Mapping[str, Any]) -> Trial:
        """Set up a trial; raise if that is impossible."""

    def setting(self, key: str) -> Any:
        """Return the user's value of `key`; None if there is no such key."""


class Keep(str):
    """The answer of a question that proposes nothing: the reason."""


@dataclass(frozen=True)
class Situation:
    """What a question looks at: the present state, with the advice taken so far."""

    setting: Callable[[str], Any]  # by key
    exposed: Mapping[str, float]  # shares of an iteration
    trial: Trial


@dataclass(frozen=True)
class Question:
    """One key, and a function that returns the value to try or `Keep(why)`."""

    key: str
    propose: Callable[[Situation], Any]
    learning: str = ""  # how the change affects what is learned; empty: not at all
    only_shown: bool = False  # a faster value is not yet a better one: it is measured, but the user decides
    set_up_s: float = 0.0  # known time before the first run


@dataclass
class Finding:
    """The answer to a question. `gain` is the median of the pairs' ratios, between `low` and `high`."""

    key: str
    before: Any
    value: Any
    verdict: str
    why: str = ""
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    learning: str = ""
    only_shown: bool = False


@dataclass
class Report:
    """The result of `Advisor.advise`."""

    rate: float  # frames per second before any change
    exposed: dict[str, float]
    bottleneck: str
    findings: list[Finding]
    together: float | None = None  # the gain of all advice at once over the original configuration
    seconds: float = 0.0

    @property
    def overrides(self) -> dict[str, Any]:
        """Key and value of all advice."""
        return {finding.key: finding.value for finding in self.findings if finding.verdict == ADVISED}


class Advisor:
    """Answer questions about a configuration by measuring, in their order.

    A change runs in ten alternating pairs with the present state. It is advised if it wins nine of them and the median
    of the ratios is at least 1.02; then it becomes the present state. It is withdrawn after the second pair it loses.

    Args:
        probe: Opens configurations.
        questions: The changes to consider.
        seconds: About how long it may take; a change that has no time is not tried.
        clock: Returns the time in seconds.
        log: Called with one line per event.
    """

    def __init__(
        self,
        probe: Probe,
        questions: Sequence[Question],
        seconds: float = 60.0,
        clock: Callable[[], float] = time.perf_counter,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        if seconds <= 0:
            raise ValueError(f"seconds={seconds:g} must be above 0")
        self.probe, self.questions, self.seconds, self._clock, self._log = probe, list(questions), seconds, clock, log
        self._run_s = min(seconds / (12 * PAIRS), 1.0)  # a change with all its pairs takes a sixth of the time

    def advise(self) -> Report:
        """Profile the configuration, measure the changes, and return the report."""
        start_s, changes, findings = self._clock(), dict[str, Any](), list[Finding]()
        trial = self.probe.open({})
        change_s = self._clock() - start_s  # of the last change, or at first of setting up
        try:
            samples = [trial.run(self._run_s) for _ in range(PROFILE_RUNS)]
            exposed = {name: statistics.mean(s.exposed.get(name, 0.0) for s in samples) for name in samples[0].exposed}
            rate = statistics.median(sample.rate for sample in samples)
            change_s += 2 * PAIRS * max(sample.seconds for sample in samples)
            self._log(f"unchanged: {rate:,.0f} frames/s")
            for question in self.questions:
                began_s, key = self._clock(), question.key
                now = changes.get(key, self.probe.setting(key))
                value = question.propose(Situation(lambda k: changes.get(k, self.probe.setting(k)), exposed, trial))
                finding = Finding(
                    key, now, value, NOT_TRIED, "", learning=question.learning, only_shown=question.only_shown
                )
                findings.append(finding)
                if isinstance(value, Keep):
                    finding.value, finding.verdict, finding.why = now, KEEP, str(value)
                elif (enough_s := began_s - start_s + question.set_up_s + change_s) > self.seconds:
                    finding.why = f"no time is left: give seconds={math.ceil(enough_s)}"
                else:
                    trial = self._try(finding, trial, changes)
                    change_s = max(change_s, self._clock() - began_s)
            together = self._measure_together(trial, findings)
        finally:
            trial.close()
        return Report(rate, exposed, bottleneck(exposed), findings, together, self._clock() - start_s)

    def _try(self, finding: Finding, present: Trial, changes: dict[str, Any]) -> Trial:
        """Compare a change with the present state; return the one that stays open."""
        self._log(f"trying {finding.key}={finding.value}")
        changed: Trial | None = None
        try:
            changed = self.probe.open(changes | {finding.key: finding.value})
            ratios = self._compare(present, changed)
        except Exception as error:
            finding.why = f"fails here: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            finding.verdict, won = WITHDRAWN, False
        else:
            finding.gain, finding.low, finding.high = statistics.median(ratios), min(ratios), max(ratios)
            won = finding.gain >= MIN_GAIN and sum(ratio <= 1 for ratio in ratios) <= LOST
            finding.verdict = ADVISED if won else WITHDRAWN
        self._log(f"  {finding.verdict}: {finding.why or f'{finding.gain:.2f} ×'}")
        if won and changed is not None:
            changes[finding.key] = finding.value
            present, changed = changed, present
        if changed is not None:
            changed.close()
        return present

    def _compare(self, first: Trial, second: Trial, lost: int = LOST) -> list[float]:
        """Return the ratios of the rates, `second` to `first`. The order alternates, so that a drift hits both."""
        ratios: list[float] = []
        while len(ratios) < PAIRS and sum(ratio <= 1 for ratio in ratios) <= lost:
            order = (first, second) if len(ratios) % 2 else (second, first)
            rates = {id(trial): trial.run(self._run_s).rate for trial in order}
            ratios.append(rates[id(second)] / rates[id(first)])
        return ratios

    def _measure_together(self, trial: Trial, findings: list[Finding]) -> float | None:
        """Return the gain of all advice over the original configuration; of a single advice it is its own."""
        gains = [finding.gain for finding in findings if finding.verdict == ADVISED]
        if len(gains) < 2:
            return gains[0] if gains else None
        original = self.probe.open({})
        try:
            return statistics.median(self._compare(original, trial, lost=PAIRS))
        finally:
            original.close()


def bottleneck(exposed: Mapping[str, float]) -> str:
    """Return what the learner waits for most, as a sentence."""
    learning = max(1 - sum(exposed.values()), 0.0)
    if not exposed or learning >= max(exposed.values()):
        return f"the learning itself: {100 * learning:.0f} % of an iteration"
    name, share = max(exposed.items(), key=lambda item: item[1])
    return f"{name}: the learner waits for it {100 * share:.0f} % of an iteration"
