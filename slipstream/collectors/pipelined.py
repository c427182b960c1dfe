"""PipelinedDataCollector: collect the next batch and move it to the learner's device while the learner works on this
one."""

from __future__ import annotations

import copy
import functools
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from slipstream.collectors.compressed import compression
from slipstream.collectors.episodes import EpisodeStatistics
from slipstream.collectors.sync import SyncDataCollector
from slipstream.config.schema import CollectConfig
from slipstream.config.validation import check_range
from slipstream.envs.base import TensorEnv
from slipstream.envs.collector import Collector
from slipstream.envs.rollout import Rollout
from slipstream.envs.specs import Step
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


@dataclass
class Item:
    """A batch on its way to the learner, or the error in its place."""

    batch: Any = None  # a `Rollout`; of a base with a layout of its own what that returns
    error: BaseException | None = None
    frames: int = 0  # collected so far, this batch included
    episodes: tuple[Tensor, tuple[str, ...]] | None = None  # sums and names of those that ended in it
    bad: Tensor | None = None  # whether it has invalid actions; None if that is known already
    drew_globally: bool = False  # the first batch drew from torch's global generator
    state: dict[str, Any] = field(default_factory=dict)  # what the next batch is collected from
    ready: torch.cuda.Event | None = None  # behind its work on another stream than the learner's


class WeightVersions:
    """Keep versions of the weights of `policy`, counted from 0, and `acting`, the copy of it that acts.

    The learner calls `publish`, the collector `take_over`. A version is a copy that nobody writes to, so the learner
    may continue at once; the acting copy changes only in `take_over`. Versions are kept until `forget`.
    """

    def __init__(self, policy: nn.Module) -> None:
        self.acting = copy.deepcopy(policy).requires_grad_(False)
        self._learning, self._acting = list(tensors_of(policy).values()), list(tensors_of(self.acting).values())
        self.held: dict[int, list[Tensor]] = {}

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Store the learner's present weights as `version`."""
        weights = [torch.empty_like(x) for x in self._learning]
        torch._foreach_copy_(weights, self._learning)  # a few kernels on a GPU
        self.held[version] = weights  # one store: the other thread sees a complete version or none

    @torch.no_grad()
    def take_over(self, version: int) -> None:
        """Let the acting copy act as `version` from now on."""
        torch._foreach_copy_(self._acting, self.held[version])

    def forget(self, before: int) -> None:
        """Drop the versions below `before`."""
        self.held = {version: weights for version, weights in self.held.items() if version >= before}

    def load(self, state: Mapping[str, list[Tensor]]) -> None:
        """Hold the versions of a saved `held` and no others."""
        self.held = {
            int(version): [x.to(mine.device, copy=True) for x, mine in zip(weights, self._learning, strict=True)]
            for version, weights in state.items()
        }


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers of a module by name, also buffers that are not saved."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def version_of(number: int, staleness: int) -> int:
    """Return the version of the weights that batch `number`, counted from 1, is collected with."""
    return max(0, number - 1 - staleness)


