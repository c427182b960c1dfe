"""The wheel holds every file of the package, and works from another folder."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import slipstream

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_licences_of_what_is_in_it():
    """The wheel, the sdist and every exported page have this file."""
    script = (ROOT / "slipstream/viewer/static/viewer.js").read_text()
    for line in ("three.js authors", "Leon Sorokin"):
        notice = script[script.index(line) :]
        assert notice.index("Permission is hereby granted") < notice.index('THE SOFTWARE IS PROVIDED "AS IS"')


def test_versions_agree():
    assert f"\nversion: {slipstream.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_actions_are_pinned_by_hash():
    lines = [line for path in ROOT.glob(".github/workflows/*.yml") for line in path.read_text().splitlines()]
    used = [line.partition("uses:")[2].strip() for line in lines if "uses:" in line]
    assert used and [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", name)] == []


def test_the_wheel_is_complete_and_works_elsewhere(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    # A copy: setuptools writes into the folder that it builds.
    tracked = subprocess.run(["git", "ls-files", "slipstream"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    files = tracked.stdout.split()
    for name in [*files, "pyproject.toml", "README.md", "LICENSE"]:
        copy = tmp_path / "source" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    subprocess.run([*build, "--wheel-dir", tmp_path, tmp_path / "source"], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if name.startswith("slipstream/")} == set(files)
        archive.extractall(tmp_path / "site")
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    assert f"\nVersion: {slipstream.__version__}\n" in metadata and "\nProvides-Extra: all\n" in metadata
    assert "\nLicense-File: LICENSE\n" in metadata
    code = "from setuptools.build_meta import build_sdist; build_sdist('..')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "source", check=True, timeout=300, capture_output=True)
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", *files} <= names
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    code = "import slipstream, sys; from slipstream.cli import main; print(slipstream.__file__); sys.exit(main(['doctor']))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(tmp_path / "site")) and "policy that ships" in done.stdout
