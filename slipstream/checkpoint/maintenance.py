"""What the commands of `slipstream ckpt` do: verify, compare, squash, export, repair."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.checkpoint.file import CheckpointFile, CheckpointWriter
from slipstream.checkpoint.load import (
    check_torch,
    find_file,
    is_damage,
    is_slip,
    load_checkpoint,
    number_of,
    read_torch,
    write_pt,
)
from slipstream.checkpoint.retention import link_to, read_entry, remove_unneeded_bases
from slipstream.storage.errors import SaveError, TooLargeError
from slipstream.storage.files import (
    DISK,
    LOCK_NAME,
    WriterLock,
    atomic_file,
    refuse_outside_links,
    regular_files,
    stale_files,
    sync_folder,
)
from slipstream.storage.reader import Reader
from slipstream.storage.serializer import MISSING, flatten, unflatten, walk_leaves
from slipstream.storage.staging import Staging


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints of a folder and of its checkpoints/ (a run), with the bases kept aside and without links."""

    def is_named(name: str) -> bool:
        return name.endswith((".pt", ".pt.lz4", ".slip"))

    files = (*regular_files(folder, is_named), *regular_files(folder / "checkpoints", is_named))
    return sorted(path for path in files if not path.is_symlink())


def verify(path: Path) -> str | None:
    """Return None if every byte of the checkpoint is as it was written, else what is wrong."""
    error = _find_error(path)
    return None if error is None else str(error)


def _find_error(path: Path) -> Exception | None:
    """Return the error with which a checkpoint cannot be read; None if it can."""
    try:
        if is_slip(path):
            with CheckpointFile(path) as slip:
                slip.check()
        else:  # an old torch file has no checksums: it can only be read
            check_torch(path)
            read_torch(path)
    except (SaveError, OSError) as error:
        return error
    return None


@dataclass
class Change:
    """How one entry differs between two checkpoints."""

    path: str
    what: str
    largest: float | None = None  # largest absolute difference
    share: float | None = None  # of elements that differ


