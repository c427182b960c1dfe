"""PipelinedDataCollector: collect the next batch and move it to the learner's device while the learner works on this
one."""

from __future__ import annotations

import copy
import functools
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from slipstream.collectors.compressed import compressor
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
CHECK_INTERVAL_S = 1.0  # how often a caller that waits checks that the thread still exists


class EndOfBatches(Exception):
    """The base has no more batches."""


@dataclass
class Item:
    """A batch on its way to the learner, or the error in its place."""

    batch: Any = None  # a `Rollout`; of a base with a layout of its own what that returns
    error: BaseException | None = None
    frames: int = 0  # collected so far, this batch included
    episodes: tuple[Tensor, tuple[str, ...]] | None = None  # sums and names of those that ended in it
    bad: Tensor | None = None  # whether it has invalid actions; None if that is known already
    drew_globally: bool = False  # the first batch drew from torch's global generator
    ready: torch.cuda.Event | None = None  # behind its work on another stream than the learner's


class WeightVersions:
    """Keep versions of the weights of `policy`, counted from 0, and `acting`, the copy of it that acts.

    The learner calls `publish`, the collector `take_over`. A version is a copy that nobody writes to, so the learner
    may continue at once; the acting copy changes only in `take_over`. Versions are kept until `forget`.
    """

    def __init__(self, policy: nn.Module) -> None:
        self.acting = copy.deepcopy(policy).requires_grad_(False)
        self._learning, self._acting = list(tensors_of(policy).values()), list(tensors_of(self.acting).values())
        self._versions: dict[int, list[Tensor]] = {}
        self._spare: list[list[Tensor]] = []  # memory of forgotten versions

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Store the learner's present weights as `version`."""
        held = self._spare.pop() if self._spare else [torch.empty_like(x) for x in self._learning]
        torch._foreach_copy_(held, self._learning)  # a few kernels on a GPU
        self._versions[version] = held  # one store: the other thread sees a complete version or none

    @torch.no_grad()
    def take_over(self, version: int) -> None:
        """Let the acting copy act as `version` from now on."""
        torch._foreach_copy_(self._acting, self._versions[version])

    def forget(self, before: int) -> None:
        """Drop the versions below `before`."""
        self._spare += [self._versions.pop(version) for version in [*self._versions] if version < before]

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the versions held."""
        return {str(version): [x.clone() for x in held] for version, held in self._versions.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hold the versions of `state` and no others."""
        self._versions = {
            int(version): [x.to(mine.device, copy=True) for x, mine in zip(held, self._learning, strict=True)]
            for version, held in state.items()
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
    postproc: Callable[[Any], Any] | None  # applied to every batch
    device: torch.device | None  # where the thread moves batches; None leaves them
    set_up: Callable[[], None]  # called first, in the thread
    stream: torch.cuda.Stream | None  # where the caller's thread queues rollouts; None for a thread of their own

    def __post_init__(self) -> None:
        on_gpu = self.device is not None and self.device.type == "cuda"
        self._copies = torch.cuda.Stream(self.device) if on_gpu else None
        self._worker = BackgroundWorker("collector thread", error=RuntimeError, on_exit=self._leave)
        self._lock = threading.Lock()  # held while a state is read
        self._begun: dict[
            int, tuple[dict[str, Any], Any]
        ] = {}  # by batch: what it is collected from, when that is read
        self._iterator: Iterator[Any] | None = None  # of a base that is not ours
        self._last: Any = None  # the object that it returned before
        self._failure = ""  # its error's text: the error's traceback would hold the learner's frames
        self._frames = 0
        self.failed = self.stopped = False

    def start(self, number: int) -> Future[Item]:
        """Collect batch `number`: in the thread, or now, as work on the stream behind all that is queued so far."""
        if self.stream is None:
            return self._worker.submit(self._run, number)
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        future = Future[Item]()
        with torch.cuda.stream(self.stream):
            item = self._run(number)
        item.ready = self.stream.record_event()
        future.set_result(item)
        return future

    def wait(self, future: Future[Item]) -> Item:
        """Return what `start` promised."""
        while True:
            try:
                return future.result(CHECK_INTERVAL_S)
            except TimeoutError:
                self._worker.check()  # raises after stop, and in a forked child
            except CancelledError:
                raise RuntimeError("the collector was stopped while a batch was awaited") from None

    def stop(self) -> None:
        """End the thread after its present batch. Waits for nothing: safe in a finalizer, in any thread."""
        self.stopped = True
        self._worker.stop()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread."""
        self._worker.close(timeout)

    def _leave(self) -> None:
        """Stop at the interpreter's exit: a thread inside of torch would crash it."""
        self.stop()
        self.join(EXIT_TIMEOUT_S)

    def _run(self, number: int) -> Item:
        if self.failed or self.stopped:
            return Item()  # it is discarded
        try:
            self.set_up()
            self.set_up = lambda: None
            return self._produce(number)
        except BaseException as error:  # also SystemExit: the caller must receive it
            self.failed = True
            return Item(error=error)

    def _produce(self, number: int) -> Item:
        """Collect batch `number` with its version of the weights."""
        version = version_of(number, self.staleness)
        if self.weights is not None:
            self.weights.take_over(version)
        item = self._collect(number, version) if isinstance(self.base, SyncDataCollector) else self._read()
        if self.postproc is not None:
            item.batch = self.postproc(as_tensordict(item.batch))
        if self.device is not None:
            with nullcontext() if self._copies is None else torch.cuda.stream(self._copies):
                item.batch = moved(item.batch, self.device)
                item.ready = None if self._copies is None else self._copies.record_event()
        return item

    def _collect(self, number: int, version: int) -> Item:
        """Collect a rollout of a `SyncDataCollector`, whose random numbers, statistics and state are known."""
        base, in_thread = self.base, self.stream is None
        if 0 <= base.total_frames <= base.frames:
            raise EndOfBatches
        with self._lock:
            self._begun[number] = self._present_state()
        # The learner waits for the first batch, so only this thread can change the global generator meanwhile.
        rng_state = torch.get_rng_state() if number == 1 and self.generator is not None else None
        try:
            with sample_from(self.generator):
                batch = base.collect_rollout(check=in_thread)
        except BaseException:
            self.forget(number)
            raise
        bad = None if in_thread else base.bad_actions.clone()
        drew = rng_state is not None and not torch.equal(rng_state, torch.get_rng_state())
        if self.weights is not None:
            batch = self._stamped(batch, version, self.weights.acting)
        return Item(batch, None, base.frames, (base.episodes.take(), base.episodes.info_names), bad, drew)

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

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_before(self, number: int) -> dict[str, Any]:
        """Return copies of the state that batch `number`, the next for the learner, is collected from. Does not wait
        for a batch that is being collected."""
        with self._lock:
            state, read = self._begun.get(number) or self._present_state()
        if read is not None:
            torch.cuda.current_stream(self.base.env.device).wait_event(read)
        return tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, state)

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


