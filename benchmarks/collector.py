"""The cost of collecting: ours, TorchRL's and a bare loop of env + policy that stores nothing, in one process.

    python benchmarks/collector.py --policy navrl
    python benchmarks/collector.py --policy linear

Each contender has its own env with the same seed. They alternate, one batch each; a ratio is the median over the rounds
of (contender / bare loop of the same round), so that a slow moment of the machine affects both. `linear` is a policy
that costs almost nothing: the hardest case for a collector. TorchRL runs in its normal way (it resets ended
environments within the step, which observes a second time) and in its cheapest way (the env resets itself, as for
ours). Its batches are zero-copy too; it computes no value of the last row.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import date

import torch
from torch import Tensor, nn

from slipstream.collectors import SyncDataCollector
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation
from slipstream.models.policy import build_policy
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.physics.obstacles import MovingObstaclesConfig

Batch = Callable[[], object]  # collects one batch


class LinearPolicy(nn.Module):
    """One small matrix product: an action, a log probability and a value for nearly nothing."""

    def __init__(self, action_dim: int) -> None:
        super().__init__()
        self.layer = nn.Linear(8, action_dim + 1)

    def forward(self, observation: Observation) -> dict[str, Tensor]:
        out = self.layer(observation["state"]).tanh()
        return {"action": 2 * out[:, 1:], "log_prob": out[:, 0], "value": out[:, 0]}

    def value(self, observation: Observation) -> Tensor:
        return self.layer(observation["state"]).tanh()[:, 0]


def bare_loop(env: TensorEnv, policy: nn.Module, steps: int) -> Batch:
    """Env and policy in turn; nothing is kept."""
    observation = env.reset()

    def batch() -> None:
        nonlocal observation
        with torch.no_grad():
            for _ in range(steps):
                observation = env.step(policy(observation)["action"]).observation
            env.check()

    return batch


def ours(env: TensorEnv, policy: nn.Module, steps: int, zero_copy: bool) -> Batch:
    return SyncDataCollector(env, policy, env.num_envs * steps, return_same_td=zero_copy).rollout


def torchrl(env: TensorEnv, policy: nn.Module, steps: int, env_resets: bool, **settings: bool) -> Batch:
    """TorchRL's collector over a small adapter; with `env_resets` the adapter keeps the ends of episodes to itself."""
    from tensordict import TensorDict
    from torchrl.collectors import Collector
    from torchrl.data import Binary, Bounded, Composite, Unbounded
    from torchrl.envs import EnvBase

    n = env.num_envs

    class Adapter(EnvBase):
        def __init__(self) -> None:
            super().__init__(device=env.device, batch_size=[n])
            shapes = {name: (n, *spec.shape) for name, spec in env.observation_spec.items()}
            inner = Composite({name: Unbounded(shape, device=env.device) for name, shape in shapes.items()}, shape=[n])
            flags = {name: Binary(1, (n, 1), dtype=torch.bool, device=env.device) for name in ("ended", "valid")}
            action = env.action_spec
            self.observation_spec = Composite({"observation": inner, **flags}, shape=[n])
            self.action_spec = Bounded(action.low, action.high, (n, *action.shape), device=env.device)
            self.reward_spec = Unbounded((n, 1), device=env.device)

        def _reset(self, tensordict: TensorDict | None = None, **kwargs: object) -> TensorDict:
            mask = None if tensordict is None else tensordict.get("_reset", None)
            observation = env.reset(None if mask is None else mask.flatten())
            no = torch.zeros(n, 1, dtype=torch.bool, device=env.device)
            return TensorDict(
                {"observation": observation, "ended": no, "valid": ~no}, batch_size=[n], device=env.device
            )

        def _step(self, tensordict: TensorDict) -> TensorDict:
            r = env.step(tensordict["action"])
            ended, terminated = (r.terminated | r.truncated).unsqueeze(1), r.terminated.unsqueeze(1)
            no = torch.zeros_like(ended)
            flags = {"done": no, "terminated": no} if env_resets else {"done": ended, "terminated": terminated}
            facts = {"reward": r.reward.unsqueeze(1), "ended": ended, "valid": r.valid.unsqueeze(1)}
            return TensorDict({"observation": r.observation, **facts, **flags}, batch_size=[n], device=env.device)

        def _set_seed(self, seed: int | None) -> None:
            pass

    def act(tensordict: TensorDict) -> TensorDict:
        return tensordict.update(policy(dict(tensordict["observation"].items())))

    settings |= {"return_same_td": True, "trust_policy": True, "no_cuda_sync": True}
    collector = Collector(Adapter(), act, frames_per_batch=n * steps, total_frames=-1, **settings)
    batches: Iterator[object] = iter(collector)
    return lambda: next(batches)


def measure(contenders: dict[str, Batch], repeats: int, device: torch.device) -> dict[str, list[float]]:
    """Seconds a batch, round by round; the first two rounds warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(repeats + 2):
        for name, batch in contenders.items():
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            batch()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if i >= 2:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--policy", choices=["navrl", "linear"], default="navrl")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)

    def env() -> NavigationEnv:
        return NavigationEnv(
            args.num_envs, device, 0, NavigationConfig(num_obstacles=350, dyn=MovingObstaclesConfig(num_obstacles=80))
        )

    torch.manual_seed(0)
    first = env()
    policy: nn.Module
    policy = build_policy(first.observation_spec, first.action_spec) if args.policy == "navrl" else LinearPolicy(3)
    policy.to(device)
    contenders = {
        "bare loop of env + policy, nothing stored": bare_loop(first, policy, args.steps),
        "slipstream, zero copy (return_same_td=True)": ours(env(), policy, args.steps, zero_copy=True),
        "slipstream, the caller's own copy": ours(env(), policy, args.steps, zero_copy=False),
        "TorchRL Collector, zero copy": torchrl(env(), policy, args.steps, env_resets=False),
        "the same, the env resets itself": torchrl(env(), policy, args.steps, env_resets=True),
        "the same, no next observations, no trajectory ids": torchrl(
            env(), policy, args.steps, env_resets=True, compact_obs=True, track_traj_ids=False
        ),
    }
    seconds = measure(contenders, args.repeats, device)

    import torchrl as peer

    bare = next(iter(seconds.values()))
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{args.threads} threads, {platform.machine()}"
    print(f"{date.today()}, torch {torch.__version__}, torchrl {peer.__version__}, {device.type} ({where})")
    print(
        f"{args.num_envs} drones x {args.steps} steps, 350 + 80 obstacles, policy {args.policy}, median of {args.repeats} rounds\n"
    )
    print("| collector | ms per batch | frames/s | ratio to the bare loop |")
    print("|---|---|---|---|")
    for name, times in seconds.items():
        median = statistics.median(times)
        ratio = statistics.median(t / b for t, b in zip(times, bare, strict=True))
        print(f"| {name} | {1000 * median:.1f} | {args.num_envs * args.steps / median:,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
