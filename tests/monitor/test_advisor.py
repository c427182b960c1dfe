"""The advisor over machines whose truth is known: good advice is found, bad advice withdrawn, noise taken for
nothing."""

from __future__ import annotations

import random

import pytest

from slipstream.monitor import Advisor
from slipstream.monitor.advisor import Keep, Question


class Machine:
    """A training of 1,000 frames/s, faster by `truth[key, value]` for each setting; time passes only while it works."""

    def __init__(self, truth=None, noise=0.0, seed=0, set_up_s=0.5):
        self.truth, self.noise, self.set_up_s = truth or {}, noise, set_up_s
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.is_open = 0
        self.opened = []

    def clock(self):
        return self.now_s

    def open(self, changes):
        self.opened.append(dict(changes))
        self.now_s += self.set_up_s
        if changes.get("size", 1) > 16:
            raise MemoryError("16 GB are not enough")
        self.is_open += 1
        return Run(self, changes)


class Run:
    def __init__(self, machine, changes):
        self.machine, self.settings = machine, {"pipeline": False, "size": 4, "level": 9} | changes
        self.rate = 1000.0
        for key, value in changes.items():
            self.rate *= machine.truth.get((key, value), 1.0)

    def setting(self, key):
        return self.settings.get(key)

    def run(self, seconds):
        self.machine.now_s += seconds
        drift = 1 + 0.3 * (self.machine.now_s / 60)  # the machine gets faster by itself: turns must cancel that
        return self.rate * drift * self.machine.random.lognormvariate(0, self.machine.noise)

    def close(self):
        self.machine.is_open -= 1


PIPELINE = Question("pipeline", lambda now, trial: True, "older data")
LEVEL = Question("level", lambda now, trial: 1)
SIZE = Question("size", lambda now, trial: 2 * now, min_gain=1.1, repeat=True)


def advise(machine, *questions, seconds=60.0, **settings):
    report = Advisor(machine.open, questions, seconds, clock=machine.clock, **settings).advise()
    assert machine.is_open == 0
    return report


def verdicts(report):
    return [(finding.key, finding.verdict) for finding in report.findings]


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
    assert verdicts(report) == [("pipeline", "withdrawn")] and report.overrides == {} and report.together == 1
    assert report.findings[0].gain == pytest.approx(0.8, rel=0.1)
    assert machine.now_s == pytest.approx(2 * 0.5 + (1 + 2 * 2) * 0.5)  # two set-ups, the first run, two pairs


def test_a_gain_below_two_percent_is_withdrawn():
    assert verdicts(advise(Machine({("pipeline", True): 1.01}), PIPELINE)) == [("pipeline", "withdrawn")]


def test_noise_does_not_produce_advice():
    reports = [advise(Machine(noise=0.1, seed=seed), PIPELINE, LEVEL) for seed in range(300)]
    assert sum(len(report.overrides) for report in reports) <= 12  # of 600: each has a chance of 1 in 93


def test_a_real_gain_is_found_under_noise():
    machines = [Machine({("pipeline", True): 1.3}, noise=0.05, seed=seed) for seed in range(50)]
    assert [advise(machine, PIPELINE).overrides for machine in machines].count({"pipeline": True}) >= 48


def test_advice_is_the_base_of_the_next_change():
    machine = Machine({("pipeline", True): 1.5, ("level", 1): 1.1})
    report = advise(machine, PIPELINE, LEVEL)
    assert machine.opened == [{}, {"pipeline": True}, {"pipeline": True, "level": 1}]
    assert report.together == pytest.approx(1.65, rel=0.05)
    assert report.overrides == {"pipeline": True, "level": 1}


@pytest.mark.parametrize(
    ("truth", "size", "why"), [({8: 1.5, 16: 1.6}, 8, ""), ({8: 1.5, 16: 2.0}, 16, "fails here: 16 GB are not enough")]
)
def test_a_question_is_repeated_until_gain_or_memory_ends(truth, size, why):
    machine = Machine({("size", value): rate for value, rate in truth.items()})
    report = advise(machine, SIZE, PIPELINE, pairs=3, run_s=0.3)
    assert report.overrides == {"size": size} and report.findings[-1].key == "pipeline"
    assert (report.findings[-2].verdict, report.findings[-2].why) == ("withdrawn", why)


def test_a_reason_to_keep_the_value_is_shown():
    machine = Machine()
    report = advise(machine, Question("bf16", lambda now, trial: Keep("a CPU gains nothing by it")))
    (finding,) = report.findings
    assert (finding.verdict, finding.why, finding.value) == ("keep", "a CPU gains nothing by it", None)
    assert machine.opened == [{}]


def test_a_change_without_time_is_not_tried():
    report = advise(Machine(set_up_s=30.0), PIPELINE, LEVEL, seconds=100)
    assert verdicts(report) == [("pipeline", "withdrawn"), ("level", "not tried")]
    assert "give seconds=113" in report.findings[1].why


def test_a_failing_question_leaves_nothing_open():
    machine = Machine()
    with pytest.raises(ZeroDivisionError):
        Advisor(machine.open, [Question("level", lambda now, trial: 1 / 0)], 60, clock=machine.clock).advise()
    assert machine.is_open == 0


def test_no_time_is_refused():
    with pytest.raises(ValueError, match="seconds=0 must be above 0"):
        Advisor(Machine().open, [], 0)
