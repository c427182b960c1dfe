"""What DQN, SAC and TD3 share: sampled transitions in, gradient steps, target networks, state.

Nothing here waits for the device: losses come back as tensors. Which of the steps moves a target network or a delayed actor
follows from how many there were, which the host counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from slipstream.config.validation import must
from slipstream.envs.specs import Observation
from slipstream.models.off_policy import ExploringPolicy

SAVE_REPLAY = ("auto", "on", "off")


@dataclass
class OffPolicyConfig:
    """The settings of `algo.*` that DQN, SAC and TD3 share."""

    name: str = ""
    training_frame_num: int = 32  # steps of each environment an iteration
    updates: int = 32  # gradient steps an iteration
    warmup: int = 1000  # frames with random actions before the first update
    batch_size: int = 256
    buffer_size: int = 1_000_000  # steps kept
    codec: str = "auto"  # of the buffer's observations: docs/replay.md
    n_step: int = 1  # rewards summed before the value that follows
    prioritised: bool = False  # draw steps by their last error, and weigh them accordingly
    priority_exponent: float = 0.6  # 0: all alike
    importance_exponent: float = (
        0.4  # at the start, 1 at the end of the run: the weights then undo the priorities in full
    )
    gamma: float = 0.99
    learning_rate: float = 3e-4
    final_rate: float = 1.0  # share of the learning rate at the end of the run; it falls in a straight line
    tau: float = 0.005  # share of the weights that a target network takes over
    max_grad_norm: float = 0.0  # of each network; 0 is off
    save_replay: str = "auto"  # in checkpoints: on, off, auto (up to 256 MB); without it a resumed run fills a new one

    def __post_init__(self) -> None:
        must(
            self,
            "be at least 1",
            "training_frame_num",
            "updates",
            "batch_size",
            "buffer_size",
            "n_step",
            section="algo.",
        )
        must(self, "lie in (0, 1]", "gamma", "tau", section="algo.")
        must(self, "be positive", "learning_rate", section="algo.")
        must(self, "lie in [0, 1]", "final_rate", "priority_exponent", "importance_exponent", section="algo.")
        must(self, "be 0 or more", "warmup", "max_grad_norm", section="algo.")
        if self.warmup > self.buffer_size:
            raise ValueError(f"algo.warmup ({self.warmup}) must fit into algo.buffer_size ({self.buffer_size})")
        if self.save_replay not in SAVE_REPLAY:
            raise ValueError(f"algo.save_replay must be one of {', '.join(SAVE_REPLAY)}, not '{self.save_replay}'")

    def must_be(self, name: str) -> None:
        """Refuses the settings of another algorithm under this one's name."""
        if self.name != name:
            raise ValueError(
                f"algo.name is '{self.name}', and these are the settings of {name}: choose with algo={self.name}"
            )


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
        """A batch of `ReplayBuffer.sample`; of the observations only `keys`."""
        observation, after = batch["observation"], batch["next"]["observation"]
        bootstrap = torch.where(batch["terminated"], 0.0, batch["discount"])
        weight = batch.get("weight", None)
        rows = (
            {key: observation[key] for key in keys},
            batch["action"],
            batch["reward"],
            bootstrap,
            {key: after[key] for key in keys},
        )
        return cls(*rows, weight)

    def split(self, parts: int) -> list[Transitions]:
        """The same steps in `parts` equal minibatches; row i goes to minibatch i % parts."""
        if parts == 1:
            return [self]
        if len(self.reward) % parts:
            raise ValueError(f"{len(self.reward)} transitions do not divide into {parts} minibatches")

        def cut(x: Tensor) -> tuple[Tensor, ...]:  # every parts-th row: a stratified draw stays one in each minibatch
            return x.view(-1, parts, *x.shape[1:]).transpose(0, 1).contiguous().unbind(0)

        def cut_all(observation: Observation) -> list[Observation]:
            columns = [cut(x) for x in observation.values()]
            return [dict(zip(observation, row, strict=True)) for row in zip(*columns, strict=True)]

        weights = cut(self.weight) if self.weight is not None else [None] * parts
        flat = zip(cut(self.action), cut(self.reward), cut(self.bootstrap), weights, strict=True)
        both = zip(cut_all(self.observation), cut_all(self.next_observation), flat, strict=True)
        return [
            Transitions(now, action, reward, bootstrap, after, weight)
            for now, after, (action, reward, bootstrap, weight) in both
        ]


