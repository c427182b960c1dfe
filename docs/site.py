"""MkDocs hook: files outside of docs/ that a page links to become part of the site, with links that work there too.

On the site, docs/ is the root; README.md is the page "Start", and other folders keep their names. Two files are made
here: settings.md, every key of a run from the config classes, and llms.txt, a list of all pages.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify_unicode
from mkdocs.structure.files import File, Files, InclusionLevel

from slipstream import __version__

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(\))")
START = "README.md"
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {}).get("Repository", "")
BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({})"
COLAB = "https://colab.research.google.com/github/{}/blob/main/examples/slipstream.ipynb"
SEARCH = {  # what comes first in a search: pages that explain before formats, tables and logs
    "benchmarks.md": {"boost": 0.3},
    "checkpoint-format.md": {"boost": 0.3},
    "how-do-i.md": {"boost": 2},
    "zh/how-do-i.md": {"boost": 2},  # leads to all pages that are English only
}
CHINESE = {"boost": 0.5}  # below the English pages for a word in Latin letters
BROKEN_LINE = re.compile(
    r"^(?!#)(.*[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n *(?=[\u4e00-\u9fff“（《])", re.MULTILINE
)
SECTIONS = {  # of settings.md: words of a run, and the part of its config that is listed
    "Every run": ([], ""),
    "Navigation": (["task=navigation"], "env"),
    "Air combat": (["task=aircombat"], "env"),
    "League": (["task=aircombat"], "league"),
    "Gymnasium": (["task=gym", "env.id=CartPole-v1"], "env"),
    "PPO": (["algo=ppo"], "algo"),
    "DQN": (["algo=dqn", "env.actions=discrete"], "algo"),
    "SAC": (["algo=sac"], "algo"),
    "TD3": (["algo=td3"], "algo"),
    "Behavior cloning": (["algo=bc", "algo.teacher=navigation"], "algo"),
}


def on_config(config: Any) -> Any:
    """Let Chinese headings have anchors of their words, as on GitHub; name the version at the foot of each page, and
    the repository at the top, if pyproject.toml has its address."""
    config.copyright = f"Slipstream {__version__}, MIT license"
    config.repo_url = REPOSITORY
    config.repo_name = "/".join(REPOSITORY.split("/")[-2:])
    config.mdx_configs["toc"]["slugify"] = slugify_unicode
    return config


def site_path(path: str) -> str:
    """Return where a file of the repository is on the site."""
    return "start.md" if path == START else path.removeprefix("docs/")


def linked_files(path: str, text: str) -> set[str]:
    """Return the files of the repository that a page links to."""
    targets = {os.path.normpath(os.path.join(os.path.dirname(path), link[1])) for link in LINK.findall(text)}
    return {target for target in targets if (ROOT / target).is_file()}


def settings_page() -> str:
    """Return a table of the keys of every section, with defaults and meanings."""
    from slipstream.config.compose import load_train
    from slipstream.config.values import describe_keys

    text = ["# Settings", "", "Every key of `slipstream train`, as `slipstream train --help` lists it for a task.", ""]
    for title, (words, part) in SECTIONS.items():
        config = load_train(words)
        listed = describe_keys(getattr(config, part), prefix=f"{part}.") if part else describe_keys(config)
        rows = [row for line in listed.splitlines() if not (row := line.strip()).startswith(("env.", "algo.")) or part]
        rows.sort(key=lambda row: "." in row.partition("=")[0])  # those of no section first
        text += [f"## {title}", "", "| key | default | meaning |", "|---|---|---|"]
        for row in rows:
            word, _, note = row.partition(" ")
            key, _, default = word.partition("=")
            note = re.sub(r"docs/([\w-]+)\.md", r"[\1](\1.md)", note.strip().replace("|", "\\|"))
            text.append(f"| `{key}` | `{default}` | {note} |")
        text.append("")
    return "\n".join(text)


def llms_page(files: Files) -> str:
    """Return the list of pages that language models read: title, address, first sentence."""
    lines = ["# Slipstream", "", "> Trains flight policies in thousands of parallel PyTorch environments.", ""]
    for file in sorted(files.documentation_pages(), key=lambda file: file.src_uri):
        text = Path(file.abs_src_path).read_text(encoding="utf-8") if file.abs_src_path else ""
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        prose = re.sub(r"^```.*?^```|^---.*?^---", "", text, flags=re.DOTALL | re.MULTILINE)
        prose = re.sub(r"\*\*|\[([^]]*)\]\([^)]*\)", r"\1", prose)  # the words of links
        first = re.search(r"^(?![#>|\-!<{:]|中文|English)(\S.+?)(?:\. |\.$|。|$)", prose, re.MULTILINE)
        if title and not file.src_uri.startswith("benchmarks/"):
            lines.append(f"- [{title[1]}]({file.url}): {first[1] if first else ''}")
    return "\n".join(lines) + "\n"


def on_files(files: Files, config: Any) -> Files:
    """Add README.md and, page by page, whatever is linked from the pages."""
    files.append(File.generated(config, "settings.md", content=settings_page()))
    pages = {f"docs/{file.src_uri}" for file in files.documentation_pages() if file.abs_src_path}
    waiting = {START} | pages
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        if not path.startswith("docs/"):
            level = InclusionLevel.NOT_IN_NAV if path.endswith(".md") else InclusionLevel.UNDEFINED
            files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path), inclusion=level))
        if path.endswith(".md"):
            waiting |= linked_files(path, (ROOT / path).read_text()) - seen
    files.append(File.generated(config, "llms.txt", content=llms_page(files)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links to where their files are on the site, link a page to its translation, and the notebook to Colab;
    leave results out of the search."""
    if page.file.abs_src_path is None:  # made here
        return markdown
    path = os.path.relpath(page.file.abs_src_path, ROOT)
    if path.endswith("/index.md"):  # it has a button
        pass
    elif path.startswith("docs/zh/"):
        markdown = f"[English](../{page.file.name}.md){{ .translation }}\n\n{markdown}"
    elif (ROOT / "docs" / "zh" / path.removeprefix("docs/")).is_file():
        markdown = f"[中文](zh/{page.file.name}.md){{ .translation }}\n\n{markdown}"
    here = os.path.dirname(site_path(path))
    if path.startswith(("benchmarks/", "CHANGELOG")):
        page.meta["search"] = {"exclude": True}
    elif path.startswith("docs/reference/"):
        page.meta["search"] = {"boost": 0.3}
    elif (name := path.removeprefix("docs/")) in SEARCH:
        page.meta["search"] = SEARCH[name]
    elif path.startswith("docs/zh/") or path.endswith(".zh-CN.md"):
        page.meta["search"] = CHINESE
    if path.startswith("docs/zh/") or path.endswith(".zh-CN.md"):  # a line's end is a space between Chinese characters
        parts = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
        markdown = "".join(part if part.startswith("```") else BROKEN_LINE.sub(r"\1", part) for part in parts)
    if REPOSITORY:
        badge = BADGE.format(COLAB.format(REPOSITORY.removeprefix("https://github.com/")))
        markdown = re.sub(r"(\[examples/slipstream\.ipynb\]\([^)]+\))", rf"\1 {badge}", markdown)

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
