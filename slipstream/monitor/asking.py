"""What the advisor and those who ask through it speak of: samples, trials, questions, proposals, findings, the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slipstream.monitor.comparing import Gain

WORTH = 1.02  # a smaller gain is not worth a change

ADVISED, WITHDRAWN, NOT_TRIED, KEEP = "advised", "withdrawn", "not tried", "keep"


@dataclass(frozen=True)
class Sample:
    """A stretch of work."""

    frames: float
    seconds: float
    exposed: Mapping[str, float] = field(
        default_factory=dict
    )  # per stage: share of the time the learner stood still for it
    iterations: int = 1

    @property
    def rate(self) -> float:
        """Frames a second."""
        return self.frames / self.seconds


class Trial(Protocol):
    """A configuration that is set up and warm."""

    def run(self, seconds: float) -> Sample:
        """Works for about that long, at least one iteration."""

    def close(self) -> None:
        """Gives back what it holds."""


class Probe(Protocol):
    """What opens configurations: the user's own, changed by `overrides`."""

    def open(self, overrides: Mapping[str, Any]) -> Trial:
        """Sets one up; raises where it cannot be."""

    def facts(self) -> Mapping[str, Any]:
        """What questions may look at besides the settings: device, cores, memory."""

    def setting(self, key: str) -> Any:
        """The user's own value of `key`; None where there is no such key."""


@dataclass(frozen=True)
class Situation:
    """What a question looks at."""

    exposed: Mapping[str, float]  # shares of the iteration
    rate: float  # frames a second
    settings: Callable[[str], Any]  # by key, advice already taken included
    facts: Mapping[str, Any]
    iteration_s: float
    trial: Trial  # the present state, running


@dataclass(frozen=True)
class Proposal:
    """A change worth a try."""

    value: Any
    gain: (
        float | None
    )  # at most this factor, by Amdahl unless `why` says otherwise; None where nothing can be said beforehand
    why: str
    needs: float = (
        WORTH  # the least measured factor that lets it stand; below 1 where it saves something else than time
    )
    also: Mapping[str, Any] = field(default_factory=dict)  # keys that must change with it


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

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        measured = vars(self.gain) if self.gain else None
        return {**vars(self), "gain": measured, "also": dict(self.also)}


@dataclass(frozen=True)
class Question:
    """One key, and what to ask about it. `propose` gives a change to try, the reason to keep what is, or an answer of its own."""

    text: str
    key: str
    propose: Callable[[Situation], Proposal | Finding | str]
    learning: str = ""  # what the change does to what is learned; empty: nothing
    set_up_s: float = 0.0  # known to take this long before the first iteration
    again: bool = False  # ask once more after a yes
    batches: bool = False  # it changes the batches: asked last, since more frames a second are not yet better learning
    measures: bool = False  # its proposal runs a trial of its own: not asked when no time is left
    late: bool = False  # ask when nothing else is left to try: it measures by itself


@dataclass
class Report:
    """What was found."""

    rate: float  # frames a second of the configuration as it is
    exposed: dict[str, float]
    bottleneck: str
    findings: list[Finding]
    together: Gain | None = None  # all advice at once against the configuration as it was
    seconds: float = 0.0

    @property
    def overrides(self) -> dict[str, Any]:
        """What to change: key and value of all advice that held."""
        held: dict[str, Any] = {}
        for finding in self.findings:
            if finding.verdict == ADVISED:
                held |= {finding.key: finding.value, **finding.also}
        return held

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        findings = [finding.as_dict() for finding in self.findings]
        together = vars(self.together) if self.together else None
        return {**vars(self), "findings": findings, "together": together, "overrides": self.overrides}


Answer = tuple[Question, Proposal | Finding | str]


def bottleneck(exposed: Mapping[str, float]) -> str:
    """What the learner stands still for most, in a sentence."""
    learning = max(1 - sum(exposed.values()), 0.0)
    if not exposed or learning >= max(exposed.values()):
        return f"the learning itself: {100 * learning:.0f} % of an iteration"
    name, share = max(exposed.items(), key=lambda item: item[1])
    return f"{name}: the learner stands still for it {100 * share:.0f} % of an iteration"


def without(exposed: Mapping[str, float], stage: str, hidden: float = 1.0) -> float:
    """Amdahl: the factor gained at most where `hidden` of a stage's exposed time goes away."""
    return 1 / max(1 - hidden * exposed.get(stage, 0.0), 1e-3)


def merged(samples: Sequence[Sample]) -> Sample:
    """Several stretches as one."""
    seconds = sum(sample.seconds for sample in samples)
    names = dict.fromkeys(name for sample in samples for name in sample.exposed)
    shares = {
        name: sum(sample.exposed.get(name, 0.0) * sample.seconds for sample in samples) / seconds for name in names
    }
    return Sample(
        sum(sample.frames for sample in samples), seconds, shares, sum(sample.iterations for sample in samples)
    )
