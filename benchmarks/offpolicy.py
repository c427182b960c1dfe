"""DQN, SAC and TD3 beside Stable-Baselines3's with the same settings, steps and envs; and the demo beside PPO.

    python benchmarks/offpolicy.py                      # CartPole and Pendulum, 3 seeds; ours and SB3's alternate
    python benchmarks/offpolicy.py --navigation         # SAC and DQN in the demo beside PPO: table and picture
    python benchmarks/offpolicy.py --only sac --seeds 0

Both sides train on one environment with one thread: networks of two layers (ReLU there, leaky ReLU here) with the same
widths, batches, buffers, learning-rate schedules and numbers of gradient steps, after the same numbers of env steps.
Ours is `slipstream train` as a user runs it, with log and checkpoints. A policy is evaluated by the mean return of 20
episodes without exploration. Times are wall time and CPU time of the process; other work on the machine changes only
the former.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import types
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

EPISODES = 20
SOLVED = {"dqn": 475.0, "sac": -200.0, "td3": -200.0}
STEPS = {"dqn": 50_000, "sac": 8_000, "td3": 20_000}
WIDTH = 64  # of both layers, unless --width says otherwise
ENVS = {"dqn": "CartPole-v1", "sac": "Pendulum-v1", "td3": "Pendulum-v1"}

# What both sides are given; ours under the names of `algo.*`.
SETTINGS: dict[str, dict[str, Any]] = {
    "dqn": {
        "learning_rate": 1e-3,
        "final_rate": 0.05,
        "batch_size": 128,
        "buffer_size": 100_000,
        "warmup": 1000,
        "gamma": 0.99,
        "n_step": 3,
        "rollout_steps": 64,
        "updates": 32,
        "tau": 0.01,
        "target_interval": 1,
        "random_fraction": 0.1,
        "random_end": 0.02,
        "double": False,
        "dueling": False,
    },
    "sac": {
        "learning_rate": 1e-3,
        "final_rate": 1.0,
        "batch_size": 256,
        "buffer_size": 100_000,
        "warmup": 100,
        "gamma": 0.99,
        "rollout_steps": 32,
        "updates": 32,
        "tau": 0.005,
    },
    "td3": {
        "learning_rate": 1e-3,
        "final_rate": 1.0,
        "batch_size": 256,
        "buffer_size": 100_000,
        "warmup": 1000,
        "gamma": 0.98,
        "rollout_steps": 32,
        "updates": 32,
        "tau": 0.005,
        "noise": 0.1,
    },
}
EVERY = {"ppo": 15, "sac": 60, "td3": 60, "dqn": 100}  # iterations between two evaluations in the demo's world
OWN_DQN = {"double": True, "dueling": True}  # ours as it is by default, which SB3 has not


class Stopwatch:
    """Seconds on the clock and of CPU time."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"wall_s": time.perf_counter() - self.wall, "cpu_s": time.process_time() - self.cpu}


# -- one training, in a process of its own
# -----------------------------------------------------------------------------------


def train_ours(algo: str, seed: int, steps: int, width: int, changes: dict[str, Any]) -> dict[str, Any]:
    import torch

    from slipstream import train
    from slipstream.algorithms.policy_file import load_policy
    from slipstream.checkpoint.load import checkpoints_of
    from slipstream.config.compose import load_train
    from slipstream.tasks.evaluation import fly_episodes
    from slipstream.tasks.gym.env import GymConfig, GymEnv

    settings = [f"algo.{name}={value}" for name, value in {**SETTINGS[algo], **changes}.items()]
    words = ["task=gym", f"env.id={ENVS[algo]}", f"algo={algo}", *settings, "model.part=0", "model.layer_norm=false"]
    words += [
        f"model.trunk=[{width},{width}]",
        f"total_frames={steps}",
        f"seed={seed}",
        "eval_interval=0",
        "device=cpu",
        "threads=1",
    ]
    with tempfile.TemporaryDirectory() as root:
        cfg = load_train([*words, "quiet=true", "wandb.mode=disabled", f"root={root}", "name=run"])
        watch = Stopwatch()
        folder = train.run(cfg)
        times = watch.read()
        env = GymEnv(EPISODES, "cpu", 1000 + seed, GymConfig(id=ENVS[algo]))
        policy = load_policy(checkpoints_of(folder.checkpoints)[0]).build(env, torch.device("cpu"))
        return {**times, "return": fly_episodes(env, policy, 1000)["return"]}


