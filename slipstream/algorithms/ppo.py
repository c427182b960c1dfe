"""Clipped PPO over rollouts with a `valid` mask. The defaults are NavRL's.

A batch that was collected with older weights (a pipelined collector) is learned from by decoupled PPO (Hilton, Cobbe
and Schulman, 2021): the clip is around the weights that the update begins with, not around those that acted, and the
ratio of the two weighs the frame.

A policy with memory learns from minibatches of environments with all of their steps, unrolled from the memory that the
batch begins with; frames of other policies are shuffled one by one.

Nothing here waits for the device: losses come back as tensors, the KL limit gates the optimizer on the device, and the
learning rate is a tensor that the schedule writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from slipstream.algorithms.base import (
    Gradients,
    Learner,
    apply_gradients,
    check_name,
    check_policy,
    in_order,
    load_adam,
    make_adam,
    observation_source,
)
from slipstream.algorithms.returns import gae
from slipstream.config.validation import check_range
from slipstream.envs.base import TensorEnv
from slipstream.envs.rollout import Rollout
from slipstream.envs.specs import Spec
from slipstream.models.encoders import Specs
from slipstream.models.heads import BetaHead
from slipstream.models.memory import MEMORY, memory_size
from slipstream.models.policy import ActorCritic, ModelConfig, build_policy
from slipstream.sim.devices import run_beside
from slipstream.sim.random import restore_generator

# Of one gradient step, in this order; the norms of the gradients and `skipped` follow.
DIAGNOSTICS = ("loss/policy", "loss/value", "loss/entropy", "kl", "clipped")
MAX_IMPORTANCE = 5.0  # limit of the weight of a frame whose action has become more likely since it was taken
SCHEDULES = ("constant", "linear", "cosine", "adaptive")


@dataclass
class PPOConfig:
    """The settings of `algo.*`."""

    name: str = "ppo"
    rollout_steps: int = 32  # steps of each environment per batch (NavRL: training_frame_num)
    epochs: int = 4
    minibatches: int = 16
    gamma: float = 0.99
    lam: float = 0.95
    learning_rate: float = 5e-4
    schedule: str = "constant"  # linear, cosine: to `final_rate` of it; adaptive: by `target_kl`, within 1e-5 … 1e-2
    final_rate: float = 0.0  # share of the learning rate at the end of linear and cosine
    clip: float = 0.1
    value_clip: float = 0.1  # of normalized values; 0 is off
    huber_delta: float = 10.0
    entropy: float = 1e-3
    actor_weight: float | None = None  # of the policy loss; the number of action dimensions by default
    value_weight: float = 1.0
    max_grad_norm: float = 5.0  # of the weights actor.*, critic.* and memory.*, each; the encoder's are not clipped
    kl_limit: float = 0.0  # the rest of an update is skipped once the KL passes this; 0 is off
    target_kl: float = 0.01  # of the adaptive schedule
    bf16: bool = False  # autocast of the encoder, acting and learning

    def __post_init__(self) -> None:
        check_name(self)
        if self.schedule not in SCHEDULES:
            raise ValueError(f"unknown algo.schedule '{self.schedule}': use one of {', '.join(SCHEDULES)}")
        positive = ("learning_rate", "clip", "huber_delta", "max_grad_norm", "target_kl")
        check_range(self, "rollout_steps", "epochs", "minibatches", minimum=1, section="algo.")
        check_range(self, "gamma", above=0, maximum=1, section="algo.")
        check_range(self, "lam", "final_rate", minimum=0, maximum=1, section="algo.")
        check_range(self, "entropy", "actor_weight", "value_weight", minimum=0, section="algo.")
        check_range(self, *positive, above=0, section="algo.")
        check_range(self, "value_clip", "kl_limit", minimum=0, section="algo.", hint="; 0 turns it off")


class PPO(Learner):
    """Updates an actor-critic from rollouts."""

    Config = PPOConfig
    supports_capture = True
    rank_keys = ("generator",)
    reads_minibatches = True
    supports_memory = True
    supports_mirror = True
    scheduled_settings: ClassVar[tuple[str, ...]] = ("minibatches", "rollout_steps")

    def __init__(self, policy: ActorCritic, config: PPOConfig | None = None) -> None:
        needs = ("evaluate", "value", "stamps", "keys", "value_norm", "actor", "critic")
        check_policy(policy, "PPO", ActorCritic, *needs)
        self.policy = policy
        self.config = config = config or PPOConfig()
        policy.bf16 = config.bf16
        self.device = next(policy.parameters()).device
        self.learning_rate = torch.tensor(config.learning_rate, device=self.device)
        self.optimizer = make_adam(policy.parameters(), self.learning_rate)
        # A fused Adam leaves the weights alone where `found_inf` is 1: that is the gate of the KL limit.
        self._stop = torch.zeros((), device=self.device)
        self.optimizer.found_inf = self._stop  # type: ignore[attr-defined]
        self.optimizer.grad_scale = None  # type: ignore[attr-defined]
        self._actor_weight = config.actor_weight if config.actor_weight is not None else float(policy.actor.dims)
        self._has_memory = memory_size(policy) > 0
        self._clip_heads("actor", "critic", "memory")
        self._kernels: list[Future[Any]] = []  # launches that compile kernels

    def _clip_heads(self, *heads: str) -> None:
        """Clip the gradients of the parameters named `head.*` together, for each of `heads` that has any."""
        names = [name for name, _ in self.policy.named_parameters()]
        found = {head: [i for i, name in enumerate(names) if name.startswith(f"{head}.")] for head in heads}
        self._clipped = [head for head in heads if found[head]]
        self._heads = [found[head] for head in self._clipped]

    @classmethod
    def network(cls, observation_spec: Specs, action_spec: Spec, model: ModelConfig, settings: Any) -> ActorCritic:
        """Return the actor-critic for an env's observations and actions."""
        return build_policy(observation_spec, action_spec, model)

    @classmethod
    def build(cls, policy: ActorCritic, config: PPOConfig, observation_spec: Specs, seed: int, fresh: bool) -> PPO:
        """Return the learner of `policy`."""
        return cls(policy, config)

    def bind(self, env: TensorEnv) -> None:
        """Compile the Triton kernels of an update in threads, beside the first rollout: launch each once.

        One that fails here is compiled, or fails, at its next launch.
        """
        steps, num = self.config.rollout_steps, env.num_envs
        rows = max(1, steps * num // self.config.minibatches)

        def advantages() -> None:
            zeros, false = (torch.zeros(steps, num, dtype=x, device=self.device) for x in (torch.float32, torch.bool))
            gae(zeros, zeros, zeros, false, false, false, self.config.gamma, self.config.lam)

        if self.device.type == "cuda":
            head = getattr(self.policy.actor, "beta", self.policy.actor)  # of a hybrid head, the real components
            calls = [partial(head.compile_kernels, rows)] if isinstance(head, BetaHead) else []
            self._kernels = run_beside(self.device, *calls, advantages)

    def update(self, batch: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """Learn from a `Rollout`, or from a batch [N, T]; return the means of losses and diagnostics."""
        self.set_progress(progress)
        return self.learn(self.prepare(batch))

    def set_progress(self, progress: float) -> None:
        """Set the learning rate by the schedule after `progress` (0 to 1) of the run."""
        config = self.config
        if config.schedule in ("linear", "cosine"):
            done = min(max(progress, 0.0), 1.0)
            left = 1 - done if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))
            self.learning_rate.fill_(config.learning_rate * (config.final_rate + (1 - config.final_rate) * left))

    # -- an update, in order -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def prepare(self, batch: Any) -> dict[str, Any]:
        """Return the batch as flat tensors [T * N, ...] with normalized advantages and returns."""
        wait(self._kernels)
        self._kernels = []  # frees their results
        rollout, norm, config = Rollout.of(batch), self.policy.value_norm, self.config
        value, next_value, reward, terminated, truncated, log_prob = rollout.require(
            "value", "next_value", "reward", "terminated", "truncated", "log_prob"
        )
        valid, late = rollout.valid, "value_std" in rollout.extra
        if late:  # collected with older weights, whose values are in units of other returns
            mean, std = rollout.extra["value_mean"], rollout.extra["value_std"]
            value, next_value = norm.normalize(value * std + mean), norm.normalize(next_value * std + mean)
        here, after = norm.denormalize(value), norm.denormalize(next_value)
        advantage = gae(reward, here, after, terminated, truncated, valid, config.gamma, config.lam)
        returns = advantage + here
        norm.update(returns, valid, self.average)
        weight = valid.float()
        mean = _mean(advantage, weight)
        variance = _mean((advantage - mean).square(), weight)
        if self.average is not None:  # of the frames of all processes
            moments = [mean.double(), variance.double() + mean.double().square()]
            self.average(moments, weight.sum())
            mean, variance = moments[0].float(), (moments[1] - moments[0].square()).clamp(min=0).float()
        deviation = variance.sqrt()
        data = {
            "observation": observation_source(rollout.observation),
            "action": rollout.action.flatten(0, 1),
            "log_prob": log_prob.flatten(0, 1),
            "value": value.flatten(0, 1),
            "advantage": ((advantage - mean) / deviation.clamp(min=1e-7)).flatten(0, 1),
            "returns": norm.normalize(returns).flatten(0, 1),
            "weight": weight.flatten(0, 1),
        }
        if self._has_memory:
            (data[MEMORY],) = rollout.require(MEMORY)  # before the first step, [N, memory_size]
        return self._recompute_log_probs(data) if late else data

    def _recompute_log_probs(self, data: dict[str, Any]) -> dict[str, Any]:
        """Replace the log probabilities by the present weights'; their ratio to those that acted weighs the
        advantages."""
        order = self._rows_of(torch.arange(len(data[MEMORY]), device=self.device), data) if self._has_memory else None
        present = torch.cat([self._evaluate(rows)[0] for rows in self._cut(data, order)])
        if order is not None:
            present = torch.empty_like(present).index_copy_(0, order, present)
        log_ratio = torch.where(data["weight"] > 0, present - data["log_prob"], 0.0)
        return data | {"log_prob": present, "advantage": data["advantage"] * log_ratio.exp().clamp(max=MAX_IMPORTANCE)}

    def learn(self, data: dict[str, Any]) -> dict[str, Tensor]:
        """Run all epochs and minibatches over prepared data; return the means of losses and diagnostics."""
        self._stop.zero_()
        minibatches = (rows for _ in range(self.config.epochs) for rows in self._minibatches(data))
        totals = [self._gradient_step(rows, adapt=k > 0) for k, rows in enumerate(minibatches)]
        means = torch.stack(totals).mean(0).unbind()
        names = (*DIAGNOSTICS, *(f"grad/{head}" for head in self._clipped), "skipped")
        return dict(zip(names, means, strict=True)) | {"lr": self.learning_rate.clone()}

    def check_batch(self, frames: int) -> None:
        """Raise ValueError if a batch does not divide into minibatches."""
        self._check_divides(frames // self.config.rollout_steps if self._has_memory else frames)

    def _check_divides(self, parts: int) -> None:
        count = self.config.minibatches
        if not parts % count:
            return
        divisor = max(k for k in range(1, min(count, parts + 1)) if parts % k == 0)
        what, size = "frames", "env.num_envs × algo.rollout_steps"
        if self._has_memory:  # it learns from environments with all of their steps
            what, size = "environments", "env.num_envs (model.memory)"
        raise ValueError(
            f"a batch of {parts} {what} does not divide into algo.minibatches={count}: choose a divisor of {size}, "
            f"such as {divisor}"
        )

    def _minibatches(self, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the frames in a new random order, in minibatches; with a memory, environments in such an order."""
        parts = len(data[MEMORY] if self._has_memory else data["weight"])
        self._check_divides(parts)
        order = torch.rand(parts, device=self.device, generator=self.generator).argsort()
        yield from self._cut(data, self._rows_of(order, data) if self._has_memory else order)

    def _rows_of(self, envs: Tensor, data: dict[str, Any]) -> Tensor:
        """Return the rows of environments [N] in the order of minibatches, the rows of each time-major."""
        n = len(envs)
        first = torch.arange(0, len(data["weight"]), n, device=self.device)  # [T], of each step
        return (first[:, None] + envs.view(self.config.minibatches, 1, -1)).flatten()

    def _cut(self, data: dict[str, Any], order: Tensor | None) -> Iterator[dict[str, Any]]:
        """Yield the frames in `order`, in minibatches with the observations that the policy reads."""
        count = self.config.minibatches
        names = [name for name in data if name not in ("observation", MEMORY)]
        parts = zip(*(in_order(data[name], order).chunk(count) for name in names), strict=True)
        seen = data["observation"].minibatches(order, count, self.policy.keys)
        for k, (rows, observation) in enumerate(zip(parts, seen, strict=True)):
            found = dict(zip(names, rows, strict=True)) | {"observation": observation}
            if order is not None and self._has_memory:
                memory = data[MEMORY]
                # The first rows of a minibatch are the first steps of its environments.
                envs = order.view(count, -1)[k, : len(memory) // count]
                found[MEMORY] = memory.index_select(0, envs)
            yield found

    def _evaluate(self, rows: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return log probability, entropy and normalized value of a minibatch, each [B]."""
        if not self._has_memory:
            return self.policy.evaluate(rows["observation"], rows["action"])
        observation = {**rows["observation"], MEMORY: rows[MEMORY]}
        return self.policy.evaluate(observation, rows["action"], rows["weight"] > 0)

    def _gradient_step(self, rows: dict[str, Any], adapt: bool) -> Tensor:
        """Take one gradient step; return the diagnostics as one tensor.

        Without `adapt` the adaptive schedule keeps the rate: at the first minibatch of an update the weights have not
        changed yet, so its KL is 0 and says nothing about the rate.
        """
        config = self.config
        gradients, diagnostics = self.gradients(rows)
        if self.sums is not None:  # with losses and KL: rate and KL limit act on the figures of all processes
            *gradients, diagnostics = self.sums([*gradients, diagnostics])
            heads = {i: gradients[i] for head in self._heads for i in head if gradients[i] is not None}
            clipped, diagnostics = self.clip_sums((heads, diagnostics))
            gradients = [x if y is None else y for x, y in zip(gradients, clipped, strict=True)]
            diagnostics, share = diagnostics[:-1], diagnostics[-1]
            self.optimizer.grad_scale = share  # type: ignore[attr-defined]  # a fused Adam divides by it
        kl = diagnostics[DIAGNOSTICS.index("kl")]
        if config.schedule == "adaptive" and adapt:  # skip after the KL limit: the weights no longer change
            factor = torch.where(kl > 2 * config.target_kl, 1 / 1.5, torch.where(kl < config.target_kl / 2, 1.5, 1.0))
            self.learning_rate.mul_(torch.where(self._stop > 0, 1.0, factor)).clamp_(1e-5, 1e-2)
        if config.kl_limit:
            self._stop.copy_(torch.maximum(self._stop, (kl > config.kl_limit).float()))
        apply_gradients(self.optimizer, gradients)
        return torch.cat((diagnostics, self._stop[None]))

    def gradients(self, rows: dict[str, Any]) -> tuple[Gradients, Tensor]:
        """Return the clipped gradient of each parameter (None if it has none), and the parts of the loss with the norms
        per head.

        With several processes they are the input of `sums`: not clipped, without norms, weighted by the share of frames
        that are valid, which follows the parts of the loss.
        """
        loss, diagnostics = self.loss(rows)
        if self.sums is not None:
            share = rows["weight"].mean()
            loss, diagnostics = loss * share, torch.cat((diagnostics * share, share[None]))
        found = torch.autograd.grad(loss, list(self.policy.parameters()), allow_unused=True)
        return self._clip_gradients(found, diagnostics) if self.sums is None else (found, diagnostics)

    def clip_sums(self, sums: tuple[dict[int, Any], Tensor]) -> tuple[Gradients, Tensor]:
        """Clip the gradients of each head after an exchange.

        Args:
            sums: the sums over all processes of the heads' gradients, by the number of their parameter, and of the
                diagnostics.

        Returns:
            Those gradients, None for the other parameters, so that their means are clipped; the means of the
            diagnostics, the norms per head, and the divisor that makes means of sums.
        """
        gradients, diagnostics = sums
        share = diagnostics[-1:].clamp(min=1e-9)  # without any valid frame all sums are 0
        found = [gradients.get(i) for i, _ in enumerate(self.policy.parameters())]
        clipped, diagnostics = self._clip_gradients(found, diagnostics[:-1] / share, share)
        return clipped, torch.cat((diagnostics, share))

    def _clip_gradients(
        self, gradients: Gradients, diagnostics: Tensor, share: Tensor | None = None
    ) -> tuple[Gradients, Tensor]:
        """Clip the gradients of each head, which are `share` [1] times as long as they will be; add the norms to the
        diagnostics."""
        found: list[Any] = list(gradients)
        norms = []
        for head in self._heads:
            mine = [i for i in head if found[i] is not None]
            of_head = [found[i] for i in mine]
            norm = torch.nn.utils.get_total_norm(of_head, foreach=True)
            norm = norm if share is None else norm / share[0]
            norms.append(norm)
            scale = (self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
            for i, gradient in zip(mine, torch._foreach_mul(of_head, scale), strict=True):
                found[i] = gradient
        return found, torch.cat((diagnostics, torch.stack(norms)))

    def loss(self, rows: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Return the loss of a minibatch, and its parts: policy, value, entropy, KL, share of clipped ratios."""
        config, weight, advantage = self.config, rows["weight"], rows["advantage"]
        log_prob, entropy, value = self._evaluate(rows)
        log_ratio = torch.where(weight > 0, log_prob - rows["log_prob"], 0.0)  # invalid frames must not overflow
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = -_mean(torch.minimum(advantage * ratio, advantage * clipped), weight)
        value_loss = self._value_loss(value, rows)
        entropy_mean = _mean(entropy, weight)
        kl = _mean(ratio - 1 - log_ratio, weight)  # never negative, and of low variance
        outside = _mean(((ratio - 1).abs() > config.clip).float(), weight)
        loss = self._actor_weight * policy_loss + config.value_weight * value_loss - config.entropy * entropy_mean
        return loss, torch.stack((policy_loss, value_loss, entropy_mean, kl, outside)).detach()

    def _value_loss(self, value: Tensor, rows: dict[str, Any]) -> Tensor:
        """Return the Huber loss of normalized values; with clipping the larger of the two means, as NavRL does."""
        config, weight = self.config, rows["weight"]

        def loss(predicted: Tensor) -> Tensor:
            return _mean(F.huber_loss(predicted, rows["returns"], delta=config.huber_delta, reduction="none"), weight)

        if not config.value_clip:
            return loss(value)
        near = rows["value"] + (value - rows["value"]).clamp(-config.value_clip, config.value_clip)
        return torch.maximum(loss(value), loss(near))

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return weights, value statistics, optimizer, learning rate, and the state of its own generator if it has
        one."""
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "learning_rate": self.learning_rate.clone(),
            **({} if self.generator is None else {"generator": self.generator.get_state()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""
        self.policy.load_state_dict(state["policy"])
        self.learning_rate.copy_(state["learning_rate"])
        if self.generator is not None and "generator" in state:
            restore_generator(self.generator, state["generator"], "minibatches")
        load_adam(self.optimizer, state["optimizer"])


def _mean(x: Tensor, weight: Tensor) -> Tensor:
    """Return the mean of `x` over frames of weight 1."""
    return (x * weight).sum() / weight.sum().clamp(min=1)
