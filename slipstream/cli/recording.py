"""slipstream recording: work with recordings of flights and duels.

slipstream recording export flight.rec --to html     one page that opens from disk
slipstream recording export duel.rec --to acmi       for Tacview
slipstream recording info duel.rec
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slipstream.cli import add_subcommands, check_output
from slipstream.storage.files import default_output

FORMATS = ("html", "acmi")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    add = add_subcommands(parser, __doc__)
    export = add("export", run_export, "write a recording as a page (html), or for Tacview (acmi)")
    export.add_argument("path", help="the recording")
    export.add_argument("--to", required=True, choices=FORMATS, help=", ".join(FORMATS))
    export.add_argument("--out", help="the file to write (default: beside the recording)")
    export.add_argument("--force", action="store_true", help="overwrite the file")
    info = add("info", run_info, "print what a recording holds")
    info.add_argument("path", help="the recording")


def run_export(args: argparse.Namespace, console: Any) -> int:
    """Write a recording in another format."""
    from slipstream.recordings import export_recording, load_recording

    path = Path(args.path)
    out = check_output(args.out or default_output(path.with_suffix(f".{args.to}")), args.force, args.to, FORMATS)
    assert out is not None
    written = export_recording(load_recording(path), out, args.to)
    console.print(f"{written} ({written.stat().st_size / 1e6:.2f} MB)", highlight=False, soft_wrap=True)
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
