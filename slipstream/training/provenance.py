"""Record what a run ran on: code, versions, device. A fact that cannot be found is None; nothing here fails a run."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

MAX_DIFF_CHARS = 1_000_000  # a diff beyond this is somebody's data, not code


def provenance(folder: Path) -> dict[str, Any]:
    """Return the git state of `folder` and of this package (if it is a checkout), versions, and the name of the
    device."""
    here = Path(__file__).parent
    tracked = _git(here, "ls-files", "--error-unmatch", Path(__file__).name)  # None if only installed in a checkout
    package = git_state(here) if tracked else {}
    return {
        **git_state(folder),
        "slipstream_commit": package.get("commit"),
        "slipstream_dirty": package.get("dirty"),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "slipstream": _version("slipstream-rl"),
        "device": device_name(),
    }


def git_state(folder: Path) -> dict[str, Any]:
    """Return commit, branch, and how tracked files differ from the commit. Untracked files count as clean, as in `git
    describe`."""
    diff = _git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv")
    return {
        "commit": _line(_git(folder, "rev-parse", "--verify", "-q", "HEAD")),
        "branch": _line(_git(folder, "symbolic-ref", "--short", "-q", "HEAD")),  # None on a detached head
        "dirty": None if diff is None else bool(diff),
        "diff": diff and diff[:MAX_DIFF_CHARS],
        "diff_truncated": diff is not None and len(diff) > MAX_DIFF_CHARS,
    }


def device_name() -> str:
    """Return the name of the GPU that torch would use, else of the processor."""
    try:
        import torch

        if torch.cuda.is_available():
            return torch.cuda.get_device_name()
    except (ImportError, RuntimeError):
        pass
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git; None without git, repository, commit or answer."""
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # reading the state must not stand in the user's way
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, env=quiet, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", errors="replace") if done.returncode == 0 else None


def _line(text: str | None) -> str | None:
    return text.strip() or None if text else None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
