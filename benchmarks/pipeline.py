"""The gain and the cost of collecting beside the learner, with TorchRL's collectors in the same run.

    python benchmarks/pipeline.py                   # an env as slow as the learner; the overhead without any overlap
    python benchmarks/pipeline.py --device cuda     # captured navigation training, pipelined and not
    python benchmarks/pipeline.py --learn --out DIR # does PPO learn as well from data one update old? resumable
    python benchmarks/pipeline.py --schemes         # batches plain, lidar compressed, all compressed: memory, frames/s

The synthetic env and learner each use the same CPU time in matrix products on one thread, which release the GIL like a
simulator in native code. Contenders alternate, a few iterations each; a ratio is the median over the rounds of
(unpipelined / contender) in one round. `--schemes` runs each scheme in its own process, to measure its peak memory.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pipeline_runs
import torch
from torch import Tensor, nn

from slipstream.collectors import PipelinedDataCollector, SyncDataCollector
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Observation
from slipstream.models.policy import build_policy
from slipstream.sim.devices import set_threads
from slipstream.tasks.navigation.env import NavigationEnv

NUM_ENVS, STEPS = 64, 16


class Waiter:
    """Waits, as for a simulator or an accelerator elsewhere."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self) -> None:
        time.sleep(self._seconds)


class Burner:
    """Burns CPU time in matrix products: `count` of them took `seconds` when this process began."""

    def __init__(self, seconds: float, size: int = 192) -> None:
        self._x = torch.randn(size, size)
        for _ in range(50):
            self._x @ self._x
        began = time.perf_counter()
        for _ in range(200):
            self._x @ self._x
        self.count = max(1, round(seconds / ((time.perf_counter() - began) / 200)))

    def __call__(self) -> None:
        for _ in range(self.count):
            self._x @ self._x


Kind = type[Waiter] | type[Burner]


class SlowEnv(TensorEnv):
    """Each step burns CPU time, all else is next to nothing."""

    observation_spec = {"x": Box((8,))}
    action_spec = Box((2,), -1.0, 1.0)
    state_names = ("x",)

    def __init__(self, burner: Callable[[], None]) -> None:
        super().__init__(NUM_ENVS)
        self.x = torch.zeros(NUM_ENVS, 8)
        self._burner = burner

    def _reset(self, mask: Tensor) -> None:
        self.x.masked_fill_(mask.unsqueeze(1), 0.0)

    def _advance(self, action: Tensor) -> None:
        self._burner()
        self.x.add_(action.mean(1, keepdim=True))

    def _observe(self) -> Observation:
        return {"x": self.x}

    def _outcome(self) -> Outcome:
        never = torch.zeros(NUM_ENVS, dtype=torch.bool)
        return Outcome(self.x[:, 0], never, never, {})


class Learner:
    """An update that burns as much as a rollout, and changes the weights."""

    def __init__(self, policy: nn.Module, burner: Callable[[], None]) -> None:
        self._policy, self._burner = policy, burner

    @torch.no_grad()
    def __call__(self, batch: Any) -> None:
        for _ in range(STEPS):
            self._burner()
        for weight in self._policy.parameters():
            weight.mul_(0.999)


def torchrl_env(kind: Kind, seconds: float) -> Any:
    """For TorchRL's worker processes: calibrated there, since the time of a product is the process's own."""
    from slipstream.envs.adapters.torchrl_env import TorchRLEnv

    torch.set_num_threads(1)
    return TorchRLEnv(SlowEnv(kind(seconds)))


