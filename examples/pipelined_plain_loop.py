"""Collecting beside the learner, in a loop of your own: PPO on drones, batches one update old."""

import sys

import torch

from slipstream import PPO, NavigationEnv, PipelinedDataCollector, SyncDataCollector
from slipstream.algorithms.ppo import PPOConfig
from slipstream.models.policy import build_policy


def main(iterations: int = 20) -> None:
    torch.manual_seed(0)
    env = NavigationEnv(64)
    policy = build_policy(env.observation_spec, env.action_spec)
    algo = PPO(policy, PPOConfig(minibatches=4, epochs=2))
    base = SyncDataCollector(env, policy, frames_per_batch=64 * 16, total_frames=64 * 16 * iterations)

    # on_policy=True: no older data, and only what follows `publish` is overlapped
    with PipelinedDataCollector(base) as collector:
        for batch in collector:
            losses = algo.update(batch)  # meanwhile the next batch is collected
            collector.publish()  # these weights are final: the batch after the next may begin while we print
            age = collector.version - 1 - int(batch["policy_version"][0, 0])
            episodes = collector.episodes.pop()
            print(
                f"{collector.frames:7,} frames, weights {age} update old, kl {float(losses['kl']):.4f}, {episodes['count']:.0f} episodes"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
