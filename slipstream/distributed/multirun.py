"""Several trainings from one command: `seed=0,1,2`, or with --multirun any key with several values.

Every training is a process of its own and an ordinary run folder inside ROOT/NAME, started with `resume=auto`: the same
command with the same `name=` continues what was interrupted.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream.config.help import ConfigError
from slipstream.config.overrides import plain_overrides, value_of
from slipstream.sim.processes import python_command, python_environment
from slipstream.storage.files import WriterLock

if TYPE_CHECKING:
    from slipstream.config.schema import TrainConfig

POLL_S = 0.1
STOP_CODES = (75, 130, -2, -15)  # of a training that was interrupted
PARENT = "SLIPSTREAM_PARENT"  # the process that a training ends with
PR_SET_PDEATHSIG = 1


@dataclass
class Job:
    """One training of several: the words of `slipstream train`, which name its folder."""

    name: str
    words: list[str]
    folder: Path


def make_job(group: Path, name: str, words: Sequence[str]) -> Job:
    """Return the training GROUP/NAME."""
    return Job(name, [*words, f"root={group}", f"name={name}", "resume=auto"], group / name)


def split_values(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes: "[64,64],[128]" has two values."""
    parts = re.findall(r"(?:[^,\[\](){}'\"]|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|'[^']*'|\"[^\"]*\")+", text)
    return [part.strip() for part in parts]


def expand(words: Sequence[str], every_key: bool) -> list[Job]:
    """Return the trainings that words with several values stand for; an empty list if none has several.

    Args:
        words: `key=value` words.
        every_key: Split the values of all keys; otherwise only those of `seed`.
    """
    overrides = plain_overrides(words)
    choices = {w.key: split_values(w.value) for w in overrides if every_key or w.key == "seed"}
    several = {key: values for key, values in choices.items() if len(values) > 1}
    if not several:
        return []
    for key, parts in several.items():
        if len(set(parts)) < len(parts):
            raise ConfigError(f"{key}={','.join(parts)} has a value twice: give each once")
        if key in ("name", "root", "resume", "task"):
            raise ConfigError(f"{key} takes one value, not several: start several commands")
    if value_of("resume", overrides) not in (None, "auto"):  # a group continues by itself
        raise ConfigError("resume= continues one run: repeat the command of several runs with their name= instead")
    if value_of("wandb.run_id", overrides):
        raise ConfigError("wandb.run_id names one W&B run: leave it out of a command with several runs")
    name = value_of("name", overrides) or f"{datetime.now():%Y-%m-%d_%H-%M-%S}_multirun"
    group = Path(value_of("root", overrides) or "runs") / name
    common = [str(w) for w in overrides if w.key not in several and w.key not in ("name", "root", "resume")]
    jobs = []
    for values in itertools.product(*several.values()):
        chosen = [f"{key}={value}" for key, value in zip(several, values, strict=True)]
        label = "_".join(re.sub(r"[^\w.=+-]+", "-", word) for word in chosen)
        jobs.append(make_job(group, label, [*common, *chosen]))
    return jobs


def run_jobs(jobs: Sequence[Job], parallel: int, start: Callable[[Job], subprocess.Popen[bytes]]) -> Path:
    """Run the trainings, `parallel` at a time; return the folder that holds them.

    Raises:
        ConfigError: A run of one of them has other settings.
        BlockingIOError: Another process runs them.
        ChildProcessError: A training failed; the others were finished first.
        KeyboardInterrupt: A training was interrupted.
    """
    from slipstream.config.compose import load_train
    from slipstream.training.resume import refuse_changes, saved_config
    from slipstream.training.run_folder import check_name

    if parallel < 1:
        raise ConfigError(f"--jobs must be at least 1, not {parallel}")
    group = jobs[0].folder.parent
    check_name(group.name)
    group.mkdir(parents=True, exist_ok=True)
    with WriterLock(group, "wait until it ends or stop it, or give another name="):
        for job in jobs:
            if any((job.folder / "checkpoints").glob("ckpt_*")):  # other settings are refused before anything starts
                refuse_changes(load_train(job.words), saved_config(job.folder), job.folder)
        failed = _run_all(jobs, parallel, start)
    if failed:
        where = f"; its output: {failed[0].folder.parent / (failed[0].name + '.log')}" if parallel > 1 else ""
        raise ChildProcessError(
            f"{len(failed)} of {len(jobs)} trainings failed ({', '.join(job.name for job in failed)}){where}. "
            f"The same command with name={group.name} repeats only these"
        )
    return group


def _run_all(jobs: Sequence[Job], parallel: int, start: Callable[[Job], subprocess.Popen[bytes]]) -> list[Job]:
    """Run the trainings, `parallel` at a time; return those that failed."""
    failed: list[Job] = []
    waiting = list(enumerate(jobs, start=1))
    running: dict[subprocess.Popen[bytes], Job] = {}
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                number, job = waiting.pop(0)
                print(f"[{number}/{len(jobs)}] {job.name}", flush=True)
                running[start(job)] = job
            for process in [p for p in running if p.poll() is not None]:
                job = running.pop(process)
                if process.returncode in STOP_CODES:
                    raise KeyboardInterrupt
                if process.returncode:
                    failed.append(job)
                if parallel > 1:
                    print(f"{job.name}: {'failed' if process.returncode else 'done'}", flush=True)
            time.sleep(POLL_S if running else 0)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    return failed


class LocalStart:
    """Start trainings on this machine, which end with this process. Each has its share of the cores, and of several
    GPUs the one with the fewest trainings.

    Args:
        parallel: Trainings at a time.
        cfg: Of the trainings: their device.
        to_file: Write the output of each to a file beside its folder, also if `parallel` is 1.
    """

    def __init__(self, parallel: int, cfg: TrainConfig, to_file: bool = False) -> None:
        self._to_file = parallel > 1 or to_file
        self._threads = str(max(1, (os.cpu_count() or 1) // parallel))
        self._gpus = find_gpus() if cfg.device in ("auto", "cuda") and cfg.gpus is None else []
        self._used: list[tuple[subprocess.Popen[bytes], str]] = []

    def __call__(self, job: Job) -> subprocess.Popen[bytes]:
        """Start or resume a training."""
        command, env = python_command("-m", "slipstream", "train", *job.words), {PARENT: str(os.getpid())}
        gpu = ""
        if len(self._gpus) > 1:
            busy = Counter(gpu for process, gpu in self._used if process.poll() is None)
            gpu = env["CUDA_VISIBLE_DEVICES"] = min(self._gpus, key=busy.__getitem__)
        if self._to_file:
            env["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", self._threads)
            with open(job.folder.parent / f"{job.name}.log", "ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=python_environment(**env))
        else:
            process = subprocess.Popen(command, env=python_environment(**env))
        self._used.append((process, gpu))
        return process


def find_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return [name.strip() for name in names.split(",")][:count]


def end_with_parent() -> None:
    """Let this process get SIGTERM when the one that started it as a job ends, also by SIGKILL (Linux)."""
    parent = os.environ.pop(PARENT, None)
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if parent else None
    if parent and prctl:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it has ended already
            os.kill(os.getpid(), signal.SIGTERM)
