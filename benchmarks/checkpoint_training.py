"""The rate of a training with asynchronous, blocking and no checkpoints, in turns in one process.

    python benchmarks/checkpoint_training.py                                          # navigation on a CPU
    python benchmarks/checkpoint_training.py device=cuda env.num_envs=16384           # on a GPU, captured
    python benchmarks/checkpoint_training.py --every 5 --rounds 9 model.trunk=[1024,1024]
    python benchmarks/checkpoint_training.py --write                                  # also writes results/checkpoint-training-<date>.md

Words are those of `slipstream train`. Every round trains `--iterations` iterations per contender, with a save every
`--every` of them. A round of asynchronous saves ends when its files are on the disk, so nothing is left for the next
one. TMPDIR chooses the disk. "blocking" is torch.save and fsync of the same state. The ratio is the median over the
rounds of (contender / no saves) in one round.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch

from slipstream import AsyncCheckpointSaver, Trainer
from slipstream.config.compose import load_train

Save = Callable[[int], None]


def measure(trainer: Trainer, iterations: int, every: int, save: Save, finish: Callable[[], None]) -> float:
    """Return the frames per second of `iterations` iterations with their saves."""
    device = trainer.env.device
    began = time.perf_counter()
    for it in range(1, iterations + 1):
        trainer.step()
        if it % every == 0:
            save(it)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elapsed_s = time.perf_counter() - began
    finish()
    return iterations * trainer.frames_per_batch / elapsed_s


def blocking_save(trainer: Trainer, folder: Path) -> Save:
    """Return a save that returns when the file is on the disk."""

    def save(it: int) -> None:
        with open(folder / f"blocking_{it}.pt", "wb") as file:
            torch.save(trainer.state_dict(it), file)
            file.flush()
            os.fsync(file.fileno())

    return save


def run(words: list[str], rounds: int, iterations: int, every: int) -> str:
    """Return the table."""
    rates: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as place,
        Trainer(load_train(words)) as trainer,
        AsyncCheckpointSaver(announce=lambda text: None) as saver,
    ):
        folder = Path(place)
        trainer.capture(lambda text: None)

        def save_async(compress: bool) -> Save:
            def save(it: int) -> None:
                saver.save_async(trainer.state_dict(it), folder / f"async_{it}.pt", compress)

            return save

        contenders: dict[str, Save] = {
            "no saves": lambda it: None,
            "asynchronous, .slip": save_async(True),
            "asynchronous, .pt": save_async(False),
            "blocking, torch.save": blocking_save(trainer, folder),
        }
        for number in range(rounds + 1):
            for name, save in contenders.items():
                rate = measure(trainer, iterations, every, save, saver.wait)
                if number:  # the first round warms up
                    rates.setdefault(name, []).append(rate)
        size_mb = {path.suffix: path.stat().st_size / 1e6 for path in sorted(folder.iterdir())}
        blocking_ms = saver.get_stats()["blocking_ms_median"]
        frames, device = trainer.frames_per_batch, trainer.env.device
    name = (
        torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
    )
    lines = [
        f"{name}; {frames:,} frames per iteration, a save every {every} of {iterations} iterations, {rounds} rounds; "
        f"files of {', '.join(f'{mb:.1f} MB ({form})' for form, mb in size_mb.items())}; "
        f"`save_async` takes {blocking_ms:.2f} ms (median)",
        "",
        "| saves | frames/s | of no saves (lowest to highest round) |",
        "|---|---|---|",
    ]
    for contender, found in rates.items():
        ratios = [mine / none for mine, none in zip(found, rates["no saves"], strict=True)]
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        lines.append(f"| {contender} | {statistics.median(found):,.0f} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="key=value, as for `slipstream train`")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    table = run(["wandb.mode=disabled", *args.words], args.rounds, args.iterations, args.every)
    print(table)
    if args.write:
        command = f"python benchmarks/checkpoint_training.py {' '.join(args.words)}".strip()
        flags = f"--rounds {args.rounds} --iterations {args.iterations} --every {args.every}"
        text = f"# Training rate with checkpoints, {date.today()}\n\n`{command} {flags}`\n\n"
        target = Path(__file__).parent / "results" / f"checkpoint-training-{date.today()}.md"
        target.write_text(text + table + "\n", encoding="utf-8")
        print(f"written to {target}")


if __name__ == "__main__":
    main()
