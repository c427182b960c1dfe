"""The commands `python benchmarks/...` and `python examples/...` of README and docs/: each can be read, the quick ones
run small."""

from __future__ import annotations

import argparse
import functools
import importlib
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from slipstream.cli import bench

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"\bpython ((?:benchmarks|examples)/\w+\.py(?: [\w./:=+-]+)*)")
NEEDS = {"checkpoint": "safetensors", "pipeline": "torchrl", "ray_actors": "ray", "replay_clients": "stable_baselines3"}
OWN_USAGE = ("env", "navigation", "fly", "shield")  # read their words themselves


class ReadError(Exception):
    """The words were read: nothing else shall run."""


def commands() -> list[str]:
    """Return the commands of all pages, each once."""
    return sorted({found for page in PAGES for found in COMMAND.findall(page.read_text(encoding="utf-8"))})


@pytest.fixture
def script(monkeypatch):
    """Return a function that starts a benchmark with these words, in this process."""

    def start(name, *words):
        monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
        monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", *words])
        runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")

    return start


def read_only(monkeypatch):
    """Let a script end as soon as its words were read; wrong ones end it with an error."""
    read = argparse.ArgumentParser.parse_args

    def stop(parser, *args):
        read(parser, *args)
        raise ReadError

    def measure_nothing(*args):
        raise ReadError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(bench, "measure_all", measure_nothing)


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_pages_can_be_read(command, script, monkeypatch):
    path, *words = shlex.split(command)
    name = Path(path).stem
    assert (ROOT / path).exists()
    if path.startswith("examples/") or name in OWN_USAGE:  # run by tests of their own
        return
    pytest.importorskip(NEEDS.get(name, "torch"))
    if name in ("memory", "ranks", "compare_speed"):  # what the page leaves to the reader
        words = words or {"memory": ["RUN"], "ranks": ["learn"], "compare_speed": ["--base", "HEAD"]}[name]
    read_only(monkeypatch)
    with pytest.raises(ReadError):
        script(name, *words)


@pytest.mark.parametrize(
    "command",
    [
        "reach --pairs 4 --repeats 1 --device cpu",
        "replay_index --largest 1e4",
        "replay --growth --largest 10000 --threads 1",
        "adapters --envs 1 --steps 2 --rounds 1",
        "collector --policy linear --num-envs 4 --steps 4 --repeats 1 --threads 1",
    ],
)
def test_a_benchmark_runs_small(command, script, capsys):
    for package in ("gymnasium", "pettingzoo", "stable_baselines3", "torchrl") if "adapters" in command else ():
        pytest.importorskip(package)
    script(*shlex.split(command))
    assert "\n| " in capsys.readouterr().out


def test_the_replay_benchmark_flies_the_shipped_policy(script, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    data, peers = importlib.import_module("replay_data"), importlib.import_module("replay_peers")
    monkeypatch.setattr(data, "recorded_lidar", functools.partial(data.recorded_lidar, drones=4, steps=12))
    monkeypatch.setattr(peers, "contenders", lambda *args: {"ours": lambda: peers.Ours(48)})
    script("replay", "--data", "recorded lidar", "--rounds", "1", "--threads", "1")
    assert "## recorded lidar: 4 episodes of 12, float32 [1, 36, 4]" in capsys.readouterr().out
