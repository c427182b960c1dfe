"""Data-parallel trainings: two ranks on the CPU (gloo), what they share, and what happens if one is lost."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.listeners import descendants, listening
from tiny_runs import TINY, refusal

from slipstream import train
from slipstream.checkpoint import load_checkpoint
from slipstream.config.compose import load_train
from slipstream.training import distributed
from slipstream.training.distributed import OVER, Guard
from slipstream.training.metrics_log import read_metrics

SCRIPT = Path(__file__).with_name("two_ranks.py")
WORDS = [*TINY, "save_interval=1", "quiet=false"]


def run_cases(folder, *cases):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, SCRIPT, folder, *cases]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=3600)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_ranks_learn_as_one_process_and_resume_bit_for_bit(tmp_path):
    run_cases(tmp_path, "large_batch", "equal:sac", "resume:ppo")


@pytest.mark.soak
def test_gru_sac_and_league_resume_bit_for_bit_in_two_ranks(tmp_path):
    run_cases(tmp_path, "resume:gru", "resume:sac", "resume:league")


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_a_killed_or_stopped_rank_ends_the_job(tmp_path, count):
    run_cases(tmp_path, f"stops:{count}:1", "hosted")


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def start():
    """Starts a command; what still runs at the end of the test is stopped."""
    started = []

    def start(*command):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        env["GLOO_SOCKET_IFNAME"] = "lo"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen([sys.executable, "-m", *command], env=env, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait()


def last_rank_of(launcher):
    """The process that a launcher has started last."""
    return int(Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()[-1])


def wait_for_checkpoint(process, folder, number):
    """Wait until there is a checkpoint after `number` iterations; the process must not end before."""
    while not any(int(path.name[5:11]) >= number for path in folder.glob("checkpoints/ckpt_*.slip")):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            raise AssertionError(process.stdout.read())


@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc")
def test_the_command_starts_stops_and_names_ranks(tmp_path, start):
    folder = tmp_path / "run"
    words = [*WORDS, f"root={tmp_path}", "name=run", "device=cpu", "gpus=2", "total_frames=128000000"]
    first = start("slipstream", "train", *words)
    wait_for_checkpoint(first, folder, 2)
    first.send_signal(signal.SIGINT)
    for pid in descendants(first.pid):  # a scheduler may signal all processes: a guard is not ended by it
        if int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) != first.pid:
            os.kill(pid, signal.SIGTERM)
    text = first.communicate()[0]
    assert first.returncode == 130 and f"stopped; continue with: slipstream train resume={folder}" in text, text
    assert "2 ranks: 128 frames per iteration" in text
    saved = load_checkpoint(folder / "checkpoints")
    assert len(saved["ranks"]) == 1 and saved["frames"] == 128 * saved["iteration"]

    second = start("slipstream", "train", f"resume={folder}")  # the run's own gpus=2
    wait_for_checkpoint(second, folder, saved["iteration"] + 2)
    assert set(map(str, listening(descendants(second.pid)))) == {"127.0.0.1"}
    victim = last_rank_of(second)
    os.kill(victim, signal.SIGKILL)
    text = second.communicate()[0]
    assert second.returncode == 2, text
    named = rf"rank 1 of 2 \(process {victim} on .*\) was killed or has crashed; the training ends\. Continue"
    assert re.search(rf"{named} from its last checkpoint: slipstream train resume={folder}", text), text
    assert text.count("rank 1") == 1 and "Traceback" not in text

    reached = load_checkpoint(folder / "checkpoints")
    options = ["--standalone", "--nproc-per-node=2", "-m", "slipstream", "train"]
    more = f"total_frames={reached['frames'] + 256}"
    third = start("torch.distributed.run", *options, f"resume={folder}", more)
    text = third.communicate()[0]
    assert third.returncode == 0, text
    assert read_metrics(folder)[-1]["iteration"] == reached["iteration"] + 2


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpus=0"], "gpus must be auto or a number from 1 on, not 0"),
        (["gpus=many"], "gpus must be a whole number or auto, not 'many'"),
        (["gpus=64"], "gpus=64: torch finds 2 GPUs on this machine: give gpus=2 or gpus=auto"),
        (["gpus=auto", "device=cpu"], "gpus=auto counts GPUs: give a number of processes with device=cpu"),
        (["gpus=2", "device=cuda:1"], "give device=auto, cuda or cpu, not device=cuda:1"),
        (["gpus=100000", "device=cpu"], "would start as many processes"),
        (["gpus=2", "env.num_envs=auto"], "gpus=2 does not work with env.num_envs=auto"),
        (["gpus=2", "distributed.timeout_s=0"], r"distributed.timeout_s must be in \[1, 86400\], not 0"),
    ],
)
def test_a_number_of_ranks_that_cannot_be_is_refused(monkeypatch, capfd, words, message):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert re.search(message, refusal(capfd, *words))


@pytest.mark.parametrize("wrong", [{"RANK": "5"}, {"RANK": "x"}, {"WORLD_SIZE": "-2"}, {"MASTER_PORT": "here"}])
def test_variables_of_torchrun_that_cannot_be_are_refused(monkeypatch, capfd, wrong):
    good = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    for name, value in (good | wrong).items():
        monkeypatch.setenv(name, value)
    (name, value), *_ = wrong.items()
    text = refusal(capfd, *WORDS, "device=cpu")
    assert f"{name}={value} " in text and "in the environment cannot be: start the ranks with torchrun" in text


@pytest.mark.parametrize("given", [{"RANK": "0"}, {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}])
def test_a_part_of_torchruns_variables_is_refused(tmp_path, monkeypatch, capfd, given):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    text = refusal(capfd, *WORDS, "device=cpu", f"root={tmp_path}")
    assert "MASTER_ADDR" in text and f"unset {' '.join(given)} to train in one process" in text
    assert list(tmp_path.iterdir()) == []


def test_the_advisor_and_python_refuse_several_ranks(capfd):
    one_process = "gpus=2 needs as many processes, and there are 1: only `slipstream train` starts them"
    assert one_process in refusal(capfd, *WORDS, "gpus=2", "device=cpu", "seconds=1", command="advise")
    with pytest.raises(ValueError, match="only `slipstream train` starts them"):
        train.run(load_train([*WORDS, "gpus=2", "device=cpu"]))


# -- two nodes ---------------------------------------------------------------------------------------------------------


def start_nodes(start, *words):
    """Start a rank on each of two nodes, as torchrun does on two machines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    own = ["-m", "slipstream", "train", *WORDS, "device=cpu", *words]
    return [start("torch.distributed.run", *options, f"--node-rank={node}", *own) for node in (0, 1)]


