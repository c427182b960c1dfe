"""Advisor: propose changes to a configuration, bound their gain, measure each against the present state, keep what is
faster.

It knows nothing of training. A probe opens and runs a configuration; questions propose the changes. For a loop of your
own, write both:

    Advisor(probe, [Question("more workers?", "workers", lambda s: Proposal(2 * s.settings("workers"), 2.0, "cores are
    idle"))]).advise()
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

MIN_GAIN = 1.02  # a smaller gain is not worth a change
PAIRS = 10  # nine of ten on one side happens 1 time in 93 by chance; one hiccup of the machine does not decide
MIN_PAIRS = 7  # all of seven on one side: 1 in 128; fewer pairs give no interval of this confidence
CONFIDENCE = 0.975
PROFILE_RUNS = 3  # before any change
RUN_S = 1.0  # the longest run: more time answers more questions
REPEATS = 3  # how often a question with `again` may be answered with yes

# Questions are asked in this order: changes of speed alone; changes of the batches, since faster is not yet better
# learning; and questions that measure by themselves and return a finding.
STAGES = "speed", "batches", "late"
ADVISED, WITHDRAWN, NOT_TRIED, KEEP = "advised", "withdrawn", "not tried", "keep"


@dataclass(frozen=True)
class Sample:
    """One timed run."""

    frames: float
    seconds: float
    exposed: Mapping[str, float] = field(default_factory=dict)  # per stage: share of the time the learner waits for it
    iterations: int = 1

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

    def facts(self) -> Mapping[str, Any]:
        """Return what questions need besides settings: device, cores, memory."""

    def setting(self, key: str) -> Any:
        """Return the user's value of `key`; None if there is no such key."""


@dataclass(frozen=True)
class Situation:
    """What a question looks at: the present state, with the advice taken so far."""

    exposed: Mapping[str, float]  # shares of an iteration
    settings: Callable[[str], Any]  # by key
    facts: Mapping[str, Any]
    iteration_s: float
    trial: Trial


@dataclass(frozen=True)
class Proposal:
    """A change to measure."""

    value: Any
    gain: float | None  # upper bound of the factor, by Amdahl's law unless `why` says otherwise; None if unknown
    why: str
    needs: float = MIN_GAIN  # the measured factor it needs; below 1 if it saves something other than time
    also: Mapping[str, Any] = field(default_factory=dict)  # keys that must change with it


@dataclass(frozen=True)
class Gain:
    """The factor by which one state is faster than another: median of the pairs, and an interval of that median."""

    ratio: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        if self.pairs < MIN_PAIRS:  # given up early: no interval
            return f"{self.ratio:.2f} × ({self.pairs} {'pair' if self.pairs == 1 else 'pairs'})"
        return f"{self.ratio:.2f} × ({self.low:.2f} … {self.high:.2f})"


@dataclass
class Finding:
    """The answer to a question."""

    question: str
    key: str
    before: Any
    value: Any
    verdict: str
    why: str
    predicted: float | None = None
    gain: Gain | None = None
    learning: str = ""
    also: Mapping[str, Any] = field(default_factory=dict)
    batches: bool = False


@dataclass(frozen=True)
class Question:
    """One key and what to ask about it. `propose` returns a change to measure, a reason to keep the value, or a
    finding."""

    text: str
    key: str
    propose: Callable[[Situation], Proposal | Finding | str]
    learning: str = ""  # how the change affects what is learned; empty: not at all
    set_up_s: float = 0.0  # known time before the first iteration
    again: bool = False  # ask again after a yes
    stage: Literal["speed", "batches", "late"] = "speed"


@dataclass
class Report:
    """The result of `Advisor.advise`."""

    rate: float  # frames per second before any change
    exposed: dict[str, float]
    bottleneck: str
    findings: list[Finding]
    together: Gain | None = None  # all advice at once against the original configuration
    seconds: float = 0.0

    @property
    def overrides(self) -> dict[str, Any]:
        """Key and value of all advice."""
        changes: dict[str, Any] = {}
        for finding in self.findings:
            if finding.verdict == ADVISED:
                changes |= {finding.key: finding.value, **finding.also}
        return changes

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self) | {"overrides": self.overrides}


