"""RunFolder: one folder per training run, with everything needed to read, resume and repeat it.

runs/2026-11-20_14-03-12_TASK/
  config.yaml      the complete config
  git.json         the code it ran: commit, and whether files differed from it; versions; device
  status.json      running, interrupted, finished or failed, with frames and reason
  metrics.jsonl    one line per iteration (`RunLog`)
  tensorboard/     the same for TensorBoard
  checkpoints/     ckpt_000123.pt
  best.pt          the policy with the best evaluation
  rollouts/        batches, with rollout_save_interval
  recordings/      flights or duels, with record_minutes
  learning.png     the curves of the run
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import yaml

from slipstream.checkpoint.load import find_run
from slipstream.config.help import ConfigError
from slipstream.config.overrides import read_yaml
from slipstream.storage.errors import DamagedFileError, printable
from slipstream.storage.files import is_alive, make_folder, sync_folder, write_file
from slipstream.storage.tensor_file import Reader

STOPPED = 75  # exit code of a training that a signal stopped: EX_TEMPFAIL, "try again"
STOPPED_BY_KEY = 130  # and by Ctrl-C, as of any program
_FIRST_FILES = {"checkpoints", "git.json"}  # of a run that was killed while its folder was made
STATES = ("running", "interrupted", "finished", "failed")
MAX_REASON = 500  # characters in status.json
# Nothing in a repository may choose what git runs or asks for.
_SAFE = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run: make one with `create`, open an old one with `open`."""

    path: Path

    @classmethod
    def create(cls, root: str | PathLike[str], name: str | None, config: Mapping[str, Any]) -> RunFolder:
        """Make a new folder under `root`, by default named after the time and `config["task"]`; a name in use gets -2,
        -3, ..."""
        if name is None:
            name = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{_task_name(config)}"
        check_name(name)
        text = config_yaml(config)  # before mkdir: it may raise
        run = cls(_make_unused(Path(root), name))
        run._begin(text)
        return run

    @classmethod
    def at(cls, root: str | PathLike[str], name: str) -> RunFolder:
        """Return the run ROOT/NAME, with or without checkpoints; make an empty folder if there is none.

        Raises:
            ConfigError: The folder holds something else than a run.
        """
        check_name(name)
        run = cls(Path(root).absolute() / name)
        make_folder(run.path)
        others = {entry.name for entry in run.path.iterdir() if not entry.name.startswith(".")} - _FIRST_FILES
        if others and not run.is_complete():
            raise ConfigError(f"{run.path} is not a run folder, it holds {min(others)}: give another name=")
        return run

    def is_complete(self) -> bool:
        """Return whether the folder was made to the end: its config is written last."""
        return (self.path / "config.yaml").is_file()

    def has_checkpoints(self) -> bool:
        """Return whether a checkpoint was saved, good or broken."""
        return any(self.checkpoints.glob("ckpt_*"))

    def check_unfinished(self) -> None:
        """Raise ConfigError if the run was trained to its end: without checkpoints it cannot continue, and a new start
        would remove its results."""
        if self.status().get("state") == "finished":
            raise ConfigError(
                f"{self.path} is finished, and its checkpoints are gone: give another name=, or remove the folder to train again"
            )

    def restart(self, config: Mapping[str, Any]) -> None:
        """Begin again in a folder without checkpoints; the caller holds its lock. What an earlier start wrote is
        removed."""
        text = config_yaml(config)
        for path in (self.metrics_path, *self.path.glob("*.pt*")):
            path.unlink(missing_ok=True)
        for name in ("tensorboard", "rollouts", "recordings"):
            if (self.path / name).is_dir():
                shutil.rmtree(self.path / name)
        self._begin(text)

    def _begin(self, config: str) -> None:
        self.checkpoints.mkdir(exist_ok=True)
        write_file(self.path / "git.json", json.dumps(provenance(Path.cwd()), indent=2).encode())
        write_file(self.path / "config.yaml", config.encode())  # last: a folder that has it is complete
        sync_folder(self.path.parent)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> RunFolder:
        """Return the run at `path`: its folder, or a file or folder inside it, such as a checkpoint.

        Raises:
            UnsafeFolderError: It has links that lead out of it, through which files elsewhere would be written.
        """
        return cls(find_run(path))

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def metrics_path(self) -> Path:
        """The log, one JSON object per line."""
        return self.path / "metrics.jsonl"

    def checkpoint_path(self, iteration: int) -> Path:
        """Return the path of the checkpoint after `iteration` iterations: checkpoints/ckpt_000123.pt."""
        return self.checkpoints / f"ckpt_{iteration:06d}.pt"

    def write_status(self, state: str, iteration: int, frames: int, reason: str = "") -> None:
        """Write status.json, which other programs read: one of `STATES`, how far the run is, and why it ended."""
        status = {"state": state, "iteration": iteration, "frames": frames}
        status |= {"reason": printable(reason, keep="")[:MAX_REASON], "process": os.getpid()}
        status |= {"host": socket.gethostname(), "time": datetime.now(UTC).isoformat(timespec="seconds")}
        durable = state != "running"  # which is written often, beside the training
        write_file(self.path / "status.json", json.dumps(status, indent=2).encode(), durable)

    def status(self) -> dict[str, Any]:
        """Return what status.json holds; an empty dict for a run without one.

        A run that says "running" and whose process on this machine has ended was killed: its state is "failed".
        """
        path = self.path / "status.json"
        reader = Reader(path, max_bytes=1 << 20)
        try:
            status = reader.json(reader.read(path))
        except (FileNotFoundError, DamagedFileError):
            return {}
        if not isinstance(status, dict) or status.get("state") not in STATES:
            return {}
        process = status.get("process")
        gone = type(process) is int and status.get("host") == socket.gethostname() and not is_alive(process)
        if status["state"] == "running" and gone:
            status |= {"state": "failed", "reason": f"process {process} was killed"}
        return status

    def exit_code(self) -> int:
        """Return the exit code of the training that has just ended here without an error: 0 if the run is finished."""
        status = self.status()
        if status.get("state") != "interrupted":
            return 0
        return STOPPED_BY_KEY if status.get("reason") == signal.SIGINT.name else STOPPED

    @contextmanager
    def kept_if_used(self) -> Iterator[None]:
        """Delete the folder if the block fails before anything was logged or saved: nobody could resume it."""
        try:
            yield
        except BaseException:
            logged = self.metrics_path.exists() and self.metrics_path.stat().st_size > 0
            if not logged and not any(self.checkpoints.glob("*")) and not any(self.path.glob("*.pt*")):
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    def config(self) -> dict[str, Any]:
        """Return the config that the run was started with."""
        config = read_yaml(self.path / "config.yaml")
        if not isinstance(config, dict):
            raise ValueError(
                f"{self.path / 'config.yaml'} must hold a mapping of keys to values, not {type(config).__name__}"
            )
        return config


