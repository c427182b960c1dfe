"""Reading a `.pt.slip` file: all of it, or single tensors; every chunk's checksum is tested before its bytes are used."""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.checkpoint import tree
from slipstream.checkpoint.errors import CorruptCheckpointError
from slipstream.checkpoint.format import Index, int8_count, is_signed, read_index
from slipstream.storage.codec import CHUNK_BYTES, CodecError, Scratch, Workers, decode_chunk, dequantise_moments
from slipstream.storage.codec.registry import DELTA, RAW
from slipstream.storage.staging import View

_workers = Workers()
_local = threading.local()


class _Memory:
    """What a thread needs to read chunks; kept, since fresh memory costs as much as decoding."""

    def __init__(self) -> None:
        self.own, self.base = Scratch(), Scratch()
        self.chunk = np.empty(CHUNK_BYTES, np.uint8)


def _thread_memory() -> _Memory:
    if not hasattr(_local, "memory"):
        _local.memory = _Memory()
    return _local.memory


class SlipFile:
    """An open checkpoint. `index` says what is in it; `load` gives it, or the part below some keys."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        real = Path(os.path.realpath(path))  # a `latest` link: the base lies beside the file itself
        self._fd = os.open(real, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._base: SlipFile | None = None
        try:
            self.index: Index = read_index(self._fd, self.path)
            if self.index.base is not None:
                self._base = _open_base(real, *self.index.base)
                _check_base(self.index, self._base.index, self.path)
        except BaseException:
            self.close()
            raise

    def load(self, keys: Iterable[str] | None = None, map_location: Any = "cpu", mmap: bool = False) -> Any:
        """The state, or its part below the dotted `keys`."""
        structure = self.index.structure if keys is None else tree.select(self.index.structure, list(keys))
        wanted = sorted(
            {leaf for _, leaf in tree.walk_leaves(structure)} if keys is not None else range(len(self.index.views))
        )
        opened = self.storages(sorted({self.index.views[i].storage for i in wanted}), mmap)
        return tree.thaw(structure, self.tensors(opened, map_location).__getitem__)

    def tensors(self, opened: dict[int, Tensor], map_location: Any = "cpu") -> dict[int, Any]:
        """Every tensor and array whose storage is among `opened`, by its number."""
        views = ((i, view) for i, view in enumerate(self.index.views) if view.storage in opened)
        return {i: _on_device(make_tensor(view, opened[view.storage]), view, map_location) for i, view in views}

    def storages(self, wanted: list[int], mmap: bool = False) -> dict[int, Tensor]:
        """The bytes of some storages, uint8 each in memory of its own."""
        _check_memory(sum(self.index.storages[p][0].nbytes for p in wanted), self.path)
        raw: dict[int, Tensor] = {}
        mapped = self._map(wanted) if mmap else {}
        parts: dict[int, list[tuple[int, np.ndarray]]] = {}  # stream -> (start, bytes to fill)
        for p in wanted:
            storage, _ = self.index.storages[p]
            raw[p] = mapped[p] if p in mapped else torch.empty(storage.nbytes, dtype=torch.uint8)
            if storage.nbytes and p not in mapped:
                parts.setdefault(storage.stream, []).append((storage.start, raw[p].numpy()))
        jobs = [(s, i, pieces) for s, ranges in parts.items() for i, pieces in _by_chunk(ranges)]
        for _ in _workers.map(self._read, jobs) if len(jobs) > 1 else map(self._read, jobs):
            pass
        return {p: self._open(p, raw[p]) for p in wanted}

    def check(self) -> None:
        """Read and decode every chunk; raises CorruptCheckpointError at the first that is damaged."""
        chunks = ((s, i) for s, stream in enumerate(self.index.streams) for i in range(len(stream.chunks)))
        for _ in _workers.map(lambda at: self._read((*at, [])), chunks):
            pass
        if self._base is not None:
            self._base.check()

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._base is not None:
            self._base.close()

    def __enter__(self) -> SlipFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read(self, job: tuple[int, int, list[tuple[int, np.ndarray]]]) -> None:
        """Decode chunk i of stream s and copy it to (start in chunk, bytes) pieces; one that is the whole chunk is decoded in place."""
        s, i, pieces = job
        first, last = self.index.streams[s].extent(i)
        whole = len(pieces) == 1 and pieces[0][1].size == last - first
        kept = _thread_memory()
        out = pieces[0][1] if whole else kept.chunk[: last - first]
        self.decode(s, i, out, kept.own, kept.base)
        if not whole:
            for start, piece in pieces:
                piece[:] = out[start : start + piece.size]

    def decode(self, s: int, i: int, out: np.ndarray, scratch: Scratch, other: Scratch) -> None:
        """Chunk i of stream s into `out`, checked; `other` serves the base's chunk where there is one."""
        stream = self.index.streams[s]
        chunk = stream.chunks[i]
        in_place = chunk.method == RAW and chunk.stored == out.size  # raw and without padding: read where it belongs
        data = out.data if in_place else scratch.planes.data[: chunk.stored]
        if os.preadv(self._fd, [data], chunk.offset) != chunk.stored:
            raise CorruptCheckpointError(f"{self.path}: cut short while it was read")
        if zlib.crc32(data) != chunk.crc:
            raise CorruptCheckpointError(
                f"{self.path}: chunk {i} of stream {s} (bytes {chunk.offset} on) has a wrong checksum"
            )
        if in_place:
            return
        older = None
        if chunk.method & DELTA:
            if self._base is None:
                raise CorruptCheckpointError(f"{self.path}: a difference in a file without a base")
            older = scratch.other[: out.size]
            self._base.decode(s, i, older, other, other)
        try:
            used = decode_chunk(data, chunk.method, stream.width, out, older, scratch)
        except CodecError as error:
            raise CorruptCheckpointError(f"{self.path}: chunk {i} of stream {s}: {error}") from error
        if any(data[used:]):
            raise CorruptCheckpointError(f"{self.path}: chunk {i} of stream {s} is followed by other bytes")

    def _open(self, p: int, stored: Tensor) -> Tensor:
        storage, coding = self.index.storages[p]
        if coding == "bf16":
            return stored.view(torch.bfloat16).float().view(torch.uint8)
        if coding == "int8":
            values = dequantise_moments(stored.numpy(), int8_count(storage.nbytes), is_signed(storage.role))
            return torch.from_numpy(values).view(torch.uint8)
        return stored

    def _map(self, wanted: list[int]) -> dict[int, Tensor]:
        """Storages whose chunks are all raw, and so lie one after the other, mapped: writing to them copies the page, not the file."""
        import mmap

        found: dict[int, Tensor] = {}
        view = mmap.mmap(self._fd, 0, access=mmap.ACCESS_COPY)
        for p in wanted:
            storage, coding = self.index.storages[p]
            if not storage.nbytes or coding:
                continue
            stream = self.index.streams[storage.stream]
            first, last = storage.start // CHUNK_BYTES, (storage.start + storage.nbytes - 1) // CHUNK_BYTES
            chunks = stream.chunks[first : last + 1]
            if any(c.method != RAW for c in chunks):
                continue
            for i in range(first, last + 1):
                c = stream.chunks[i]
                if zlib.crc32(memoryview(view)[c.offset : c.offset + c.stored]) != c.crc:
                    raise CorruptCheckpointError(
                        f"{self.path}: chunk {i} of stream {storage.stream} has a wrong checksum"
                    )
            offset = chunks[0].offset + storage.start - first * CHUNK_BYTES
            found[p] = torch.frombuffer(view, dtype=torch.uint8, count=storage.nbytes, offset=offset)
        return found


