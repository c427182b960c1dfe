"""How long after its start a training passes NavRL's released policy, with an empty and with a warm compiler cache.

    python benchmarks/time_to_pass.py [--runs 5] [--seconds 60 35] [--released NAVRL_CHECKPOINT] [words of train]

Each run is a process of its own that saves its weights about once per second. The time of weights is that of their
file, since the start of the process. They are flown afterwards over maps 201-216 x 256 drones with a decision per
physics step, with 80 moving obstacles and without; weights pass if both figures exceed those of the released policy.
Needs a GPU. The runs are kept in the folder --out; one that is there is not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from slipstream.algorithms.policy_file import load_policy
from slipstream.config.compose import load_evaluate
from slipstream.sim.devices import resolve_device
from slipstream.tasks.navigation.evaluation import evaluation_env, fly

RELEASED = (0.493, 0.949)  # 80 moving, none: benchmarks/results/navigation-h200-2026-11-15.md
TRAIN = """
import contextlib, sys, time
from slipstream.cli import main, train

def timed(self, *args, **kwargs):
    Trainer.step = step
    out = step(self, *args, **kwargs)
    if self.env.device.type == "cuda":
        import torch
        torch.cuda.synchronize()
    print("first update at", time.time(), flush=True)
    return out

@contextlib.contextmanager
def imports(import_without=train.without_garbage_collection):
    global Trainer, step
    with import_without():
        yield
    from slipstream.training.trainer import Trainer  # the command has imported it
    step, Trainer.step = Trainer.step, timed

train.without_garbage_collection = imports
sys.exit(main(["train", *sys.argv[1:]]))
"""


def train(folder: Path, seed: int, seconds: float, cache: Path, words: list[str]) -> None:
    """Train in a process of its own; `times.json` keeps when it began, and the time of the first update and of each
    checkpoint since then."""
    if (folder / "times.json").exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k not in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    tree = str(Path(__file__).parents[1])
    env |= {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": os.pathsep.join([tree, env.get("PYTHONPATH", "")])}
    settings = [f"seed={seed}", f"root={folder.parent}", f"name={folder.name}", "wandb.mode=disabled"]
    settings += ["eval_interval=0", "save_interval=16", "keep_checkpoints=1000", "compress_checkpoint=lz4"]
    started = time.time()
    command = [sys.executable, "-c", TRAIN, *settings, *words]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        try:
            lines = process.communicate(timeout=seconds)[0].splitlines()
        except subprocess.TimeoutExpired:
            process.terminate()  # saves, and ends
            lines = process.communicate(timeout=60)[0].splitlines()
        finally:
            process.kill()
    if not any(line.startswith("first update at") for line in lines):
        raise SystemExit("\n".join([*lines[-10:], "the training ended before its first update"]))
    (folder / "train.log").write_text("\n".join(lines))
    first = next(float(line.split()[-1]) for line in lines if line.startswith("first update at"))
    files = sorted((folder / "checkpoints").glob("ckpt_*"))
    times = {path.name: path.stat().st_mtime - started for path in files}
    found = {"first update": first - started, "checkpoints": {k: v for k, v in times.items() if v <= seconds}}
    (folder / "times.json").write_text(json.dumps(found))


class Judge:
    """Flies policies over maps 201-216, with 80 moving obstacles and without."""

    def __init__(self, maps: int, drones: int) -> None:
        self.device, self.drones = resolve_device("auto"), drones
        self.settings = [f"eval.map_seeds=201-{200 + maps}", f"eval.num_drones={drones}"]

    def __call__(self, path: Path | str) -> tuple[float, ...]:
        """Return success with moving obstacles, and without."""
        policy, found = load_policy(path), []
        for moving in (80, 0):
            words = [*self.settings, "env.decision_interval=1", f"env_dyn.num_obstacles={moving}"]
            cfg = load_evaluate([*words, "env.dynamics=velocity_lag"])
            env = evaluation_env(cfg.env, cfg.eval, self.device)
            network = policy.build(env, self.device)
            found.append(float(fly(env, network, self.drones, record_paths=False).success.mean()))
        return tuple(found)


def first_to_pass(folder: Path, judge: Judge, bars: tuple[float, ...], after_s: float) -> tuple[float, str]:
    """Return the time of the first weights that pass, and their figures. Bisection over the checkpoints: it
    assumes that all weights after the first that pass also pass."""
    times = json.loads((folder / "times.json").read_text())["checkpoints"]
    names = [name for name, at in times.items() if at >= after_s]
    low, high, shown = 0, len(names), "none passed"
    while low < high:
        middle = (low + high) // 2
        found = judge(folder / "checkpoints" / names[middle])
        figures = " / ".join(f"{x:.3f}" for x in found)
        print(f"  {folder.name} at {times[names[middle]]:.1f} s: {figures}", flush=True)
        if all(x > bar for x, bar in zip(found, bars, strict=True)):
            high, shown = middle, figures
        else:
            low = middle + 1
    return (times[names[high]] if high < len(names) else float("inf")), shown


def main() -> None:
    """Train all runs, judge them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, nargs=2, default=(60, 35), help="with an empty cache, with a warm one")
    parser.add_argument("--released", help="NavRL's checkpoint; by default its figures of 2026-11-15 are used")
    parser.add_argument("--out", type=Path, default=Path("runs/time_to_pass"))
    parser.add_argument("--maps", type=int, default=16)
    parser.add_argument("--drones", type=int, default=256)
    parser.add_argument("--after", type=float, default=12, help="seconds before which no weights are judged")
    parser.add_argument("words", nargs="*", help="key=value of the trainings, by default preset=h200_fast")
    args = parser.parse_args()
    out, judge = args.out.resolve(), Judge(args.maps, args.drones)
    runs: dict[str, list[Path]] = {"empty": [], "warm": []}
    for (form, folders), seconds in zip(runs.items(), args.seconds, strict=True):
        for seed in range(args.runs):
            folders.append(out / f"{form}_{seed}")
            cache = out / (f"cache_{seed}" if form == "empty" else "cache_0")  # the first empty one is warm afterwards
            train(folders[-1], seed, seconds, cache, args.words or ["preset=h200_fast"])
    bars = judge(args.released) if args.released else RELEASED
    print(f"released policy: {bars[0]:.3f} with 80 moving obstacles, {bars[1]:.3f} without\n")
    table = [
        "| cache | run | first update (s) | passes after (s) | success: 80 moving / none |",
        "|---|---|---|---|---|",
    ]
    for form, folders in runs.items():
        firsts, times = [], []
        for seed, folder in enumerate(folders):
            passed, figures = first_to_pass(folder, judge, bars, args.after)
            firsts.append(json.loads((folder / "times.json").read_text())["first update"])
            times.append(passed)
            table.append(f"| {form} | {seed} | {firsts[-1]:.1f} | {passed:.1f} | {figures} |")
        table.append(f"| {form} | **median** | {statistics.median(firsts):.1f} | {statistics.median(times):.1f} | |")
    print("\n".join(table))


if __name__ == "__main__":
    main()
