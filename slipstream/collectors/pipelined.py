"""PipelinedDataCollector: collect the next batch and move it to the learner's device while the learner works on this
one."""

from __future__ import annotations

import copy
import functools
import warnings
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from slipstream.collectors.compressed import compression
from slipstream.collectors.episodes import EpisodeStatistics
from slipstream.collectors.sync import SyncDataCollector
from slipstream.config.schema import CollectConfig
from slipstream.config.validation import check_range
from slipstream.envs.base import TensorEnv
from slipstream.envs.collector import Collector
from slipstream.envs.rollout import Rollout
from slipstream.models.exploration import sample_from
from slipstream.sim import devices
from slipstream.sim.random import restore_generator
from slipstream.storage.background import BackgroundWorker

UNLIMITED = 1 << 62
SHUTDOWN_TIMEOUT_S = 300.0  # a rollout may take minutes
EXIT_TIMEOUT_S = 10.0  # that the interpreter's exit grants a thread to finish its batch


class EndOfBatches(RuntimeError):
    """The base has no more batches."""

    def __init__(self) -> None:
        super().__init__("the base collector has returned all its batches: raise its total_frames")


def tensors_of(policy: Any) -> dict[str, Tensor]:
    """Return all parameters and buffers of a module by name, also buffers that are not saved; a function has none."""
    return dict([*policy.named_parameters(), *policy.named_buffers()]) if isinstance(policy, nn.Module) else {}


@dataclass
class Item:
    """A batch on its way to the learner, or the error in its place."""

    batch: Any = None  # a `Rollout`; of a base with a layout of its own what that returns
    error: BaseException | None = None
    frames: int = 0  # collected so far, this batch included
    episodes: tuple[Tensor, tuple[str, ...]] | None = None  # sums and names of those that ended in it
    bad: Tensor | None = None  # whether it has invalid actions; None if that is known already
    state: dict[str, Any] = field(default_factory=dict)  # what the next batch is collected from
    ready: torch.cuda.Event | None = None  # behind its work on another stream than the learner's


class Producer:
    """Read the batches of any iterable: TorchRL's collectors, data loaders, generators.

    It does not know the pipeline, so that this can be dropped while the thread works. After an error, later batches are
    not collected until `failed` is set back: they would build on it.

    Args:
        base: the iterable.
        device: where the thread moves batches; None leaves them.
        threads: CPU threads of the thread; 0 for as many as the calling thread has.
    """

    acting: nn.Module | None = None  # the copy of the policy that acts; None if weights are unknown
    generator: torch.Generator | None = None  # what the policy draws from; None for torch's global generator
    in_thread = True  # otherwise the caller's thread queues rollouts on `stream`

    def __init__(self, base: Any, device: torch.device | None, threads: int) -> None:
        self.base, self.device = base, device
        self._set_up = functools.partial(devices.set_threads, threads) if threads else devices.threads_here()
        # in a thread, that of the copies to a GPU
        self.stream = torch.cuda.Stream(device) if device is not None and device.type == "cuda" else None
        self.failed, self._frames = False, 0
        self._batches: Iterator[Any] | None = None
        self._last: Any = None  # the object that the base returned before
        self._failure = ""  # its error's text: the error's traceback would hold the learner's frames

    def run(self, version: int, weights: list[Tensor]) -> Item:
        """Return the next batch, collected with `weights`, or the error in its place."""
        if self.failed:
            return Item()  # it is discarded
        try:
            if self.in_thread:
                self._set_up()
            item = self.collect(version, weights)
            if self.device is not None:
                with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
                    item.batch = moved(item.batch, self.device)
            item.ready = None if self.stream is None else self.stream.record_event()
            return item
        except BaseException as error:  # also SystemExit: the caller must receive it
            self.failed = True
            return Item(error=error)

    def collect(self, version: int, weights: list[Tensor]) -> Item:
        """Return the next batch of the base, whose weights are unknown."""
        if self._failure:  # a failed iterator is exhausted, which must not look like a normal end
            raise RuntimeError(f"the base collector failed before ({self._failure}) and has no more batches")
        try:
            if self._batches is None:
                self._batches = iter(self.base)
            batch = next(self._batches)
        except StopIteration:
            raise EndOfBatches from None
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

    def state(self) -> dict[str, Any]:
        """Return copies of what the next batch is collected from; nothing may be collected now."""
        return {}


