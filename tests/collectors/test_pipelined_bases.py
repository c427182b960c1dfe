"""A pipeline around what is not ours: generators, other collectors."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from tensordict import TensorDict
from torch import nn

from slipstream.collectors import PipelinedDataCollector


def numbered(count: int):
    for i in range(count):
        yield TensorDict({"x": torch.full((3, 2), float(i))}, [3])


def test_a_generator_is_read_ahead_by_prefetch_count():
    read = []

    def source():
        for batch in numbered(9):
            read.append(1)
            yield batch

    with PipelinedDataCollector(source(), prefetch_count=3) as collector:
        collector.rollout()
        collector.settle()
        assert len(read) == 1 + 3


def test_on_policy_reads_nothing_before_it_is_asked_for():
    read = []

    def source():
        for batch in numbered(9):
            read.append(1)
            yield batch

    with PipelinedDataCollector(source(), on_policy=True) as collector:
        collector.rollout()
        collector.settle()
        assert len(read) == 1
        collector.publish()
        collector.settle()
        assert len(read) == 2


def test_an_error_of_the_base_is_raised_in_turn_and_again():
    def source():
        yield from numbered(2)
        raise OSError("the disk")

    with PipelinedDataCollector(source()) as collector:
        assert len([collector.rollout() for _ in range(2)]) == 2
        with pytest.raises(OSError, match="the disk"):
            collector.rollout()
        with pytest.raises(RuntimeError, match="the disk"):
            list(collector)


def test_a_base_that_gives_the_same_object_twice_is_refused():
    def source():
        batch = TensorDict({"x": torch.zeros(3)}, [3])
        while True:
            yield batch

    with PipelinedDataCollector(source()) as collector, pytest.raises(ValueError, match="same object twice"):
        for _ in collector:
            pass


def test_the_state_of_a_foreign_base_is_not_ours_to_save():
    with PipelinedDataCollector(numbered(3)) as collector, pytest.raises(TypeError, match="cannot be saved"):
        collector.state_dict()


class Base:
    """A collector that is not ours."""

    def __init__(self, policy=None, return_same_td=False):
        self.policy, self.return_same_td, self.shutdowns = policy, return_same_td, 0

    def __iter__(self):
        return numbered(3)

    def shutdown(self):
        self.shutdowns += 1


def test_a_base_with_a_policy_warns_unless_on_policy():
    with pytest.warns(UserWarning, match="copy.deepcopy"):
        PipelinedDataCollector(Base(nn.Linear(1, 1))).shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        PipelinedDataCollector(Base(nn.Linear(1, 1)), on_policy=True).shutdown()


def test_shutting_down_shuts_down_the_base():
    base = Base()
    collector = PipelinedDataCollector(base)
    collector.rollout()
    collector.shutdown()
    collector.shutdown()
    assert base.shutdowns == 1
    assert not any(t.name == "slipstream collector thread" and t.is_alive() for t in threading.enumerate())
