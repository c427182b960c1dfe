"""What the commands print: tables and progress bars that also read well in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Gives a function that takes the share done; silent where nobody watches."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def percent_table(result: Mapping[str, Any], title: str) -> str:
    """The figures of an evaluation, a line a map and one over all."""
    table = Table(title=title, title_justify="left")
    for name in (
        "map",
        "drones",
        "success",
        "95 % interval",
        "collision",
        "timeout",
        "at goal at the end",
        "time to goal",
    ):
        table.add_column(name, justify="right")
    for row in [*result["maps"], result]:
        time_s = row["time_to_goal_s"]
        table.add_row(
            str(row.get("map_seed", "all")),
            f"{row['drones']:,}",
            f"{row['success']:.3f}",
            f"{row['success_low']:.3f} … {row['success_high']:.3f}",
            f"{row['collision']:.3f}",
            f"{row['timeout']:.3f}",
            f"{row['success_strict']:.3f}",
            "–" if time_s is None else f"{time_s:.1f} s",
            end_section=row is result["maps"][-1],
        )
    return render(table)


def render(table: Table, width: int = 120) -> str:
    """A rich table as text."""
    text = StringIO()
    Console(file=text, width=width, force_terminal=False).print(table)
    return text.getvalue().rstrip("\n")
