"""Stored data: env steps to a return with and without `init_replay`, and a student beside its teacher.

    python benchmarks/stored.py --picture replay.png              # SAC on Pendulum, 3 seeds
    python benchmarks/stored.py --distill runs/TEACHER preset=h200 'model.trunk=[64]'   # words of the student's training
    python benchmarks/stored.py --distill navigation preset=h200 \\
        env.lidar_sees_moving=true 'model.keys=[lidar,state]' model.memory=gru           # LiDAR alone

The first table trains one SAC run for its replay buffer, then runs with other seeds from nothing and with
`init_replay`. It shows the env steps after which the mean return of 20 evaluation episodes first reached the goal. The
second one trains a navigation student by DAgger (`algo=bc algo.teacher=...`) and flies both in its env, over the same
maps, with the paired difference.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import slipstream
from slipstream import train
from slipstream.config.compose import load_train
from slipstream.training.trainer import Trainer
from slipstream.ui import figures

PENDULUM = [
    *("task=gym", "env.id=Pendulum-v1", "algo=sac", "env.num_envs=1", "algo.rollout_steps=50", "algo.updates=50"),
    *("eval.num_drones=20", "eval.max_steps=200", "device=cpu", "threads=1", "quiet=true", "wandb.mode=disabled"),
]
GOAL = -250.0  # mean return


def learning_curve(words: list[str], frames: int, every: int = 250) -> dict[int, float]:
    """Return the mean return of the evaluations, by env steps."""
    found = {}
    with Trainer(load_train([*PENDULUM, *words, f"total_frames={frames}"])) as trainer:
        for it in range(trainer.iterations):
            trainer.step(trainer.progress(it, 0.0))
            if trainer.frames % every == 0:
                found[trainer.frames] = trainer.evaluate()["eval/return"]
    return found


def compare_replay(frames: int, seeds: list[int], picture: str | None) -> None:
    """Print the env steps to GOAL from nothing and with the transitions of another run; draw the curves."""
    curves: dict[str, list[dict[int, float]]] = {"from nothing": [], "init_replay": []}
    with tempfile.TemporaryDirectory() as folder:
        words = [*PENDULUM, "seed=100", f"total_frames={frames}", f"root={folder}", "name=source", "eval_interval=0"]
        source = train.run(load_train(words)).path
        print(f"| start | seed | env steps to {GOAL:.0f} | best return | s |\n|---|---|---|---|---|")
        for seed in seeds:
            for name, found in curves.items():
                start = time.perf_counter()
                more = [f"init_replay={source}"] if name == "init_replay" else []
                found.append(curve := learning_curve([f"seed={seed}", *more], frames))
                reached = next((f"{at:,}" for at, value in curve.items() if value >= GOAL), f"not in {frames:,}")
                took = time.perf_counter() - start
                print(f"| {name} | {seed} | {reached} | {max(curve.values()):.0f} | {took:.0f} |", flush=True)
    if picture:
        print(draw(curves, picture))


def draw(curves: dict[str, list[dict[int, float]]], picture: str) -> Path:
    """Draw the curve of every seed, and their means."""
    figure = figures.new_figure(8.0, 4.4)
    axes = figure.subplots()
    figures.style_axes(axes, "env steps", "mean return of 20 episodes")
    for (name, runs), color in zip(curves.items(), figures.SERIES, strict=False):
        values = np.array([list(run.values()) for run in runs])
        axes.plot(list(runs[0]), values.T, color=color, linewidth=0.8, alpha=0.5)
        axes.plot(list(runs[0]), values.mean(0), color=color, linewidth=2.2, label=f"{name} ({len(runs)} seeds)")
    axes.axhline(GOAL, color="gray", linewidth=0.8, linestyle="--")
    figures.style_legend(axes, loc="best")
    return figures.finish_figure(figure, picture, "SAC on Pendulum, with and without the buffer of another run")


def distill(teacher: str, words: list[str], maps: range, drones: int) -> None:
    """Train a student, and print the evaluations of both."""
    start = time.perf_counter()
    student: Path = train.run(load_train([*words, "algo=bc", f"algo.teacher={teacher}"])).path
    took = time.perf_counter() - start
    given = [f"eval.map_seeds={list(maps)}", f"eval.num_drones={drones}", "eval.picture=false"]
    given += [word for word in words if word.startswith(("device=", "threads="))]
    slipstream.evaluate(f"checkpoint={student}", f"compare={teacher}", *given)
    print(f"the student took {took:.0f} s, start-up and evaluations included: {student}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distill", metavar="TEACHER")
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--picture", metavar="PNG")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--maps", type=int, nargs=2, default=(2001, 2064), metavar=("FIRST", "LAST"))
    parser.add_argument("--drones", type=int, default=64, help="per map")
    parser.add_argument("words", nargs="*", help="key=value words of the student's training")
    args = parser.parse_args()
    if args.distill:
        distill(args.distill, args.words, range(args.maps[0], args.maps[1] + 1), args.drones)
    else:
        compare_replay(args.frames, args.seeds, args.picture)