class Advisor:
    """Answer questions about a configuration by measuring.

    Each change runs in alternating pairs with the present state. It is advised if the interval of the gain is above 1
    and the median is at least 1.02; then it becomes the present state. If time is short, the most promising changes get
    it; among those that have time, the ones that set up quickly run first, because each later trial repeats the set-up
    of all advice before it.

    Args:
        probe: Opens configurations.
        questions: The changes to consider.
        seconds: About how long it may take.
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
            raise ValueError(f"seconds must be positive, not {seconds:g}")
        self.probe, self.questions, self.seconds, self._clock, self._log = probe, list(questions), seconds, clock, log
        self._run_s = min(seconds / (12 * PAIRS), RUN_S)  # a change with all its pairs takes a sixth of the time

    def advise(self) -> Report:
        """Profile the configuration, measure the proposals, and return the report."""
        self._changes: dict[str, Any] = {}
        self._start_s = self._clock()
        self._trial = self.probe.open({})
        self._set_up_s = first_set_up_s = self._elapsed_s()  # of the present state; a change takes at least as long
        try:
            first = self._sample = merge([self._trial.run(self._run_s) for _ in range(PROFILE_RUNS)])
            self._mean_run_s = first.seconds / PROFILE_RUNS
            self._log(f"unchanged: {first.rate:,.0f} frames/s")
            stages = [[question for question in self.questions if question.stage == stage] for stage in STAGES]
            findings = [finding for stage in stages for finding in self._answer(stage)]
            together = self._measure_together(findings, first_set_up_s)
        finally:
            self._trial.close()
        exposed = dict(first.exposed)
        return Report(first.rate, exposed, bottleneck(exposed), findings, together, self._elapsed_s())

    # -- questions ---------------------------------------------------------------------------------------------------

    def _answer(self, open_questions: list[Question]) -> list[Finding]:
        """Measure the proposals of a group until none is left that has time; return the findings."""
        findings: list[Finding] = []
        advised: Counter[str] = Counter()
        while open_questions:
            iteration_s = self._sample.seconds / self._sample.iterations
            s = Situation(self._sample.exposed, self._value, self.probe.facts(), iteration_s, self._trial)
            answers = [(question, question.propose(s)) for question in open_questions]
            worth = [(q, p) for q, p in answers if isinstance(p, Proposal) and _is_worth(p)]
            with_time = self._with_time(worth)
            if not with_time:
                return findings + [self._finding(q, answer) for q, answer in answers if not advised[q.key]]
            question, proposal = min(with_time, key=lambda pair: (pair[0].set_up_s, -(pair[1].gain or 0.0)))
            open_questions.remove(question)
            kept_s = sum(self._cost_s(q) for q, _ in with_time if q is not question)
            findings.append(self._measure(question, proposal, kept_s))
            if findings[-1].verdict == ADVISED:
                advised[question.key] += 1
                if question.again and advised[question.key] < REPEATS:
                    open_questions.append(question)
        return findings

    def _finding(self, question: Question, answer: Proposal | Finding | str, verdict: str = NOT_TRIED) -> Finding:
        """Return the answer of a question that is not, or not yet, measured."""
        if isinstance(answer, Finding):
            return answer
        now = self._value(question.key)
        if isinstance(answer, str):
            return Finding(question.text, question.key, now, now, KEEP, answer)
        taken = ", ".join(f"{key}={value}" for key, value in self._changes.items())
        why = f"{answer.why} (with {taken})" if taken else answer.why  # shares are those of the present state
        if not _is_worth(answer):
            why += f"; could gain a factor of {answer.gain:.3f} at most"
            return Finding(question.text, question.key, now, now, KEEP, why, answer.gain)
        finding = Finding(question.text, question.key, now, answer.value, verdict, why, answer.gain, also=answer.also)
        finding.learning, finding.batches = question.learning, question.stage == "batches"
        if verdict == NOT_TRIED:
            set_up_s, pairs_s = max(question.set_up_s, self._set_up_s), 2 * PAIRS * max(self._mean_run_s, RUN_S)
            enough_s = 10 * math.ceil((self._elapsed_s() + set_up_s + pairs_s) / 10)
            finding.why += f"; no time was left to try it: give seconds={enough_s}"
        return finding

    def _value(self, key: str) -> Any:
        return self._changes[key] if key in self._changes else self.probe.setting(key)

    # -- measuring ---------------------------------------------------------------------------------------------------

    def _measure(self, question: Question, proposal: Proposal, kept_s: float) -> Finding:
        """Compare a change with the present state, which it becomes if it holds.

        More than the fewest pairs run while `kept_s` remains for the other changes.
        """
        finding = self._finding(question, proposal, WITHDRAWN)
        change = {question.key: proposal.value, **proposal.also}
        self._log(f"trying {question.key}={proposal.value}: {proposal.why}")
        trial: Any = None
        samples: list[Sample] = []
        began_s = self._elapsed_s()

        def run_changed() -> float:
            samples.append(self._run(trial))
            return samples[-1].rate

        floor = min(proposal.needs, 1.0)
        try:
            trial = self.probe.open(self._changes | change)
            set_up_s = self._elapsed_s() - began_s
            gain = compare_alternating(lambda: self._run(self._trial).rate, run_changed, self._plan(kept_s), floor)
        except Exception as error:
            finding.why = f"fails here: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        else:
            finding.gain = gain
            if gain.pairs >= MIN_PAIRS and gain.ratio >= proposal.needs and gain.low > floor:
                finding.verdict = ADVISED
        self._log(f"  {finding.verdict}: {finding.gain or finding.why}")
        if finding.verdict == ADVISED:
            self._trial, trial = trial, self._trial
            self._sample, self._set_up_s = merge(samples), set_up_s
            self._changes |= change
        if trial is not None:
            trial.close()
        return finding

    def _measure_together(self, findings: list[Finding], set_up_s: float) -> Gain | None:
        """Compare all advice with the original configuration, if time is left; the gain of a single advice is its
        own."""
        gains = [finding.gain for finding in findings if finding.verdict == ADVISED and finding.gain]
        if len(gains) < 2:
            return gains[0] if gains else None
        if set_up_s + 2 * MIN_PAIRS * self._mean_run_s > self._left_s():
            return None
        original = self.probe.open({})
        try:
            runs = (lambda: self._run(original).rate), (lambda: self._run(self._trial).rate)
            return compare_alternating(*runs, self._plan())
        finally:
            original.close()

    def _run(self, trial: Trial) -> Sample:
        sample = trial.run(self._run_s)
        self._mean_run_s = 0.8 * self._mean_run_s + 0.2 * sample.seconds
        return sample

    # -- time --------------------------------------------------------------------------------------------------------

    def _elapsed_s(self) -> float:
        return self._clock() - self._start_s

    def _left_s(self) -> float:
        return self.seconds - self._elapsed_s()

    def _cost_s(self, question: Question) -> float:
        """Return the time to measure a change with the fewest pairs."""
        return max(question.set_up_s, self._set_up_s) + 2 * MIN_PAIRS * self._mean_run_s

    def _with_time(self, worth: Sequence[tuple[Question, Proposal]]) -> list[tuple[Question, Proposal]]:
        """Return the changes that all fit into the time left, the most promising first."""
        chosen, left_s = [], self._left_s()
        for question, proposal in sorted(worth, key=lambda pair: -(pair[1].gain or 0.0)):
            if self._cost_s(question) <= left_s:
                chosen.append((question, proposal))
                left_s -= self._cost_s(question)
        return chosen

    def _plan(self, kept_s: float = 0.0) -> Callable[[int], int]:
        """Return the rule for how many pairs to run: all if `kept_s` remains after them, otherwise the fewest.

        Nothing in between: eight or nine must all be won, as seven must, while one of ten may be lost.
        """
        return lambda done: PAIRS if 2 * (PAIRS - done) * self._mean_run_s <= self._left_s() - kept_s else MIN_PAIRS


def bottleneck(exposed: Mapping[str, float]) -> str:
    """Return what the learner waits for most, as a sentence."""
    learning = max(1 - sum(exposed.values()), 0.0)
    if not exposed or learning >= max(exposed.values()):
        return f"the learning itself: {100 * learning:.0f} % of an iteration"
    name, share = max(exposed.items(), key=lambda item: item[1])
    return f"{name}: the learner waits for it {100 * share:.0f} % of an iteration"


def amdahl_gain(share: float, removed: float = 1.0) -> float:
    """Return the factor gained at most if the part `removed` of a stage with this share of the time is removed."""
    return 1 / max(1 - removed * share, 1e-3)


def merge(samples: Sequence[Sample]) -> Sample:
    """Join several runs into one sample."""
    seconds = sum(sample.seconds for sample in samples)
    names = dict.fromkeys(name for sample in samples for name in sample.exposed)
    shares = {name: sum(s.exposed.get(name, 0.0) * s.seconds for s in samples) / seconds for name in names}
    return Sample(sum(s.frames for s in samples), seconds, shares, sum(s.iterations for s in samples))


def compare_alternating(
    first: Callable[[], float],
    second: Callable[[], float],
    pairs: Callable[[int], int] = lambda done: PAIRS,
    floor: float | None = None,
) -> Gain:
    """Measure the gain in rate of `second` over `first`. Each runs once per pair, in changing order, so that a drift
    hits both.

    Args:
        first, second: Run once and return a rate.
        pairs: Returns the number of pairs to run, given those done. It may look at the clock, not at the rates.
        floor: Stop as soon as the interval can no longer be above this ratio.
    """
    ratios: list[float] = []
    planned = pairs(0)
    while len(ratios) < planned:
        reverse = len(ratios) % 2
        rates = [run() for run in ((second, first) if reverse else (first, second))]
        ratios.append(rates[0] / rates[1] if reverse else rates[1] / rates[0])
        planned = pairs(len(ratios))
        if floor is not None and sum(ratio <= floor for ratio in ratios) > _outside(max(planned, len(ratios))):
            break
    return gain_of(ratios)


def gain_of(ratios: Sequence[float]) -> Gain:
    """Return the gain of the pairs' ratios. Its interval ends at measured ratios, so it holds for noise of any
    distribution."""
    ordered, outside = sorted(ratios), _outside(len(ratios))
    return Gain(statistics.median(ordered), ordered[outside], ordered[-1 - outside], len(ordered))


def _outside(n: int) -> int:
    """Return how many of `n` ratios lie outside the interval at each end: as many as CONFIDENCE allows."""
    tail = (1 - CONFIDENCE) / 2 * 2**n  # sequences of n wins and losses that may be beyond each end
    outside = 0
    while outside + 1 < n - outside - 1 and sum(math.comb(n, k) for k in range(outside + 2)) <= tail:
        outside += 1
    return outside


def _is_worth(proposal: Proposal) -> bool:
    return proposal.gain is None or proposal.gain >= MIN_GAIN or proposal.needs < 1