def compare(a: Path, b: Path) -> tuple[list[Change], int]:
    """Return the entries that differ between two checkpoints, and how many are equal."""
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
    elif isinstance(state, (list, tuple, deque)) and any(
        isinstance(v, (dict, list, tuple, deque, torch.Tensor)) for v in state
    ):
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
        if not bool(differ.any()):
            return None
        return Change(path, "values", float((x - y).abs().max()), float(differ.double().mean()))
    same = np.array_equal(a, b) if isinstance(a, np.ndarray) else type(a) is type(b) and (a == b or (a != a and b != b))
    return None if same else Change(path, f"{_short(a)} -> {_short(b)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def squash(path: Path, out: Path | None = None) -> Path:
    """Make a difference a complete file that needs no other, in its place or at `out`."""
    target = out or path
    with CheckpointFile(path) as slip, contextlib.closing(CheckpointWriter()) as writer:
        index, (layout, host) = slip.index, slip.snapshot()
        writer.write(target, index.tree, layout, host, metrics=index.metrics, step=index.step)
    return target


def export(path: Path, to: str, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write a plain `.pt`, or the tensors as `.safetensors`; return the file and the entries that it cannot hold."""
    state = load_checkpoint(path)
    name = path.name.removesuffix(".slip").removesuffix(".lz4").removesuffix(".pt")
    target = out or path.with_name(f"{name}.export.pt" if to == "pt" else f"{name}.safetensors")
    if to == "pt":
        try:
            write_pt(target, state, DISK)
        except (RuntimeError, TypeError, AttributeError) as error:  # such as one memory as two types
            raise CheckpointError(f"{path}: torch cannot save what it holds ({error})") from error
        return target, []
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise CheckpointError("writing .safetensors needs the safetensors package: pip install safetensors") from error
    entries = list(_entries(state))
    tensors = {p: v.detach().clone().contiguous() for p, v in entries if isinstance(v, torch.Tensor)}
    with atomic_file(target) as file:
        file.write(save(tensors, metadata={"format": "pt"}))
    return target, [p for p, v in entries if not isinstance(v, torch.Tensor)]


@dataclass
class Repairs:
    """What `repair_folder` did."""

    removed: list[Path] = field(default_factory=list)  # half-written files of killed processes, bases not needed
    quarantined: list[tuple[Path, str]] = field(default_factory=list)  # damaged checkpoints, now *.broken, and why
    left: list[tuple[Path, str]] = field(default_factory=list)  # may be good, but cannot be read here, and why
    linked: list[tuple[Path, Path]] = field(default_factory=list)


def repair_folder(folder: Path) -> Repairs:
    """Remove half-written files, rename damaged checkpoints to `.broken`, point dangling links to the newest good one.

    For a run folder its checkpoints/ is repaired too. A run that is being written is refused.
    """
    refuse_outside_links(folder)
    done, good = Repairs(), []
    places = [place for place in (folder, folder / "checkpoints") if place.is_dir()]
    with _writers_locked_out(folder):
        for path in (path for place in places for path in stale_files(place, every_host=True)):
            if not path.is_dir() or path.is_symlink():
                path.unlink()
                done.removed.append(path)
        for path in checkpoint_files(folder):
            error = _find_error(path)
            if error is None:
                good.append(path)
            elif isinstance(error, TooLargeError) or not is_damage(error):
                done.left.append((path, str(error)))
            else:
                path.rename(path.with_name(path.name + ".broken"))
                done.quarantined.append((path, str(error)))
        for place in places:
            done.removed += remove_unneeded_bases(place, DISK)
            _repair_links(place, [path for path in good if path.parent == place], done)
            sync_folder(place)
    return done


@contextlib.contextmanager
def _writers_locked_out(folder: Path) -> Iterator[None]:
    """Hold the locks of trainings that wrote here: what a running one has half written is no damage."""
    with contextlib.ExitStack() as locks:
        folder = folder.resolve()  # the parent of "." would be itself
        for place in (folder, folder.parent):  # a run, or its checkpoints/
            if (place / LOCK_NAME).exists():
                locks.enter_context(WriterLock(place, "wait until it ends, or stop it, then repair"))
        yield


def _repair_links(folder: Path, good: list[Path], done: Repairs) -> None:
    """Remove links to files that are gone; `latest` then points to the highest number among `good`."""
    links = [link for name in ("latest", "best") for link in folder.glob(f"{name}.pt*")]
    dangling = [link for link in links if link.is_symlink() and not link.exists()]
    for link in dangling:
        link.unlink()
    numbered = [path for path in good if number_of(path) is not None]
    if numbered and any(link.name.startswith("latest.") for link in dangling):
        newest = max(numbered, key=lambda path: (number_of(path) or 0, path.stat().st_mtime_ns))
        done.linked.append((link_to(newest, "latest", DISK), newest))


def salvage(path: Path, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write the tensors of a damaged `.slip` file that can still be read to a new one; return it and the lost
    tensors."""
    file = find_file(path)
    with CheckpointFile(file) as slip:
        index = slip.index
        opened: dict[int, Any] = {}
        for p in range(len(index.storages)):
            with contextlib.suppress(CorruptCheckpointError):
                opened[p] = slip.storages([p])[p]
        tensors = slip.tensors(opened)
    lost = [".".join(map(str, where)) for where, i in walk_leaves(index.tree) if i not in tensors]
    with Reader(file, error=CorruptCheckpointError).parsing("the structure"):
        state = unflatten(index.tree, lambda i: tensors.get(i, MISSING))
    target = out or file.with_name(file.name.removesuffix(".slip").removesuffix(".pt") + ".salvaged.pt.slip")
    tree, leaves = flatten(state)
    buffer = Staging().snapshot(leaves)
    with contextlib.closing(CheckpointWriter()) as writer:
        step = read_entry(file).step
        writer.write(target, tree, buffer.layout, buffer.fetch(), metrics=index.metrics, step=step)
    return target, lost
