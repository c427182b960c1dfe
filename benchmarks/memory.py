"""Policies with and without memory over the same maps: success with intervals, and paired differences to the first.

    for memory in none stack gru; do
        slipstream train preset=h200_lidar model.memory=$memory name=$memory
    done
    python benchmarks/memory.py runs/none runs/stack runs/gru        # maps 2001-2064, 64 drones each
    python benchmarks/memory.py --collisions navigation_lidar        # what it collides with, and whether a beam met it

Every policy flies in the env of its own training. The toy of docs/memory.md is examples/hidden_velocity.py.
"""

from __future__ import annotations

import argparse
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from slipstream import ExplorationType, set_exploration_type
from slipstream.sim.devices import resolve_device
from slipstream.tasks.navigation.env import BODY_RADIUS_M, NavigationEnv
from slipstream.tasks.navigation.evaluation import Crossing, Flights, compare, evaluation_env, fly, summarize
from slipstream.tasks.navigation.physics.lidar import Things, level_rotation
from slipstream.training.evaluate import configure
from slipstream.training.metrics_log import read_metrics
from slipstream.ui.tables import format_rate

WINDOW_S = 1.0  # before a collision, in which an obstacle counts as seen


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
        policy = loaded.build(env, device)
        flights = fly(env, policy, cfg.eval.num_drones, record_paths=False)
        found = summarize(flights)
        difference = "–"
        if first is None:
            first = flights
        else:
            paired = compare(flights, first)
            low, high = paired["difference_low"], paired["difference_high"]
            difference = f"{paired['difference']:+.3f} ({low:+.3f} … {high:+.3f})"
        success = "{} ({} … {})".format(*(format_rate(found[f"success{end}"]) for end in ("", "_low", "_high")))
        rates = f"{found['collision']:.3f} | {found['timeout']:.3f}"
        memory = getattr(getattr(policy, "config", None), "memory", "none")
        print(f"| {loaded.name} | {memory} | {trained(path)} | {success} | {rates} | {difference} |", flush=True)


# -- collisions ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def collisions(path: str, words: list[str]) -> None:
    """Print what the drones of a policy collide with, and which of it no beam met in the last second."""
    cfg, loaded = configure([f"checkpoint={path}", *words])
    env = evaluation_env(cfg.env, cfg.eval, resolve_device(cfg.device))
    crossing = Crossing(env, loaded.build(env, env.device), cfg.eval.num_drones)
    yaw = torch.atan2(env.heading[:, 1], env.heading[:, 0])
    rows = round(WINDOW_S / (env.config.dt_s * env.config.decision_interval))
    past: deque[tuple[Tensor, Tensor]] = deque(maxlen=rows)  # drones [N, 3] and moving obstacles [K, M, 3]
    found: Counter[str] = Counter()
    with set_exploration_type(ExplorationType.MEAN):
        for _ in range(crossing.decisions):
            past.append((env.drone.pos.clone(), env.movers.pos.clone()))
            before = crossing.collision.clone()
            crossing.step()
            found.update(cause(env, int(n), yaw, past) for n in (crossing.collision & ~before).nonzero()[:, 0])
    print(f"\n{loaded.name}: {sum(found.values())} collisions of {env.num_envs} drones")
    for name, count in found.most_common():
        print(f"  {count:4d}  {name}")


def cause(env: NavigationEnv, n: int, yaw: Tensor, past: Iterable[tuple[Tensor, Tensor]]) -> str:
    """Return what drone `n` has collided with."""
    movers, world = env.movers, int(env.world_of[n])
    rel = movers.pos[world] - env.drone.pos[n]
    near = rel[:, :2].norm(dim=-1) <= movers.width / 2 + BODY_RADIUS_M + 1e-4
    hit = near & (movers.pillar | (rel[:, 2].abs() <= movers.height / 2 + BODY_RADIUS_M + 1e-4))
    if not hit.any():
        return "something that stands, the ground or the ceiling"
    k = int(hit.nonzero()[0, 0])
    one = {name: getattr(movers, name)[k : k + 1] for name in ("width", "height", "pillar")}
    drone = torch.stack([pos[n] - obstacles[world, k] for pos, obstacles in past])  # [T, 3], from the obstacle
    target = SimpleNamespace(pos=torch.zeros_like(rel[:1, None]), **one)
    level, first = level_rotation(yaw[n].expand(len(drone))), torch.zeros(len(drone), dtype=torch.int64)
    things = Things.moving(target, "torch")
    beams = things.cast(drone, level, env.lidar.rays, first.to(drone.device), env.config.lidar.range_m)
    seen = "" if (beams < env.config.lidar.range_m).any() else f", which no beam met in the last {WINDOW_S:g} s"
    return ("a moving pillar" if movers.pillar[k] else "a floating box") + seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, nargs=2, default=(2001, 2064), metavar=("FIRST", "LAST"))
    parser.add_argument("--drones", type=int, default=64, help="per map")
    parser.add_argument("--collisions", action="store_true", help="what the drones collide with, instead of the table")
    parser.add_argument("policies", nargs="+", help="runs or policy files, and key=value words of slipstream eval")
    args = parser.parse_args()
    given = [word for word in args.policies if "=" in word and not Path(word).exists()]
    given += [f"eval.map_seeds={args.maps[0]}-{args.maps[1]}", f"eval.num_drones={args.drones}"]
    policies = [word for word in args.policies if word not in given]
    if not args.collisions:
        judge(policies, given)
    for path in policies if args.collisions else ():
        collisions(path, given)
