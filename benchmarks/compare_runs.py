"""Does this tree compute the same as an earlier commit, bit for bit?

    python benchmarks/compare_runs.py --base COMMIT                     # in a temporary git worktree of COMMIT
    python benchmarks/compare_runs.py --worktree PATH --only sac,replay # with a tree that is there already

Runs small seeded CPU trainings, evaluations of the shipped policies and a replay buffer in both trees, one worker
process each, and compares weights, optimizer state, the rest of the checkpoints, metrics (without times, rates and
memory), saved batches and samples. Prints one row per case and exits with 1 where any differs. The two trees may read
and write different files: each dumps what it loaded as plain arrays.

An entry of a checkpoint that is not found by its name in the new tree is looked for by its content; RENAMED holds the
names changed on purpose.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from compare_trees import HERE, SERVE, Worker, WorkerError, base_tree, command, describe, selected, serve

# Names of the base that are others in the new tree on purpose; None: no longer there.
RENAMED_KEYS: dict[str, str] = {}  # configuration
RENAMED_METRICS: dict[str, str | None] = {}  # metrics.jsonl, and the JSON of `slipstream eval`
RENAMED_STATE: dict[str, str | None] = {"league": "controller"}  # entries of checkpoints, by prefix
IGNORED_METRICS = ("time_s", "fps", "perf/", "memory", "gpu/")  # measured, not computed; by prefix
IGNORED_STATE = (
    "config",
    "trained_s",
    "algo/replay",
    "learner/replay",
)  # settings, a time, and the buffer's own bytes; by prefix
IGNORED_RESULTS = ("checkpoint", "picture", "animation", "recording")  # paths in the JSON of `slipstream eval`

# -- in a worker: cases, each gives {part: (arrays, facts)}
# -----------------------------------------------------------------------------

Part = tuple[dict[str, np.ndarray], dict[str, Any]]
Parts = dict[str, Part]

COMMON = ["device=cpu", "threads=1", "quiet=true", "wandb.mode=disabled", "root=runs"]
SMALL = ["model.encoder=dict", "model.part=8", "model.trunk=[16]"]
NAVIGATION = [
    "env.num_envs=32",
    "env.num_obstacles=100",
    "env.dyn.num_obstacles=16",
    "env.map_half_m=10",
    "algo.training_frame_num=8",
]
CROSSING = [
    "eval_interval=3",
    "eval.map_seeds=[301,302]",
    "eval.num_drones=16",
    "eval.max_steps=300",
    "eval.picture=false",
    "eval.bootstrap=100",
]
PPO = ["algo.epochs=2", "algo.minibatches=4", "save_interval=3"]
OFF_POLICY = [
    "algo.training_frame_num=8",
    "algo.updates=4",
    "algo.batch_size=32",
    "eval.num_drones=8",
    "eval.max_steps=200",
    "save_interval=4",
]
DISTURBANCE = {
    **{"lidar_noise_m": 0.02, "lidar_dropout": 0.05, "velocity_noise_mps": 0.05, "latency_steps": 2},
    **{"wind_mps2": 0.5, "mass_range": 0.1, "gain_range": 0.1},
}
LEAGUE = [
    "preset=aircombat",
    "env.num_envs=16",
    "league.seats=4",
    "league.patience=1",
    "league.games=4",
    "league.snapshot_every=1",
    "league.pool=4",
    "model.trunk=[16]",
    "algo.training_frame_num=8",
    "algo.epochs=2",
    "algo.minibatches=2",
    "algo.schedule=constant",
    "eval_interval=1",
    "save_interval=3",
    "max_time_s=0",
]


def train(role: str, name: str, words: Sequence[str], frames: int, resume: Path | None = None) -> Path:
    """Train to `frames` frames, from the start or from where another run stopped, and return the run folder."""
    words = [*COMMON, f"seed={seed(role, 0)}", f"name={name}", *words, f"total_frames={frames}"]
    names = {} if role == "base" else RENAMED_KEYS
    words = [f"{names.get(key, key)}={value}" for key, _, value in (word.partition("=") for word in words)]
    command(["train", *words, *([f"resume={resume}"] if resume else [])])
    return resume or Path("runs", name)


def seed(role: str, number: int) -> int:
    """The seed of a case; `--plant` gives the new tree another one."""
    return number + (role == "planted")


def empty() -> Part:
    return {}, {}


def flatten(value: Any, name: str, part: Part) -> None:
    """Add a nested state to `part`: tensors and bytes as arrays, everything else as facts."""
    import torch

    arrays, facts = part
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().contiguous()
        arrays[name] = (plain.view(torch.int16) if plain.dtype is torch.bfloat16 else plain).numpy()
    elif isinstance(value, np.ndarray):
        arrays[name] = value
    elif isinstance(value, bytes):
        arrays[name] = np.frombuffer(value, np.uint8)
    elif hasattr(value, "items"):
        for key, item in value.items():
            key = "/".join(key) if isinstance(key, tuple) else key
            flatten(item, f"{name}/{key}" if name else str(key), part)
    elif isinstance(value, list | tuple):
        for k, item in enumerate(value):
            flatten(item, f"{name}/{k}" if name else str(k), part)
    else:
        facts[name] = value


def read_run(run: Path) -> Part:
    """All that a run left: the last checkpoint, the other policies in the folder, the metrics."""
    from slipstream import load_checkpoint

    part = empty()
    flatten(load_checkpoint(run / "checkpoints" / "latest.pt"), "", part)
    for path in sorted(run.glob("*.pt*")):
        name = path.name.partition(".")[0]
        flatten({key: value for key, value in load_checkpoint(path).items() if key != "config"}, name, part)
    part[1]["metrics"] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return part


def plain(name: str, words: Sequence[str], frames: int) -> Callable[[str], Parts]:
    """A case that trains once."""
    return lambda role: {"run": read_run(train(role, name, words, frames))}


def resumed(name: str, words: Sequence[str], frames: int, stop: int) -> Callable[[str], Parts]:
    """A case that trains once without a stop, and once with one after `stop` frames. The two must be equal in each
    tree, too."""

    def case(role: str) -> Parts:
        through = read_run(train(role, name, words, frames))
        stopped = train(role, f"{name}-stopped", words, stop)
        return {"uninterrupted": through, "resumed": read_run(train(role, f"{name}-stopped", words, frames, stopped))}

    return case


def rollouts(role: str) -> Parts:
    """Batches that a training saved, decoded."""
    from slipstream import RolloutStorage

    run = train(role, "rollouts", [*NAVIGATION, *SMALL, *PPO, "eval_interval=0", "rollout_save_interval=2"], 256 * 4)
    part = empty()
    storage = RolloutStorage(run / "rollouts")
    part[1]["iterations"] = [int(k) for k in storage.iterations()]
    for iteration in storage.iterations():
        flatten(storage.load(iteration), f"batch {iteration}", part)
        flatten(storage.load_slice(iteration, envs=[3, 7], steps=slice(2, 6)), f"slice {iteration}", part)
    return {"batches": part}


def replay(role: str) -> Parts:
    """Samples of buffers filled by a collector and by episodes."""
    import torch

    from slipstream import HindsightSampler, NavigationEnv, PrioritizedSampler, ReplayBuffer, SyncDataCollector
    from slipstream.models import build_policy

    torch.manual_seed(0)
    env = NavigationEnv(8, "cpu", seed(role, 5), NavigationEnv.Config(max_episode_steps=20))  # many ends
    policy = build_policy(env.observation_spec, env.action_spec)
    batches = [batch.clone() for batch in SyncDataCollector(env, policy, 8 * 16, 8 * 16 * 6)]
    parts: Parts = {}
    for sampler in ("uniform", "prioritized"):
        chosen: Any = PrioritizedSampler(alpha=0.6, beta=0.4) if sampler == "prioritized" else sampler
        buffer = ReplayBuffer(500, sampler=chosen, seed=3, group=4)
        parts[sampler] = part = empty()
        for k, batch in enumerate(batches):
            buffer.extend(batch)
            drawn = buffer.sample(64, n_step=1 + k % 3, gamma=0.98)
            flatten(drawn, f"sample {k}", part)
            if sampler == "prioritized":
                buffer.update_priority(drawn["index"], drawn["reward"].abs() + 0.1)
        flatten(buffer.sample_slices(16, 5, burn_in=2), "slices", part)
        flatten(buffer.sample_episodes(4), "episodes", part)
        buffer.save(f"replay-{sampler}")
        loaded = ReplayBuffer(
            500, sampler=PrioritizedSampler(alpha=0.6, beta=0.4) if sampler == "prioritized" else sampler
        )
        loaded.load(f"replay-{sampler}")
        part[1]["length"] = [len(buffer), len(loaded)]
        for name, one in (("saved", buffer), ("loaded", loaded)):
            flatten(one.sample(64, n_step=3), f"{name} sample", part)
            flatten(one.sample_slices(8, 4), f"{name} slices", part)
            one.close()
    rng = np.random.default_rng(seed(role, 1))
    for name, chosen in (
        ("frames", "uniform"),
        ("future", HindsightSampler(_near, "future", k=4)),
        ("final", HindsightSampler(_near, "final", k=2)),
    ):
        buffer = ReplayBuffer(600, sampler=chosen, seed=4, group=8)
        parts[f"episodes, {name}"] = part = empty()
        for _ in range(30):
            buffer.add(_episode(rng, int(rng.integers(10, 60)), frames=name == "frames"))
        for k in range(3):
            flatten(buffer.sample(48), f"sample {k}", part)
        flatten(buffer.sample_episodes(3), "episodes", part)
        buffer.close()
    return parts


def _near(achieved: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return (np.abs(achieved - goal).max(-1) < 0.5).astype(np.float32) - 1


def _episode(rng: np.random.Generator, steps: int, frames: bool) -> dict[str, Any]:
    """An episode of pictures, or of a walk with goals; one more observation than steps."""
    facts = {"action": rng.integers(0, 4, steps), "terminated": np.arange(steps) == steps - 1}
    if frames:
        picture = np.repeat(rng.integers(0, 8, (steps + 1, 84, 1), np.uint8), 84, 2)
        return {"observation": picture, "reward": rng.random(steps, np.float32), **facts}
    walk = rng.normal(0, 0.3, (steps + 1, 3)).cumsum(0).astype(np.float32)
    goal = np.repeat(rng.normal(0, 1, (1, 3)).astype(np.float32), steps + 1, 0)
    return {
        "observation": {"x": walk, "achieved_goal": walk, "desired_goal": goal},
        "reward": _near(walk[1:], goal[1:]),
        **facts,
    }


def collectors(role: str) -> Parts:
    """Batches of each collector."""
    import torch

    from slipstream import CompressedDataCollector, NavigationEnv, PipelinedDataCollector, SyncDataCollector
    from slipstream.models import build_policy

    parts: Parts = {}
    for name, wrap in (("sync", None), ("pipelined", PipelinedDataCollector), ("compressed", CompressedDataCollector)):
        torch.manual_seed(0)
        env = NavigationEnv(8, "cpu", seed(role, 5))
        policy = build_policy(env.observation_spec, env.action_spec)
        collector: Any = SyncDataCollector(env, policy, 8 * 16, 8 * 16 * 3)
        collector = wrap(collector) if wrap else collector
        parts[name] = part = empty()
        with collector:
            for k, batch in enumerate(collector):
                flatten(batch.decode() if hasattr(batch, "decode") else batch, f"batch {k}", part)
                with torch.no_grad():
                    for weight in policy.parameters():
                        weight.mul_(1.01)
    return parts


def evaluated(*words: str, map_seed: int | None = None) -> Callable[[str], Parts]:
    """A case that evaluates a shipped policy through the command line."""

    def case(role: str) -> Parts:
        maps = [f"eval.map_seeds=[{seed(role, map_seed)},302]"] if map_seed else []
        output = command(
            [
                "eval",
                f"seed={seed(role, 0)}",
                "device=cpu",
                "threads=1",
                "json=true",
                "eval.picture=false",
                *words,
                *maps,
            ]
        )
        result = json.loads(next(line for line in reversed(output.splitlines()) if line.startswith("{")))
        part = empty()
        flatten({key: value for key, value in result.items() if key not in IGNORED_RESULTS}, "", part)
        return {"result": part}

    return case


def drone_by_drone(role: str) -> Parts:
    """The shipped policies' weights, and flights with them: reward and end of every drone (duel) at every decision."""
    import torch

    import slipstream
    from slipstream import AirCombatEnv, ExplorationType, NavigationEnv, load_checkpoint, set_exploration_type
    from slipstream.models import build_policy

    parts: Parts = {}
    tasks: tuple[tuple[str, Any], ...] = (("navigation", NavigationEnv), ("aircombat", AirCombatEnv))
    package = Path(slipstream.__file__).parent
    for task, make in tasks:
        files = [path for path in package.rglob("*.pt*") if task in str(path.relative_to(package))]
        state = load_checkpoint(min(files))
        torch.manual_seed(0)
        settings = (
            {"decision_interval": 4, "num_worlds": 2}
            if task == "navigation"
            else {"opponent": "crank", "time_scale": 20.0, "start": "random"}
        )
        env = make(64, "cpu", seed(role, 11), make.Config(**settings))
        model = {
            key: state["config"]["model"][key]
            for key in ("encoder", "trunk", "part")
            if key in state["config"]["model"]
        }
        policy = build_policy(env.observation_spec, env.action_spec, _model_config(env, build_policy, model))
        policy.load_state_dict(state["policy"])
        parts[task] = part = empty()
        flatten(state["policy"], "policy", part)
        observation, seen = env.reset(), []
        with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
            for _ in range(300):
                record = env.step(policy(observation)["action"])
                observation = record.observation
                seen.append([record.reward.clone(), record.terminated.clone(), record.truncated.clone()])
        for k, name in enumerate(("reward", "terminated", "truncated")):
            flatten(torch.stack([row[k] for row in seen]), name, part)
        flatten(observation, "last observation", part)
    return parts


