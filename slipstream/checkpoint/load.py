"""Opening checkpoints, whatever form lies there."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

FORMS = (".slip", ".lz4", "")


def load_checkpoint(path: str | Path, keys: Iterable[str] | None = None, map_location: Any = "cpu") -> Any:
    """The state saved at `path`. `path` may be the file itself or its plain name (`c.pt` for `c.pt.lz4`)."""
    file = find_file(path)
    if file.suffix == ".lz4":
        import lz4.frame

        source: Any = io.BytesIO(lz4.frame.decompress(file.read_bytes()))
    else:
        source = file
    state = torch.load(source, map_location=map_location, weights_only=True)
    return state if keys is None else {k: state[k] for k in keys}


def find_file(path: str | Path) -> Path:
    """The file that `path` names: itself, or the newest of its forms, with a warning when several lie there."""
    path = Path(path)
    found = [p for p in (path.with_name(path.name + form) for form in FORMS) if p.is_file()]
    if path in found and path.suffix in (".slip", ".lz4"):
        return path
    if not found:
        raise FileNotFoundError(f"no checkpoint at {path} (looked for {', '.join(path.name + form for form in FORMS)})")
    newest = max(found, key=lambda p: p.stat().st_mtime_ns)
    if len(found) > 1:
        warnings.warn(f"several forms of {path.name} lie in {path.parent}: taking the newest, {newest.name}", stacklevel=3)
    return newest
