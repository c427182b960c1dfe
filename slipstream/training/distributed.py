"""Data-parallel training: several processes (ranks), each with its own env, learn one policy.

`slipstream train gpus=N` or torchrun starts them. The loop talks to the other ranks through one object: `OneProcess` if
there are none, `Ranks` otherwise. All exchanges of `Ranks` are collective: every rank makes the same calls in the same
order. Ranks exchange JSON and tensors, no pickles.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from slipstream.algorithms.base import Average, Sums
from slipstream.algorithms.execution.graphs import destroy_graphs
from slipstream.config.compose import flat_settings, to_dict
from slipstream.config.help import ConfigError, show
from slipstream.config.schema import DistributedConfig, TrainConfig
from slipstream.sim.devices import resolve_device
from slipstream.storage.tree import pack_state, unpack_state
from slipstream.training.run_folder import code_version

TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
RUN_KEY = "run"  # in the store: the path of the run folder
START_S = 300  # in which the store must answer
PEER_FAILED = 76  # exit code of a rank that ends because another one failed; 75 is that of a stopped training
UNLIMITED = timedelta(hours=24)  # of torch's own time limits: an evaluation of rank 0 may take long
MAY_DIFFER = ("threads", "quiet")  # settings of a machine
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1")  # a scheduler may send them to all processes
# Shares of `distributed.timeout_s`: a rank that is silent for so long is lost, and the others end in the rest.
TICK, SILENT, GRACE = 1 / 16, 0.55, 0.15
OVER = "over"  # the last report of a rank
MAX_FILES = 1 << 20  # open in a process
GONE = "was killed or has crashed"
NO_STORE = f"has lost its launcher, {GONE}, or its machine is lost"  # where torchrun keeps the store


def started_by_torchrun() -> bool:
    """Return whether this process is a rank of torchrun.

    Raises:
        ConfigError: Some of torchrun's variables are set. Each process would train alone, and all the same.
    """
    given = [name for name in TORCHRUN_VARIABLES if name in os.environ]
    missing = [name for name in TORCHRUN_VARIABLES if name not in given]
    if missing and ("RANK" in given or "WORLD_SIZE" in given):
        raise ConfigError(
            f"{' and '.join(given)} in the environment mean several ranks, but {' and '.join(missing)} are not set: "
            f"start the ranks with torchrun (docs/scale.md), or unset {' '.join(given)} to train in one process"
        )
    if missing:
        return False
    numbers = [os.environ[name] for name in TORCHRUN_VARIABLES if name != "MASTER_ADDR"]
    if not (all(map(str.isdecimal, numbers)) and int(numbers[0]) < int(numbers[1])):
        wrong = " ".join(f"{name}={os.environ[name]}" for name in TORCHRUN_VARIABLES)
        raise ConfigError(f"{wrong} in the environment cannot be: start the ranks with torchrun (docs/scale.md)")
    return True


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

    def set_run(self, folder: Path, hint: str) -> None:
        """Set the run folder, and a sentence on how to continue if a rank fails."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        pass


