"""What a pipeline runs beside the learner: a lane calls a producer, which takes over weights, collects one batch and
moves it to the device of the learner."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from slipstream.collectors.sync import SyncDataCollector
from slipstream.envs.rollout import Rollout
from slipstream.models.exploration import sample_from
from slipstream.sim.random import restore_generator
from slipstream.storage.background import BackgroundWorker

UNLIMITED = 1 << 62
_EXIT_TIMEOUT_S = 10.0  # that the interpreter's exit grants a thread to finish its item
_CHECK_INTERVAL_S = 1.0  # how often a caller that waits checks that the thread still exists


class EndOfItems(Exception):
    """Raised by `produce` when there are no more items."""


@dataclass
class Result:
    """The outcome of one `produce(number)`: an item, or the error in its place."""

    number: int
    item: Any = None
    error: BaseException | None = None
    queued: torch.cuda.Event | None = None  # behind its work, in a lane with a stream

    @property
    def is_end(self) -> bool:
        """Whether there are no more items."""
        return isinstance(self.error, EndOfItems)


class Lane:
    """Call `produce(1)`, `produce(2)`, ..., each once `allow(number)` was called; at most `depth` results wait.

    They are called in one thread. With `device`, a GPU, the caller's thread calls them and their work is queued on a
    CUDA stream: behind everything that the caller has queued so far, and beside what it queues later. A thread would
    only interfere there.

    After an error nothing is produced until it was taken, because later items would build on it; then the same number
    is produced again. All methods belong to one caller thread, except `stop`.

    Args:
        set_up: called first, in the thread.
    """

    def __init__(
        self,
        produce: Callable[[int], Any],
        depth: int,
        set_up: Callable[[], None] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._produce, self._depth, self._set_up = produce, depth, set_up
        self._worker = BackgroundWorker("collector thread", error=RuntimeError, on_exit=self._leave)
        # High priority: a rollout is a chain of small kernels, which fit beside the learner's large ones.
        self._stream = None if device is None else torch.cuda.Stream(device, priority=-1)
        self._results: deque[Future[Result]] = deque()
        self._next = 1  # the number to be produced
        self._allowed = 0
        self._failed = False
        self.stopped = False
        self.waited_s = 0.0  # time that the caller spent here; for the device's see the learner's timers

    def allow(self, number: int = 0) -> None:
        """Allow items up to `number`."""
        self._allowed = max(self._allowed, number)
        while self._next <= self._allowed and len(self._results) < self._depth and not (self._failed or self.stopped):
            submit = self._worker.submit if self._stream is None else self._queue
            self._results.append(submit(self._run, self._next))
            self._next += 1

    def take(self) -> Result:
        """Wait for the next result; on a GPU the caller's stream waits, not the host. The end is returned again and
        again."""
        self.allow()  # again, if the last result was an error
        if not self._results:
            raise RuntimeError("no item was allowed")
        start = time.perf_counter()
        result = self._wait(self._results[0])
        self.waited_s += time.perf_counter() - start
        if self._stream is not None and result.queued is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(result.queued)
        if not result.is_end:
            self._results.popleft()
            if result.error is not None:
                self._discard(result.number)
            else:
                self.allow()  # there is room for one more
        return result

    def settle(self) -> None:
        """Wait until nothing is produced and nothing more can be before the next `allow` or `take`."""
        for result in list(self._results):
            self._wait(result)
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)

    def restart(self, number: int) -> None:
        """Discard all items; the next one is `number`, once it is allowed."""
        self._allowed = 0
        self._discard(number)
        self.settle()

    @property
    def ready(self) -> int:
        """Items that wait to be taken."""
        return sum(result.done() for result in self._results)

    def stop(self) -> None:
        """End the thread after its current item. Waits for nothing: safe in a finalizer, in any thread, any number of
        times."""
        self.stopped = True
        self._worker.stop()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread."""
        self._worker.close(timeout)

    def _run(self, number: int) -> Result:
        if self._failed or self.stopped:
            return Result(number)  # it is discarded
        try:
            if self._set_up is not None:
                self._set_up()
                self._set_up = None
            return Result(number, self._produce(number))
        except BaseException as error:  # also SystemExit: the caller must receive it
            self._failed = True
            return Result(number, error=error)

    def _queue(self, run: Callable[[int], Result], number: int) -> Future[Result]:
        """Do in the caller's thread what the worker's `submit` does in its own."""
        assert self._stream is not None
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        start, future = time.perf_counter(), Future[Result]()
        with torch.cuda.stream(self._stream):
            result = run(number)
        self.waited_s += time.perf_counter() - start
        result.queued = self._stream.record_event()
        future.set_result(result)
        return future

    def _wait(self, future: Future[Result]) -> Result:
        while True:
            try:
                return future.result(_CHECK_INTERVAL_S)
            except TimeoutError:
                self._worker.check()  # raises after stop, and in a forked child
            except CancelledError:
                raise RuntimeError("the collector was stopped while a batch was awaited") from None

    def _discard(self, number: int) -> None:
        for result in self._results:
            if not result.cancel():
                self._wait(result)
        self._results.clear()
        self._next, self._failed = number, False

    def _leave(self) -> None:
        """Stop at the interpreter's exit: a thread inside of torch would crash it."""
        self.stop()
        self.join(_EXIT_TIMEOUT_S)


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
    """

    def __init__(self, policy: nn.Module, acting: nn.Module | None = None) -> None:
        self.acting = copy.deepcopy(policy).requires_grad_(False) if acting is None else acting
        self._learning, self._acting = tensors_of(policy), tensors_of(self.acting)
        if acting is not None:
            self._check_copy()
        self._versions: dict[int, list[Tensor]] = {}
        self._spare: list[list[Tensor]] = []  # memory of forgotten versions

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Store the learner's present weights as `version`."""
        held = self._spare.pop() if self._spare else [torch.empty_like(x) for x in self._learning.values()]
        _copy(held, list(self._learning.values()))
        self._versions[version] = held  # one store: the other thread sees a complete version or none

    @torch.no_grad()
    def take_over(self, version: int) -> None:
        """Let the acting copy act as `version` from now on."""
        _copy(list(self._acting.values()), self._versions[version])

    def forget(self, before: int) -> None:
        """Drop the versions below `before`."""
        self._spare += [self._versions.pop(version) for version in [*self._versions] if version < before]

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the versions held."""
        return {
            str(version): {name: x.clone() for name, x in zip(self._learning, held, strict=True)}
            for version, held in self._versions.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hold the versions of `state` and no others."""
        for version, saved in state.items():
            if saved.keys() != self._learning.keys():
                raise ValueError(f"version {version} of the saved weights is of another policy: build it as saved")
        self._versions = {
            int(version): [saved[name].to(x.device, copy=True) for name, x in self._learning.items()]
            for version, saved in state.items()
        }

    def _check_copy(self) -> None:
        theirs, mine = self._learning, self._acting
        if set.intersection(*({x.data_ptr() for x in own.values() if x.numel()} for own in (theirs, mine))):
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

    batch: Any  # a `Rollout`; of a base with a layout of its own what that returns
    frames: int  # collected so far, this batch included
    sums: Tensor | None = None  # of the episodes that ended in it
    bad: Tensor | None = None  # whether it has invalid actions
    drew_globally: bool = False  # the first batch drew from torch's global generator
    arrived: torch.cuda.Event | None = None