class Act(nn.Module):
    """A policy of ours, as TorchRL calls one."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, x: Tensor) -> Tensor:
        return self.policy({"x": x})["action"]


def torchrl_policy(policy: nn.Module) -> nn.Module:
    from tensordict.nn import TensorDictModule

    return TensorDictModule(Act(policy), in_keys=[("observation", "x")], out_keys=["action"])


def plain_policy() -> nn.Module:
    return build_policy(SlowEnv.observation_spec, SlowEnv.action_spec)


def side_by_side(burner: Callable[[], None]) -> None:
    """What a rollout and an update burn, at once: no pipeline can be faster."""

    def burn() -> None:
        torch.set_num_threads(1)  # holds for the thread that calls it alone
        for _ in range(STEPS):
            burner()

    other = threading.Thread(target=burn)
    other.start()
    burn()
    other.join()


def loop(batches: Iterator[Any], learn: Callable[[Any], None]) -> Callable[[], None]:
    """One iteration: a batch, an update."""

    def iteration() -> None:
        learn(next(batches))

    return iteration


def overlap_contenders(
    kind: Kind, step_s: float, peers: bool
) -> tuple[dict[str, Callable[[], None]], list[Callable[[], None]]]:
    """Iterations of each contender, and what ends them."""
    burner = kind(step_s)
    found: dict[str, Callable[[], None]] = {}
    ends: list[Callable[[], None]] = []

    def add(name: str, collector: Any, learn: Callable[[Any], None]) -> None:
        found[name] = loop(iter(collector), learn)
        ends.append(collector.shutdown)

    def ours() -> tuple[SyncDataCollector, nn.Module]:
        policy = plain_policy()
        return SyncDataCollector(SlowEnv(burner), policy, NUM_ENVS * STEPS), policy

    base, policy = ours()
    add("unpipelined (SyncDataCollector)", base, Learner(policy, burner))
    found["the machine's limit: both burned in two threads, no collector"] = functools.partial(side_by_side, burner)
    for name, settings in (("pipelined, on_policy=False", {}), ("pipelined, on_policy=True", {"on_policy": True})):
        base, policy = ours()
        add(name, PipelinedDataCollector(base, threads=1, **settings), Learner(policy, burner))
    if peers:
        from torchrl.collectors import Collector, MultiAsyncCollector, MultiSyncCollector

        make = functools.partial(torchrl_env, kind, step_s)
        settings = {"frames_per_batch": NUM_ENVS * STEPS, "total_frames": -1}
        policy = plain_policy()
        add("TorchRL Collector", Collector(make(), torchrl_policy(policy), **settings), Learner(policy, burner))
        policy = plain_policy()
        base = SyncDataCollector(make(), torchrl_policy(policy), **settings)
        add(
            "pipelined over TorchRL's env, on_policy=False",
            PipelinedDataCollector(base, threads=1),
            Learner(policy, burner),
        )
        for many in (MultiSyncCollector, MultiAsyncCollector):
            policy = plain_policy()
            collector = many([make], torchrl_policy(policy), **settings)
            learner = Learner(policy, burner)

            def learn(batch: Any, collector: Any = collector, learner: Learner = learner) -> None:
                learner(batch)
                collector.update_policy_weights_()

            add(f"TorchRL {many.__name__}, 1 process", collector, learn)
    return found, ends


def in_turns(contenders: dict[str, Callable[[], None]], rounds: int, each: int) -> dict[str, list[float]]:
    """Seconds an iteration, round by round; the first iteration of a turn, which another contender disturbed, is not
    counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(rounds + 1):
        for name, iteration in contenders.items():
            iteration()
            began = time.perf_counter()
            for _ in range(each):
                iteration()
            if i:
                seconds[name].append((time.perf_counter() - began) / each)
    return seconds


def overlap(kind: Kind, rounds: int, step_s: float, peers: bool) -> None:
    contenders, ends = overlap_contenders(kind, step_s, peers)
    seconds = in_turns(contenders, rounds, 6)
    for end in ends:
        end()
    first = next(iter(seconds.values()))
    how = "waiting" if kind is Waiter else "one thread each"
    print(f"\nAn env as slow as the learner: {STEPS} steps of {1e3 * step_s:.0f} ms and an update of as much, {how}\n")
    print("| collector | ms an iteration | throughput to unpipelined (rounds) |\n|---|---|---|")
    for name, times in seconds.items():
        ratios = [a / b for a, b in zip(first, times, strict=True)]
        spread = f"{min(ratios):.2f} … {max(ratios):.2f}"
        print(f"| {name} | {1e3 * statistics.median(times):.1f} | {statistics.median(ratios):.2f} ({spread}) |")


