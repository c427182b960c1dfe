"""Several trainings from one command: `seed=0,1,2`, or with --multirun any key with several values.

Every training is a process of its own and an ordinary run folder inside ROOT/NAME. The same command with the same
`name=` continues: finished runs are kept, interrupted ones are resumed.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from slipstream.config.help import ConfigError
from slipstream.config.overrides import plain_overrides, value_of
from slipstream.storage.files import WriterLock

REPORT_S = 10.0  # seconds between two lines while trainings run side by side
STOP_CODES = (130, -2, -15)  # of a training that was interrupted


@dataclass
class Job:
    """One training of several."""

    name: str
    words: list[str]
    folder: Path


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
    for key in ("name", "root", "resume", "task"):
        if key in several:
            raise ConfigError(f"{key} takes one value, not several: start several commands")
    if value_of("resume", overrides):
        raise ConfigError("resume= continues one run: repeat the command of several runs with their name= instead")
    name = value_of("name", overrides) or f"{datetime.now():%Y-%m-%d_%H-%M-%S}_multirun"
    group = Path(value_of("root", overrides) or "runs") / name
    common = [str(w) for w in overrides if w.key not in several and w.key not in ("name", "root")]
    jobs = []
    for values in itertools.product(*several.values()):
        chosen = [f"{key}={value}" for key, value in zip(several, values, strict=True)]
        label = "_".join(re.sub(r"[^\w.=+-]+", "-", word) for word in chosen)
        jobs.append(Job(label, [*common, *chosen, f"root={group}", f"name={label}"], group / label))
    return jobs


def run_jobs(jobs: Sequence[Job], parallel: int = 1) -> Path:
    """Run the trainings, `parallel` at a time; return the folder that holds them.

    Raises:
        ChildProcessError: A training failed; the others were finished first.
        KeyboardInterrupt: A training was interrupted.
    """
    group = jobs[0].folder.parent
    group.mkdir(parents=True, exist_ok=True)
    waiting, failed = list(enumerate(jobs, start=1)), []
    running: dict[subprocess.Popen[bytes], Job] = {}
    reported = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                number, job = waiting.pop(0)
                print(f"[{number}/{len(jobs)}] {job.name}", flush=True)
                running[start_job(job, parallel)] = job
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
                _wait_for_any(running)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    if failed:
        where = f"; its output: {failed[0].folder.parent / (failed[0].name + '.log')}" if parallel > 1 else ""
        raise ChildProcessError(
            f"{len(failed)} of {len(jobs)} trainings failed ({', '.join(job.name for job in failed)}){where}. "
            f"The same command with name={group.name} repeats only these"
        )
    return group


def start_job(job: Job, parallel: int, to_file: bool = False) -> subprocess.Popen[bytes]:
    """Start or resume a training. Of several at a time each has its share of the cores, and a log file beside its
    folder."""
    resumes = any((job.folder / "checkpoints").glob("ckpt_*"))
    if job.folder.is_dir() and not resumes:  # killed before its first checkpoint
        with WriterLock(job.folder):
            shutil.rmtree(job.folder)
    words = [f"resume={job.folder}"] if resumes else job.words
    command = [sys.executable, "-m", "slipstream", "train", *words]
    if parallel == 1 and not to_file:
        return subprocess.Popen(command)
    threads = max(1, (os.cpu_count() or 1) // parallel)
    env = {"OMP_NUM_THREADS": str(threads)} | os.environ
    with open(job.folder.parent / f"{job.name}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)


def _wait_for_any(running: dict[subprocess.Popen[bytes], Job]) -> None:
    """Wait until a process ends, at most a fifth of a second."""
    process = next(iter(running))
    try:
        process.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        return
