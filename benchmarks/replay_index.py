"""The index of the replay buffer alone, without data: time to sample, find, add and evict, from 1e4 to 1e8 steps.

python benchmarks/replay_index.py            # about 2 minutes, up to 3 GB
python benchmarks/replay_index.py --largest 1e6
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from slipstream.replay import PrioritizedSampler, Sampler, UniformSampler
from slipstream.replay.index import STARTS, StepIndex, make_pieces

BATCH = 256
EPISODE = 100  # mean steps an episode
REPEATS = 400


def filled(steps: int, rng: np.random.Generator) -> StepIndex:
    index = StepIndex()
    while len(index) < steps:
        lengths = rng.integers(1, 2 * EPISODE, min(100_000, max(1, (steps - len(index)) // EPISODE)))
        index.append(make_pieces(lengths, lengths + 1, flags=STARTS))
    return index


def prepared(kind: type[Sampler], index: StepIndex) -> Sampler:
    sampler = kind()
    sampler.start(0)
    sampler.added(index.head_step, index.tail_step, index.head_step)
    return sampler


def medians(turns: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds of each, taken in turns so that a busy machine slows all alike."""
    taken: dict[str, list[float]] = {name: [] for name in turns}
    for repeat in range(REPEATS + 20):
        for name, call in turns.items():
            start = time.perf_counter()
            call()
            if repeat >= 20:
                taken[name].append((time.perf_counter() - start) * 1e6)
    return {name: float(np.median(times)) for name, times in taken.items()}


def draw(index: StepIndex, sampler: Sampler, n_step: int, ends: np.ndarray) -> Callable[[], object]:
    def call() -> object:
        steps, _ = sampler.draw(BATCH, index.head_step, index.tail_step)
        return index.transitions(steps, n_step, 0.99, ends)

    return call


def add_and_evict(index: StepIndex) -> Callable[[], object]:
    """One episode comes, one leaves."""

    def call() -> None:
        index.evict(index.head + 1)
        index.append(make_pieces([EPISODE], [EPISODE + 1], flags=STARTS))

    return call


def table(largest: float) -> str:
    rng = np.random.default_rng(0)
    sizes = [10**k for k in range(4, 9) if 10**k <= largest]
    turns: dict[str, Callable[[], object]] = {}
    nbytes = {}
    for size in sizes:
        index = filled(size, rng)
        ends = np.zeros(1 << 16, np.uint8)
        for kind in (UniformSampler, PrioritizedSampler):
            sampler = prepared(kind, index)
            turns[f"{kind.__name__} {size}"] = draw(index, sampler, 1, ends)
            nbytes[f"{kind.__name__} {size}"] = (index.nbytes + sampler.nbytes) / size
            if kind is PrioritizedSampler:
                steps = rng.integers(index.head_step, index.tail_step, BATCH)
                turns[f"update_priority {size}"] = lambda sampler=sampler, steps=steps: sampler.update_priority(
                    steps, rng.random(BATCH)
                )
        turns[f"n_step=5 {size}"] = draw(index, prepared(UniformSampler, index), 5, ends)
        turns[f"add and evict {size}"] = add_and_evict(filled(size, rng))
    times = medians(turns)
    names = list(dict.fromkeys(name.rsplit(" ", 1)[0] for name in turns))
    lines = [f"| µs (batch {BATCH}) | " + " | ".join(f"{size:.0e} steps" for size in sizes) + " | largest / smallest |"]
    lines.append("|---|" + "---|" * (len(sizes) + 1))
    for name in names:
        row = [times[f"{name} {size}"] for size in sizes]
        lines.append(f"| {name} | " + " | ".join(f"{t:.1f}" for t in row) + f" | {row[-1] / row[0]:.2f} |")
    for kind in ("UniformSampler", "PrioritizedSampler"):
        lines.append(
            f"| bytes per step, {kind} | " + " | ".join(f"{nbytes[f'{kind} {size}']:.1f}" for size in sizes) + " | |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=float, default=1e8)
    print(table(parser.parse_args().largest))
