"""PipelinedDataCollector: collect the next batch and move it to the learner's device while the learner works on this
one."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.collectors.compressed import compressor
from slipstream.collectors.episodes import DeliveredEpisodes
from slipstream.collectors.producer import UNLIMITED, Item, Lane, Producer, WeightVersions, moved, version_of
from slipstream.collectors.sync import CollectorAround, SyncDataCollector
from slipstream.config.collect import CollectConfig
from slipstream.config.validation import check_range
from slipstream.envs.base import TensorEnv
from slipstream.envs.collector import Collector
from slipstream.envs.rollout import Rollout
from slipstream.sim import devices

LANES = ("auto", "thread", "stream")

SHUTDOWN_TIMEOUT_S = 300.0  # a rollout may take minutes


class PipelinedDataCollector(CollectorAround):
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

    Shutting down also shuts down the base.

    Args:
        base_collector: a SyncDataCollector, whose policy acts as a copy from now on; or a TorchRL collector or any
            iterable of TensorDicts, which is read ahead. `PipelinedDataCollector(env, policy, frames_per_batch=...)`
            makes the SyncDataCollector itself; it gets `sync` too.
        device: where the batches are delivered; None leaves them where the base returns them.
        prefetch_count: batches that may wait for the learner. It bounds memory; the versions bound collecting ahead.
        on_policy: collect every batch with the newest weights.
        max_staleness: updates between the weights that collect and those that learn, otherwise.
        policy: for an iterable base: the module that learns. The base must act with a copy of it as its `policy`.
        lane: "thread"; "stream": the caller's thread queues rollouts on a CUDA stream; "auto": stream if the env is on
            a GPU.
        threads: CPU threads of the collecting thread; 0 for as many as the calling thread has.
        seed: of the collecting thread's random numbers; None draws one from torch's global generator.
        postproc: applied to every batch, beside the learner.
        fixed_memory: deliver every batch in the same GPU memory, for an update that is captured as a graph (stream lane
            only).
    """

    def __init__(
        self,
        base_collector: Any,
        device: Any = None,
        prefetch_count: int = 2,
        *,
        on_policy: bool = False,
        max_staleness: int = 1,
        policy: Any = None,
        lane: str = "auto",
        threads: int = 0,
        seed: int | None = None,
        postproc: Callable[[Any], Any] | None = None,
        fixed_memory: bool = False,
        **sync: Any,
    ) -> None:
        if sync:
            acting, device = (device, None) if callable(device) else (policy, device)
            base_collector, policy = SyncDataCollector(base_collector, acting, **sync), None
        self.prefetch_count, self.max_staleness, self.threads = prefetch_count, max_staleness, threads
        check_range(self, "prefetch_count", minimum=1)
        check_range(self, "max_staleness", minimum=1, hint="; for fresh data use on_policy=True")
        check_range(self, "threads", minimum=0)
        self.base = base_collector
        self.on_policy = on_policy
        self.device = None if device is None else torch.empty(0, device=device).device
        self._sync = base_collector if isinstance(base_collector, SyncDataCollector) else None
        self._env_device = None if self._sync is None else torch.device(self._sync.env.device)
        self._weights = weights = _choose_weights(base_collector, policy, on_policy)
        # Updates between the weights that collect and those that learn; a base of unknown weights is only read ahead.
        known = self._sync is not None or weights is not None
        self.staleness = 0 if on_policy else max_staleness if known else UNLIMITED
        self.lane = choose_lane(lane, self._sync, self.staleness)
        ahead = min(prefetch_count, self.staleness + 1)  # batches collected and not delivered; one more with `publish`
        _check_ring(base_collector, ahead, self.lane)
        self.policy = policy if self._sync is None else self._sync.policy
        self._base_closed = False
        if self._sync is not None and weights is not None:
            self._sync.policy = weights.acting
        if fixed_memory and self.lane == "thread":
            raise ValueError("fixed_memory=True is for envs on a GPU (lane='stream')")
        self._fixed_memory = fixed_memory
        self._fixed: Rollout | None = None  # the copy that is written again
        in_thread, env_device, generator = self.lane == "thread", self._env_device, None
        if self._sync is not None and in_thread:
            seed = int(torch.randint(2**62, ())) if seed is None else seed
            generator = torch.Generator(env_device).manual_seed(seed)
        moves_to = self.device if in_thread else None
        stream = torch.cuda.Stream(moves_to) if moves_to is not None and moves_to.type == "cuda" else None
        self._producer = Producer(
            base_collector, weights, self.staleness, generator, in_thread, postproc, moves_to, stream
        )
        if in_thread:
            set_threads = functools.partial(devices.set_threads, threads) if threads else devices.threads_here()
            set_up = functools.partial(_set_up_thread, set_threads, env_device or self.device)
            self._lane = Lane(self._producer.produce, ahead, set_up)
        else:
            self._lane = Lane(self._producer.produce, UNLIMITED, device=env_device)
        # The thread holds the lane and the producer, neither of which holds the collector: its deletion ends them.
        self._finalizer: Callable[[], Any] = weakref.finalize(self, self._lane.stop)
        self.episodes = None if self._sync is None else DeliveredEpisodes(self._sync.episodes)
        self._taken = 0  # batches delivered
        self._version = -1  # the last one published
        self._frames = 0
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
            fixed_memory=on_gpu and not compress,
        )

    # -- public interface --------------------------------------------------------------------------------------------

    def rollout(self, check: bool = True) -> Any:
        """Return the next batch [N, T]. An error while collecting it is raised here, with its traceback."""
        return _public(self.collect_rollout(check))

    collect = rollout

    def iterator(self) -> Iterator[Any]:
        """Yield batches until the base has no more. Leaving the loop early loses none: a later loop continues behind
        it."""
        while (batch := self._next()) is not None:
            yield _public(batch)

    __iter__ = iterator

    def collect_rollout(self, check: bool = True) -> Any:
        """Return the next batch, of a `SyncDataCollector` as a `Rollout`."""
        batch = self._next()
        if batch is None:
            raise RuntimeError("the base collector has returned all its batches: raise its total_frames")
        if check:
            self.check()
        return batch

    runs_ahead = True  # the next batch may be collected beside the caller

    def publish(self) -> None:
        """Say that the update of the last batch is finished: its weights are final, and the next batch may start."""
        self._raise_if_closed()
        if self._version >= self._taken:
            raise RuntimeError("publish() once for each batch, after its update: these weights are already published")
        self._publish()
        if self._taken and self.staleness != UNLIMITED:
            self._lane.allow(self._taken + 1 + self.staleness if self.lane == "thread" else self._taken + 1)

    def check(self) -> None:
        """Raise if the last batch has invalid actions. The collecting thread checks by itself, and has raised
        already."""
        if self._bad is not None and bool(self._bad):
            self._ours().check()

    def settle(self) -> None:
        """Wait until nothing is collected beside the caller: before the env is used, or native code that is not
        reentrant."""
        self._lane.settle()

    @property
    def bad_actions(self) -> Tensor:
        """Whether the last batch has invalid actions: bool [], on the device."""
        if self._bad is not None:
            return self._bad
        return torch.zeros((), dtype=torch.bool, device=self._env_device)

    @property
    def frames(self) -> int:
        """Frames delivered so far."""
        return self._frames

    @property
    def version(self) -> int:
        """Finished updates that were published; -1 before the first batch."""
        return self._version

    def stats(self) -> dict[str, float]:
        """Return the batches delivered and ready, and how long the learner waited for them."""
        return {"batches": self._taken, "ready": self._lane.ready, "waited_s": self._lane.waited_s}

    def shutdown(self, timeout: float = SHUTDOWN_TIMEOUT_S) -> None:
        """End the thread after its current batch, and the base. May be called any number of times.

        If the env does not return within `timeout` seconds, a warning names it and its thread is left behind.
        """
        self._finalizer()
        try:
            self._lane.join(timeout)
        except RuntimeError:
            env = type(getattr(self.base, "env", self.base)).__name__
            warnings.warn(
                f"{env} has not finished its rollout {timeout:g} s after shutdown(): its thread is left behind. Look for a step that "
                "waits for something, or give shutdown() a longer timeout",
                RuntimeWarning,
                stacklevel=2,
            )
            self._base_closed = True
            return
        if not self._base_closed:
            self._base_closed = True
            super().shutdown()

    @property
    def acting(self) -> Any:
        """The copy of the policy that acts."""
        return self.policy if self._weights is None else self._weights.acting

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next batches depend on. Batches in flight are collected again after a load; one
        that is being collected is not waited for."""
        self._raise_if_closed()
        self._ours("saved")
        return {
            "taken": self._taken,
            "version": self._version,
            "frames": self._frames,
            "weights": {} if self._weights is None else self._weights.state_dict(),
            "episodes": {} if self.episodes is None else self.episodes.state_dict(),
            **self._producer.state_before(self._taken + 1),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`: on a CPU the next batches are the same bit for bit, if the learner's weights are."""
        self._raise_if_closed()
        self._ours("loaded")
        self._lane.restart(state["taken"] + 1)
        self._producer.load_state_dict(state)
        if self._weights is not None:
            oldest = version_of(state["taken"] + 1, self.staleness)  # a run with a larger staleness saved more
            self._weights.load_state_dict({v: weights for v, weights in state["weights"].items() if int(v) >= oldest})
        if self.episodes is not None:
            self.episodes.load_state_dict(state["episodes"])
        self._taken, self._version, self._frames = state["taken"], state["version"], state["frames"]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _next(self) -> Any:
        """Return the next batch; None if there are no more."""
        self._raise_if_closed()
        if self._version < self._taken:
            self._publish()
        number = self._taken + 1
        self._lane.allow(UNLIMITED if self.staleness == UNLIMITED else number)
        result = self._lane.take()
        if result.is_end:
            return None
        if result.error is not None:
            try:
                raise result.error
            finally:
                del result  # or the error would, through this frame, hold itself and the collector
        batch = self._receive(result.item)
        self._producer.forget(number)
        self._taken = number
        if self.staleness != UNLIMITED:
            if self._weights is not None:
                self._weights.forget(version_of(number + 1, self.staleness))
            self._lane.allow(number + self.staleness)
        return batch

    def _publish(self) -> None:
        if self._weights is not None:
            self._weights.publish(self._taken)
        self._version = self._taken

    def _receive(self, item: Item) -> Any:
        """Return the item's batch. On a GPU the learner's stream waits for the copy, its thread does not."""
        batch = item.batch
        if item.arrived is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(item.arrived)
            tensors = batch.rows.values() if isinstance(batch, Rollout) else batch.values(True, True)
            for tensor in tensors:
                tensor.record_stream(stream)
        if self.lane == "stream":
            # The slot is collected into again as soon as the learner has taken its batch, so the learner's side copies.
            batch = moved(batch, self.device or self._ours().device, self._fixed)
            self._fixed = batch if self._fixed_memory and isinstance(batch, Rollout) else None
        if item.drew_globally:
            warnings.warn(
                "the env or the policy draws from torch's global generator in the collecting thread: runs repeat only if nothing else "
                "draws from it. Draw from a torch.Generator of your own, or from slipstream.models.exploration.sampling_generator()",
                stacklevel=4,
            )
        self._frames = item.frames
        self._bad = item.bad
        if self.episodes is not None and item.sums is not None:
            if item.sums.is_cuda:
                item.sums.record_stream(torch.cuda.current_stream(item.sums.device))
            self.episodes.add(item.sums)
        return batch

    def _raise_if_closed(self) -> None:
        if self._lane.stopped:
            raise RuntimeError("this collector was shut down: build a new PipelinedDataCollector")


