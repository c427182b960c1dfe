"""The pages of the documentation: every public name and page is on the site, every command can be read."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import slipstream
from slipstream.cli import COMMANDS
from slipstream.config.compose import load_evaluate, load_train

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Words that name things of the reader: files, runs, classes.
THEIRS = re.compile(
    r"^(resume|config|init|init_replay|algo\.data|algo\.teacher)=|^@|my_|mine:|docking|PATH|MODULE|NAME|\.\.\.$|^\["
)


def commands() -> list[tuple[str, list[str]]]:
    """The lines `slipstream COMMAND ...` in code blocks, by their place."""
    found = []
    for page in PAGES:
        code = False
        lines = page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        for number, line in enumerate(lines, 1):
            code ^= line.startswith("```")
            if code and line.startswith("slipstream ") and not line.startswith("slipstream train:"):
                words = shlex.split(line.partition(" & ")[0], comments=True)[1:]
                found.append((f"{page.relative_to(ROOT)}:{number}", words))
    return found


@pytest.mark.parametrize(("place", "words"), [pytest.param(*found, id=found[0]) for found in commands()])
def test_every_command_can_be_read(place, words):
    command, *rest = words
    assert command in COMMANDS, f"{place}: no command {command}"
    rest = [word for word in rest if not THEIRS.search(word)]
    if command == "train" and not {"--help", "--multirun", "--jobs"} & set(rest):
        load_train([word for word in rest if not re.match(r"^seed=.*,", word)])
    elif command in ("eval", "validate") and not any(word.startswith("task=") and word not in rest for word in words):
        load_evaluate([word for word in rest if not word.startswith("--")])


def test_the_reference_has_every_public_name():
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    listed = [name for page in pages for name in re.findall(r"^::: [\w.]+\.(\w+)$", page.read_text(), re.MULTILINE)]
    rows = re.findall(r"`(\w+)`", (ROOT / "docs" / "reference.md").read_text().partition("|---|")[2])
    assert sorted(rows) == sorted(listed)
    assert sorted(listed) == slipstream.__all__


def test_lists_and_tables_follow_an_empty_line():
    """Without one, Markdown on the site continues the paragraph."""
    for page in [*PAGES, *sorted((ROOT / "benchmarks" / "results").glob("*.md"))]:
        code, before = False, ""
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            list_begins = re.match(r"([-*]|\d+\.) ", line) and not re.match(r"( |#|[-*] |\d+\. )", before)
            table_begins = line.startswith("|") and not before.startswith(("|", "#"))
            assert code or not before or not (list_begins or table_begins), f"{page}:{number}"
            code ^= line.lstrip().startswith("```")
            before = line


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r": ([\w./-]+\.md)$", menu, re.MULTILINE))
    others = {"start.md", "settings.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]} | others
    assert yaml.safe_load(menu)["strict"]


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "start.html").exists() and (tmp_path / "benchmarks" / "results").is_dir()
    settings = (tmp_path / "settings.html").read_text(encoding="utf-8")
    assert all(
        f"<code>{key}</code>" in settings for key in ("algo.learning_rate", "env.num_obstacles", "save_interval")
    )
    assert "(checkpoints.html)" in (tmp_path / "llms.txt").read_text(encoding="utf-8")
    for page in tmp_path.rglob("*.html"):  # links to files of the repository are not in mkdocs' own check
        for link in re.findall(r'href="([^"#:]+)"', page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists() or page.name == "404.html", f"{page.relative_to(tmp_path)}: {link}"


def test_the_repositorys_address_is_one_setting(monkeypatch):
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    config = SimpleNamespace(mdx_configs={"toc": {}})
    site["on_config"](config)
    assert config.repo_url == site["REPOSITORY"]
    globals_of_site = site["on_page_markdown"].__globals__
    monkeypatch.setitem(globals_of_site, "REPOSITORY", "https://github.com/OWNER/NAME")
    page = SimpleNamespace(
        file=SimpleNamespace(abs_src_path=str(ROOT / "docs" / "how-do-i.md"), name="how-do-i"), meta={}
    )
    text = site["on_page_markdown"]((ROOT / "docs" / "how-do-i.md").read_text(encoding="utf-8"), page)
    assert "](https://colab.research.google.com/github/OWNER/NAME/blob/main/examples/slipstream.ipynb)" in text
