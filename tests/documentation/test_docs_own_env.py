"""docs/your-own-env.md, as a reader follows it: its files written, its commands run, with fewer frames."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from slipstream.cli import main
from slipstream.training.metrics_log import read_metrics

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-env.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The folder in which the page was followed up to `resume`."""
    folder = tmp_path_factory.mktemp("reader")
    for code in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", code)
        assert name, "each Python block of the page begins with the name of its file"
        (folder / name[1]).write_text(code)
    return folder


@pytest.fixture
def reader(followed, monkeypatch):
    monkeypatch.chdir(followed)
    monkeypatch.syspath_prepend(followed)
    return followed


def shown(*words):
    """The page's commands that begin so, without the word `slipstream` itself."""
    commands = [shlex.split(block.replace("\\\n", " ")) for block in blocks("bash")]
    found = [command[1:] for command in commands if command[: len(words) + 1] == ["slipstream", *words]]
    assert found, f"the page no longer shows slipstream {' '.join(words)}"
    return found


def shorter(command, frames):
    """The same command over fewer frames."""
    return [re.sub(r"^total_frames=.*", f"total_frames={frames}", word) for word in command]


def test_the_help_of_the_page_lists_the_envs_own_keys(reader, capsys):
    assert main(shown("train", "task=my_env:Docking", "--help")[0]) == 0
    text = capsys.readouterr().out
    assert "env.wind_mps2=0.5" in text and "spread of the wind" in text


def test_a_wrong_key_is_answered_as_the_page_says(reader, capsys):
    assert main(["train", "task=my_env:Docking", "env.wind=1"]) == 2
    assert "did you mean 'env.wind_mps2'?" in capsys.readouterr().err


def test_the_gymnasium_env_of_the_page_trains(reader):
    pytest.importorskip("gymnasium")
    (train,) = shown("train", "task=gym")
    assert main([*shorter(train, 2 * 16 * 32), "wandb.mode=disabled"]) == 0
    assert len(read_metrics("runs/balance")) == 2


def test_the_page_trains_and_evaluates_in_python(reader, capsys):
    Path("short.py").write_text(Path("train_docking.py").read_text().replace("200000", "8192"))
    runpy.run_path("short.py", run_name="__main__")
    assert re.search(r"^return -?[\d.]+ \(-?[\d.]+ … -?[\d.]+\)$", capsys.readouterr().out, re.MULTILINE)


def test_the_page_from_training_to_flying(reader, capsys):
    train = shown("train", "task=my_env:Docking", "env.num_envs=128")[0]
    assert main([*shorter(train, 25 * 128 * 32), "device=cpu", "wandb.mode=disabled"]) == 0
    last = [line for line in capsys.readouterr().out.splitlines() if line.startswith("iteration 25/25")][-1]
    assert re.search(r"docked [\d.]+ .* episodes [\d,]+", last)
    assert Path("runs/docking/learning.png").exists()
    rows = read_metrics("runs/docking")
    assert len(rows) == 25 and "episode/docked" in rows[-1] and "eval/docked" in rows[-1]
    assert rows[-1]["eval/docked"] > 0.5 > rows[0]["episode/docked"]  # it learns what it is told to

    assert main(shorter(shown("train", "resume=runs/docking")[0], 26 * 128 * 32)) == 0
    assert len(read_metrics("runs/docking")) == 26

    capsys.readouterr()
    results = []
    for command in shown("eval", "checkpoint=runs/docking"):
        assert main(command) == 0
        results.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    calm, windy = results
    assert calm["episodes"] == 500 and calm["docked"] > 0.5 and calm["length"] < 60
    assert windy["docked"] < calm["docked"]

    sys.modules.pop("my_env", None)
    runpy.run_path("look.py", run_name="__main__")
    assert "docked" in capsys.readouterr().out
