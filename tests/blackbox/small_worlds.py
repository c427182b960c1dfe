"""An env whose numbers are known by heart, made from the documented contract alone."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from slipstream import NavigationEnv
from slipstream.envs.base import Outcome, TensorEnv


def small_navigation(num_envs: int, seed: int = 0, **settings) -> NavigationEnv:
    """A map of 4 x 4 m with three obstacles that stand and eight that move."""
    config = NavigationEnv.Config(
        map_half_m=2.0, num_obstacles=3, decision_interval=20, max_episode_steps=400, random_clock=False
    )
    config = replace(config, dyn=replace(config.dyn, num_obstacles=8), **settings)
    return NavigationEnv(num_envs, seed=seed, config=config)


Box = type(small_navigation(1).action_spec)


class CounterEnv(TensorEnv):
    """Env i counts its steps; its episodes last i + 2 steps. Where i is even they terminate, where it is odd they are cut.

    "count" is [env, episode, step], "trace" depends on all actions so far, the reward is 10 i + step.
    """

    observation_spec = {"count": Box((3,)), "trace": Box((2, 2))}
    action_spec = Box((1,), -1.0, 1.0)
    state_names = ("episode", "step_count", "trace")

    def __init__(self, num_envs: int, device: torch.device | str = "cpu", seed: int = 0, config=None) -> None:
        super().__init__(num_envs, device, seed)
        self.config = config
        self.index = torch.arange(num_envs, dtype=torch.float32)
        self.episode = torch.full((num_envs,), -1.0)
        self.step_count = torch.zeros(num_envs)
        self.trace = torch.zeros(num_envs, 2, 2)

    def _reset(self, mask: Tensor) -> None:
        self.episode += mask
        self.step_count.masked_fill_(mask, 0.0)
        self.trace.masked_fill_(mask.view(-1, 1, 1), 0.5)

    def _advance(self, action: Tensor) -> None:
        self.step_count += 1
        self.trace.mul_(1.7).add_(action.unsqueeze(-1)).sin_()

    def _observe(self) -> dict[str, Tensor]:
        return {"count": torch.stack([self.index, self.episode, self.step_count], 1), "trace": self.trace.clone()}

    def _outcome(self) -> Outcome:
        over, even = self.step_count >= self.index + 2, self.index % 2 == 0
        return Outcome(
            10 * self.index + self.step_count, over & even, over & ~even, {"score": self.step_count + 100 * self.index}
        )


def act(observation: dict[str, Tensor]) -> dict[str, Tensor]:
    """A policy without chance; value and log_prob say which step it saw."""
    step = observation["count"][:, 2]
    return {"action": observation["trace"].mean((1, 2)).unsqueeze(1), "log_prob": -step, "value": step + 0.5}
