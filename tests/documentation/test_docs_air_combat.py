"""docs/air-combat.md: its example runs, and the names and shapes it tells are those of the env."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipstream.tasks.aircombat.env import AirCombatEnv

PAGE = (Path(__file__).parents[2] / "docs" / "air-combat.md").read_text(encoding="utf-8")


def test_the_example_wins_its_duels(capsys):
    code = re.search(r"```python\n# duels\.py\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code[1], "duels.py", "exec"), {})
    won, ended = map(int, re.match(r"(\d+) of (\d+) duels won", capsys.readouterr().out).groups())
    assert ended >= 64 and won == ended


def test_an_agent_and_a_reward_of_ones_own_fly(capsys):
    code = re.search(r"```python\n# mine\.py.*?\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code[1], "mine.py", "exec"), {"__name__": "__main__"})
    lost, won = map(
        int, re.match(r"the weaver lost (\d+) duels to pursuit and won (\d+)", capsys.readouterr().out).groups()
    )
    assert lost + won >= 16


def test_every_observation_is_told_with_its_shape():
    for name, spec in AirCombatEnv(1).observation_spec.items():
        assert f"| `{name}` | {' × '.join(map(str, spec.shape))} |" in PAGE


@pytest.mark.parametrize("name", ["reach", "classic_loop"])
def test_the_example_runs(name, tmp_path, monkeypatch, capsys):
    code = re.search(rf"```python\n# {name}\.py\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code[1], f"{name}.py", "exec"), {})
    if name == "reach":
        printed = capsys.readouterr().out.splitlines()
        assert printed[:2] == re.findall(r"print\(ranges.*?#\s*(.*)", code[1]) and "(1, 2, 21, 2)" in printed[2]
