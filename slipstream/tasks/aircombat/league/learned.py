"""LearnedAgent: a trained policy that flies a side."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from slipstream.envs.specs import Observation
from slipstream.models.policy import ActorCritic
from slipstream.tasks.aircombat.agents import BaseAgent, accepts_named
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.training.policies import load_policy


class LearnedAgent(BaseAgent):
    """Flies as a policy does: one that is given, or that of a checkpoint or run folder (by default the one that ships with us).

    `sampled` draws its actions, as in training; otherwise it takes the mean, as an evaluation does. A policy decides as often as
    it did in its training: `time_scale` says how often that was, where it is known.
    """

    def __init__(
        self,
        num_envs: int = 1,
        device: torch.device | str = "cpu",
        checkpoint: str | Path | None = None,
        policy: ActorCritic | None = None,
        sampled: bool = False,
    ) -> None:
        super().__init__(num_envs, device)
        self.sampled = sampled
        self.time_scale: float | None = None
        self.policy = policy or self._open(checkpoint)

    @accepts_named
    @torch.no_grad()
    def act(self, observation: Observation) -> Tensor:
        """The policy's action [N, 3]."""
        policy = self.policy
        parameters = policy.distribution(policy.features(observation), observation)
        return policy.actor.sample(parameters) if self.sampled else policy.actor.mean(parameters)

    def to(self, device: torch.device | str) -> Self:
        """Moves the policy."""
        self.policy.to(device)
        return super().to(device)

    def train(self) -> Self:
        """Draws its actions from here on."""
        self.sampled = True
        return self

    def eval(self) -> Self:
        """Takes its mean actions from here on."""
        self.sampled = False
        return self

    def _open(self, path: str | Path | None) -> ActorCritic:
        loaded = load_policy(path, "aircombat")
        if loaded.task != "aircombat" or loaded.trained_env is None:
            raise ValueError(f"{loaded.path} was trained for task={loaded.task}: it cannot fly a duel")
        self.time_scale = loaded.trained_env["time_scale"]
        features = AirCombatConfig(num_envs=1, reach_features=loaded.trained_env["reach_features"])
        env = AirCombatEnv(1, "cpu", config=features)  # only for its specs
        policy = loaded.build(env.observation_spec, env.action_spec, self.device)
        if not isinstance(policy, ActorCritic):
            raise ValueError(
                f"{loaded.path} holds a policy of algo={loaded.state['config']['algo']['name']}; agents are made of algo=ppo's"
            )
        return policy.requires_grad_(False)
