"""Tables and progress bars that also read well in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes the share done; shows nothing if stderr is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def render(table: Table, width: int = 120) -> str:
    """Return a rich table as text."""
    text = StringIO()
    Console(file=text, width=width, force_terminal=False).print(table)
    return text.getvalue().rstrip("\n")


class PipedConsole(Console):
    """A console that raises BrokenPipeError when its reader has gone (`| head`); rich itself would end the program."""

    def on_broken_pipe(self) -> None:
        """Raise."""
        raise BrokenPipeError
