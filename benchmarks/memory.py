"""Policies with and without memory over the same maps: success with intervals, and paired differences to the first.

    for memory in none stack gru; do
        slipstream train preset=h200 env.dynamics=quadrotor env.observe_moving=false env.lidar_sees_moving=true \\
            model.memory=$memory max_time_s=540 name=$memory
    done
    python benchmarks/memory.py runs/gru runs/stack runs/none        # maps 2001-2064, 64 drones each

Every policy flies in the env of its own training. The toy of docs/memory.md is examples/hidden_velocity.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from slipstream.sim.devices import resolve_device
from slipstream.tasks.navigation.evaluation import Flights, compare, evaluation_env, fly, summarize
from slipstream.training.evaluate import configure
from slipstream.training.metrics_log import read_metrics


def trained(run: str) -> str:
    """Return how long a run was trained."""
    try:
        row = read_metrics(run)[-1]
    except (OSError, IndexError, ValueError):
        return "–"
    return f"{row['time_s'] / 60:.1f} min, {row['frames'] / 1e6:,.0f} M frames"


def judge(policies: list[str], words: list[str]) -> None:
    """Print one row per policy."""
    first: Flights | None = None
    print("| policy | memory | trained | success | collision | timeout | difference to the first, paired by map |")
    print("|---|---|---|---|---|---|---|")
    for path in policies:
        cfg, loaded = configure([f"checkpoint={path}", *words])
        device = resolve_device(cfg.device)
        env = evaluation_env(cfg.env, cfg.eval, device)
        policy = loaded.build(env.observation_spec, env.action_spec, device)
        flights = fly(env, policy, cfg.eval.num_drones, record_paths=False)
        found = summarize(flights)
        difference = "–"
        if first is None:
            first = flights
        else:
            paired = compare(flights, first)
            low, high = paired["difference_low"], paired["difference_high"]
            difference = f"{paired['difference']:+.3f} ({low:+.3f} … {high:+.3f})"
        success = f"{found['success']:.3f} ({found['success_low']:.3f} … {found['success_high']:.3f})"
        rates = f"{found['collision']:.3f} | {found['timeout']:.3f}"
        memory = getattr(getattr(policy, "config", None), "memory", "none")
        print(f"| {loaded.name} | {memory} | {trained(path)} | {success} | {rates} | {difference} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, nargs=2, default=(2001, 2064), metavar=("FIRST", "LAST"))
    parser.add_argument("--drones", type=int, default=64, help="per map")
    parser.add_argument("policies", nargs="+", help="runs or policy files, and key=value words of slipstream eval")
    args = parser.parse_args()
    given = [word for word in args.policies if "=" in word and not Path(word).exists()]
    given += [f"eval.map_seeds={args.maps[0]}-{args.maps[1]}", f"eval.num_drones={args.drones}"]
    judge([word for word in args.policies if word not in given], given)