def _set_up_thread(set_threads: Callable[[], None], device: torch.device | None) -> None:
    if device is not None and device.type == "cuda":
        torch.cuda.set_device(device)  # threads start on device 0
    set_threads()


def _public(batch: Any) -> Any:
    return batch.to_tensordict() if isinstance(batch, Rollout) else batch


# -- checks of the arguments ---------------------------------------------------------------------------------------


def _choose_weights(base: Any, policy: nn.Module | None, on_policy: bool) -> WeightVersions | None:
    """Return the versions of the weights; None if no module is known that learns."""
    acting = getattr(base, "policy", None)
    if isinstance(base, SyncDataCollector):
        if policy is not None and policy is not acting:
            raise ValueError("policy= is for other collectors than SyncDataCollector, whose policy is known")
        return WeightVersions(acting) if isinstance(acting, nn.Module) else None
    if policy is not None:
        if not isinstance(acting, nn.Module):
            raise ValueError("policy= needs a base collector with an attribute `policy`, the module that acts")
        return WeightVersions(policy, acting)
    if isinstance(acting, nn.Module) and not on_policy:
        warnings.warn(
            "the base collector has a policy and is read ahead: if you train that module, it acts while its weights are "
            "written. Build the base with copy.deepcopy(policy) and pass policy=policy here, or on_policy=True",
            stacklevel=3,
        )
    return None