class Guard:
    """Watches a rank from a forked process, which is still there if the rank is killed or stopped.

    A guard puts the reports of its rank into the store, and reads those of all. The first one that finds a rank lost
    writes that there, too; then every guard ends its rank, and one per node prints the sentence. Time is counted in
    ticks of the guard, so that a job that was suspended as a unit and continues has lost nobody.

    Args:
        rank: Of this process, which forks the guard.
        size: Number of ranks.
        timeout_s: `distributed.timeout_s`.
    """

    store: Any  # with `beat/RANK` and `rank/RANK` of all ranks, `hint` and `lost`; only the guard uses this connection
    places: list[Any]  # [node, local rank, name] of each rank

    def __init__(self, rank: int, size: int, timeout_s: float) -> None:
        self.rank, self.size, self.parent = rank, size, os.getpid()
        self.tick_s = min(1.0, timeout_s * TICK)
        self.limit, self.grace = (round(timeout_s * share / self.tick_s) for share in (SILENT, GRACE))
        self.beats, self.missed = [""] * size, [0] * size  # ticks without a new report
        self.report, self.hint = 0, "Start the training again"
        self.loss: tuple[int, str] | None = None  # the rank that is lost, and how
        self.unanswered = 0  # ticks

    def run(self, reports: int, answers: int) -> None:
        """Watch until the rank is over, or one is lost; end with this process."""
        for name in STOP_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        os.setsid()
        if not os.read(reports, 100):  # it has not joined the others
            return
        self.stderr = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # torch prints there what C++ thinks of a store that is lost
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self.store = our_part(dist.TCPStore(*address, is_master=False, wait_for_workers=False))
        records = (json.loads(self.store.get(f"rank/{rank}")) for rank in range(self.size))
        self.places = [record["place"] for record in records]
        threading.Thread(target=self._exchange, daemon=True).start()  # the machine of the store may answer no more
        own = ""  # what the rank says of itself at its end
        while self.loss is None and own != OVER:
            if select.select([reports], [], [], self.tick_s)[0]:
                data = os.read(reports, 1 << 16).decode()
                own = next(filter(None, data.split("\n")), "") if data else GONE
                self.report += 1
            elif os.getppid() != self.parent:
                own = GONE
            self.unanswered += 1
            if own not in ("", OVER):
                self._lose(self.rank, own)
            elif self.unanswered > self.limit:
                self.loss = 0, NO_STORE
        if self.loss is None:
            with suppress(RuntimeError):
                self.store.set(f"beat/{self.rank}", OVER)
        else:
            self._end(*self.loss, answers)

    def _exchange(self) -> None:
        """Exchange reports with the other guards. Runs in a thread."""
        keys = [*(f"beat/{rank}" for rank in range(self.size)), "hint", "lost"]
        try:
            while self.loss is None:
                self.store.set(f"beat/{self.rank}", str(self.report))
                *beats, self.hint, loss = (value.decode() for value in self.store.multi_get(keys))
                self.unanswered = 0
                if loss:
                    self.loss = tuple(json.loads(loss))
                elif (silent := self.count_silence(beats)) is not None:
                    seconds = f"{self.limit * self.tick_s:.3g} s"
                    self._lose(silent, f"has not answered for {seconds} (stopped, or its machine is lost)")
                time.sleep(self.tick_s)
        except RuntimeError:
            time.sleep(2 * self.tick_s)  # the rank may be over
            self.loss = self.loss or (0, NO_STORE)

    def count_silence(self, beats: list[str]) -> int | None:
        """Count a tick for the ranks without a new report, unless all are stopped together; return one that is lost."""
        all_stopped = all(missed >= 2 for missed, beat in zip(self.missed, beats, strict=True) if beat != OVER)
        for rank, beat in enumerate(beats):
            if beat != self.beats[rank] or beat == OVER:
                self.missed[rank] = 0
            elif not all_stopped:
                self.missed[rank] += 1
        self.beats = beats
        return next((rank for rank, missed in enumerate(self.missed) if missed > self.limit), None)

    def _lose(self, rank: int, how: str) -> None:
        """Let all guards know that a rank is lost, unless they know of another one."""
        try:
            self.loss = tuple(json.loads(self.store.compare_set("lost", "", json.dumps([rank, how]))))
        except RuntimeError:
            self.loss = 0, NO_STORE

    def _end(self, lost: int, how: str, answers: int) -> None:
        """Name the rank that is lost, once per node, and end this one."""
        node, local, _ = self.places[self.rank]
        its_node, _, name = self.places[lost]
        is_first = local == 0
        with suppress(RuntimeError):
            is_first = self.store.add(f"said/{node}", 1) == 1 if how != NO_STORE else is_first
        if is_first and not (how.startswith("failed") and its_node == node):  # that rank has said it
            who = f"rank {lost} of {self.size} ({name})"
            os.write(self.stderr, f"slipstream train: {who} {how}; the training ends. {self.hint}\n".encode())
        with suppress(OSError):
            os.write(answers, b"lost first" if lost == self.rank else b"lost")
        stopped = lost == self.rank and not how.startswith("failed")
        for _ in range(0 if stopped else self.grace + 2):  # it ends by itself before
            if os.getppid() == self.parent:
                time.sleep(self.tick_s)
        if os.getppid() == self.parent:
            os.kill(self.parent, signal.SIGKILL)