def train_sb3(algo: str, seed: int, steps: int, width: int, changes: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    import torch
    from stable_baselines3 import DQN, SAC, TD3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)
    s = SETTINGS[algo]
    rate = lambda left: s["learning_rate"] * (s["final_rate"] + (1 - s["final_rate"]) * left)  # noqa: E731
    common: dict[str, Any] = {"learning_rate": rate, "learning_starts": s["warmup"], "train_freq": s["rollout_steps"]}
    common |= {name: s[name] for name in ("batch_size", "buffer_size", "gamma")} | {
        "gradient_steps": s["updates"],
        "seed": seed,
    }
    common["policy_kwargs"] = {"net_arch": [width, width]}
    if algo == "dqn":
        own = {"exploration_fraction": s["random_fraction"], "exploration_final_eps": s["random_end"], "tau": s["tau"]}
        # Theirs moves the target while collecting, so many env steps apart: as often as ours, between the bouts of
        # gradient steps.
        apart = s["rollout_steps"] // s["updates"]
        model: Any = DQN("MlpPolicy", ENVS[algo], target_update_interval=apart, n_steps=s["n_step"], **own, **common)
    elif algo == "sac":
        model = SAC("MlpPolicy", ENVS[algo], tau=s["tau"], **common)
    else:
        noise = NormalActionNoise(np.zeros(1), s["noise"] * np.ones(1))
        model = TD3("MlpPolicy", ENVS[algo], tau=s["tau"], action_noise=noise, **common)
    watch = Stopwatch()
    model.learn(steps)
    times = watch.read()
    env = make_vec_env(ENVS[algo], 1, seed=1000 + seed)
    return {**times, "return": float(evaluate_policy(model, env, EPISODES)[0])}


def in_fresh_process(kind: str, *given: Any) -> Any:
    """One training in a process of its own: none finds another's threads, caches or warm memory."""
    words = [sys.executable, __file__, "--alone", json.dumps([kind, *given])]
    env = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "GOMP_SPINCOUNT": "1000"}
    out = subprocess.run(words, env=env, capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(out.stderr)
    found = json.loads(out.stdout.strip().splitlines()[-1])
    print(kind, *given, found, file=sys.stderr, flush=True)
    return found


# -- the tables
# --------------------------------------------------------------------------------------------------------------


def in_turns(
    algo: str, width: int, contenders: list[tuple[str, str, dict[str, Any]]], seed: int
) -> list[dict[str, Any]]:
    """One training of each contender with this seed, one after the other: a busy quarter of an hour hits all of
    them."""
    return [in_fresh_process(side, algo, seed, STEPS[algo], width, changes) for _, side, changes in contenders]


def classic_control(algos: list[str], seeds: list[int], width: int, jobs: int) -> None:
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start"
    print(f"{date.today()}, {machine}; one thread a training, two layers of {width}\n")
    print(
        "| env, steps | contender | return of each seed | solved | CPU s, median | clock s, median | CPU time / SB3's |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for algo in algos:
        contenders: list[tuple[str, str, dict[str, Any]]] = [("SB3", "sb3", {}), ("ours", "ours", {})]
        if algo == "dqn":
            contenders.append(("ours, double and dueling", "ours", OWN_DQN))
        with ThreadPoolExecutor(jobs) as pool:
            rows = list(pool.map(partial(in_turns, algo, width, contenders), seeds))
        found = {name: [row[i] for row in rows] for i, (name, _, _) in enumerate(contenders)}
        for name, runs in found.items():
            ratios = [run["cpu_s"] / other["cpu_s"] for run, other in zip(runs, found["SB3"], strict=True)]
            returns = ", ".join(f"{run['return']:.0f}" for run in runs)
            solved = sum(run["return"] >= SOLVED[algo] for run in runs)
            cpu, wall = (statistics.median(run[key] for run in runs) for key in ("cpu_s", "wall_s"))
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f})"
            label = f"{algo.upper()} on {ENVS[algo]}, {STEPS[algo]:,}"
            print(
                f"| {label} | {name} | {returns} | {solved} of {len(runs)} | {cpu:.1f} | {wall:.1f} | {ratio} |",
                flush=True,
            )


