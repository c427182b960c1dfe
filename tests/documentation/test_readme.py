"""What the README shows must run."""

import re
import shlex
from pathlib import Path

from slipstream.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "64 * 32 * 10" in code
    code = code.replace("64 * 32 * 10", "32 * 8").replace("num_envs=64", "num_envs=32").replace("64 * 32", "32 * 8")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["ckpt_0.pt.slip"]


WORLD = "env.num_envs=8 env.num_worlds=1 env.num_obstacles=6 env.map_half_m=8 algo.minibatches=2"
RUN = "algo.rollout_steps=8 total_frames=64 eval_interval=0 wandb.mode=disabled device=cpu threads=1 quiet=true"
FLIGHT = "eval.num_drones=2 eval.map_seeds=[1] eval.max_steps=8 eval.picture=false threads=1"
SMALL = {  # commands that are run, with what makes them small
    "train preset=demo": f"{WORLD} {RUN} name=NAME",
    "eval": FLIGHT,
    "eval checkpoint=runs/NAME": FLIGHT,
    "eval task=aircombat red=learned blue=pursuit,crank games=1000": "games=2 env.episode_s=2 eval.picture=false",
    "config preset=demo algo.epochs=2 out=my.yaml": "",
    "train config=my.yaml": f"{WORLD} {RUN} name=own",
}


def test_its_commands_run_small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = re.findall(r"slipstream ((?:train|eval|config)\b[^#\n;]*?)(?= *(?:$|#|;))", README, re.MULTILINE)
    assert set(SMALL) <= set(typed)
    for command, small in SMALL.items():
        assert main([*shlex.split(command), *small.split()]) == 0, command


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
