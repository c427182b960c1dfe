"""Show, check and convert saved batches.

slipstream rollouts info runs/NAME                     the batches, and the keys of the last one
slipstream rollouts verify runs/NAME                   read every byte; the exit code is 1 if a file is broken
slipstream rollouts export runs/NAME --to parquet      one row per step; --to minari: by episode
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from slipstream.cli import add_subcommands
from slipstream.rollouts.export import FORMATS, export
from slipstream.rollouts.file import BROKEN, RolloutFile, show
from slipstream.rollouts.storage import RolloutStorage, iteration_of, rollout_files
from slipstream.storage.files import default_output
from slipstream.ui.tables import print_states

REMEDY = (
    "A broken file cannot be repaired: copy it again from where it came, delete it, or leave it out with --iterations. "
    "What is not named can be read: load(iteration, keys=[...])."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    add_command = add_subcommands(parser, __doc__)

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = add_command(name, function, text)
        command.add_argument("path", type=Path, help="a folder of rollouts, a run folder, or one rollout file")
        return command

    add("info", _info, "list the batches, and the keys, shapes and sizes of the last one")
    add("verify", _verify, "check every byte of a file or folder; print each broken file and key")
    out = add("export", _export, "export batches: Parquet by step, Minari by episode")
    out.add_argument("--to", choices=tuple(FORMATS), required=True)
    out.add_argument("--out", type=Path, help="where to (default: beside the rollouts)")
    out.add_argument("--iterations", help="which batches, as numbers and ranges: 0,100-500 (default: all)")
    out.add_argument("--keys", help="which keys, by commas (default: all)")


def _find(path: Path) -> list[Path]:
    """Return the rollout files that `path` names."""
    if path.is_file():
        return [path]
    files = rollout_files(path) or rollout_files(path / "rollouts")
    if not files:
        raise FileNotFoundError(
            f"{path} has no rollouts: give a folder with rollout_000000.slip files, or a run that was saved with "
            "rollout_save_interval"
        )
    return files


def _chosen(text: str | None, among: list[int]) -> list[int]:
    """Parse `0,3,10-20`; return those numbers of `among`."""
    if text is None:
        return among
    chosen: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not low.strip().isdigit() or (high and not high.strip().isdigit()):
            raise ValueError(f"--iterations {text}: write numbers and ranges, as 0,3,10-20")
        inside = [n for n in among if int(low) <= n <= int(high or low)]
        if not inside:
            raise ValueError(f"--iterations {part}: there is none; there are {among[0]} to {among[-1]}")
        chosen += inside
    return chosen


def _info(args: argparse.Namespace, console: Any) -> int:
    files = _find(args.path)
    table = Table("iteration", "envs x steps", "keys", "file MB", "tensors MB", "ratio", title=str(files[0].parent))
    last, broken = None, 0
    for path in files:
        size = path.stat().st_size
        try:
            last = RolloutFile(path)
        except BROKEN as error:
            broken += 1
            table.add_row(path.stem[8:], Text(f"broken: {error}", "red"))
            continue
        lead, raw = " x ".join(map(str, last.lead)), last.tensor_bytes
        sizes = f"{size / 1e6:.2f}", f"{raw / 1e6:.2f}", f"{raw / size:.1f}"
        table.add_row(str(iteration_of(path)), lead, str(len(last.columns)), *sizes)
    console.print(table)
    console.print(f"{len(files)} batches{f' ({broken} of them broken)' if broken else ''}")
    if last is not None:
        keys = Table("key", "dtype", "shape", "MB", title=last.path.name)
        for column in last.columns:
            shape = " x ".join(map(str, column.shape))
            keys.add_row(show(column.key), column.dtype, shape, f"{column.nbytes / 1e6:.3f}")
        console.print(keys)
    return 0


def _verify(args: argparse.Namespace, console: Any) -> int:
    broken = print_states(console, [(path.name, _problems(path)) for path in _find(args.path)])
    if broken:
        console.print(REMEDY, soft_wrap=True)
    return int(broken > 0)


def _problems(path: Path) -> str:
    try:
        return "; ".join(RolloutFile(path).problems())
    except BROKEN as error:
        return str(error)


def _export(args: argparse.Namespace, console: Any) -> int:
    files = _find(args.path)
    storage = RolloutStorage(files[0].parent)
    chosen = _chosen(args.iterations, [iteration_of(path) for path in files])
    out = args.out or default_output(storage.save_dir.with_name(storage.save_dir.name + FORMATS[args.to][1]))
    console.print(export(storage, args.to, out, chosen, args.keys.split(",") if args.keys else None), soft_wrap=True)
    return 0
