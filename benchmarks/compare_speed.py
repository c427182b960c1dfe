"""Is this tree as fast as an earlier commit?

    python benchmarks/compare_speed.py --base COMMIT --out speed.md   # 7 pairs of everything: 12 minutes on two cores
    python benchmarks/compare_speed.py --worktree PATH --only env,replay

Each tree has a worker process that keeps the case's env, buffer or files; while one measures, the other waits. A pair
is one measurement of each, and the order alternates (base, new, new, base, ...). The ratio is the median over the pairs
of (new / base) throughput, where a time that the caller waits counts as 1 / seconds. At least 0.93 is ok. The workers
use only the command line and the public names, so that the trees may differ in everything else. On a busy machine wall
times say little: --cpu-time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from compare_trees import HERE, SERVE, Worker, WorkerError, base_tree, command, describe, selected, serve

ENOUGH = 0.93
SECONDS = 1.0  # of one measurement, about
DEMO_S = 10.0
# Fixed, since glibc adapts these in each process: loading a checkpoint then takes 30 or 50 ms, by chance.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(2 << 30)}
CPU_TIME = os.environ.get("COMPARE_CPU_TIME") == "1"  # set by --cpu-time

# -- in a worker: cases, each sets up and returns what measures
# -------------------------------------------------------------------------

Measure = Callable[[], float]  # one measurement: a rate, larger is better
Case = Callable[[ExitStack], Measure]  # what must be closed afterwards goes on the stack


def rate(work: Callable[[], float]) -> float:
    """Units of work per second; `work` returns how many units it did, and is called for SECONDS."""
    clock = time.process_time if CPU_TIME else time.perf_counter
    done, start = 0.0, clock()
    while (elapsed := clock() - start) < SECONDS:
        done += work()
    return done / elapsed


def per_second(
    work: Callable[[], Any], times: int, between: Callable[[], Any] = lambda: None, blocks: bool = False
) -> float:
    """1 / the median time of a call; `between` is called after each, outside of the time.

    With --cpu-time the processor time of all threads, or, of a call that only `blocks`, of the caller's thread.
    """
    cpu_clock = time.thread_time if blocks else time.process_time
    clock = cpu_clock if CPU_TIME else time.perf_counter
    seconds = []
    for _ in range(times):
        start = clock()
        work()
        seconds.append(clock() - start)
        between()
    return 1 / statistics.median(seconds)


def demo_env(num_envs: int = 512) -> Any:
    """The world of preset=demo."""
    from slipstream import NavigationEnv

    config = NavigationEnv.Config(
        num_envs=num_envs,
        num_worlds=32,
        num_obstacles=56,
        map_half_m=8.0,
        decision_interval=8,
        max_episode_steps=1400,
        goal_ends_episode=True,
    )
    config.dyn.num_obstacles = 8
    return NavigationEnv(num_envs, "cpu", 3, config)


def stepping(make: Callable[[], Any]) -> Case:
    """Steps of an env, with actions that a random policy chose beforehand."""

    def case(stack: ExitStack) -> Measure:
        import torch

        from slipstream.models import build_policy

        torch.manual_seed(0)
        env = make()
        policy, observation = build_policy(env.observation_spec, env.action_spec), env.reset()
        with torch.no_grad():
            actions = itertools.cycle([policy(observation)["action"].clone() for _ in range(8)])

        def steps() -> float:
            for _ in range(8):
                env.step(next(actions))
            return 8 * env.num_envs

        return lambda: rate(steps)

    return case


def navigation_env() -> Any:
    from slipstream import NavigationEnv

    return NavigationEnv(1024, "cpu", 3)


def aircombat_env() -> Any:
    from slipstream import AirCombatEnv

    return AirCombatEnv(1024, "cpu", 3, AirCombatEnv.Config(opponent="crank", time_scale=20.0, start="random"))


def cheap_policy(env: Any) -> Any:
    """A policy of one small matrix product: next to nothing beside the collector."""
    import torch
    from torch import nn

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, observation: Any) -> dict[str, torch.Tensor]:
            x = observation["state"].flatten(1)
            action = torch.sigmoid(self.layer(x))
            return {"action": action, "log_prob": action.sum(1), "value": x[:, 0]}

    return Linear()


def collector(stack: ExitStack) -> Measure:
    """Frames per second of SyncDataCollector in the demo's world."""
    from slipstream import SyncDataCollector

    env = demo_env()
    made = stack.enter_context(SyncDataCollector(env, cheap_policy(env), env.num_envs * 16, return_same_td=True))
    return lambda: rate(lambda: made.rollout().numel())