@dataclass
class Producer:
    """Collect batch after batch, in a thread, or on a CUDA stream. It does not know the pipeline, so that this can be
    dropped while the thread works.

    After an error, later batches are not collected until `failed` is set back: they would build on it.
    """

    base: Any
    weights: WeightVersions | None  # the versions to act with; None if the base's weights are unknown
    staleness: int  # by how many updates a batch's weights are older than the learner's
    generator: torch.Generator | None  # what the policy draws from; None for torch's global generator
    device: torch.device | None  # where the thread moves batches; None leaves them
    set_up: Callable[[], None]  # called in the thread
    in_thread: bool  # otherwise the caller's thread queues rollouts on `stream`
    stream: torch.cuda.Stream | None  # in a thread, that of the copies to a GPU

    def __post_init__(self) -> None:
        self._iterator: Iterator[Any] | None = None  # of a base that is not ours
        self._last: Any = None  # the object that it returned before
        self._failure = ""  # its error's text: the error's traceback would hold the learner's frames
        self._frames = 0
        self.failed = False

    def run(self, number: int) -> Item:
        """Return batch `number`, or the error in its place."""
        if self.failed:
            return Item()  # it is discarded
        try:
            if self.in_thread:
                self.set_up()
            item = self._collect(number) if isinstance(self.base, SyncDataCollector) else self._read()
            if self.in_thread and self.device is not None:
                with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
                    item.batch = moved(item.batch, self.device)
            item.ready = None if self.stream is None else self.stream.record_event()
            return item
        except BaseException as error:  # also SystemExit: the caller must receive it
            self.failed = True
            return Item(error=error)

    def _collect(self, number: int) -> Item:
        """Collect a rollout of a `SyncDataCollector`, whose random numbers, statistics and state are known."""
        base, version = self.base, version_of(number, self.staleness)
        if 0 <= base.total_frames <= base.frames:
            raise EndOfBatches
        if self.weights is not None:
            self.weights.take_over(version)
        # The learner waits for the first batch, so only this thread can change the global generator meanwhile.
        rng_state = torch.get_rng_state() if number == 1 and self.generator is not None else None
        with sample_from(self.generator):
            batch = base.collect_rollout(check=self.in_thread)
        drew = rng_state is not None and not torch.equal(rng_state, torch.get_rng_state())
        bad = None if self.in_thread else base.bad_actions.clone()
        if self.weights is not None:
            batch = self._stamped(batch, version, self.weights.acting)
        episodes = base.episodes.take(), base.episodes.info_names
        return Item(batch, None, base.frames, episodes, bad, drew, self.state())

    def _read(self) -> Item:
        """Return the next batch of any iterable: TorchRL's collectors, data loaders, generators."""
        if self._failure:  # a failed iterator is exhausted, which must not look like a normal end
            raise RuntimeError(f"the base collector failed before ({self._failure}) and has no more batches")
        try:
            if self._iterator is None:
                self._iterator = iter(self.base)
            batch = next(self._iterator)
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

    def _stamped(self, batch: Any, version: int, policy: Any) -> Any:
        """Return the batch with the version that collected it, and the policy's stamps: one number for all frames,
        which takes no memory."""
        stamps = {"policy_version": torch.full((), version, dtype=torch.int64, device=self.base.device)}
        if self.staleness and callable(getattr(policy, "stamps", None)):
            # copies: the acting policy moves on to other versions
            stamps |= {name: x.clone() for name, x in policy.stamps().items()}
        if isinstance(batch, Rollout):
            shape = batch.valid.shape
            return Rollout.of_rows({**batch.rows, **{(name,): x.expand(shape) for name, x in stamps.items()}})
        for name, x in stamps.items():
            batch[name] = x.expand(batch.batch_size)
        return batch

    def state(self) -> dict[str, Any]:
        """Return copies of what the next batch is collected from; nothing may be collected now."""
        if not isinstance(self.base, SyncDataCollector):
            return {}
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
        self.base, self.on_policy = base_collector, on_policy
        self.device = None if device is None else torch.empty(0, device=device).device
        self.policy = getattr(base_collector, "policy", None)
        self.frames_per_batch = getattr(base_collector, "frames_per_batch", 0)
        is_ours = isinstance(base_collector, SyncDataCollector)
        has_weights = isinstance(self.policy, nn.Module) and bool(tensors_of(self.policy))
        env_device = torch.device(base_collector.env.device) if is_ours else self.device
        on_stream = is_ours and queues_on_stream(base_collector)
        # Updates between the weights that collect and those that learn; a base of unknown weights is only read ahead.
        self.staleness = 0 if on_policy else max_staleness if is_ours else UNLIMITED
        self.episodes = EpisodeStatistics(base_collector.env.num_envs, env_device or "cpu") if is_ours else None
        self._weights = WeightVersions(self.policy) if is_ours and has_weights else None
        generator = None
        if self._weights is not None:
            base_collector.policy = self._weights.acting
        elif has_weights and not on_policy:
            warnings.warn(
                "the base collector has a policy and is read ahead: if you train that module, it acts while its weights are "
                "written. Use a SyncDataCollector (it takes TorchRL's envs), a copy.deepcopy of the policy, or on_policy=True",
                stacklevel=2,
            )
        if is_ours and not on_stream:
            seed = int(torch.randint(2**62, ())) if seed is None else seed
            generator = torch.Generator(env_device or "cpu").manual_seed(seed)
        if on_stream and self.staleness > 1:
            raise ValueError(f"max_staleness={max_staleness} gains nothing on a GPU, where rollouts queue up: use 1")
        # Batches collected and not delivered; one more with `publish`.
        self._ahead = 1 if on_stream else min(prefetch_count, self.staleness + 1)
        stream: torch.cuda.Stream | None = None
        if on_stream:
            # High priority: a rollout is a chain of small kernels, which fit beside the learner's large ones.
            stream = torch.cuda.Stream(env_device, priority=-1)
        else:
            _check_ring(base_collector, self._ahead)
            if self.device is not None and self.device.type == "cuda":
                stream = torch.cuda.Stream(self.device)
        self._producer = Producer(
            base_collector,
            self._weights,
            self.staleness,
            generator,
            self.device,
            functools.partial(devices.set_threads, threads) if threads else devices.threads_here(),
            in_thread=not on_stream,
            stream=stream,
        )
        self._worker = worker = BackgroundWorker("collector thread", error=RuntimeError, on_exit=lambda: _leave(worker))
        self._finalizer = weakref.finalize(self, worker.stop)
        self._items: deque[Future[Item]] = deque()
        self._state: dict[str, Any] | None = None  # what the next batch is collected from; None for the present state
        self._number = 1  # of the batch to be started next
        self._allowed = 0  # the last batch that may be started
        self._fixed: Rollout | None = None  # the copy that is written again
        self._taken = 0  # batches delivered
        self.version = -1  # the last one published: finished updates
        self._bad: Tensor | None = None

    @classmethod
    def build(cls, env: TensorEnv, policy: Any, frames: int, settings: CollectConfig, seed: int) -> Collector:
        """Return the collector of a training, with batches of `frames` frames. On a CPU it takes `settings.threads`
        threads, by default half, from those of the caller."""
        on_gpu, threads = env.device.type == "cuda", 0
        if not on_gpu:
            total = torch.get_num_threads()
            devices.check_threads(settings.threads, "collect.threads")
            threads = settings.threads or max(1, total // 2)
            devices.set_threads(max(1, total - threads))
        on_policy = settings.pipeline == "on_policy"
        ring_size = 1 if on_gpu else 2 + (0 if on_policy else settings.max_staleness)
        compress = compression(settings)
        return cls(
            SyncDataCollector(env, policy, frames, return_same_td=True, ring_size=ring_size, postproc=compress),
            prefetch_count=settings.prefetch_count,
            on_policy=on_policy,
            max_staleness=settings.max_staleness,
            threads=threads,
            seed=seed,
        )

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
        if self._weights is not None:
            self._weights.publish(self._taken)
        self.version = self._taken
        if self._taken:
            self._allow(self._taken + 1 + self.staleness)

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
            getattr(self.base, "shutdown", lambda: None)()

    # -- for algorithms.execution --------------------------------------------------------------------------------------

    @property
    def acting(self) -> Any:
        """The copy of the policy that acts."""
        return self.policy if self._weights is None else self._weights.acting

    def act_with(self, policy: Any) -> None:
        """Let the base act with another form of `acting`; that takes over its weights by itself."""
        self._ours().act_with(policy)

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Wrap the device work of the base's rollouts."""
        self._ours().capture_with(capture)

    def compile_with(self, compile: Callable[[Step, TensorEnv], Step]) -> None:
        """Wrap the device work of the base's steps."""
        self._ours().compile_with(compile)

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next batches depend on. Batches in flight are collected again after a load; one
        that is being collected is not waited for."""
        self._raise_if_closed()
        self._ours()
        state = {
            "taken": self._taken,
            "version": self.version,
            "frames": self.frames,
            "weights": {} if self._weights is None else {str(v): weights for v, weights in self._weights.held.items()},
            **(self._producer.state() if self._state is None else self._state),
        }
        episodes = {} if self.episodes is None else self.episodes.state_dict()
        return tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, state) | {"episodes": episodes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`: on a CPU the next batches are the same bit for bit, if the learner's weights are."""
        self._raise_if_closed()
        base, generator = self._ours(), self._producer.generator
        self._restart(state["taken"] + 1)
        self._allowed = 0
        base.load_state_dict(state["base"])
        if generator is not None:
            restore_generator(generator, state["generator"], "sampled actions")
        if self._weights is not None:
            oldest = version_of(state["taken"] + 1, self.staleness)  # a run with a larger staleness saved more
            self._weights.load(state["weights"])
            self._weights.forget(oldest)
        if self.episodes is not None:
            self.episodes.load_state_dict(state["episodes"])
        self._taken, self.version, self._frames = state["taken"], state["version"], state["frames"]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _next(self) -> Any:
        """Return the next batch; raise its error, or `EndOfBatches`."""
        self._raise_if_closed()
        if self.version < self._taken:
            self.publish()
        number = self._taken + 1
        self._allow(number)
        item = self._wait(self._items[0])
        self._items.popleft()
        if item.error is not None:
            self._restart(number)
            try:
                raise item.error
            finally:
                del item  # or the error would, through this frame, hold itself and the collector
        batch = self._receive(item)
        self._taken = number
        if self._weights is not None:
            self._weights.forget(version_of(number + 1, self.staleness))
        self._allow(number + self.staleness)
        return batch

    def _allow(self, number: int) -> None:
        """Let the batches up to `number` be collected, as far as there is room."""
        self._allowed = max(self._allowed, number)
        while self._number <= self._allowed and len(self._items) < self._ahead:
            if self._state is None:
                self._state = self._producer.state()
            self._items.append(self._start(self._number))
            self._number += 1

    def _start(self, number: int) -> Future[Item]:
        """Collect batch `number`: in the thread, or now, as work on the stream behind all that is queued so far."""
        stream = self._producer.stream
        if self._producer.in_thread or stream is None:
            return self._worker.submit(self._producer.run, number)
        stream.wait_stream(torch.cuda.current_stream(stream.device))
        future = Future[Item]()
        with torch.cuda.stream(stream):
            future.set_result(self._producer.run(number))
        return future

    def _wait(self, future: Future[Item]) -> Item:
        """Return what `_start` promised."""
        self._worker.check()  # raises after a stop, and in a forked child
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError("the collector was stopped while a batch was awaited") from None

    def _restart(self, number: int) -> None:
        """Discard what is collected; the next batch is `number`, once it is allowed."""
        for item in self._items:
            if not item.cancel():
                self._wait(item)
        self._items.clear()
        self.settle()
        self._number, self._state, self._producer.failed = number, None, False

    def _receive(self, item: Item) -> Any:
        """Return the item's batch. On a GPU the learner's stream waits for it, its thread does not."""
        batch, producer = item.batch, self._producer
        if item.ready is not None and producer.stream is not None:
            learner = torch.cuda.current_stream(producer.stream.device)
            learner.wait_event(item.ready)
            if producer.in_thread:
                tensors = batch.rows.values() if isinstance(batch, Rollout) else batch.values(True, True)
                for tensor in tensors:
                    tensor.record_stream(learner)
        if not producer.in_thread:
            # The slot is collected into again as soon as the learner has taken its batch, so the learner's side copies.
            # Of a ring of one slot it copies to the same memory: an update that is captured as a graph reads there.
            base = self._ours()
            batch = moved(batch, self.device or base.device, self._fixed)
            fixed = base.return_same_td and base.ring_size == 1 and isinstance(batch, Rollout)
            self._fixed = batch if fixed else None
        if item.drew_globally:
            warnings.warn(
                "the env or the policy draws from torch's global generator in the collecting thread: runs repeat only if nothing else "
                "draws from it. Draw from a torch.Generator of your own, or from slipstream.models.exploration.sampling_generator()",
                stacklevel=4,
            )
        self._frames, self._bad, self._state = item.frames, item.bad, item.state
        if self.episodes is not None and item.episodes is not None:
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


def _check_ring(base: Any, ahead: int) -> None:
    """Refuse batches that would be overwritten while the learner reads them."""
    slots = base.ring_size if isinstance(base, SyncDataCollector) else 1
    if getattr(base, "return_same_td", False) and slots < ahead + 1:
        raise ValueError(
            f"return_same_td=True with ring_size={slots}: batches would be overwritten while the learner reads them. Use "
            f"ring_size={ahead + 1} or more, or return_same_td=False"
        )
