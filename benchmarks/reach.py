"""Missile reach: the time of one call for many pairs, simulated and from the table, and of a spacetime diagram.

python benchmarks/reach.py [--pairs 4096] [--device cpu|cuda] [--repeats 5]
"""

import argparse
import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch comes: waiting threads take no time from others
sys.path.append(str(Path(__file__).parents[1] / "tools"))

import torch  # noqa: E402
from reach_table import HOLD, Geometry, envelope, placed, time_of_hit  # noqa: E402
from reachable_sets import reachable  # noqa: E402

from slipstream.tasks.aircombat.env import AirCombatEnv  # noqa: E402
from slipstream.tasks.aircombat.reach.forecast import forecast  # noqa: E402
from slipstream.tasks.aircombat.reach.table import ReachTable, pseudo_angle  # noqa: E402


def drawn(pairs, device):
    u = torch.rand(pairs, 4, generator=torch.Generator().manual_seed(0)).to(device)
    return Geometry(200 + 250 * u[:, 0], 200 + 250 * u[:, 1], math.pi * u[:, 2], math.pi * (2 * u[:, 3] - 1))


def timed(call, device, repeats):
    """Median wall time and processor time (all threads) of one call in ms."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    call()
    walls, processor = [], []
    for _ in range(repeats):
        wait()
        start, used = time.perf_counter(), time.process_time()
        call()
        wait()
        walls.append((time.perf_counter() - start) * 1e3)
        processor.append((time.process_time() - used) * 1e3)
    return sorted(walls)[repeats // 2], sorted(processor)[repeats // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4096)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    geometry, table = drawn(args.pairs, args.device), ReachTable.load(device=args.device)
    bearing, aspect = (pseudo_angle(torch.cos(x), torch.sin(x)) for x in (geometry.bearing, geometry.aspect))
    where = (geometry.own_speed, geometry.target_speed, bearing, aspect)
    distance = torch.full_like(geometry.own_speed, 20_000.0)
    zero = torch.zeros_like(distance)
    state = placed(geometry, distance)
    duel = AirCombatEnv(1).duel(0)

    rows = [
        (f"r_max, r_min, r_ne and times of {args.pairs:,} pairs, flown", lambda: envelope(geometry), args.device),
        (f"{args.pairs:,} single shots at 20 km", lambda: time_of_hit(*state, zero, zero + HOLD), args.device),
        (f"the same of {args.pairs:,} pairs, from the table", lambda: table.lookup(*where), args.device),
        ("reachable set at 5, 10, 15, 20 s", lambda: reachable(300.0), "cpu"),
        ("everything a diagram shows", lambda: forecast(duel), "cpu"),
    ]
    if args.device == "cuda":
        print(torch.cuda.get_device_name())
    print(f"load average before: {os.getloadavg()[0]:.1f}; {torch.get_num_threads()} threads; median of {args.repeats}")
    print("| what | on | wall (ms) | processor (ms) |\n|---|---|---|---|")
    for name, call, device in rows:
        wall, processor = timed(call, device, args.repeats)
        print(f"| {name} | {device} | {wall:.2f} | {processor:.2f} |", flush=True)


if __name__ == "__main__":
    main()
