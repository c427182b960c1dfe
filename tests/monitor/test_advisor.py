"""The advisor over machines whose truth is known: good advice is found, bad advice withdrawn, noise taken for
nothing."""

from __future__ import annotations

import random

import pytest

from slipstream.monitor import Advisor
from slipstream.monitor.advisor import (
    Finding,
    Proposal,
    Question,
    Sample,
    amdahl_gain,
    bottleneck,
    compare_alternating,
    gain_of,
)


class Machine:
    """A training of 1,000 frames/s, faster by `truth[key, value]` for each setting; time passes only while it works."""

    def __init__(self, truth=None, noise=0.0, seed=0, set_up_s=0.5, settings=None, exposed=None):
        self.truth, self.noise, self.set_up_s = truth or {}, noise, set_up_s
        self.settings = {"pipeline": False, "size": 1, "level": 9} | (settings or {})
        self.exposed = exposed or {"collect": 0.4}
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.is_open = 0
        self.opened = []

    def clock(self):
        return self.now_s

    def setting(self, key):
        return self.settings.get(key)

    def facts(self):
        return {"cores": 2}

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
        return Sample(rate * seconds, seconds, self.machine.exposed, 10)

    def close(self):
        self.machine.is_open -= 1


PIPELINE = Question(
    "collect beside the learning?", "pipeline", lambda s: Proposal(True, amdahl_gain(s.exposed["collect"]), "it waits")
)
LEVEL = Question("compress less?", "level", lambda s: Proposal(1, 1.2, "a guess"))
SIZE = Question(
    "more at once?", "size", lambda s: Proposal(2 * s.settings("size"), 1.5, "small"), "larger batches", again=True
)


def advise(machine, *questions, seconds=60.0):
    return Advisor(machine, questions, seconds, clock=machine.clock).advise()


def verdicts(report):
    return {finding.key: finding.verdict for finding in report.findings}


def test_advice_that_holds_is_found_with_its_key_prediction_and_measured_gain():
    report = advise(Machine({("pipeline", True): 1.5}, noise=0.03), PIPELINE)
    (finding,) = report.findings
    assert (finding.key, finding.before, finding.value, finding.verdict) == ("pipeline", False, True, "advised")
    assert finding.predicted == pytest.approx(1 / 0.6)
    assert finding.gain.ratio == pytest.approx(1.5, rel=0.05) and finding.gain.low < 1.5 < finding.gain.high
    assert report.overrides == {"pipeline": True} and report.together == finding.gain


def test_advice_that_does_not_hold_is_withdrawn_and_shown():
    machine = Machine({("pipeline", True): 0.8}, noise=0.03)
    report = advise(machine, PIPELINE)
    assert verdicts(report) == {"pipeline": "withdrawn"} and report.overrides == {}
    assert report.findings[0].gain.ratio == pytest.approx(0.8, rel=0.1)
    assert (
        report.findings[0].gain.pairs == 2
    )  # it lost twice: nine of ten can no longer be won, no more time is spent on it
    assert str(report.findings[0].gain) == "0.80 × (2 pairs)"


def test_a_gain_too_small_to_be_worth_a_change_is_withdrawn():
    report = advise(Machine({("pipeline", True): 1.01}), PIPELINE)
    assert verdicts(report) == {"pipeline": "withdrawn"}


def test_noise_does_not_produce_advice():
    advised = 0
    for seed in range(300):
        report = advise(Machine(noise=0.1, seed=seed), PIPELINE, LEVEL)
        advised += list(verdicts(report).values()).count("advised")
    assert advised <= 12  # of 600: each has a chance of 1 in 93


def test_a_real_gain_is_found_under_noise():
    found = [
        advise(Machine({("pipeline", True): 1.3}, noise=0.05, seed=seed), PIPELINE).overrides for seed in range(50)
    ]
    assert found.count({"pipeline": True}) >= 48


def test_the_most_promising_comes_first_and_what_holds_is_the_base_of_the_next():
    machine = Machine({("pipeline", True): 1.5, ("level", 1): 1.1})
    report = advise(machine, LEVEL, PIPELINE)
    assert [finding.key for finding in report.findings] == ["pipeline", "level"]
    assert machine.opened == [{}, {"pipeline": True}, {"pipeline": True, "level": 1}, {}]
    assert report.together.ratio == pytest.approx(1.65, rel=0.05)
    assert report.overrides == {"pipeline": True, "level": 1}


def test_a_question_is_asked_again_after_a_yes_until_it_is_a_no():
    machine = Machine({("size", 2): 1.6, ("size", 4): 2.0})
    report = advise(machine, SIZE)
    assert [(f.before, f.value, f.verdict) for f in report.findings] == [
        (1, 2, "advised"),
        (2, 4, "advised"),
        (4, 8, "withdrawn"),
    ]
    assert "16 GB are not enough" in report.findings[2].why and report.findings[0].learning == "larger batches"
    assert report.overrides == {"size": 4}


