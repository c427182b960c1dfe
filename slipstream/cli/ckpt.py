"""Show, check and convert checkpoints. The exit code is 1 if a file is broken."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from slipstream.checkpoint import maintenance
from slipstream.checkpoint.load import CheckpointFile, find_file, is_slip, load_checkpoint, sha256_of
from slipstream.cli import add_force, add_subcommands, check_output
from slipstream.storage.errors import SaveError
from slipstream.storage.tree import flatten, walk_leaves
from slipstream.ui.tables import format_number, print_states


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    add = add_subcommands(parser, __doc__)
    info = add("info", _info, "what a checkpoint holds, or the checkpoints of a folder")
    info.add_argument("path", type=Path)
    info.add_argument("--tensors", action="store_true", help="list every tensor")
    verify = add("verify", _verify, "check every byte of files or folders; names each broken file and why")
    verify.add_argument("path", type=Path, nargs="+")
    export = add("export", _export, "write a plain torch or safetensors file, or a complete .slip from a difference")
    export.add_argument("path", type=Path)
    export.add_argument("--to", choices=("pt", "safetensors", "slip"), default="pt")
    export.add_argument("--out", type=Path)
    add_force(export)


def _files(path: Path) -> list[Path]:
    """Return the checkpoints that `path` names."""
    files = maintenance.checkpoint_files(path) if path.is_dir() else [find_file(path)]
    if not files:
        raise FileNotFoundError(f"{path} has no checkpoints: give a run folder, or a folder of checkpoints")
    return files


def _info(args: argparse.Namespace, console: Console) -> int:
    files = _files(args.path)
    table = Table(title=str(args.path))
    for column in ("file", "kind", "step", "file MB", "tensors MB", "saved", "metrics"):
        table.add_column(column, justify="right" if "MB" in column or column in ("step", "saved") else "left")
    for path in files:
        table.add_row(*_describe(path))
    console.print(table)
    for path in files:
        try:
            console.print(f"sha256 {sha256_of(path)}  {path.name}", soft_wrap=True)
        except (SaveError, OSError) as error:
            console.print(f"no sha256: {error}", soft_wrap=True)
    if args.tensors and len(files) == 1:
        console.print(_tensor_table(files[0]))
    return 0


def _describe(path: Path) -> list[str]:
    size = path.stat().st_size
    row = [path.name, "", "", f"{size / 1e6:.2f}", "", "", ""]
    if not is_slip(path):
        row[1] = "LZ4 around torch" if path.suffix == ".lz4" else "torch"
        return row
    try:
        with CheckpointFile(path) as slip:
            base, step, raw, metrics = slip.base, slip.step, slip.nbytes, slip.metrics
    except SaveError as error:
        row[1] = f"broken: {error}"
        return row
    row[1] = f"difference to {base[0]}" if base else "complete"
    row[2] = "" if step is None else str(step)
    row[4:6] = f"{raw / 1e6:.2f}", f"{100 * (1 - size / raw):.1f} %" if raw else ""
    row[6] = ", ".join(f"{k} {format_number(v)}" for k, v in metrics.items())
    return row


def _tensor_table(path: Path) -> Table:
    table = Table("key", "dtype", "shape", "saved from")
    if is_slip(path):
        with CheckpointFile(path) as slip:
            for where, i in walk_leaves(slip.tree):
                view = slip.views[i]
                table.add_row(".".join(map(str, where)), view.dtype, str(view.shape), view.device)
        return table
    tree, leaves = flatten(load_checkpoint(path))
    for where, i in walk_leaves(tree):
        data = leaves.data[i]
        table.add_row(".".join(map(str, where)), str(data.dtype), str(tuple(data.shape)), "")
    return table


def _verify(args: argparse.Namespace, console: Console) -> int:
    states = []
    for given in args.path:
        for path in _files(given):
            name = path.relative_to(given) if given.is_dir() else path
            states.append((str(name), maintenance.verify(path) or ""))
    return int(print_states(console, states) > 0)


def _export(args: argparse.Namespace, console: Console) -> int:
    out = check_output(args.out, args.force, args.to, maintenance.SUFFIXES)
    out = maintenance.export(find_file(args.path), args.to, out)
    console.print(f"wrote {out} ({out.stat().st_size / 1e6:.2f} MB)")
    return 0
