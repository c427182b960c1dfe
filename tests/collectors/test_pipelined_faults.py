"""Whatever goes wrong on either side: it is heard of, nothing hangs, no thread stays."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import traceback
import weakref

import pytest
import torch
from torch import nn

from slipstream.collectors import PipelinedDataCollector, SyncDataCollector
from slipstream.envs.base import BadActionError

NAME = "slipstream collector thread"


def threads() -> int:
    return sum(t.name == NAME for t in threading.enumerate())


def eventually(true) -> bool:
    """Waits, a test's limit at most, for what must become true by itself."""
    deadline = time.monotonic() + 30
    while not true() and time.monotonic() < deadline:
        time.sleep(0.002)
    return true()


class Flies(nn.Module):
    """Acts until it is told to fail in a step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, observation):
        return torch.zeros(len(observation["count"]), 1) + self.weight


@pytest.fixture
def pipeline(counter_env):
    before = threads()
    built = []

    def build(policy=None, **settings):
        base = SyncDataCollector(counter_env(3), policy or Flies(), 12)
        collector = PipelinedDataCollector(base, **settings)
        built.append(weakref.ref(collector))
        return collector

    yield build
    for reference in built:
        collector = reference()
        if collector is not None:
            collector.shutdown()
    del reference, collector
    gc.collect()
    assert eventually(lambda: threads() <= before)


def fail_at(collector, step: int, kind: type[BaseException], what: object = "") -> None:
    """The env raises once, at this step counted from now."""
    env = collector.base.env
    advance, count = env._advance, iter(range(1, 1_000_000))

    def failing(action):
        if next(count) == step:
            raise kind(what)
        advance(action)

    env._advance = failing


def test_an_error_in_the_thread_is_raised_with_its_traceback(pipeline):
    collector = pipeline()
    fail_at(collector, 2 * 4 + 1, ZeroDivisionError, "the third batch")
    assert len([collector.rollout() for _ in range(2)]) == 2
    with pytest.raises(ZeroDivisionError, match="the third batch") as caught:
        collector.rollout()
    assert "failing" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_after_an_error_the_next_call_collects_that_batch_again(pipeline):
    collector = pipeline()
    fail_at(collector, 1, ZeroDivisionError, "once")
    with pytest.raises(ZeroDivisionError):
        collector.rollout()
    seen = [int(collector.rollout()["policy_version"][0, 0]) for _ in range(4)]
    assert seen == [0, 0, 1, 2]  # the same as if nothing had happened


def test_bad_actions_raise_at_their_batch(pipeline):
    policy = Flies()
    collector = pipeline(policy)
    collector.rollout()
    with torch.no_grad():
        policy.weight.fill_(float("nan"))
    collector.rollout()  # collected before the update
    with pytest.raises(BadActionError):
        collector.rollout()


def test_even_an_exit_in_the_thread_reaches_the_learner(pipeline):
    collector = pipeline()
    fail_at(collector, 1, SystemExit, 3)
    with pytest.raises(SystemExit):
        collector.rollout()


def test_shutting_down_twice_is_fine_and_calls_after_it_say_so(pipeline):
    collector = pipeline()
    collector.rollout()
    collector.shutdown()
    collector.shutdown()
    for call in (collector.rollout, collector.publish, collector.state_dict, lambda: next(iter(collector))):
        with pytest.raises(RuntimeError, match="shut down"):
            call()


def test_a_collector_that_is_dropped_ends_its_thread(pipeline):
    before = threads()
    collector = pipeline()
    collector.rollout()
    assert threads() == before + 1
    reference = weakref.ref(collector)
    del collector
    gc.collect()
    assert reference() is None
    assert eventually(lambda: threads() == before)


def test_a_busy_thread_does_not_keep_a_dropped_collector_alive(pipeline):
    begun, go_on = threading.Event(), threading.Event()
    collector = pipeline()
    collector.rollout()
    collector.settle()

    def wait(action):
        begun.set()
        assert go_on.wait(30)

    collector.base.env._advance = wait
    collector.publish()
    assert begun.wait(30)
    reference = weakref.ref(collector)
    del collector
    gc.collect()
    assert reference() is None
    go_on.set()


def test_a_child_process_says_that_the_thread_stayed_behind(pipeline):
    collector = pipeline()
    collector.rollout()
    collector.settle()
    child = os.fork()
    if child == 0:
        try:
            for _ in range(3):
                collector.rollout()
        except RuntimeError as error:
            os._exit(0 if "make one after the fork" in str(error) else 2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("how", ["pass", "raise KeyError('learner')", "import sys; sys.exit(0)"])
def test_the_interpreter_exits_cleanly_while_collecting(how):
    program = f"""
import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
import torch
from conftest import CounterEnv, act
from slipstream.collectors import PipelinedDataCollector, SyncDataCollector
collector = PipelinedDataCollector(SyncDataCollector(CounterEnv(64), act, 64 * 200))
collector.rollout()
{how}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    expected = 1 if "KeyError" in how else 0
    assert done.returncode == expected, done.stderr
    assert ("learner" in done.stderr) == bool(expected)
    assert "Fatal" not in done.stderr


def test_a_save_does_not_wait_for_the_batch_in_flight(counter_env):
    collector, twin = (PipelinedDataCollector(SyncDataCollector(counter_env(3), Flies(), 12)) for _ in range(2))
    entered, may_leave = threading.Event(), threading.Event()
    with collector, twin:
        collector.rollout()
        collector.settle()  # the second batch is ready
        advance = collector.base.env._advance

        def wait(action):
            entered.set()
            assert may_leave.wait(60)
            advance(action)

        collector.base.env._advance = wait
        collector.rollout()
        collector.publish()
        assert entered.wait(30)
        states = []
        saving = threading.Thread(target=lambda: states.append(collector.state_dict()), daemon=True)
        saving.start()
        saving.join(30)
        may_leave.set()
        assert len(states) == 1
        twin.load_state_dict(states[0])
        assert (twin.rollout() == collector.rollout()).all()
