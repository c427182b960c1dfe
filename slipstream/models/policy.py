"""The actor-critic that PPO trains: one encoder, an action head, a value; and how it is built for an env."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.config import registry
from slipstream.config.validation import check_range
from slipstream.envs.specs import Box, Discrete, Hybrid, Observation, Spec
from slipstream.models.encoders import ACTIVATIONS, NAVRL_ENVS, NAVRL_KEYS, DictEncoder, Encoder, NavRLEncoder, Specs
from slipstream.models.exploration import ExplorationType, exploration_type, set_exploration_type
from slipstream.models.heads import BetaHead, CategoricalHead, GaussianHead, HybridHead, Parameters, small_linear
from slipstream.models.memory import MEMORIES, MEMORY, Memory, build_memory, check_memory, check_output, memory_size

Actor = BetaHead | GaussianHead | CategoricalHead | HybridHead


@dataclass
class ModelConfig:
    """The configuration section `model.*`."""

    encoder: str = "auto"  # navrl if the env has its observations and no others, else dict; or my_module:Encoder
    policy: str = "auto"  # the algorithm's network; or my_module:Net
    trunk: list[int] = field(default_factory=lambda: [256, 256])
    part: int = 64  # width of each observation's features in the dict encoder; 0 passes them to the trunk directly
    layer_norm: bool = True  # after each layer of the dict encoder and of the trunks of dqn, sac and td3
    keys: list[str] = field(default_factory=list)  # observations that the network reads; all by default
    activation: str = "leaky_relu"  # relu, elu, silu, gelu, mish, tanh; of all layers but convolutions
    memory: str = "none"  # gru: a recurrent state; stack: the last `stack` observations (algo=ppo, bc; docs/memory.md)
    hidden_size: int = 128  # width of the state of memory=gru
    memory_layer: bool = True  # a layer between the state of memory=gru and the heads
    stack: int = 4  # observations that memory=stack reads, the present one included
    mirror: bool = False  # act alike on both sides of a mirror, if the env's specs have one (algo=ppo, bc)

    def __post_init__(self) -> None:
        if self.encoder not in ("auto", "navrl", "dict") and ":" not in self.encoder:
            raise ValueError(f"unknown model.encoder '{self.encoder}': use auto, navrl, dict or my_module:Encoder")
        if self.policy != "auto" and ":" not in self.policy:
            raise ValueError(f"unknown model.policy '{self.policy}': use auto or my_module:Net")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown model.activation '{self.activation}': use one of {', '.join(ACTIVATIONS)}")
        if not self.trunk or min(self.trunk) < 1:
            raise ValueError(f"model.trunk={self.trunk} needs at least one width, all positive")
        if self.memory not in MEMORIES:
            raise ValueError(f"unknown model.memory '{self.memory}': use one of {', '.join(MEMORIES)}")
        check_range(self, "part", minimum=0, section="model.")
        check_range(self, "hidden_size", minimum=1, section="model.")
        check_range(self, "stack", minimum=2, section="model.")
        if self.mirror and (self.memory != "none" or self.policy != "auto"):
            raise ValueError(
                "model.mirror=true (which preset=demo sets) does not work with model.memory or model.policy: give "
                "model.mirror=false"
            )


class ValueNorm(nn.Module):
    """Normalize returns by their running mean and deviation, so that the critic learns numbers near 1 for any reward
    scale.

    Exponential averages with bias correction (β 0.995, as NavRL), in buffers, so they are part of the checkpoint.
    """

    running_mean: Tensor
    running_mean_sq: Tensor
    debiasing_term: Tensor

    def __init__(self, beta: float = 0.995) -> None:
        super().__init__()
        self.beta = beta
        for name in ("running_mean", "running_mean_sq", "debiasing_term"):
            self.register_buffer(name, torch.zeros(()))

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation so far, each []; 0 and 1 before the first update."""
        fresh = self.debiasing_term == 0
        weight = self.debiasing_term.clamp(min=1e-5)
        mean = self.running_mean / weight
        var = (self.running_mean_sq / weight - mean.square()).clamp(min=1e-2)
        return torch.where(fresh, 0.0, mean), torch.where(fresh, 1.0, var.sqrt())

    def update(self, returns: Tensor, valid: Tensor, average: Callable[..., None] | None = None) -> None:
        """Add the returns of one batch, or of those of all processes (see `Learner.average`); those that are not valid
        do not count."""
        weight = valid.to(returns.dtype)
        total = weight.sum().clamp(min=1)
        moments = [(returns * weight).sum() / total, (returns.square() * weight).sum() / total]
        moments.append((valid.any()).to(returns.dtype))
        if average is not None:
            average(moments, weight.sum())
        mean, mean_sq, some = moments
        step = some * (1 - self.beta)
        self.running_mean.lerp_(mean, step)
        self.running_mean_sq.lerp_(mean_sq, step)
        self.debiasing_term.lerp_(torch.ones_like(step), step)

    def normalize(self, value: Tensor) -> Tensor:
        """Convert returns to the critic's units."""
        mean, std = self.statistics()
        return (value - mean) / std

    def denormalize(self, value: Tensor) -> Tensor:
        """Convert the critic's numbers to returns."""
        mean, std = self.statistics()
        return value * std + mean


