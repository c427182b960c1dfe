"""Policies and critics of the off-policy algorithms DQN, SAC and TD3."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.envs.specs import Box, Discrete, Observation, Spec
from slipstream.models.encoders import Encoder, Specs, mlp
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
    """Act on an observation, as `exploration_type()` says.

    When exploring, a share of the actions, `random_share` (a tensor, so that a captured rollout reads changes), is
    drawn uniformly from all actions: 1 in the warm-up, later DQN's epsilon.
    """

    encoder: Encoder
    random_share: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("random_share", torch.zeros(()))

    @property
    def keys(self) -> tuple[str, ...]:
        """The observations it reads."""
        return self.encoder.keys

    def forward(self, observation: Observation) -> dict[str, Tensor]:
        """Return the action [N, ...]."""
        if exploration_type() is not ExplorationType.RANDOM:
            return {"action": self.best(observation)}
        action = self.explore(observation)
        draws = torch.rand(len(action), *[1] * (action.dim() - 1), device=action.device, generator=sampling_generator())
        return {"action": torch.where(draws < self.random_share, self.random_action(action), action)}

    @abstractmethod
    def best(self, observation: Observation) -> Tensor:
        """Return the greedy action [N, ...]."""

    @abstractmethod
    def explore(self, observation: Observation) -> Tensor:
        """Return an action with exploration [N, ...]."""

    @abstractmethod
    def random_action(self, like: Tensor) -> Tensor:
        """Return uniformly random actions of the shape of `like`."""


class QPolicy(ExploringPolicy):
    """Take the action of the highest value. `values` is the network that DQN trains.

    Dueling: the last layer computes the state's value and each action's advantage over their mean.
    """

    def __init__(
        self, observation_spec: Specs, action_spec: Spec, config: ModelConfig | None = None, dueling: bool = True
    ):
        super().__init__(config or ModelConfig())
        if not isinstance(action_spec, Discrete):
            both = "algo=sac or algo=td3 (some tasks can do both: env.actions=discrete)"
            other = both if isinstance(action_spec, Box) else "algo=ppo"
            raise ValueError(f"algo=dqn needs discrete actions, and this env's are not: use {other}")
        self.n, self.dueling = action_spec.n, dueling
        self.encoder = build_encoder(observation_spec, self.config)
        self.head = small_linear(self.encoder.width, self.n + dueling)

    def values(self, observation: Observation) -> Tensor:
        """Return the value of each action [N, n]."""
        out = self.head(self.encoder(observation))
        if not self.dueling:
            return out
        advantage = out[:, 1:]
        return out[:, :1] + advantage - advantage.mean(-1, keepdim=True)

    def best(self, observation: Observation) -> Tensor:
        """Return the action of the highest value [N]."""
        return self.values(observation).argmax(-1)

    explore = best  # it explores by its random share only

    def random_action(self, like: Tensor) -> Tensor:
        """Return uniformly random actions [N]."""
        return torch.empty_like(like).random_(self.n, generator=sampling_generator())


class BoxPolicy(ExploringPolicy):
    """Choose continuous actions in a box, computed in units of the box: -1 is its low end, 1 its high end."""

    def __init__(
        self, algo: str, observation_spec: Specs, action_spec: Spec, config: ModelConfig, outputs: int
    ) -> None:
        super().__init__(config)
        if not isinstance(action_spec, Box):
            both = "algo=dqn (some tasks can do both: env.actions=continuous)"
            other = both if isinstance(action_spec, Discrete) else "algo=ppo"
            raise ValueError(f"algo={algo} needs continuous actions, and this env has others: use {other}")
        if len(action_spec.shape) != 1 or not math.isfinite(action_spec.high - action_spec.low):
            raise ValueError(f"algo={algo} needs a bounded vector of actions, not {action_spec}: bound them in the env")
        self.dims = action_spec.shape[0]
        self.center, self.radius = (action_spec.low + action_spec.high) / 2, (action_spec.high - action_spec.low) / 2
        self.encoder = build_encoder(observation_spec, config)
        self.head = small_linear(self.encoder.width, outputs * self.dims)

    def to_env(self, unit: Tensor) -> Tensor:
        """Convert actions from units of the box to the env's."""
        return unit * self.radius + self.center

    def to_unit(self, action: Tensor) -> Tensor:
        """Convert the env's actions to units of the box."""
        return (action - self.center) / self.radius

    def random_action(self, like: Tensor) -> Tensor:
        """Return uniformly random actions in the box."""
        return self.to_env(2 * uniform_like(like) - 1)