def pipeline(stack: ExitStack) -> Measure:
    """Frames per second of PipelinedDataCollector with a learner of matrix products beside it, one thread each."""
    import torch

    from slipstream import PipelinedDataCollector, SyncDataCollector

    env = demo_env()
    policy = cheap_policy(env)
    made = stack.enter_context(PipelinedDataCollector(SyncDataCollector(env, policy, env.num_envs * 16), threads=1))
    batches, x = iter(made), torch.randn(256, 256)

    def iteration() -> float:
        batch = next(batches)
        for _ in range(60):
            x @ x
        with torch.no_grad():
            for weight in policy.parameters():
                weight.mul_(0.999)
        made.publish()
        return batch.numel()

    return lambda: rate(iteration)


def frames(episodes: int, steps: int = 201) -> np.ndarray:
    """uint8 84 x 84 pictures of moving sprites over tiles, [episodes, steps, 84, 84]."""
    rng = np.random.default_rng(1)
    out = np.empty((episodes, steps, 84, 84), np.uint8)
    for pictures in out:
        pictures[:] = np.repeat(np.repeat(rng.integers(0, 8, (14, 14), np.uint8) * 30, 6, 0), 6, 1)
        for x, y, vx, vy in rng.uniform(-1, 1, (6, 4)):
            sprite = rng.integers(0, 8, (8, 8), np.uint8) * 30
            for t, picture in enumerate(pictures):
                row, column = int(38 + 38 * np.sin(x + 0.05 * vx * t)), int(38 + 38 * np.sin(y + 0.05 * vy * t))
                picture[row : row + 8, column : column + 8] = sprite
    return out


def lidar(drones: int, steps: int) -> np.ndarray:
    """float32 scans [drones, steps, 1, 36, 4], 0 where nothing is seen, as NavigationEnv gives them."""
    rng = np.random.default_rng(2)
    phase, near = rng.uniform(0, 6.28, (drones, 1, 1)), rng.uniform(-1, 2, (drones, 1, 1))
    angle = np.arange(36) * 2 * np.pi / 36 + phase + 0.03 * np.arange(steps)[:, None]
    seen = np.clip(2 * np.sin(angle * 3) + near, 0, 4)[..., None] * np.array([0.9, 1.0, 0.95, 0.9])
    noise = rng.normal(0, 1e-3, seen.shape) * (seen > 0)
    return (seen + noise).clip(0, 4).astype(np.float32)[:, :, None]


def episode(observation: np.ndarray) -> dict[str, Any]:
    """An episode with one more observation than steps."""
    steps = len(observation) - 1
    return {"observation": observation, "action": np.zeros(steps, np.int64), "reward": np.ones(steps, np.float32)}


def load_replay(buffer: Any, stack: ExitStack) -> Measure:
    """How long it takes to load what `buffer` saved."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    buffer.save(folder)
    return lambda: per_second(lambda: buffer.load(folder), 5)


def replay_frames(what: str) -> Case:
    """Steps per second drawn (256 at once) or added, game frames."""

    def case(stack: ExitStack) -> Measure:
        from slipstream import ReplayBuffer

        buffer = ReplayBuffer(20_000, seed=0, group=4)
        stack.callback(buffer.close)
        episodes = itertools.cycle([episode(pictures) for pictures in frames(20)])
        for _ in range(40):
            buffer.add(next(episodes))
        buffer.sample(256)
        if what == "load":
            return load_replay(buffer, stack)
        if what == "add":

            def add() -> float:
                buffer.add(next(episodes))
                return 200.0

            return lambda: rate(add)
        return lambda: rate(lambda: buffer.sample(256).numel())

    return case


def replay_lidar(what: str) -> Case:
    """The same for lidar scans that come in [N, T] batches."""

    def case(stack: ExitStack) -> Measure:
        import torch
        from tensordict import TensorDict

        from slipstream import ReplayBuffer

        buffer = ReplayBuffer(100_000, seed=0)
        stack.callback(buffer.close)
        scans, none = torch.from_numpy(lidar(256, 16 * 8 + 1)), torch.zeros(256, 16, dtype=torch.bool)
        batches = []
        for k in range(8):
            rows = scans[:, 16 * k : 16 * k + 17]
            ends = none.clone()
            ends[:, -1] = k == 7
            batches.append(
                TensorDict(
                    {
                        "observation": {"lidar": rows[:, :-1]},
                        "next": {"observation": {"lidar": rows[:, 1:]}},
                        "action": torch.zeros(256, 16, 3),
                        "reward": torch.ones(256, 16),
                        **{"terminated": none, "truncated": ends, "done": ends, "valid": ~none},
                    },
                    [256, 16],
                )
            )
        turns = itertools.cycle(batches)
        for _ in range(16):
            buffer.extend(next(turns))
        buffer.sample(256)
        if what == "load":
            return load_replay(buffer, stack)
        if what == "add":

            def extend() -> float:
                buffer.extend(next(turns))
                return 256.0 * 16

            return lambda: rate(extend)
        return lambda: rate(lambda: buffer.sample(256).numel())

    return case


def state() -> dict[str, Any]:
    """Weights and Adam's moments, 36 MB."""
    import torch

    generator = torch.Generator().manual_seed(0)
    weights = {f"layer{k}.weight": torch.randn(1024, 1024, generator=generator) * 0.03 for k in range(3)}
    moments = {
        name: {"exp_avg": w * 1e-3, "exp_avg_sq": (w * 1e-3).square(), "step": torch.tensor(5.0)}
        for name, w in weights.items()
    }
    return {"policy": weights, "optimizer": moments, "iteration": 1}


