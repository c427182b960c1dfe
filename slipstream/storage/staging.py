"""Snapshots: every tensor of a state is copied, at the call, into one reused buffer, and written in the background.

The buffer has the layout of the file: streams of numbers of one width, tensors of one role side by side. Tensors on a
GPU are first copied on the GPU, into a second reused buffer, so that training does not wait for the bus; the saver's
thread copies that buffer to pinned memory on a stream of its own. `SnapshotSaver` is the base of the checkpoint saver
and of the rollout storage.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from slipstream.storage.background import SAVER_NICE, BackgroundWorker, close_after
from slipstream.storage.errors import SaveError
from slipstream.storage.tree import Leaves

QUEUE_POLICIES = ("block", "drop_oldest", "raise")
ALIGN = 16  # bytes; enough for every dtype, and for GPU kernels that copy four numbers at once
_STREAM_ALIGN = 64
MOMENTS = frozenset(
    ("exp_avg", "momentum_buffer", "mu", "exp_avg_diff", "exp_avg_sq", "max_exp_avg_sq", "square_avg", "exp_inf", "nu")
)
_COMPLETE = -1  # a tensor is copied itself, not a range of bytes that several tensors share
_META = torch.device("meta")
_QUANTIZED = frozenset((torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4))
_KIND = attrgetter("dtype", "shape", "device")
_ADDRESS = attrgetter("_cdata")
_ROLE = {name: name for name in MOMENTS}.get  # None for other names


class Storage(NamedTuple):
    """A range of bytes that one or more tensors show."""

    device: str
    width: int  # bytes of a number
    nbytes: int
    role: str  # the name of the optimizer moment it holds, or ""
    align: int
    leaf: int  # the first of the leaves that show it: copied from there
    low: int  # the first byte to copy, or _COMPLETE
    stream: int = 0
    start: int = 0  # bytes into the host buffer


class View(NamedTuple):
    """How a tensor shows its storage."""

    storage: int
    dtype: str  # torch's name
    shape: tuple[int, ...]
    stride: tuple[int, ...]  # () for a contiguous one
    offset: int  # elements
    device: str


class Stream(NamedTuple):
    """Numbers of one width, one after the other; a multiple of 64 bytes."""

    width: int
    start: int  # bytes into the host buffer
    nbytes: int


@dataclass(frozen=True)
class Layout:
    """The place of every tensor. Two states of the same layout can be coded as a difference."""

    key: tuple[Any, ...]
    streams: tuple[Stream, ...]
    storages: tuple[Storage, ...]
    views: tuple[View, ...]
    regions: tuple[tuple[str, int, int], ...]  # (device, start, end) in the host buffer
    nbytes: int

    def storage_bytes(self, storage: Storage, host: np.ndarray) -> np.ndarray:
        """Return the bytes of a storage in the host buffer of a snapshot."""
        return host[storage.start : storage.start + storage.nbytes]


def make_tensor(view: View, data: Tensor) -> Tensor:
    """Return the tensor that `view` describes; it shares the memory of `data`, uint8 [n]."""
    # set_: tensors that shared a storage share it again, and one alone has a storage of its own
    return torch.empty(0, dtype=getattr(torch, view.dtype), device=data.device).set_(
        data.untyped_storage(), view.offset, view.shape, view.stride
    )


def describe(leaves: Leaves) -> tuple[Any, ...]:
    """Return what decides the layout of `leaves`: dtypes, shapes, strides, devices, roles and shared storages.

    Training waits for this: it reads one attribute of all tensors after the other, without a loop in Python. Whether
    they can be saved at all is checked when a layout is first seen, in `plan`.
    """
    tensors = leaves.data
    try:
        if any(map(Tensor.is_neg, tensors)) or any(map(Tensor.is_conj, tensors)):
            leaves.data[:] = [data.resolve_conj().resolve_neg() for data in tensors]
            return describe(leaves)
        strides = () if all(map(Tensor.is_contiguous, tensors)) else tuple(map(Tensor.stride, tensors))
        storages = list(map(_ADDRESS, map(Tensor.untyped_storage, tensors)))
    except (RuntimeError, NotImplementedError):
        _check_plain(leaves)
        raise
    shared: tuple[tuple[int, int], ...] = ()  # the first tensor with the same storage, and the offset of this one
    if len(set(storages)) != len(storages):
        first: dict[int, int] = {}
        shared = tuple((first.setdefault(s, i), tensors[i].storage_offset()) for i, s in enumerate(storages))
    return tuple(map(_KIND, tensors)), strides, shared, tuple(map(_ROLE, leaves.names))


def _check_plain(leaves: Leaves) -> None:
    for data, name in zip(leaves.data, leaves.names, strict=True):
        if data.layout is not torch.strided or data.dtype in _QUANTIZED or data.device == _META:
            kind = f"{data.layout}, {data.dtype}, {data.device}"
            raise TypeError(
                f"tensor {name!r} is not a plain dense tensor ({kind}): save to_dense(), dequantize() or its parts"
            )


def plan(leaves: Leaves, key: tuple[Any, ...]) -> Layout:
    """Lay out the leaves that `describe` gave `key` for: by device, width and role, so that similar numbers are
    neighbors."""
    _check_plain(leaves)
    groups: dict[Any, list[int]] = {}
    for i, data in enumerate(leaves.data):
        groups.setdefault(data.untyped_storage()._cdata, []).append(i)
    storages = [_make_storage(leaves, group) for group in groups.values()]

    def order(p: int) -> tuple[Any, ...]:
        # wide numbers first, then those that fill ALIGN bytes: without compression other readers find them aligned
        s = storages[p]
        return s.device != "cpu", s.device, -s.width, s.nbytes % ALIGN != 0, s.role, p

    streams: list[Stream] = []
    regions: list[tuple[str, int, int]] = []
    end = 0
    for p in sorted(range(len(storages)), key=order):
        storage = storages[p]
        is_first = not regions or regions[-1][0] != storage.device
        if is_first or streams[-1].width != storage.width:
            end = -(-end // _STREAM_ALIGN) * _STREAM_ALIGN
            streams.append(Stream(storage.width, end, 0))
        if is_first:
            regions.append((storage.device, end, end))
        at = -(-end // storage.align) * storage.align
        end = at + storage.nbytes
        storages[p] = storage._replace(stream=len(streams) - 1, start=at)
        filled = -(-end // _STREAM_ALIGN) * _STREAM_ALIGN - streams[-1].start
        streams[-1] = streams[-1]._replace(nbytes=filled)
        regions[-1] = (storage.device, regions[-1][1], end)
    views = {
        i: _make_view(leaves.data[i], p, storages[p].low) for p, group in enumerate(groups.values()) for i in group
    }
    nbytes = streams[-1].start + streams[-1].nbytes if streams else 0
    ordered = tuple(views[i] for i in range(len(leaves.data)))
    return Layout(key, tuple(streams), tuple(storages), ordered, tuple(regions), nbytes)


def _make_storage(leaves: Leaves, group: list[int]) -> Storage:
    first = leaves.data[group[0]]
    size = first.dtype.itemsize // 2 if first.dtype.is_complex else first.dtype.itemsize
    nbytes, low, align = first.numel() * first.dtype.itemsize, _COMPLETE, first.dtype.itemsize
    tensors = [leaves.data[i] for i in group]
    if len({(t.dtype, t.shape, t.stride(), t.storage_offset()) for t in tensors}) > 1:
        # different views of one storage: copy all bytes from the first one shown to the last
        ranges = [_shown_bytes(t) for t in tensors]
        low = min(start for start, _ in ranges) // 16 * 16  # the offset is a multiple of every itemsize
        nbytes, align = max(end for _, end in ranges) - low, ALIGN
    width, role = size if size in (1, 2, 4, 8) else 1, _ROLE(leaves.names[group[0]]) or ""
    return Storage(str(first.device), width, nbytes, role, align, group[0], low)


def _shown_bytes(tensor: Tensor) -> tuple[int, int]:
    """First and last + 1 byte of its storage that a tensor shows."""
    start = int(tensor.storage_offset())
    last = start + sum((s - 1) * t for s, t in zip(tensor.shape, tensor.stride(), strict=True))
    return start * tensor.dtype.itemsize, (last + 1 if tensor.numel() else start) * tensor.dtype.itemsize


def _make_view(data: Tensor, storage: int, low: int) -> View:
    name, shape, device = str(data.dtype).removeprefix("torch."), tuple(data.shape), str(data.device)
    offset = 0 if low == _COMPLETE else int(data.storage_offset()) - low // data.dtype.itemsize
    if data.is_contiguous() or not data.numel():
        return View(storage, name, shape, (), offset if data.numel() else 0, device)
    stride = data.stride() if low != _COMPLETE else torch.empty_like(data, device=_META).stride()  # without holes
    return View(storage, name, shape, stride, offset, device)


class Buffer:
    """Memory for one snapshot of one layout: a host buffer, and one on each GPU that holds some of the tensors."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._gpus = [(torch.device(d), a, b) for d, a, b in layout.regions if d != "cpu"]
        pinned = any(device.type == "cuda" for device, _, _ in self._gpus)
        self.host = torch.zeros(layout.nbytes, dtype=torch.uint8, pin_memory=pinned)
        self._device = [torch.zeros(b - a, dtype=torch.uint8, device=d) for d, a, b in self._gpus]
        self._events: list[Any] = []
        # bytes that several tensors share: (where to, leaf, first byte)
        self._spans: list[tuple[Tensor, int, int]] = []
        copies: dict[Any, tuple[list[Tensor], list[int]]] = {}  # all of one dtype and device in one call
        for storage in layout.storages:
            target, leaf, low = self._target(storage), storage.leaf, storage.low
            if low != _COMPLETE:
                self._spans.append((target, leaf, low))
            else:
                targets, leaves = copies.setdefault((target.device, target.dtype), ([], []))
                targets.append(target)
                leaves.append(leaf)
        self._copies = list(copies.values())

    def _target(self, storage: Storage) -> Tensor:
        view, start, flat = self.layout.views[storage.leaf], storage.start, self.host
        if view.device != "cpu":
            gpu = next(i for i, (device, _, _) in enumerate(self._gpus) if str(device) == view.device)
            flat, start = self._device[gpu], start - self._gpus[gpu][1]
        piece = flat[start : start + storage.nbytes]
        if storage.low != _COMPLETE:
            return piece
        dtype = getattr(torch, view.dtype)
        numbers = piece.view(dtype)
        return (
            numbers.as_strided(view.shape, view.stride, start // dtype.itemsize)
            if view.stride
            else numbers.view(view.shape)
        )

    def fill(self, data: list[Any]) -> None:
        """Copy the leaves in; on a GPU the copies are queued behind the work already there."""
        learning = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # what torch.no_grad() does, in a tenth of its time
        try:
            for targets, leaves in self._copies:
                torch._foreach_copy_(targets, [data[leaf] for leaf in leaves], non_blocking=True)
            for target, leaf, low in self._spans:
                span = torch.empty(0, dtype=torch.uint8, device=target.device)
                target.copy_(span.set_(data[leaf].untyped_storage(), low, (target.numel(),), (1,)), non_blocking=True)
        finally:
            torch._C._set_grad_enabled(learning)
        self._events = []
        for device, _, _ in self._gpus:
            if device.type == "cuda":
                event = torch.cuda.Event()
                event.record(torch.cuda.current_stream(device))
                self._events.append(event)

    def fetch(self) -> np.ndarray:
        """Return the snapshot as host bytes after it was copied from the GPUs. Called by the saver's thread."""
        events = iter(self._events)
        for (device, start, end), staged in zip(self._gpus, self._device, strict=True):
            if device.type != "cuda":
                self.host[start:end].copy_(staged)
                continue
            stream = _side_stream(device)
            stream.wait_event(next(events))
            with torch.cuda.stream(stream):
                self.host[start:end].copy_(staged, non_blocking=True)
            # Not `stream.synchronize()`: it raises while the learner forbids waits, which holds for all threads.
            copied = torch.cuda.Event()
            copied.record(stream)
            copied.synchronize()
        return self.host.numpy()


_streams: dict[Any, Any] = {}


def _side_stream(device: torch.device) -> Any:
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


class Staging:
    """A pool of buffers: a saver that saves the same tensors again allocates memory once."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Layout, list[Buffer]]] = {}  # by key: the layout and its free buffers
        self._lock = threading.Lock()

    def snapshot(self, leaves: Leaves) -> Buffer:
        """Copy the leaves as they are now into a buffer; give it back with `release`."""
        key = describe(leaves)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = plan(leaves, key), []
                while len(self._known) >= 4:  # more layouts than this do not repeat: forget the oldest
                    del self._known[next(iter(self._known))]
                self._known[key] = known
            layout, free = known
            buffer = free.pop() if free else None
        buffer = buffer or Buffer(layout)
        buffer.fill(leaves.data)
        return buffer

    def release(self, buffer: Buffer) -> None:
        """Let the buffer be filled again."""
        with self._lock:
            known = self._known.get(buffer.layout.key)
            if known is not None:
                known[1].append(buffer)


class SnapshotSaver:
    """Writes snapshots in a thread; counts and times the saves.

    A subclass calls `_queue` in its save method, and `_count` in the function that writes.

    Args:
        name: what messages call it, such as "checkpoint saver".
        error: the class of its errors.
        max_queue_size: snapshots that may wait, besides the one being written.
        queue_policy: what a save does when that many wait: "block", "drop_oldest" or "raise".
        verbose: print a line per save.
        announce: gets a line when the queue is first full; stderr if None.
    """

    full_hint: ClassVar[str] = ""  # names the settings, after the advice for a full queue

    def __init__(
        self,
        name: str,
        error: type[SaveError],
        max_queue_size: int,
        queue_policy: str,
        verbose: bool,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        if type(max_queue_size) is not int or max_queue_size < 1:
            raise ValueError(f"max_queue_size={max_queue_size!r} must be a whole number from 1 on")
        if queue_policy not in QUEUE_POLICIES:
            raise ValueError(f"queue_policy={queue_policy!r} is unknown: use one of {', '.join(QUEUE_POLICIES)}")
        self.max_queue_size, self.queue_policy, self.verbose = max_queue_size, queue_policy, verbose
        self._error = error
        self._announce = announce or functools.partial(print, file=sys.stderr, flush=True)
        self._staging = Staging()
        self._counts = dict.fromkeys(("saved", "bytes_in", "bytes_out", "packed_in", "packed_out", "queue_full"), 0)
        self._blocking_ms: deque[float] = deque(maxlen=1000)
        self._worker = BackgroundWorker(name, nice=SAVER_NICE, error=error, on_exit=self.shutdown)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything saved is on the disk; raise the errors of saves that failed."""
        self._worker.wait(timeout)

    def shutdown(self, timeout: float | None = 60) -> None:
        """Finish the queue and release everything; raise errors that were not raised before. May be called twice."""
        if self._worker.close(timeout):  # a forked child owns neither the thread nor the files
            self._release_all()
            self._worker.raise_errors()

    def get_stats(self) -> dict[str, Any]:
        """Return counts, sizes and times of the saves: in milliseconds, over the last 1,000.

        `bytes_in` and `bytes_out` count all files; `packed_*` and `compression_ratio` those that were compressed.
        """
        packed = self._counts["packed_out"]
        stats = {
            "total_saved": self._counts["saved"],
            **self._counts,
            "dropped": self._worker.dropped,
            "failed": self._worker.failed,
            "compression_ratio": self._counts["packed_in"] / packed if packed else 1.0,
            "queue_size": len(self._worker),
        }
        for name, times in (("blocking", list(self._blocking_ms)), ("background", list(self._worker.durations_ms))):
            stats[f"{name}_ms_median"] = float(np.median(times)) if times else 0.0
            stats[f"{name}_ms_p99"] = float(np.percentile(times, 99)) if times else 0.0
        return stats

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        close_after(self.shutdown, self._error, error)

    def _make_room(self) -> None:
        """Return when one more snapshot may be queued, after doing what `queue_policy` says; before one is taken."""
        if self._worker.waiting < self.max_queue_size:
            return
        if self.queue_policy == "raise":
            raise self._error(
                f"{self._worker.waiting} tasks wait for the {self._worker.name}: save less often, or choose another "
                "queue_policy"
            )
        self._counts["queue_full"] += 1
        if self._counts["queue_full"] == 1:
            effect = "this save waits" if self.queue_policy == "block" else "saves that wait are dropped"
            self._announce(
                f"[Warning] the queue of the {self._worker.name} is full ({self.max_queue_size} wait), so {effect}: "
                f"save less often, lower the compression level, or allow a longer queue{self.full_hint}"
            )
        self._worker.make_room(self.max_queue_size, drop=self.queue_policy == "drop_oldest")

    def _queue(self, started: float, path: Path, buffer: Buffer, write: Callable[..., None], *args: Any) -> None:
        """Let the thread call `write(*args)`; the save of `path` began at `started`, in seconds of perf_counter."""
        future = self._worker.submit(write, *args, label=str(path))
        future.add_done_callback(lambda _: self._release(buffer))  # also of one that is dropped
        self._blocking_ms.append(1e3 * (time.perf_counter() - started))

    def _count(self, path: Path, nbytes: int, written: int, packed: bool = True, verbose: bool = False) -> None:
        """Count a file of `written` bytes for a state of `nbytes`; print a line if `verbose`, here or for all saves."""
        self._counts["saved"] += 1
        for kind in ("bytes", "packed") if packed else ("bytes",):
            self._counts[f"{kind}_in"] += nbytes
            self._counts[f"{kind}_out"] += written
        if verbose or self.verbose:
            name, ratio = self._worker.name.split()[0], nbytes / written
            print(f"[{name}] {path}: {nbytes / 1e6:.2f} MB as {written / 1e6:.2f} MB, {ratio:.1f}x smaller", flush=True)

    def _release(self, buffer: Buffer) -> None:
        """Let the memory of a snapshot that was written, or dropped, be used again."""
        self._staging.release(buffer)

    def _release_all(self) -> None:
        """Release what the subclass holds, after the last save."""
