"""What runs beside the learner: one batch collected, stamped and moved. It knows the base collector, not the pipeline around it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from slipstream.collectors.episodes import EpisodeStatistics
from slipstream.collectors.handover import Handover
from slipstream.collectors.sync import SyncDataCollector
from slipstream.collectors.transfer import Courier
from slipstream.collectors.worker import End
from slipstream.models.exploration import sample_from


@dataclass
class Item:
    """A batch on its way to the learner."""

    batch: Any
    before: dict[str, Any] | None = None  # what it can be collected again from
    frames: int = 0  # collected with it
    sums: Tensor | None = None  # of the episodes that ended in it
    bad: Tensor | None = None  # whether there were bad actions in it
    drew_globally: bool = False  # from torch's global generator, at the first batch
    arrived: torch.cuda.Event | None = None


class Line(ABC):
    """Makes item after item. Called by one thread at a time."""

    def __init__(
        self,
        handover: Handover | None,
        staleness: int,
        courier: Courier | None,
        postproc: Callable[[Any], Any] | None,
        stream: torch.cuda.Stream | None,
    ) -> None:
        self.handover = handover
        self._staleness = staleness
        self._courier = courier
        self._postproc = postproc
        self._stream = stream  # to copy on; None: where the caller is

    def make(self, number: int) -> Item:
        """Batch `number`, by weights of the version that is its own."""
        version = version_of(number, self._staleness)
        if self.handover is not None:
            self.handover.take_over(version)
        item = self._collect(number)
        if self.handover is not None:
            self._stamp(item.batch, version, self.handover.acting)
        if self._postproc is not None:
            item.batch = self._postproc(item.batch)
        if self._stream is None:
            self._move(item)
        else:
            with torch.cuda.stream(self._stream):
                self._move(item)
                item.arrived = self._stream.record_event()
        return item

    def _stamp(self, batch: Any, version: int, policy: Any) -> None:
        """Notes with what a batch was collected: one number for all its frames, which takes no memory."""
        device = getattr(batch, "device", None)
        stamps = {"policy_version": torch.full((), version, dtype=torch.int64, device=device)}
        if self._staleness and callable(getattr(policy, "stamps", None)):
            stamps |= {
                name: x.clone() for name, x in policy.stamps().items()
            }  # of this version, which the acting copy will leave
        for name, x in stamps.items():
            batch[name] = x.expand(batch.batch_size)

    @abstractmethod
    def _collect(self, number: int) -> Item:
        """Batch `number`, as the base gives it."""

    def _move(self, item: Item) -> None:
        if self._courier is None:
            return
        item.batch = (
            self._courier(item.batch) if isinstance(item.batch, TensorDictBase) else item.batch.to(self._courier.device)
        )


class CollectorLine(Line):
    """Around our own collector, whose random numbers, statistics and state are known."""

    def __init__(self, base: SyncDataCollector, generator: torch.Generator | None, checks: bool, *rest: Any) -> None:
        super().__init__(*rest)
        self.base = base
        self.generator = generator  # None: torch's global one
        self._checks = checks  # read back whether actions were bad, or leave it to the learner

    def state_dict(self) -> dict[str, Any]:
        """What the next batch is collected from, as copies."""
        state: dict[str, Any] = {"base": self.base.state_dict()}
        if self.generator is not None:
            state["generator"] = self.generator.get_state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next batch is collected from `state`."""
        self.base.load_state_dict(state["base"])
        if self.generator is not None:
            self.generator.set_state(state["generator"].cpu())

    def _collect(self, number: int) -> Item:
        base = self.base
        if 0 <= base.total_frames <= base.frames:
            raise End
        before = self.state_dict()
        # The learner waits for the first batch, so a change is this thread's doing.
        looked = torch.get_rng_state() if number == 1 and self.generator is not None else None
        with sample_from(self.generator):
            batch = base.rollout(check=self._checks)
        bad = None if self._checks else base.bad_actions.clone()
        drew = looked is not None and not torch.equal(looked, torch.get_rng_state())
        return Item(batch, before, base.frames, base.episodes.take(), bad, drew)


class IterableLine(Line):
    """Around anything that gives batches: TorchRL's collectors, data loaders, generators."""

    def __init__(self, base: Iterable[Any], *rest: Any) -> None:
        super().__init__(*rest)
        self.base = base
        self._iterator: Iterator[Any] | None = None
        self._last: Any = None  # the object handed out before
        self._failed = ""  # how; not the error itself, whose traceback would hold the learner's frames
        self._frames = 0

    def _collect(self, number: int) -> Item:
        if self._failed:  # an iterator that failed is over; it must not look as if it had ended well
            raise RuntimeError(
                f"the base collector failed before ({self._failed}) and gives no more batches: build it anew"
            )
        try:
            if self._iterator is None:
                self._iterator = iter(self.base)
            batch = next(self._iterator)
        except StopIteration:
            raise End from None
        except BaseException as error:
            self._failed = repr(error)
            raise
        if batch is self._last:
            raise ValueError(
                "the base gave the same object twice: a batch would be overwritten while the learner reads it. "
                "Let it give a new one each time (TorchRL: return_same_td=False), or .clone() them"
            )
        self._last = batch
        self._frames += batch.numel() if isinstance(batch, TensorDictBase) else 0
        return Item(batch, frames=self._frames)


def version_of(number: int, staleness: int) -> int:
    """The version of the weights that batch `number`, counted from 1, is collected with."""
    return max(0, number - 1 - staleness)


class DeliveredEpisodes:
    """As `EpisodeStatistics`, of the batches that the learner was given: those in flight do not count yet."""

    def __init__(self, base: EpisodeStatistics) -> None:
        self._base = base
        self._sums: Tensor | None = None

    def add(self, sums: Tensor) -> None:
        """The sums of one more batch."""
        self._sums = sums if self._sums is None else self._sums + sums

    def pop(self) -> dict[str, float]:
        """'count' of the episodes ended since the last pop and the means over them; 'count' alone when there were none."""
        return self.means(self.take().tolist())

    def take(self) -> Tensor:
        """The sums since the last time, still on the device."""
        sums, self._sums = self._sums, None
        return self._base.empty_sums() if sums is None else sums

    def means(self, sums: list[float]) -> dict[str, float]:
        """What `pop` says, of sums that were taken before."""
        return self._base.means(sums)

    def state_dict(self) -> dict[str, Any]:
        """The sums."""
        return {} if self._sums is None else {"sums": self._sums.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        self._sums = state["sums"].clone() if "sums" in state else None
