"""benchmarks/env.py, on few drones and duels."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    module = importlib.import_module("env")
    small = {"SECONDS": 0.0, "REPEATS": 1, "MAIN": 4, "DRONES": (3,), "SCALES": (2.0,), "DUELS": (3, 5)}
    for name, value in {**small, "PLAIN_MOST": 4, "SETTLED_S": 0.2}.items():
        monkeypatch.setattr(module, name, value)
    return module


def rows_of(bench, tmp_path, *words):
    bench.main([*words, "device=cpu", f"out={tmp_path / 'table.md'}"])
    return [line.strip("| ").split(" | ") for line in (tmp_path / "table.md").read_text().splitlines()[2:]]


def test_the_table_holds_both_forms_and_the_growth(bench, tmp_path, capsys):
    rows = rows_of(bench, tmp_path, "task=aircombat", "env.time_scale=3")
    assert [row[:3] for row in rows] == [
        ["4", "2", "ours"],
        ["4", "2", "plain PyTorch"],
        ["3", "3", "ours"],
        ["3", "3", "plain PyTorch"],
        ["5", "3", "ours"],
    ]
    assert float(rows[0][5]) > 0 and int(rows[0][4].replace(",", "")) > 0
    assert "AirCombatEnv.step" in capsys.readouterr().out


def test_drones_are_measured_alike(bench, tmp_path):
    rows = rows_of(bench, tmp_path, "env.num_obstacles=20", "env.dyn.num_obstacles=8")
    assert [row[:2] for row in rows] == [["4", "ours"], ["4", "plain PyTorch"], ["3", "ours"]]
