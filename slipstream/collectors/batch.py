"""The memory that a rollout is written to, and the batches that are views of it."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.envs.rollout import Frame
from slipstream.envs.specs import Key, Observation, Rows
from slipstream.models.memory import MEMORY


class RolloutMemory:
    """Hold T + 1 rows of every observation and value and T rows of everything else; each row is [N, ...] and
    contiguous.

    Row t + 1 of an observation is the next observation of step t, so `next` needs no memory of its own. The numbers
    that a policy remembers (`memory` [N, size]) are kept as they were before the first step; two more rows hold those
    before the other steps in turn.
    """

    def __init__(self, steps: int, observation: Observation, memory: Tensor | None = None) -> None:
        self.steps = steps
        self.tensors: Frame = {}  # each [T or T + 1, N, ...]
        for name, row in observation.items():
            self._add(("observation", name), row, steps + 1)
        self.rows: list[Rows] = [[] for _ in range(steps)]  # of each step; empty before `allocate`
        rows = [self.tensors[key].unbind(0) for key in self.tensors]
        self.observations = [dict(zip(observation, row, strict=True)) for row in zip(*rows, strict=True)]  # by step
        if memory is not None:
            self._add((MEMORY,), memory, 1)
            turns = torch.zeros_like(memory), torch.zeros_like(memory)
            for t, seen in enumerate(self.observations):
                seen[MEMORY] = turns[t % 2] if t else self.tensors[MEMORY,][0]

    def allocate(self, frame: Frame) -> None:
        """Allocate the remaining keys of `frame`, the first one collected; a step is written to row t + 1 of the
        observations and to row t of everything else."""
        for key, row in frame.items():
            if key not in self.tensors:
                self._add(key, row, self.steps + 1 if key == ("value",) else self.steps)
        self._add(("done",), frame["terminated",], self.steps)
        by_dtype: dict[torch.dtype, list[Key]] = {}
        for key, row in frame.items():
            by_dtype.setdefault(row.dtype, []).append(key)
        for t, rows in enumerate(self.rows):
            rows += [(keys, [self._target(key, t) for key in keys]) for keys in by_dtype.values()]

    def _target(self, key: Key, t: int) -> Tensor:
        if key == (MEMORY,) and MEMORY in self.observations[t]:
            return self.observations[t + 1][MEMORY]
        return self.tensors[key][t + (key[0] == "observation")]

    def _add(self, key: Key, row: Tensor, rows: int) -> None:
        self.tensors[key] = torch.zeros((rows, *row.shape), dtype=row.dtype, device=row.device)


def write(rows: Rows, frame: Frame) -> None:
    """Copy a frame to its rows, all keys of a dtype at once: one kernel on a GPU.

    A compiler fuses single copies with the code that computes them; torch 2.11 fuses copies of lists incorrectly.
    """
    for keys, targets in rows:
        values: list[Any] = [frame.get(key) for key in keys]
        for key, x, target in zip(keys, values, targets, strict=True):
            if not isinstance(x, Tensor) or x.shape != target.shape or x.dtype != target.dtype:
                now = f"{x.dtype} of shape {list(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
                raise ValueError(
                    f"{'.'.join(key)} was {target.dtype} of shape {list(target.shape)} at the first step, and is {now} "
                    "now: env and policy must return the same shapes and dtypes at every step"
                )
        if torch.compiler.is_compiling():
            for x, target in zip(values, targets, strict=True):
                target.copy_(x)
        else:
            torch._foreach_copy_(targets, values)


class OverwrittenBatchError(RuntimeError):
    """A zero-copy batch was read after a later rollout had been written to its memory."""


class LentBatch(TensorDict):
    """A batch whose memory is collected into again: from then on every use of it raises `OverwrittenBatchError`."""

    def expire(self) -> None:
        """Forget the tensors."""
        self.__dict__.clear()

    def __getattr__(self, name: str) -> NoReturn:  # called for attributes that are not there
        if "_tensordict" in self.__dict__:
            raise AttributeError(f"'TensorDict' object has no attribute {name!r}")
        raise OverwrittenBatchError(
            "this batch was overwritten by a later rollout, in the same memory. Clone what you keep (batch.clone()) before "
            "the next rollout, or build the collector with return_same_td=False."
        )

    def __repr__(self) -> str:
        return super().__repr__() if self.__dict__ else "<a batch overwritten by a later rollout>"
