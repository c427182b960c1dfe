"""What DQN, SAC and TD3 share: transitions, gradient steps, target networks, state, and the learner with a replay
buffer.

Nothing here waits for the device: losses are returned as tensors. The host counts the steps, which decides which of
them move a target network or a delayed actor.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from slipstream.algorithms.base import Average, Learner, apply_gradients, check_name, check_policy, load_adam, make_adam
from slipstream.config.validation import check_range
from slipstream.envs.rollout import Rollout
from slipstream.envs.specs import Observation, Spec
from slipstream.models.encoders import Specs
from slipstream.models.off_policy import Critics, ExploringPolicy

if TYPE_CHECKING:
    from slipstream.replay import ReplayBuffer

SAVE_REPLAY = ("auto", "on", "off")
SMALL_BYTES = 256 * 2**20  # of a buffer that checkpoints hold by default
MINIBATCHES_PER_SAMPLE = 32  # minibatches in one call of the buffer; priorities are as old as this
MIN_UPDATES, FRAMES_PER_UPDATE = 32, 8  # of an iteration without `algo.updates`
FEW_UPDATES = 3000  # in a run: fewer rarely learn anything


@dataclass
class OffPolicyConfig:
    """The settings of `algo.*` that DQN, SAC and TD3 share."""

    name: str = ""
    rollout_steps: int = 32  # steps of each environment per iteration
    updates: int | None = None  # gradient steps per iteration; null: one per 8 frames collected, at least 32
    warmup: int = 1000  # frames with random actions before the first update
    batch_size: int = 256
    buffer_size: int = 1_000_000  # steps kept
    codec: str = "auto"  # of the buffer's observations: docs/replay.md
    n_step: int = 1  # rewards summed before the value that follows
    prioritised: bool = False  # draw steps by their last error, and weigh them accordingly
    priority_exponent: float = 0.6  # 0: all alike
    importance_exponent: float = 0.4  # at the start; 1 at the end of the run, which undoes the priorities in full
    gamma: float = 0.99
    learning_rate: float = 3e-4
    final_rate: float = 1.0  # share of the learning rate at the end of the run; it falls in a straight line
    tau: float = 0.005  # share of the weights that a target network takes over
    max_grad_norm: float = 0.0  # of each network; 0 is off
    save_replay: str = "auto"  # in checkpoints: on, off, auto (up to 256 MB); without it a resumed run fills a new one

    def __post_init__(self) -> None:
        check_name(self)
        counts = ("rollout_steps", "updates", "batch_size", "buffer_size", "n_step")
        check_range(self, *counts, minimum=1, section="algo.")
        check_range(self, "gamma", "tau", above=0, maximum=1, section="algo.")
        check_range(self, "learning_rate", above=0, section="algo.")
        shares = ("final_rate", "priority_exponent", "importance_exponent")
        check_range(self, *shares, minimum=0, maximum=1, section="algo.")
        check_range(self, "warmup", "max_grad_norm", minimum=0, section="algo.")
        if self.warmup > self.buffer_size:
            raise ValueError(f"algo.warmup ({self.warmup}) must fit into algo.buffer_size ({self.buffer_size})")
        if self.save_replay not in SAVE_REPLAY:
            raise ValueError(f"algo.save_replay must be one of {', '.join(SAVE_REPLAY)}, not '{self.save_replay}'")

    def updates_per_batch(self, frames: int) -> int:
        """Return the gradient steps that follow a batch of `frames` frames."""
        return max(MIN_UPDATES, frames // FRAMES_PER_UPDATE) if self.updates is None else self.updates


@dataclass
class Transitions:
    """Steps drawn from a replay buffer, as flat tensors [B, ...]."""

    observation: Observation
    action: Tensor
    reward: Tensor  # summed over n steps and discounted, as the buffer gives it
    bootstrap: Tensor  # what the value of the next observation is multiplied with: its discount; 0 where the episode ended for good
    next_observation: Observation
    weight: Tensor | None  # of each step's loss

    @classmethod
    def of(cls, batch: TensorDictBase | Mapping[Any, Any], keys: tuple[str, ...]) -> Transitions:
        """Return a batch of `ReplayBuffer.sample` as transitions, with the observations `keys` only."""
        observation, after = batch["observation"], batch["next"]["observation"]
        return cls(
            observation={key: observation[key] for key in keys},
            action=batch["action"],
            reward=_one_per_step(batch, "reward"),
            bootstrap=torch.where(_one_per_step(batch, "terminated") != 0, 0.0, _one_per_step(batch, "discount")),
            next_observation={key: after[key] for key in keys},
            weight=None if batch.get("weight", None) is None else _one_per_step(batch, "weight"),
        )

    def split(self, parts: int) -> list[Transitions]:
        """Return the same steps in `parts` equal minibatches; row i is in minibatch i % parts."""
        if parts == 1:
            return [self]
        if len(self.reward) % parts:
            raise ValueError(f"{len(self.reward)} transitions do not divide into {parts} minibatches")

        def cut(x: Tensor | None) -> Sequence[Tensor | None]:
            if x is None:
                return [None] * parts
            # every parts-th row: a stratified draw stays one in each minibatch
            return x.view(-1, parts, *x.shape[1:]).transpose(0, 1).contiguous().unbind(0)

        columns, layout = tree_flatten(vars(self))
        return [Transitions(**tree_unflatten(row, layout)) for row in zip(*map(cut, columns), strict=True)]


class OffPolicy(ABC):
    """Takes gradient steps on transitions that any policy collected; a `ReplayLearner` feeds it from a buffer."""

    Config: ClassVar[type[OffPolicyConfig]]
    Policy: ClassVar[type[ExploringPolicy]]
    policy_settings: ClassVar[tuple[str, ...]] = ()  # of `Config`: further arguments of `Policy`
    policy_needs: ClassVar[tuple[str, ...]] = ()  # further attributes that it uses of a policy
    has_critics: ClassVar[bool] = False  # takes `Critics` after the policy
    metric_names: ClassVar[tuple[str, ...]]  # of what a gradient step returns

    def __init__(self, policy: ExploringPolicy, config: OffPolicyConfig) -> None:
        self.check_policy(policy)
        self.policy = policy
        self.config = config
        self.device = next(policy.parameters()).device
        self.learning_rate = config.learning_rate
        self.updates = 0  # gradient steps so far
        self.random_warmup = True  # False where the policy comes with something learned
        self.td_error: Tensor = torch.zeros(0)  # [B] of the batch just learned from: new priorities
        self.average: Average | None = None  # see `Learner`
        self.networks: dict[str, nn.Module] = {"policy": policy}  # what a checkpoint holds
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self._targets: list[Tensor] = []  # weights of all target networks, and those that they follow
        self._online: list[Tensor] = []

    @classmethod
    def network(cls, observation_spec: Specs, action_spec: Spec, model: Any, settings: Mapping[str, Any]) -> Any:
        """Return the policy for an env's observations and actions."""
        make: Any = cls.Policy
        return make(observation_spec, action_spec, model, *(settings[name] for name in cls.policy_settings))

    @classmethod
    def check_policy(cls, policy: Any) -> None:
        """Raise TypeError if the policy lacks what the algorithm uses."""
        check_policy(policy, cls.__name__, cls.Policy, "keys", "config", "random_share", *cls.policy_needs)

    @classmethod
    def build(cls, policy: Any, config: Any, observation_spec: Specs, seed: int, fresh: bool) -> ReplayLearner:
        """Return a learner with critics, if the algorithm has some, and a replay buffer; a policy that is not `fresh`
        acts by itself in the warm-up."""
        cls.check_policy(policy)
        critics = [Critics(observation_spec, policy.dims, policy.config)] if cls.has_critics else []
        make: Any = cls
        algo: OffPolicy = make(policy, *critics, config)
        algo.random_warmup = fresh
        return ReplayLearner(algo, make_buffer(config, algo.device, seed))

    def update(self, batch: TensorDictBase | Mapping[Any, Any], steps: int = 1) -> dict[str, Tensor]:
        """Take `steps` gradient steps, each on its own part of the sampled batch [B].

        Returns:
            The means of losses and values by name, on the device.
        """
        metrics, errors = [], []
        for rows in Transitions.of(batch, self.policy.keys).split(steps):
            self.updates += 1
            values, error = self.step(rows)
            metrics.append(torch.stack(values))
            errors.append(error)
        self.td_error = torch.stack(errors, -1).flatten() if steps > 1 else errors[0]  # in the order of the batch
        return dict(zip(self.metric_names, torch.stack(metrics).mean(0).unbind(), strict=True))

    @abstractmethod
    def step(self, rows: Transitions) -> tuple[tuple[Tensor, ...], Tensor]:
        """Take one gradient step; return the values of `metric_names`, and the size of each row's error [B]."""

    def set_progress(self, progress: float) -> None:
        """Set learning rate and exploration for `progress` (0 to 1) of the run."""
        done = min(max(progress, 0.0), 1.0)
        if self.config.final_rate < 1:
            self._set_learning_rate(self.config.learning_rate * (1 - done * (1 - self.config.final_rate)))
        warming_up = self.random_warmup and self.updates == 0
        self.policy.random_share.fill_(1.0 if warming_up else self.random_share(done))

    def random_share(self, progress: float) -> float:
        """Return the share of random actions after the warm-up."""
        return 0.0

    def _set_learning_rate(self, rate: float) -> None:
        self.learning_rate = rate
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = rate

    # -- tools of a step -----------------------------------------------------------------------------------------------

    def adam(self, name: str, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer of some weights."""
        self.optimizers[name] = make_adam(parameters, self.learning_rate)
        return self.optimizers[name]

    def optimizer_step(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        """Take one optimizer step on `loss`; only the weights of this optimizer get a gradient."""
        grads = torch.autograd.grad(loss, optimizer.param_groups[0]["params"])
        if self.average is not None:
            self.average(grads)
        if self.config.max_grad_norm:  # torch's own clipping takes twice as long for a handful of small tensors
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
            torch._foreach_mul_(grads, (self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        apply_gradients(optimizer, grads)

    def add_target(self, name: str, online: nn.Module) -> Any:
        """Return a copy of a network that `move_targets` moves slowly towards it."""
        target = deepcopy(online).requires_grad_(False)
        self.networks[name] = target
        self._targets += target.parameters()
        self._online += online.parameters()
        return target

    @torch.no_grad()
    def move_targets(self) -> None:
        """Move all target networks by a share `tau`, in one kernel on a GPU."""
        torch._foreach_lerp_(self._targets, self._online, self.config.tau)

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next updates depend on, except the transitions."""
        return {
            **{name: network.state_dict() for name, network in self.networks.items()},
            "optimizers": {name: optimizer.state_dict()["state"] for name, optimizer in self.optimizers.items()},
            "learning_rate": self.learning_rate,
            "updates": self.updates,
            "random_warmup": self.random_warmup,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""
        for name, network in self.networks.items():
            network.load_state_dict(state[name])
        for name, optimizer in self.optimizers.items():
            load_adam(optimizer, state["optimizers"][name])
        self._set_learning_rate(state["learning_rate"])
        self.updates, self.random_warmup = state["updates"], state["random_warmup"]


class ReplayLearner(Learner):
    """Puts collected batches into a replay buffer, and lets an off-policy algorithm learn from samples of it."""

    is_off_policy = True
    rank_keys = ("replay", "warm", "collected", "actor_loss")

    def __init__(self, algo: OffPolicy, buffer: ReplayBuffer) -> None:
        self.algo = algo
        self.policy = algo.policy
        self.buffer = buffer
        self.config = algo.config
        self.device = algo.device
        self._collected = 0  # frames
        self.stored = ""  # the line about transitions that it started with
        self._warm = False  # once True it is not computed again: the size of a buffer on a GPU must be waited for
        algo.set_progress(0.0)

    def update(self, batch: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """Store a batch and take the iteration's gradient steps; none before the warm-up is over."""
        batch = batch.to_tensordict() if isinstance(batch, Rollout) else batch
        config, algo = self.config, self.algo
        algo.average = self.average
        self.buffer.extend(batch)
        if config.prioritised:  # the exponent grows to 1, which corrects the bias of the priorities completely
            exponent = config.importance_exponent + (1 - config.importance_exponent) * min(progress, 1.0)
            self.buffer.sampler.beta = exponent  # type: ignore[attr-defined]  # a PrioritizedSampler
        self._collected += batch.numel()
        self._warm = self._warm or (self._collected >= config.warmup and len(self.buffer) > 0)
        metrics: list[dict[str, Tensor]] = []
        left = config.updates_per_batch(batch.numel()) if self._warm else 0
        while left:
            steps = min(left, MINIBATCHES_PER_SAMPLE)
            drawn = self.buffer.sample(steps * config.batch_size, n_step=config.n_step, gamma=config.gamma)
            metrics.append(algo.update(drawn, steps))
            if config.prioritised:
                self.buffer.update_priority(drawn["index"], algo.td_error)
            left -= steps
        algo.set_progress(progress)
        means = {name: torch.stack([step[name] for step in metrics]).mean() for name in (metrics[0] if metrics else ())}
        if self.average is not None and means:
            self.average(list(means.values()))
        return means | {"replay/updates": torch.tensor(float(algo.updates), device=self.device)}

    def add_stored(self, batch: Mapping[str, Any], steps: int) -> None:
        """Add a batch [N, T] with `steps` transitions that were stored before; they count towards `algo.warmup`."""
        self.buffer.extend(batch)
        self._collected += steps

    def startup_message(self, frames_per_batch: int, total_frames: int) -> str:
        """Return the gradient steps per frame, with a warning if the run has too few to learn."""
        updates = self.config.updates_per_batch(frames_per_batch)
        warmup = max(0, self.config.warmup - self._collected)  # stored transitions count
        waiting = max(0, -(-warmup // frames_per_batch) - 1)  # batches without an update
        total = updates * max(0, -(-total_frames // frames_per_batch) - waiting)
        ratio = (
            f"{updates:,} gradient steps per {frames_per_batch:,} frames ({updates / frames_per_batch:.3g} per frame)"
        )
        if total < FEW_UPDATES:
            ratio = (
                f"warning: {ratio}, {total:,} in this run: too few to learn much. "
                "Give a larger algo.updates or total_frames, or fewer env.num_envs"
            )
        return f"{self.stored}\n{ratio}".strip()

    def seed_minibatches(self, seed: int) -> None:
        """Do nothing: the buffer draws with a seed of its own."""

    def gauges(self) -> dict[str, Callable[[], float]]:
        """Return the buffer's memory: one that fills up is no leak."""
        return {"replay_mb": lambda: self.buffer.host_bytes / 2**20}

    def networks(self) -> Iterable[nn.Module]:
        """Return the policy, the critics and the target networks."""
        return self.algo.networks.values()

    def close(self) -> None:
        """Close the buffer."""
        self.buffer.close()

    def state_dict(self) -> dict[str, Any]:
        """Return networks and optimizers, and the buffer as `algo.save_replay` says."""
        state = self.algo.state_dict() | {"warm": self._warm, "collected": self._collected}
        keep = self.config.save_replay
        if keep == "on" or (keep == "auto" and self.buffer.nbytes <= SMALL_BYTES):
            state["replay"] = self.buffer.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`; without a buffer in it, a new one fills up to `algo.warmup` before learning
        continues, as does one whose run was on another kind of device."""
        self.algo.load_state_dict(state)
        if "replay" not in state:
            return
        if ("replay" in state["replay"]) != (self.device.type == "cpu"):  # packed bytes in host memory, else a ring
            print("the replay buffer starts empty: the run was on another kind of device", file=sys.stderr)
        else:
            self.buffer.load_state_dict(state["replay"])
            self._warm, self._collected = state["warm"], state["collected"]


def _one_per_step(batch: TensorDictBase | Mapping[Any, Any], key: str) -> Tensor:
    """Return a key as [B]: TorchRL's rewards and flags are [B, 1], whose product with [B] would be [B, B]."""
    value: Tensor = batch[key]
    if value.ndim != 1 and value.shape[1:] != (1,):
        raise ValueError(f"{key!r} has the shape {list(value.shape)}: give one value per step, [B] or [B, 1]")
    return value.reshape(-1)


def make_buffer(config: OffPolicyConfig, device: torch.device, seed: int) -> ReplayBuffer:
    """Return the replay buffer of these settings, on the device of the env."""
    from slipstream.replay import PrioritizedSampler, ReplayBuffer  # its native code is loaded where it is needed

    sampler: Any = "uniform"
    if config.prioritised:
        sampler = PrioritizedSampler(config.priority_exponent, config.importance_exponent)
    settings = {"codec": config.codec, "sampler": sampler, "seed": seed}
    return ReplayBuffer(config.buffer_size, device=device, storage=device.type, **settings)


def weighted_mean(loss: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over the batch (the last dimension), summed over the dimensions before it."""
    loss = loss if weight is None else loss * weight
    return loss.mean(-1).sum()
