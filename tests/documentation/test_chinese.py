"""The Chinese pages say what the English ones say: the same headings, code, links and figures."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.name for page in (DOCS / "zh").glob("*.md"))


def facts(text: str, prefix: str) -> dict[str, list[str]]:
    """What does not change with the language. The layout in README is words."""
    text = re.sub(r"([\d.]+) 万", lambda tens: f"{float(tens[1]) / 100:g} M", text.replace(".zh-CN", ""))
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    links = [
        link.removeprefix(prefix).replace("docs/zh/", "docs/") for link in re.findall(r"\]\(([^)#]+)[^)]*\)", prose)
    ]
    return {
        "headings": re.findall(r"^#+", prose, re.MULTILINE),
        "code": [
            re.sub(r"\s*#.*", "", line)
            for block in blocks
            if block[:11] != "slipstream/"
            for line in block.splitlines()
        ],
        "links": sorted(links),
        "names": sorted(set(re.findall(r"`([^`]+)`", prose))),
        "figures": sorted(re.findall(r"\d[\d,.]*\d|\d", re.sub(r"\]\([^)]*\)|`[^`]*`", "", prose))),
    }


@pytest.mark.parametrize("name", [*PAGES, "../README.md"])
def test_a_chinese_page_has_the_facts_of_the_english_one(name):
    translation = DOCS / "zh" / name if name in PAGES else DOCS / "../README.zh-CN.md"
    english = facts((DOCS / name).read_text(encoding="utf-8"), "zh/")
    assert facts(translation.read_text(encoding="utf-8"), "../") == english


@pytest.mark.parametrize("name", [*PAGES, "../../README.zh-CN.md"])
def test_links_to_english_pages_say_so(name):
    """A page with a translation is linked in Chinese; tables of results are English and have no mark."""
    page = DOCS / "zh" / name
    for text, link, mark in re.findall(
        r"(?<!!)\[([^]]*)\]\(([^)#]+\.md)[^)]*\)(（英文）)?", page.read_text(encoding="utf-8")
    ):
        target = (page.parent / link).resolve()
        if target.is_relative_to(DOCS) and not target.is_relative_to(DOCS / "zh") and text != "English":
            assert mark or "（英文）" in text, f"{name}: {link}"
            assert target.name not in PAGES, f"{name}: {link} is there in Chinese"