def test_what_promises_nothing_is_kept_and_not_tried():
    machine = Machine(exposed={"collect": 0.005})
    no = Question("bf16?", "bf16", lambda s: "a CPU gains nothing by it")
    report = advise(machine, PIPELINE, no)
    assert verdicts(report) == {"pipeline": "keep", "bf16": "keep"} and machine.opened == [{}]
    assert "1.005 at most" in report.findings[0].why and report.findings[1].why == "a CPU gains nothing by it"


def test_without_time_a_change_is_shown_as_not_tried_with_the_time_it_needs():
    slow = Question("compile?", "compile", lambda s: Proposal("on", 1.5, "kernels"), set_up_s=50)
    machine = Machine({("compile", "on"): 2.0})
    report = advise(machine, slow, seconds=40)
    assert verdicts(report) == {"compile": "not tried"} and report.overrides == {}
    assert "seconds=80" in report.findings[0].why and machine.opened == [{}]
    assert verdicts(advise(Machine({("compile", "on"): 2.0}), slow, seconds=80)) == {
        "compile": "advised"
    }  # it is enough


class SlowToSetUp(Machine):
    """Each state with compile=on takes 40 s more to set up; gains as measured on an H200."""

    def __init__(self):
        super().__init__({("compile", "on"): 2.05, ("bf16", "on"): 1.19, ("pipeline", "on"): 0.95}, set_up_s=4.0)

    def open(self, overrides):
        self.now_s += 40.0 * ("compile" in overrides)
        return super().open(overrides)


def on(key, gain, **more):
    return Question(f"{key}?", key, lambda s: Proposal("on", gain, ""), **more)


DEAR = on("compile", 3.2, set_up_s=40.0)


def test_what_is_long_in_setting_up_comes_after_the_quick_ones_and_has_its_time_kept():
    machine = SlowToSetUp()
    report = advise(machine, on("pipeline", 1.15), on("bf16", 1.78), DEAR, seconds=120)
    assert [(f.key, f.verdict) for f in report.findings] == [
        ("bf16", "advised"),
        ("pipeline", "withdrawn"),
        ("compile", "advised"),
    ]
    assert report.seconds <= 120


def test_where_there_is_time_for_one_only_it_is_the_one_that_promises_most():
    quick = on("bf16", 1.78)
    assert verdicts(advise(SlowToSetUp(), quick, DEAR, seconds=62)) == {"compile": "advised", "bf16": "not tried"}
    modest = on("compile", 1.2, set_up_s=40.0)
    assert verdicts(advise(SlowToSetUp(), quick, modest, seconds=62)) == {"bf16": "advised", "compile": "not tried"}


def test_a_dear_change_that_is_withdrawn_leaves_the_quick_ones_their_time():
    machine = SlowToSetUp()
    machine.truth["compile", "on"] = 0.9
    assert verdicts(advise(machine, on("bf16", 1.78), DEAR, seconds=68)) == {"compile": "withdrawn", "bf16": "advised"}


def test_what_changes_the_batches_is_asked_only_when_nothing_else_is_left_to_try():
    asked = []

    def larger(s):
        asked.append(len(machine.opened))
        return Proposal(2, 1.9, "half a trial was run for this")

    machine = Machine({("pipeline", True): 0.8})
    report = advise(machine, Question("larger?", "size", larger, stage="batches"), PIPELINE)
    assert [finding.key for finding in report.findings] == ["pipeline", "size"] and asked == [2]


def test_an_early_change_has_fewer_pairs_where_a_later_one_would_have_none():
    gains = {("pipeline", True): 1.5, ("level", 1): 1.3}
    alone = advise(Machine(gains, set_up_s=2.5), PIPELINE, seconds=10.8)
    both = advise(Machine(gains, set_up_s=2.5), PIPELINE, LEVEL, seconds=10.8)
    assert [finding.gain.pairs for finding in alone.findings] == [10]
    assert verdicts(both) == {"pipeline": "advised", "level": "advised"} and both.findings[0].gain.pairs < 10


def test_what_is_computed_is_not_measured_with_the_rest():
    saved = Finding("how often to save?", "save_interval", 10, 100, "advised", "computed", 1.1)
    machine = Machine({("pipeline", True): 1.5})
    report = advise(machine, PIPELINE, Question("how often to save?", "save_interval", lambda s: saved, stage="late"))
    assert machine.opened == [{}, {"pipeline": True}] and report.together == report.findings[0].gain


