"""The examples run at a small size, in this process, and stay short."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

from slipstream import RolloutStorage
from slipstream.checkpoint import load_checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGER = ("fly_onnx.py", "hidden_velocity.py", "own_env.py", "own_agent.py", "sb3_images.py")


@pytest.fixture
def example(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder; return what it printed."""

    def run(name: str, *words: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(EXAMPLES)
        monkeypatch.setattr(sys, "argv", [name, *words])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("words", "needs", "printed"),
    [
        ("pipelined_plain_loop.py 3", "torch", ["weights 1 update old"]),
        ("pipelined_torchrl.py 3", "torchrl", ["collected with the weights of 1 updates"]),
        ("compressed_plain_loop.py 3", "torch", ["1.8 MB in 0."]),
        ("compressed_torchrl.py 3", "torchrl", ["features [512, 32]"]),
        ("monitor_plain_loop.py --steps 40", "torch", ["learner waited for", "wait for load", "samples/s"]),
        (
            "monitor_torchrl.py --batches 3 --folder run",
            "torchrl gymnasium",
            ["collect", "checkpoint_save", "frames/s"],
        ),
        ("replay_frames.py --folder replay", "torch", ["a slice of 10: (4, 10, 84, 84)"]),
        ("checkpoint_callback.py", "stable_baselines3", ["latest.pt.slip"]),
    ],
)
def test_an_example_prints_its_result(example, words, needs, printed):
    for package in needs.split():
        pytest.importorskip(package)
    text = example(*words.split())
    assert [part for part in printed if part not in text] == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(path.read_text().splitlines()) < (120 if path.name in LONGER else 60)


def test_the_plain_loop_resumes_to_the_same_weights(example, tmp_path):
    example("checkpoint_plain_loop.py", "--steps", "120", "--folder", "complete")
    example("checkpoint_plain_loop.py", "--steps", "60", "--folder", "parts")
    assert "saved" in example("checkpoint_plain_loop.py", "--steps", "120", "--folder", "parts")
    complete, parts = (load_checkpoint(tmp_path / name)["model"] for name in ("complete", "parts"))
    assert all(torch.equal(complete[name], parts[name]) for name in complete)


@pytest.mark.parametrize("name", ["rollouts_plain_loop.py", "rollouts_torchrl.py"])
def test_rollouts_are_saved_and_read(example, tmp_path, name):
    if "torchrl" in name:
        pytest.importorskip("torchrl")
        pytest.importorskip("gymnasium")
    example(name, "--folder", "kept")
    with RolloutStorage(tmp_path / "kept") as storage:
        assert len(storage.iterations()) == 10


def test_own_env_from_training_to_onnx(example, tmp_path):
    pytest.importorskip("onnxruntime")
    text = example("own_env.py", "--frames", "65536")
    assert "distance" in text and list(tmp_path.glob("runs/*/policy.onnx"))
    assert float(re.search(r"the cart is ([\d.]+) m", text).group(1)) < 0.5


def test_own_agent_and_reward_fly_and_train(example, tmp_path):
    text = example("own_agent.py", "--frames", "4096")
    won, lost = map(int, re.search(r"pursuit: (\d+) won, (\d+) lost", text).groups())
    assert won + lost > 10 and list(tmp_path.glob("runs/*/checkpoints/ckpt_*"))


def test_sb3_learns_from_images_in_less_memory(example):
    pytest.importorskip("stable_baselines3")
    text = example("sb3_images.py", "--steps", "700")
    ours, theirs = map(float, re.search(r"([\d.]+) MB, .*; SB3's own buffer: ([\d.]+) MB", text).groups())
    assert ours < 0.4 * theirs and "caught" in text
