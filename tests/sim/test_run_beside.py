"""Calls that are made in threads for a CUDA device, and here for another."""

import threading

import pytest
import torch

from slipstream.sim.devices import run_beside

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def streams(monkeypatch):
    """The streams that threads were given, without a CUDA device."""
    given = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    monkeypatch.setattr(torch.cuda, "set_stream", given.append)
    return given


def test_on_a_cpu_calls_are_made_here_in_order():
    made = []
    first, second = run_beside(CPU, lambda: made.append("first") or 1, lambda: made.append("second") or 2)
    assert made == ["first", "second"] and (first.result(), second.result()) == (1, 2)
    with pytest.raises(ZeroDivisionError):
        run_beside(CPU, lambda: 1 / 0)


def test_on_a_gpu_calls_run_at_the_same_time(streams):
    meeting = threading.Barrier(3)
    futures = run_beside(CUDA, *[lambda: meeting.wait(20) and threading.current_thread()] * 2)
    meeting.wait(20)
    assert threading.current_thread() not in [future.result(20) for future in futures]
    assert streams == ["the stream of cuda"] * 2


def test_an_error_in_a_thread_waits_to_be_asked_for(streams):
    failed, done = run_beside(CUDA, lambda: 1 / 0, lambda: 3)
    assert isinstance(failed.exception(20), ZeroDivisionError) and done.result(20) == 3
    assert run_beside(CUDA) == []
