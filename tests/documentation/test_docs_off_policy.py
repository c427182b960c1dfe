"""What docs/off-policy.md shows is run as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

from slipstream.config.compose import load_train

PAGE = (Path(__file__).parents[2] / "docs" / "off-policy.md").read_text(encoding="utf-8")


def test_the_loop_of_the_page_runs():
    pytest.importorskip("gymnasium")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names: dict = {}
    exec(compile(code, "docs/off-policy.md", "exec"), names)
    assert all(torch.isfinite(value) for value in names["losses"].values())
    assert names["algo"].updates == 320


def test_the_commands_of_the_page_can_be_read():
    shown = re.search(r"```\n(slipstream.*?)```", PAGE, re.S)[1].splitlines()
    lines = [line for line in shown if "--help" not in line and "my_env" not in line]
    assert len(lines) == 4
    for line in lines:
        load_train(shlex.split(line, comments=True)[2:])
