"""SAC: a stochastic policy that is rewarded for its entropy too, with a learned temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from slipstream.algorithms.offpolicy import OffPolicy, OffPolicyConfig, Transitions, weighted_mean
from slipstream.models.off_policy import Critics, SquashedGaussianPolicy


@dataclass
class SACConfig(OffPolicyConfig):
    """The settings of `algo.*`."""

    name: str = "sac"
    entropy: float = 1.0  # the temperature (reward of one nat of entropy) at the start
    learn_entropy: bool = True  # adapt the temperature so that the entropy stays at its target
    target_entropy: float | None = None  # minus the number of action dimensions by default; in units of the box [-1, 1]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.entropy < math.inf:
            raise ValueError(f"algo.entropy must be positive, not {self.entropy}")


class SAC(OffPolicy):
    """Updates a `SquashedGaussianPolicy` and its critics from transitions."""

    Config = SACConfig
    Policy = SquashedGaussianPolicy
    policy_needs = ("sample", "to_unit", "dims")
    has_critics = True
    metric_names = ("loss/critic", "loss/actor", "q", "entropy", "entropy_price")
    config: SACConfig
    policy: SquashedGaussianPolicy

    def __init__(self, policy: SquashedGaussianPolicy, critics: Critics, config: SACConfig | None = None) -> None:
        super().__init__(policy, config or SACConfig())
        config = self.config
        self.critics = critics.to(self.device)
        # The temperature (the reward of one nat of entropy), as its logarithm.
        self.temperature = nn.ParameterDict({"log": torch.tensor(math.log(config.entropy))}).to(self.device)
        self.networks |= {"critics": self.critics, "entropy_price": self.temperature}
        self.target = self.add_target("target", self.critics)
        self._critic_optimizer = self.adam("critics", list(self.critics.parameters()))
        # One optimizer for the policy and the temperature: their losses share no weights, so one pass serves both.
        temperature = self.temperature.parameters() if config.learn_entropy else ()
        self._actor_optimizer = self.adam("policy", [*policy.parameters(), *temperature])
        self.target_entropy = -float(policy.dims) if config.target_entropy is None else config.target_entropy

    def step(self, rows: Transitions) -> tuple[tuple[Tensor, ...], Tensor]:
        """Take one gradient step of the critics, and one of the policy and the temperature."""
        alpha = self.temperature["log"].detach().exp()
        td_target = self.td_target(rows, alpha)
        values = self.critics(rows.observation, self.policy.to_unit(rows.action))
        errors = values - td_target
        critic_loss = weighted_mean(errors.square(), rows.weight)
        self.optimizer_step(self._critic_optimizer, critic_loss)

        unit, log_prob = self.policy.sample(rows.observation)
        q = self.critics(rows.observation, unit).amin(0)
        actor_loss = (alpha * log_prob - q).mean()
        loss = actor_loss
        if self.config.learn_entropy:  # too little entropy raises the temperature
            loss = loss - self.temperature["log"] * (log_prob.detach().mean() + self.target_entropy)
        self.optimizer_step(self._actor_optimizer, loss)
        self.move_targets()
        metrics = (critic_loss.detach(), actor_loss.detach(), values.detach().mean(), -log_prob.detach().mean(), alpha)
        return metrics, errors.detach().abs().mean(0)

    @torch.no_grad()
    def td_target(self, rows: Transitions, alpha: Tensor) -> Tensor:
        """Return the targets of the values [B]: the reward, and the lower of the target's values of a new action, with
        its entropy."""
        unit, log_prob = self.policy.sample(rows.next_observation)
        after = self.target(rows.next_observation, unit).amin(0) - alpha * log_prob
        return torch.addcmul(rows.reward, rows.bootstrap, after)
