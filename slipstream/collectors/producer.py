"""What a pipeline runs beside the learner: take over weights, collect one batch, stamp it and move it to the learner's
device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from slipstream.collectors.batch import DeviceCopier
from slipstream.collectors.lanes import EndOfItems
from slipstream.collectors.sync import SyncDataCollector
from slipstream.models.exploration import sample_from
from slipstream.sim.random import restore_generator


def version_of(number: int, staleness: int) -> int:
    """Return the version of the weights that batch `number`, counted from 1, is collected with."""
    return max(0, number - 1 - staleness)


class WeightVersions:
    """Keep versions of the weights of `policy`, counted from 0, and `acting`, the copy of it that acts.

    The learner calls `publish`, the collector `take_over`. A version is a copy that nobody writes to, so the learner
    may continue at once; the acting copy changes only in `take_over`. Versions are kept until `forget`.

    Args:
        policy: the module that learns.
        acting: the module that acts; None for a copy of `policy`.
        direct: nothing acts between a version's `forget` and the next `publish` (on-policy): the acting copy itself
            holds the version, and the weights are copied once instead of twice.
    """

    def __init__(self, policy: nn.Module, acting: nn.Module | None = None, direct: bool = False) -> None:
        self.policy = policy
        self.direct = direct
        self.acting = copy.deepcopy(policy).requires_grad_(False) if acting is None else acting
        self._learning, self._acting = tensors_of(policy), tensors_of(self.acting)
        if acting is not None:
            self._check_copy()
        self._versions: dict[int, list[Tensor]] = {}
        self._spare: list[list[Tensor]] = []  # memory of forgotten versions

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Store the learner's present weights as `version`."""
        held = self._allocate()
        _copy(held, list(self._learning.values()))
        self._versions[version] = held  # one store: the other thread sees a complete version or none

    @torch.no_grad()
    def take_over(self, version: int) -> None:
        """Let the acting copy act as `version` from now on."""
        held = self._versions[version]
        if not self.direct:
            _copy(list(self._acting.values()), held)

    def forget(self, before: int) -> None:
        """Drop the versions below `before`."""
        for version in [v for v in self._versions if v < before]:
            held = self._versions.pop(version)
            if not self.direct:
                self._spare.append(held)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the versions held."""
        return {
            str(version): {name: x.clone() for name, x in zip(self._learning, held, strict=True)}
            for version, held in self._versions.items()
        }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hold the versions of `state` and no others."""
        for version, saved in state.items():
            if saved.keys() != self._learning.keys():
                raise ValueError(f"version {version} of the saved weights is of another policy: build it as saved")
        self._versions = {}
        for version, saved in state.items():
            held = self._allocate()
            _copy(held, [saved[name].to(x.device) for name, x in self._learning.items()])
            self._versions[int(version)] = held

    def _allocate(self) -> list[Tensor]:
        if self.direct:
            if self._versions:
                raise RuntimeError(f"version {min(self._versions)} still acts: forget it before the next is published")
            return list(self._acting.values())
        return self._spare.pop() if self._spare else [torch.empty_like(x) for x in self._learning.values()]

    def _check_copy(self) -> None:
        theirs, mine = self._learning, self._acting
        shared = set.intersection(*({x.data_ptr() for x in own.values() if x.numel()} for own in (theirs, mine)))
        if self.acting is self.policy or shared:
            raise ValueError(
                "the base collector acts with the weights that are trained: it would read them while they are written. "
                "Build it with copy.deepcopy(policy) and pass the trained one here, policy=policy"
            )
        if {name: x.shape for name, x in theirs.items()} != {name: x.shape for name, x in mine.items()}:
            raise ValueError(
                "policy= is another network than the base collector's: build the base with copy.deepcopy(policy)"
            )


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers of a module by name, also buffers that are not saved."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    if targets:
        torch._foreach_copy_(targets, sources)  # a few kernels on a GPU


@dataclass
class Item:
    """A batch on its way to the learner."""

    batch: Any
    before: dict[str, Any] | None = None  # the state it was collected from
    frames: int = 0  # collected so far, this batch included
    sums: Tensor | None = None  # of the episodes that ended in it
    bad: Tensor | None = None  # whether it has invalid actions
    drew_globally: bool = False  # the first batch drew from torch's global generator
    arrived: torch.cuda.Event | None = None


