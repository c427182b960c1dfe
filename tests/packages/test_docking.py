"""A third task in a package of its own: installed, it trains, resumes, is evaluated and exported, with no line of the
core changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "docking"
QUIET = ["quiet=true", "threads=1", "wandb.mode=disabled"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder as `pip install --target` fills it, made without a build: the package, and the metadata of its
    pyproject.toml."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    shutil.copytree(PACKAGE / "docking", folder / "docking")
    info = folder / f"slipstream_docking-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{n} = {v}" for n, v in points.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    words = ["preset=docking_small", "total_frames=20480", "name=dock", *QUIET]
    slipstream(installed, folder, "train", *words)
    return folder / "runs" / "dock"


def slipstream(installed: Path, cwd: Path, *words: str, code: int = 0) -> str:
    """The command in a process that finds the package among those installed; what it printed."""
    here = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(installed)])}
    command = [sys.executable, "-m", "slipstream", *words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def rows_of(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_its_preset_names_the_task_and_is_listed(installed, run):
    assert "task: docking\n" in (run / "config.yaml").read_text()
    rows = rows_of(run)
    assert len(rows) == 10 and "eval/success" in rows[9] and "episode/speed_mps" in rows[9]
    assert (run / "best.pt").exists()
    shown = slipstream(installed, run, "train", "task=docking", "--help")
    assert "env.thrust_mps2=4.0" in shown and "docking_small" in shown


def test_it_resumes_by_its_registered_name(installed, run):
    slipstream(installed, run.parent.parent, "train", f"resume={run}", "total_frames=24576")
    assert [row["iteration"] for row in rows_of(run)] == list(range(1, 13))


def test_it_is_judged_by_its_own_table_and_figure(installed, run):
    words = [f"checkpoint={run}", "winds=[0.0,0.4]", "eval.num_drones=16", "json=true"]
    shown = slipstream(installed, run.parent.parent, "eval", *words)
    result = json.loads(shown.splitlines()[-1])
    assert [row["wind_mps2"] for row in result["winds"]] == [0.0, 0.4]
    assert all(0 <= row["low"] <= row["docked"] <= row["high"] <= 1 for row in result["winds"])
    assert "16 craft per wind" in shown and "95 % interval" in shown
    assert Path(result["picture"]).parent == run and Path(result["picture"]).read_bytes()[:4] == b"\x89PNG"
    refused = slipstream(installed, run, "eval", f"checkpoint={run}", "env.wind_mps2=1", code=2)
    assert "an evaluation sets env.wind_mps2 itself: use winds" in refused


def test_it_is_exported(installed, run):
    pytest.importorskip("onnxscript")
    shown = slipstream(installed, run.parent.parent, "export", f"checkpoint={run}", "--to", "onnx")
    assert "takes position, velocity; gives action" in shown and (run / "policy.onnx").stat().st_size > 0


def test_without_the_package_its_run_is_refused(installed, run, tmp_path):
    refused = slipstream(tmp_path, tmp_path, "eval", f"checkpoint={run}", code=2)
    assert "unknown task 'docking'" in refused