class SquashedGaussianPolicy(BoxPolicy):
    """SAC's policy: a normal distribution with learned deviation, squashed into the box by tanh."""

    def __init__(self, observation_spec: Specs, action_spec: Spec, config: ModelConfig | None = None) -> None:
        super().__init__("sac", observation_spec, action_spec, config or ModelConfig(), outputs=2)

    def parameters_of(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """Return mean and log deviation before squashing, each [N, dims]."""
        mean, log_std = self.head(self.encoder(observation)).chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD_LIMITS)

    def sample(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """Sample an action in units of the box [N, dims] and its log density [N]; both are differentiable."""
        mean, log_std = self.parameters_of(observation)
        noise = normal_like(mean)
        u = mean + log_std.exp() * noise
        # log(1 - tanh² u) in a form that neither overflows nor loses digits for large u
        log_slope = 2 * (math.log(2) - u - F.softplus(-2 * u))
        log_prob = (-0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi) - log_slope).sum(-1)
        return u.tanh(), log_prob

    def best(self, observation: Observation) -> Tensor:
        """Return the squashed mean."""
        return self.to_env(self.parameters_of(observation)[0].tanh())

    def explore(self, observation: Observation) -> Tensor:
        """Return a sample."""
        mean, log_std = self.parameters_of(observation)
        return self.to_env((mean + log_std.exp() * normal_like(mean)).tanh())


class DeterministicPolicy(BoxPolicy):
    """TD3's policy: a deterministic action, plus normal noise (`noise`, in units of the box) when exploring."""

    def __init__(
        self, observation_spec: Specs, action_spec: Spec, config: ModelConfig | None = None, noise: float = 0.1
    ):
        super().__init__("td3", observation_spec, action_spec, config or ModelConfig(), outputs=1)
        self.noise = noise

    def unit(self, observation: Observation) -> Tensor:
        """Return the action in units of the box [N, dims]."""
        return self.head(self.encoder(observation)).tanh()

    def best(self, observation: Observation) -> Tensor:
        """Return the action."""
        return self.to_env(self.unit(observation))

    def explore(self, observation: Observation) -> Tensor:
        """Return the action plus noise."""
        unit = self.unit(observation)
        return self.to_env((unit + self.noise * normal_like(unit)).clamp(-1, 1))


# -- critics -----------------------------------------------------------------------------------------------------------


class Critics(nn.Module):
    """Compute `count` values of an observation and an action. Layers before the trunk (`model.part`, images) are
    shared."""

    def __init__(self, observation_spec: Specs, dims: int, config: ModelConfig | None = None, count: int = 2) -> None:
        super().__init__()
        config = config or ModelConfig()
        self.encoder = build_encoder(observation_spec, config, trunk=[])
        self.trunks = EnsembleMLP(count, self.encoder.width + dims, config.trunk, config.layer_norm, config.activation)

    def forward(self, observation: Observation, unit: Tensor, count: int | None = None) -> Tensor:
        """Return values [count, N] of actions [N, dims] in units of the box, by the first `count` critics (default:
        all)."""
        return self.trunks(torch.cat((self.encoder(observation), unit), -1), count)


class EnsembleLinear(nn.Module):
    """K linear layers as one batched product: [K, N, inputs] in, [K, N, outputs] out. Initialized as `nn.Linear`."""

    def __init__(self, count: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(count, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(count, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Apply layer k to row k of x; if x has fewer rows, only the first layers."""
        return torch.baddbmm(*_first(len(x), self.bias, self.weight, between=x))


class EnsembleNorm(nn.Module):
    """K layer norms at once."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(count, 1, width))
        self.bias = nn.Parameter(torch.zeros(count, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize [K, N, width]; fewer rows as above."""
        return torch.addcmul(*_first(len(x), self.bias, self.weight, between=F.layer_norm(x, x.shape[-1:])))


class EnsembleMLP(nn.Module):
    """K MLPs with one output each: [N, inputs] in, [K, N] out. Layers as in `encoders.mlp`, then a linear layer."""

    def __init__(
        self, count: int, inputs: int, widths: Sequence[int], layer_norm: bool = True, activation: str = "leaky_relu"
    ) -> None:
        super().__init__()
        self.count = count
        linear, norm = partial(EnsembleLinear, count), partial(EnsembleNorm, count)
        layers = mlp(inputs, widths, layer_norm, activation, linear, norm)
        self.layers = layers.append(linear(widths[-1] if widths else inputs, 1))

    def forward(self, x: Tensor, count: int | None = None) -> Tensor:
        """Apply all MLPs, or the first `count`, to the same x."""
        return self.layers(x.expand(count or self.count, *x.shape))[..., 0]


def _first(count: int, bias: Tensor, weight: Tensor, between: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return bias, input and weight of the first `count` members."""
    return (bias, between, weight) if count == len(weight) else (bias[:count], between, weight[:count])
