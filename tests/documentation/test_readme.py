"""What the README shows must run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "64 * 32 * 10" in code
    code = code.replace("64 * 32 * 10", "32 * 8").replace("num_envs=64", "num_envs=32").replace("64 * 32", "32 * 8")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["ckpt_0.pt.slip"]


def test_every_file_and_link_it_names_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing
    tree = README.split("## Layout")[1]
    named = set(re.findall(r"[\w]+\.py", tree))
    there = {path.name for folder in ("slipstream", "benchmarks") for path in (ROOT / folder).rglob("*.py")}
    assert named <= there


def test_it_is_short():
    assert len(README.splitlines()) <= 130
    assert not [line for line in README.splitlines() if len(line) > 200 and not line.startswith("|")]


def test_the_layout_names_every_folder():
    tree = README.split("## Layout")[1]
    folders = {path.name for path in (ROOT / "slipstream").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {name for name in re.findall(r"(\w+)/", tree.split("```")[1])} - {
        *("slipstream", "tests", "benchmarks", "examples", "docs", "web")
    }


def test_the_chinese_one_says_the_same():
    def facts(text):
        *blocks, _ = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)  # the last is the layout, in words
        code = [re.sub(r"\s*#.*", "", line) for block in blocks for line in block.splitlines()]
        links = re.findall(r"\]\(([^)]+)\)", text.replace("docs/zh/", "docs/"))
        links = [link for link in links if not link.startswith("README")]
        return code, links, re.findall(r"\*\*[\d. /]+\*\*", text), text.count("\n|"), text.count("\n#")

    assert facts((ROOT / "README.zh-CN.md").read_text(encoding="utf-8")) == facts(README)