def check_name(name: str) -> None:
    """Raise ConfigError if a run cannot have this name."""
    if name in ("", ".", "..") or name != Path(name).name or name != printable(name, keep=""):
        raise ConfigError(f"name={name!r} is not one folder name: give the folder around it as root")


def free_name(root: str | PathLike[str], name: str) -> str:
    """Return `name`, or NAME-2, NAME-3, ... if that is in use; a line says so before the training is built."""
    check_name(name)
    free = _free_name(Path(root), name)
    if free != name:
        print(
            f"name={name} is in use: this run will be {free}; `resume=auto name={name}` continues the one there",
            flush=True,
        )
    return free


def config_yaml(config: Mapping[str, Any]) -> str:
    """Return a config as YAML, which `config=FILE` reads again."""
    try:
        return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        raise TypeError(f"config values are numbers, strings, lists and dicts: {error}") from error


def _make_unused(root: Path, name: str) -> Path:
    """Make a new folder root/name, root/name-2, ...; mkdir itself decides, so that two runs started at once get two
    folders."""
    make_folder(root)
    while True:
        path = root.absolute() / _free_name(root, name)
        with suppress(FileExistsError):
            path.mkdir()
            return path


def _free_name(root: Path, name: str) -> str:
    """Return the first of NAME, NAME-2, NAME-3, ... that is not in use."""
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(free for free in names if not os.path.lexists(root / free))


def _task_name(config: Mapping[str, Any]) -> str:
    """Return a file name for the task: its name, or "MyEnv" of "my_package.my_module:MyEnv"."""
    task = config.get("task")
    if not isinstance(task, str):
        return "run"
    return re.sub(r"\W+", "-", task.rpartition(":")[2]).strip("-") or "run"


# -- what it ran on: a fact that cannot be found is None; nothing here fails a run -------------------------------------


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
