"""slipstream recording: work with recordings of flights and duels.

slipstream recording export flight.rec --to html     one page that opens from disk
slipstream recording export duel.rec --to acmi       for Tacview
slipstream recording export game.rec --to rollouts --out FOLDER   what people did, for algo=bc algo.data=FOLDER
slipstream recording info duel.rec
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slipstream.checkpoint.errors import reading_state
from slipstream.cli import add_subcommands, check_output
from slipstream.config.help import ConfigError
from slipstream.storage.files import default_output

FORMATS = ("html", "acmi")  # and rollouts, a folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    add = add_subcommands(parser, __doc__)
    export = add("export", run_export, "write a recording as html (a page), acmi (Tacview) or rollouts")
    export.add_argument("path", help="the recording")
    export.add_argument("--to", required=True, choices=(*FORMATS, "rollouts"), help="the format")
    export.add_argument("--out", help="the file to write, or the folder of rollouts (default: beside the recording)")
    export.add_argument("--force", action="store_true", help="overwrite the file")
    info = add("info", run_info, "print what a recording holds")
    info.add_argument("path", help="the recording")


def run_export(args: argparse.Namespace, console: Any) -> int:
    """Write a recording in another format."""
    from slipstream.recordings import export_recording, load_recording

    path = Path(args.path)
    if args.to == "rollouts":
        return export_rollout(load_recording(path), path, Path(args.out or path.parent / "rollouts"), console)
    out = check_output(args.out or default_output(path.with_suffix(f".{args.to}")), args.force, args.to, FORMATS)
    assert out is not None
    written = export_recording(load_recording(path), out, args.to)
    console.print(f"{written} ({written.stat().st_size / 1e6:.2f} MB)", highlight=False, soft_wrap=True)
    return 0


def export_rollout(recording: Any, path: Path, folder: Path, console: Any) -> int:
    """Write what people did in a game as the next rollout file of a folder."""
    from slipstream.config import registry
    from slipstream.rollouts.storage import RolloutStorage, iteration_of, rollout_files

    task = str(recording.meta.get("task"))
    if task not in registry.names("task"):
        raise ConfigError(f"{path} holds no actions of people: slipstream play records them")
    with reading_state(path):
        batch = registry.find_task(task).rollout_of(recording)
    with RolloutStorage(folder) as storage:
        written = storage.save(batch, 1 + max(map(iteration_of, rollout_files(folder)), default=-1))
    console.print(f"{written}: {batch['action'].shape[0] * batch['action'].shape[1]:,} frames", highlight=False)
    return 0


def run_info(args: argparse.Namespace, console: Any) -> int:
    """Print the title, the length, the columns and the outcome of a recording."""
    from slipstream.recordings import load_recording

    recording = load_recording(args.path)
    lines = [f"{recording.title} ({recording.scene}), {recording.seconds:.1f} s"]
    lines += [str(recording.meta.get("summary", ""))]
    lines += [f"  {name:20} {list(column.shape)}" for name, column in (recording.columns | recording.arrays).items()]
    lines += [f"  {len(recording.events)} events"]
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)
    return 0
