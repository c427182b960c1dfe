"""Record what a run ran on: code, versions, device. A fact that cannot be found is None; nothing here fails a run."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

# Nothing in a repository may choose what git runs or asks for.
_SAFE = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


def provenance(folder: Path) -> dict[str, Any]:
    """Return the git state of `folder` and of this package (if it is a checkout), versions, and the name of the
    device."""
    here = Path(__file__).parent
    tracked = _git(here, "rev-parse", "--verify", "-q", f"HEAD:./{Path(__file__).name}")  # None if only installed there
    package = git_state(here) if tracked else {}
    return {
        **git_state(folder),
        "slipstream_commit": package.get("commit"),
        "slipstream_dirty": package.get("dirty"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "slipstream": next((found.version for found in metadata.distributions(name="slipstream-rl")), None),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
    }


def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit, and whether tracked files differ from it. Untracked files and changes inside of submodules
    count as clean.

    The repository may be somebody else's, and its settings name programs: filters, diff and text conversion, a file
    system monitor, transports. So the files are compared in an empty repository with its objects and index.
    """
    answer = _git(folder, "rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel", "HEAD")
    lines = answer.splitlines() if answer else []
    if len(lines) != 4:
        return {"commit": None, "dirty": None}
    own, common, top, commit = lines
    with tempfile.TemporaryDirectory() as empty:
        Path(empty, "refs").mkdir()
        Path(empty, "HEAD").write_text(commit)
        there = {"GIT_DIR": empty, "GIT_WORK_TREE": top, "GIT_INDEX_FILE": f"{own}/index"}
        there |= {"GIT_OBJECT_DIRECTORY": str(folder / common / "objects"), "GIT_CONFIG_GLOBAL": os.devnull}
        there |= {"GIT_CONFIG_NOSYSTEM": "1"}
        words = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--name-only", commit, "--")
        changed = _git(Path(top), "diff", *words, **there)
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def _git(folder: Path, *arguments: str, **more: str) -> str | None:
    """Return the output of git; None without git, repository, commit or answer."""
    env = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"} | more
    try:
        done = subprocess.run([*_SAFE, *arguments], cwd=folder, env=env, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", errors="surrogateescape") if done.returncode == 0 else None


def code_version() -> str:
    """Return the version of this package, with a hash of its code."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return f"{metadata.version('slipstream-rl')} (code {digest.hexdigest()[:8]})"