def choose_lane(lane: str, sync: SyncDataCollector | None, staleness: int) -> str:
    """Return `lane`; for "auto" the one that fits the env's device."""
    if lane not in LANES:
        raise ValueError(f"unknown lane {lane!r}: use one of {', '.join(LANES)}")
    on_gpu = sync is not None and torch.device(sync.env.device).type == "cuda"
    lane = ("stream" if on_gpu else "thread") if lane == "auto" else lane
    if lane == "stream" and not on_gpu:
        raise ValueError("lane='stream' needs slipstream's SyncDataCollector over an env on a GPU: use lane='thread'")
    if lane == "stream" and staleness > 1:
        raise ValueError(f"max_staleness={staleness} gains nothing on one GPU, where rollouts wait in one queue: use 1")
    return lane


def _check_ring(base: Any, ahead: int, lane: str) -> None:
    """Refuse batches that would be overwritten while the learner reads them."""
    if not getattr(base, "return_same_td", False) or lane == "stream":
        return
    if not isinstance(base, SyncDataCollector):
        raise ValueError("return_same_td=True: the base overwrites batches while the learner reads them; use False")
    if base.ring_size < ahead + 1:
        raise ValueError(
            f"return_same_td=True with ring_size={base.ring_size}: batches would be overwritten while the learner reads them. "
            f"Use ring_size={ahead + 1} or more, or return_same_td=False"
        )
