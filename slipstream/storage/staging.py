"""The snapshot: every tensor of a state copied, at the call, into one reused buffer.

The buffer is laid out as the file will be: streams of numbers of one width, tensors of one role side by side. Tensors on
a GPU are first copied on the GPU, into a second reused buffer, so that the trainer waits for no bus; the saver's thread
brings that buffer to pinned memory on a stream of its own.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.storage.serializer import Leaves

ALIGN = 16  # bytes; enough for every dtype, and a thousand 4-byte step counters stay small
SIGNED_MOMENTS = frozenset(("exp_avg", "momentum_buffer", "mu", "exp_avg_diff"))
SQUARED_MOMENTS = frozenset(("exp_avg_sq", "max_exp_avg_sq", "square_avg", "exp_inf", "nu"))
WHOLE = -1
_META = torch.device("meta")
_QUANTIZED = frozenset((torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4))
MOMENTS = SIGNED_MOMENTS | SQUARED_MOMENTS


class Storage(NamedTuple):
    """A run of bytes that one or more tensors look at."""

    stream: int
    start: int  # bytes into the stream
    nbytes: int
    role: str  # the name of the optimizer moment it holds, or ""


class View(NamedTuple):
    """How a tensor looks at its storage. `dtype` is torch's name, or NumPy's with the prefix `numpy:`."""

    storage: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # elements
    device: str


class Stream(NamedTuple):
    """Numbers of one width, one after the other."""

    width: int
    start: int  # bytes into the host buffer
    nbytes: int


@dataclass(frozen=True)
class Layout:
    """Where everything lies. Two states of the same layout can be coded as a difference."""

    key: tuple[Any, ...]
    streams: tuple[Stream, ...]
    storages: tuple[Storage, ...]
    views: tuple[View, ...]
    sources: tuple[
        tuple[int, int], ...
    ]  # per storage: the leaf to copy from; WHOLE, or the first byte of what several tensors share
    regions: tuple[tuple[str, int, int], ...]  # (device, start, end) in the host buffer
    nbytes: int


def describe(leaves: Leaves) -> tuple[Any, ...]:
    """What decides the layout of `leaves`: dtypes, shapes, strides, devices, roles and who shares storage with whom.

    The trainer waits for this: one attribute of all tensors after the other, without a loop in Python. What of it can be saved
    at all is looked at when it is first seen, in `plan`.
    """
    tensors = leaves.data
    arrays: tuple[Any, ...] = ()
    if leaves.arrays:
        arrays = tuple((i, leaves.data[i].dtype, leaves.data[i].shape) for i in leaves.arrays)
        tensors = [data for data in leaves.data if not isinstance(data, np.ndarray)]
    try:
        if any(map(Tensor.is_neg, tensors)) or any(map(Tensor.is_conj, tensors)):
            leaves.data[:] = [d if isinstance(d, np.ndarray) else d.resolve_conj().resolve_neg() for d in leaves.data]
            return describe(leaves)
        strides = () if all(map(Tensor.is_contiguous, tensors)) else tuple(map(Tensor.stride, tensors))
        storages = list(map(_ADDRESS, map(Tensor.untyped_storage, tensors)))
    except (RuntimeError, NotImplementedError):
        for data, name in zip(leaves.data, leaves.names, strict=True):
            _refuse_special(data, name)
        raise
    shared: tuple[tuple[int, int], ...] = ()  # the first tensor with the same storage, and where in it this one begins
    if len(set(storages)) != len(storages):
        first: dict[int, int] = {}
        shared = tuple((first.setdefault(s, i), tensors[i].storage_offset()) for i, s in enumerate(storages))
    return tuple(map(_KIND, tensors)), strides, shared, arrays, tuple(map(_ROLE, leaves.names))


_KIND = attrgetter("dtype", "shape", "device")
_ADDRESS = attrgetter("_cdata")
_ROLE = {name: name for name in MOMENTS}.get  # None for what is no moment


def _refuse_special(data: Any, name: Any) -> None:
    if isinstance(data, np.ndarray):
        if data.dtype.hasobject or data.dtype.names:
            raise TypeError(
                f"array {name!r} of dtype {data.dtype} is not plain numbers: save its columns as arrays of their own"
            )
    elif data.layout is not torch.strided or data.dtype in _QUANTIZED or data.device == _META:
        kind = f"{data.layout}, {data.dtype}, {data.device}"
        raise TypeError(
            f"tensor {name!r} is not a plain dense tensor ({kind}): save to_dense(), dequantize() or its parts"
        )


def _entries(key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What `describe` found, leaf by leaf: (dtype, shape) of an array; of a tensor also stride, offset, first sharer, device, role."""
    kinds, strides, shared, arrays, roles = key
    out: list[Any] = [None] * len(roles)
    for i, dtype, shape in arrays:
        out[i] = (dtype.str, shape)
    places = [i for i, entry in enumerate(out) if entry is None]
    for t, i in enumerate(places):
        dtype, shape, device = kinds[t]
        first, offset = (places[shared[t][0]], shared[t][1]) if shared else (i, 0)
        out[i] = (dtype, shape, strides[t] if strides else _contiguous(shape), offset, first, device, roles[i] or "")
    return out


