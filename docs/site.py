"""MkDocs hook: files outside of docs/ that a page links to become part of the site, with links that work there too.

On the site, docs/ is the root; README.md is the first page, and other folders keep their names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(\))")
START = "README.md"


def site_path(path: str) -> str:
    """Return where a file of the repository is on the site."""
    return "index.md" if path == START else path.removeprefix("docs/")


def linked_files(path: str, text: str) -> set[str]:
    """Return the files of the repository that a page links to."""
    targets = {os.path.normpath(os.path.join(os.path.dirname(path), link[1])) for link in LINK.findall(text)}
    return {target for target in targets if (ROOT / target).is_file()}


def on_files(files: Files, config: Any) -> Files:
    """Add README.md and, page by page, whatever is linked from the pages."""
    waiting = {START} | {f"docs/{file.src_uri}" for file in files.documentation_pages()}
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        if not path.startswith("docs/"):
            level = InclusionLevel.NOT_IN_NAV if path.endswith(".md") else InclusionLevel.UNDEFINED
            files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path), inclusion=level))
        if path.endswith(".md"):
            waiting |= linked_files(path, (ROOT / path).read_text()) - seen
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links to where their files are on the site, link a page to its translation, leave results out of the
    search."""
    path = os.path.relpath(page.file.abs_src_path, ROOT)
    if path.startswith("docs/zh/"):
        markdown = f"[English](../{page.file.name}.md)\n\n{markdown}"
    elif (ROOT / "docs" / "zh" / path.removeprefix("docs/")).is_file():
        markdown = f"[中文](zh/{page.file.name}.md)\n\n{markdown}"
    here = os.path.dirname(site_path(path))
    if path.startswith(("benchmarks/", "CHANGELOG")):  # a search finds the pages that explain
        page.meta["search"] = {"exclude": True}

    def rewrite(match: re.Match[str]) -> str:
        before, link, anchor, after = match.groups()
        target = os.path.normpath(os.path.join(os.path.dirname(path), link))
        if not (ROOT / target).is_file():
            return match.group()
        return f"{before}{os.path.relpath(site_path(target), here or '.')}{anchor or ''}{after}"

    return LINK.sub(rewrite, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Name the language of the Chinese pages for browsers and screen readers."""
    chinese = page.file.src_uri.startswith("zh/") or "zh-CN" in page.file.src_uri
    return output.replace('<html lang="en"', '<html lang="zh-CN"', 1) if chinese else output
