"""The wheel holds every file of the package, and works from another folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    code = "import slipstream, sys; from slipstream.cli import main; print(slipstream.__file__); sys.exit(main(['doctor']))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(tmp_path / "site")) and "policy that ships" in done.stdout
