"""A report that can be mailed: one HTML file with its tables, figures and style inside, and nothing fetched from
anywhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from slipstream.storage.files import write_file

MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
}

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
    """Writes folder/report.html: the title, a table of `summary_rows` (keys are columns), the figures (caption: image
    file), the facts."""
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
    numeric = {
        column: all(_is_number(row.get(column)) or row.get(column) is None for row in rows) for column in columns
    }

    def cell(tag: str, column: str, text: str) -> str:
        number = ' class="number"' if numeric[column] else ""
        return f"<{tag}{number}>{escape(text)}</{tag}>"

    head = "".join(cell("th", column, column) for column in columns)
    lines = ["".join(cell("td", column, _text(row.get(column))) for column in columns) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _figure(caption: str, image: Path) -> str:
    media_type = MEDIA_TYPES.get(image.suffix.lower())
    if media_type is None:
        raise ValueError(f"a figure must be one of {', '.join(MEDIA_TYPES)}, not {image.name}")
    data = base64.b64encode(image.read_bytes()).decode("ascii")
    text = escape(caption)
    return f'<figure><img alt="{text}" src="data:{media_type};base64,{data}"><figcaption>{text}</figcaption></figure>'


def _facts(facts: Mapping[str, Any]) -> str:
    if not facts:
        return ""
    return (
        "<dl>\n"
        + "\n".join(f"<dt>{escape(str(key))}</dt><dd>{escape(_text(value))}</dd>" for key, value in facts.items())
        + "\n</dl>"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if _is_number(value) else str(value)
