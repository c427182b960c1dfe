"""What a task prints: progress bars, numbers and tables."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from slipstream.storage.errors import printable

# -- progress --------------------------------------------------------------------------------------------------------

FIRST_LINE_S, LINE_S, POLL_S = 3.0, 10.0, 1.0  # of progress without a terminal


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show progress on stderr; yield a function that takes the share done, if that is known.

    A terminal shows a bar. Otherwise there is a line after 3 s and then every 10 s.
    """
    console = PipedConsole(stderr=True)
    if not console.is_terminal:
        with ProgressLines(what) as lines:
            yield lines.update
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)  # the bar pulses until a share is known
        yield lambda share: bar.update(task, total=1.0, completed=share)


class ProgressLines:
    """Progress as plain lines. A thread writes them, so that a single long step is not silent either."""

    def __init__(
        self,
        what: str,
        write: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.share = what, 0.0
        self._write, self._clock = write, clock
        self._start_s = clock()
        self._due_s = self._start_s + FIRST_LINE_S
        self._end = threading.Event()

    def __enter__(self) -> ProgressLines:
        threading.Thread(target=self._run, name="slipstream progress", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()

    def _run(self) -> None:
        with suppress(OSError):  # nobody reads the lines any more; the work itself continues
            while not self._end.wait(POLL_S):
                self.write_if_due()

    def update(self, share: float) -> None:
        """Take the share that is done."""
        self.share = share

    def restart(self, what: str) -> None:
        """Begin with another piece of work; its first line comes after 10 s."""
        self.what, self.share, self._start_s = what, 0.0, self._clock()
        self._due_s = self._start_s + LINE_S

    def write_if_due(self) -> None:
        """Write a line if the last one is long ago."""
        now_s = self._clock()
        if now_s < self._due_s:
            return
        self._due_s = now_s + LINE_S
        gone_s, share = now_s - self._start_s, self.share
        line = f"{self.what}: {format_time(gone_s)} elapsed"
        if share > 0:
            line += f", {format_percent(share, 0)} done, about {format_time(gone_s * (1 - share) / share)} left"
        self._write(line)


def format_time(seconds: float) -> str:
    """Return hours, minutes and seconds: 1:02:03, 2:03; a dash if unknown."""
    if not math.isfinite(seconds):
        return "-"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


# -- numbers ---------------------------------------------------------------------------------------------------------

MOST_PLACES = 6  # of a rate


def format_rate(rate: float | None, places: int = 3) -> str:
    """Return a rate of 0 to 1: 0.996. Only what is 0 or 1 is shown as such: 1999 of 2000 is 0.9995, not 1.000."""
    return _format_rate(rate, 1, places)


def format_percent(rate: float | None, places: int = 1) -> str:
    """Return a rate of 0 to 1 in percent: 99.6 %. Only what is 0 or 1 is shown as such: 255 of 256 is not 100 %."""
    text = _format_rate(rate, 100, places)
    return text if text == "–" else f"{text} %"


def format_number(value: float, sign: str = "") -> str:
    """Return a number with four digits, with more if these would make a rate below 1 a 1."""
    text = f"{value:{sign}.4g}"
    return f"{value:{sign}.{MOST_PLACES}f}" if text.lstrip("+-") == "1" and 0 < abs(value) < 1 else text


def _format_rate(rate: float | None, full: int, places: int) -> str:
    if rate is None or math.isnan(rate):
        return "–"
    for digits in range(places, MOST_PLACES + 1):
        text = f"{full * rate:.{digits}f}"
        if not 0 < rate < 1 or float(text) not in (0, full):
            return text
    least = 10.0**-MOST_PLACES
    return f"> {full - least:.{MOST_PLACES}f}" if rate > 0.5 else f"< {least:.{MOST_PLACES}f}"


# -- tables ----------------------------------------------------------------------------------------------------------


def render(table: Table, width: int = 120) -> str:
    """Return a rich table as text."""
    text = StringIO()
    PipedConsole(file=text, width=width, force_terminal=False).print(table)
    return text.getvalue().rstrip("\n")


def print_states(console: Console, states: Sequence[tuple[str, str]]) -> int:
    """Print which files are good, and why others are broken (name and reason of each); return the number of broken
    ones."""
    table = Table("file", "state", "why")
    for name, why in states:
        table.add_row(name, Text("broken", "red") if why else Text("good", "green"), why)
    broken = sum(bool(why) for _, why in states)
    console.print(table)
    console.print(f"{len(states) - broken} good, {broken} broken")
    return broken


class PipedConsole(Console):
    """The console of all commands: text is shown as it is, without markup and control characters, since it may come
    from a file. If its reader has gone (`| head`) it raises BrokenPipeError; rich itself would end the program."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **settings})

    @property
    def file(self) -> Any:
        """The stream itself: what rich writes is already safe."""
        return getattr(super().file, "unfiltered", super().file)

    @file.setter
    def file(self, stream: Any) -> None:
        self._file = stream

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return the text to show."""
        return super().render_str(printable(text), **settings)

    def on_broken_pipe(self) -> None:
        """Raise."""
        raise BrokenPipeError


@dataclass
class TextTable:
    """A table for a terminal or a Markdown file."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 0  # columns that are aligned to the left, from the first
    total: bool = False  # the last row is set apart

    def render(self, width: int = 120) -> str:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left")
        for k, name in enumerate(self.header):
            table.add_column(name, justify="left" if k < self.left else "right", overflow="fold")
        for k, row in enumerate(self.rows):
            table.add_row(*row, end_section=self.total and k == len(self.rows) - 2)
        return render(table, width)

    def markdown(self) -> str:
        """Return the table as Markdown, without its title."""
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.header, *self.rows)]
        lines.insert(1, "|" + "---:|" * len(self.header))
        return "\n".join(lines) + "\n"
