"""PipelinedDataCollector: the next batch is collected and moved to the learner's device while the learner works on this one."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from slipstream.collectors.fitting import check_numbers, check_ring, handover_of, lane_of
from slipstream.collectors.handover import Handover
from slipstream.collectors.line import CollectorLine, DeliveredEpisodes, Item, IterableLine, version_of
from slipstream.collectors.stream import StreamLane
from slipstream.collectors.sync import SyncDataCollector
from slipstream.collectors.transfer import Courier
from slipstream.collectors.worker import UNLIMITED, Worker
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Step
from slipstream.sim import devices


class PipelinedDataCollector:
    """Batches of `base_collector`, made beside the learner. Which weights collect which batch depends on no timing.

    Asking for a batch says that the update before it is finished: the weights are then published, as the version that counts finished
    updates. Batch k is collected with version k - 1 (`on_policy=True`: exactly on-policy; it is begun when that version is published)
    or with version k - 1 - `max_staleness` (`on_policy=False`: older by exactly so many updates, except the first ones, version 0).
    `publish()` says so earlier, right after the update: collecting then runs beside logging, evaluating and saving as well.
    A batch bears its version as `batch["policy_version"]`, int64 [N, T]; `log_prob` and `value` are of that version. Where data are
    older than the weights that learn and the policy has a method `stamps()`, the [] tensors it gives are noted likewise: an
    `ActorCritic` says what its values are units of.

    - `base_collector`: our SyncDataCollector, whose policy acts as a copy from now on; or TorchRL's collectors or any iterable of
      TensorDicts, which is simply read ahead, unless `policy` names the module that learns: then the base, which must act with a copy
      of it as its `policy`, is handed its weights in the same way.
    - `device`: where the batches are to be; None leaves them where the base gives them.
    - `prefetch_count`: batches that may wait for the learner. It bounds memory; the versions bound collecting ahead.
    - `lane`: "thread", or "stream": the caller's thread queues rollouts on a CUDA stream; "auto": stream where the env lives on a GPU.
    - `threads`: CPU threads of the collecting thread; 0: as many as the thread that builds this has.
    - `seed`: of the collecting thread's own random numbers; None draws one from torch's global generator.
    - `postproc`: applied to every batch, beside the learner.
    - `fixed_memory`: every batch lies in the same memory on the GPU, for an update that is captured as a graph (stream lane only).

    Shutting down also shuts down the base.
    """

    def __init__(
        self,
        base_collector: SyncDataCollector | Iterable[Any],
        device: torch.device | str | None = None,
        prefetch_count: int = 2,
        *,
        on_policy: bool = False,
        max_staleness: int = 1,
        policy: nn.Module | None = None,
        lane: str = "auto",
        threads: int = 0,
        seed: int | None = None,
        postproc: Callable[[Any], Any] | None = None,
        fixed_memory: bool = False,
    ) -> None:
        check_numbers(prefetch_count, max_staleness, lane, threads)
        self.base = base_collector
        self.on_policy = on_policy
        self.device = None if device is None else torch.empty(0, device=device).device
        self._ours = base_collector if isinstance(base_collector, SyncDataCollector) else None
        handover = handover_of(base_collector, policy, on_policy)
        # How many updates old the data are; a base of unknown weights is only read ahead.
        self.staleness = (
            0 if on_policy else max_staleness if self._ours is not None or handover is not None else UNLIMITED
        )
        self.lane = lane_of(lane, self._ours, self.staleness)
        ahead = min(
            prefetch_count, self.staleness + 1
        )  # batches that are made and not yet given; one more with `publish`
        check_ring(base_collector, ahead, self.lane)
        self.policy = policy if self._ours is None else self._ours.policy
        self._handover = handover
        self._shut = False
        if self._ours is not None and handover is not None:
            self._ours.policy = handover.acting
        self._fixed = self._make_line(handover, seed, postproc, fixed_memory)
        self._start_lane(ahead, threads)
        self.episodes = None if self._ours is None else DeliveredEpisodes(self._ours.episodes)
        self._taken = 0  # batches given to the learner
        self._version = -1  # the last one published
        self._frames = 0
        self._bad: Tensor | None = None

    # -- what users call ---------------------------------------------------------------------------------------------

    def rollout(self, check: bool = True) -> Any:
        """The next batch. What could not be collected raises here, when its turn comes, with the traceback of where it happened."""
        batch = self._next()
        if batch is None:
            raise RuntimeError("the base collector has given all its batches: raise total_frames, or build a new one")
        if check and self._bad is not None:
            self.check()
        return batch

    def collect(self) -> Any:
        """The next batch, as `rollout()`."""
        return self.rollout()

    def iterator(self) -> Iterator[Any]:
        """Batches until the base has no more. Leaving the loop early loses none: a later loop goes on behind it."""
        while (batch := self._next()) is not None:
            yield batch

    def __iter__(self) -> Iterator[Any]:
        return self.iterator()

    def publish(self) -> None:
        """Says that the update of the last batch is finished: its weights are final, and the next batch may be begun."""
        self._raise_if_closed()
        if self._version >= self._taken:
            raise RuntimeError(
                "publish() once for each batch, after its update: the weights of this one are published already"
            )
        self._publish()
        if self._taken and self.staleness != UNLIMITED:
            self._lane.allow(self._taken + 1 + self.staleness if self.lane == "thread" else self._taken + 1)

    def check(self) -> None:
        """Raises if there were bad actions in the last batch. The collecting thread looks by itself, and has raised already."""
        if self._bad is not None and self._ours is not None and bool(self._bad):
            self._ours.check()

    def settle(self) -> None:
        """Waits until nothing is collected beside the caller: before the env is touched, or native code used that is not reentrant."""
        self._lane.settle()

    @property
    def bad_actions(self) -> Tensor:
        """Whether [] there were bad actions in the last batch, still on the device."""
        if self._bad is not None:
            return self._bad
        return torch.zeros((), dtype=torch.bool, device=None if self._ours is None else self._ours.env.device)

    @property
    def frames(self) -> int:
        """Frames given to the learner so far."""
        return self._frames

    @property
    def frames_per_batch(self) -> int:
        """As the base's."""
        return self._own("asked for its frames_per_batch").frames_per_batch

    @property
    def fps(self) -> float:
        """Frames a second of the base's last rollout, where it says so."""
        return getattr(self.base, "fps", 0.0)

    @property
    def _fps(self) -> float:  # the documents' name
        return self.fps

    @property
    def version(self) -> int:
        """Updates finished, as far as the collector was told; -1 before the first batch."""
        return self._version

    def stats(self) -> dict[str, float]:
        """Batches given and ready, and for how long the learner stood still for them."""
        return {"batches": self._taken, "ready": self._lane.ready, "waited_s": self._lane.waited_s}

    def shutdown(self) -> None:
        """Ends the thread after the batch it is collecting, and the base. May be called any number of times."""
        self._finalizer()
        self._lane.join()
        shutdown = getattr(self.base, "shutdown", None)
        if callable(shutdown) and not self._shut:
            self._shut = True
            shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    # -- what capturing needs (algo.capture) ---------------------------------------------------------------------------

    @property
    def acting(self) -> Any:
        """The copy of the policy that acts."""
        return self.policy if self._handover is None else self._handover.acting

    def act_with(self, policy: Any) -> None:
        """Lets another form of `acting` act, one that takes over its weights by itself."""
        self._own().policy = policy

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """As the base's."""
        self._own().capture_with(capture)

    def compile_with(self, compile: Callable[[Step, TensorEnv], Step]) -> None:
        """As the base's."""
        self._own().compile_with(compile)

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the batches after the last one given depend on. What is in flight is collected again, from where it began."""
        self._raise_if_closed()
        own = self._own("saved")
        assert self._handover is not None or not isinstance(own.policy, nn.Module)
        item = self._in_flight()
        before = self._line.state_dict() if item is None else item.before
        return {
            "taken": self._taken,
            "version": self._version,
            "frames": self._frames,
            "weights": {} if self._handover is None else self._handover.state_dict(),
            "episodes": {} if self.episodes is None else self.episodes.state_dict(),
            **_copied(before),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state`: on a CPU the next batches are the same bit for bit, given the learner's weights as they were."""
        self._raise_if_closed()
        self._own("loaded")
        self._lane.restart(state["taken"] + 1)
        self._line.load_state_dict(dict(state))
        if self._handover is not None:
            oldest = version_of(state["taken"] + 1, self.staleness)  # a state saved with older data holds more
            self._handover.load_state_dict({v: weights for v, weights in state["weights"].items() if int(v) >= oldest})
        if self.episodes is not None:
            self.episodes.load_state_dict(state["episodes"])
        self._taken, self._version, self._frames = state["taken"], state["version"], state["frames"]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _next(self) -> Any:
        """The next batch; None where there are no more."""
        self._raise_if_closed()
        if self._version < self._taken:
            self._publish()
        number = self._taken + 1
        self._lane.allow(UNLIMITED if self.staleness == UNLIMITED else number)
        made = self._lane.take()
        if made.is_end:
            return None
        if made.error is not None:
            try:
                raise made.error
            finally:
                del made  # or the error, by way of this frame, would hold itself and the collector
        batch = self._receive(made.item)
        self._taken = number
        if self.staleness != UNLIMITED:
            if self._handover is not None:
                self._handover.forget(version_of(number + 1, self.staleness))
            self._lane.allow(number + self.staleness)
        return batch

    def _publish(self) -> None:
        if self._handover is not None:
            self._handover.publish(self._taken)
        self._version = self._taken

    def _receive(self, item: Item) -> Any:
        """What the learner is given of an item; on a GPU its stream waits for the copy, its thread does not."""
        batch = item.batch
        if item.arrived is not None and self.device is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(item.arrived)
            for tensor in batch.values(include_nested=True, leaves_only=True):
                tensor.record_stream(stream)
        if self._fixed is not None:
            batch = self._fixed(batch)
        if item.drew_globally:
            warnings.warn(
                "the env or the policy draws from torch's global generator, in a thread of its own: runs repeat only if nothing else "
                "draws from it meanwhile. Draw from a torch.Generator of its own, or from slipstream.models.exploration.sampling_generator()",
                stacklevel=4,
            )
        self._frames = item.frames
        self._bad = item.bad
        if self.episodes is not None and item.sums is not None:
            if item.sums.is_cuda:
                item.sums.record_stream(torch.cuda.current_stream(item.sums.device))
            self.episodes.add(item.sums)
        return batch

    def _in_flight(self) -> Item | None:
        """The first batch that was begun and not given; one that is being collected is waited for."""
        if self._lane.peek() is None:
            self._lane.settle()
        return self._lane.peek()

    def _make_line(
        self, handover: Handover | None, seed: int | None, postproc: Any, fixed_memory: bool
    ) -> Courier | None:
        """Builds `self._line`; what copies batches on the learner's side, where that is to be done."""
        ours, moves = self._ours, self.device is not None
        beside = lane_stream = None
        if self.lane == "stream":
            assert ours is not None
            source = torch.empty(0, device=ours.env.device).device
            # The slot is collected into again as soon as the learner has taken its batch, so this is where it is copied.
            beside = Courier(self.device or source, fixed=fixed_memory)
        elif fixed_memory:
            raise ValueError("fixed_memory=True is for envs on a GPU (lane='stream')")
        elif moves and self.device is not None and self.device.type == "cuda":
            lane_stream = torch.cuda.Stream(self.device)
        courier = Courier(self.device) if moves and beside is None and self.device is not None else None
        rest = (handover, self.staleness, courier, postproc, lane_stream)
        if ours is None:
            self._line: Any = IterableLine(self.base, *rest)
        else:
            generator = None
            if self.lane == "thread":
                seed = int(torch.randint(2**62, ())) if seed is None else seed
                generator = torch.Generator(ours.env.device).manual_seed(seed)
            self._line = CollectorLine(ours, generator, self.lane == "thread", *rest)
        return beside

    def _start_lane(self, depth: int, threads: int) -> None:
        if self.lane == "stream":
            assert self._ours is not None
            self._lane: Any = StreamLane(self._line.make, self._ours.env.device)
        else:
            device = self.device if self._ours is None else torch.device(self._ours.env.device)
            set_threads = functools.partial(devices.set_threads, threads) if threads else devices.threads_here()
            self._lane = Worker(
                self._line.make, depth, "slipstream-collect", functools.partial(_prepare_thread, set_threads, device)
            )
        # The thread holds the lane and the line, neither of which holds the collector: dropped, it ends them.
        self._finalizer: Callable[[], Any] = weakref.finalize(self, self._lane.stop)

    def _own(self, what: str = "captured") -> SyncDataCollector:
        if self._ours is None:
            raise TypeError(
                f"a pipeline around {type(self.base).__name__} cannot be {what}: only around slipstream's SyncDataCollector"
            )
        return self._ours

    def _raise_if_closed(self) -> None:
        if self._lane.stopped:
            raise RuntimeError("this collector was shut down: build a new PipelinedDataCollector")


def _prepare_thread(set_threads: Callable[[], None], device: torch.device | None) -> None:
    if device is not None and device.type == "cuda":
        torch.cuda.set_device(device)  # threads begin on device 0
    set_threads()


def _copied(tree: Any) -> Any:
    """A state as copies, made on the current stream."""
    if isinstance(tree, dict):
        return {name: _copied(value) for name, value in tree.items()}
    return tree.clone() if isinstance(tree, Tensor) else tree
