"""TorchRL's env and policy, pipelined: a copy of the policy acts and takes over the weights between batches."""

import sys

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from slipstream import NavigationEnv, PipelinedDataCollector, SyncDataCollector
from slipstream.envs.adapters.torchrl_env import TorchRLEnv


def main(iterations: int = 10) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 3), nn.Tanh())
    policy = TensorDictModule(net, in_keys=[("observation", "state")], out_keys=["action"])
    optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
    env = TorchRLEnv(NavigationEnv(16))
    base = SyncDataCollector(env, policy, frames_per_batch=16 * 32, total_frames=16 * 32 * iterations)

    with PipelinedDataCollector(base) as collector:
        for batch in collector:
            flat = batch.reshape(-1)
            goal = flat["observation", "state"][:, :3]  # fly towards the goal: a loss as good as any to show the loop
            loss = (policy(flat.clone())["action"] - goal.sign()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"loss {loss.item():.3f}, collected with the weights of {int(batch['policy_version'].min())} updates")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
