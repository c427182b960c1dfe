"""Flights of a training, for the viewer: a process of its own flies the present weights and writes a recording.

A training starts it (`FlightRecorder`) and continues. As another process it takes no lock of the interpreter and no
random number of the training; it runs with the lowest priority, on the CPU.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slipstream.config import registry
from slipstream.recordings import SUFFIX
from slipstream.sim.processes import end_beside, end_with_input, python_command, python_environment, start_beside
from slipstream.storage.files import regular_files
from slipstream.training.evaluate import configure

FOLDER = "recordings"
KEPT = 50  # recordings of a run; older ones are removed
LONGEST_S = 600.0  # a process that takes longer is ended


class FlightRecorder:
    """Records a flight every `minutes` into RUN/recordings; with 0 it does nothing. The first failure is warned about,
    as is a process that takes longer than `minutes`.

    Args:
        run: the run folder.
        minutes: between two flights.
        warn: called with the text of a warning.
        show: called with the film of each flight, a GIF that is removed afterwards; None draws none.
    """

    def __init__(
        self, run: Path, minutes: float, warn: Callable[[str], None], show: Callable[[Path], None] | None = None
    ) -> None:
        self._folder, self._minutes, self._warn, self._show = run / FOLDER, minutes, warn, show
        self._started_s = time.perf_counter()  # the last flight
        self._process: subprocess.Popen[bytes] | None = None
        self._has_warned = self._is_late = False

    def is_due(self) -> bool:
        """Return whether the next flight is due; one at a time. A process that takes too long is ended."""
        elapsed_s = time.perf_counter() - self._started_s
        due = 0 < 60 * self._minutes <= elapsed_s
        if not self.is_busy():
            return due
        if elapsed_s > LONGEST_S:
            self._process.kill()  # type: ignore[union-attr]
        if due and not self._is_late:
            self._is_late = True
            late = f"recording a flight takes longer than record_minutes={self._minutes:g}"
            self._warn(f"{late}: the next one starts when it is done; give a larger record_minutes")
        return False

    def is_busy(self) -> bool:
        """Return whether a flight is being recorded; show the film of one that is done."""
        if self._process is not None and self._process.poll() is None:
            return True
        self._check()
        return False

    def start(self, iteration: int, saver: Any, policy_state: dict[str, Any]) -> None:
        """Save the policy in the background, and start the process that flies it."""
        self._folder.mkdir(exist_ok=True)
        weights = self._folder / f".{iteration:08d}-policy.pt"  # no number before .pt: not a checkpoint of a series
        saver.save_async(policy_state, weights, compress=False)
        command = python_command("-m", "slipstream.training.record", str(weights), str(iteration))
        command += ["film"] if self._show else []
        config = policy_state.get("config", {})  # of this run: what it names was typed
        command += shlex.split(
            registry.trusting_words({key: config[key] for key in ("algo", "model", "env") if key in config})
        )
        env = python_environment(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        self._process = start_beside(command, env)
        self._started_s = time.perf_counter()

    def close(self) -> None:
        """End a flight that is not done."""
        self._show = None  # the logs are closed
        if self._process is not None and self._process.poll() is None:
            self._has_warned = True  # it did not fail
        self._check()

    def _check(self) -> None:
        """Warn if the process that has ended failed; remove its weights and forget it."""
        process, self._process = self._process, None
        if process is None:
            return
        text = end_beside(process)
        if process.returncode and not self._has_warned:
            self._has_warned = True
            reason = f"it was ended after {LONGEST_S:.0f} s" if process.returncode == -signal.SIGKILL else text
            self._warn(f"a flight could not be recorded (record_minutes); later failures are not shown: {reason}")
        if self._show and not process.returncode:
            for film in self._folder.glob(".*.gif"):
                self._show(film)
        for made in self._folder.glob(".*"):
            if made.suffix in (".pt", ".gif", ".png"):
                made.unlink(missing_ok=True)


def record(weights: Path, iteration: int, film: bool = False, trusted: Sequence[str] = ()) -> Path:
    """Fly a policy as its task says; write RUN/recordings/ITERATION.rec, and a film as a hidden file beside it.

    Args:
        trusted: words that name the user's own code, as they were typed for the training.
    """
    while not weights.exists():  # the training writes it in the background
        time.sleep(0.1)
    cfg, trained = configure([f"checkpoint={weights}", "device=cpu", "threads=1", *trusted])
    recording = registry.find_task(cfg.task).record(cfg, trained)
    recording.title = f"iteration {iteration:,}"
    recording.meta["policy"] = f"iteration {iteration}"
    path = recording.save(weights.with_name(f"{iteration:08d}{SUFFIX}"))
    if film and recording.draw_film:
        recording.draw_film(path.with_name(f".{path.stem}.gif"))  # some draw a .png beside it
    weights.unlink()
    for old in regular_files(path.parent, lambda name: name.endswith(SUFFIX))[:-KEPT]:
        old.unlink()
    return path


if __name__ == "__main__":
    os.nice(19)
    end_with_input()
    words = [word for word in sys.argv[3:] if word != "film"]
    record(Path(sys.argv[1]), int(sys.argv[2]), len(words) < len(sys.argv[3:]), words)