def _model_config(env: Any, build_policy: Callable[..., Any], settings: dict[str, Any]) -> Any:
    """Settings of a model, by the class that a default policy has them in."""
    return type(build_policy(env.observation_spec, env.action_spec).config)(**settings)


CASES: dict[str, Callable[[str], Parts]] = {
    "navigation": plain("navigation", [*NAVIGATION, *CROSSING, *PPO, "eval.static_too=true"], 256 * 4),
    "quadrotor": plain(
        "quadrotor",
        [
            *NAVIGATION,
            *SMALL,
            *CROSSING,
            *PPO,
            "env.dynamics=quadrotor",
            *(f"env.disturbance.{k}={v}" for k, v in DISTURBANCE.items()),
        ],
        256 * 6,
    ),
    "worlds": plain(
        "worlds",
        [*NAVIGATION, *SMALL, *CROSSING, *PPO, "env.num_worlds=4", "algo.schedule=adaptive", "env.actions=discrete"],
        256 * 6,
    ),
    "league": resumed("league", LEAGUE, 128 * 8, 128 * 5),
    "sac": resumed(
        "sac",
        [
            *NAVIGATION,
            *SMALL,
            *OFF_POLICY,
            "eval_interval=0",
            "algo=sac",
            "algo.warmup=256",
            "algo.n_step=3",
            "algo.prioritised=true",
            "algo.importance_exponent=1",
        ],
        *(256 * 8, 256 * 5),
    ),
    "dqn": plain(
        "dqn",
        [
            *SMALL,
            *OFF_POLICY,
            "task=gym",
            "env.id=CartPole-v1",
            "algo=dqn",
            "env.num_envs=4",
            "algo.warmup=64",
            "eval_interval=6",
        ],
        32 * 12,
    ),
    "td3": plain(
        "td3",
        [
            *SMALL,
            *OFF_POLICY,
            "task=gym",
            "env.id=Pendulum-v1",
            "algo=td3",
            "env.num_envs=4",
            "algo.warmup=64",
            "eval_interval=6",
        ],
        32 * 12,
    ),
    "pipelined": resumed(
        "pipelined",
        [*NAVIGATION, *SMALL, *CROSSING, *PPO, "collect.pipeline=on", "collect.threads=1"],
        256 * 8,
        256 * 5,
    ),
    "pipelined on_policy": plain(
        "on_policy", [*NAVIGATION, *SMALL, *CROSSING, *PPO, "collect.pipeline=on_policy", "collect.threads=1"], 256 * 5
    ),
    "compressed": plain("compressed", [*NAVIGATION, *SMALL, *CROSSING, *PPO, "collect.compress=all"], 256 * 5),
    "resumed": resumed(
        "resumed",
        [*NAVIGATION, *SMALL, *CROSSING, *PPO, "save_interval=1", "checkpoint_full_every=3"],
        256 * 8,
        256 * 5,
    ),
    "rollouts": rollouts,
    "collectors": collectors,
    "replay": replay,
    "eval navigation": evaluated("eval.num_drones=64", map_seed=300),
    "eval aircombat": evaluated("task=aircombat", "red=learned", "blue=pursuit,crank", "games=100"),
    "drone by drone": drone_by_drone,
}


