"""Replay buffers side by side: time to sample a batch, memory of the observations, time to add them.

    python benchmarks/replay.py                       # all data sets, about half an hour on two idle cores
    python benchmarks/replay.py --data frames lidar --checkpoint navrl_checkpoint.pt
    python benchmarks/replay.py --growth              # memory and time per batch from 10^4 to 10^7 steps

Everything runs in one process with two threads (`--threads`). Each contender alternates with the limit, one batch of
256 steps with next observations each; times are medians, ratios are medians over the rounds of (contender / limit of
the same round). A contender stops after ten seconds. Contenders run one after another, so that idle memory does not get
cold. Memory is that of the observations with all overhead, relative to the raw observations stored once. Adding is
timed for as many episodes as fit into a few seconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from datetime import date
from typing import Any

import numpy as np
import replay_data
import replay_peers
import torch

BATCH = 256
clock = add_clock = time.perf_counter
SIT_OUT_S = 10.0  # spent by one contender
ADD_S = 8.0


def data_set(name: str, checkpoint: str | None) -> np.ndarray:
    makers = {
        "frames": lambda: replay_data.game_frames(100),
        "lidar": lambda: replay_data.lidar_scans(4),
        "recorded lidar": lambda: replay_data.recorded_lidar(checkpoint),
        "gridmaps": lambda: replay_data.gridmaps(10),
        "continuous gridmaps": lambda: replay_data.gridmaps(10, continuous=True, seed=5),
    }
    return makers[name]()


GROUPS = {
    "frames": (1, 2, 4, 8, 16, 32),
    "lidar": (1, 8, 32),
    "recorded lidar": (1, 8, 32),
    "gridmaps": (1, 8, 64),
    "continuous gridmaps": (1, 8, 64),
}


def fill(contender: Any, episodes: np.ndarray) -> tuple[float, int]:
    """(bytes of observations added a second, episodes added); slow ones get as many as they can take.

    Short episodes, which come from many environments at once, are handed to our buffer as a collector would: a batch at
    a time.
    """
    many = 256 if hasattr(contender, "extend") and episodes.shape[1] < 100 else 1
    spent, added = 0.0, 0
    while added < len(episodes) and spent < ADD_S:
        part = episodes[added : added + many]
        start = add_clock()
        if many > 1:
            contender.extend(part)
        else:
            contender.add(part[0])
        spent += add_clock() - start
        added += len(part)
    if hasattr(contender, "finish"):
        contender.finish()
    return added * episodes[0].nbytes / spent, added


def turns(contender: Any, limit: Any, rounds: int) -> tuple[list[float], list[float]]:
    """(seconds a batch, times the limit of the same round)."""
    seconds, ratios = [], []
    for k in range(rounds + 1):
        start = clock()
        limit.sample(BATCH)
        middle = clock()
        contender.sample(BATCH)
        if k:  # the first warms up
            seconds.append(clock() - middle)
            ratios.append(seconds[-1] / (middle - start))
        if sum(seconds) > SIT_OUT_S:
            break
    return seconds, ratios


def compare(name: str, episodes: np.ndarray, rounds: int) -> None:
    frames = episodes.reshape(-1, *episodes.shape[2:])
    kind = f"{frames.dtype} {list(frames.shape[1:])}, {frames.nbytes / 1e6:.0f} MB raw"
    print(f"\n## {name}: {len(episodes)} episodes of {episodes.shape[1]}, {kind}\n")
    limit = replay_peers.Limit(frames)
    lines: dict[str, tuple[float, float, float, float, str]] = {}
    for label, make in replay_peers.contenders(frames.shape[1:], frames.dtype, len(frames), GROUPS[name]).items():
        try:
            made = make()
            rate, added = fill(made, episodes)
            seconds, ratios = turns(made, limit, rounds)
        except Exception as error:  # a peer that cannot hold these data is told of, not hidden
            print(f"({label} is left out: {type(error).__name__}: {str(error).splitlines()[0][:120]})\n")
            continue
        note = f"{added} of {len(episodes)} episodes" if added < len(episodes) else ""
        if hasattr(made, "columns"):
            column = next(c for c in made.columns().values() if "sealed_rows" in c)
            note = column["codec"]
        memory = made.nbytes / (added * episodes[0].nbytes)
        lines[label] = (statistics.median(seconds), statistics.median(ratios), memory, rate, note)
        del made
    slow = lines.get("baseline, episodes")
    print("| | ms per batch | x limit | baseline / this | memory / raw | added MB/s | x baseline | |")
    print("|---|---|---|---|---|---|---|---|")
    for label, (median, ratio, memory, rate, note) in lines.items():
        against = (f"{slow[0] / median:.0f}", f"{rate / slow[3]:.1f}") if slow else ("–", "–")
        print(
            f"| {label} | {median * 1e3:.3g} | {ratio:.2f} | {against[0]} | {memory:.4f} | {rate / 1e6:.0f} | {against[1]} | {note} |"
        )


def growth(largest: int) -> None:
    """Memory and time a batch against the number of steps: lidar scans, the same over and over."""
    scans = replay_data.lidar_scans(1, 256, 201, seed=3).reshape(256, 201, 1, 36, 4)
    print("\n## Growth: lidar scans, episodes of 200\n")
    print("| steps | ms per batch of 256 | bytes per step, all keys | raw | added steps/s |\n|---|---|---|---|---|")
    steps = 10_000
    while steps <= largest:
        buffer = replay_peers.Ours(steps)
        start = clock()
        for k in range(steps // 200):
            buffer.add(scans[k % 256])
        rate = steps / (clock() - start)
        buffer.finish()
        times = []
        for _ in range(200):
            start = clock()
            buffer.sample(BATCH)
            times.append(clock() - start)
        print(
            f"| {steps:.0e} | {statistics.median(times) * 1e3:.3f} | {buffer.nbytes / steps:.0f} | {576 + 8} | {rate:,.0f} |",
            flush=True,
        )
        buffer.buffer.close()
        steps *= 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument(
        "--checkpoint", help="policy that flies for the recorded lidar; the one that ships with the package otherwise"
    )
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--largest", type=int, default=10_000_000, help="steps of the last row of --growth")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu-time", action="store_true", help="time by the processor's clock: for busy machines, with --threads 1"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.cpu_time:
        global clock, add_clock
        clock, add_clock = time.process_time, time.thread_time  # adding: what the adding thread itself spends
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    print(f"{args.threads} threads, {'processor' if args.cpu_time else 'wall'} time")
    warm_up = replay_peers.Ours(100)
    warm_up.add(np.zeros((40, 1, 36, 4), np.float32))
    warm_up.sample(BATCH)
    if args.growth:
        growth(args.largest)
        return
    for name in args.data:
        episodes = data_set(name, args.checkpoint)
        torch.set_num_threads(args.threads)  # recording flies through numba, which sets the threads they share
        compare(name, episodes, args.rounds)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
