"""Stable-Baselines3 with its own replay buffer and with ours, alternating: returns and times.

python benchmarks/replay_clients.py               # DQN on CartPole-v1, SAC on Pendulum-v1, 3 seeds: an hour
python benchmarks/replay_clients.py --only sac --seeds 1
python benchmarks/replay_clients.py --same-draws  # ours samples the same steps as SB3's: exactly the same returns
python benchmarks/replay_clients.py --memory      # bytes of 20,000 pictures 84 x 84 of examples/sb3_images.py
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.evaluation import evaluate_policy

from slipstream.replay.adapters.sb3 import SlipstreamReplayBuffer
from slipstream.replay.samplers import Sampler


class Sb3Draws(Sampler):
    """Draws as SB3's own buffer does, from NumPy's global generator."""

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, None]:
        steps = head + np.random.randint(0, tail - head, size=number)
        np.random.randint(0, high=1, size=(number,))  # it draws the environment, too
        return steps, None


Buffer = tuple[type, dict[str, Any]]
OWN: dict[str, Buffer] = {"SB3's own": (ReplayBuffer, {})}
OURS: dict[str, Buffer] = {"ours": (SlipstreamReplayBuffer, {})}
SAME: dict[str, Buffer] = {"ours, SB3's draws": (SlipstreamReplayBuffer, {"sampler": Sb3Draws(), "seed": 0})}
# DQN as in rl-zoo's tuned CartPole settings; SAC with SB3's defaults
CLIENTS = {
    "dqn": (
        DQN,
        "CartPole-v1",
        50_000,
        {
            "learning_rate": 2.3e-3,
            "batch_size": 64,
            "buffer_size": 100_000,
            "learning_starts": 1000,
            "target_update_interval": 10,
            "train_freq": 256,
            "gradient_steps": 128,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
            "policy_kwargs": {"net_arch": [256, 256]},
        },
    ),
    "sac": (
        SAC,
        "Pendulum-v1",
        8_000,
        {"learning_rate": 1e-3, "buffer_size": 20_000, "policy_kwargs": {"net_arch": [64, 64]}},
    ),
}


def train(name: str, buffer: Buffer, seed: int) -> tuple[float, float]:
    """(mean return over 20 deterministic episodes, seconds of training)."""
    algorithm, env, steps, settings = CLIENTS[name]
    model = algorithm(
        "MlpPolicy",
        env,
        seed=seed,
        replay_buffer_class=buffer[0],
        replay_buffer_kwargs=buffer[1],
        device="cpu",
        **settings,
    )
    begin = time.perf_counter()
    model.learn(steps)
    seconds = time.perf_counter() - begin
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=20, deterministic=True)
    return float(mean), seconds


def show_memory(steps: int = 20_000) -> None:
    """Print the memory of the same random steps in SB3's own buffer and in ours."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from sb3_images import Catch

    env, rng = Catch(), np.random.default_rng(0)
    spaces = env.observation_space, env.action_space
    kinds = {
        "SB3's own": ReplayBuffer(steps, *spaces),
        "SB3's own, optimize_memory_usage=True": ReplayBuffer(
            steps, *spaces, optimize_memory_usage=True, handle_timeout_termination=False
        ),
        "ours": SlipstreamReplayBuffer(steps, *spaces),
        "ours, group=8": SlipstreamReplayBuffer(steps, *spaces, group=8),
    }
    picture, _ = env.reset(seed=0)
    for _ in range(steps):
        action = int(rng.integers(3))
        after, reward, over, _, _ = env.step(action)
        for buffer in kinds.values():
            buffer.add(picture[None], after[None], np.array([[action]]), np.array([reward]), np.array([over]), [{}])
        picture = env.reset()[0] if over else after
    print(f"| buffer of {steps:,} pictures | MB | of SB3's own |\n|---|---|---|")
    first = 0
    for name, buffer in kinds.items():
        buffer.sample(1)
        ours = isinstance(buffer, SlipstreamReplayBuffer)
        if ours:
            for column in buffer.buffer._storage.memory.columns.values():
                column.flush()
        arrays = [x for x in vars(buffer).values() if isinstance(x, np.ndarray)]
        nbytes = buffer.buffer.nbytes if ours else sum(x.nbytes for x in arrays)
        first = first or nbytes
        print(f"| {name} | {nbytes / 1e6:.1f} | {nbytes / first:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(CLIENTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--same-draws", action="store_true")
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    if arguments.memory:
        show_memory()
        return
    buffers = OWN | (SAME if arguments.same_draws else OURS)
    torch.set_num_threads(1)
    print("| client | steps | buffer | return of each seed | mean | seconds of each seed |")
    print("|---|---|---|---|---|---|")
    for name in [arguments.only] if arguments.only else CLIENTS:
        results: dict[str, list[tuple[float, float]]] = {label: [] for label in buffers}
        for seed in range(arguments.seeds):
            for label, buffer in buffers.items():  # in turns: whatever else the machine does meets both
                results[label].append(train(name, buffer, seed))
        for label, runs in results.items():
            returns, seconds = zip(*runs, strict=True)
            each, took = " ".join(f"{r:.0f}" for r in returns), " ".join(f"{s:.0f}" for s in seconds)
            print(
                f"| {name} {CLIENTS[name][1]} | {CLIENTS[name][2]} | {label} | {each} | {np.mean(returns):.0f} | {took} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
