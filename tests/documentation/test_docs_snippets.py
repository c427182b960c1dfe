"""The Python blocks of these pages each run by themselves, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipstream import cli

DOCS = Path(__file__).parents[2] / "docs"
# Pages whose code needs files.
OTHERS = ("checkpoint-format", "clusters", "continued", "export", "stored-data", "your-own-env", "your-own-network")
OPTIONAL = ("gymnasium", "mujoco", "onnxruntime", "pettingzoo", "stable_baselines3", "torchrl")
SMALLER = {"100_000": "256", 'device="cpu")\nmodel.learn': 'device="cpu", n_steps=32, batch_size=64)\nmodel.learn'}


def blocks() -> list[tuple[str, str]]:
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        page, text = path.relative_to(DOCS), path.read_text(encoding="utf-8")
        if path.stem in OTHERS or "zh" in page.parts:
            continue
        for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
            line = text.count("\n", 0, match.start()) + 2
            found.append((f"{page}:{line}", "\n" * (line - 1) + match[1]))  # errors name the page's own line
    return found


@pytest.mark.parametrize(("place", "code"), [pytest.param(*block, id=block[0]) for block in blocks()])
def test_a_snippet_runs_by_itself(place, code, tmp_path, monkeypatch):
    for package in OPTIONAL:
        if package in code:
            pytest.importorskip(package)
    for long, short in SMALLER.items():
        code = code.replace(long, short)
    monkeypatch.chdir(tmp_path)
    if "policy.onnx" in code:  # what the page exports before
        assert cli.main(["export", "--to", "onnx", "out=policy.onnx"]) == 0
    exec(compile(code, f"docs/{place.partition(':')[0]}", "exec"), {"__name__": "__main__"})