def test_a_change_that_saves_something_else_may_cost_a_little():
    cheap = Question("compress?", "compress", lambda s: Proposal(True, None, "memory is short", needs=0.9))
    assert verdicts(advise(Machine({("compress", True): 0.95}, noise=0.01), cheap)) == {"compress": "advised"}
    assert verdicts(advise(Machine({("compress", True): 0.85}, noise=0.01), cheap)) == {"compress": "withdrawn"}


def test_a_change_that_breaks_while_it_runs_is_withdrawn(monkeypatch):
    machine = Machine()
    plain = machine.open

    def broken(overrides):
        run = plain(overrides)
        if overrides:
            run.run = lambda seconds: 1 / 0
        return run

    machine.open = broken
    report = advise(machine, PIPELINE)
    assert verdicts(report) == {"pipeline": "withdrawn"} and "division by zero" in report.findings[0].why


def test_a_question_may_answer_by_itself():
    answer = Finding("how often to save?", "save_interval", 10, 100, "advised", "a save takes 2 s")
    report = advise(Machine(), Question("how often to save?", "save_interval", lambda s: answer, stage="late"))
    assert report.findings == [answer] and report.overrides == {"save_interval": 100}


def test_the_profile_is_three_runs():
    runs = []

    class Counting(Machine):
        def open(self, overrides):
            trial = super().open(overrides)
            plain = trial.run
            trial.run = lambda seconds: runs.append(seconds) or plain(seconds)
            return trial

    advise(Counting())
    assert runs == [0.5] * 3


def test_everything_that_was_opened_is_closed():
    machine = Machine({("pipeline", True): 1.5, ("level", 1): 0.5, ("size", 2): 1.5})
    advise(machine, LEVEL, PIPELINE, SIZE)
    assert machine.is_open == 0


def test_it_stays_within_its_time():
    machine = Machine({("pipeline", True): 1.5, ("size", 2): 1.6, ("size", 4): 2.0}, noise=0.02)
    report = advise(machine, PIPELINE, LEVEL, SIZE, seconds=60)
    assert report.seconds <= 61


def test_the_report_is_plain_data():
    import json

    report = advise(Machine({("pipeline", True): 1.5}, noise=0.02), PIPELINE, LEVEL)
    data = json.loads(json.dumps(report.as_dict()))
    assert data["overrides"] == {"pipeline": True} and data["findings"][0]["gain"]["pairs"] == 10
    assert data["bottleneck"] == "the learning itself: 60 % of an iteration"


def test_the_bottleneck_is_what_takes_most():
    assert bottleneck({"collect": 0.7, "other": 0.1}).startswith("collect: the learner waits for it 70 %")
    assert bottleneck({}).startswith("the learning itself: 100 %")


def test_the_interval_lies_between_ratios_and_narrows_with_many():
    assert (gain_of([1.0, 2.0, 3.0]).low, gain_of([1.0, 2.0, 3.0]).high) == (1.0, 3.0)
    many = gain_of([float(i) for i in range(20)])
    assert (many.low, many.ratio, many.high) == (4.0, 9.5, 15.0)  # 1 - 2 P(at most 4 of 20 heads) = 0.988


def test_turns_cancel_a_drift():
    speed = [1.0]

    def run():
        speed[0] *= 1.05
        return speed[0]

    assert compare_alternating(run, run).ratio == pytest.approx(1.0, abs=0.01)


def test_turns_end_when_the_interval_can_no_longer_lie_above():
    def against(*ratios):
        rates = iter(ratios)
        return compare_alternating(lambda: 1.0, lambda: next(rates), floor=1.0)

    assert against(0.9, 1.2, 1.2, 0.9).pairs == 4
    assert against(0.9, *[1.2] * 9).low == 1.2  # one of ten may be lost
    assert compare_alternating(lambda: 1.0, lambda: 0.9, lambda done: 5).pairs == 5  # nothing was asked to stop it
    rates = iter([0.9, 1.2, 1.2])
    assert (
        compare_alternating(lambda: 1.0, lambda: next(rates), pairs=lambda done: 10 if done < 3 else 7, floor=1.0).pairs
        == 3
    )  # of seven none may


def test_turns_that_are_cut_short_have_the_interval_of_their_number():
    rates = iter([1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7])
    gain = compare_alternating(lambda: 1.0, lambda: next(rates), pairs=lambda done: 7 if done > 2 else 10)
    assert (gain.low, gain.ratio, gain.high) == (1.1, 1.4, 1.7)  # 1 - 2 / 2**7 = 0.984


def test_no_time_at_all_is_refused():
    with pytest.raises(ValueError, match="must be positive"):
        Advisor(Machine(), [], 0)
