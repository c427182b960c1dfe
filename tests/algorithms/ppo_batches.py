"""A small policy, batches and an env for PPO to learn from."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box
from slipstream.models.policy import ModelConfig, build_policy

N, T = 4, 6
SPEC = {"a": Box((3,)), "b": Box(())}


def make_policy(action=None, seed=0):
    torch.manual_seed(seed)
    policy = build_policy(SPEC, action or Box((2,), -1.0, 1.0), ModelConfig(trunk=[16], part=8))
    for head in (policy.actor, policy.critic):  # as after some training: heads that say something
        for p in head.parameters():
            torch.nn.init.normal_(p, std=0.3)
    return policy


def make_batch(policy, seed=1):
    """As a collector gives it: env 0 times out at step 1, env 1 dies at step 3, each followed by the frame that resets
    it."""
    torch.manual_seed(seed)
    rows = {"a": torch.randn(N, T + 1, 3), "b": torch.randn(N, T + 1)}
    with torch.no_grad():
        out = policy({name: x.flatten(0, 1) for name, x in rows.items()})
    action, log_prob, value = (out[name].unflatten(0, (N, T + 1)) for name in ("action", "log_prob", "value"))
    flag = torch.zeros(N, T, dtype=torch.bool)
    terminated, truncated, valid = flag.clone(), flag.clone(), ~flag
    truncated[0, 1], valid[0, 2] = True, False
    terminated[1, 3], valid[1, 4] = True, False
    return TensorDict(
        {
            "observation": {name: x[:, :-1] for name, x in rows.items()},
            "action": action[:, :-1],
            "log_prob": log_prob[:, :-1]
            + 0.2 * torch.randn(N, T),  # as if the policy had moved on since: ratios that clip
            "value": value[:, :-1],
            "reward": 3 * torch.randn(N, T) * valid,
            "terminated": terminated,
            "truncated": truncated,
            "done": terminated | truncated,
            "valid": valid,
            "next": {"observation": {name: x[:, 1:] for name, x in rows.items()}, "value": value[:, 1:]},
        },
        [N, T],
    )


def weights(policy):
    return {name: p.detach().clone() for name, p in policy.named_parameters()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


class Walk(TensorEnv):
    """A random walk of points in a box, which end outside of it."""

    observation_spec = {"x": Box((2,), -10.0, 10.0)}
    action_spec = Box((2,), -1.0, 1.0)
    state_names = ("x",)

    def __init__(self, num_envs=16, device="cpu"):
        super().__init__(num_envs, device)
        self.x = torch.zeros(num_envs, 2, device=device)
        self.steps = 0  # of the env, those taken back too

    def _reset(self, mask):
        self.x.copy_(torch.where(mask[:, None], torch.rand_like(self.x), self.x))

    def _advance(self, action):
        self.steps += 1
        self.x.add_(action + 0.1 * torch.randn_like(self.x))

    def _observe(self):
        return {"x": self.x.clone()}

    def _outcome(self):
        never, steps = torch.zeros_like(self._pending), torch.full_like(self.x[:, 0], self.steps)
        return Outcome(self.x.sum(-1), (self.x.abs() > 2).any(-1), never, {"steps": steps})
