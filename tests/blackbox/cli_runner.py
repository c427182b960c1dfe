"""The command line as a user meets it, and readers of the files that it leaves. Nothing here imports an inner module."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass
class Result:
    """What one command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The last line that was printed, as one JSON object."""
        return json.loads(self.out.strip().splitlines()[-1])


def run_cli(*words: object, cwd: str | Path = ".") -> Result:
    """Run a command in this process (fast: torch is loaded already) with `cwd` as the working folder."""
    from slipstream.cli import main

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["slipstream", *map(str, words)]
    try:
        with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main()
            except SystemExit as error:
                code = error.code
    finally:
        sys.argv = before
    return Result(int(code or 0), out.getvalue(), err.getvalue())


def metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of a run's log."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def untimed(run: Path) -> list[dict[str, Any]]:
    """The rows of a run's log without what a clock measured."""
    clocked = ("time_s", "fps")
    return [{k: v for k, v in row.items() if k not in clocked and not k.startswith("perf/")} for row in metrics(run)]


def contents(state: Any, at: str = "") -> dict[str, Any]:
    """Every tensor and every whole number of a nested state by its place; the configuration is left out."""
    if isinstance(state, dict):
        parts = [contents(value, f"{at}/{key}") for key, value in state.items() if key != "config"]
    elif isinstance(state, list | tuple):
        parts = [contents(value, f"{at}/{i}") for i, value in enumerate(state)]
    elif isinstance(state, torch.Tensor):
        return {
            at: (state.dtype, tuple(state.shape), state.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        }
    elif isinstance(state, int):
        return {at: state}
    else:
        return {}
    return {key: value for part in parts for key, value in part.items()}
