"""Behavior cloning: the policy learns the actions of stored frames, or those of a teacher in frames that it flies
itself (DAgger, Ross, Gordon and Bagnell, 2011).

It is PPO's update with another loss: -log p(action), or the KL divergence from the teacher's distribution to the
policy's where both have one. The critic does not learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from slipstream.algorithms.base import check_name, check_policy, observation_source
from slipstream.algorithms.policy_file import load_policy
from slipstream.algorithms.ppo import PPO, SCHEDULES
from slipstream.algorithms.stored import Rows, load_frames
from slipstream.config.help import ConfigError
from slipstream.config.validation import check_range
from slipstream.envs.base import TensorEnv
from slipstream.envs.rollout import Rollout
from slipstream.envs.specs import Observation
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.heads import BetaHead, CategoricalHead, GaussianHead, HybridHead, Parameters
from slipstream.models.memory import MEMORY, memory_size
from slipstream.models.policy import ActorCritic

LABEL = "label"  # of a minibatch: the parameters of the teacher's distribution, numbered


@dataclass
class BCConfig:
    """The settings of `algo.*`. A frame is one sample that is learned from, stored or flown."""

    name: str = "bc"
    data: str | None = None  # rollout files, a replay folder or a run: frames to learn from
    teacher: str | None = None  # a run, checkpoint or policy file whose actions are learned; it reads all observations
    buffer_size: int = 10_000_000  # frames of algo.data in memory, the newest
    rollout_steps: int = 32  # an iteration learns from env.num_envs times as many frames
    epochs: int = 1  # passes over the frames of an iteration
    minibatches: int = 16
    learning_rate: float = 5e-4
    schedule: str = "constant"  # linear, cosine: to `final_rate` of it
    final_rate: float = 0.0  # share of the learning rate at the end of linear and cosine
    entropy: float = 1e-3  # weight of the policy's entropy, which keeps it from becoming deterministic
    max_grad_norm: float = 5.0  # of the weights actor.*, encoder.* and memory.*, each
    bf16: bool = False  # autocast of the encoder, acting and learning

    # of PPO's update: not used
    kl_limit: ClassVar[float] = 0.0
    target_kl: ClassVar[float] = 0.01
    actor_weight: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_name(self)
        if self.schedule not in SCHEDULES[:3]:
            raise ValueError(f"unknown algo.schedule '{self.schedule}': use one of {', '.join(SCHEDULES[:3])}")
        check_range(self, "rollout_steps", "epochs", "minibatches", "buffer_size", minimum=1, section="algo.")
        check_range(self, "learning_rate", "max_grad_norm", above=0, section="algo.")
        check_range(self, "entropy", minimum=0, section="algo.")
        check_range(self, "final_rate", minimum=0, maximum=1, section="algo.")


class BC(PPO):
    """Updates an actor-critic from rollouts whose actions, or whose teacher, it imitates."""

    Config = BCConfig  # type: ignore[assignment]
    scheduled_settings = ()
    config: BCConfig  # type: ignore[assignment]

    def __init__(self, policy: ActorCritic, config: BCConfig | None = None) -> None:
        super().__init__(policy, config or BCConfig())  # type: ignore[arg-type]
        self.data: Rows | None = None
        self.teacher: Any = None
        self._has_labels = False  # the teacher has a distribution of the policy's kind
        self._message = ""
        self._seen: tuple[str, ...] = ()  # all observations of the env
        check_policy(policy, "BC", ActorCritic, "features", "distribution", "memory")
        self._clip_heads("actor", "encoder", "memory")

    def bind(self, env: TensorEnv) -> None:
        """Read the stored frames and the teacher for an env."""
        config, specs = self.config, env.observation_spec
        self._seen = tuple(specs)
        if config.data is None and config.teacher is None:
            raise ConfigError(
                "algo=bc learns from frames or from a teacher: give algo.data=FOLDER (rollout files) or algo.teacher=RUN"
            )
        if config.data is not None and self._has_memory:
            raise ConfigError(
                "a policy with memory learns from episodes that it flies, and algo.data has single frames: give "
                "algo.teacher=RUN without algo.data, or model.memory=none"
            )
        if config.teacher is not None:
            loaded = load_policy(config.teacher)
            teacher = loaded.build(env, self.device)
            if other := loaded.other_settings(env):  # its weights fit, but their numbers mean something else
                raise ConfigError(
                    f"algo.teacher={config.teacher} was trained with {other}: set the same for the student"
                )
            if memory_size(teacher):
                raise ConfigError(
                    f"algo.teacher={config.teacher} has a memory, and a teacher labels single frames: take one with "
                    "model.memory=none"
                )
            self.set_teacher(teacher, loaded.name)
        if config.data is not None:
            keys = {*self.policy.keys, *(() if self.teacher is None else _keys(self.teacher, specs))}
            seen = {name: spec for name, spec in specs.items() if name in keys}
            data = load_frames(config.data, (seen, env.action_spec), "algo.data", config.buffer_size)
            self.data = {key: value.to(self.device) for key, value in data.items()}
            self._message = f"{len(data['action',]):,} frames of {config.data}{self._message and '; '}{self._message}"

    def set_teacher(self, teacher: Any, name: str = "") -> None:
        """Imitate `teacher`, a policy for the same observations and actions."""
        self.teacher = teacher.requires_grad_(False).eval()
        mine, theirs = self.policy.actor, getattr(teacher, "actor", None)
        same = ("dims", "low", "high") if isinstance(mine, BetaHead) else ("dims",)
        self._has_labels = type(mine) is type(theirs) and all(getattr(mine, a) == getattr(theirs, a) for a in same)
        self._message = f"teacher: {name}, by its {'distribution' if self._has_labels else 'mean actions'}"

    def startup_message(self, frames_per_batch: int, total_frames: int) -> str:
        """Return what is learned from."""
        return self._message

    @torch.no_grad()
    def prepare(self, batch: Any) -> dict[str, Any]:
        """Return the batch as flat tensors [T * N, ...], with the teacher's labels."""
        rollout = Rollout.of(batch)
        observation = observation_source(rollout.observation)
        action, weight = rollout.action.flatten(0, 1), rollout.valid.flatten(0, 1).float()
        data = {"observation": observation, "action": action, "weight": weight}
        if self._has_memory:
            (data[MEMORY],) = rollout.require(MEMORY)
        if self.teacher is None:
            return data
        keys = _keys(self.teacher, self._seen)
        parts = [self._label(seen) for seen in observation.minibatches(None, self.config.minibatches, keys)]
        columns = [torch.cat(column) for column in zip(*parts, strict=True)]
        if not self._has_labels:
            return data | {"action": columns[0]}
        return data | {f"{LABEL}{i}": column for i, column in enumerate(columns)}

    def _label(self, observation: Observation) -> Parameters:
        """Return the parameters of the teacher's distribution, or its mean action."""
        if self._has_labels:
            return self.teacher.distribution(self.teacher.features(observation), observation)
        with set_exploration_type(ExplorationType.MEAN):
            found = self.teacher(observation)
        return (found if isinstance(found, Tensor) else found["action"],)

    def loss(self, rows: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Return the loss of a minibatch, and its parts in the order of PPO's: loss, 0, entropy, 0, error."""
        actor, weight, observation = self.policy.actor, rows["weight"], rows["observation"]
        features = self.policy.features(observation)
        if self.policy.memory is not None:
            features = self.policy.memory.unroll(features, rows[MEMORY], weight > 0)
        student = self.policy.distribution(features, observation)
        label = tuple(rows[name] for name in rows if name.startswith(LABEL))
        action = actor.mean(label) if label else rows["action"]
        each = divergence(actor, label, student) if label else -actor.log_prob(student, action)
        mean = actor.mean(student)
        error = (mean != action).float() if not action.is_floating_point() else (mean - action).abs().mean(-1)
        frames = weight.sum().clamp(min=1)
        imitation, entropy, error = ((x * weight).sum() / frames for x in (each, actor.entropy(student), error))
        nothing = torch.zeros_like(imitation)
        loss = imitation - self.config.entropy * entropy
        return loss, torch.stack((imitation, nothing, entropy, nothing, error)).detach()

    def learn(self, data: dict[str, Any]) -> dict[str, Tensor]:
        """Run all epochs and minibatches over prepared data; return the means of losses and diagnostics."""
        found = super().learn(data)
        names = {"loss/policy": "bc/loss", "loss/entropy": "bc/entropy", "clipped": "bc/error", "lr": "lr"}
        names |= {name: name for name in found if name.startswith("grad/")}
        return {new: found[old] for old, new in names.items()}


def _keys(policy: Any, names: Any) -> tuple[str, ...]:
    """Return the observations that a policy reads: all of `names` if it does not say."""
    return tuple(getattr(policy, "keys", None) or names)


def divergence(actor: Any, teacher: Parameters, student: Parameters) -> Tensor:
    """Return the KL divergence [N] from the teacher's distribution to the student's, both of the head `actor`."""
    if isinstance(actor, HybridHead):
        works = teacher[3]
        switches = [x for logits in (teacher[2], student[2]) for x in (F.logsigmoid(logits), F.logsigmoid(-logits))]
        on, off, student_on, student_off = switches
        each = on.exp() * (on - student_on) + off.exp() * (off - student_off)
        return divergence(actor.beta, teacher[:2], student[:2]) + (each * works).sum(-1)
    if isinstance(actor, BetaHead):
        (a, b), (c, d) = teacher, student
        total, log = a + b, torch.lgamma
        constant = log(total) - log(a) - log(b) - log(c + d) + log(c) + log(d)
        psi = torch.digamma
        return (constant + (a - c) * psi(a) + (b - d) * psi(b) + (c + d - total) * psi(total)).sum(-1)
    if isinstance(actor, GaussianHead):
        (mean, log_std), (own_mean, own_log_std) = teacher, student
        ratio = (2 * (log_std - own_log_std)).exp() + ((mean - own_mean) * (-own_log_std).exp()).square()
        return (own_log_std - log_std + 0.5 * (ratio - 1)).sum(-1)
    assert isinstance(actor, CategoricalHead)
    return (teacher[0].exp() * (teacher[0] - student[0])).sum(-1)
