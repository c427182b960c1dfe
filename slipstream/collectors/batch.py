"""The memory of one rollout, time-major, and the [num_envs, T] batches that are views of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.envs.specs import Key, Observation, Rows

Frame = dict[Key, Tensor]  # what one step of all N environments adds, each [N, ...]


class OverwrittenBatchError(RuntimeError):
    """A zero-copy batch was read after a later rollout had been written into its memory."""


class RolloutMemory:
    """T + 1 rows of every observation and value, T of everything else; each row [N, ...] and contiguous.

    Row t + 1 of an observation is the next observation of step t, so `next` costs no memory, and a step writes whole rows.
    """

    def __init__(self, steps: int, observation: Observation) -> None:
        self.steps = steps
        self.tensors: Frame = {}  # each [T or T + 1, N, ...]
        self._rows: list[Rows] = []  # by step
        for name, row in observation.items():
            self._add(("observation", name), row, steps + 1)
        rows = [self.tensors[key].unbind(0) for key in self.tensors]
        self.observations: list[Observation] = [
            dict(zip(observation, row, strict=True)) for row in zip(*rows, strict=True)
        ]

    @property
    def complete(self) -> bool:
        """Whether there is room for all keys of a frame, not for observations only."""
        return bool(self._rows)

    def complete_like(self, frame: Frame) -> None:
        """Makes room for the keys of `frame`, the first one collected."""
        for key, row in frame.items():
            if key not in self.tensors:
                self._add(key, row, self.steps + 1 if key == ("value",) else self.steps)
        self._add(("done",), frame["terminated",], self.steps)
        kinds: dict[torch.dtype, list[Key]] = {}
        for key, row in frame.items():
            kinds.setdefault(row.dtype, []).append(key)
        for t in range(self.steps):
            self._rows.append(
                [(keys, [self.tensors[key][t + (key[0] == "observation")] for key in keys]) for keys in kinds.values()]
            )

    def rows(self, t: int) -> Rows:
        """Where step t is written: the observation it leads to goes into row t + 1, all else into row t."""
        return self._rows[t]

    def copy_(self, other: RolloutMemory) -> None:
        """Takes over the contents of `other`, from whichever device."""
        for key, tensor in self.tensors.items():
            tensor.copy_(other.tensors[key])

    def copy(self, device: torch.device) -> RolloutMemory:
        """A copy to keep, on `device`; it can be read, not collected into."""
        twin = object.__new__(RolloutMemory)
        twin.steps, twin._rows, twin.observations = self.steps, [], []
        twin.tensors = {key: tensor.to(device, copy=True) for key, tensor in self.tensors.items()}
        return twin

    def batch(self) -> TensorDict:
        """A new [N, T] TensorDict of views: `next` is the same memory one row on."""
        tree: dict[str, Any] = {"observation": {}, "info": {}, "next": {"observation": {}}}
        for key, tensor in self.tensors.items():
            _put(tree, key, tensor[: self.steps].transpose(0, 1))
            if len(tensor) > self.steps:
                _put(tree["next"], key, tensor[1:].transpose(0, 1))
        done = self.tensors["done",]
        return _tensordict(tree, [done.shape[1], self.steps], done.device)

    def _add(self, key: Key, row: Tensor, rows: int) -> None:
        self.tensors[key] = torch.zeros((rows, *row.shape), dtype=row.dtype, device=row.device)


def write(rows: Rows, frame: Frame) -> None:
    """Copies a frame to its rows, all keys of a dtype at once: on a GPU that is one kernel, whatever their number.

    A compiler joins copies to what they are of by itself, and torch 2.11's joins those of lists wrongly.
    """
    for keys, targets in rows:
        if torch.compiler.is_compiling():
            for key, target in zip(keys, targets, strict=True):
                target.copy_(frame[key])
        else:
            torch._foreach_copy_(targets, [frame[key] for key in keys])


def shells(batch: TensorDict) -> list[TensorDict]:
    """`batch` and the TensorDicts nested in it: noted when it is lent, since the borrower may add others of their own."""
    return [batch, *(shell for inner in batch.values() if isinstance(inner, TensorDict) for shell in shells(inner))]


def invalidate(lent: list[TensorDict]) -> None:
    """From now on, any use of these TensorDicts raises `OverwrittenBatchError`."""
    for shell in lent:
        shell.__dict__.clear()
        # Another class rather than a check on each read: a live batch is a plain TensorDict and pays nothing.
        shell.__class__ = _OverwrittenBatch


class _OverwrittenBatch(TensorDict):
    """What a batch becomes when its memory is collected into again."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__torch_function__"):  # isinstance asks the one, torch.stack and the like the other
            return object.__getattribute__(self, name)
        _raise_overwritten()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        _raise_overwritten()

    @classmethod
    def __torch_function__(cls, *args: object, **kwargs: object) -> NoReturn:
        _raise_overwritten()

    def __repr__(self) -> str:
        return "<a batch overwritten by a later rollout>"


def _raise_overwritten() -> NoReturn:
    raise OverwrittenBatchError(
        "this batch was overwritten by a later rollout: its memory is a slot of the collector's ring. Clone what you keep "
        "(batch.clone()) before the next rollouts, build the collector with return_same_td=False, or with a larger ring_size."
    )


def _put(tree: dict[str, Any], key: Key, value: Tensor) -> None:
    for name in key[:-1]:
        tree = tree[name]
    tree[key[-1]] = value


def _tensordict(tree: dict[str, Any], batch_size: Iterable[int], device: torch.device) -> TensorDict:
    """Nested dicts as nested TensorDicts; all of them of one batch size and device."""
    size = torch.Size(batch_size)
    inner = {key: _tensordict(value, size, device) if isinstance(value, dict) else value for key, value in tree.items()}
    return TensorDict(inner, batch_size=size, device=device)