class ActorCritic(nn.Module):
    """Policy and value on one encoder. Called with an observation it acts, as `exploration_type()` says.

    A network of your own (`model.policy=my_module:Net`) subclasses it and overrides `features`, `critic_value` or both.

    Args:
        encoder: of the observations.
        actor: the action head.
        config: `model.*`.
        memory: between the encoder and the heads; the observation then holds its numbers as `memory` [N, memory_size],
            and the result those after the step.
    """

    def __init__(self, encoder: Encoder, actor: Actor, config: ModelConfig, memory: Memory | None = None) -> None:
        super().__init__()
        if memory is not None:
            check_memory(memory, encoder)
        self.encoder = encoder
        self.memory = memory
        self.actor = actor
        self.critic = small_linear(encoder.width if memory is None else memory.width, 1)
        self.value_norm = ValueNorm()
        self.config = config
        self.bf16 = False  # autocast of the encoder, acting and learning

    def features(self, observation: Observation) -> Tensor:
        """Return the input of the heads, or of the memory: [N, width], float32."""
        if not self.bf16:
            return self.encoder(observation)
        with torch.autocast(next(iter(observation.values())).device.type, torch.bfloat16):
            return self.encoder(observation).float()

    @property
    def keys(self) -> tuple[str, ...]:
        """The observations it reads: the encoder's, and the action mask."""
        mask, keys = self.actor.mask, getattr(self.encoder, "keys", None)
        if keys is None:
            raise ValueError(f"{type(self.encoder).__name__}: set self.keys, the names of the observations it reads")
        return keys if mask is None or mask in keys else (*keys, mask)

    @property
    def memory_size(self) -> int:
        """The numbers per environment that it carries from step to step; 0 without memory."""
        return 0 if self.memory is None else self.memory.size

    def remember(self, observation: Observation) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the heads' input [N, width], and `memory` after the step if it has one."""
        features = self.features(observation)
        if self.memory is None:
            return features, {}
        features, memory = self.memory(features, observation[MEMORY])
        return features, {MEMORY: memory}

    def distribution(self, features: Tensor, observation: Observation) -> Parameters:
        """Return the parameters of the action distribution; the observation holds the action mask, if the head needs
        one."""
        mask = self.actor.mask
        return self.actor(features) if mask is None else self.actor(features, observation[mask])

    def critic_value(self, features: Tensor, observation: Observation) -> Tensor:
        """Return the normalized value [N]; a critic with layers of its own reads the observation."""
        return self.critic(features)[:, 0]

    def forward(self, observation: Observation) -> dict[str, Tensor]:
        """Return the action [N, ...], its log probability [N], the normalized value [N], and the memory after it."""
        features, memory = self.remember(observation)
        parameters = self.distribution(features, observation)
        kind = exploration_type()
        if kind is ExplorationType.RANDOM:
            action = self.actor.sample(parameters)
        else:
            action = self.actor.mean(parameters) if kind is ExplorationType.MEAN else self.actor.mode(parameters)
        log_prob = self.actor.log_prob(parameters, action)
        return {"action": action, "log_prob": log_prob, "value": self.critic_value(features, observation), **memory}

    def stamps(self) -> dict[str, Tensor]:
        """Return mean and deviation [] of the returns that the present values are normalized with."""
        mean, std = self.value_norm.statistics()
        return {"value_mean": mean, "value_std": std}

    def evaluate(
        self, observation: Observation, action: Tensor, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log probability, entropy and normalized value, each [N], of actions taken earlier.

        With a memory the rows are those of N / T sequences of T steps, time-major; the observation holds the memory
        before their first steps, and `valid` [N] is False for frames that only reset the environment.
        """
        features = self.features(observation)
        if self.memory is not None:
            assert valid is not None
            features = self.memory.unroll(features, observation[MEMORY], valid)
        log_prob, entropy = self.actor.evaluate(self.distribution(features, observation), action)
        return log_prob, entropy, self.critic_value(features, observation)

    def value(self, observation: Observation) -> Tensor:
        """Return the normalized value [N]."""
        return self.critic_value(self.remember(observation)[0], observation)


class _Reflection(nn.Module):
    """The values of a spec in the mirrored world."""

    order: Tensor
    sign: Tensor

    def __init__(self, spec: Box) -> None:
        super().__init__()
        mirror = torch.tensor(spec.mirror)
        self.register_buffer("order", mirror.abs() - 1, persistent=False)
        self.register_buffer("sign", mirror.sign().to(spec.dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` [N, ...], mirrored."""
        return (_flat(x).index_select(1, self.order) * self.sign).view_as(x)


def _flat(x: Tensor) -> Tensor:
    """Return `x` [N, ...] as [N, values]."""
    return x.flatten(1) if x.dim() > 1 else x.unsqueeze(1)


class MirroredActorCritic(ActorCritic):
    """An actor-critic that acts alike on both sides of a mirror: it sees every environment from the same side, mirrored
    if the value `side` of the specs is negative, and mirrors its action back. It has half as much to learn.

    Args:
        encoder: of the observations.
        actor: the action head.
        config: `model.*`.
        observation_spec: the env's; those that the encoder reads have `mirror`, and one of them has `side`.
        action_spec: the env's, with `mirror`.
    """

    def __init__(
        self, encoder: Encoder, actor: Actor, config: ModelConfig, observation_spec: Specs, action_spec: Spec
    ) -> None:
        super().__init__(encoder, actor, config)
        used = {name: observation_spec[name] for name in encoder.keys} | {"the action": action_spec}
        specs = {name: spec for name, spec in used.items() if isinstance(spec, Box) and spec.mirror}
        missing = [name for name in used if name not in specs]
        if missing:
            raise ValueError(
                f"model.mirror=true: the env's specs have no mirror for {', '.join(missing)} (docs/your-own-network.md); "
                "model.keys=[...] leaves observations out"
            )
        action = specs.pop("the action")
        sides = [(name, spec.side) for name, spec in specs.items() if spec.side is not None]
        if len(sides) != 1:
            raise ValueError(f"model.mirror=true: {len(sides)} observations have a side, and one is needed")
        if min(action.mirror) < 0 and action.low != -action.high:
            raise ValueError("model.mirror=true: actions that change their sign need bounds -x to x")
        self._side = sides[0]
        self._action = _Reflection(action)
        self._names = tuple(specs)
        self._seen = nn.ModuleList(_Reflection(spec) for spec in specs.values())

    def features(self, observation: Observation) -> Tensor:
        """Return the features of the observation from the one side."""
        mirrored, seen = self._is_mirrored(observation), {}
        for name, reflection in zip(self._names, self._seen, strict=True):
            x = observation[name]
            seen[name] = torch.where(mirrored.view(-1, *[1] * (x.dim() - 1)), reflection(x), x)
        return super().features(seen)

    def distribution(self, features: Tensor, observation: Observation) -> Parameters:
        """Return the parameters of the action distribution, mirrored back."""
        assert isinstance(self.actor, (BetaHead, GaussianHead))
        parameters, mirrored = self.actor(features), self._is_mirrored(observation)[:, None]
        other = self.actor.mirror(parameters, self._action.order, self._action.sign)
        return tuple(torch.where(mirrored, x, y) for x, y in zip(other, parameters, strict=True))

    def _is_mirrored(self, observation: Observation) -> Tensor:
        name, index = self._side
        return _flat(observation[name])[:, index] < 0


def build_encoder(observation_spec: Specs, config: ModelConfig, trunk: list[int] | None = None) -> Encoder:
    """Build the encoder for an env's observations; `trunk` replaces the configuration's, an empty one builds none."""
    trunk = config.trunk if trunk is None else trunk
    kind = config.encoder
    if ":" in kind:
        return _own_encoder(observation_spec, kind, trunk)
    if kind == "auto":
        known = any(keys <= set(observation_spec) for keys in NAVRL_ENVS)
        read = set(config.keys or observation_spec)
        fits = {"lidar", "state"} <= read <= {*NAVRL_KEYS, *(() if config.keys else ("direction",))}
        kind = "navrl" if known and fits else "dict"
    if kind == "dict":
        return DictEncoder(
            observation_spec, trunk, config.part, config.keys or None, config.layer_norm, config.activation
        )
    seen = {name: spec for name, spec in observation_spec.items() if not config.keys or name in config.keys}
    missing, unread = sorted({"lidar", "state"} - set(seen)), sorted(set(config.keys) - set(NAVRL_KEYS))
    if missing:
        raise ValueError(f"model.encoder=navrl needs the observations {missing}; use model.encoder=dict for other envs")
    if unread:
        raise ValueError(f"model.encoder=navrl does not read {unread}: take them out of model.keys, or use dict")
    if config.part != ModelConfig.part:
        raise ValueError(f"model.encoder=navrl, of this env, has no model.part={config.part}: use model.encoder=dict")
    return NavRLEncoder(seen, trunk, config.activation)


def _own_encoder(observation_spec: Specs, name: str, trunk: list[int]) -> Encoder:
    """Build the user's encoder, and check its output on one batch of zeros."""
    encoder = _build_own("encoder", name, observation_spec=observation_spec, trunk=trunk)
    if not isinstance(getattr(encoder, "width", None), int):
        raise ValueError(f"model.encoder={name}: set self.width, the number of features it returns")
    encoder.keys = tuple(getattr(encoder, "keys", sorted(observation_spec)))
    unknown = sorted(set(encoder.keys) - set(observation_spec))
    if unknown:
        raise ValueError(f"model.encoder={name}: keys names {unknown}, and the env has {sorted(observation_spec)}")
    features = _try_out(encoder, observation_spec, f"model.encoder={name}")
    check_output(f"model.encoder={name}", "features", features, [2, encoder.width])
    return encoder


def _build_own(key: str, name: str, **given: Any) -> Any:
    """Return the user's module `package.module:Class` of `model.KEY`, built with the arguments `given`."""
    kind = registry.load(name, f"model.{key}={name}")
    if not callable(kind):
        module, _, attribute = name.partition(":")
        raise ValueError(f"model.{key}={name}: {module} has no class named {attribute}")
    built = kind(**given)
    if not isinstance(built, nn.Module):
        raise ValueError(f"model.{key}={name}: it must be a torch.nn.Module, not {type(built).__name__}")
    return built


@torch.no_grad()
def _try_out(module: nn.Module, observation_spec: Specs, asked: str) -> Any:
    """Return what the user's module computes from two observations of zeros; this also sizes lazy layers."""
    observation = {name: torch.zeros(2, *spec.shape, dtype=spec.dtype) for name, spec in observation_spec.items()}
    if memory_size(module):
        observation[MEMORY] = torch.zeros(2, memory_size(module))
    was_training = module.training
    try:
        with set_exploration_type(ExplorationType.MODE):
            output = module.eval()(observation)
    except Exception as error:
        given = [f"{name} {str(x.dtype).removeprefix('torch.')} {[*x.shape]}" for name, x in observation.items()]
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{asked} cannot take the observations {', '.join(given)}: {reason}") from error
    module.train(was_training)
    return output


def build_own_policy(observation_spec: Specs, action_spec: Spec, config: ModelConfig) -> Any:
    """Build the network of `model.policy=my_module:Net`, and check what it returns for two observations."""
    asked = f"model.policy={config.policy}"
    given = {"observation_spec": observation_spec, "action_spec": action_spec, "config": config}
    policy = _build_own("policy", config.policy, **given)
    encoder, size = getattr(policy, "encoder", None), memory_size(policy)
    if isinstance(encoder, nn.Module) and not hasattr(encoder, "keys"):
        encoder.keys = tuple(sorted(observation_spec))  # type: ignore[assignment]
    if config.memory != "none" and not size:
        raise ValueError(
            f"model.memory={config.memory}: {config.policy} has no memory. Give ActorCritic.__init__ memory=build_memory(width, "
            "config) (docs/memory.md), or leave model.memory out"
        )
    acted = _try_out(policy, observation_spec, asked)
    if not isinstance(acted, Mapping):
        raise ValueError(f"{asked} must return a dict with the action, not {type(acted).__name__}")
    check_output(asked, "the entry 'action'", acted.get("action"), [2, *action_spec.shape])
    if size:
        check_output(asked, f"the entry '{MEMORY}'", acted.get(MEMORY), [2, size])
    return policy


def action_head(width: int, action_spec: Spec) -> Actor:
    """Return the head that computes the distribution of an env's actions from features [N, width]."""
    if isinstance(action_spec, Discrete):
        return CategoricalHead(width, action_spec.n)
    if isinstance(action_spec, Hybrid):
        return HybridHead(width, action_spec.low, action_spec.high, action_spec.switches, action_spec.mask)
    if len(action_spec.shape) != 1:
        raise ValueError(f"continuous actions of shape {action_spec.shape} must be a vector: flatten them in the env")
    if action_spec.high - action_spec.low < float("inf"):
        return BetaHead(width, action_spec.shape[0], action_spec.low, action_spec.high)
    return GaussianHead(width, action_spec.shape[0])


def build_policy(observation_spec: Specs, action_spec: Spec, config: ModelConfig | None = None) -> ActorCritic:
    """Build the network for an env's observations and actions."""
    config = config or ModelConfig()
    encoder = build_encoder(observation_spec, config)
    memory = build_memory(encoder.width, config)
    actor = action_head(encoder.width if memory is None else memory.width, action_spec)
    if config.mirror:
        return MirroredActorCritic(encoder, actor, config, observation_spec, action_spec)
    return ActorCritic(encoder, actor, config, memory)