def train_navigation(algo: str, seed: int, seconds: float) -> list[dict[str, float]]:
    """The demo's preset with one algorithm for so many seconds of CPU time; frames, CPU time and success at each
    evaluation."""
    from slipstream import Trainer, train
    from slipstream.config.compose import load_train

    train.time = types.SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]  # the run's limit, in CPU time
    points: list[dict[str, float]] = []
    evaluate, evaluating = Trainer.evaluate, 0.0
    began = time.process_time()

    def noted(job: Trainer) -> dict[str, float]:
        nonlocal evaluating
        start = time.process_time()
        found = evaluate(job)
        points.append(
            {"frames": job.collector.frames, "cpu_s": start - began - evaluating, "success": found["eval/success"]}
        )
        evaluating += time.process_time() - start
        return found

    Trainer.evaluate = noted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as root:
        words = ["preset=demo", f"algo={algo}", f"seed={seed}", f"max_time_s={seconds}", "threads=1", "quiet=true"]
        words += [f"eval_interval={EVERY[algo]}", "wandb.mode=disabled", f"root={root}", "name=run"]
        train.run(load_train(words))
    return points


def navigation(algos: list[str], seeds: list[int], seconds: float, jobs: int, folder: Path) -> None:
    """Success over unseen maps against frames and against CPU time."""
    curves: dict[str, list[list[dict[str, float]]]] = {}
    print(f"{date.today()}: the demo's world, {seconds:.0f} s of CPU time of one thread each\n")
    print("| algorithm, seed | frames | success over maps 301-308 after 1/4, 1/2, 3/4 and all of the time | best |")
    print("|---|---|---|---|", flush=True)
    pairs = [(algo, seed) for algo in algos for seed in seeds]
    with ThreadPoolExecutor(jobs) as pool:
        for (algo, seed), points in zip(
            pairs, pool.map(lambda pair: in_fresh_process("navigation", *pair, seconds), pairs), strict=True
        ):
            curves.setdefault(algo, []).append(points)
            last = points[-1]["cpu_s"]
            at = [
                [p["success"] for p in points if p["cpu_s"] <= share * last + 1e-6][-1:] or [0.0]
                for share in (0.25, 0.5, 0.75, 1.0)
            ]
            shown = ", ".join(f"{value:.2f}" for (value,) in at)
            print(
                f"| {algo}, {seed} | {points[-1]['frames']:,} | {shown} | {max(p['success'] for p in points):.2f} |",
                flush=True,
            )
    draw(curves, folder / f"offpolicy-navigation-{date.today()}.png")


def draw(curves: dict[str, list[list[dict[str, float]]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
    for color, (algo, runs) in zip(("C0", "C1", "C2", "C3"), curves.items(), strict=False):
        for i, points in enumerate(runs):
            success = [p["success"] for p in points]
            axes[0].plot([p["frames"] for p in points], success, color=color, label=algo if i == 0 else None)
            axes[1].plot([p["cpu_s"] for p in points], success, color=color)
    axes[0].set(xlabel="frames", xscale="log", ylabel="success over unseen maps", ylim=(0, 1))
    axes[1].set(xlabel="CPU seconds of one thread")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"\npicture: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--navigation", action="store_true", help="the demo's world instead of classic control")
    parser.add_argument("--only", nargs="+", help="these algorithms")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--seconds", type=float, default=160.0, help="of training in the demo's world")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="seeds, or trainings in the demo's world, at once; each is timed by its own CPU time",
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        kind, *given = json.loads(args.alone)
        print(json.dumps({"ours": train_ours, "sb3": train_sb3, "navigation": train_navigation}[kind](*given)))
    elif args.navigation:
        navigation(args.only or ["ppo", "sac", "dqn"], args.seeds or [0, 1], args.seconds, args.jobs, args.out)
    else:
        classic_control(args.only or list(SETTINGS), args.seeds or [0, 1, 2], args.width, args.jobs)


if __name__ == "__main__":
    main()