def run_case(role: str, name: str) -> list[str]:
    """Run a case in this worker and leave its parts as plain files; the names of the parts."""
    parts = CASES[name](role)
    folder = Path("parts", name)
    folder.mkdir(parents=True)
    for k, (arrays, facts) in enumerate(parts.values()):
        np.savez(folder / f"{k}.npz", *arrays.values())  # arr_0, arr_1, ...: names may hold slashes
        (folder / f"{k}.json").write_text(json.dumps({"names": list(arrays), "facts": facts}))
    return list(parts)


# -- in the parent: what is equal
# -------------------------------------------------------------------------------------------------------


def load_part(folder: Path, name: str, k: int) -> Part:
    """A part as a worker left it."""
    told = json.loads((folder / "parts" / name / f"{k}.json").read_text())
    with np.load(folder / "parts" / name / f"{k}.npz") as file:
        return {array: file[f"arr_{i}"] for i, array in enumerate(told["names"])}, told["facts"]


def starts_with(name: str, prefixes: Iterable[str]) -> bool:
    return any(name.startswith(prefix) for prefix in prefixes)


def renamed(name: str, names: dict[str, str | None]) -> str | None:
    """The new tree's name of an entry of the base, whose longest renamed prefix counts."""
    prefix = max((old for old in names if name.startswith(old)), key=len, default=None)
    if prefix is None:
        return name
    new = names[prefix]
    return None if new is None else new + name[len(prefix) :]


