"""Measure training in several ranks: does it learn as well, and what does the all-reduce cost?

    python benchmarks/ranks.py learn [--seeds 3]    two ranks against one process, same frames per iteration (CPU)
    python benchmarks/ranks.py rate [--pairs 3]     one rank with NCCL against a plain process (needs a GPU)

`learn` trains the demo's world: 512 drones in one process, 2 x 256 in two ranks, then flies maps that no training saw.
`rate` trains preset=h200 at 16,384 drones; the first run of each kind compiles and is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from slipstream.training.metrics_log import read_metrics  # noqa: E402

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
FORMS = {"one process": "env.num_envs=512 env.num_worlds=32", "two ranks": "gpus=2 env.num_envs=256 env.num_worlds=16"}
RATE = """preset=h200 compile=on algo.bf16=true env.num_worlds=16 eval_interval=0 save_interval=100000 wandb.mode=disabled
    total_frames=1e12"""


def run(words: str, folder: str, *launcher: str) -> str:
    """Run a slipstream command in a folder; return its output."""
    command = [sys.executable, *launcher, "-m", "slipstream", *words.split()]
    return subprocess.run(command, cwd=folder, env=ENV, check=True, stdout=subprocess.PIPE, text=True).stdout


def learn(seeds: int, frames: float) -> None:
    """Print success over unseen maps of both forms, per seed."""
    print(f"| form | {' | '.join(f'seed {seed}' for seed in range(seeds))} | mean |\n|---|{'---|' * (seeds + 1)}")
    for form, words in FORMS.items():
        rates = []
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                settings = f"max_time_s=0 eval_interval=0 save_interval=10000 seed={seed} name=run wandb.mode=disabled"
                run(f"train preset=demo total_frames={frames:g} {settings} {words}", folder)
                flown = "eval.map_seeds=401-416 eval.num_drones=64 eval.picture=false device=cpu json=true"
                text = run(f"eval checkpoint=runs/run {flown}", folder)
            rates.append(json.loads(text.splitlines()[-1])["success"])
        print(f"| {form} | {' | '.join(f'{x:.3f}' for x in rates)} | {statistics.mean(rates):.3f} |", flush=True)


def rate(pairs: int, seconds: float) -> None:
    """Print frames per second in pairs, and the median ratio."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs + 1):
            found = []
            for name, launcher in (("plain", ()), ("rank", ("-m", "torch.distributed.run", "--standalone"))):
                run(f"train {RATE} max_time_s={seconds} name={name}{pair}", folder, *launcher)
                fps = [row["fps"] for row in read_metrics(Path(folder) / "runs" / f"{name}{pair}") if "fps" in row]
                found.append(statistics.median(fps[3 * len(fps) // 4 :]))
            print(
                f"{'warm-up' if pair == 0 else pair}: plain {found[0]:,.0f}, rank {found[1]:,.0f} frames/s", flush=True
            )
            ratios.append(found[1] / found[0])
    print(f"median ratio {statistics.median(ratios[1:]):.3f}")


def main() -> None:
    """Run one of the two measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learn", "rate"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--frames", type=float, default=6e6)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    if args.what == "learn":
        learn(args.seeds, args.frames)
    else:
        rate(args.pairs, args.seconds)


if __name__ == "__main__":
    main()
