"""`slipstream card` and `push`, and policies from the hub; a folder stands for the hub."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from safetensors import safe_open

from slipstream.algorithms.policy_file import load_policy
from slipstream.checkpoint.errors import CheckpointError
from slipstream.cli import main

SMALL = "env.num_envs=8 env.num_worlds=1 env.num_obstacles=6 env.map_half_m=8 algo.minibatches=2 algo.rollout_steps=8"
RUN = "total_frames=128 eval_interval=1 wandb.mode=disabled device=cpu threads=1 quiet=true name=base"
EVAL = ["eval.num_drones=2", "eval.map_seeds=[1,2]", "eval.max_steps=40"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with its card."""
    pytest.importorskip("onnxscript")
    root = tmp_path_factory.mktemp("card")
    small = f"{SMALL} {RUN} root={root} eval.num_drones=2 eval.map_seeds=[1] eval.max_steps=40"
    assert main(["train", "preset=demo", *small.split()]) == 0
    assert main(["card", str(root / "base"), *EVAL, "license=mit"]) == 0
    return root / "base"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """What huggingface_hub offers, over a folder; its calls are in `hub.calls`."""
    calls = []

    class HfApi:
        def create_repo(self, repo_id, private, exist_ok):
            calls.append((repo_id, private))
            return f"https://hub/{repo_id}"

        def upload_folder(self, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, tmp_path / repo_id)

    def hf_hub_download(repo_id, filename, revision=None):
        calls.append((repo_id, filename, revision))
        return str(tmp_path / repo_id / filename)

    module = SimpleNamespace(HfApi=HfApi, hf_hub_download=hf_hub_download, calls=calls)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_a_card_says_how_the_policy_was_made_and_flies(run):
    text = (run / "card" / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---")[1])
    assert front.pop("tags") == ["reinforcement-learning", "ppo", "navigation"]
    assert front == {"license": "mit", "library_name": "slipstream"}
    assert "slipstream eval checkpoint=hf://OWNER/REPO eval.num_drones=2 eval.map_seeds=[1,2]" in text
    assert "│   2 │      2 │" in text and "95 % interval" in text and "| frames | 128 |" in text
    assert "| `algo.rollout_steps` | 8 |" in text and "| `algo.epochs` | 2 |" in text  # 32 and 4 by default
    assert str(run.parent) not in text and "policy: policy.safetensors, sha256" in text
    names = {path.name for path in (run / "card").iterdir()}
    assert names >= {"policy.safetensors", "policy.onnx", "policy.html", "flight.html", "flight.png", "train.yaml"}
    for name in names - {"README.md"}:
        assert hashlib.sha256((run / "card" / name).read_bytes()).hexdigest() in text


def test_files_of_a_card_are_the_policy(run, tmp_path, capsys):
    best, shared = load_policy(run).state, load_policy(run / "card" / "policy.safetensors").state
    assert all(torch.equal(x, shared["policy"][name]) for name, x in best["policy"].items())
    assert shared["config"] == {name: best["config"][name] for name in ("task", "env", "model", "algo")}
    with safe_open(run / "card" / "policy.safetensors", "pt") as file:
        assert len(file.keys()) >= len(shared["policy"])
    again = [f"config={run}/card/train.yaml", f"root={tmp_path}", "name=again"]
    assert main(["config", *again]) == 0 and "rollout_steps: 8" in capsys.readouterr().out
    assert main(["card", str(run), *EVAL]) == 2 and "--force" in capsys.readouterr().err


def test_a_pushed_policy_is_evaluated_and_continued(run, hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["push", str(run), "me/drone", "private=true"]) == 0
    assert hub.calls == [("me/drone", True)] and "checkpoint=hf://me/drone" in capsys.readouterr().err
    assert "checkpoint=hf://me/drone" in Path("me/drone/README.md").read_text(encoding="utf-8")
    assert main(["eval", "checkpoint=hf://me/drone@v1", *EVAL, "eval.picture=false"]) == 0
    assert hub.calls[1] == ("me/drone", "policy.safetensors", "v1")
    sha256 = hashlib.sha256(Path("me/drone/policy.safetensors").read_bytes()).hexdigest()
    assert sha256 in capsys.readouterr().out
    assert main(["train", "preset=demo", *SMALL.split(), *RUN.split(), "eval_interval=0", "init=hf://me/drone"]) == 0


def test_a_file_of_the_hub_runs_no_code(hub, tmp_path):
    (tmp_path / "me" / "bad").mkdir(parents=True)
    torch.save({"config": {}, "policy": SimpleNamespace()}, tmp_path / "me" / "bad" / "a.pt")
    with pytest.raises(CheckpointError):
        load_policy("hf://me/bad/a.pt")
    assert hub.calls == [("me/bad", "a.pt", None)]


def test_what_is_missing_is_said_in_a_sentence(run, hub, tmp_path, monkeypatch, capsys):
    shutil.copytree(run, tmp_path / "bare", ignore=shutil.ignore_patterns("card"))
    for argv, said in {
        ("card",): "name a run folder: slipstream card runs/NAME",
        ("push", str(tmp_path / "bare"), "me/drone"): "write it with slipstream card",
        ("push", str(run), "drone"): "name a repository of the hub",
        ("eval", "checkpoint=hf://drone"): "must be hf://OWNER/REPO",
    }.items():
        assert main(list(argv)) == 2 and said in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["push", str(run), "me/drone"]) == 2 and "pip install -e '.[hub]'" in capsys.readouterr().err
