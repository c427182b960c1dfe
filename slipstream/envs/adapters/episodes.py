"""What the adapters need of a TensorEnv beyond its contract: new seeds, and resets within the step that ends an episode."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slipstream.envs.base import StepRecord, TensorEnv
from slipstream.envs.specs import Observation


def reseeded(env: TensorEnv, seed: int) -> TensorEnv:
    """The env built anew with another seed: its worlds, starts and disturbances are those of a new env with that seed.

    Other arguments of its constructor (an opponent) are taken from its attributes of the same names.
    """
    given: dict[str, Any] = {"num_envs": env.num_envs, "device": env.device, "seed": seed}
    kept = [name for name in inspect.signature(type(env)).parameters if name not in given]
    missing = [name for name in kept if not hasattr(env, name)]
    if missing:
        raise TypeError(
            f"{type(env).__name__} cannot be built anew with another seed: let it keep its {missing[0]} as self.{missing[0]}"
        )
    return type(env)(**given, **{name: getattr(env, name) for name in kept})


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
    record.info = {name: fact.clone() for name, fact in record.info.items()}  # the reset may write where they lie
    final = {name: tensor.clone() for name, tensor in record.observation.items()}
    fresh = env.reset(done)
    observation = {name: torch.where(_like(done, tensor), tensor, final[name]) for name, tensor in fresh.items()}
    record.observation = final
    return SameStep(record, observation, done)


def _like(mask: Tensor, tensor: Tensor) -> Tensor:
    """The mask [N] with as many dimensions as the tensor [N, ...]."""
    return mask.view(-1, *(1,) * (tensor.dim() - 1))
