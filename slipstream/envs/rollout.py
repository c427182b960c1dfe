"""Rollout: T steps of N environments, as a collector hands them to a learner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from slipstream.envs.specs import Key

Frame = dict[Key, Tensor]  # tensors of one step, each [N, ...], or of all steps, each [T or T + 1, N, ...]


@dataclass
class Rollout:
    """T steps of N environments, time-major. Valid until the collector's next rollout; clone what you keep.

    `next_observation` and `next_value` are one step later: in a collector the same memory, one row further. Users see a
    rollout as a TensorDict [N, T] (`to_tensordict`), where parts that are None are missing.
    """

    observation: Any  # by name, each [T, N, ...]; of a compressed batch an `ObservationSource`
    action: Tensor  # [T, N, ...]
    valid: Tensor  # [T, N] bool: False where the step only reset the environment
    next_observation: dict[str, Tensor] = field(default_factory=dict)  # each [T, N, ...]
    reward: Tensor | None = None  # [T, N], as the next seven
    terminated: Tensor | None = None
    truncated: Tensor | None = None
    done: Tensor | None = None
    log_prob: Tensor | None = None  # of the policy that acted
    value: Tensor | None = None  # normalized
    next_value: Tensor | None = None
    memory: Tensor | None = None  # [N, size]: the policy's, before the first step
    info: dict[str, Tensor] = field(default_factory=dict)  # each [T, N]
    extra: dict[str, Tensor] = field(default_factory=dict)  # what else the policy returned, each [T, N, ...]
    rows: Frame = field(default_factory=dict)  # the memory behind it, see `of_rows`

    @classmethod
    def of_rows(cls, rows: Frame) -> Rollout:
        """Return views of a collector's memory: T + 1 rows of observations and values, T of everything else, and the
        policy's memory [1, N, size]."""
        steps = len(rows["valid",])
        parts: dict[str, Any] = {name: {} for name in ("observation", "next_observation", "info", "extra")}
        for key, x in rows.items():
            if len(key) > 1:
                parts[key[0]][key[1]] = x[:steps]
            elif key[0] == "memory":
                parts["memory"] = x[0]
            else:
                (parts if key[0] in _PARTS else parts["extra"])[key[0]] = x[:steps]
            if key[0] == "observation" and len(x) > steps:
                parts["next_observation"][key[1]] = x[1:]
            elif key[0] == "value":
                parts["next_value"] = x[1:]
        return cls(**parts, rows=rows)

    @classmethod
    def of(cls, batch: Any) -> Rollout:
        """Return a user's batch [N, T], a TensorDict or `CompressedBatch`, as a rollout of views."""
        if isinstance(batch, Rollout):
            return batch
        observation, value = batch, batch.get(("next", "value"), None)
        if not hasattr(batch, "minibatches"):
            observation = {name: x.transpose(0, 1) for name, x in batch["observation"].items()}
        tensors = {name: batch.get(name) for name in batch.keys() if name not in ("observation", "next", "info")}  # noqa: SIM118
        extra = {name: x.transpose(0, 1) for name, x in tensors.items() if isinstance(x, Tensor)}
        memory = extra.pop("memory")[0] if "memory" in extra else None
        parts: dict[str, Any] = {name: extra.pop(name) for name in _PARTS if name in extra}
        if missing := [name for name in ("action", "valid") if name not in parts]:
            raise KeyError(f"the batch has no {missing[0]!r}: learners read batches of a collector")
        value = None if value is None else value.transpose(0, 1)
        return cls(observation, next_value=value, memory=memory, extra=extra, **parts)

    def to_tensordict(self, kind: Any = None) -> Any:
        """Return views of the rollout as a TensorDict [N, T], or as `kind`, a subclass of it."""
        from tensordict import TensorDict  # loading it takes longer than torch

        steps, num_envs = self.valid.shape[:2]
        tree: dict[str, Any] = {"observation": self.observation, "info": self.info}
        tree |= {name: x for name in _PARTS if (x := getattr(self, name)) is not None} | self.extra
        tree["next"] = {"observation": self.next_observation}
        if self.next_value is not None:
            tree["next"]["value"] = self.next_value
        if self.memory is not None:
            tree["memory"] = self.memory.expand(steps, *self.memory.shape)  # all T columns share one
        return (kind or TensorDict)(_transposed(tree), batch_size=[num_envs, steps], device=self.valid.device)

    def require(self, *names: str) -> list[Tensor]:
        """Return the parts `names`; raise ValueError for one that is None."""
        for name in names:
            if getattr(self, name) is None:
                raise ValueError(
                    f"the batch has no {name!r}, which this learner reads: collect with a policy that returns it"
                )
        return [getattr(self, name) for name in names]

    def copy(self, device: torch.device, into: Rollout | None = None) -> Rollout:
        """Return a copy on `device`, in the memory of an earlier copy if `into` gives one.

        From a CPU to a GPU it goes through pinned memory, without waiting.
        """
        if into is not None:
            for key, x in self.rows.items():
                into.rows[key].copy_(x, non_blocking=device.type == "cuda")
            return into
        pin = device.type == "cuda" and self.valid.device.type == "cpu"
        rows = {key: x.pin_memory() if pin else x for key, x in self.rows.items()}
        return Rollout.of_rows({key: x.to(device, non_blocking=pin, copy=not pin) for key, x in rows.items()})


# of a batch [N, T], by name
_PARTS = ("action", "reward", "terminated", "truncated", "done", "valid", "log_prob", "value")


def _transposed(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: _transposed(x) if isinstance(x, dict) else x.transpose(0, 1) for name, x in tree.items()}