def _by_chunk(ranges: list[tuple[int, np.ndarray]]) -> list[tuple[int, list[tuple[int, np.ndarray]]]]:
    """Cut the pieces to fill at the borders of the chunks."""
    out: dict[int, list[tuple[int, np.ndarray]]] = {}
    for start, piece in ranges:
        done = 0
        while done < piece.size:
            i, inside = divmod(start + done, CHUNK_BYTES)
            step = min(piece.size - done, CHUNK_BYTES - inside)
            out.setdefault(i, []).append((inside, piece[done : done + step]))
            done += step
    return sorted(out.items(), key=lambda item: item[0])


def make_tensor(view: View, data: Tensor) -> Any:
    """The tensor or array that looks at `data`, uint8, as `view` says; shares its memory."""
    if view.dtype.startswith("numpy:"):
        return data.numpy().view(np.dtype(view.dtype.removeprefix("numpy:"))).reshape(view.shape)
    dtype = getattr(torch, view.dtype)
    # set_: tensors that shared a storage share it again, and one alone has a storage of its own
    return torch.empty(0, dtype=dtype).set_(data.untyped_storage(), view.offset, view.shape, view.stride)


def _on_device(made: Any, view: View, map_location: Any) -> Any:
    if isinstance(made, np.ndarray):
        return made
    if isinstance(map_location, dict):
        target = map_location.get(view.device, view.device)
    elif map_location is None or isinstance(map_location, (str, torch.device)):
        target = view.device if map_location is None else map_location
    else:
        raise TypeError(
            f"map_location is a {type(map_location).__name__}: use a device, a dict of devices, or None for where it was saved"
        )
    return made if torch.device(target).type == "cpu" else made.to(target)


def _open_base(real: Path, name: str, identity: bytes) -> SlipFile:
    """The whole file that a difference needs: under its name, or where the saver put it aside when the name was used again."""
    reasons = []
    for candidate in (real.with_name(name), real.with_name(aside_name(identity))):
        with contextlib.ExitStack() as stack:
            try:
                base = SlipFile(candidate)
            except FileNotFoundError:
                continue
            except CorruptCheckpointError as error:
                reasons.append(str(error))
                continue
            stack.callback(base.close)
            if base.index.identity == identity and base.index.base is None:
                stack.pop_all()
                return base
            reasons.append(f"{candidate.name} is another checkpoint than the one this difference was taken against")
    raise CorruptCheckpointError(f"{real}: this difference needs {name}: {'; '.join(reasons) or 'it is not there'}")


def aside_name(identity: bytes) -> str:
    """Where a whole file is kept that differences need while its name is used again."""
    return f".base-{identity.hex()}.pt.slip"


def _check_base(index: Index, base: Index, path: Path) -> None:
    if [(s.width, s.nbytes) for s in index.streams] != [(s.width, s.nbytes) for s in base.streams]:
        raise CorruptCheckpointError(f"{path}: the difference and its base do not hold the same tensors")


def _check_memory(needed: int, path: Path) -> None:
    with contextlib.suppress(ValueError, OSError, AttributeError):
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > have:
            raise CorruptCheckpointError(
                f"{path}: claims {needed / 1e9:.1f} GB of tensors, this machine has {have / 1e9:.1f} GB: damaged, or load parts (keys=...)"
            )
