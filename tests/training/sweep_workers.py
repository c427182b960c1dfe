"""Searches with trainings that take a tenth of a second: `python sweep_workers.py FOLDER TRIALS KILLS WORKERS JOBS`.

Workers are forked from a process that has imported everything, killed with SIGKILL after random times, and started
again until the search is finished. Several workers share a database. Prints the trials as JSON.
"""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from slipstream.distributed import sweep as module
from slipstream.distributed.sweep import Sweep

TRAINING = """
import json, pathlib, sys, time
folder, rate, width = pathlib.Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
with open(folder / "starts", "a") as file:
    file.write("start\\n")
score = 1 - abs(rate + 3) / 3 - width / 1000
rows = [{"iteration": k, "frames": 50 * k, "time_s": k, "eval/success": score * k / 20} for k in range(1, 21)]
with open(folder / "metrics.jsonl", "w") as file:
    for row in rows:
        print(json.dumps(row), file=file, flush=True)
        time.sleep(0.01)
"""
WORDS = [
    *("preset=demo", "total_frames=1000", "max_time_s=0"),
    *("algo.learning_rate=log(1e-5,1e-1)", "model.part=choice(8,64)"),
]


class FakeStart:
    """Starts a process that logs like a training: best at algo.learning_rate=1e-3 and a small model.part."""

    def __init__(self, *settings, **more):
        pass

    def __call__(self, job):
        words = dict(word.split("=", 1) for word in job.words)
        rate, width = math.log10(float(words["algo.learning_rate"])), words["model.part"]
        return subprocess.Popen([sys.executable, "-S", "-c", TRAINING, str(job.folder), str(rate), width])


def make(folder, trials, **settings):
    settings.setdefault("log", lambda text: None)
    return Sweep(WORDS, folder, trials, **settings)


def main() -> None:
    folder, (trials, kills, workers, jobs) = Path(sys.argv[1]), map(int, sys.argv[2:])
    module.LocalStart, module.POLL_S, module.HEARTBEAT_S = FakeStart, 0.02, 1
    storage = f"sqlite:///{folder}.db?timeout=100" if workers > 1 else None
    rng = random.Random(1)
    while True:
        children = []
        for _ in range(workers):
            if (pid := os.fork()) == 0:
                os.setpgid(0, 0)
                try:
                    make(folder, trials, parallel=jobs, storage=storage).run()
                    os._exit(0)
                except BaseException as error:
                    print(repr(error), file=sys.stderr, flush=True)
                    os._exit(1)
            children.append(pid)
        if kills:
            kills -= 1
            time.sleep(rng.uniform(0.2, 2.0))
            for pid in children:
                os.killpg(pid, signal.SIGKILL)
            [os.waitpid(pid, 0) for pid in children]
            continue
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        break
    study = make(folder, trials, storage=storage)._open_study()
    print(json.dumps({"codes": codes, "trials": [[t.number, t.state.name, t.value] for t in study.trials]}))


if __name__ == "__main__":
    main()
