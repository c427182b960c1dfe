"""What the commands of `slipstream ckpt` do: find, verify, export."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.checkpoint.errors import CheckpointError
from slipstream.checkpoint.file import CheckpointFile, CheckpointWriter
from slipstream.checkpoint.load import check_torch, is_slip, load_checkpoint, read_torch, write_pt
from slipstream.storage.errors import SaveError
from slipstream.storage.files import DISK, atomic_file, regular_files
from slipstream.storage.serializer import flatten
from slipstream.storage.staging import Staging


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints of a folder and of its checkpoints/ (a run), with the bases kept aside and without links."""

    def is_named(name: str) -> bool:
        return name.endswith((".pt", ".pt.lz4", ".slip"))

    files = (*regular_files(folder, is_named), *regular_files(folder / "checkpoints", is_named))
    return sorted(path for path in files if not path.is_symlink())


def verify(path: Path) -> str | None:
    """Return None if every byte of the checkpoint is as it was written, else what is wrong."""
    try:
        if is_slip(path):
            with CheckpointFile(path) as slip:
                slip.check()
        else:  # the tensors of a torch file have checksums, the rest can only be read
            check_torch(path)
            read_torch(path)
    except (SaveError, OSError) as error:
        return str(error)
    return None


def export(path: Path, to: str, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write a plain `.pt`, a complete `.pt.slip` that needs no other file, or the tensors as `.safetensors`; return the
    file and the entries that it cannot hold."""
    name = path.name.removesuffix(".slip").removesuffix(".lz4").removesuffix(".pt")
    suffix = {"pt": ".export.pt", "slip": ".export.pt.slip", "safetensors": ".safetensors"}[to]
    target = out or path.with_name(f"{name}{suffix}")
    state = load_checkpoint(path)
    if to == "slip":
        _write_slip(path, target, state)
        return target, []
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


def _write_slip(path: Path, target: Path, state: Any) -> None:
    metrics, step = {}, None
    if is_slip(path):
        with CheckpointFile(path) as slip:
            metrics, step = slip.index.metrics, slip.index.step
    try:
        tree, leaves = flatten(state, error=CheckpointError)
        buffer = Staging().snapshot(leaves)
    except TypeError as error:
        raise CheckpointError(f"{path}: {error}") from error
    with contextlib.closing(CheckpointWriter()) as writer:
        writer.write(target, tree, buffer.layout, buffer.fetch(), metrics=metrics, step=step)


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
