"""What a task prints and writes: progress bars, text tables, and a report as one HTML file that can be mailed."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from slipstream.storage.errors import printable
from slipstream.storage.files import write_file


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes the share done; shows nothing if stderr is no terminal."""
    name, percent = TextColumn("{task.description}"), TextColumn("{task.percentage:>3.0f} %")
    columns = name, BarColumn(), percent, TimeRemainingColumn()
    console = PipedConsole(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def render(table: Table, width: int = 120) -> str:
    """Return a rich table as text."""
    text = StringIO()
    PipedConsole(file=text, width=width, force_terminal=False).print(table)
    return text.getvalue().rstrip("\n")


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


# -- the report as HTML ----------------------------------------------------------------------------------------------

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""

STYLE = """
:root { color-scheme: dark; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 60rem; background: #0d1117; color: #e8edf4;
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 1.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .5rem .9rem; border-bottom: 1px solid #222c39; text-align: left; white-space: nowrap; }
th { color: #8b98a9; font-weight: 600; }
td.number, th.number { text-align: right; }
tbody tr:hover { background: #121821; }
figure { margin: 2.25rem 0; }
figure img { display: block; width: 100%; height: auto; border-radius: 8px; }
figcaption { margin-top: .6rem; color: #8b98a9; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.5rem; margin: 2rem 0 0; }
dt { color: #8b98a9; }
dd { margin: 0; overflow-wrap: anywhere; font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em; }
"""


def write_report(
    folder: str | PathLike[str],
    title: str,
    summary_rows: Sequence[Mapping[str, Any]],
    figures: Mapping[str, str | PathLike[str]],
    facts: Mapping[str, Any],
) -> Path:
    """Write folder/report.html: the title, a table of `summary_rows` (keys are columns), the figures (caption: image
    file), the facts. Figures and style are inside the file; nothing is fetched from elsewhere."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    body = [f"<h1>{escape(title)}</h1>", _table(summary_rows)]
    body += [_figure(caption, Path(image)) for caption, image in figures.items()]
    body.append(_facts(facts))
    path = folder / "report.html"
    write_file(path, PAGE.format(title=escape(title), style=STYLE, body="\n".join(filter(None, body))).encode())
    return path


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numeric = {c for c in columns if all(_is_number(row.get(c)) or row.get(c) is None for row in rows)}

    def cells(tag: str, texts: Sequence[str]) -> str:
        kinds = (' class="number"' if column in numeric else "" for column in columns)
        return "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in zip(kinds, texts, strict=True))

    head = cells("th", columns)
    body = "\n".join(f"<tr>{cells('td', [_text(row.get(column)) for column in columns])}</tr>" for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _figure(caption: str, image: Path) -> str:
    media_type = mimetypes.guess_type(image.name)[0] or ""
    if not media_type.startswith("image/"):
        raise ValueError(f"a figure must be an image, like a .png, not {image.name}")
    data = base64.b64encode(image.read_bytes()).decode("ascii")
    text = escape(caption)
    return f'<figure><img alt="{text}" src="data:{media_type};base64,{data}"><figcaption>{text}</figcaption></figure>'


def _facts(facts: Mapping[str, Any]) -> str:
    if not facts:
        return ""
    lines = (f"<dt>{escape(str(key))}</dt><dd>{escape(_text(value))}</dd>" for key, value in facts.items())
    return "<dl>\n" + "\n".join(lines) + "\n</dl>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if _is_number(value) else str(value)
