"""Flights of a training, for the viewer: a process of its own flies the present weights and writes a recording.

A training starts it (`FlightRecorder`) and continues. As another process it takes no lock of the interpreter and no
random number of the training; it runs with the lowest priority, on the CPU.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from slipstream.config import registry
from slipstream.recordings import SUFFIX
from slipstream.training.clock import Clock
from slipstream.training.evaluate import configure

FOLDER = "recordings"
KEPT = 50  # recordings of a run; older ones are removed
LONGEST_S = 600.0  # a process that takes longer is ended


class FlightRecorder:
    """Records a flight every `minutes` into RUN/recordings; with 0 it does nothing."""

    def __init__(self, run: Path, minutes: float) -> None:
        self._folder, self._minutes = run / FOLDER, minutes
        self._clock = Clock(60 * minutes)
        self._process: subprocess.Popen[bytes] | None = None

    def is_due(self) -> bool:
        """Return whether the next flight is due; one at a time."""
        if not self._clock.is_up():
            return False
        if self._process is not None and self._process.poll() is None:
            if self._clock.used_s() > LONGEST_S + 60 * self._minutes:
                self._process.kill()
            return False
        return True

    def start(self, iteration: int, saver: Any, policy_state: dict[str, Any]) -> None:
        """Save the policy in the background, and start the process that flies it."""
        self._folder.mkdir(exist_ok=True)
        weights = self._folder / f".{iteration:08d}.pt"
        saver.save_async(policy_state, weights, compress=False)
        command = [sys.executable, "-m", "slipstream.training.record", str(weights), str(iteration), str(os.getpid())]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment)
        self._clock = Clock(60 * self._minutes)

    def close(self) -> None:
        """End a flight that is not done."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for weights in self._folder.glob(".*.pt"):
            with contextlib.suppress(OSError):
                weights.unlink()


def record(weights: Path, iteration: int, trainer: int) -> Path:
    """Fly a policy as its task says; write RUN/recordings/ITERATION.rec."""
    import time

    while not weights.exists():  # the training writes it in the background
        if os.getppid() != trainer:
            raise FileNotFoundError(f"{weights} was not written")
        time.sleep(0.1)
    cfg, trained = configure([f"checkpoint={weights}", "device=cpu", "threads=1"])
    recording = registry.find_task(cfg.task).record(cfg, trained)
    recording.title = f"iteration {iteration:,}"
    recording.meta["policy"] = f"iteration {iteration}"
    path = recording.save(weights.with_name(f"{iteration:08d}{SUFFIX}"))
    weights.unlink()
    for old in sorted(path.parent.glob(f"*{SUFFIX}"))[:-KEPT]:
        old.unlink()
    return path


if __name__ == "__main__":
    os.nice(19)
    record(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
