"""TD3: a deterministic policy, the lower of two critics as target, and delayed policy updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slipstream.algorithms.offpolicy import OffPolicy, OffPolicyConfig, Transitions, weighted_mean
from slipstream.config.validation import check_range
from slipstream.models.off_policy import Critics, DeterministicPolicy


@dataclass
class TD3Config(OffPolicyConfig):
    """The settings of `algo.*`; noise in units of the action box [-1, 1]."""

    name: str = "td3"
    learning_rate: float = 1e-3
    noise: float = 0.1  # on the actions while collecting
    target_noise: float = 0.2  # on the next action that a target is computed with ...
    target_noise_limit: float = 0.5  # ... cut here
    policy_delay: int = 2  # gradient steps of the critics for one of the policy and of the target networks

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "noise", "target_noise", "target_noise_limit", minimum=0, section="algo.")
        check_range(self, "policy_delay", minimum=1, section="algo.")


class TD3(OffPolicy):
    """Updates a `DeterministicPolicy` and its critics from transitions."""

    Config = TD3Config
    Policy = DeterministicPolicy
    policy_settings = ("noise",)
    policy_needs = ("unit", "to_unit", "dims")
    has_critics = True
    metric_names = ("loss/critic", "loss/actor", "q")
    config: TD3Config
    policy: DeterministicPolicy

    def __init__(self, policy: DeterministicPolicy, critics: Critics, config: TD3Config | None = None) -> None:
        super().__init__(policy, config or TD3Config())
        policy.noise = self.config.noise
        self.critics = critics.to(self.device)
        self.networks["critics"] = self.critics
        self.target = self.add_target("target", self.critics)
        self.target_policy = self.add_target("target_policy", policy)
        self._critic_optimizer = self.adam("critics", list(self.critics.parameters()))
        self._actor_optimizer = self.adam("policy", list(policy.parameters()))
        self._actor_loss: Tensor | None = None  # the last one, reported in steps without one

    def step(self, rows: Transitions) -> tuple[tuple[Tensor, ...], Tensor]:
        """Take one gradient step of the critics, and every `policy_delay` steps one of the policy and the targets."""
        td_target = self.td_target(rows)
        values = self.critics(rows.observation, self.policy.to_unit(rows.action))
        errors = values - td_target
        critic_loss = weighted_mean(errors.square(), rows.weight)
        self.optimizer_step(self._critic_optimizer, critic_loss)
        if self.updates % self.config.policy_delay == 0:
            actor_loss = self.actor_loss(rows)
            self.optimizer_step(self._actor_optimizer, actor_loss)
            self._actor_loss = actor_loss.detach()
            self.move_targets()
        elif self._actor_loss is None:
            with torch.no_grad():
                self._actor_loss = self.actor_loss(rows)
        return (critic_loss.detach(), self._actor_loss, values.detach().mean()), errors.detach().abs().mean(0)

    def actor_loss(self, rows: Transitions) -> Tensor:
        """Return the loss of the policy: minus the mean value of its actions."""
        return -self.critics(rows.observation, self.policy.unit(rows.observation), count=1).mean()

    @torch.no_grad()
    def td_target(self, rows: Transitions) -> Tensor:
        """Return the targets of the values [B]: the reward, and the lower of the target's values of the target's noisy
        action."""
        unit = self.target_policy.unit(rows.next_observation)
        limit = self.config.target_noise_limit
        noise = (self.config.target_noise * torch.randn_like(unit)).clamp(-limit, limit)
        after = self.target(rows.next_observation, (unit + noise).clamp(-1, 1)).amin(0)
        return torch.addcmul(rows.reward, rows.bootstrap, after)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next updates and their metrics depend on, except the transitions."""
        return super().state_dict() | {"actor_loss": self._actor_loss}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""
        super().load_state_dict(state)
        loss = state.get("actor_loss")
        self._actor_loss = None if loss is None else loss.to(self.device)
