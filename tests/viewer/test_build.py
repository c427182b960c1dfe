"""The committed page is what its sources give."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "slipstream" / "viewer" / "static"


def test_the_page_is_small_and_fetches_nothing_from_elsewhere():
    names = ("index.html", "viewer.js", "viewer.css")
    assert sum((STATIC / name).stat().st_size for name in names) < 700_000
    assert "http" not in (STATIC / "index.html").read_text() + (STATIC / "viewer.css").read_text()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm builds the page")
def test_the_sources_are_formatted_and_give_the_same_files(tmp_path):
    shutil.copytree(ROOT / "web", tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    kept = ROOT / "web" / "node_modules"
    if kept.is_dir():
        (tmp_path / "web" / "node_modules").symlink_to(kept)
    elif subprocess.run(
        ["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=tmp_path / "web", timeout=300
    ).returncode:
        pytest.skip("npm ci could not fetch the page's libraries")
    (tmp_path / "out").mkdir()
    checked = subprocess.run(["npm", "run", "--silent", "check"], cwd=tmp_path / "web", capture_output=True, text=True)
    assert checked.returncode == 0, f"run `npm run format` in web/: {checked.stdout}{checked.stderr}"
    subprocess.run(["node", "build.mjs", str(tmp_path / "out")], cwd=tmp_path / "web", check=True, timeout=120)
    for name in ("viewer.js", "viewer.css", "index.html", "embedded.html"):
        same = (tmp_path / "out" / name).read_bytes() == (STATIC / name).read_bytes()
        assert same, f"{name} is not what web/ gives: run `make web` and commit it"