def overhead(rounds: int) -> None:
    """Nothing to overlap: the learner takes no time, and on-policy data are not collected before they are asked for.

    Both collect with one CPU thread: the pipeline's takes over the number of whoever builds it.
    """
    contenders: dict[str, Callable[[], None]] = {}
    ends = []
    for name, settings in (("unpipelined", None), ("pipelined, on_policy=True", {"on_policy": True})):
        torch.manual_seed(0)
        env = NavigationEnv(NUM_ENVS)
        base = SyncDataCollector(env, build_policy(env.observation_spec, env.action_spec), NUM_ENVS * 32)
        collector: Any = base if settings is None else PipelinedDataCollector(base, **settings)
        ends.append(collector.shutdown)
        contenders[name] = loop(iter(collector), lambda batch: None)
    clocks = {
        "time": time.perf_counter,
        "processor time": time.process_time,
    }  # the latter is blind to other work on the machine
    spent: dict[str, dict[str, list[float]]] = {name: {clock: [] for clock in clocks} for name in contenders}
    for i in range(
        10 * rounds + 3
    ):  # batch by batch in turns: the shorter a turn, the less the machine changes within it
        for name, batch in contenders.items():
            began = {clock: now() for clock, now in clocks.items()}
            batch()
            for clock, now in clocks.items():
                if i >= 3:
                    spent[name][clock].append(now() - began[clock])
    for end in ends:
        end()
    first = next(iter(spent.values()))
    print(f"\nNothing to overlap: {NUM_ENVS} drones x 32 steps, a learner that does nothing, one CPU thread;")
    print("to unpipelined, batch by batch: median (quartiles)\n")
    print("| collector | ms per batch | time | processor time |\n|---|---|---|---|")
    for name, by_clock in spent.items():
        cells = [f"{1e3 * statistics.median(by_clock['time']):.1f}"]
        for clock, times in by_clock.items():
            low, median, high = statistics.quantiles([b / a for a, b in zip(first[clock], times, strict=True)], n=4)
            cells.append(f"{median:.3f} ({low:.3f} … {high:.3f})")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument(
        "--wait", action="store_true", help="env and learner wait instead of burning CPU time: needs no second core"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave TorchRL's collectors out")
    parser.add_argument(
        "--overhead", action="store_true", help="only what the pipeline costs where there is nothing to overlap"
    )
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--schemes", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--frames", type=int, default=0, help="of each run of --learn; by default as long as preset=demo"
    )
    parser.add_argument("--num-envs", type=int, default=1024, help="of --schemes and --device cuda")
    parser.add_argument(
        "--forms", nargs="+", default=["graphs", "compiled"], choices=["graphs", "compiled"], help="of --device cuda"
    )
    parser.add_argument("--iterations", type=int, default=4, help="timed, of --schemes; 10 times as many on a GPU")
    parser.add_argument("--out", default="pipeline-runs", help="where --learn keeps its runs")
    parser.add_argument("--scheme", help=argparse.SUPPRESS)  # one scheme, in its own process
    args = parser.parse_args()
    if args.scheme:
        pipeline_runs.run_scheme(args.scheme, args.num_envs, args.iterations, args.device)
        return
    print(f"{date.today()}, torch {torch.__version__}, {args.device}")
    if args.learn:
        pipeline_runs.learn(args.seeds, args.frames, args.out, args.device)
    elif args.schemes:
        pipeline_runs.schemes(args.num_envs, args.iterations, args.device, __file__)
    elif args.device != "cpu":
        pipeline_runs.captured(args.forms, args.num_envs, 10 * args.iterations, args.device, args.rounds)
    else:
        set_threads(1)  # numba's as well, which when it starts its own would set torch's again
        if not args.overhead:
            overlap(Waiter if args.wait else Burner, args.rounds, args.step_ms / 1e3, not args.no_peers)
        overhead(args.rounds)


if __name__ == "__main__":
    main()
