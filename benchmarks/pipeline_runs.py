"""The trainings of benchmarks/pipeline.py: captured on a GPU, learning from older data, the schemes of compression."""

from __future__ import annotations

import json
import math
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import slipstream
from slipstream.config.compose import load_train
from slipstream.sim.devices import resolve_device
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer

QUIET = ["quiet=true", "wandb.mode=disabled"]
MODES = ("off", "on", "on_policy")
SCHEMES = {"A: none": "off", "B: lidar": "lidar", "C: all": "all"}
FLIES = Path(slipstream.__file__).parent / "tasks" / "navigation" / "weights" / "navigation.pt.slip"
STUDENT_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


# -- on a GPU
# ------------------------------------------------------------------------------------------------------------------------


def captured(forms: list[str], num_envs: int, iterations: int, device: str, rounds: int) -> None:
    """Whole iterations of captured navigation training, each form a few rounds, one after the other."""
    resolve_device(device)
    print(
        f"\n{num_envs} drones x 32 steps, NavRL's network, 4 epochs x 16 minibatches, {torch.cuda.get_device_name()}\n"
    )
    print("| form | pipeline | ms an iteration (rounds) | frames/s | to unpipelined |\n|---|---|---|---|---|")
    for form in forms:
        first = 0.0
        for mode in MODES:
            cfg = load_train([f"env.num_envs={num_envs}", f"device={device}", f"collect.pipeline={mode}", *QUIET])
            job = Trainer(cfg)
            job.capture(print, form)

            def iterate(count: int, job: Trainer = job) -> float:
                torch.cuda.synchronize()
                began = time.perf_counter()
                for _ in range(count):
                    job.step()
                torch.cuda.synchronize()
                return (time.perf_counter() - began) / count

            iterate(8)  # warm-up and capture
            seconds = [iterate(iterations) for _ in range(rounds)]
            job.collector.shutdown()
            median = statistics.median(seconds)
            first = first or median
            spread = f"{1e3 * median:.2f} ({1e3 * min(seconds):.2f} … {1e3 * max(seconds):.2f})"
            print(f"| {form} | {mode} | {spread} | {job.frames_per_batch / median:,.0f} | {first / median:.3f} |")
            del job, iterate
            torch.cuda.empty_cache()


# -- learning from older data
# --------------------------------------------------------------------------------------------------------


def learn(seeds: list[int], frames: int, out: str, device: str) -> None:
    """Trains the demo's world by data on-policy and one update old; what is there already is not trained again, what
    stopped goes on."""
    rows: dict[str, list[dict[str, float]]] = {mode: [] for mode in ("off", "on")}
    for seed in seeds:
        for mode, found in rows.items():
            found.append(_learned(Path(out), seed, mode, frames, device))
    print(f"\npreset=demo by frames, {len(seeds)} seeds; mean and 95 % interval (Student's t)\n")
    print(
        "| data | frames | success on unseen maps | episode return at the end | each seed's success |\n|---|---|---|---|---|"
    )
    for mode, found in rows.items():
        name = {"off": "on-policy (collect.pipeline=off)", "on": "one update old (collect.pipeline=on)"}[mode]
        success, gain = ([row[key] for row in found] for key in ("success", "return"))
        each = ", ".join(f"{s:.3f}" for s in success)
        print(f"| {name} | {found[0]['frames']:,.0f} | {_interval(success)} | {_interval(gain)} | {each} |")


def _learned(out: Path, seed: int, mode: str, frames: int, device: str) -> dict[str, float]:
    path, kept = out / f"{mode}-{seed}", out / f"{mode}-{seed}.json"
    if not kept.exists():
        # by frames, not by time: both modes must see as many
        words = [f"device={device}", "preset=demo", "max_time_s=0", f"seed={seed}", f"collect.pipeline={mode}", *QUIET]
        words += ["eval_interval=1000000", f"total_frames={frames or 6_000_000}", f"root={out}", f"name={mode}-{seed}"]
        started = path.exists() and any((path / "checkpoints").glob("*"))
        began = time.perf_counter()
        # a process of its own, as a user starts it: it tells OpenMP's threads not to spin before torch is loaded
        asked = [f"resume={path}"] if started else words
        subprocess.run([sys.executable, "-m", "slipstream", "train", *asked], check=True, stdout=subprocess.DEVNULL)
        rows = read_metrics(path)
        ends = [row["episode/return"] for row in rows[-20:] if "episode/return" in row]
        facts = {"success": rows[-1]["eval/success"], "return": statistics.mean(ends), "frames": rows[-1]["frames"]}
        out.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(facts))
        print(f"{kept.name}: {facts} in {time.perf_counter() - began:.0f} s", flush=True)
    return json.loads(kept.read_text())