def kill_node(launcher):
    """The machine of a launcher, with the store of torchrun if it is the first one, loses its power."""
    for pid in descendants(launcher.pid)[::-1]:
        os.kill(pid, signal.SIGKILL)


FAULTS = {
    "kill": (lambda nodes: os.kill(last_rank_of(nodes[1]), signal.SIGKILL), "rank 1 of 2 .* was killed or has crashed"),
    "stop": (
        lambda nodes: os.kill(last_rank_of(nodes[1]), signal.SIGSTOP),
        r"rank 1 of 2 .* has not answered for 4.5 s",
    ),
    "store": (lambda nodes: kill_node(nodes[0]), "rank 0 of 2 .* was killed or has crashed, or its machine is lost"),
    "launcher": (lambda nodes: os.kill(nodes[0].pid, signal.SIGKILL), "rank 0 of 2 .* has lost its launcher"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc")
@pytest.mark.parametrize("fault", FAULTS)
def test_every_node_names_a_rank_that_is_lost(tmp_path, start, fault):
    words = [f"root={tmp_path}", "name=run", "total_frames=128000000", "distributed.timeout_s=8"]
    nodes = start_nodes(start, *words)
    wait_for_checkpoint(nodes[0], tmp_path / "run", 5)
    act, message = FAULTS[fault]
    act(nodes)
    for number, node in enumerate(nodes):
        text = node.communicate()[0]
        said = [line for line in text.splitlines() if line.startswith("slipstream train:")]
        if fault == "store" and number == 0:
            continue
        assert node.returncode != 0 and len(said) == 1 and re.search(message, said[0]), text
        assert f"Continue from its last checkpoint: slipstream train resume={tmp_path / 'run'}" in said[0]
        assert "frame #" not in text


def test_ranks_with_other_settings_or_versions_do_not_begin(tmp_path):
    run_cases(tmp_path, "differ")


# -- who is lost -------------------------------------------------------------------------------------------------------


class Watch(Guard):
    """A guard among three ranks, without processes and store."""

    def __init__(self):
        self.limit, self.beats, self.missed, self.reports = 10, [""] * 3, [0] * 3, [""] * 3

    def tick(self, *alive, count=1):
        for number in range(count):
            for rank in alive:
                self.reports[rank] = f"{self.beats[rank]}{number}"
            lost = self.count_silence([*self.reports])
        return lost


def test_a_silent_rank_is_lost_and_one_that_is_over_is_not():
    watch = Watch()
    watch.reports[1] = OVER
    assert watch.tick(0, 2, count=50) is None
    assert watch.tick(0, count=10) is None
    assert watch.tick(0) == 2


def test_a_stopped_rank_is_named_and_ended_within_the_timeout():
    # in ticks, with one each until it is counted, written, read and acted on
    ticks = [round(share / distributed.TICK) for share in (distributed.SILENT, distributed.GRACE)]
    assert sum(ticks) + 5 <= 1 / distributed.TICK


def test_a_job_that_is_suspended_as_a_unit_has_lost_nobody():
    watch = Watch()
    assert watch.tick(0, 1, 2) is None
    assert watch.tick(count=100) is None
    assert watch.tick(0, count=5) is None
    assert watch.tick(0, 1, 2) is None


# -- one rank with NCCL ------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("more", [[], ["compile=on"], ["distributed.capture=off"]])
def test_one_rank_with_nccl_captures_the_all_reduce_and_ends(tmp_path, start, more):
    words = [*WORDS, f"root={tmp_path}", "name=run", "device=cuda", "total_frames=640", *more]
    done = start("torch.distributed.run", "--standalone", "--nproc-per-node=1", "-m", "slipstream", "train", *words)
    text = done.communicate(timeout=600)[0]
    assert done.returncode == 0 and "cannot be captured" not in text, text
    assert load_checkpoint(tmp_path / "run" / "checkpoints")["iteration"] == 10
