"""What batches and waiting checkpoints take of a process's memory: `python benchmarks/memory_use.py`.

Each row is the peak of a process of its own (VmHWM), less what the process had before the part that is measured.
The documents say: return_same_td=False takes twice the memory (4 instead of 2 GB), and a queue of three checkpoints of
200 MB takes 600 MB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

STATE_MB, SAVES = 200, 6


def now_and_peak() -> tuple[float, float]:
    """Return the resident memory of this process and its peak, in MB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(lines["VmRSS"].split()[0]) / 1024, int(lines["VmHWM"].split()[0]) / 1024


def collect(same: bool, envs: int = 1024, batches: int = 6) -> float:
    """Collect batches of `envs` x 32 steps and keep the newest one, as PPO does."""
    from slipstream import NavigationEnv, SyncDataCollector
    from slipstream.models import build_policy

    env = NavigationEnv(num_envs=envs)
    policy = build_policy(env.observation_spec, env.action_spec)
    for _ in SyncDataCollector(env, policy, envs, envs):  # what the first step of env and policy takes
        pass
    before = now_and_peak()[0]
    for _ in SyncDataCollector(env, policy, envs * 32, envs * 32 * batches, return_same_td=same):
        pass
    return now_and_peak()[1] - before


def save(waiting: int) -> float:
    """Save a state of 200 MB `SAVES` times without a pause: the queue is full."""
    from slipstream import AsyncCheckpointSaver

    state = {f"w{i}": torch.randn(STATE_MB // 10 * 2**18) for i in range(10)}
    before = now_and_peak()[0]
    with tempfile.TemporaryDirectory() as folder, AsyncCheckpointSaver(max_queue_size=waiting) as saver:
        for i in range(SAVES):
            saver.save_async(state, f"{folder}/c_{i}.pt", compress=False)
    return now_and_peak()[1] - before


ROWS = {
    "batches of 1,024 drones x 32 steps, return_same_td=True": lambda: collect(True),
    "batches of 1,024 drones x 32 steps, return_same_td=False": lambda: collect(False),
    "checkpoints of 200 MB, max_queue_size=1": lambda: save(1),
    "checkpoints of 200 MB, max_queue_size=3": lambda: save(3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", type=int, help="measure one row in this process")
    args = parser.parse_args()
    if args.row is not None:
        print(f"{list(ROWS.values())[args.row]():.0f}")
        return
    print("|  | MB |\n|---|---|")
    for number, name in enumerate(ROWS):
        done = subprocess.run([sys.executable, __file__, f"--row={number}"], capture_output=True, text=True, check=True)
        print(f"| {name} | {done.stdout.split()[-1]} |", flush=True)


if __name__ == "__main__":
    main()
