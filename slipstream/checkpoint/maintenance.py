"""What is done to checkpoints that lie on a disk: check them, compare, make whole, convert, mend a folder."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.checkpoint import tree
from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.checkpoint.forms import LZ4_MAGIC, read_torch, write_pt
from slipstream.checkpoint.load import find_file, is_slip, load_checkpoint
from slipstream.checkpoint.reader import SlipFile
from slipstream.checkpoint.retention import needed_bases, number_of, read_entry
from slipstream.checkpoint.writer import SlipWriter, make_image
from slipstream.storage.codec import Workers
from slipstream.storage.files import (
    LOCK_NAME,
    FileSystem,
    WriterLock,
    atomic_file,
    point_link,
    stale_files,
    sync_folder,
)
from slipstream.storage.staging import Staging, View


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints of a folder and of its checkpoints/ (a run), whole files kept aside for differences included, links not."""
    names = ("*.pt", "*.pt.slip", "*.pt.lz4", "*.slip")
    patterns = (*names, *(f"checkpoints/{name}" for name in names))
    found = {p for pattern in patterns for p in folder.glob(pattern) if p.is_file() and not p.is_symlink()}
    return sorted(p for p in found if not p.name.endswith(".tmp"))


def verify(path: Path) -> str | None:
    """None if every byte of the checkpoint is as it was written, else what is wrong."""
    try:
        if is_slip(path):
            with SlipFile(path) as slip:
                slip.check()
            return None
        with open(path, "rb") as file:
            magic = file.read(4)
        if magic[:2] == b"PK":
            with zipfile.ZipFile(path) as archive:
                broken = archive.testzip()
            if broken is not None:
                return f"{path}: the checksum of {broken} is wrong"
        elif magic != LZ4_MAGIC:  # an old torch file has no checksums: being readable is all that can be asked
            pass
        read_torch(path, "cpu", mmap=False)
    except (CheckpointError, OSError, zipfile.BadZipFile) as error:
        return str(error)
    return None


@dataclass
class Change:
    """How one entry differs between two checkpoints."""

    path: str
    what: str
    largest: float | None = None  # largest absolute difference
    share: float | None = None  # of elements that differ


def compare(a: Path, b: Path) -> tuple[list[Change], int]:
    """The entries that differ between two checkpoints, and how many are equal."""
    ours, theirs = dict(_entries(load_checkpoint(a))), dict(_entries(load_checkpoint(b)))
    changes, equal = [], 0
    for path in [*ours, *(p for p in theirs if p not in ours)]:
        if path not in ours or path not in theirs:
            changes.append(Change(path, f"only in {(a if path in ours else b).name}"))
        elif (change := _compare(path, ours[path], theirs[path])) is not None:
            changes.append(change)
        else:
            equal += 1
    return changes, equal