class RolloutProducer(Producer):
    """Collect rollouts of a `SyncDataCollector`, whose random numbers, statistics and state are known.

    Args:
        base, device, threads: as of `Producer`.
        stale: whether the weights that collect may be older than those that learn.
        seed: of what the policy draws; None draws one from torch's global generator.
    """

    def __init__(
        self, base: SyncDataCollector, device: torch.device | None, threads: int, stale: bool, seed: int | None
    ) -> None:
        super().__init__(base, device, threads)
        self._stale, self.in_thread = stale, not queues_on_stream(base)
        if tensors_of(base.policy):
            self.acting = base.policy = copy.deepcopy(base.policy).requires_grad_(False)  # type: ignore[attr-defined]
        if self.in_thread:
            seed = int(torch.randint(2**62, ())) if seed is None else seed
            self.generator = torch.Generator(base.env.device).manual_seed(seed)
        else:
            # High priority: a rollout is a chain of small kernels, which fit beside the learner's large ones.
            self.device, self.stream = None, torch.cuda.Stream(base.env.device, priority=-1)

    def collect(self, version: int, weights: list[Tensor]) -> Item:
        """Collect a rollout with `weights`."""
        base = self.base
        if 0 <= base.total_frames <= base.frames:
            raise EndOfBatches
        if self.acting is not None:
            torch._foreach_copy_(list(tensors_of(self.acting).values()), weights)
        # The learner waits for the first batch, so only this thread can change the global generator meanwhile.
        rng_state = torch.get_rng_state() if self.generator is not None and not base.frames else None
        with sample_from(self.generator):
            batch = base.collect_rollout(check=self.in_thread)
        if rng_state is not None and not torch.equal(rng_state, torch.get_rng_state()):
            warnings.warn(
                "the env or the policy draws from torch's global generator in the collecting thread: runs repeat only if nothing else "
                "draws from it. Draw from a torch.Generator of your own, or from slipstream.models.exploration.sampling_generator()",
                stacklevel=2,
            )
        if self.acting is not None:
            batch = self._stamped(batch, version)
        bad = None if self.in_thread else base.bad_actions.clone()
        return Item(batch, None, base.frames, (base.episodes.take(), base.episodes.info_names), bad, self.state())

    def _stamped(self, batch: Any, version: int) -> Any:
        """Return the batch with the version that collected it, and the policy's stamps: one number for all frames,
        which takes no memory."""
        stamps = {"policy_version": torch.full((), version, dtype=torch.int64, device=self.base.device)}
        if self._stale and callable(getattr(self.acting, "stamps", None)):
            # copies: the acting policy moves on to other versions
            stamps |= {name: x.clone() for name, x in self.acting.stamps().items()}  # type: ignore[union-attr, operator]
        if isinstance(batch, Rollout):
            shape = batch.valid.shape
            return Rollout.of_rows({**batch.rows, **{(name,): x.expand(shape) for name, x in stamps.items()}})
        for name, x in stamps.items():
            batch[name] = x.expand(batch.batch_size)
        return batch

    def state(self) -> dict[str, Any]:
        """Return copies of what the next batch is collected from; nothing may be collected now."""
        state = {"base": self.base.state_dict()}
        return state if self.generator is None else {**state, "generator": self.generator.get_state()}


