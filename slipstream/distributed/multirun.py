"""Several trainings from one command: `seed=0,1,2`, or with --multirun any key with several values.

Every training is a process of its own and an ordinary run folder inside ROOT/NAME. The same command with the same
`name=` continues: finished runs are kept, interrupted ones are resumed.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream.config.help import ConfigError, show
from slipstream.config.overrides import plain_overrides, value_of
from slipstream.sim.processes import python_command, python_environment
from slipstream.storage.files import WriterLock

if TYPE_CHECKING:
    from slipstream.config.schema import TrainConfig

REPORT_S = 10.0  # seconds between two lines while trainings run side by side
POLL_S = 0.1
SAVE_S = 60.0  # in which a training whose starter was killed must have saved, and another worker have asked
STOP_CODES = (75, 130, -2, -15)  # of a training that was interrupted
PARENT = "SLIPSTREAM_PARENT"  # the process that a training ends with
PR_SET_PDEATHSIG = 1


@dataclass
class Job:
    """One training of several."""

    name: str
    words: list[str]
    folder: Path

    def resume_words(self) -> list[str]:
        """Return the words that continue this training: the settings that have changed, if a resumed run may change
        them, and the names of the user's own code, which a run folder may not choose.

        Raises:
            ConfigError: The run was trained with other settings.
        """
        from slipstream.config import registry
        from slipstream.config.compose import flat_settings, from_dict, load_train, to_dict
        from slipstream.training.resume import RESUME_OVERRIDABLE, saved_config

        cfg, config = load_train(self.words), saved_config(self.folder)
        own_code = shlex.split(registry.trusting_words(to_dict(cfg)))
        registry.refuse_unregistered(config, own_code, str(self.folder))
        given, saved = flat_settings(to_dict(cfg)), flat_settings(to_dict(from_dict(config)))
        changed = [key for key in saved | given if given.get(key) != saved.get(key) and key not in ("auto", *cfg.auto)]
        for key in changed:
            if key not in RESUME_OVERRIDABLE:
                raise ConfigError(
                    f"{self.folder} was trained with {key}={show(saved.get(key))}, not {show(given.get(key))}: repeat "
                    "the command with the settings of its runs, or give another name="
                )
        of_start = ("root", "name", "init", "init_replay")
        more = [f"{key}={show(given[key])}" for key in changed if key not in of_start]
        return [f"resume={self.folder}", *own_code, *more]

    def was_saved(self) -> bool:
        """Return whether there is a checkpoint to continue from."""
        return any((self.folder / "checkpoints").glob("ckpt_*"))


Process = subprocess.Popen[bytes]
Start = Callable[[Job], Process]


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
    for key in ("name", "root", "resume", "task"):
        if key in several:
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
        jobs.append(Job(label, [*common, *chosen, f"root={group}", f"name={label}"], group / label))
    return jobs


def run_jobs(jobs: Sequence[Job], parallel: int, start: Start) -> Path:
    """Run the trainings, `parallel` at a time; return the folder that holds them.

    Raises:
        ConfigError: A run of one of them has other settings.
        BlockingIOError: Another process runs them.
        ChildProcessError: A training failed; the others were finished first.
        KeyboardInterrupt: A training was interrupted.
    """
    if parallel < 1:
        raise ConfigError(f"--jobs must be at least 1, not {parallel}")
    group = jobs[0].folder.parent
    group.mkdir(parents=True, exist_ok=True)
    with WriterLock(group, "wait until it ends or stop it, or give another name="):
        for job in jobs:
            if job.was_saved():
                job.resume_words()  # other settings are refused before anything starts
        failed = _run_all(jobs, parallel, start)
    if failed:
        where = f"; its output: {failed[0].folder.parent / (failed[0].name + '.log')}" if parallel > 1 else ""
        raise ChildProcessError(
            f"{len(failed)} of {len(jobs)} trainings failed ({', '.join(job.name for job in failed)}){where}. "
            f"The same command with name={group.name} repeats only these"
        )
    return group


def _run_all(jobs: Sequence[Job], parallel: int, start: Start) -> list[Job]:
    """Run the trainings, `parallel` at a time; return those that failed."""
    failed: list[Job] = []
    waiting = list(enumerate(jobs, start=1))
    running: dict[Process, Job] = {}
    reported = time.monotonic()
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
            if running:
                if parallel > 1 and time.monotonic() - reported > REPORT_S:
                    reported = time.monotonic()
                    print(f"{len(running)} running, {len(waiting)} waiting", flush=True)
                time.sleep(POLL_S)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    return failed


class LocalStart:
    """Start trainings on this machine. Each has its share of the cores, and of several GPUs the one with the fewest
    trainings.

    Args:
        parallel: Trainings at a time.
        cfg: Of the trainings: their device.
        to_file: Write the output of each to a file beside its folder, also if `parallel` is 1.
    """

    def __init__(self, parallel: int, cfg: TrainConfig, to_file: bool = False) -> None:
        self._threads = max(1, (os.cpu_count() or 1) // parallel) if parallel > 1 or to_file else None
        self._gpus = find_gpus() if cfg.device in ("auto", "cuda") and cfg.gpus is None else []
        self._used: dict[Process, str] = {}

    def __call__(self, job: Job) -> Process:
        """Start or resume a training."""
        if len(self._gpus) < 2:
            return start_job(job, self._threads)
        busy = Counter(gpu for process, gpu in self._used.items() if process.poll() is None)
        gpu = min(self._gpus, key=busy.__getitem__)
        process = start_job(job, self._threads, {"CUDA_VISIBLE_DEVICES": gpu})
        self._used[process] = gpu
        return process


def find_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return [name.strip() for name in names.split(",")][:count]


def start_job(job: Job, threads: int | None, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start or resume a training, which ends with this process.

    Args:
        job: The training.
        threads: CPU threads, with the output in a file beside the folder; None: all of them, and this terminal.
        env: More environment variables.
    """
    resumes = False
    if job.folder.is_dir():
        with wait_for_lock(job.folder):  # a training whose starter was killed saves first
            resumes = job.was_saved()
            if not resumes:  # killed before its first checkpoint
                shutil.rmtree(job.folder)
    words = job.resume_words() if resumes else job.words
    command = python_command("-m", "slipstream", "train", *words)
    env = python_environment(**(env or {}), **{PARENT: str(os.getpid())})
    if threads is None:
        return subprocess.Popen(command, env=env)
    with open(job.folder.parent / f"{job.name}.log", "ab") as log:
        env = {"OMP_NUM_THREADS": str(threads)} | env
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)


@contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, after waiting for the one who holds it.

    Raises:
        BlockingIOError: It is not released within `SAVE_S`.
    """
    lock, deadline = WriterLock(folder, "wait until it ends, or stop it"), time.monotonic() + SAVE_S
    while True:
        try:
            lock.take()
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(POLL_S)
    with lock:
        yield


def end_with_parent() -> None:
    """Let this process get SIGTERM when the one that started it as a job ends, also by SIGKILL (Linux)."""
    parent = os.environ.pop(PARENT, None)
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if parent else None
    if parent and prctl:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it has ended already
            os.kill(os.getpid(), signal.SIGTERM)
