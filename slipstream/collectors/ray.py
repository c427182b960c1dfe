"""RayDataCollector: actors on a Ray cluster collect, and send compressed blocks to the learner.

An actor is a process with a `SyncDataCollector`. It collects a block [T, N] with one version of the weights, and puts
it into Ray's object store as bytes. The learner fetches the blocks that are ready first; `count` of them make a batch
[count * N, T]. Weights are one object per version, which all actors read.
"""

from __future__ import annotations

import importlib
import os
import socket
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.collectors.compressed import SMALL_FRAME, CompressedFrames
from slipstream.collectors.episodes import EpisodeStatistics
from slipstream.collectors.pipelined import tensors_of
from slipstream.collectors.ray_cluster import connect, import_ray, last_line, versions
from slipstream.collectors.sync import SyncDataCollector
from slipstream.config.validation import check_range
from slipstream.envs.base import BadActionError
from slipstream.envs.collector import Collector
from slipstream.envs.rollout import Frame, Rollout
from slipstream.sim.devices import set_threads
from slipstream.sim.random import derive_seed
from slipstream.storage.tree import pack_state, unpack_state

Make = Callable[[int], tuple[Any, Any]]  # seed -> env, policy

IN_FLIGHT = 2  # blocks per actor that are asked for and not fetched: one is collected while another is on its way
MAX_FAILURES = 3  # of an actor in a row, without a block between them
POLL_S = 1.0
# In which a first actor must run: Ray's processes have a low priority, and a busy machine starts them late.
START_S = 300


# -- in the processes of the cluster -----------------------------------------------------------------------------------


@dataclass
class Block:
    """What an actor sends."""

    data: bytes  # of `pack_rows`
    stamps: dict[str, float]  # of the policy that acted
    episodes: tuple[Tensor, tuple[str, ...] | None]  # sums of those that ended, and names
    raw_bytes: int  # of the data, uncompressed
    seconds: float  # to collect and compress


class RayActor:
    """Collects blocks in a process of the cluster.

    Args:
        make: Returns env and policy for a seed.
        seed: Of the env and of the actions.
        frames: Per block.
        level: Of the compression.
        threads: CPU threads.
    """

    def __init__(self, make: Make, seed: int, frames: int, level: int, threads: int) -> None:
        set_threads(threads)
        env, self._policy = make(seed)
        torch.manual_seed(derive_seed(seed, "actions"))
        self._policy.requires_grad_(False)
        self._collector = SyncDataCollector(env, self._policy, frames, return_same_td=True)
        self._level = level
        self._version = -1

    def ready(self, expected: dict[str, str]) -> str:
        """Return where this actor runs. Raises RuntimeError on a node with other versions than the learner's."""
        other = [f"{name} {x} instead of {expected[name]}" for name, x in versions().items() if x != expected[name]]
        if other:
            raise RuntimeError(f"{socket.gethostname()} has {', '.join(other)}: install the same versions there")
        return f"{socket.gethostname()}, process {os.getpid()}"

    def rollout(self, version: int, weights: list[Any]) -> Block:
        """Collect a block with a version of the weights: the one object of `weights`, read if it is a new one."""
        start = time.perf_counter()
        if version != self._version:
            load_weights(self._policy, importlib.import_module("ray").get(weights[0]))
            self._version = version
        rows = self._collector.collect_rollout().rows
        stamps = self._policy.stamps() if callable(getattr(self._policy, "stamps", None)) else {}
        numbers = {name: float(x) for name, x in stamps.items()}
        episodes = self._collector.episodes.take(), self._collector.episodes.info_names
        raw_bytes = sum(x.nbytes for x in rows.values())
        return Block(pack_rows(rows, self._level), numbers, episodes, raw_bytes, time.perf_counter() - start)


def pack_rows(rows: Frame, level: int) -> bytes:
    """Return the rows of a `Rollout` as bytes, its observations compressed."""
    plain, packed = {}, {}
    for key, x in rows.items():
        if key[0] == "observation" and x[0, 0].nbytes >= SMALL_FRAME:
            data = CompressedFrames(x.flatten(0, 1), level).to_bytes()
            packed[key] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        else:
            plain[key] = x
    return pack_state({"plain": [*plain.items()], "packed": [*packed.items()]})  # keys of a state are texts


