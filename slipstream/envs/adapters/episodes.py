"""What the adapters need of a TensorEnv beyond its contract: new seeds, and resets within the step that ends an episode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.envs.base import StepRecord, TensorEnv
from slipstream.specs import Observation


def reseeded(env: TensorEnv, seed: int) -> TensorEnv:
    """The env built anew with another seed: its worlds, starts and disturbances are those of a new env with that seed."""
    config = getattr(env, "config", None)
    if config is None:
        raise TypeError(f"{type(env).__name__} cannot be given a new seed: keep its settings as self.config, as TensorEnv's docstring says")
    return type(env)(env.num_envs, env.device, seed, config)  # type: ignore[call-arg, arg-type]


@dataclass
class SameStep:
    """A step after which the environments that ended already stand at their new starts."""

    record: StepRecord  # with the final observations of those that ended
    observation: Observation  # what the policy sees next
    done: Tensor  # [N] bool


def step_and_reset(env: TensorEnv, action: Tensor) -> SameStep:
    """One step, and at once the reset of whatever it ended. A step that ends something costs a second observation of everyone."""
    record = env.step(action)
    done = record.terminated | record.truncated
    if not bool(done.any()):
        return SameStep(record, record.observation, done)
    final = {name: tensor.clone() for name, tensor in record.observation.items()}  # the reset may write where they lie
    fresh = env.reset(done)
    observation = {name: torch.where(_like(done, tensor), tensor, final[name]) for name, tensor in fresh.items()}
    record.observation = final
    return SameStep(record, observation, done)


def _like(mask: Tensor, tensor: Tensor) -> Tensor:
    """The mask [N] with as many dimensions as the tensor [N, ...]."""
    return mask.view(-1, *(1,) * (tensor.dim() - 1))