def checkpoint_save(until_done: bool) -> Case:
    """How long save_async blocks, or takes until the file is safe."""

    def case(stack: ExitStack) -> Measure:
        from slipstream import AsyncCheckpointSaver

        folder = stack.enter_context(tempfile.TemporaryDirectory())
        saver = stack.enter_context(AsyncCheckpointSaver(max_queue_size=3, keep_last=2))
        held, numbers = state(), itertools.count(1)

        def save() -> None:
            saver.save_async(held, f"{folder}/ckpt_{next(numbers):06d}.pt")
            if until_done:
                saver.wait()

        return lambda: per_second(save, 5, saver.wait, blocks=not until_done)

    return case


def checkpoint_load(stack: ExitStack) -> Measure:
    """How long load_checkpoint takes."""
    from slipstream import AsyncCheckpointSaver, load_checkpoint

    folder = stack.enter_context(tempfile.TemporaryDirectory())
    with AsyncCheckpointSaver() as saver:
        saver.save_async(state(), f"{folder}/one.pt")
    return lambda: per_second(lambda: load_checkpoint(f"{folder}/one.pt"), 5)


def rollout_files(what: str) -> Case:
    """How long RolloutStorage.save blocks, and how long a load takes: 512 drones x 32 steps of navigation."""

    def case(stack: ExitStack) -> Measure:
        from slipstream import NavigationEnv, RolloutStorage, SyncDataCollector
        from slipstream.models import build_policy

        env = NavigationEnv(512, "cpu", 7)
        batch = SyncDataCollector(env, build_policy(env.observation_spec, env.action_spec), 512 * 32).rollout()
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        storage = stack.enter_context(RolloutStorage(folder, 9))
        numbers = itertools.count(1)

        def save() -> None:
            storage.save(batch, next(numbers))

        def finish() -> None:
            storage.wait()
            for path in Path(folder).glob("rollout_*"):
                path.unlink()

        if what == "save":
            return lambda: per_second(save, 9, finish, blocks=True)
        save()
        storage.wait()
        return lambda: per_second(lambda: storage.load(1), 9)

    return case


def demo(stack: ExitStack) -> Measure:
    """Frames per second of `slipstream train preset=demo`, from the first to the last row of metrics.jsonl."""
    folder, numbers = stack.enter_context(tempfile.TemporaryDirectory()), itertools.count()

    def train() -> float:
        name = f"run{next(numbers)}"
        words = [
            "quiet=true",
            "wandb.mode=disabled",
            f"root={folder}",
            f"name={name}",
            "eval_interval=0",
            f"max_time_s={DEMO_S}",
        ]
        start = time.process_time()
        command(["train", "preset=demo", *words])
        spent = time.process_time() - start
        rows = [json.loads(line) for line in Path(folder, name, "metrics.jsonl").read_text().splitlines()]
        shutil.rmtree(Path(folder, name))
        if CPU_TIME:
            return rows[-1]["frames"] / spent
        return (rows[-1]["frames"] - rows[0]["frames"]) / (rows[-1]["time_s"] - rows[0]["time_s"])

    return train


CASES: dict[str, tuple[str, Case]] = {
    "env navigation": ("frames/s", stepping(navigation_env)),
    "env demo": ("frames/s", stepping(demo_env)),
    "env aircombat": ("frames/s", stepping(aircombat_env)),
    "collector": ("frames/s", collector),
    "pipeline": ("frames/s", pipeline),
    "replay sample frames": ("steps/s", replay_frames("sample")),
    "replay add frames": ("steps/s", replay_frames("add")),
    "replay load frames": ("1/s", replay_frames("load")),
    "replay sample lidar": ("steps/s", replay_lidar("sample")),
    "replay add lidar": ("steps/s", replay_lidar("add")),
    "replay load lidar": ("1/s", replay_lidar("load")),
    "checkpoint blocking": ("1/s", checkpoint_save(False)),
    "checkpoint saved": ("1/s", checkpoint_save(True)),
    "checkpoint load": ("1/s", checkpoint_load),
    "rollout blocking": ("1/s", rollout_files("save")),
    "rollout load": ("1/s", rollout_files("load")),
    "demo": ("frames/s", demo),
}
_held: dict[str, Any] = {}