def unpack_rows(data: bytes, num_envs: int) -> Frame:
    """Return the rows of `pack_rows`."""
    state = unpack_state(data, "a block of an actor")
    frames = {key: CompressedFrames.from_bytes(x.numpy().tobytes()).rows() for key, x in state["packed"]}
    return dict(state["plain"]) | {key: x.unflatten(0, (-1, num_envs)) for key, x in frames.items()}


def pack_weights(policy: Any) -> bytes:
    """Return all parameters and buffers of a policy as bytes."""
    return pack_state({name: x.detach().cpu() for name, x in tensors_of(policy).items()})


@torch.no_grad()
def load_weights(policy: Any, data: bytes) -> None:
    """Copy the weights of `pack_weights` into a policy."""
    state = unpack_state(data, "the weights")
    for name, x in tensors_of(policy).items():
        x.copy_(state[name])


# -- in the learner ----------------------------------------------------------------------------------------------------


@dataclass
class Slot:
    """One of the `count` actors; a lost one is replaced in its slot."""

    index: int
    starts: int = 0  # actors that this slot has had
    actor: Any = None
    where: str = ""  # empty until it runs
    asked: int = 0  # blocks asked for, of this actor
    fetched: int = 0
    failures: int = 0  # since the last block
    metrics: dict[str, float] = field(default_factory=lambda: {"fps": 0.0, "staleness": 0.0, "mb": 0.0})

    @property
    def in_flight(self) -> int:
        """Blocks that are not fetched yet."""
        return self.asked - self.fetched


@dataclass
class Request:
    """A block that an actor was asked for; number -1: a sign that it runs."""

    slot: Slot
    start: int  # which of the slot's actors
    number: int
    version: int


