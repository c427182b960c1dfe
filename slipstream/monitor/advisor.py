"""Advisor: try changes of a configuration in alternating pairs with the present state, and keep what is faster.

It knows nothing of training. For a loop of your own write a function that opens a configuration, and questions:

    Advisor(open_trial, [Question("workers", lambda now, trial: 2 * now)]).advise()
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIN_GAIN = 1.02  # a smaller gain is not worth a change
PAIRS = 10  # to win nine of ten happens 1 time in 93 by chance; one hiccup of the machine does not decide
LOST = 1  # pairs that an advised change may lose
ADVISED, WITHDRAWN, NOT_TRIED, KEEP = "advised", "withdrawn", "not tried", "keep"


class Keep(str):
    """The answer of a question that proposes nothing: the reason."""


@dataclass(frozen=True)
class Question:
    """One key, and a function of its value and the present trial that returns the value to try or `Keep(why)`."""

    key: str
    propose: Callable[[Any, Any], Any]
    learning: str = ""  # how the change affects what is learned; empty: not at all
    only_shown: bool = False  # a faster value is not yet a better one: it is measured, but the user decides
    min_gain: float = MIN_GAIN
    repeat: bool = False  # ask again after each change that is advised


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
    findings: list[Finding]
    seconds: float = 0.0

    @property
    def overrides(self) -> dict[str, Any]:
        """Key and value of all advice."""
        return {finding.key: finding.value for finding in self.findings if finding.verdict == ADVISED}

    @property
    def together(self) -> float:
        """The gain of all advice: each was measured on top of the advice before it."""
        return math.prod(finding.gain or 1.0 for finding in self.findings if finding.verdict == ADVISED)


class Advisor:
    """Answer questions about a configuration by measuring, in their order.

    A change runs in alternating pairs with the present state. It is advised if it wins all but one of them and the
    median of the ratios is at least 1.02; then it becomes the present state. It is withdrawn after the second pair it
    loses.

    Args:
        open_trial: Sets up the configuration with changes (key: value); raises if that is impossible. A trial has
            `setting(key)`, which returns the value of a key; `run(seconds)`, which runs for about so long, at least one
            iteration, and returns the frames per second; and `close()`.
        questions: The changes to consider.
        seconds: About how long it may take; a change that has no time is not tried.
        pairs: Of runs per change.
        run_s: Length of a run; by default a change with all its pairs takes a sixth of `seconds`.
        clock: Returns the time in seconds.
        log: Called with one line per event.
    """

    def __init__(
        self,
        open_trial: Callable[[Mapping[str, Any]], Any],
        questions: Sequence[Question],
        seconds: float = 60.0,
        *,
        pairs: int = PAIRS,
        run_s: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        if seconds <= 0:
            raise ValueError(f"seconds={seconds:g} must be above 0")
        self.questions, self.seconds, self.pairs = questions, seconds, pairs
        self._open, self._clock, self._log = open_trial, clock, log
        self._run_s = run_s or min(seconds / (12 * pairs), 1.0)

    def advise(self) -> Report:
        """Measure the changes, and return the report."""
        report, began_s = Report(0.0, []), self._clock()
        self._present = self._open({})
        change_s = self._clock() - began_s + 2 * self.pairs * self._run_s  # of setting up and measuring a change
        try:
            report.rate = self._present.run(self._run_s)
            self._log(f"unchanged: {report.rate:,.0f} frames/s")
            for question in self.questions:
                again = True
                while again:
                    now, asked_s = self._present.setting(question.key), self._clock()
                    value = question.propose(now, self._present)
                    finding = Finding(question.key, now, value, NOT_TRIED)
                    finding.learning, finding.only_shown = question.learning, question.only_shown
                    if isinstance(value, Keep):
                        finding.value, finding.verdict, finding.why = now, KEEP, str(value)
                    elif asked_s - began_s + change_s > self.seconds:
                        finding.why = f"no time is left: give seconds={math.ceil(asked_s - began_s + change_s)}"
                    else:
                        self._try(finding, report.overrides, question.min_gain)
                        change_s = max(change_s, self._clock() - asked_s)
                    report.findings.append(finding)
                    again = question.repeat and finding.verdict == ADVISED
        finally:
            self._present.close()
        report.seconds = self._clock() - began_s
        return report

    def _try(self, finding: Finding, advice: dict[str, Any], min_gain: float) -> None:
        """Compare a change with the present state, and keep the one that is faster. The order of a pair alternates, so
        that a drift hits both."""
        self._log(f"trying {finding.key}={finding.value}")
        ratios, changed = list[float](), None
        finding.verdict = WITHDRAWN
        try:
            changed = self._open(advice | {finding.key: finding.value})
            while len(ratios) < self.pairs and sum(ratio <= 1 for ratio in ratios) <= LOST:
                order = (self._present, changed) if len(ratios) % 2 else (changed, self._present)
                rates = {trial is changed: trial.run(self._run_s) for trial in order}
                ratios.append(rates[True] / rates[False])
            finding.gain, finding.low, finding.high = statistics.median(ratios), min(ratios), max(ratios)
            if finding.gain >= min_gain and sum(ratio <= 1 for ratio in ratios) <= LOST:
                finding.verdict = ADVISED
                self._present, changed = changed, self._present
        except Exception as error:
            finding.why = f"fails here: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        finally:
            if changed is not None:
                changed.close()
        self._log(f"  {finding.verdict}: {finding.why or f'{finding.gain:.2f} ×'}")