def _interval(x: list[float]) -> str:
    if len(x) < 2:
        return f"{x[0]:.3f}"
    half = STUDENT_T.get(len(x) - 1, 1.96) * statistics.stdev(x) / math.sqrt(len(x))
    return f"{statistics.mean(x):.3f} ± {half:.3f}"


# -- the three schemes of rollout-compression-feasibility.md
# ------------------------------------------------------------------------


def schemes(num_envs: int, iterations: int, device: str, script: str) -> None:
    """Each scheme in a process of its own."""
    print(f"\nPPO on navigation, {num_envs} drones x 32 steps, 350 + 80 obstacles, NavRL's network\n")
    print(
        "| scheme | batch MB | ratio (lidar) | peak memory MB, over scheme A | frames/s | to A | collect + compress ms | update ms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    first: dict[str, float] = {}
    for name in SCHEMES:
        words = [
            sys.executable,
            script,
            "--scheme",
            name,
            "--num-envs",
            str(num_envs),
            "--iterations",
            str(iterations),
            "--device",
            device,
        ]
        facts = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        first = first or facts
        print(
            f"| {name} | {facts['batch_mb']:.1f} | {facts['ratio']:.2f} ({facts['lidar_ratio']:.1f}) "
            f"| {facts['peak_mb']:.0f}, {facts['peak_mb'] - first['peak_mb']:+.0f} "
            f"| {facts['fps']:,.0f} | {facts['fps'] / first['fps']:.2f} "
            f"| {facts['collect_ms']:.0f} | {facts['update_ms']:.0f} |"
        )


def run_scheme(name: str, num_envs: int, iterations: int, device: str) -> None:
    """Prints what one scheme took, as JSON."""
    words = [
        f"env.num_envs={num_envs}",
        "env.num_obstacles=350",
        "env.dyn.num_obstacles=80",
        f"device={device}",
        "compile=off",
        *QUIET,
    ]
    words.append(
        "threads=1"
    )  # a second one that others keep from running makes both wait, which says nothing of the schemes
    # weights that fly: the lidar of drones that hover outside of the map would compress too well
    words += [f"collect.compress={SCHEMES[name]}", f"init={FLIES}"]
    job = Trainer(load_train(words))
    collect_s, update_s = [], []
    facts = {"ratio": 1.0, "lidar_ratio": 1.0, "batch_mb": 0.0}
    for i in range(iterations + 1):
        began = time.perf_counter()
        batch = job.collector.rollout()
        between = time.perf_counter()
        job.learner.update(batch)
        if device != "cpu":
            torch.cuda.synchronize()
        if i:
            collect_s.append(between - began)
            update_s.append(time.perf_counter() - between)
        if SCHEMES[name] == "off":
            storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in batch.values(True, True)}
            facts["batch_mb"] = sum(storages.values()) / 1e6
        else:
            facts |= {
                "batch_mb": batch.nbytes / 1e6,
                "ratio": batch.ratio,
                "lidar_ratio": batch.frames["observation", "lidar"].ratio,
            }
        del batch
    seconds = statistics.median(collect_s) + statistics.median(update_s)
    gpu_mb = torch.cuda.max_memory_allocated() / 1e6 if device != "cpu" else 0.0
    peak_mb = gpu_mb or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    times = {"collect_ms": 1e3 * statistics.median(collect_s), "update_ms": 1e3 * statistics.median(update_s)}
    print(json.dumps(facts | times | {"fps": job.frames_per_batch / seconds, "peak_mb": peak_mb}))
