"""Closed loops over each transport, in real time: `python benchmarks/fly.py [transports] [maps=3001-3010] [key=value ...]`

Each flight is a `slipstream fly vehicle=mujoco`: pilot and MuJoCo drone in two processes. The transports fly at the same
time, the maps one after another. Then every log is decided again, and on its observations the policy of torch is asked
too. transport=ros1 needs a roscore (ROS_MASTER_URI). With faults=KIND@8+1,... the maps are flown with each fault.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np


def fly_once(words: list[str], folder: Path) -> dict:
    folder.mkdir()
    log = folder / "flight.mcap"
    command = [sys.executable, "-m", "slipstream", "fly", "vehicle=mujoco", f"out={folder}/flight", f"log={log}"]
    done = subprocess.run([*command, *words, "--force"], capture_output=True, text=True, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if len(lines) < 2:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return json.loads(lines[-2]) | json.loads(lines[-1]) | {"log": log}


def logged_difference(log: Path, onnx: Path, policy) -> tuple[int, int, float]:
    """Return the decisions of a log, those that differ when decided again, and the largest difference to torch's policy
    on the logged inputs."""
    import torch

    from slipstream.deploy import loop
    from slipstream.deploy.pilot import Pilot
    from slipstream.models.exploration import ExplorationType, set_exploration_type
    from slipstream.models.memory import Stepper
    from slipstream.tasks.evaluation import action_of

    found, stepper = [0.0], Stepper(policy, 1, "cpu")

    class Checked(Pilot):
        def decide(self, now):
            decision = super().decide(now)
            if decision.action is None and stepper.memory is not None:
                stepper.memory.zero_()
            if decision.action is not None:
                seen = {key: torch.from_numpy(x)[None] for key, x in decision.observation.items()}
                with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
                    action = action_of(stepper(seen))[0].numpy()
                found.append(float(np.abs(action - decision.action).max()))
            return decision

    loop.Pilot = Checked
    return *loop.replay(log, onnx), max(found)


def main() -> None:
    words = sys.argv[1:]
    transports = next((w.split(",") for w in words if "=" not in w), ["udp", "mavlink", "dds", "ros1"])
    own = dict(w.split("=", 1) for w in words if w.startswith(("maps=", "faults=")))
    words = [w for w in words if "=" in w and not w.startswith(("maps=", "faults="))]
    first, _, last = own.get("maps", "3001-3010").partition("-")
    maps = range(int(first), int(last or first) + 1)
    from slipstream.cli.export import export_policy
    from slipstream.tasks.navigation.env import NavigationEnv
    from slipstream.training.evaluate import configure

    checkpoint = [w for w in words if w.startswith("checkpoint=")]
    cfg, trained = configure(checkpoint)
    policy = trained.build(NavigationEnv(1, config=cfg.env), "cpu")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        onnx = folder / "policy.onnx"
        export_policy(trained, cfg.task, cfg.env, "onnx", onnx)
        faults = own.get("faults", "").split(",")

        def fly_maps(transport: str) -> list[list[dict]]:
            rows: list[list[dict]] = []
            for fault in faults:
                rows.append([])
                for seed in maps:
                    settings = [f"transport={transport}", f"onnx={onnx}", f"eval.map_seeds=[{seed}]", *words]
                    settings += [f"fault={fault}"] if fault else []
                    rows[-1].append(fly_once(settings, folder / f"{transport}-{fault.partition('@')[0]}-{seed}"))
                    print(json.dumps({"transport": transport, "fault": fault} | rows[-1][-1], default=str), flush=True)
            return rows

        with ThreadPoolExecutor() as pool:
            flown = [row for rows in pool.map(fly_maps, transports) for row in rows]
        for (transport, fault), results in zip(product(transports, faults), flown, strict=True):
            decided = [logged_difference(found["log"], onnx, policy) for found in results]
            row = {
                "transport": transport,
                "fault": fault,
                "flights": len(results),
                "success": sum(found["success"] for found in results),
                "collisions": [found["collision"] for found in results if found["collision"]],
                "time_s": round(float(np.mean([found["time_s"] for found in results])), 1),
                "decisions": sum(counts[0] for counts in decided),
                "differ when replayed": sum(counts[1] for counts in decided),
                "largest difference to torch": max(counts[2] for counts in decided),
                "late p99 ms (worst flight)": max(found["late_ms"]["p99"] for found in results),
                "compute p99 ms (median flight)": float(np.median([f["compute_ms"]["p99"] for f in results])),
                "states": dict(sum((Counter(found["states"]) for found in results), Counter())),
                "braked_after_s": [found["braked_after_s"] for found in results],
                "clock_ratio": max(found["clock_ratio"] for found in results),
            }
            print("TABLE", json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