def same(a: Any, b: Any) -> bool:
    """Whether two arrays or facts are the same, bit for bit; NaN is the same as NaN."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        alike = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        return alike and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


def difference(a: Any, b: Any) -> str:
    """Two unequal values in words."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return f"{a!r} and {b!r}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    unequal = (a != b) & ~((a != a) & (b != b))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    far = np.abs(a.astype(wide) - b.astype(wide))[unequal].max() if unequal.any() else 0.0
    return f"{int(unequal.sum()):,} of {a.size:,} numbers differ, by up to {far:.3g}"


def compare_metrics(base: list[dict[str, Any]], new: list[dict[str, Any]], names: dict[str, str | None]) -> str | None:
    """The first difference between two logs."""
    for k, (a, b) in enumerate(zip(base, new, strict=False), start=1):
        for name, value in a.items():
            other = renamed(name, names)
            if other is None or starts_with(name, IGNORED_METRICS):
                continue
            if other not in b:
                return f"metrics row {k}: {other} is missing"
            if not same(value, b[other]):
                return f"metrics row {k}: {name} is {difference(value, b[other])}"
    return None if len(base) == len(new) else f"metrics: {len(base)} and {len(new)} rows"


def compare_parts(base: Part, new: Part, across: bool) -> tuple[str | None, int, list[str]]:
    """(the first difference, how many entries were compared, notes on those found under another name or only in the new
    tree)."""
    names, metrics = (RENAMED_STATE, RENAMED_METRICS) if across else ({}, {})
    found = compare_metrics(base[1].get("metrics", []), new[1].get("metrics", []), metrics)
    mine, theirs = ({**arrays, **{k: v for k, v in facts.items() if k != "metrics"}} for arrays, facts in (base, new))
    mine, theirs = (
        {name: value for name, value in entries.items() if not starts_with(name, IGNORED_STATE)}
        for entries in (mine, theirs)
    )
    count = 0
    missing: list[str] = []
    notes: list[str] = []
    for name, value in mine.items():
        other = renamed(name, names)
        if other is None:
            continue
        count += 1
        if other not in theirs:
            missing.append(name)
        elif not same(value, theirs.pop(other)):
            return found or f"{name}: {difference(value, new[0].get(other, new[1].get(other)))}", count, notes
    for name in missing:  # under another name, if anywhere
        other = next((other for other, value in theirs.items() if same(mine[name], value)), None)
        if other is None:
            return found or f"{name} is missing", count, notes
        notes.append(f"{name} -> {other}")
        del theirs[other]
    notes += [f"only in the new tree: {name}" for name in theirs]
    return found, count, notes