@dataclass
class Producer:
    """Produce item after item; called by one thread at a time. It knows the base collector, not the pipeline."""

    base: Any
    weights: WeightVersions | None  # the versions to act with; None if the base's weights are unknown
    staleness: int  # by how many updates a batch's weights are older than the learner's
    generator: torch.Generator | None  # what the policy draws from; None for torch's global generator
    checks: bool  # read back whether actions were invalid here, instead of leaving it to the learner
    postproc: Callable[[Any], Any] | None  # applied to every batch
    device: torch.device | None  # where batches are moved to; None leaves them
    stream: torch.cuda.Stream | None  # where the copies are queued; None for the current stream

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # held while a state is read
        self._begun: dict[
            int, tuple[dict[str, Any], Any]
        ] = {}  # by batch: what it is collected from, when that is read
        self._iterator: Iterator[Any] | None = None  # of a base that is not ours
        self._last: Any = None  # the object that it returned before
        self._failure = ""  # its error's text: the error's traceback would hold the learner's frames
        self._frames = 0

    def produce(self, number: int) -> Item:
        """Collect batch `number` with its version of the weights; raise `EndOfItems` if there is none."""
        version = version_of(number, self.staleness)
        if self.weights is not None:
            self.weights.take_over(version)
        item = self._collect(number) if isinstance(self.base, SyncDataCollector) else self._read()
        if self.weights is not None:
            item.batch = self._stamped(item.batch, version, self.weights.acting)
        if self.postproc is not None:
            is_rollout = isinstance(item.batch, Rollout)
            item.batch = self.postproc(item.batch.to_tensordict() if is_rollout else item.batch)
        if self.device is not None:
            with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
                item.batch = moved(item.batch, self.device)
                item.arrived = None if self.stream is None else self.stream.record_event()
        return item

    def _collect(self, number: int) -> Item:
        """Collect a rollout of a `SyncDataCollector`, whose random numbers, statistics and state are known."""
        base = self.base
        if 0 <= base.total_frames <= base.frames:
            raise EndOfItems
        with self._lock:
            self._begun[number] = self._present_state()
        # The learner waits for the first batch, so only this thread can change the global generator meanwhile.
        rng_state = torch.get_rng_state() if number == 1 and self.generator is not None else None
        try:
            with sample_from(self.generator):
                batch = base.collect_rollout(self.checks)
        except BaseException:
            self.forget(number)
            raise
        bad = None if self.checks else base.bad_actions.clone()
        drew = rng_state is not None and not torch.equal(rng_state, torch.get_rng_state())
        return Item(batch, base.frames, base.episodes.take(), bad, drew)

    def _read(self) -> Item:
        """Return the next batch of any iterable: TorchRL's collectors, data loaders, generators."""
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
        return Item(batch, self._frames)

    def _stamped(self, batch: Any, version: int, policy: Any) -> Any:
        """Return the batch with the version that collected it, and the policy's stamps: one number for all frames,
        which takes no memory."""
        device = batch.valid.device if isinstance(batch, Rollout) else getattr(batch, "device", None)
        stamps = {"policy_version": torch.full((), version, dtype=torch.int64, device=device)}
        if self.staleness and callable(getattr(policy, "stamps", None)):
            # copies: the acting policy moves on to other versions
            stamps |= {name: x.clone() for name, x in policy.stamps().items()}
        if isinstance(batch, Rollout):
            shape = batch.valid.shape
            return Rollout.of_rows({**batch.rows, **{(name,): x.expand(shape) for name, x in stamps.items()}})
        for name, x in stamps.items():
            batch[name] = x.expand(batch.batch_size)
        return batch

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_before(self, number: int) -> dict[str, Any]:
        """Return copies of the state that batch `number`, the next for the learner, is collected from. Does not wait
        for a batch that is being collected."""
        with self._lock:
            state, read = self._begun.get(number) or self._present_state()
        if read is not None:
            torch.cuda.current_stream(self.base.env.device).wait_event(read)
        return _clone(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Collect the next batch from `state`; nothing may be collected now."""
        self._begun.clear()
        self.base.load_state_dict(state["base"])
        if self.generator is not None:
            restore_generator(self.generator, state["generator"], "sampled actions")

    def forget(self, number: int) -> None:
        """Forget what a batch was collected from."""
        self._begun.pop(number, None)

    def _present_state(self) -> tuple[dict[str, Any], Any]:
        state: dict[str, Any] = {"base": self.base.state_dict()}
        if self.generator is not None:
            state["generator"] = self.generator.get_state()
        on_gpu = torch.device(self.base.env.device).type == "cuda"
        return state, torch.cuda.current_stream(self.base.env.device).record_event() if on_gpu else None


def moved(batch: Any, device: torch.device, into: Rollout | None = None) -> Any:
    """Return a copy of a batch on `device`, a rollout in the memory of the copy `into` if that is given."""
    if isinstance(batch, Rollout):
        return batch.copy(device, into)
    return (batch.clone() if isinstance(batch, TensorDictBase) else batch).to(device)


def _clone(tree: Any) -> Any:
    """Copy nested dicts of tensors, on the current stream."""
    if isinstance(tree, dict):
        return {name: _clone(value) for name, value in tree.items()}
    return tree.clone() if isinstance(tree, Tensor) else tree