class Ranks(OneProcess):
    """The processes of a data-parallel training, with this one's `rank` among `size`.

    They join through the store of torchrun, where each leaves its settings and versions: with others than those of rank
    0 nobody begins. From then on a `Guard` watches each rank. A rank that is dead, or silent for most of
    `distributed.timeout_s`, ends the job. A rank that works long is waited for.
    """

    def __init__(self, cfg: TrainConfig) -> None:
        self.rank, self.size, self.local_rank = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        self.is_root, self.timeout_s = self.rank == 0, cfg.distributed.timeout_s
        self._buffers: dict[Any, tuple[Tensor, list[Tensor | None]]] = {}
        self._is_first = False  # of the ranks that fail
        self._lost, self._closed = threading.Event(), threading.Event()
        with failing_together():
            device = resolve_device(self.device(cfg.device))
            if cfg.auto:
                raise ConfigError(f"{cfg.auto[0]}=auto is measured in one process: give a number for several ranks")
        self._cuda = device.type == "cuda"
        self._start_guard()  # first: it keeps no connection of this process
        self._store, self._nodes = self._join(cfg, device)
        self._say()
        threading.Thread(target=self._report, name="slipstream ranks", daemon=True).start()
        backend = "cpu:gloo,cuda:nccl" if self._cuda else "gloo"
        device_id = device if self._cuda else None
        store = dist.PrefixStore("torch", self._store)
        dist.init_process_group(
            backend, store=store, rank=self.rank, world_size=self.size, timeout=UNLIMITED, device_id=device_id
        )

    def _join(self, cfg: TrainConfig, device: torch.device) -> tuple[Any, list[str]]:
        """Meet the other ranks, compare settings and versions; return the store, and the node of each rank."""
        store, deadline = _open_store(), time.monotonic() + self.timeout_s
        settings = flat_settings(to_dict(cfg)) | {"device": device.type}
        facts = {key: value for key, value in settings.items() if key not in MAY_DIFFER}
        facts = {"slipstream": code_version(), "torch": torch.__version__} | facts
        place = [_node(), self.local_rank, f"process {os.getpid()} on {socket.gethostname()}"]
        for key, value in ((f"beat/{self.rank}", ""), ("hint", "Start the training again"), ("lost", "")):
            store.set(key, value)
        store.set(f"rank/{self.rank}", json.dumps({"facts": facts, "place": place}, default=str))
        all_ranks = []
        for rank in range(self.size):
            name, problem, wait_s = f"rank {rank} of {self.size}", "", self.timeout_s
            if _is_there(store, [f"rank/{rank}"], deadline):
                all_ranks.append(other := json.loads(store.get(f"rank/{rank}")))
                name = f"{name} ({other['place'][2]})"
                problem = other.get("error") or _difference(other["facts"], all_ranks[0]["facts"])
            else:
                late, wait_s = f"has not started within {self.timeout_s:g} s of this one", 0
                problem = f"{late}: look at its output; if it is slow, raise distributed.timeout_s"
            if problem:
                _end_once(store, ConfigError(f"{name} {problem}"), wait_s)
        return store, [other["place"][0] for other in all_ranks]

    def _start_guard(self) -> None:
        """Fork the guard of this rank, without its open files. It begins with the first report."""
        self._guard = Guard(self.rank, self.size, self.timeout_s)
        reports, answers = os.pipe(), os.pipe()
        if not os.fork():
            try:
                low, high = sorted((reports[0], answers[1]))
                for first, end in ((3, low), (low + 1, high), (high + 1, MAX_FILES)):
                    os.closerange(first, end)  # a GPU that is open here would keep the memory of a rank that is killed
                self._guard.run(reports[0], answers[1])
            finally:
                os._exit(0)
        os.close(reports[0])
        os.close(answers[1])
        self._reports, self._answers = reports[1], answers[0]

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
        """Return to every rank what `make` returns on rank 0, plain values and tensors; its error ends all."""
        item = make() if self.is_root else None
        data = pack_state(item) if self.is_root else b""
        buffer = torch.zeros(int(self.max(len(data))[0]), dtype=torch.uint8)
        buffer.numpy()[: len(data)] = np.frombuffer(data, np.uint8)
        self._exchange(dist.broadcast, buffer, 0)
        return item if self.is_root else unpack_state(buffer.numpy(), "what rank 0 sent")

    def gather(self, item: Any) -> list[Any]:
        """Return the items of the ranks from 1 on to rank 0, and an empty list to the others."""
        data = b"" if self.is_root else pack_state(item)
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(data)
        self._exchange(dist.all_reduce, sizes)
        padded = torch.zeros(int(sizes.max()), dtype=torch.uint8)
        padded.numpy()[: len(data)] = np.frombuffer(data, np.uint8)
        parts = [torch.empty_like(padded) for _ in sizes] if self.is_root else None
        self._exchange(dist.gather, padded, parts, 0)
        packed = [part.numpy()[:size] for part, size in zip(parts or [], sizes.tolist(), strict=False)]
        return [unpack_state(part, f"what rank {rank} sent") for rank, part in enumerate(packed) if rank]

    def copy_weights(self, modules: Iterable[nn.Module]) -> None:
        """Give every rank the weights and buffers of rank 0."""
        for module in modules:
            for x in (*module.parameters(), *module.buffers()):
                self._exchange(dist.broadcast, x.detach(), 0)

    def _exchange(self, function: Callable[..., Any], x: Tensor, *args: Any) -> None:
        """Exchange a tensor: queue it on a device, or wait until it is done. If a rank is lost meanwhile, the guards
        end this one."""
        try:
            function(x, *args)
        except RuntimeError:
            if self._lost.wait(self.timeout_s * GRACE):  # the connection to a rank that its guard names
                raise SystemExit(PEER_FAILED) from None
            raise

    # -- failures ------------------------------------------------------------------------------------------------------

    def set_run(self, folder: Path, hint: str) -> None:
        """Set the run folder, and a sentence on how to continue if a rank fails."""
        if self.is_root:
            self._store.set("hint", hint)
            self._store.set(RUN_KEY, str(folder))

    def _say(self, report: str = "") -> None:
        """Send a line to the guard: nothing but a sign of life, OVER, or how this rank is lost."""
        with suppress(OSError):
            os.write(self._reports, f"{report}\n".encode())

    def _report(self) -> None:
        """Report to the guard that this rank is alive, until the end or until a rank is lost. Runs in a thread."""
        parent = os.getppid()
        while not select.select([self._answers], [], [], self._guard.tick_s)[0]:
            self._say("" if os.getppid() == parent else "has lost its launcher, which was killed")
        answer = os.read(self._answers, 100)
        if not answer:  # the guard has ended: this rank is over
            return
        self._is_first = answer == b"lost first"
        self._lost.set()
        if not self._closed.wait(self.timeout_s * GRACE):  # the main thread waits for a device, or computes
            os._exit(PEER_FAILED)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._closed.set()
        self._say(OVER if error is None else f"failed: {_one_line(error)}")
        if error is not None and self._lost.wait(self.timeout_s * GRACE) and not self._is_first:
            raise SystemExit(PEER_FAILED) from None  # the error of another rank is printed
        if isinstance(error, Exception) and len(set(self._nodes)) > 1:
            raise ConfigError(f"rank {self.rank} of {self.size} failed: {_one_line(error)}") from error
        if self._cuda and error is not None:  # a kernel may wait for the other ranks for ever: leave it to the exit
            return
        destroy_graphs()  # a captured all-reduce must go before its communicator: NCCL waits for it otherwise
        self._buffers.clear()
        dist.destroy_process_group()