def compare_case(
    name: str, base: Worker, new: Worker, parts: tuple[list[str], list[str]]
) -> tuple[str | None, int, list[str]]:
    """The first difference of a case, the entries compared, the notes."""
    if parts[0] != parts[1]:
        return f"parts {parts[0]} and {parts[1]}", 0, []
    loaded = [{part: load_part(worker.folder, name, k) for k, part in enumerate(parts[0])} for worker in (base, new)]
    total = 0
    notes: list[str] = []
    for part in parts[0]:
        found, count, more = compare_parts(loaded[0][part], loaded[1][part], across=True)
        total, notes = total + count, notes + more
        if found:
            return f"{part}: {found}", total, notes
    if "resumed" in parts[0]:
        for tree, own in zip(("base", "new"), loaded, strict=True):
            found, count, _ = compare_parts(own["uninterrupted"], own["resumed"], across=False)
            if found:
                return f"{tree} tree, uninterrupted and resumed: {found}", total, notes
    return None, total, notes


def main() -> int:
    """Compare, print the table; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="commit to compare with, in a temporary git worktree")
    parser.add_argument("--worktree", help="a tree to compare with that is there already")
    parser.add_argument("--new", default=str(HERE), help="the tree to judge; this script's own by default")
    parser.add_argument("--only", help="cases, joined by commas: " + ", ".join(CASES))
    parser.add_argument("--keep", help="a new folder for runs, dumps and logs; a temporary one by default")
    parser.add_argument(
        "--plant", action="store_true", help="give the new tree another seed: every case must then be found different"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="list entries found under another name or only in the new tree"
    )
    args = parser.parse_args()
    if not (args.base or args.worktree):
        parser.error("give --base COMMIT or --worktree PATH")
    names = selected(list(CASES), args.only)
    began, failed = time.monotonic(), 0
    with (
        base_tree(args.base, args.worktree) as tree,
        tempfile.TemporaryDirectory(prefix="slipstream-compare-") as temporary,
    ):
        folder = Path(args.keep or temporary).resolve()
        trees = ((tree, "base"), (Path(args.new), "planted" if args.plant else "new"))
        env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        workers = [Worker(__file__, path, role, folder / role, env) for path, role in trees]
        print(
            f"base {describe(tree)}, new {describe(Path(args.new))}\n\n| case | entries | seconds | result |\n|---|---|---|---|",
            flush=True,
        )
        try:
            with ThreadPoolExecutor(2) as pool:
                for name in names:
                    start = time.monotonic()
                    found, count, notes = _run_and_compare(name, workers, pool)
                    failed += found is not None
                    note = f"; {len(notes)} under another name or new" if notes else ""
                    print(
                        f"| {name} | {count} | {time.monotonic() - start:.0f} | {f'DIFFERENT: {found}' if found else 'equal'}{note} |",
                        flush=True,
                    )
                    if args.verbose:
                        print("".join(f"    {line}\n" for line in notes), end="", flush=True)
        finally:
            for worker in workers:
                worker.close()
    print(f"\n{len(names) - failed} of {len(names)} cases are equal ({time.monotonic() - began:.0f} s)")
    return 1 if failed else 0


def _run_and_compare(name: str, workers: list[Worker], pool: ThreadPoolExecutor) -> tuple[str | None, int, list[str]]:
    pending = [pool.submit(worker.call, "run", name=name) for worker in workers]
    parts: list[list[str]] = []
    errors: list[str] = []
    for worker, future in zip(workers, pending, strict=True):
        try:
            parts.append(future.result())
        except WorkerError as error:
            errors.append(f"failed in the {worker.role} tree: {str(error).strip().splitlines()[-1]}")
            print(f"\n{worker.role} tree, {name}:\n{error}", file=sys.stderr)
    if errors:
        return "; ".join(errors), 0, []
    return compare_case(name, workers[0], workers[1], (parts[0], parts[1]))


if __name__ == "__main__":
    if SERVE in sys.argv[1:2]:
        os.environ["MPLBACKEND"] = "Agg"
        serve({"run": run_case})
    else:
        sys.exit(main())
