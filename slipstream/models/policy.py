"""The actor-critic that PPO trains: one encoder, an action head, a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from slipstream.envs.specs import Discrete, Hybrid, Observation, Spec
from slipstream.models.encoders import NAVRL_KEYS, DictEncoder, Encoder, NavRLEncoder
from slipstream.models.exploration import ExplorationType, exploration_type
from slipstream.models.heads import BetaHead, CategoricalHead, GaussianHead, HybridHead, Parameters, small_linear
from slipstream.models.normalisation import ValueNorm

Actor = BetaHead | GaussianHead | CategoricalHead | HybridHead


@dataclass
class ModelConfig:
    """The settings of `model.*`."""

    encoder: str = "auto"  # navrl where its observations are there, else dict
    trunk: list[int] = field(default_factory=lambda: [256, 256])
    part: int = 64  # width of each observation's features in the dict encoder; 0: straight into the trunk
    layer_norm: bool = True  # after each layer of the dict encoder and of the trunks of dqn, sac and td3
    keys: list[str] = field(default_factory=list)  # observations the dict encoder uses; all by default

    def __post_init__(self) -> None:
        if self.encoder not in ("auto", "navrl", "dict"):
            raise ValueError(f"unknown model.encoder '{self.encoder}': use auto, navrl or dict")
        if not self.trunk or min(self.trunk) < 1:
            raise ValueError(f"model.trunk needs at least one width, all of them positive, not {self.trunk}")
        if self.part < 0:
            raise ValueError(f"model.part must not be negative, not {self.part}")


class ActorCritic(nn.Module):
    """Policy and value over one encoder. Called with an observation it acts, as `exploration_type()` says."""

    def __init__(self, encoder: Encoder, actor: Actor, config: ModelConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.actor = actor
        self.critic = small_linear(encoder.width, 1)
        self.value_norm = ValueNorm()
        self.config = config
        self.bf16 = False  # the encoder under autocast, acting and learning alike

    def features(self, observation: Observation) -> Tensor:
        """What the heads see [N, width], float32."""
        if not self.bf16:
            return self.encoder(observation)
        with torch.autocast(self.critic.weight.device.type, torch.bfloat16):
            return self.encoder(observation).float()

    @property
    def keys(self) -> tuple[str, ...]:
        """The observations it reads: the encoder's, and the one that masks actions."""
        mask = self.actor.mask
        return self.encoder.keys if mask is None or mask in self.encoder.keys else (*self.encoder.keys, mask)

    def distribution(self, features: Tensor, observation: Observation) -> Parameters:
        """The parameters of the distribution over actions; the mask of actions, where there is one, is in the observation."""
        mask = self.actor.mask
        return self.actor(features) if mask is None else self.actor(features, observation[mask])

    def forward(self, observation: Observation) -> dict[str, Tensor]:
        """Action, its log probability [N] and the normalised value [N]."""
        features = self.features(observation)
        parameters = self.distribution(features, observation)
        kind = exploration_type()
        if kind is ExplorationType.RANDOM:
            action = self.actor.sample(parameters)
        else:
            action = self.actor.mean(parameters) if kind is ExplorationType.MEAN else self.actor.mode(parameters)
        return {
            "action": action,
            "log_prob": self.actor.log_prob(parameters, action),
            "value": self.critic(features)[:, 0],
        }

    def stamps(self) -> dict[str, Tensor]:
        """What the values of a batch, collected with these weights, mean: mean and deviation [] of the returns they are units of."""
        mean, std = self.value_norm.statistics()
        return {"value_mean": mean, "value_std": std}

    def evaluate(self, observation: Observation, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log probability, entropy and normalised value, each [N], of actions taken earlier."""
        features = self.features(observation)
        log_prob, entropy = self.actor.evaluate(self.distribution(features, observation), action)
        return log_prob, entropy, self.critic(features)[:, 0]

    def value(self, observation: Observation) -> Tensor:
        """The normalised value [N]."""
        return self.critic(self.features(observation))[:, 0]


def build_encoder(observation_spec: Mapping[str, Spec], config: ModelConfig, trunk: list[int] | None = None) -> Encoder:
    """The encoder that fits an env's observations; `trunk` in place of the configuration's, none where it is empty."""
    trunk = config.trunk if trunk is None else trunk
    kind = config.encoder
    if kind == "auto":
        kind = "navrl" if set(NAVRL_KEYS) <= set(observation_spec) and not config.keys else "dict"
    if kind == "dict":
        return DictEncoder(observation_spec, trunk, config.part, config.keys or None, config.layer_norm)
    missing = sorted(set(NAVRL_KEYS) - set(observation_spec))
    if missing:
        raise ValueError(f"model.encoder=navrl needs the observations {missing}; use model.encoder=dict for other envs")
    return NavRLEncoder(observation_spec, trunk)


def build_policy(
    observation_spec: Mapping[str, Spec], action_spec: Spec, config: ModelConfig | None = None
) -> ActorCritic:
    """The network that fits an env's observations and actions."""
    config = config or ModelConfig()
    encoder = build_encoder(observation_spec, config)
    actor: Actor
    if isinstance(action_spec, Discrete):
        actor = CategoricalHead(config.trunk[-1], action_spec.n)
    elif isinstance(action_spec, Hybrid):
        actor = HybridHead(config.trunk[-1], action_spec.low, action_spec.high, action_spec.switches, action_spec.mask)
    elif len(action_spec.shape) != 1:
        raise ValueError(f"continuous actions must be a vector, not of shape {action_spec.shape}")
    elif action_spec.high - action_spec.low < float("inf"):
        actor = BetaHead(config.trunk[-1], action_spec.shape[0], action_spec.low, action_spec.high)
    else:
        actor = GaussianHead(config.trunk[-1], action_spec.shape[0])
    return ActorCritic(encoder, actor, config)