class PipelinedDataCollector:
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
        postproc: applied to every batch, beside the learner.
    """

    runs_ahead = True  # the next batch may be collected beside the caller

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
        postproc: Callable[[Any], Any] | None = None,
    ) -> None:
        self.prefetch_count, self.max_staleness, self.threads = prefetch_count, max_staleness, threads
        check_range(self, "prefetch_count", minimum=1)
        check_range(self, "max_staleness", minimum=1, hint="; for fresh data use on_policy=True")
        check_range(self, "threads", minimum=0)
        self.base, self.on_policy = base_collector, on_policy
        self.device = None if device is None else torch.empty(0, device=device).device
        self.policy = getattr(base_collector, "policy", None)  # that learns
        generator, set_device, on_stream, self._weights = None, self.device, False, None
        # Updates between the weights that collect and those that learn; a base of unknown weights is only read ahead.
        self.staleness = 0 if on_policy else max_staleness
        if isinstance(base_collector, SyncDataCollector):
            set_device = torch.device(base_collector.env.device)
            on_stream = queues_on_stream(base_collector)
            if isinstance(self.policy, nn.Module) and tensors_of(self.policy):
                self._weights = WeightVersions(self.policy)
                base_collector.policy = self._weights.acting
            if not on_stream:
                seed = int(torch.randint(2**62, ())) if seed is None else seed
                generator = torch.Generator(set_device).manual_seed(seed)
        elif not on_policy:
            self.staleness = UNLIMITED
            if isinstance(self.policy, nn.Module):
                warnings.warn(
                    "the base collector has a policy and is read ahead: if you train that module, it acts while its weights are "
                    "written. Use a SyncDataCollector (it takes TorchRL's envs), a copy.deepcopy of the policy, or on_policy=True",
                    stacklevel=2,
                )
        if on_stream and self.staleness > 1:
            raise ValueError(f"max_staleness={max_staleness} gains nothing on a GPU, where rollouts queue up: use 1")
        # Batches collected and not delivered; one more with `publish`.
        self._ahead = 1 if on_stream else min(prefetch_count, self.staleness + 1)
        if not on_stream:
            _check_ring(base_collector, self._ahead)
        self._producer = Producer(
            base_collector,
            self._weights,
            self.staleness,
            generator,
            postproc,
            None if on_stream else self.device,
            _thread_setup(threads, set_device),
            # High priority: a rollout is a chain of small kernels, which fit beside the learner's large ones.
            torch.cuda.Stream(set_device, priority=-1) if on_stream else None,
        )
        self._finalizer: Callable[[], Any] = weakref.finalize(self, self._producer.stop)
        self._items: deque[Future[Item]] = deque()
        self._number = 1  # of the batch to be started next
        self._allowed = 0  # the last batch that may be started
        self._fixed: Rollout | None = None  # the copy that is written again
        self.episodes: EpisodeStatistics | None = None
        if isinstance(base_collector, SyncDataCollector):
            self.episodes = EpisodeStatistics(base_collector.env.num_envs, set_device or "cpu")
        self._base_closed = False
        self._taken = 0  # batches delivered
        self.version = -1  # the last one published: finished updates
        self.frames = 0  # delivered so far
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
        on_policy, compress = settings.pipeline == "on_policy", settings.compress != "off"
        ahead = 1 if on_policy else settings.max_staleness + 1
        return cls(
            SyncDataCollector(env, policy, frames, return_same_td=True, ring_size=1 if on_gpu else ahead + 1),
            prefetch_count=settings.prefetch_count,
            on_policy=on_policy,
            max_staleness=settings.max_staleness,
            threads=threads,
            seed=seed,
            postproc=compressor(settings.compression_level, settings.compressed_keys()) if compress else None,
        )

    # -- public interface --------------------------------------------------------------------------------------------

    def rollout(self, check: bool = True) -> Any:
        """Return the next batch [N, T]. An error while collecting it is raised here, with its traceback."""
        return as_tensordict(self.collect_rollout(check))

    collect = rollout

    def __iter__(self) -> Iterator[Any]:
        """Yield batches until the base has no more. Leaving the loop early loses none: a later loop continues behind
        it."""
        while True:
            try:
                batch = self._next()
            except EndOfBatches:
                return
            yield as_tensordict(batch)

    iterator = __iter__

    def collect_rollout(self, check: bool = True) -> Any:
        """Return the next batch, of a `SyncDataCollector` as a `Rollout`."""
        try:
            batch = self._next()
        except EndOfBatches:
            raise RuntimeError("the base collector has returned all its batches: raise its total_frames") from None
        if check:
            self.check()
        return batch

    def publish(self) -> None:
        """Say that the update of the last batch is finished: its weights are final, and the next batch may start."""
        self._raise_if_closed()
        if self.version >= self._taken:
            raise RuntimeError("publish() once for each batch, after its update: these weights are already published")
        self._publish()
        if self._taken:
            self._allow(self._taken + 1 + self.staleness)

    def check(self) -> None:
        """Raise if the last batch has invalid actions. A collecting thread checks by itself, and has raised already."""
        if self._bad is not None and bool(self._bad):
            self._ours().check()

    def settle(self) -> None:
        """Wait until nothing is collected beside the caller: before the env is used, or native code that is not
        reentrant."""
        for item in list(self._items):
            self._producer.wait(item)
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
    def frames_per_batch(self) -> int:
        """The base's."""
        return self._ours().frames_per_batch

    @property
    def fps(self) -> float:
        """Frames per second of the base's last rollout; 0 if it has none."""
        return getattr(self.base, "fps", 0.0)

    def metrics(self) -> dict[str, float]:
        """Return figures to log, by name: none."""
        return {}

    def shutdown(self, timeout: float = SHUTDOWN_TIMEOUT_S) -> None:
        """End the thread after its current batch, and the base. May be called any number of times.

        If the env does not return within `timeout` seconds, a warning names it and its thread is left behind.
        """
        self._finalizer()
        try:
            self._producer.join(timeout)
        except RuntimeError:
            env = type(getattr(self.base, "env", self.base)).__name__
            warnings.warn(
                f"{env} has not finished its rollout {timeout:g} s after shutdown(): its thread is left behind. Look for a step that "
                "waits for something, or give shutdown() a longer timeout",
                RuntimeWarning,
                stacklevel=2,
            )
            self._base_closed = True
        if not self._base_closed:
            self._base_closed = True
            getattr(self.base, "shutdown", lambda: None)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

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
        return {
            "taken": self._taken,
            "version": self.version,
            "frames": self.frames,
            "weights": {} if self._weights is None else self._weights.state_dict(),
            "episodes": {} if self.episodes is None else self.episodes.state_dict(),
            **self._producer.state_before(self._taken + 1),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`: on a CPU the next batches are the same bit for bit, if the learner's weights are."""
        self._raise_if_closed()
        self._ours()
        self._restart(state["taken"] + 1)
        self._allowed = 0
        self.settle()
        self._producer.load_state_dict(state)
        if self._weights is not None:
            oldest = version_of(state["taken"] + 1, self.staleness)  # a run with a larger staleness saved more
            self._weights.load_state_dict({v: weights for v, weights in state["weights"].items() if int(v) >= oldest})
        if self.episodes is not None:
            self.episodes.load_state_dict(state["episodes"])
        self._taken, self.version, self.frames = state["taken"], state["version"], state["frames"]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _next(self) -> Any:
        """Return the next batch; raise its error, or `EndOfBatches`."""
        self._raise_if_closed()
        if self.version < self._taken:
            self._publish()
        number = self._taken + 1
        self._allow(number)
        item = self._producer.wait(self._items[0])
        self._items.popleft()
        if item.error is not None:
            self._restart(number)
            try:
                raise item.error
            finally:
                del item  # or the error would, through this frame, hold itself and the collector
        batch = self._receive(item)
        self._producer.forget(number)
        self._taken = number
        if self._weights is not None:
            self._weights.forget(version_of(number + 1, self.staleness))
        self._allow(number + self.staleness)
        return batch

    def _allow(self, number: int) -> None:
        """Let the batches up to `number` be collected, as far as there is room."""
        self._allowed = max(self._allowed, number)
        while self._number <= self._allowed and len(self._items) < self._ahead:
            self._items.append(self._producer.start(self._number))
            self._number += 1

    def _restart(self, number: int) -> None:
        """Discard what is collected; the next batch is `number`, once it is allowed."""
        for item in self._items:
            if not item.cancel():
                self._producer.wait(item)
        self._items.clear()
        self._number, self._producer.failed = number, False

    def _publish(self) -> None:
        if self._weights is not None:
            self._weights.publish(self._taken)
        self.version = self._taken

    def _receive(self, item: Item) -> Any:
        """Return the item's batch. On a GPU the learner's stream waits for it, its thread does not."""
        batch, on_stream = item.batch, self._producer.stream is not None
        if item.ready is not None:
            learner = torch.cuda.current_stream(self._ours().env.device if on_stream else self.device)
            learner.wait_event(item.ready)
            if not on_stream:
                tensors = batch.rows.values() if isinstance(batch, Rollout) else batch.values(True, True)
                for tensor in tensors:
                    tensor.record_stream(learner)
        if on_stream:
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
        self.frames = item.frames
        self._bad = item.bad
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

    def _raise_if_closed(self) -> None:
        if self._producer.stopped:
            raise RuntimeError("this collector was shut down: build a new PipelinedDataCollector")


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


def _thread_setup(threads: int, device: torch.device | None) -> Callable[[], None]:
    """Return a function that gives the thread that calls it its number of CPU threads, and the GPU."""
    set_threads = functools.partial(devices.set_threads, threads) if threads else devices.threads_here()

    def set_up() -> None:
        if device is not None and device.type == "cuda":
            torch.cuda.set_device(device)  # threads start on device 0
        set_threads()

    return set_up


def _check_ring(base: Any, ahead: int) -> None:
    """Refuse batches that would be overwritten while the learner reads them."""
    slots = base.ring_size if isinstance(base, SyncDataCollector) else 1
    if getattr(base, "return_same_td", False) and slots < ahead + 1:
        raise ValueError(
            f"return_same_td=True with ring_size={slots}: batches would be overwritten while the learner reads them. Use "
            f"ring_size={ahead + 1} or more, or return_same_td=False"
        )
