"""docs/tutorials/continued.md: a policy that learns on from its logged flights becomes better."""

import re
import shlex
from pathlib import Path

from slipstream import evaluate
from slipstream.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "continued.md").read_text(encoding="utf-8")


def test_logged_flights_make_the_policy_better(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"^slipstream (train task=gym .*)", PAGE, re.MULTILINE)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    quiet = ["quiet=true", "wandb.mode=disabled", "device=cpu", "threads=1"]
    assert main([*shlex.split(first), *quiet]) == 0
    exec(compile(code, "continued.md", "exec"), {})
    assert main([*shlex.split(second), *quiet]) == 0
    before, after = (
        evaluate(f"checkpoint=runs/{name}", "eval.num_drones=32", log=lambda text: None) for name in ("first", "second")
    )
    assert after["return_low"] > before["return_high"]
