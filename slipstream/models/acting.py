"""Policies of the off-policy algorithms: they act, and explore; what judges their actions is kept elsewhere (`q.py`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.envs.specs import Box, Discrete, Observation, Spec
from slipstream.models.exploration import (
    ExplorationType,
    exploration_type,
    normal_like,
    sampling_generator,
    uniform_like,
)
from slipstream.models.heads import small_linear
from slipstream.models.policy import ModelConfig, build_encoder

LOG_STD_LIMITS = (-20.0, 2.0)  # of the squashed Gaussian


class ExploringPolicy(nn.Module, ABC):
    """Called with an observation it acts, as `exploration_type()` says.

    When exploring, a share of the actions, `random_share` (a tensor, so that a captured rollout follows it), is drawn from all
    actions alike: the warm-up (1) and DQN's epsilon.
    """

    random_share: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("random_share", torch.zeros(()))

    def forward(self, observation: Observation) -> dict[str, Tensor]:
        """The action [N, ...]."""
        if exploration_type() is not ExplorationType.RANDOM:
            return {"action": self.best(observation)}
        action = self.explore(observation)
        lots = torch.rand(len(action), *[1] * (action.dim() - 1), device=action.device, generator=sampling_generator())
        other = lots < self.random_share
        return {"action": torch.where(other, self.any_action(action), action)}

    @abstractmethod
    def best(self, observation: Observation) -> Tensor:
        """The action it holds best [N, ...]."""

    @abstractmethod
    def explore(self, observation: Observation) -> Tensor:
        """An action to learn from [N, ...]."""

    @abstractmethod
    def any_action(self, like: Tensor) -> Tensor:
        """Any action, each as likely, of the shape of `like`."""


class QPolicy(ExploringPolicy):
    """Takes the action of the highest value. `values` is the network that DQN trains.

    Dueling: the value of the state and the advantage of each action over their mean, from one last layer.
    """

    def __init__(
        self,
        observation_spec: Mapping[str, Spec],
        action_spec: Spec,
        config: ModelConfig | None = None,
        dueling: bool = True,
    ):
        super().__init__(config or ModelConfig())
        if not isinstance(action_spec, Discrete):
            other = (
                "algo=sac or algo=td3 (task=navigation can do both: env.actions=discrete)"
                if isinstance(action_spec, Box)
                else "algo=ppo"
            )
            raise ValueError(f"algo=dqn chooses among discrete actions, and this env's are not: use {other}")
        self.n, self.dueling = action_spec.n, dueling
        self.encoder = build_encoder(observation_spec, self.config)
        self.head = small_linear(self.encoder.width, self.n + dueling)

    def values(self, observation: Observation) -> Tensor:
        """The value of each action [N, n]."""
        out = self.head(self.encoder(observation))
        if not self.dueling:
            return out
        advantage = out[:, 1:]
        return out[:, :1] + advantage - advantage.mean(-1, keepdim=True)

    def best(self, observation: Observation) -> Tensor:
        """The action of the highest value [N]."""
        return self.values(observation).argmax(-1)

    explore = best  # what it explores is its random share

    def any_action(self, like: Tensor) -> Tensor:
        """Any of the n actions [N]."""
        return torch.empty_like(like).random_(self.n, generator=sampling_generator())


class BoxPolicy(ExploringPolicy):
    """Continuous actions in a box, computed in units of it: -1 is its low end, 1 its high end."""

    def __init__(
        self, algo: str, observation_spec: Mapping[str, Spec], action_spec: Spec, config: ModelConfig, outputs: int
    ) -> None:
        super().__init__(config)
        if not isinstance(action_spec, Box):
            other = (
                "algo=dqn (task=navigation: env.actions=continuous)"
                if isinstance(action_spec, Discrete)
                else "algo=ppo"
            )
            raise ValueError(f"algo={algo} needs continuous actions alone, and this env's are others: use {other}")
        if len(action_spec.shape) != 1 or not math.isfinite(action_spec.high - action_spec.low):
            raise ValueError(
                f"algo={algo} needs actions that are a vector within bounds, not {action_spec}: bound them in the env"
            )
        self.dims = action_spec.shape[0]
        self.centre, self.radius = (action_spec.low + action_spec.high) / 2, (action_spec.high - action_spec.low) / 2
        self.encoder = build_encoder(observation_spec, config)
        self.head = small_linear(self.encoder.width, outputs * self.dims)

    def in_env(self, unit: Tensor) -> Tensor:
        """Actions in units of the box, as the env takes them."""
        return unit * self.radius + self.centre

    def in_box(self, action: Tensor) -> Tensor:
        """The env's actions, in units of the box."""
        return (action - self.centre) / self.radius

    def any_action(self, like: Tensor) -> Tensor:
        """Any action of the box."""
        return self.in_env(2 * uniform_like(like) - 1)


class SquashedGaussianPolicy(BoxPolicy):
    """SAC's policy: a normal distribution, its deviation the network's too, squashed into the box by tanh."""

    def __init__(
        self, observation_spec: Mapping[str, Spec], action_spec: Spec, config: ModelConfig | None = None
    ) -> None:
        super().__init__("sac", observation_spec, action_spec, config or ModelConfig(), outputs=2)

    def parameters_of(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """Mean and log deviation before the squashing, each [N, dims]."""
        mean, log_std = self.head(self.encoder(observation)).chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD_LIMITS)

    def sample(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """A random action in units of the box [N, dims] and its log density there [N]; gradients pass through both."""
        mean, log_std = self.parameters_of(observation)
        noise = normal_like(mean)
        u = mean + log_std.exp() * noise
        # log(1 - tanh² u) written so that it neither overflows nor loses its digits for large u
        log_slope = 2 * (math.log(2) - u - F.softplus(-2 * u))
        log_prob = (-0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi) - log_slope).sum(-1)
        return u.tanh(), log_prob

    def best(self, observation: Observation) -> Tensor:
        """The squashed mean."""
        return self.in_env(self.parameters_of(observation)[0].tanh())

    def explore(self, observation: Observation) -> Tensor:
        """A sample."""
        mean, log_std = self.parameters_of(observation)
        return self.in_env((mean + log_std.exp() * normal_like(mean)).tanh())


class DeterministicPolicy(BoxPolicy):
    """TD3's policy: one action, with normal noise (`noise`, in units of the box) while it explores."""

    def __init__(
        self,
        observation_spec: Mapping[str, Spec],
        action_spec: Spec,
        config: ModelConfig | None = None,
        noise: float = 0.1,
    ):
        super().__init__("td3", observation_spec, action_spec, config or ModelConfig(), outputs=1)
        self.noise = noise

    def unit(self, observation: Observation) -> Tensor:
        """The action in units of the box [N, dims]."""
        return self.head(self.encoder(observation)).tanh()

    def best(self, observation: Observation) -> Tensor:
        """The action."""
        return self.in_env(self.unit(observation))

    def explore(self, observation: Observation) -> Tensor:
        """The action and noise."""
        unit = self.unit(observation)
        return self.in_env((unit + self.noise * normal_like(unit)).clamp(-1, 1))
