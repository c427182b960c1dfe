"""Advisor: asks a configuration questions, predicts what a change would gain, tries it, and takes back what does not hold.

It knows nothing of training. A probe opens a configuration and runs it; questions say which changes are worth a try, and why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from slipstream.monitor.asking import (
    ADVISED,
    KEEP,
    NOT_TRIED,
    WITHDRAWN,
    WORTH,
    Answer,
    Finding,
    Probe,
    Proposal,
    Question,
    Report,
    Sample,
    Situation,
    Trial,
    bottleneck,
    merged,
)
from slipstream.monitor.budget import TimeBudget
from slipstream.monitor.comparing import FEWEST_PAIRS, PAIRS, Gain, in_turns

PROFILE = 0.1  # of the time at most, for the first look
PROFILED = (2, 6)  # stretches of it: the fewest, however long they are, and the most
REPEATS = 3  # a question that was answered with yes is asked again this often: twice as many, and twice again


class Advisor:
    """Answers `questions` about what `probe` opens, in about `seconds`.

    The most promising change is tried first, but those that are long in setting up after the others, since whatever is tried on top
    of them sets them up again; time is kept for one that promises more. Those that change the batches come last. A change and the
    present state run in turns, and it stands only if the whole interval of the measured gain lies above 1 and the gain is worth it.
    What stands becomes the present state.
    """

    def __init__(
        self,
        probe: Probe,
        questions: Sequence[Question],
        seconds: float = 60.0,
        clock: Callable[[], float] = time.perf_counter,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        if seconds <= 0:
            raise ValueError(f"seconds must be positive, not {seconds:g}")
        self.probe = probe
        self.questions = list(questions)
        self.seconds = seconds
        self._clock = clock
        self._tell = tell
        self._held: dict[str, Any] = {}

    def advise(self) -> Report:
        """Profiles, proposes, tries; the report."""
        self._held = {}
        self._time = TimeBudget(self.seconds, self._clock)
        base = self.probe.open({})
        self._time.set_up_s = self._first_set_up_s = self._time.gone_s
        try:
            first = self._profile(base)
            self._tell(f"as it is: {first.rate:,.0f} frames/s")
            base, findings = self._ask(base, first)
            together = self._together(base, findings)
        finally:
            base.close()
        report = Report(first.rate, dict(first.exposed), bottleneck(first.exposed), findings, together)
        report.seconds = self._time.gone_s
        return report

    # -- inside ------------------------------------------------------------------------------------------------------

    def _profile(self, base: Trial) -> Sample:
        """The first look: a tenth of the time at most, but two stretches in any case."""
        (fewest, most), until_s = PROFILED, self._time.gone_s + PROFILE * self.seconds
        samples: list[Sample] = []
        while len(samples) < fewest or (len(samples) < most and self._time.gone_s < until_s):
            samples.append(base.run(self._time.stretch_s))
        self._time.run_s = sum(sample.seconds for sample in samples) / len(samples)
        return merged(samples)

    def _ask(self, base: Trial, sample: Sample) -> tuple[Trial, list[Finding]]:
        """Asks until no question is open; the state that came out of it, and the answers."""
        findings: list[Finding] = []
        open_questions = [question for question in self.questions if not question.late]
        times_asked: dict[str, int] = {}
        self._all_s = 0.0
        while True:
            situation = self._situation(sample, base)
            answers, worth = self._answers(open_questions, situation)
            self._all_s = self._all_s or self._foretell(answers, worth)
            if not worth:
                answers += [(question, question.propose(situation)) for question in self.questions if question.late]
                findings += [self._kept(q, p) for q, p in answers if q.key not in times_asked]
                break
            question, proposal = self._next(worth)
            open_questions.remove(question)
            finding, trial, seen = self._try(question, proposal, base, [q for q, _ in worth if q is not question])
            findings.append(finding)
            if trial is not None and seen is not None:
                base.close()
                base, sample = trial, seen
                times_asked[question.key] = times_asked.get(question.key, 0) + 1
                if question.again and times_asked[question.key] < REPEATS:
                    open_questions.append(question)
        return base, findings

    def _answers(
        self, questions: Sequence[Question], situation: Situation
    ) -> tuple[list[Answer], list[tuple[Question, Proposal]]]:
        """What the questions answer, and the changes worth a try; about the batches only when no other change is left."""
        answers: list[Answer] = []
        worth: list[tuple[Question, Proposal]] = []
        for batches in (False, True):
            answers += [(q, self._answer(q, situation)) for q in questions if q.batches == batches]
            worth = [
                (q, p)
                for q, p in answers
                if isinstance(p, Proposal) and (p.gain is None or p.gain >= WORTH or p.needs < 1)
            ]
            if worth:
                break
        return answers, worth

    def _answer(self, question: Question, situation: Situation) -> Proposal | Finding | str:
        if question.measures and not self._time.fits(question.set_up_s, kept_s=self._time.set_up_s):
            now = self._value(question.key)
            return Finding(
                question.text, question.key, now, now, NOT_TRIED, self._no_time(), learning=question.learning
            )
        return question.propose(situation)

    def _next(self, worth: Sequence[tuple[Question, Proposal]]) -> tuple[Question, Proposal]:
        """The most promising one that is quickly set up, while a dear one that promises more has its time after it."""
        ordered = sorted(worth, key=lambda pair: (not pair[0].set_up_s, pair[1].gain or 0.0), reverse=True)
        for question, proposal in ordered:
            dear = [q for q, p in worth if q.set_up_s > question.set_up_s and (p.gain or 0.0) > (proposal.gain or 0.0)]
            kept_s = sum(self._time.cost_s(q.set_up_s) for q in dear if self._time.fits(q.set_up_s))
            if self._time.fits(question.set_up_s, kept_s):
                return question, proposal
        return ordered[0]

    def _try(
        self, question: Question, proposal: Proposal, base: Trial, others: Sequence[Question]
    ) -> tuple[Finding, Trial | None, Sample | None]:
        """Runs the change and the present state in turns; with the trial where it stands. More than the fewest pairs are run
        while the `others` still have time for theirs.
        """
        change = {question.key: proposal.value, **proposal.also}
        finding = Finding(
            question.text,
            question.key,
            self._value(question.key),
            proposal.value,
            NOT_TRIED,
            self._as_things_stand(proposal),
            proposal.gain,
            None,
            question.learning,
            proposal.also,
            question.batches,
        )
        if not self._time.fits(question.set_up_s):
            finding.why += f"; {self._no_time()}"
            return finding, None, None
        self._tell(f"trying {question.key}={proposal.value}: {proposal.why}")
        try:
            began_s = self._time.gone_s
            trial = self.probe.open(self._held | change)
            set_up_s = self._time.gone_s - began_s
        except Exception as error:
            finding.verdict = WITHDRAWN
            finding.why = f"cannot be set up here: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            return finding, None, None
        seen: list[Sample] = []

        def run_new() -> float:
            seen.append(self._run(trial))
            return seen[-1].rate

        least, plan = min(proposal.needs, 1.0), self._time.plan([other.set_up_s for other in others])
        try:
            finding.gain = in_turns(lambda: self._run(base).rate, run_new, PAIRS, least, plan)
        except Exception as error:
            trial.close()
            finding.verdict, finding.why = (
                WITHDRAWN,
                f"fails while running: {str(error).splitlines()[0] if str(error) else repr(error)}",
            )
            return finding, None, None
        stands = (
            finding.gain.pairs >= FEWEST_PAIRS and finding.gain.ratio >= proposal.needs and finding.gain.low > least
        )
        finding.verdict = ADVISED if stands else WITHDRAWN
        self._tell(f"  {finding.verdict}: {finding.gain}")
        if not stands:
            trial.close()
            return finding, None, None
        self._held |= change
        self._time.set_up_s = set_up_s
        return finding, trial, merged(seen)

    def _together(self, base: Trial, findings: list[Finding]) -> Gain | None:
        """All that stands against the configuration as it was; where only one change stands, that is its own gain."""
        held = [finding for finding in findings if finding.verdict == ADVISED and finding.gain]
        if len(held) < 2:
            return held[0].gain if held else None
        self._time.set_up_s = self._first_set_up_s
        if not self._time.fits(0.0):
            return None
        as_it_was = self.probe.open({})
        try:
            return in_turns(lambda: self._run(as_it_was).rate, lambda: self._run(base).rate, plan=self._time.plan())
        finally:
            as_it_was.close()

    def _run(self, trial: Trial) -> Sample:
        sample = trial.run(self._time.stretch_s)
        self._time.run_s = 0.8 * self._time.run_s + 0.2 * sample.seconds
        return sample

    def _foretell(self, answers: Sequence[Answer], worth: Sequence[tuple[Question, Proposal]]) -> float:
        """The seconds that everything would take, told where they are not given. Changes of the batches are set up on top of the rest."""
        dearest_s = max((question.set_up_s for question, _ in worth), default=0.0)
        asked = {question.key for question, _ in answers}
        last = [question for question in self.questions if question.batches and question.key not in asked]
        set_ups = [question.set_up_s for question, _ in worth] + [
            dearest_s for question in last for _ in range(1 + question.measures)
        ]
        needed_s = self._time.all_s(set_ups)
        if needed_s > self.seconds:
            count = len(worth) + len(last)
            self._tell(
                f"{count} changes to try: all of them would take up to about {needed_s:.0f} s, {self.seconds:g} s are given"
            )
        return needed_s

    def _no_time(self) -> str:
        wanted_s = max(self._all_s, 1.5 * self.seconds)
        return f"no time was left to try it: give seconds={10 * math.ceil(wanted_s / 10)}"

    def _situation(self, sample: Sample, trial: Trial) -> Situation:
        return Situation(
            sample.exposed, sample.rate, self._value, self.probe.facts(), sample.seconds / sample.iterations, trial
        )

    def _value(self, key: str) -> Any:
        return self._held[key] if key in self._held else self.probe.setting(key)

    def _as_things_stand(self, proposal: Proposal) -> str:
        """Why it is proposed: shares of an iteration are those of the state it is tried on, not of the configuration as it was."""
        held = ", ".join(f"{key}={value}" for key, value in self._held.items())
        return f"{proposal.why} (with {held})" if held else proposal.why

    def _kept(self, question: Question, answer: Proposal | Finding | str) -> Finding:
        now = self._value(question.key)
        if isinstance(answer, Finding):
            return answer
        if isinstance(answer, str):
            return Finding(question.text, question.key, now, now, KEEP, answer)
        why = f"{self._as_things_stand(answer)}; could gain a factor of {answer.gain:.3f} at most"
        return Finding(question.text, question.key, now, now, KEEP, why, answer.gain)
