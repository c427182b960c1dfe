"""RunFolder: one folder per training run, with everything needed to read, resume and repeat it.

runs/2026-11-20_14-03-12_TASK/
  config.yaml      the complete config
  git.json         the code it ran: commit, and whether files differed from it; versions; device
  metrics.jsonl    one line per iteration (`RunLog`)
  tensorboard/     the same for TensorBoard
  checkpoints/     ckpt_000123.pt
  best.pt          the policy with the best evaluation
  rollouts/        batches, with rollout_save_interval
  recordings/      flights or duels, with record_minutes
  learning.png     the curves of the run
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from slipstream.checkpoint.load import find_run
from slipstream.config.overrides import read_yaml
from slipstream.storage.files import make_folder, sync_folder, write_file
from slipstream.training.provenance import provenance


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run: make one with `create`, open an old one with `open`."""

    path: Path

    @classmethod
    def create(cls, root: str | PathLike[str], name: str | None, config: Mapping[str, Any]) -> RunFolder:
        """Make a new folder under `root`, by default named after the time and `config["task"]`; a name in use gets -2,
        -3, ..., and a line says so."""
        if name is None:
            name = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{_task_name(config)}"
        elif name in ("", ".", "..") or name != Path(name).name:
            raise ValueError(f"a run's name is one folder name, not {name!r}: give the folder around it as root")
        text = config_yaml(config)  # before mkdir: it may raise
        run = cls(_make_unused(Path(root), name))
        if run.path.name != name:
            print(f"name={name} is in use: this run is {run.path.name}", flush=True)
        run.checkpoints.mkdir()
        write_file(run.path / "git.json", json.dumps(provenance(Path.cwd()), indent=2).encode())
        write_file(run.path / "config.yaml", text.encode())  # last: a folder that has it is complete
        sync_folder(run.path.parent)
        return run

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

    @contextmanager
    def kept_if_used(self) -> Iterator[None]:
        """Delete the folder if the block fails before anything was logged or saved: nobody could resume it."""
        try:
            yield
        except BaseException:
            logged = self.metrics_path.exists() and self.metrics_path.stat().st_size > 0
            if not logged and not any(self.checkpoints.iterdir()) and not any(self.path.glob("*.pt*")):
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
    for number in count(1):
        path = root.absolute() / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError("count never ends")


def _task_name(config: Mapping[str, Any]) -> str:
    """Return a file name for the task: its name, or "MyEnv" of "my_package.my_module:MyEnv"."""
    task = config.get("task")
    if not isinstance(task, str):
        return "run"
    return re.sub(r"\W+", "-", task.rpartition(":")[2]).strip("-") or "run"