def _entries(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(state, dict) and state:
        for key, value in state.items():
            yield from _entries(value, f"{path}.{key}" if path else str(key))
    elif isinstance(state, (list, tuple)) and any(isinstance(v, (dict, list, tuple, torch.Tensor)) for v in state):
        for i, value in enumerate(state):
            yield from _entries(value, f"{path}.{i}")
    else:
        yield path, torch.from_numpy(state) if isinstance(state, np.ndarray) and state.dtype.kind in "biufc" else state


def _compare(path: str, a: Any, b: Any) -> Change | None:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return Change(path, f"{tuple(a.shape)} {a.dtype} -> {tuple(b.shape)} {b.dtype}")
        if a.numel() == 0:
            return None
        wide = torch.complex128 if a.dtype.is_complex else torch.float64
        x, y = a.detach().to(wide), b.detach().to(wide)
        differ = (x != y) & ~((x != x) & (y != y))
        return (
            Change(path, "values", float((x - y).abs().max()), float(differ.double().mean()))
            if bool(differ.any())
            else None
        )
    same = np.array_equal(a, b) if isinstance(a, np.ndarray) else type(a) is type(b) and (a == b or (a != a and b != b))
    return None if same else Change(path, f"{_short(a)} -> {_short(b)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def write_whole(
    path: Path, state: Any, *, metrics: dict[str, float], step: int | None, devices: list[str] | None = None
) -> int:
    """Write `state` as a whole `.slip` file, here and now; the bytes written."""
    structure, leaves = tree.freeze(state)
    buffer = Staging().snapshot(leaves)
    layout = buffer.layout
    views: tuple[View, ...] = layout.views
    if devices is not None and len(devices) == len(views):  # remember where the tensors were when they were first saved
        views = tuple(v._replace(device=d) for v, d in zip(views, devices, strict=True))
    workers = Workers()
    try:
        image = make_image(layout, buffer.fetch())
        return SlipWriter(workers, FileSystem()).write(path, structure, views, image, metrics=metrics, step=step)[1]
    finally:
        workers.close()


def squash(path: Path, out: Path | None = None) -> Path:
    """Make a difference a whole file that needs no other, in its own place or at `out`."""
    with SlipFile(path) as slip:
        index, state = slip.index, slip.load()
    target = out or path
    write_whole(target, state, metrics=index.metrics, step=index.step, devices=[v.device for v in index.views])
    return target


def export(path: Path, to: str, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write a plain `.pt`, or the tensors as `.safetensors`; (the file, the entries that it cannot hold)."""
    state = load_checkpoint(path)
    name = path.name.removesuffix(".slip").removesuffix(".lz4").removesuffix(".pt")
    target = out or path.with_name(f"{name}.export.pt" if to == "pt" else f"{name}.safetensors")
    if to == "pt":
        write_pt(target, state, FileSystem())
        return target, []
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise CheckpointError("writing .safetensors needs the safetensors package: pip install safetensors") from error
    entries = list(_entries(state))
    tensors = {p: v.detach().clone().contiguous() for p, v in entries if isinstance(v, torch.Tensor)}
    with atomic_file(target, FileSystem()) as file:
        file.write(save(tensors, metadata={"format": "pt"}))
    return target, [p for p, v in entries if not isinstance(v, torch.Tensor)]


@dataclass
class Repairs:
    """What `repair` did to a folder."""

    removed: list[Path] = field(default_factory=list)  # half-written files of killed processes, bases nobody needs
    quarantined: list[tuple[Path, str]] = field(default_factory=list)  # damaged checkpoints, now *.broken, and why
    linked: list[tuple[Path, Path]] = field(default_factory=list)


def repair_folder(folder: Path) -> Repairs:
    """Clear away half-written files, put damaged checkpoints aside as `.broken`, point dangling links to the newest good one.

    A run folder means its checkpoints/ too, each with the links that lie there. A run that is being written is refused.
    """
    with _nobody_writes(folder):
        return _repair_folder(folder)


def _repair_folder(folder: Path) -> Repairs:
    done, good = Repairs(), []
    places = [place for place in (folder, folder / "checkpoints") if place.is_dir()]
    for path in (path for place in places for path in stale_files(place, every_host=True)):
        path.unlink()
        done.removed.append(path)
    for path in checkpoint_files(folder):
        reason = verify(path)
        if reason is None:
            good.append(path)
            continue
        path.rename(path.with_name(path.name + ".broken"))
        done.quarantined.append((path, reason))
    for place in places:
        _remove_bases(place, done)
        _mend_links(place, [path for path in good if path.parent == place], done)
        sync_folder(place, FileSystem())
    return done


@contextlib.contextmanager
def _nobody_writes(folder: Path) -> Iterator[None]:
    """Holds the locks of trainings that wrote here: what one that goes on has half written, or not yet linked, is no damage."""
    with contextlib.ExitStack() as locks:
        folder = folder.resolve()  # of "." the parent would be itself
        for place in (folder, folder.parent):  # a run, or its checkpoints/
            if (place / LOCK_NAME).exists():
                locks.enter_context(WriterLock(place, "wait until it ends, or stop it, then repair"))
        yield


def _remove_bases(folder: Path, done: Repairs) -> None:
    """Removes the whole files kept aside that no difference needs any more."""
    needed = {identity.hex() for identity in needed_bases(folder)}
    for path in folder.glob(".base-*.pt.slip"):
        if path.name.removeprefix(".base-").removesuffix(".pt.slip") not in needed:
            path.unlink()
            done.removed.append(path)


def _mend_links(folder: Path, good: list[Path], done: Repairs) -> None:
    """Removes links to files that are gone; `latest` then points to the highest number among `good`."""
    dangling = [
        link
        for name in ("latest", "best")
        for link in folder.glob(f"{name}.pt*")
        if link.is_symlink() and not link.exists()
    ]
    for link in dangling:
        link.unlink()
    numbered = [path for path in good if number_of(path) is not None]
    if numbered and any(link.name.startswith("latest.") for link in dangling):
        newest = max(numbered, key=lambda path: (number_of(path) or 0, path.stat().st_mtime_ns))
        link = folder / f"latest.pt{newest.suffix if newest.suffix in ('.slip', '.lz4') else ''}"
        point_link(link, newest, FileSystem())
        done.linked.append((link, newest))


def salvage(path: Path, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write what is still whole of a damaged `.slip` file to a new one; (the file, the tensors that are lost)."""
    file = find_file(path)
    with SlipFile(file) as slip:
        index = slip.index
        opened: dict[int, Any] = {}
        for p in range(len(index.storages)):
            with contextlib.suppress(CorruptCheckpointError):
                opened[p] = slip.storages([p])[p]
        lost = {i for i, view in enumerate(index.views) if view.storage not in opened}
        names = [".".join(map(str, where)) for where, i in tree.walk_leaves(index.structure) if i in lost]
        state = tree.thaw(_without(index.structure, lost), slip.tensors(opened).__getitem__)
    target = out or file.with_name(file.name.removesuffix(".slip").removesuffix(".pt") + ".salvaged.pt.slip")
    write_whole(target, state, metrics=index.metrics, step=read_entry(file, 0).step)
    return target, names


def _without(node: Any, lost: set[int]) -> Any:
    """A frozen tree without some tensors: their keys are left out, in lists None stands in their place."""
    if type(node) is not tree.Node:
        return node
    tag, value = node
    if tag in ("dict", "odict"):
        pairs = value if tag == "dict" else value[0]
        kept = [(k, _without(v, lost)) for k, v in pairs if not _is_lost(v, lost)]
        return tree.Node(tag, kept if tag == "dict" else [kept, value[1]])
    if tag in ("list", "tuple"):
        return tree.Node(tag, [None if _is_lost(v, lost) else _without(v, lost) for v in value])
    return None if _is_lost(node, lost) else node


def _is_lost(node: Any, lost: set[int]) -> bool:
    if type(node) is not tree.Node or node.tag not in ("tensor", "learning", "ndarray", "parameter"):
        return False
    return (node.value[0] if node.tag == "parameter" else node.value) in lost