class RayDataCollector(Collector):
    """Collect batches [count * N, T] with actors on a Ray cluster, beside the learner.

    Version v of the weights is that after v updates. Block i of all blocks, counted from 0, is asked for with version
    i // count - `max_staleness` or a later one, so the blocks of a batch are at most `max_staleness` updates older
    than the weights that learn, and each actor has at most two blocks that are not fetched. A block that others
    overtake may come too late; it is dropped, unless `keep_late`. A batch has its versions as
    `batch["policy_version"]`, int64 [count * N, T]. It is valid until the next one is collected.

    An actor that is lost is replaced by a new one with new episodes. Rows of a batch that do not continue the same rows
    of the batch before begin with an invalid frame if `keep_late`, so that a replay buffer never joins the episodes of
    two actors.

    Args:
        make: `make(seed)` returns env and policy of an actor, both on the CPU. It must be importable on all nodes.
        policy: The module that learns, whose weights the actors get.
        num_envs: N, of each actor.
        frames_per_batch: count * N * T.
        count: Number of actors.
        address: Of the cluster: "auto", HOST:PORT or ray://HOST:PORT; None for RAY_ADDRESS, or a cluster on this
            machine that ends with the collector. A connection that the process already has is used, and left open.
        max_staleness: Updates between the weights that collect and those that learn; with 0 actors wait for them.
        keep_late: Keep blocks that are older: for a replay buffer.
        compression_level: 0 to 16, of the blocks.
        cpus: Cores of each actor.
        seed: Of the actors' envs and actions.
    """

    runs_ahead = True

    def __init__(
        self,
        make: Make,
        policy: Any,
        num_envs: int,
        frames_per_batch: int,
        count: int,
        *,
        address: str | None = None,
        max_staleness: int = 1,
        keep_late: bool = False,
        compression_level: int = 1,
        cpus: int = 1,
        seed: int = 0,
    ) -> None:
        self.frames_per_batch, self.count, self.max_staleness, self.cpus = frames_per_batch, count, max_staleness, cpus
        check_range(self, "count", "cpus", minimum=1)
        check_range(self, "max_staleness", minimum=0)
        if frames_per_batch < 1 or frames_per_batch % (count * num_envs):
            raise ValueError(
                f"frames_per_batch={frames_per_batch} must be a multiple of {count} actors × {num_envs} envs"
            )
        self.policy, self.keep_late = policy, keep_late
        self._num_envs, self._seed = num_envs, seed
        self._settings = make, frames_per_batch // count, compression_level
        self._device = next(policy.parameters()).device
        self.episodes = EpisodeStatistics(num_envs, self._device)
        self._memory: Frame = {}  # of the batch, each [T or T + 1, count * N, ...]
        self._slots: list[Slot] = []
        self._requests: dict[Any, Request] = {}  # by the reference of the block
        self._rows: dict[int, Any] = {}  # by slot: what the next block of these rows would continue
        self._weights: list[Any] = []  # the reference of the published version
        self.version = -1  # the last one published: finished updates
        self._taken = 0  # batches
        self._placed = 0  # blocks of the batch that is collected
        self._resumed = ""
        self._lost = self._dropped = 0
        self._bytes = self._raw_bytes = 0
        self._ray = import_ray()
        self._connected = connect(self._ray, address, count * cpus)

    # -- public interface --------------------------------------------------------------------------------------------

    def rollout(self, check: bool = True) -> TensorDict:
        """Return the next batch. An error in an actor's env is raised here."""
        self._raise_if_closed()
        if not self._slots:
            self._slots = [Slot(index) for index in range(self.count)]
            for slot in self._slots:
                self._start(slot)
        if not self._weights or self.version < self._taken:
            self.publish()
        free = set(range(self.count))
        while free:
            self._ask()
            found = self._fetch()
            if found is None:
                continue
            request, block = found
            place = request.slot.index if request.slot.index in free else min(free)
            free.remove(place)
            self._place(block, request, place)
        self._taken, self._placed = self._taken + 1, 0
        self._frames += self.frames_per_batch
        self._ask()
        return Rollout.of_rows(self._memory).to_tensordict()

    collect = collect_rollout = rollout

    def publish(self) -> None:
        """Say that the update of the last batch is finished: actors get its weights with the next block."""
        self._raise_if_closed()
        self.version = self._taken
        self._weights = [self._ray.put(pack_weights(self.policy))]
        self._ask()

    @property
    def bad_actions(self) -> Tensor:
        """False: a batch with invalid actions is not returned."""
        return torch.zeros((), dtype=torch.bool, device=self._device)

    @property
    def fps(self) -> float:
        """Frames per second of all actors' last blocks."""
        return sum(slot.metrics["fps"] for slot in self._slots)

    def metrics(self) -> dict[str, float]:
        """Return `actors/*`: of each actor its frames per second, staleness and MB sent; and of all together."""
        each = {f"actors/{slot.index}/{name}": x for slot in self._slots for name, x in slot.metrics.items()}
        return each | {
            "actors/running": float(sum(bool(slot.where) for slot in self._slots)),
            "actors/fps": self.fps,
            "actors/staleness": max((slot.metrics["staleness"] for slot in self._slots), default=0.0),
            "actors/wire_share": self._bytes / max(1, self._raw_bytes),
            "actors/lost": float(self._lost),
            "actors/dropped": float(self._dropped),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the counts. The envs of actors are not saved."""
        self._raise_if_closed()
        return {"taken": self._taken, "episodes": self.episodes.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the counts of `state`; actors start new episodes, with other seeds than before."""
        self._raise_if_closed()
        self._stop()
        self._taken = self.version = int(state["taken"])
        self._frames = self._taken * self.frames_per_batch
        self._resumed = f" resumed after {self._taken}"
        self._rows = dict.fromkeys(range(self.count))  # unknown: nothing continues
        self.episodes.load_state_dict(state["episodes"])

    def shutdown(self) -> None:
        """End the actors, and a cluster that was started here. May be called any number of times."""
        if not self._closed:
            self._closed = True
            self._stop()
            if self._connected:
                self._ray.shutdown()

    # -- actors --------------------------------------------------------------------------------------------------------

    def _start(self, slot: Slot) -> None:
        """Start an actor in a slot, with a seed that no other has."""
        seed = derive_seed(self._seed, f"actor {slot.starts}{self._resumed}", slot.index)
        actor = self._ray.remote(RayActor).options(num_cpus=self.cpus, max_restarts=0)
        slot.starts, slot.where, slot.asked, slot.fetched = slot.starts + 1, "", 0, 0
        slot.actor = actor.remote(*self._settings[:1], seed, *self._settings[1:], self.cpus)
        self._deadline = time.monotonic() + START_S
        self._requests[slot.actor.ready.remote(versions())] = Request(slot, slot.starts, -1, self.version)

    def _ask(self) -> None:
        """Ask for as many blocks as the staleness allows; the actor with the fewest in flight is next."""
        oldest = self.version - self.max_staleness
        waiting = sum(request.number >= 0 and request.version >= oldest for request in self._requests.values())
        limit = min(IN_FLIGHT, self.max_staleness + 1)
        while (self._taken * self.count + self._placed + waiting) // self.count <= self.version + self.max_staleness:
            idle = [slot for slot in self._slots if slot.where and slot.in_flight < limit]
            if not idle:
                return
            slot = min(idle, key=lambda slot: slot.in_flight)
            block = slot.actor.rollout.remote(self.version, self._weights)
            self._requests[block] = Request(slot, slot.starts, slot.asked, self.version)
            slot.asked += 1
            waiting += 1

    def _fetch(self) -> tuple[Request, Block] | None:
        """Return a block that is ready first, None if it is none for this batch."""
        ready, _ = self._ray.wait(list(self._requests), num_returns=1, timeout=POLL_S)
        if not ready:
            if not any(slot.where for slot in self._slots) and time.monotonic() > self._deadline:
                free = self._ray.available_resources().get("CPU", 0)
                raise TimeoutError(
                    f"no actor has started within {START_S} s: the cluster has {free:g} free cores, and each actor needs "
                    f"actors.cpus={self.cpus}; wait for other jobs to end, or look at the logs of Ray"
                )
            return None
        request = self._requests.pop(ready[0])
        slot, exceptions = request.slot, self._ray.exceptions
        try:
            found = self._ray.get(ready[0])
        except exceptions.RayTaskError as error:  # raised by the env or the policy
            cause = getattr(error, "cause", error)
            if isinstance(cause, BadActionError):
                raise BadActionError(str(cause)) from None
            if not slot.fetched:
                raise RuntimeError(
                    f"actor {slot.index} ({slot.where}) failed: {type(cause).__name__}: {cause}"
                ) from error
            self._replace(slot, f"{type(cause).__name__}: {cause}")
            return None
        except exceptions.RayError as error:  # the process, its node or the block is lost
            self._replace(slot, last_line(error))
            return None
        if request.number < 0:
            slot.where = found
            return None
        slot.fetched, slot.failures = slot.fetched + 1, 0
        staleness = self.version - request.version
        slot.metrics["fps"] = self._settings[1] / found.seconds
        slot.metrics["mb"] += len(found.data) / 2**20
        self._bytes += len(found.data)
        self._raw_bytes += found.raw_bytes
        if staleness > self.max_staleness and not self.keep_late:
            self._dropped += 1
            return None
        slot.metrics["staleness"] = float(staleness)
        return request, found

    def _replace(self, slot: Slot, reason: str) -> None:
        """Start another actor in the place of one that is lost. Its blocks that are not fetched are dropped."""
        self._lost += 1
        slot.failures += 1
        if slot.failures >= MAX_FAILURES:
            raise RuntimeError(
                f"actor {slot.index} was lost {slot.failures} times without a batch between: {reason}. Look at the logs of Ray "
                "(/tmp/ray/session_latest/logs on its node), and at the memory there"
            )
        warnings.warn(f"actor {slot.index} ({slot.where}) is lost and replaced: {reason}", RuntimeWarning, stacklevel=4)
        self._requests = {ref: request for ref, request in self._requests.items() if request.slot is not slot}
        self._ray.kill(slot.actor)
        self._start(slot)

    def _stop(self) -> None:
        for slot in self._slots:
            self._ray.kill(slot.actor)
        self._slots, self._requests, self._weights = [], {}, []

    # -- the batch -----------------------------------------------------------------------------------------------------

    def _place(self, block: Block, request: Request, place: int) -> None:
        """Decode a block into its rows of the batch."""
        n = self._num_envs
        rows = unpack_rows(block.data, n)
        one = torch.ones_like(rows["done",], dtype=torch.float32)
        rows["policy_version",] = torch.full_like(one, request.version, dtype=torch.int64)
        if self.max_staleness:
            rows |= {(name,): one * x for name, x in block.stamps.items()}
        actor = request.slot.index, request.start
        follows = self._rows.get(place, (*actor, request.number)) == (*actor, request.number)
        if self.keep_late and not follows:
            rows["valid",][0] = False
        self._rows[place] = (*actor, request.number + 1)
        for key, x in rows.items():
            if key not in self._memory:
                shape = len(x), self.count * n, *x.shape[2:]
                self._memory[key] = torch.zeros(shape, dtype=x.dtype, device=self._device)
            self._memory[key][:, place * n : (place + 1) * n].copy_(x)
        self.episodes.add(*block.episodes)
        self._placed += 1
