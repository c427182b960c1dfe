"""Compare runs of any task: final metrics with intervals, learning curves, settings that differ.

Runs that differ in nothing but their seed are one group with a mean and a band.

  slipstream compare runs/a runs/b
  slipstream compare runs/lr-search --metric eval/success --out curves.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slipstream.cli import add_force, check_output
from slipstream.storage.files import default_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths and flags."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run folder, or a folder of run folders")
    parser.add_argument("--metric", action="append", default=[], help="a metric of the log; may be given several times")
    parser.add_argument("--out", default=None, help="the figure (compare.png, in the folder around the first run)")
    add_force(parser)


def run(args: argparse.Namespace, console: Any) -> int:
    """Print the tables and draw the curves."""
    show(args.runs, console, args.metric, check_output(args.out, args.force, "png"))
    return 0


def show(runs: list[str], console: Any, metrics: list[str], out: Path | None) -> None:
    """Print the tables of runs, and draw their curves into `out`."""
    from slipstream.training import comparison

    groups = comparison.load_groups(runs)
    shown = comparison.metrics_of(groups, metrics)
    for table in comparison.tables(groups, shown):
        console.print(table.render(console.width), markup=False)
    figure = comparison.draw(groups, shown, out or default_output(groups[0].runs[0].parent / "compare.png"))
    console.print(f"curves: {figure}")
