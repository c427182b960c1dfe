"""slipstream bench env task=aircombat, on few duels."""

from __future__ import annotations

import pytest

from slipstream.cli import main
from slipstream.tasks import bench as env
from slipstream.tasks.aircombat import bench as aircombat


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(env, "SECONDS", 0.0)
    monkeypatch.setattr(env, "REPEATS", 1)
    for name, value in {"MAIN": 4, "SCALES": (2.0,), "GROWTH": (3, 5), "PLAIN_MOST": 4, "SETTLED_S": 0.2}.items():
        monkeypatch.setattr(aircombat, name, value)


def test_the_table_holds_both_forms_and_the_growth(tmp_path, capsys):
    out = tmp_path / "table.md"
    assert main(["bench", "env", "task=aircombat", "device=cpu", f"out={out}", "env.time_scale=3"]) == 0
    rows = [line.strip("| ").split(" | ") for line in out.read_text().splitlines()[2:]]
    assert [row[:3] for row in rows] == [
        ["4", "2", "ours"],
        ["4", "2", "plain PyTorch"],
        ["3", "3", "ours"],
        ["3", "3", "plain PyTorch"],
        ["5", "3", "ours"],
    ]
    assert float(rows[0][5]) > 0 and int(rows[0][4].replace(",", "")) > 0
    assert "AirCombatEnv.step" in capsys.readouterr().out
