"""DQN: the value of each discrete action. Double and dueling by default; n-step returns and priorities on request."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from slipstream.algorithms.offpolicy import OffPolicy, OffPolicyConfig, Transitions, weighted_mean
from slipstream.config.validation import check_range
from slipstream.models.off_policy import QPolicy


@dataclass
class DQNConfig(OffPolicyConfig):
    """The settings of `algo.*`."""

    name: str = "dqn"
    double: bool = True  # the online network chooses the next action, the target network values it
    dueling: bool = True  # the state's value and the actions' advantages apart
    learning_rate: float = 1e-3
    batch_size: int = 64
    tau: float = 1.0
    target_interval: int = 200  # gradient steps between two moves of the target network
    random_start: float = 1.0  # share of random actions after the warm-up ...
    random_end: float = 0.05  # ... and after
    random_fraction: float = 0.1  # ... this share of the run
    max_grad_norm: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "target_interval", minimum=1, section="algo.")
        check_range(self, "random_start", "random_end", "random_fraction", minimum=0, maximum=1, section="algo.")


class DQN(OffPolicy):
    """Updates a `QPolicy` from transitions."""

    Config = DQNConfig
    Policy = QPolicy
    policy_settings = ("dueling",)
    policy_needs = ("values",)
    metric_names = ("loss/q", "q", "random_share")
    config: DQNConfig
    policy: QPolicy

    def __init__(self, policy: QPolicy, config: DQNConfig | None = None) -> None:
        super().__init__(policy, config or DQNConfig())
        self.target = self.add_target("target", policy)
        self._optimizer = self.adam("policy", list(policy.parameters()))

    def step(self, rows: Transitions) -> tuple[tuple[Tensor, ...], Tensor]:
        """Take one gradient step on the Huber loss of the values of the actions taken."""
        td_target = self.td_target(rows)
        value = self.policy.values(rows.observation).gather(1, rows.action[:, None])[:, 0]
        loss = weighted_mean(F.smooth_l1_loss(value, td_target, reduction="none"), rows.weight)
        self.optimizer_step(self._optimizer, loss)
        if self.updates % self.config.target_interval == 0:
            self.move_targets()
        return (loss.detach(), value.detach().mean(), self.policy.random_share), (value.detach() - td_target).abs()

    @torch.no_grad()
    def td_target(self, rows: Transitions) -> Tensor:
        """Return the targets of the values [B]: the reward and the best next value."""
        values = self.target.values(rows.next_observation)
        chooser = self.policy.values(rows.next_observation) if self.config.double else values
        after = values.gather(1, chooser.argmax(1, keepdim=True))[:, 0]
        return torch.addcmul(rows.reward, rows.bootstrap, after)

    def random_share(self, progress: float) -> float:
        """Return the share of random actions; it falls linearly over the first part of the run."""
        config = self.config
        if progress >= config.random_fraction:
            return config.random_end
        return config.random_start + (config.random_end - config.random_start) * progress / config.random_fraction