def plan(leaves: Leaves, key: tuple[Any, ...]) -> Layout:
    """Lay out the leaves that `describe` gave `key` for."""
    for data, name in zip(leaves.data, leaves.names, strict=True):
        _refuse_special(data, name)
    entries = _entries(key)
    groups: dict[Any, list[int]] = {}
    for i, entry in enumerate(entries):
        groups.setdefault(("numpy", i) if len(entry) == 2 else ("tensor", entry[4]), []).append(i)
    parts = []  # (device, width, role, leaves, nbytes, first byte or WHOLE)
    for group in groups.values():
        entry = entries[group[0]]
        if len(entry) == 2:
            dtype = np.dtype(entry[0])
            width = dtype.itemsize if dtype.kind in "biufc" and dtype.itemsize in (1, 2, 4, 8) else 1
            parts.append(("cpu", width, "", group, dtype.itemsize * int(np.prod(entry[1], dtype=object)), WHOLE))
            continue
        nbytes, low = int(np.prod(entry[1], dtype=object)) * entry[0].itemsize, WHOLE
        if any(
            entries[i][:4] != entry[:4] for i in group
        ):  # different views of one storage: keep all that lies between them
            ranges = [_extent(entries[i]) for i in group]
            low = min(r[0] for r in ranges) // 16 * 16  # every dtype's offsets stay whole numbers
            nbytes = max(r[1] for r in ranges) - low
        parts.append((str(entry[5]), _width(entry[0]), entry[6], group, nbytes, low))
    order = sorted(range(len(parts)), key=lambda p: (parts[p][0] != "cpu", *parts[p][:3], p))
    streams: list[Stream] = []
    storages: list[Storage] = [Storage(0, 0, 0, "")] * len(parts)
    regions: list[tuple[str, int, int]] = []
    views: list[View | None] = [None] * len(entries)
    position, previous = 0, None
    for p in order:
        device, width, role, group, nbytes, low = parts[p]
        if (device, width) != previous:
            position = -(-position // 64) * 64
            if previous is None or device != previous[0]:
                regions.append((device, position, position))
            streams.append(Stream(width, position, 0))
            previous = (device, width)
        start = -(-position // ALIGN) * ALIGN
        position = start + nbytes
        storages[p] = Storage(len(streams) - 1, start - streams[-1].start, nbytes, role)
        streams[-1] = streams[-1]._replace(nbytes=position - streams[-1].start)
        regions[-1] = (device, regions[-1][1], position)
        for i in group:
            views[i] = _view(entries[i], p, low)
    sources = tuple((part[3][0], part[5]) for part in parts)
    return Layout(
        key,
        tuple(streams),
        tuple(storages),
        tuple(v for v in views if v is not None),
        sources,
        tuple(regions),
        position,
    )


def _view(entry: tuple[Any, ...], storage: int, low: int) -> View:
    if len(entry) == 2:
        return View(storage, f"numpy:{entry[0]}", tuple(entry[1]), (), 0, "cpu")
    dtype, shape, stride, offset, _, device, _ = entry
    name = str(dtype).removeprefix("torch.")
    if low != WHOLE:
        return View(storage, name, tuple(shape), tuple(stride), offset - low // dtype.itemsize, str(device))
    return View(storage, name, tuple(shape), _kept_stride(shape, stride), 0, str(device))


def _kept_stride(shape: Any, stride: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor copied on its own: its own order of dimensions where it has no holes, else contiguous."""
    expected = 1
    for size, step in sorted(((s, t) for s, t in zip(shape, stride, strict=True) if s != 1), key=lambda pair: pair[1]):
        if step != expected:
            return _contiguous(shape)
        expected *= size
    return tuple(stride)


def _contiguous(shape: Any) -> tuple[int, ...]:
    out, run = [], 1
    for size in reversed(shape):
        out.append(run)
        run *= max(size, 1)
    return tuple(reversed(out))


def _extent(entry: tuple[Any, ...]) -> tuple[int, int]:
    dtype, shape, stride, offset = entry[:4]
    if 0 in shape:
        return offset * dtype.itemsize, offset * dtype.itemsize
    last = offset + sum((s - 1) * t for s, t in zip(shape, stride, strict=True))
    return offset * dtype.itemsize, (last + 1) * dtype.itemsize


def _width(dtype: torch.dtype) -> int:
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    return size if size in (1, 2, 4, 8) else 1


class Buffer:
    """Memory for one snapshot of one layout: a host buffer, and one on each GPU that holds some of the tensors."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._gpus = [(torch.device(d), a, b) for d, a, b in layout.regions if d != "cpu"]
        pinned = any(device.type == "cuda" for device, _, _ in self._gpus)
        self.host = torch.zeros(layout.nbytes, dtype=torch.uint8, pin_memory=pinned)
        self._device = [torch.zeros(b - a, dtype=torch.uint8, device=d) for d, a, b in self._gpus]
        self._events: list[Any] = []
        self._arrays: list[tuple[np.ndarray, int]] = []  # (where to, from which leaf)
        self._spans: list[tuple[Tensor, int, int]] = []  # what several tensors share, from its first byte on
        copies: dict[
            Any, tuple[list[Tensor], list[int]]
        ] = {}  # one call, on a GPU one launch, for all of one dtype on one device
        for p, (leaf, low) in enumerate(layout.sources):
            target = self._target(p)
            if layout.views[leaf].dtype.startswith("numpy:"):
                self._arrays.append((target.numpy(), leaf))
            elif low != WHOLE:
                self._spans.append((target, leaf, low))
            else:
                targets, leaves = copies.setdefault((target.device, target.dtype), ([], []))
                targets.append(target)
                leaves.append(leaf)
        self._copies = list(copies.values())

    def _target(self, p: int) -> Tensor:
        layout = self.layout
        storage, (leaf, low) = layout.storages[p], layout.sources[p]
        view = layout.views[leaf]
        start = layout.streams[storage.stream].start + storage.start
        flat = self.host
        if view.device != "cpu":
            gpu = next(i for i, (device, _, _) in enumerate(self._gpus) if str(device) == view.device)
            flat, start = self._device[gpu], start - self._gpus[gpu][1]
        piece = flat[start : start + storage.nbytes]
        if low != WHOLE or view.dtype.startswith("numpy:"):
            return piece
        return piece.view(getattr(torch, view.dtype)).as_strided(
            view.shape, view.stride, start // getattr(torch, view.dtype).itemsize
        )

    def fill(self, data: list[Any]) -> None:
        """Copy the leaves in; on a GPU the copies are queued behind the work already there."""
        for array, leaf in self._arrays:
            array[:] = np.ascontiguousarray(data[leaf]).reshape(-1).view(np.uint8)
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
        """The snapshot as host bytes, once it has come over from the GPUs. Called by the saver's thread."""
        events = iter(self._events)
        for (device, start, end), staged in zip(self._gpus, self._device, strict=True):
            if device.type != "cuda":
                self.host[start:end].copy_(staged)
                continue
            stream = _side_stream(device)
            stream.wait_event(next(events))
            with torch.cuda.stream(stream):
                self.host[start:end].copy_(staged, non_blocking=True)
            stream.synchronize()
        return self.host.numpy()


_streams: dict[Any, Any] = {}


def _side_stream(device: torch.device) -> Any:
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


class Staging:
    """Buffers that come back: a saver that keeps its rhythm takes memory once."""

    def __init__(self) -> None:
        self._known: dict[
            Any, tuple[Layout, list[Buffer]]
        ] = {}  # by what `describe` found: the layout, and buffers that are free
        self._lock = threading.Lock()

    def snapshot(self, leaves: Leaves) -> Buffer:
        """A buffer that holds the leaves as they are now; give it back with `release`."""
        key = describe(leaves)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = plan(leaves, key), []
                while len(self._known) >= 4:  # states of more shapes than this are not a rhythm: let the oldest go
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