def join_ranks(cfg: TrainConfig) -> OneProcess:
    """Return the ranks of this training: those that torchrun started, or this process alone."""
    return Ranks(cfg) if started_by_torchrun() else OneProcess()


@contextmanager
def failing_together() -> Iterator[None]:
    """Let the other ranks know of an error in the block, before they have joined."""
    try:
        yield
    except Exception as error:
        if not started_by_torchrun():
            raise
        store, rank = _open_store(), os.environ["RANK"]
        post_error(store, int(rank), os.getpid(), _one_line(error))
        named = ConfigError(f"rank {rank} of {os.environ['WORLD_SIZE']} cannot start: {_one_line(error)}")
        _end_once(store, named, DistributedConfig().timeout_s)


def _difference(theirs: dict[str, Any], first: dict[str, Any]) -> str:
    """Return what a rank has otherwise than rank 0; an empty text if nothing."""
    for key in first | theirs:
        if first.get(key) != theirs.get(key):
            both = f"has {key}={show(theirs.get(key))}, and rank 0 has {key}={show(first.get(key))}"
            return f"{both}: give all the same command and the same versions"
    return ""


def post_error(store: dist.Store, rank: int, process: int, text: str) -> None:
    """Let all ranks end as soon as they join, because one of this machine cannot."""
    if not store.check([f"rank/{rank}"]):
        place = [_node(), 0, f"process {process} on {socket.gethostname()}"]
        store.set(f"rank/{rank}", json.dumps({"error": f"cannot start: {text}", "place": place}))
        store.set(f"ends/{rank}", "")


def _end_once(store: dist.Store, error: Exception, wait_s: float) -> NoReturn:
    """Raise an error on one rank of each node, when all ranks know of it: with this process the store may end."""
    first = store.add(f"said/{_node()}", 1) == 1
    with suppress(RuntimeError):
        store.set(f"ends/{os.environ['RANK']}", "")
        _is_there(store, [f"ends/{rank}" for rank in range(int(os.environ["WORLD_SIZE"]))], time.monotonic() + wait_s)
    if first:
        raise error
    raise SystemExit(PEER_FAILED)


def _is_there(store: dist.Store, keys: list[str], deadline: float) -> bool:
    """Wait until the store has keys, at most until a time; its own `wait` prints what C++ thinks of a timeout."""
    while not store.check(keys):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _open_store() -> Any:  # a dist.Store
    """Return the store that torchrun, or rank 0, has."""
    try:
        store = next(dist.rendezvous("env://", timeout=timedelta(seconds=START_S)))[0]
    except RuntimeError as error:
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise ConfigError(f"the store of torchrun at {place} does not answer ({_one_line(error)[:80]})") from None
    return our_part(store)


def our_part(store: dist.Store) -> dist.Store:
    """Return our keys in the store; torchrun may start the ranks again."""
    return dist.PrefixStore(f"slipstream/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _node() -> str:
    return os.environ.get("GROUP_RANK", socket.gethostname())


def _one_line(error: BaseException) -> str:
    """Return the text of an error in one line, without the frames of C++ that torch adds."""
    text = str(error).partition("\nException raised from")[0]
    return " ".join(text.split())[:500] or type(error).__name__


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
