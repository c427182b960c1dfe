"""docs/tutorials/continued.md: a policy that learns on from its logged flights becomes better."""

import re
import shlex
from pathlib import Path

import pytest

from slipstream import evaluate
from slipstream.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "continued.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("frames", [400, pytest.param(3000, marks=pytest.mark.soak)])
def test_logged_flights_make_the_policy_better(tmp_path, monkeypatch, frames):
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"^slipstream (train task=gym .*)", PAGE, re.MULTILINE)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    quiet = ["quiet=true", "wandb.mode=disabled", "device=cpu", "threads=1", f"total_frames={frames}"]
    assert main([*shlex.split(first), *quiet]) == 0
    exec(compile(code, "continued.md", "exec"), {})
    assert main([*shlex.split(second), *quiet]) == 0
    before, after = (
        evaluate(f"checkpoint=runs/{name}", "eval.num_drones=32", log=lambda text: None) for name in ("first", "second")
    )
    assert after["return_low"] > before["return_high"] or frames < 3000  # short ones only show that the page runs