class PipelinedDataCollector(Collector):
    """Collect the batches of `base_collector` beside the learner. Which weights collect which batch does not depend on
    timing.

    Asking for a batch means that the update before it is finished: its weights are published as the version that counts
    finished updates. Batch k is collected with version k - 1 (`on_policy=True`; it starts when that version is
    published) or with version k - 1 - `max_staleness` (`on_policy=False`; the first batches with version 0).
    `publish()` says the same earlier, right after the update: collecting then also runs beside logging, evaluating and
    saving.

    A batch has its version as `batch["policy_version"]`, int64 [N, T]; `log_prob` and `value` are of that version. If
    the data are older than the weights that learn and the policy has a method `stamps()`, the tensors [] that it
    returns are stored too: an `ActorCritic` returns the mean and deviation that its values are normalized with.

    An env on a GPU has no thread: the caller's thread queues rollouts on a CUDA stream beside the update. Shutting down
    also shuts down the base.

    Args:
        base_collector: a SyncDataCollector, over an env of ours or of TorchRL, whose policy acts as a copy from now on;
            or a TorchRL collector or any iterable of TensorDicts, which is read ahead: nothing is known of its weights.
        device: where the batches are delivered; None leaves them where the base returns them.
        prefetch_count: batches that may wait for the learner. It bounds memory; the versions bound collecting ahead.
        on_policy: collect every batch with the newest weights.
        max_staleness: updates between the weights that collect and those that learn, otherwise.
        threads: CPU threads of the collecting thread; 0 for as many as the calling thread has.
        seed: of the collecting thread's random numbers; None draws one from torch's global generator.
    """

    runs_ahead = True

    def __init__(
        self,
        base_collector: Any,
        device: Any = None,
        prefetch_count: int = 2,
        *,
        on_policy: bool = False,
        max_staleness: int = 1,
        threads: int = 0,
        seed: int | None = None,
    ) -> None:
        self.prefetch_count, self.max_staleness, self.threads = prefetch_count, max_staleness, threads
        check_range(self, "prefetch_count", minimum=1)
        check_range(self, "max_staleness", minimum=1, hint="; for fresh data use on_policy=True")
        check_range(self, "threads", minimum=0)
        self.base, self.policy = base_collector, getattr(base_collector, "policy", None)
        self.device = None if device is None else torch.empty(0, device=device).device
        self.frames_per_batch = getattr(base_collector, "frames_per_batch", 0)
        # Updates between the weights that collect and those that learn; a base of unknown weights is only read ahead.
        self.staleness = 0 if on_policy else UNLIMITED
        self._producer: Producer
        if isinstance(base_collector, SyncDataCollector):
            self.staleness = min(self.staleness, max_staleness)
            self.episodes = EpisodeStatistics(base_collector.env.num_envs, base_collector.env.device)
            self._producer = RolloutProducer(base_collector, self.device, threads, self.staleness > 0, seed)
        else:
            self.episodes = EpisodeStatistics(0)
            self._producer = Producer(base_collector, self.device, threads)
            if tensors_of(self.policy) and not on_policy:
                warnings.warn(
                    "the base collector has a policy and is read ahead: if you train that module, it acts while its weights are "
                    "written. Use a SyncDataCollector (it takes TorchRL's envs), a copy.deepcopy of the policy, or on_policy=True",
                    stacklevel=2,
                )
        if self._producer.in_thread and getattr(base_collector, "return_same_td", False):
            raise ValueError("return_same_td=True would overwrite batches while the learner reads them: leave it out")
        if not self._producer.in_thread and self.staleness > 1:
            raise ValueError(f"max_staleness={max_staleness} gains nothing on a GPU, where rollouts queue up: use 1")
        self._learning = [] if self._producer.acting is None else list(tensors_of(self.policy).values())
        self._versions: dict[int, list[Tensor]] = {}  # copies of the weights, which nobody writes to
        # Batches collected and not delivered; one more with `publish`.
        self._ahead = min(prefetch_count, self.staleness + 1) if self._producer.in_thread else 1
        self._worker = worker = BackgroundWorker("collector thread", error=RuntimeError, on_exit=lambda: _leave(worker))
        self._finalizer = weakref.finalize(self, worker.stop)
        self._items: deque[Future[Item]] = deque()
        self._state: dict[str, Any] | None = None  # what the next batch is collected from; None for the present state
        self._fixed: Rollout | None = None  # the copy that is written again
        self._taken = 0  # batches delivered
        self.version = -1  # the last one published: finished updates
        self._bad: Tensor | None = None
        self._callers_threads = 0  # before `build` took some; 0: it took none

    @classmethod
    def build(cls, env: TensorEnv, policy: Any, frames: int, settings: CollectConfig, seed: int) -> Collector:
        """Return the collector of a training, with batches of `frames` frames. On a CPU it takes `settings.threads`
        threads, by default half, from those of the caller, who has them again after `shutdown`."""
        on_gpu, threads, total = env.device.type == "cuda", 0, torch.get_num_threads()
        if not on_gpu:
            devices.check_threads(settings.threads, "collect.threads")
            threads = settings.threads or max(1, total // 2)
            devices.set_threads(max(1, total - threads))
        collector = cls(
            SyncDataCollector(env, policy, frames, return_same_td=on_gpu, postproc=compression(settings)),
            prefetch_count=settings.prefetch_count,
            on_policy=settings.pipeline == "on_policy",
            max_staleness=settings.max_staleness,
            threads=threads,
            seed=seed,
        )
        collector._callers_threads = total if threads else 0
        return collector

    # -- public interface --------------------------------------------------------------------------------------------

    def rollout(self, check: bool = True) -> Any:
        """Return the next batch [N, T]. An error while collecting it is raised here, with its traceback."""
        return as_tensordict(self.collect_rollout(check))

    collect = rollout

    def __iter__(self) -> Iterator[Any]:
        """Yield batches until the base has no more. Leaving the loop early loses none: a later loop continues behind
        it."""
        with suppress(EndOfBatches):
            while True:
                yield as_tensordict(self._next())

    iterator = __iter__

    def collect_rollout(self, check: bool = True) -> Any:
        """Return the next batch, of a `SyncDataCollector` as a `Rollout`."""
        batch = self._next()
        if check:
            self.check()
        return batch

    def publish(self) -> None:
        """Say that the update of the last batch is finished: its weights are final, and the next batch may start."""
        self._raise_if_closed()
        if self.version >= self._taken:
            raise RuntimeError("publish() once for each batch, after its update: these weights are already published")
        if self._learning:
            weights = [torch.empty_like(x) for x in self._learning]
            with torch.no_grad():
                torch._foreach_copy_(weights, self._learning)  # a few kernels on a GPU
            self._versions[self._taken] = weights
        self.version = self._taken
        if self._taken:
            self._start_batches()

    def check(self) -> None:
        """Raise if the last batch has invalid actions. A collecting thread checks by itself, and has raised already."""
        if self._bad is not None and self._bad:
            self._ours().check()

    def settle(self) -> None:
        """Wait until nothing is collected beside the caller: before the env is used, or native code that is not
        reentrant."""
        for item in list(self._items):
            self._wait(item)
        stream = self._producer.stream
        if stream is not None:
            torch.cuda.current_stream(stream.device).wait_stream(stream)

    @property
    def bad_actions(self) -> Tensor:
        """Whether the last batch has invalid actions: bool [], on the device."""
        if self._bad is not None:
            return self._bad
        return torch.zeros((), dtype=torch.bool, device=self._ours().env.device)

    @property
    def fps(self) -> float:
        """Frames per second of the base's last rollout; 0 if it has none."""
        return getattr(self.base, "fps", 0.0)

    def shutdown(self, timeout: float = SHUTDOWN_TIMEOUT_S) -> None:
        """End the thread after its current batch, and the base. May be called any number of times.

        An env that has not finished its rollout within `timeout` seconds is left alone, with a warning.
        """
        is_first, self._closed = not self._closed, True
        self._finalizer()
        try:
            self._worker.close(timeout)
        except RuntimeError:
            hanging = type(getattr(self.base, "env", self.base)).__name__
            text = f"{hanging} has not finished its rollout {timeout:g} s after shutdown: its thread is left alone"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return
        if is_first:
            if self._callers_threads:  # whichever of several is shut down last
                devices.set_threads(max(self._callers_threads, torch.get_num_threads()))
            getattr(self.base, "shutdown", lambda: None)()

    # -- for algorithms.execution --------------------------------------------------------------------------------------

    @property
    def inner(self) -> Collector:
        """The base."""
        return self._ours()

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next batches depend on. Batches in flight are collected again after a load; one
        that is being collected is not waited for."""
        self._raise_if_closed()
        self._ours()
        return {
            "taken": self._taken,
            "version": self.version,
            "frames": self.frames,
            "weights": {str(version): weights for version, weights in self._versions.items()},
            "episodes": self.episodes.state_dict(),
            **(self._producer.state() if self._state is None else self._state),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`: on a CPU the next batches are the same bit for bit, if the learner's weights are."""
        self._raise_if_closed()
        base, generator = self._ours(), self._producer.generator
        self._discard()
        base.load_state_dict(state["base"])
        if generator is not None:
            restore_generator(generator, state["generator"], "sampled actions")
        self._versions = {
            int(version): [x.to(mine.device, copy=True) for x, mine in zip(weights, self._learning, strict=True)]
            for version, weights in state["weights"].items()
        }
        self.episodes.load_state_dict(state["episodes"])
        self._taken, self.version, self._frames = state["taken"], state["version"], state["frames"]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _next(self) -> Any:
        """Return the next batch; raise its error, or `EndOfBatches`."""
        self._raise_if_closed()
        if self.version < self._taken:
            self.publish()
        self._start_batches()
        item = self._wait(self._items[0])
        if item.error is not None:
            self._discard()
            try:
                raise item.error
            finally:
                del item  # or the error would, through this frame, hold itself and the collector
        self._items.popleft()
        batch = self._receive(item)
        self._taken += 1
        self._start_batches()
        return batch

    def _version_of(self, number: int) -> int:
        """Return the version of the weights that batch `number`, counted from 1, is collected with."""
        return max(0, number - 1 - self.staleness)

    def _start_batches(self) -> None:
        """Start the batches whose weights are published, as far as there is room; the first one alone. Drop the
        versions that no later batch is collected with."""
        oldest = self._version_of(self._taken + 1)
        self._versions = {version: weights for version, weights in self._versions.items() if version >= oldest}
        last = self.version + 1 + self.staleness if self._taken else 1
        while (number := self._taken + len(self._items) + 1) <= last and len(self._items) < self._ahead:
            if self._state is None:
                self._state = self._producer.state()
            version = self._version_of(number)
            self._items.append(self._start(version, self._versions.get(version, [])))

    def _start(self, *work: Any) -> Future[Item]:
        """Collect a batch: in the thread, or now, as work on the stream behind all that is queued so far."""
        stream = self._producer.stream
        if self._producer.in_thread or stream is None:
            return self._worker.submit(self._producer.run, *work)
        stream.wait_stream(torch.cuda.current_stream(stream.device))
        future = Future[Item]()
        with torch.cuda.stream(stream):
            future.set_result(self._producer.run(*work))
        return future

    def _wait(self, future: Future[Item]) -> Item:
        """Return what `_start` promised."""
        self._worker.check()  # raises after a stop, and in a forked child
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError("the collector was stopped while a batch was awaited") from None

    def _discard(self) -> None:
        """Discard the batches that are not delivered: they are collected again."""
        self._producer.failed = True
        self.settle()
        self._items.clear()
        self._state, self._producer.failed = None, False

    def _receive(self, item: Item) -> Any:
        """Return the item's batch. On a GPU the learner's stream waits for it, its thread does not."""
        batch, stream, in_thread = item.batch, self._producer.stream, self._producer.in_thread
        if item.ready is not None and stream is not None:
            learner = torch.cuda.current_stream(stream.device)
            learner.wait_event(item.ready)
            if in_thread:
                tensors = batch.rows.values() if isinstance(batch, Rollout) else batch.values(True, True)
                for tensor in tensors:
                    tensor.record_stream(learner)
        if not in_thread:
            # The base collects again as soon as the learner has taken its batch, so the learner's side copies. With
            # `return_same_td` it copies to the same memory: an update that is captured as a graph reads there.
            base = self._ours()
            batch = moved(batch, self.device or base.device, self._fixed)
            self._fixed = batch if base.return_same_td and isinstance(batch, Rollout) else None
        self._frames, self._bad, self._state = item.frames, item.bad, item.state
        if item.episodes is not None:
            sums, names = item.episodes
            if sums.is_cuda:
                sums.record_stream(torch.cuda.current_stream(sums.device))
            self.episodes.add(sums, names)
        return batch

    def _ours(self) -> SyncDataCollector:
        """Return the base; raise TypeError if it is not ours."""
        if not isinstance(self.base, SyncDataCollector):
            base = type(self.base).__name__
            raise TypeError(f"a pipeline around {base} cannot be saved, loaded or captured: use a SyncDataCollector")
        return self.base


def moved(batch: Any, device: torch.device, into: Rollout | None = None) -> Any:
    """Return a copy of a batch on `device`, a rollout in the memory of the copy `into` if that is given."""
    if isinstance(batch, Rollout):
        return batch.copy(device, into)
    return (batch.clone() if isinstance(batch, TensorDictBase) else batch).to(device)


def as_tensordict(batch: Any) -> Any:
    """Return a `Rollout` as users see it; other batches as they are."""
    return batch.to_tensordict() if isinstance(batch, Rollout) else batch


def queues_on_stream(base: SyncDataCollector) -> bool:
    """Return whether rollouts are queued on a stream instead of collected in a thread: if the env is on a GPU, where a
    thread would only interfere."""
    return torch.device(base.env.device).type == "cuda"


def _leave(worker: BackgroundWorker) -> None:
    """Stop at the interpreter's exit: a thread inside of torch would crash it."""
    worker.stop()
    worker.close(EXIT_TIMEOUT_S)