@dataclass
class Producer:
    """Produce item after item; called by one thread at a time. It knows the base collector, not the pipeline."""

    source: RolloutSource | IterableSource
    weights: WeightVersions | None  # the versions to act with; None if the base's weights are unknown
    staleness: int  # by how many updates a batch's weights are older than the learner's
    postproc: Callable[[Any], Any] | None  # applied to every batch
    copier: DeviceCopier | None  # moves batches to the learner's device; None leaves them
    stream: torch.cuda.Stream | None  # where the copies are queued; None for the current stream

    def produce(self, number: int) -> Item:
        """Collect batch `number` with its version of the weights."""
        version = version_of(number, self.staleness)
        if self.weights is not None:
            self.weights.take_over(version)
        item = self.source.collect(number)
        if self.weights is not None:
            self._stamp(item.batch, version, self.weights.acting)
        if self.postproc is not None:
            item.batch = self.postproc(item.batch)
        if self.copier is None:
            return item
        with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            is_batch = isinstance(item.batch, TensorDictBase)
            item.batch = self.copier(item.batch) if is_batch else item.batch.to(self.copier.device)
            item.arrived = None if self.stream is None else self.stream.record_event()
        return item

    def _stamp(self, batch: Any, version: int, policy: Any) -> None:
        """Store the version that collected a batch, and the policy's stamps: one number for all frames, which takes no
        memory."""
        device = getattr(batch, "device", None)
        stamps = {"policy_version": torch.full((), version, dtype=torch.int64, device=device)}
        if self.staleness and callable(getattr(policy, "stamps", None)):
            # copies: the acting policy moves on to other versions
            stamps |= {name: x.clone() for name, x in policy.stamps().items()}
        for name, x in stamps.items():
            batch[name] = x.expand(batch.batch_size)


@dataclass
class RolloutSource:
    """The rollouts of a `SyncDataCollector`, whose random numbers, statistics and state are known."""

    base: SyncDataCollector
    generator: torch.Generator | None  # what its policy draws from; None for torch's global generator
    checks: bool  # read back whether actions were invalid here, instead of leaving it to the learner

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the state that the next batch is collected from."""
        state: dict[str, Any] = {"base": self.base.state_dict()}
        if self.generator is not None:
            state["generator"] = self.generator.get_state()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Collect the next batch from `state`."""
        self.base.load_state_dict(state["base"])
        if self.generator is not None:
            restore_generator(self.generator, state["generator"], "sampled actions")

    def collect(self, number: int) -> Item:
        """Return batch `number`; raise `EndOfItems` if there is none."""
        base = self.base
        if 0 <= base.total_frames <= base.frames:
            raise EndOfItems
        before = self.state_dict()
        # The learner waits for the first batch, so only this thread can change the global generator meanwhile.
        rng_state = torch.get_rng_state() if number == 1 and self.generator is not None else None
        with sample_from(self.generator):
            batch = base.rollout(check=self.checks)
        bad = None if self.checks else base.bad_actions.clone()
        drew = rng_state is not None and not torch.equal(rng_state, torch.get_rng_state())
        return Item(batch, before, base.frames, base.episodes.take(), bad, drew)


class IterableSource:
    """The batches of any iterable: TorchRL's collectors, data loaders, generators."""

    def __init__(self, base: Iterable[Any]) -> None:
        self.base = base
        self._iterator: Iterator[Any] | None = None
        self._last: Any = None  # the object returned before
        self._failure = ""  # its text: the error's traceback would hold the learner's frames
        self._frames = 0

    def collect(self, number: int) -> Item:
        """Return the next batch; raise `EndOfItems` if there is none."""
        if self._failure:  # a failed iterator is exhausted, which must not look like a normal end
            raise RuntimeError(f"the base collector failed before ({self._failure}) and has no more batches")
        try:
            if self._iterator is None:
                self._iterator = iter(self.base)
            batch = next(self._iterator)
        except StopIteration:
            raise EndOfItems from None
        except BaseException as error:
            self._failure = repr(error)
            raise
        if batch is self._last:
            raise ValueError(
                "the base returned the same object twice: a batch would be overwritten while the learner reads it. "
                "Return a new one each time (TorchRL: return_same_td=False), or .clone() them"
            )
        self._last = batch
        self._frames += batch.numel() if isinstance(batch, TensorDictBase) else 0
        return Item(batch, frames=self._frames)
