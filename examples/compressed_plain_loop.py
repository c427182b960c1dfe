"""Batches whose observations are kept compressed: PPO opens them a minibatch at a time."""

import sys

import torch

from slipstream import PPO, CompressedDataCollector, NavigationEnv, SyncDataCollector
from slipstream.algorithms.ppo import PPOConfig
from slipstream.models.policy import build_policy


def main(iterations: int = 5) -> None:
    torch.manual_seed(0)
    env = NavigationEnv(64)
    policy = build_policy(env.observation_spec, env.action_spec)
    algo = PPO(policy, PPOConfig(minibatches=4, epochs=2))
    base = SyncDataCollector(env, policy, frames_per_batch=64 * 32, return_same_td=True)

    with CompressedDataCollector(base, compression_level=1) as collector:
        for _ in range(iterations):
            batch = collector.rollout()
            algo.update(batch)
            some = batch.minibatch([0, 31, 2047])  # the first env's first and last step, the last env's last
            print(f"{batch.raw_nbytes / 1e6:.1f} MB in {batch.nbytes / 1e6:.2f} MB; rewards {some['reward'].tolist()}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
