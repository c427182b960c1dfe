"""The advisor over machines whose truth is known: good advice is found, bad advice withdrawn, noise taken for
nothing."""

from __future__ import annotations

import random

import pytest

from slipstream.monitor import Advisor
from slipstream.monitor.advisor import Keep, Question, Sample, bottleneck


class Machine:
    """A training of 1,000 frames/s, faster by `truth[key, value]` for each setting; time passes only while it works."""

    def __init__(self, truth=None, noise=0.0, seed=0, set_up_s=0.5):
        self.truth, self.noise, self.set_up_s = truth or {}, noise, set_up_s
        self.settings = {"pipeline": False, "size": 4, "level": 9}
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.is_open = 0
        self.opened = []

    def clock(self):
        return self.now_s

    def setting(self, key):
        return self.settings.get(key)

    def open(self, overrides):
        self.opened.append(dict(overrides))
        self.now_s += self.set_up_s
        if overrides.get("size", 1) > 4:
            raise MemoryError("16 GB are not enough")
        self.is_open += 1
        return Run(self, overrides)


class Run:
    def __init__(self, machine, overrides):
        self.machine = machine
        self.rate = 1000.0
        for key, value in overrides.items():
            self.rate *= machine.truth.get((key, value), 1.0)

    def run(self, seconds):
        self.machine.now_s += seconds
        drift = 1 + 0.3 * (self.machine.now_s / 60)  # the machine gets faster by itself: turns must cancel that
        rate = self.rate * drift * self.machine.random.lognormvariate(0, self.machine.noise)
        return Sample(rate * seconds, seconds, {"collect": 0.4})

    def close(self):
        self.machine.is_open -= 1


PIPELINE = Question("pipeline", lambda s: True, "older data")
LEVEL = Question("level", lambda s: 1)
SIZE = Question("size", lambda s: 2 * s.setting("size"))


def advise(machine, *questions, seconds=60.0):
    report = Advisor(machine, questions, seconds, clock=machine.clock).advise()
    assert machine.is_open == 0
    return report


def verdicts(report):
    return {finding.key: finding.verdict for finding in report.findings}


def test_a_change_that_is_faster_is_advised_with_its_gain():
    report = advise(Machine({("pipeline", True): 1.5}, noise=0.03), PIPELINE)
    (finding,) = report.findings
    assert (finding.key, finding.before, finding.value, finding.verdict) == ("pipeline", False, True, "advised")
    assert finding.gain == pytest.approx(1.5, rel=0.05) and finding.low < 1.5 < finding.high
    assert report.overrides == {"pipeline": True} and report.together == finding.gain
    assert finding.learning == "older data"


def test_a_change_that_is_slower_is_withdrawn_after_two_pairs():
    machine = Machine({("pipeline", True): 0.8}, noise=0.03)
    report = advise(machine, PIPELINE)
    assert verdicts(report) == {"pipeline": "withdrawn"} and report.overrides == {} and report.together is None
    assert report.findings[0].gain == pytest.approx(0.8, rel=0.1)
    assert machine.now_s == pytest.approx(2 * 0.5 + (3 + 2 * 2) * 0.5)  # two set-ups, the profile, two pairs


def test_a_gain_below_two_percent_is_withdrawn():
    assert verdicts(advise(Machine({("pipeline", True): 1.01}), PIPELINE)) == {"pipeline": "withdrawn"}


def test_noise_does_not_produce_advice():
    reports = [advise(Machine(noise=0.1, seed=seed), PIPELINE, LEVEL) for seed in range(300)]
    assert sum(len(report.overrides) for report in reports) <= 12  # of 600: each has a chance of 1 in 93


def test_a_real_gain_is_found_under_noise():
    machines = [Machine({("pipeline", True): 1.3}, noise=0.05, seed=seed) for seed in range(50)]
    assert [advise(machine, PIPELINE).overrides for machine in machines].count({"pipeline": True}) >= 48


def test_advice_is_the_base_of_the_next_change():
    machine = Machine({("pipeline", True): 1.5, ("level", 1): 1.1})
    report = advise(machine, PIPELINE, LEVEL)
    assert machine.opened == [{}, {"pipeline": True}, {"pipeline": True, "level": 1}, {}]
    assert report.together == pytest.approx(1.65, rel=0.05)
    assert report.overrides == {"pipeline": True, "level": 1}


def test_a_change_that_cannot_be_set_up_is_withdrawn():
    report = advise(Machine({("pipeline", True): 1.5}), SIZE, PIPELINE)
    assert verdicts(report) == {"size": "withdrawn", "pipeline": "advised"}
    assert report.findings[0].why == "fails here: 16 GB are not enough"


def test_a_reason_to_keep_the_value_is_shown():
    machine = Machine()
    report = advise(machine, Question("bf16", lambda s: Keep("a CPU gains nothing by it")))
    (finding,) = report.findings
    assert (finding.verdict, finding.why, finding.value) == ("keep", "a CPU gains nothing by it", None)
    assert machine.opened == [{}]


def test_a_change_without_time_is_not_tried():
    slow = Question("level", lambda s: 1, set_up_s=100.0)
    report = advise(Machine(), slow, seconds=60)
    assert verdicts(report) == {"level": "not tried"} and "seconds=113" in report.findings[0].why
    report = advise(Machine(set_up_s=30.0), PIPELINE, LEVEL, seconds=100)
    assert verdicts(report) == {"pipeline": "withdrawn", "level": "not tried"}


def test_a_failing_probe_leaves_nothing_open():
    machine = Machine()

    def fail(s):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        Advisor(machine, [Question("level", fail)], 60, clock=machine.clock).advise()
    assert machine.is_open == 0


def test_the_bottleneck_is_what_the_learner_waits_for_longest():
    assert bottleneck({"collect": 0.6, "host": 0.1}) == "collect: the learner waits for it 60 % of an iteration"
    assert bottleneck({"collect": 0.2}) == "the learning itself: 80 % of an iteration"
    assert bottleneck({}) == "the learning itself: 100 % of an iteration"


def test_no_time_is_refused():
    with pytest.raises(ValueError, match="seconds=0 must be above 0"):
        Advisor(Machine(), [], 0)
