"""Measure actors on Ray: frames per second of one and two actors with an idle learner, bytes on the wire, memory.

    python benchmarks/ray_actors.py [--seconds 60] [--memory-minutes 10]

A cluster of two nodes with one core each is started on this machine. The env sleeps 3 ms per step, so that two actors
fit on one core: what is measured is the path of the data, not the number of cores.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), str(ROOT), os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, str(ROOT / "tests"))  # the env is a helper of the tests
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from slipstream.collectors import ray as actors  # noqa: E402
from slipstream.config.compose import load_train, to_dict  # noqa: E402
from slipstream.training.trainer import Trainer, make_actor  # noqa: E402

SLOW = (
    "task=gym env.id=helpers.ray_envs:Slow-v0 env.num_envs=4 algo.rollout_steps=32 algo.minibatches=4 model.trunk=[32]"
)
SETTINGS = f"{SLOW} device=cpu threads=1 eval_interval=0 wandb.mode=disabled".split()
WIRE = {
    "LiDAR, 16 drones": "task=navigation env.num_envs=16 env.num_obstacles=60 env_dyn.num_obstacles=8 env.map_half_m=8",
    "images 84 x 84": "task=gym env.id=helpers.ray_envs:Images-v0 env.num_envs=2 env.kwargs.step_s=0",
}


def frames_per_second(count: int, seconds: float) -> float:
    """Collect with an idle learner: fetch, decode, publish, nothing else."""
    with Trainer(load_train([*SETTINGS, f"actors.count={count}"])) as trainer:
        collector = trainer.collector
        while collector.metrics()["actors/running"] < count or collector.frames < 4 * collector.frames_per_batch:
            collector.rollout()
            collector.publish()
        start, frames = time.perf_counter(), collector.frames
        while time.perf_counter() - start < seconds:
            collector.rollout()
            collector.publish()
        return (collector.frames - frames) / (time.perf_counter() - start)


def wire_share(words: str) -> tuple[int, float, float]:
    """Return bytes per frame, their share of the raw bytes, and ms to collect and compress a block of 32 steps."""
    env, policy = make_actor(to_dict(load_train(words.split())), 1)
    actor = actors.RayActor(lambda seed: (env, policy), 1, 32 * env.num_envs, 1, 1)
    weights = [ray.put(actors.pack_weights(policy))]
    blocks = [actor.rollout(0, weights) for _ in range(8)]
    sent, raw = sum(len(block.data) for block in blocks), sum(block.raw_bytes for block in blocks)
    return sent // (8 * 32 * env.num_envs), sent / raw, 1000 * blocks[-1].seconds


def rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory(minutes: float) -> list[tuple[float, float, float]]:
    """Train PPO; return (minutes, MB of the learner, MB of the largest actor) at six moments."""
    rows = []
    with Trainer(load_train([*SETTINGS, "actors.count=2"])) as trainer:
        for _ in range(10):
            trainer.step()
        start = time.perf_counter()
        for moment in range(6):
            while time.perf_counter() - start < 60 * minutes * moment / 5:
                trainer.step()
            pids = [int(slot.where.rpartition(" ")[2]) for slot in trainer.collector._slots]
            rows.append(((time.perf_counter() - start) / 60, rss_mb(os.getpid()), max(map(rss_mb, pids))))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="per measurement (20)")
    parser.add_argument(
        "--memory-minutes", type=float, default=10.0, help="of the training whose memory is watched (10)"
    )
    args = parser.parse_args()
    node = {"num_cpus": 1, "object_store_memory": 200 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    cluster.add_node(**node)
    try:
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        print("| actors | frames/s, idle learner | ratio |\n|---|---|---|")
        rates = {1: 0.0, 2: 0.0}
        for count in (1, 2, 2, 1):  # in this order, so that a slow drift of the machine cancels out
            rates[count] += frames_per_second(count, args.seconds) / 2
        for count, rate in rates.items():
            print(f"| {count} | {rate:,.0f} | {rate / rates[1]:.2f} |", flush=True)
        print(
            "\n| observations | bytes per frame on the wire | share of raw | collect and compress 32 steps |\n|---|---|---|---|"
        )
        for name, words in WIRE.items():
            sent, share, ms = wire_share(words)
            print(f"| {name} | {sent:,} | {share:.3f} | {ms:.0f} ms |", flush=True)
        print("\n| minutes | learner, MB | actor, MB |\n|---|---|---|")
        for minutes, learner, actor in memory(args.memory_minutes):
            print(f"| {minutes:.1f} | {learner:.0f} | {actor:.0f} |", flush=True)
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
