"""A world small enough to know by heart: it counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Observation


class CounterEnv(TensorEnv):
    """Env i counts its steps. Its episodes last i + 2 steps; with an even i they terminate, with an odd one they are
    truncated.

    The observation "count" is [env, episode, step]; "trace" depends on all actions of the past. The reward is 10 i +
    step.
    """

    observation_spec = {"count": Box((3,)), "trace": Box((2, 2))}
    action_spec = Box((1,), -1.0, 1.0)
    state_names = ("episode", "step_count", "trace")

    def __init__(self, num_envs: int, device: torch.device | str = "cpu") -> None:
        super().__init__(num_envs, device)
        self.index = torch.arange(num_envs, dtype=torch.float32, device=device)
        self.episode = torch.full_like(self.index, -1.0)
        self.step_count = torch.zeros_like(self.index)
        self.trace = torch.zeros(num_envs, 2, 2, device=device)

    def _reset(self, mask: Tensor) -> None:
        self.episode += mask
        self.step_count.masked_fill_(mask, 0.0)
        self.trace.masked_fill_(mask.view(-1, 1, 1), 0.5)

    def _advance(self, action: Tensor) -> None:
        self.step_count += 1
        self.trace.mul_(1.7).add_(action.unsqueeze(-1)).sin_()

    def _observe(self) -> Observation:
        return {"count": torch.stack([self.index, self.episode, self.step_count], 1), "trace": self.trace}

    def _outcome(self) -> Outcome:
        over = self.step_count >= self.index + 2
        even = self.index % 2 == 0
        facts = {"won": even.float(), "score": self.step_count + 100 * self.index}
        return Outcome(10 * self.index + self.step_count, over & even, over & ~even, facts)


def act(observation: Observation) -> dict[str, Tensor]:
    """A policy without chance: value and log_prob show which observation it was given."""
    trace, step = observation["trace"], observation["count"][:, 2]
    return {"action": trace.mean((1, 2)).unsqueeze(1), "log_prob": -step, "value": step + 0.5}


@pytest.fixture
def counter_env() -> Callable[..., CounterEnv]:
    return CounterEnv


@pytest.fixture
def policy() -> Callable[[Observation], dict[str, Tensor]]:
    return act
