"""Stored data: env steps to a return with and without `init_replay`, and a student beside its teacher.

    python benchmarks/stored.py                                   # SAC on Pendulum, 3 seeds
    python benchmarks/stored.py --distill runs/TEACHER preset=h200 'model.trunk=[64]'   # words of the student's training

The first table trains one SAC run for its replay buffer, then runs with other seeds from nothing and with
`init_replay`. It shows the env steps after which the mean return of 20 evaluation episodes first reached the goal. The
second one trains a student by DAgger (`algo=bc algo.teacher=...`) and evaluates both on the same maps.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import slipstream
from slipstream import train
from slipstream.config.compose import load_train
from slipstream.training.trainer import Trainer

PENDULUM = [
    *("task=gym", "env.id=Pendulum-v1", "algo=sac", "env.num_envs=1", "algo.rollout_steps=50", "algo.updates=50"),
    *("eval.num_drones=20", "eval.max_steps=200", "device=cpu", "threads=1", "quiet=true", "wandb.mode=disabled"),
]
GOAL = -250.0  # mean return


def steps_to_goal(words: list[str], frames: int, every: int = 250) -> tuple[int | None, float]:
    """Return the env steps after which an evaluation first reached GOAL (None: not within `frames`), and the best return."""
    best, reached = -1e9, None
    with Trainer(load_train([*PENDULUM, *words, f"total_frames={frames}"])) as trainer:
        for it in range(trainer.iterations):
            trainer.step(trainer.progress(it, 0.0))
            if trainer.frames % every == 0:
                best = max(best, trainer.evaluate()["eval/return"])
                if best >= GOAL:
                    reached = trainer.frames
                    break
    return reached, best


def compare_replay(frames: int, seeds: list[int]) -> None:
    """Print the env steps to GOAL from nothing and with the transitions of another run."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*PENDULUM, "seed=100", f"total_frames={frames}", f"root={folder}", "name=source", "eval_interval=0"]
        source = train.run(load_train(words)).path
        print(f"| start | seed | env steps to {GOAL:.0f} | best return | s |\n|---|---|---|---|---|")
        for seed in seeds:
            for name, more in (("nothing", []), ("init_replay", [f"init_replay={source}"])):
                start = time.perf_counter()
                reached, best = steps_to_goal([f"seed={seed}", *more], frames)
                took = time.perf_counter() - start
                print(f"| {name} | {seed} | {reached or f'not in {frames:,}'} | {best:.0f} | {took:.0f} |", flush=True)


def distill(teacher: str, words: list[str]) -> None:
    """Train a student, and print the evaluations of both."""
    start = time.perf_counter()
    student: Path = train.run(load_train([*words, "algo=bc", f"algo.teacher={teacher}"])).path
    took = time.perf_counter() - start
    for name, path in (("teacher", teacher), ("student", str(student))):
        found = slipstream.evaluate(f"checkpoint={path}", "eval.picture=false", "eval.num_drones=64")
        print(name, {key: value for key, value in found.items() if isinstance(value, float)})
    print(f"the student took {took:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distill", metavar="TEACHER")
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("words", nargs="*", help="key=value words of the student's training")
    args = parser.parse_args()
    if args.distill:
        distill(args.distill, args.words)
    else:
        compare_replay(args.frames, args.seeds)
