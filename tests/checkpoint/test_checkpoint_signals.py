import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.checkpoint.signals import SAME_S, StopFlag

LOOP = """
import os
import sys
from pathlib import Path
import torch
from slipstream.checkpoint import AsyncCheckpointSaver
weight = torch.zeros(50_000)
with AsyncCheckpointSaver() as saver:
    saver.install_signal_handlers(lambda signum: print("stopping", flush=True))
    for it in range(10_000_000):
        weight.fill_(it)
        if it == 0:
            os.write(1, b"running\\n")  # print in the handler must not meet another print
        if saver.stop_requested and sys.argv[2] == "heed":
            saver.save_async({"it": it, "w": weight}, Path(sys.argv[1]) / "last.pt")
            break
print("left", flush=True)
"""


def start(folder, manner):
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, str(folder), manner], stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout.readline() == "running\n"
    return process


def test_the_first_signal_ends_the_iteration_saves_and_leaves(tmp_path):
    process = start(tmp_path, "heed")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert out == "stopping\nleft\n" and process.returncode == 0
    state = load_checkpoint(tmp_path / "last.pt")
    assert (state["w"] == state["it"]).all()


def test_a_second_interrupt_leaves_at_once(tmp_path):
    process = start(tmp_path, "ignore")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    time.sleep(1.2 * SAME_S)
    process.send_signal(signal.SIGTERM)  # only SIGINT is impatient
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT


def test_an_interrupt_that_comes_twice_at_once_is_one(monkeypatch):
    """As `timeout -s INT` sends it: to the process, and to its group."""
    killed, now = [], [100.0]
    monkeypatch.setattr("slipstream.checkpoint.signals.time.monotonic", lambda: now[0])
    monkeypatch.setattr("slipstream.checkpoint.signals.os.kill", lambda *args: killed.append(args))
    before = signal.getsignal(signal.SIGINT)
    flag = StopFlag()
    flag._handle(signal.SIGINT, None)
    now[0] += 0.9 * SAME_S
    flag._handle(signal.SIGINT, None)
    assert flag.requested and not killed
    now[0] += 0.2 * SAME_S
    flag._handle(signal.SIGINT, None)
    signal.signal(signal.SIGINT, before)
    assert killed == [(os.getpid(), signal.SIGINT)]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_each_stop_signal_sets_the_flag_and_is_given_back(signum):
    before = signal.getsignal(signum)
    with AsyncCheckpointSaver() as saver:
        saver.install_signal_handlers()
        assert not saver.stop_requested
        os.kill(os.getpid(), signum)
        assert saver.stop_requested
    assert signal.getsignal(signum) == before