class OffPolicy(ABC):
    """Learns a policy from transitions that any policy collected."""

    facts: ClassVar[tuple[str, ...]]  # what a gradient step tells

    def __init__(self, policy: ExploringPolicy, config: OffPolicyConfig) -> None:
        self.policy = policy
        self.config = config
        self.device = next(policy.parameters()).device
        # A GPU's rate is a tensor, which a captured update follows; a CPU's Adam takes 0.2 ms with that and 0.12 with a number.
        on_gpu = self.device.type == "cuda"
        self.learning_rate: Tensor | float = (
            torch.tensor(config.learning_rate, device=self.device) if on_gpu else config.learning_rate
        )
        self.updates = 0  # gradient steps so far
        self.random_warmup = True  # False where the policy comes with something learned
        self.td_error: Tensor = torch.zeros(0)  # [B] of the batch just learned from: new priorities
        self.networks: dict[str, nn.Module] = {"policy": policy}  # what a checkpoint holds
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def update(self, batch: TensorDictBase | Mapping[Any, Any], steps: int = 1) -> dict[str, Tensor]:
        """`steps` gradient steps, each on its own part of the sampled batch [B]; the means of losses and values, on the device."""
        facts, errors = [], []
        for rows in Transitions.of(batch, self.policy.encoder.keys).split(steps):  # type: ignore[union-attr, arg-type]
            self.updates += 1
            told, error = self.step(rows)
            facts.append(torch.stack(told))
            errors.append(error)
        self.td_error = torch.stack(errors, -1).flatten() if steps > 1 else errors[0]  # in the order of the batch
        return dict(zip(self.facts, torch.stack(facts).mean(0).unbind(), strict=True))

    @abstractmethod
    def step(self, rows: Transitions) -> tuple[tuple[Tensor, ...], Tensor]:
        """One gradient step; the facts, and the size of each row's error [B]."""

    def set_progress(self, progress: float) -> None:
        """Learning rate and exploration as they are to be after `progress` (0 to 1) of the run."""
        done = min(max(progress, 0.0), 1.0)
        if self.config.final_rate < 1:
            self._set_learning_rate(self.config.learning_rate * (1 - done * (1 - self.config.final_rate)))
        warming_up = self.random_warmup and self.updates == 0
        self.policy.random_share.fill_(1.0 if warming_up else self.random_share(done))

    def random_share(self, progress: float) -> float:
        """The share of random actions once the warm-up is over."""
        return 0.0

    def _set_learning_rate(self, rate: float) -> None:
        if isinstance(self.learning_rate, Tensor):
            self.learning_rate.fill_(rate)
        else:
            self.learning_rate = rate
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate

    # -- tools of a step -----------------------------------------------------------------------------------------------

    def adam(self, name: str, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of some weights, one fused kernel."""
        optimizer = torch.optim.Adam(
            parameters, lr=self.learning_rate, fused=True, capturable=self.device.type == "cuda"
        )
        self.optimizers[name] = optimizer
        return optimizer

    def descend(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        """One step down the gradient; only this optimiser's weights get one."""
        parameters = optimizer.param_groups[0]["params"]
        grads = torch.autograd.grad(loss, parameters)
        if self.config.max_grad_norm:  # torch's own clipping takes twice as long for a handful of small tensors
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
            torch._foreach_mul_(grads, (self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        for p, grad in zip(parameters, grads, strict=True):
            p.grad = grad
        optimizer.step()

    # -- state -----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the next updates depend on but the transitions."""
        return {
            **{name: network.state_dict() for name, network in self.networks.items()},
            "optimizers": {name: optimizer.state_dict()["state"] for name, optimizer in self.optimizers.items()},
            "learning_rate": float(self.learning_rate),
            "updates": self.updates,
            "random_warmup": self.random_warmup,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state`."""
        for name, network in self.networks.items():
            network.load_state_dict(state[name])
        for name, optimizer in self.optimizers.items():
            groups = optimizer.state_dict()["param_groups"]
            copies = {
                i: {k: v.clone() if isinstance(v, Tensor) else v for k, v in s.items()}
                for i, s in state["optimizers"][name].items()
            }
            optimizer.load_state_dict({"state": copies, "param_groups": groups})  # it would adopt the caller's tensors
        self._set_learning_rate(
            state["learning_rate"]
        )  # the groups are copies by now, and a GPU's rate must be this one tensor
        self.updates, self.random_warmup = state["updates"], state["random_warmup"]


class Follower:
    """Weights that follow others slowly: a target network. One kernel for all of them on a GPU, one call on a CPU."""

    def __init__(self, target: nn.Module, online: nn.Module, tau: float) -> None:
        target.requires_grad_(False)
        self._target: list[Tensor] = list(target.parameters())
        self._online: list[Tensor] = list(online.parameters())
        self._tau = tau

    @torch.no_grad()
    def follow(self) -> None:
        """A share tau nearer to what it follows."""
        torch._foreach_lerp_(self._target, self._online, self._tau)


def weighted_mean(loss: Tensor, weight: Tensor | None) -> Tensor:
    """The mean over the batch (the last dimension), summed over what comes before it."""
    loss = loss if weight is None else loss * weight
    return loss.mean(-1).sum()