def begin(role: str, name: str) -> None:
    """Set a case up and measure once, so that everything is compiled and warm; the demo is not measured for that."""
    _held["stack"] = ExitStack()
    _held["measure"] = CASES[name][1](_held["stack"])
    if name != "demo":
        _held["measure"]()


def measure(role: str) -> float:
    """One measurement of the present case."""
    return float(_held["measure"]())


def end(role: str) -> None:
    """Let go of the present case."""
    _held["stack"].close()
    _held.clear()


# -- in the parent
# ----------------------------------------------------------------------------------------------------------------------


def measure_pairs(name: str, base: Worker, new: Worker, pairs: int) -> list[tuple[float, float]]:
    """(base, new) of each pair."""
    for worker in (base, new):
        worker.call("begin", name=name)
    found = []
    for k in range(pairs):
        order = (base, new) if k % 2 == 0 else (new, base)
        rates = {worker.role: worker.call("measure") for worker in order}
        found.append((rates["base"], rates["new"]))
    for worker in (base, new):
        worker.call("end")
    return found


def row(name: str, pairs: list[tuple[float, float]]) -> str:
    """A row of the table."""
    ratios = [new / base for base, new in pairs]
    middle = statistics.median(ratios)
    rates = [statistics.median(side) for side in zip(*pairs, strict=True)]
    unit = CASES[name][0]
    if unit == "1/s":
        base, new = (f"{1e3 / value:.3g} ms" for value in rates)
    else:
        base, new = (f"{value:,.0f} {unit}" for value in rates)
    mark = "ok" if middle >= ENOUGH else "SLOWER"
    return f"| {name} | {base} | {new} | {middle:.3f} | {min(ratios):.3f}–{max(ratios):.3f} | {mark} |"


def main() -> int:
    """Measure, print the table; 1 where a ratio is below 0.93."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="commit to compare with, in a temporary git worktree")
    parser.add_argument("--worktree", help="a tree to compare with that is there already")
    parser.add_argument("--new", default=str(HERE), help="the tree to judge; this script's own by default")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", help="cases, joined by commas: " + ", ".join(CASES))
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="one thread, processor time: for a busy machine; waiting is then not seen",
    )
    parser.add_argument("--out", help="write the table to this Markdown file, too")
    args = parser.parse_args()
    if not (args.base or args.worktree):
        parser.error("give --base COMMIT or --worktree PATH")
    names, lines, began = selected(list(CASES), args.only), [], time.monotonic()

    def log(text: str) -> None:
        lines.append(text)
        print(text, flush=True)

    with (
        base_tree(args.base, args.worktree) as tree,
        tempfile.TemporaryDirectory(prefix="slipstream-speed-") as temporary,
    ):
        trees = ((tree, "base"), (Path(args.new), "new"))
        env = {"CUDA_VISIBLE_DEVICES": "", **MALLOC}
        if args.cpu_time:
            env |= {"COMPARE_CPU_TIME": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        base, new = (Worker(__file__, path, role, Path(temporary) / role, env) for path, role in trees)
        clock = "processor" if args.cpu_time else "wall"
        log(f"base {describe(tree)}, new {describe(Path(args.new))}; {args.pairs} alternating pairs, {clock} time")
        log(
            f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n"
        )
        log("| case | base | new | new / base | range | |\n|---|---|---|---|---|---|")
        try:
            for name in names:
                try:
                    log(row(name, measure_pairs(name, base, new, args.pairs)))
                except WorkerError as error:
                    log(f"| {name} | | | | | FAILED: {str(error).strip().splitlines()[-1]} |")
                    print(error, file=sys.stderr)
        finally:
            base.close()
            new.close()
    log(f"\nload {os.getloadavg()[0]:.1f} at the end, {time.monotonic() - began:.0f} s")
    if args.out:
        Path(args.out).write_text("\n".join(lines) + "\n")
    return 1 if any("SLOWER" in line or "FAILED" in line for line in lines) else 0


if __name__ == "__main__":
    if SERVE in sys.argv[1:2]:
        serve({"begin": begin, "measure": measure, "end": end})
    else:
        sys.exit(main())
