"""Commands in a folder of somebody else run no code from there, and code that the user typed is found there."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import numba
import pytest

from slipstream.collectors.ray_cluster import WorkersPath
from slipstream.config import registry
from slipstream.config.help import ConfigError
from slipstream.sim.processes import python_command, python_environment

ROOT = Path(__file__).parents[2]
HOSTILE = """
    numba rich torch numpy yaml matplotlib tensordict tensorboard lz4 zstandard starlette uvicorn websockets
    gymnasium ray optuna wandb triton mujoco onnx onnxruntime onnxscript h5py pyarrow minari safetensors torchrl
    pettingzoo stable_baselines3 sitecustomize usercustomize
"""
STANDARD = (
    "ast argparse dataclasses json logging pathlib pickle random re shutil socket sqlite3 subprocess tempfile uuid"
)
COMMANDS = ("doctor", "config preset=demo", "eval checkpoint=.", "train resume=.", "compare .", "ckpt info .")
LISTED = """
    advise bench demo eval export play recording rollouts sweep train validate view
"""
MARK = "open(__file__ + '.ran', 'w').close()\n"


@pytest.fixture
def hostile(tmp_path, monkeypatch) -> Path:
    """A folder with modules, packages, entry points and settings that run or load code; it is the current one."""
    folder = tmp_path / "their_run"
    for name in HOSTILE.split():
        (folder / name).mkdir(parents=True) if name in ("rich", "numpy") else folder.mkdir(exist_ok=True)
        (folder / (f"{name}/__init__.py" if (folder / name).is_dir() else f"{name}.py")).write_text(MARK)
    info = folder / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    groups = ("slipstream.tasks", "slipstream.algorithms", "torch.backends", "numba_extensions", "gymnasium.envs")
    points = "".join(f"[{group}]\nevil = evil_code:Evil\ninit = evil_code:init\n" for group in groups)
    (info / "entry_points.txt").write_text(points)
    (folder / "evil_code.py").write_text(MARK)
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {folder}/evil_cache\n")
    (folder / "matplotlibrc").write_text("figure.dpi: evil\n")
    monkeypatch.chdir(folder)
    return folder


def ran(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.ran")] + [path.name for path in folder.glob("evil_cache")]


def run(*command: str, path: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=300)


def test_the_installed_command_runs_no_code_from_there(hostile, tmp_path):
    for name in STANDARD.split():
        (hostile / f"{name}.py").write_text(MARK)
    script = tmp_path / "bin" / "slipstream"  # as pip writes it
    script.parent.mkdir()
    lines = ["import sys", "from slipstream.cli import main"]
    lines += [f"main({words.split()!r})" for words in (*COMMANDS, *(f"{name} --help" for name in LISTED.split()))]
    lines += ["import numba, rich, matplotlib.figure, torch, tensordict; print(numba.__file__, numba.config.CACHE_DIR)"]
    script.write_text("\n".join(lines))
    done = run(str(script), path=str(ROOT))
    assert (done.returncode, ran(hostile)) == (0, []), done.stderr
    assert done.stdout.splitlines()[-1] == f"{numba.__file__} {os.environ.get('NUMBA_CACHE_DIR', '')}"
    assert "matplotlibrc" not in done.stderr


@pytest.mark.parametrize(
    ("start", "path"),
    [(["-m", "slipstream"], f"{ROOT}"), (["-Bm", "slipstream"], f":{ROOT}:."), (["script"], f"{ROOT}:")],
)
def test_the_other_starts_run_no_code_from_there(hostile, tmp_path, start, path):
    for name in ("sitecustomize", "usercustomize"):  # Python itself imports these from an empty entry of PYTHONPATH
        (hostile / f"{name}.py").unlink()
    if start == ["script"]:
        start = [str(tmp_path / "slipstream")]
        Path(*start).write_text("from slipstream.cli import main\nraise SystemExit(main())")
    done = run(*start, "doctor", path=path)
    assert (done.returncode, ran(hostile)) == (0, []), done.stderr


def test_children_of_a_command_run_no_code_from_there(hostile, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f":{ROOT}:.")
    code = "import sys, rich, numba, yaml, slipstream.cli, slipstream; print(slipstream.__file__)"
    env = python_environment(OMP_NUM_THREADS="1")
    done = subprocess.run(python_command("-c", code), env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(ROOT / "slipstream" / "__init__.py"), done.stderr
    assert env["PYTHONPATH"] == str(ROOT)
    assert [name for name in ran(hostile) if name != "evil_cache"] == []


@pytest.mark.parametrize(("path", "added"), [([], []), (["", "/else"], ["/", "/else"])])
def test_ray_workers_search_where_this_process_does(monkeypatch, path, added):
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", [*path, os.path.dirname(os.__file__), "/installed", "/"])
    folders = WorkersPath()
    folders.extend(["/", "/installed", "/else"])
    assert folders == added


def test_every_python_process_is_started_by_python_command():
    sources = {path.name: path.read_text() for path in (ROOT / "slipstream").rglob("*.py")}
    started = {name for name, text in sources.items() if "sys.executable" in text}
    assert started == {"processes.py"}


def test_entry_points_are_not_looked_up_there(hostile, monkeypatch):
    for entry in ("", str(hostile), "."):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
        assert "evil" not in registry.names("task") | registry.names("algorithm")


def test_a_typed_module_is_found_there_with_its_neighbors(tmp_path, monkeypatch):
    """The usual layout of a lab: a package, a module beside it, and a folder without __init__.py."""
    for name in ("my_lab", "my_tools"):
        (tmp_path / name).mkdir()
    (tmp_path / "my_lab" / "__init__.py").touch()
    (tmp_path / "my_lab" / "envs.py").write_text("import my_settings\nfrom my_tools.plots import ANSWER\n")
    (tmp_path / "my_settings.py").touch()
    (tmp_path / "my_tools" / "plots.py").write_text("ANSWER = 42")
    (tmp_path / "rich.py").write_text(MARK)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    assert registry.load("my_lab.envs:ANSWER", "task=my_lab.envs:ANSWER") == 42
    assert sys.path[-1] == str(tmp_path) and PathFinder.find_spec("rich").origin != str(tmp_path / "rich.py")
    for name in ("my_lab", "my_lab.envs", "my_settings", "my_tools", "my_tools.plots"):
        del sys.modules[name]


def test_a_registered_name_is_not_searched_there(hostile, monkeypatch):
    monkeypatch.setattr(registry, "BUILT_IN", {"task": {"gone": "evil_code:Evil"}})
    with pytest.raises(ConfigError, match="cannot import evil_code"):
        registry.find("task", "gone")
    assert ran(hostile) == [] and str(hostile) not in sys.path
