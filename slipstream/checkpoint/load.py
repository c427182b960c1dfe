"""Opening checkpoints, whatever form lies there."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slipstream.checkpoint import tree
from slipstream.checkpoint.format import MAGIC
from slipstream.checkpoint.forms import read_torch
from slipstream.checkpoint.reader import SlipFile
from slipstream.checkpoint.retention import number_of

FORMS = (".slip", ".lz4", "")


def load_checkpoint(
    path: str | Path, keys: Iterable[str] | None = None, map_location: Any = "cpu", mmap: bool = False
) -> Any:
    """The state saved at `path`, which may be the file itself, its plain name (`c.pt` for `c.pt.slip`), or a folder: its `latest`.

    keys: only these parts, as dotted paths (`["model", "optimizer.state"]`); of a `.slip` file nothing else is read.
    map_location: a device for the tensors; None puts each where it was when saved.
    mmap: map what lies raw in the file instead of reading it; writing to such a tensor changes memory, never the file.
    No code from the file is ever run; a file that asks for it raises UnsafeCheckpointError, a damaged one CorruptCheckpointError.
    """
    file = find_file(path)
    if is_slip(file):
        with SlipFile(file) as slip:
            return slip.load(keys, map_location, mmap)
    state = read_torch(file, map_location, mmap)
    if keys is None:
        return state
    structure, leaves = tree.freeze(state)
    return tree.thaw(tree.select(structure, list(keys)), lambda i: leaves.data[i])


def is_slip(path: Path) -> bool:
    """Whether the file begins as ours do."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC or path.suffix == ".slip"


def find_file(path: str | Path) -> Path:
    """The file that `path` names: itself, or the newest of its forms, with a warning when several lie there."""
    path = Path(path)
    if path.is_dir():
        path = _latest_in(path)
    if path.suffix in (".slip", ".lz4") and path.is_file():
        return path
    found = [p for p in (path.with_name(path.name + form) for form in FORMS) if p.is_file()]
    if not found:
        raise FileNotFoundError(f"no checkpoint at {path} (looked for {', '.join(path.name + form for form in FORMS)})")
    newest = max(found, key=lambda p: p.stat().st_mtime_ns)
    if len(found) > 1:
        warnings.warn(
            f"several forms of {path.name} lie in {path.parent}: taking the newest, {newest.name}", stacklevel=3
        )
    return newest


def _latest_in(folder: Path) -> Path:
    """What `latest` means in a folder, or in the checkpoints/ of a run: its link, else the file of the highest number."""
    for place in (folder, folder / "checkpoints"):
        if any(place.glob("latest.pt*")):
            return place / "latest.pt"
        numbered = [p for p in place.glob("*_[0-9]*.pt*") if p.is_file() and number_of(p) is not None]
        if numbered:
            return max(
                numbered, key=lambda p: (number_of(p), p.stat().st_mtime_ns)
            )  # by number: c_1000 comes after c_999
    return folder / "latest.pt"
