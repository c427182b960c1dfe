"""Data-parallel training: several processes (ranks) that torchrun starts, each with its own env, learn one policy.

The loop talks to the other ranks through one object: `OneProcess` if there are none, `Ranks` otherwise. All calls of
`Ranks` but `busy` and `step_done` are collective: every rank makes the same calls in the same order.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from slipstream.algorithms.base import Average, Sums
from slipstream.algorithms.execution.graphs import destroy_graphs
from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig
from slipstream.sim.devices import resolve_device

TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
RUN_FILE = "SLIPSTREAM_RUN_FILE"  # set by our launcher: rank 0 writes the path of the run folder to this file
PEER_FAILED = 76  # exit code of a rank that ends because another one failed; 75 is that of a stopped training
POLL_S = 0.5  # between two looks at the other ranks while one waits for them
UNLIMITED = timedelta(hours=24)  # of torch's own time limits: an evaluation of rank 0 may take long
ENDED = "ended"
START_S = 300  # in which all ranks must have started
BUSY_STEPS = 4  # the first iterations compile and capture


def started_by_torchrun() -> bool:
    """Return whether this process is a rank of torchrun."""
    return all(name in os.environ for name in TORCHRUN_VARIABLES)


def is_root() -> bool:
    """Return whether this process is rank 0, or the only one."""
    return not started_by_torchrun() or os.environ["RANK"] == "0"


class OneProcess:
    """A training in one process: every exchange returns what it is given."""

    rank, size, is_root = 0, 1, True
    average: Average | None = None  # for `Learner.average`
    sums: Sums | None = None  # for `Learner.sums`

    def device(self, name: str) -> str:
        """Return the name of the device that this rank uses."""
        return name

    def max(self, *values: float) -> tuple[float, ...]:
        """Return the largest of each number over all ranks."""
        return values

    def sum(self, x: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks."""
        return x

    def from_root(self, make: Callable[[], Any]) -> Any:
        """Return to every rank what `make` returns on rank 0."""
        return make()

    def gather(self, item: Any) -> list[Any]:
        """Return the items of the ranks from 1 on to rank 0, and an empty list to the others."""
        return []

    def copy_weights(self, modules: Iterable[nn.Module]) -> None:
        """Give every rank the weights of rank 0."""

    def together(self) -> AbstractContextManager[None]:
        """Fail on all ranks if the block fails on one; the first that failed raises its error."""
        return nullcontext()

    def busy(self) -> AbstractContextManager[None]:
        """Let the others wait for as long as the block takes."""
        return nullcontext()

    def step_done(self) -> None:
        """Count an iteration."""

    def set_run(self, folder: Path, recovery_hint: Callable[[], str]) -> None:
        """Set the run folder, and the function that returns how to continue if a rank fails."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        pass


class Ranks(OneProcess):
    """The processes of a data-parallel training, with this one's `rank` among `size`.

    A thread reports several times per `distributed.timeout_s`, through the store of torchrun, that this process is
    alive, and watches the other ranks. A rank that is silent for that long, or that others wait for that long while it
    is not `busy`, ends the job.
    """

    def __init__(self, cfg: TrainConfig) -> None:
        self.rank, self.size, self.local_rank = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        self.is_root = self.rank == 0
        self.timeout_s = cfg.distributed.timeout_s
        device = resolve_device(self.device(cfg.device))
        self._cuda = device.type == "cuda"
        self._buffers: dict[Any, tuple[Tensor, list[Tensor | None]]] = {}
        self._hint: Callable[[], str] = lambda: "Start the training again"
        self._calls = self._steps = 0  # exchanges on the host, iterations
        self._long = False  # inside `busy`
        self._waiting_s: float | None = None  # since when this rank waits for the others
        self._lost: tuple[int, str] | None = None  # a rank that failed, and how
        self._where: list[list[str]] = []  # node and process of each rank
        self._state = "running"  # ending: because of another rank; then done or failed
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="slipstream ranks", daemon=True)
        self._watcher.start()
        backend = "cpu:gloo,cuda:nccl" if self._cuda else "gloo"
        dist.init_process_group(backend, timeout=UNLIMITED, device_id=device if self._cuda else None)

    # -- exchanges -----------------------------------------------------------------------------------------------------

    def device(self, name: str) -> str:
        """Return the GPU of this rank, or `cpu`."""
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        check_device(name)
        return f"cuda:{self.local_rank}" if name == "cuda" else name

    def average(  # type: ignore[override]
        self, tensors: list[Tensor] | tuple[Tensor, ...], weight: Tensor | None = None
    ) -> None:
        """Replace tensors in place by their mean over the ranks, weighted by `weight` []."""
        if weight is None:
            means = torch._foreach_div(self.sums(tensors), self.size)
        else:
            weight = weight.to(tensors[0].dtype)
            *sums, total = self.sums([*torch._foreach_mul(tensors, weight), weight])
            means = torch._foreach_div(sums, total.clamp(min=1))
        torch._foreach_copy_(tensors, means)

    def sums(self, tensors: Sequence[Tensor | None]) -> list[Any]:  # type: ignore[override]
        """Return the sums of tensors of one dtype over the ranks, None for None: one all-reduce of one buffer.

        They are valid until the next call with these shapes: the buffer of a set of shapes keeps its memory, so a CUDA
        graph can capture this.
        """
        found = [x for x in tensors if x is not None]
        key = (found[0].dtype, tuple(None if x is None else x.shape for x in tensors))
        if key not in self._buffers:
            flat = found[0].new_empty(sum(x.numel() for x in found))
            parts = iter(flat.split([x.numel() for x in found]))
            self._buffers[key] = flat, [None if x is None else next(parts).view(x.shape) for x in tensors]
        flat, views = self._buffers[key]
        torch.cat([x.flatten() for x in found], out=flat)
        self._exchange(dist.all_reduce, flat)
        return views

    def max(self, *values: float) -> tuple[float, ...]:
        """Return the largest of each number over all ranks."""
        numbers = torch.tensor(values, dtype=torch.float64)
        self._exchange(dist.all_reduce, numbers, dist.ReduceOp.MAX)
        return tuple(numbers.tolist())

    def sum(self, x: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, in its memory."""
        self._exchange(dist.all_reduce, x)
        return x

    def from_root(self, make: Callable[[], Any]) -> Any:
        """Return to every rank what `make` returns on rank 0; its error ends all."""
        item = None
        with self.together():
            item = make() if self.is_root else None
        data = _packed(item if self.is_root else None)
        size = int(self.max(len(data) if self.is_root else 0)[0])
        data = data if self.is_root else torch.empty(size, dtype=torch.uint8)
        self._exchange(dist.broadcast, data, 0)
        return item if self.is_root else pickle.loads(data.numpy().tobytes())

    def gather(self, item: Any) -> list[Any]:
        """Return the items of the ranks from 1 on to rank 0, and an empty list to the others."""
        data = _packed(None if self.is_root else item)
        size = int(self.max(len(data))[0])
        data = torch.cat((data, data.new_zeros(size - len(data))))  # pickle ignores what follows an object
        parts = [torch.empty_like(data) for _ in range(self.size)] if self.is_root else None
        self._exchange(dist.gather, data, parts, 0)
        return [pickle.loads(part.numpy().tobytes()) for part in (parts or [])[1:]]

    def copy_weights(self, modules: Iterable[nn.Module]) -> None:
        """Give every rank the weights and buffers of rank 0."""
        for module in modules:
            for x in (*module.parameters(), *module.buffers()):
                self._exchange(dist.broadcast, x.detach(), 0)

    def _exchange(self, function: Callable[..., Any], x: Tensor, *args: Any) -> None:
        """Exchange a tensor: queue it on a device, or wait until it is done; end if a rank that takes part is lost."""
        if x.is_cuda:
            function(x, *args)
            return
        self._calls += 1
        self._waiting_s = time.monotonic()
        try:
            work = function(x, *args, async_op=True)
            while True:
                try:
                    work.wait(timedelta(seconds=POLL_S))
                    break
                except RuntimeError as error:
                    if "timed out" not in str(error):
                        raise
                if self._lost:
                    self._end()
        except RuntimeError as error:
            if not any(word in str(error).lower() for word in ("connection", "peer", "socket", "broken pipe")):
                raise
            self._end_after_peer()
        finally:
            self._waiting_s = None

    # -- failures ------------------------------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Iterator[None]:
        """Fail on all ranks if the block fails on one; the first that failed raises its error."""
        error: Exception | None = None
        try:
            yield
        except Exception as found:
            error = found
        first = self.size - self.max(self.size - self.rank if error else 0)[0]
        if error is not None and first == self.rank:
            raise error
        if first < self.size:
            raise SystemExit(PEER_FAILED)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let the others wait for as long as the block takes."""
        before, self._long = self._long, True
        try:
            yield
        finally:
            self._long = before

    def step_done(self) -> None:
        """Count an iteration."""
        self._steps += 1

    def set_run(self, folder: Path, recovery_hint: Callable[[], str]) -> None:
        """Set the run folder, and the function that returns how to continue if a rank fails."""
        self._hint = recovery_hint
        if self.is_root and RUN_FILE in os.environ:
            Path(os.environ[RUN_FILE]).write_text(str(folder))

    def _watch(self) -> None:
        """Report that this process is alive, and look for a rank that is lost. Runs in a thread."""
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        interval = min(1.0, self.timeout_s / 5)
        seen: dict[int, tuple[bytes, float]] = {}
        beats, last = 0, time.monotonic()
        try:
            store = dist.TCPStore(
                address, port, is_master=False, timeout=timedelta(seconds=max(START_S, self.timeout_s))
            )
            prefix = f"slipstream/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
            node = os.environ.get("GROUP_RANK", socket.gethostname())
            # Before the others know of this rank: reading its beat must not wait if it stops now.
            store.set(f"{prefix}/beat/{self.rank}", "0 0 1")
            store.set(f"{prefix}/where/{self.rank}", f"{node} {os.getpid()}")
            self._where = [x.decode().split() for x in store.multi_get(self._keys(f"{prefix}/where"))]
            while not self._closed.wait(interval):
                beats += 1
                busy = int(self._long or self._steps < BUSY_STEPS)
                store.set(f"{prefix}/beat/{self.rank}", f"{beats} {self._calls} {busy}")
                values = store.multi_get(self._keys(f"{prefix}/beat"))
                now = time.monotonic()
                if now - last > interval + self.timeout_s / 2:  # this process was stopped, perhaps all were
                    seen.clear()
                last = now
                self._lost = self._find_lost(values, seen, now)
                if self._lost:
                    break
            else:
                store.set(f"{prefix}/beat/{self.rank}", self._state)
                return
        except RuntimeError as error:
            reason = f"cannot be reached: no answer at {address}:{port} ({str(error).splitlines()[0][:80]})"
            self._lost = self._find_dead() or (-1, reason)
        while not self._closed.wait(max(self.timeout_s, 2 * POLL_S)):
            if self._state == "running":  # the main thread waits for a device, or computes
                self._print_lost()
                os._exit(PEER_FAILED)

    def _keys(self, prefix: str) -> list[str]:
        return [f"{prefix}/{rank}" for rank in range(self.size)]

    def _find_lost(
        self, values: list[bytes], seen: dict[int, tuple[bytes, float]], now: float
    ) -> tuple[int, str] | None:
        """Return a rank that is silent, or that this one waits for in vain, and a sentence about it."""
        waiting = self._waiting_s
        for rank, value in enumerate(values):
            if seen.get(rank, (b"",))[0] != value:
                seen[rank] = value, now
            if value == b"done" or rank == self.rank:
                continue
            if value == b"failed" or (seen[rank][1] != now and not self._is_alive(rank)):
                return rank, ENDED
            if now - seen[rank][1] > self.timeout_s:
                return rank, f"has not answered for {self.timeout_s:g} s (stopped, or its machine is lost)"
            _, calls, busy = map(int, value.split())
            late = waiting is not None and now - waiting > self.timeout_s and calls < self._calls
            if late and not busy:
                return rank, f"hangs: the others have waited for it for {self.timeout_s:g} s"
        return None

    def _end_after_peer(self) -> None:
        """End after a broken connection. The launcher names the rank that ended; without one the watcher finds it."""
        deadline = time.monotonic() + self.timeout_s + 2
        while RUN_FILE not in os.environ and self._lost is None and time.monotonic() < deadline:
            time.sleep(POLL_S / 5)
        self._lost = self._lost or self._find_dead() or (-1, ENDED)
        self._end()

    def _find_dead(self) -> tuple[int, str] | None:
        """Return a rank of this machine whose process has ended."""
        return next(((rank, ENDED) for rank in range(len(self._where)) if not self._is_alive(rank)), None)

    def _is_alive(self, rank: int) -> bool:
        node, pid = self._where[rank]
        if node != self._where[self.rank][0]:  # on another machine: its silence will show it
            return True
        try:
            os.kill(int(pid), 0)
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # ended, not waited for
        except ProcessLookupError:
            return False
        except OSError:  # no /proc
            return True

    def _end(self) -> None:
        """End this process because another one failed."""
        self._state = "ending"
        self._print_lost()
        raise SystemExit(PEER_FAILED)

    def _print_lost(self) -> None:
        """Print one sentence, on the lowest rank that is left, which also ends a rank of its machine that hangs."""
        assert self._lost is not None
        rank, what = self._lost
        prints = self.rank == (1 if rank == 0 else 0) if rank >= 0 else self.local_rank == 0
        if not prints or (what == ENDED and RUN_FILE in os.environ):
            return
        name = f"rank {rank} of {self.size} " if rank >= 0 else "another rank "
        if rank >= 0 and self._where[rank][0] == self._where[self.rank][0]:
            name += f"(process {self._where[rank][1]}) "
            if what != ENDED:  # torchrun would wait for it
                os.kill(int(self._where[rank][1]), signal.SIGKILL)
        print(f"slipstream train: {name}{what}; the training ends. {self._hint()}", file=sys.stderr, flush=True)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._state = "done" if error is None else "failed"
        self._closed.set()
        self._watcher.join(self.timeout_s)
        if self._cuda and error is not None:  # a kernel may wait for the other ranks for ever: leave it to the exit
            return
        destroy_graphs()  # a captured all-reduce must go before its communicator: NCCL waits for it otherwise
        self._buffers.clear()
        dist.destroy_process_group()


def join_ranks(cfg: TrainConfig) -> OneProcess:
    """Return the ranks of this training: those that torchrun started, or this process alone."""
    return Ranks(cfg) if started_by_torchrun() else OneProcess()


def check_started(cfg: TrainConfig, size: int) -> None:
    """Raise ConfigError if other than `cfg.gpus` processes train."""
    if cfg.gpus not in (None, 1, size):
        alone = "only `slipstream train` starts them: leave gpus out here"
        remedy = alone if size == 1 else f"give gpus={size}"
        raise ConfigError(f"gpus={cfg.gpus} needs as many processes, and there are {size}: {remedy}")


def check_device(name: str) -> None:
    """Raise ConfigError for a device that several ranks cannot share."""
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"every rank has a GPU of its own: give device=auto, cuda or cpu, not device={name}")


def _packed(item: Any) -> Tensor:
    """Return an object as bytes [n], with its tensors on the host. Only the ranks of one job exchange them."""
    on_host = tree_map(lambda x: x.cpu() if isinstance(x, Tensor) else x, item)
    return torch.frombuffer(bytearray(pickle.dumps(on_host, protocol=5)), dtype=torch.uint8)
