"""What the commands of `slipstream ckpt` do: find, verify, export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.checkpoint.errors import CheckpointError
from slipstream.checkpoint.load import CheckpointFile, is_slip, load_checkpoint
from slipstream.checkpoint.saver import write_slip
from slipstream.checkpoint.torch_files import write_pt
from slipstream.storage.errors import SaveError
from slipstream.storage.files import regular_files
from slipstream.storage.staging import Staging
from slipstream.storage.tree import flatten

SUFFIXES = {"pt": ".export.pt", "slip": ".export.pt.slip", "safetensors": ".safetensors"}


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints of a folder and of its checkpoints/ (a run), with the bases kept aside and without links."""

    places, suffixes = (folder, folder / "checkpoints"), (".pt", ".pt.lz4", ".slip")
    files = [path for place in places for path in regular_files(place, lambda name: name.endswith(suffixes))]
    return sorted(path for path in files if not path.is_symlink())


def verify(path: Path) -> str | None:
    """Return None if every byte of the checkpoint is as it was written, else what is wrong."""
    try:
        if is_slip(path):
            with CheckpointFile(path) as slip:
                slip.check()
        else:
            load_checkpoint(path)
    except (SaveError, OSError) as error:
        return str(error)
    return None


def export(path: Path, to: str, out: Path | None = None) -> Path:
    """Write a plain `.pt`, or a complete file of ours: `.pt.slip` compressed, `.safetensors` raw, so that other readers
    find every tensor under its name. Return the file."""
    name = path.name.removesuffix(".slip").removesuffix(".lz4").removesuffix(".pt")
    target = out or path.with_name(f"{name}{SUFFIXES[to]}")
    state = load_checkpoint(path)
    try:
        if to == "pt":
            write_pt(target, state)
        else:
            metrics, step = {}, None
            if is_slip(path):
                with CheckpointFile(path) as slip:
                    metrics, step = slip.metrics, slip.step
            write_state(target, state, to == "slip", metrics, step)
    except (RuntimeError, TypeError, AttributeError) as error:  # such as one memory as two types
        if isinstance(error, SaveError):
            raise
        raise CheckpointError(f"{path}: what it holds cannot be saved ({error})") from error
    return target


def write_state(
    path: Path, state: Any, compress: bool, metrics: dict[str, float] | None = None, step: int | None = None
) -> None:
    """Write a complete file of ours, compressed or for any safetensors reader."""
    tree, leaves = flatten(state)
    buffer = Staging().snapshot(leaves)
    write_slip(path, tree, buffer.layout, buffer.fetch(), compress=compress, metrics=metrics or {}, step=step)
